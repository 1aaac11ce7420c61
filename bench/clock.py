"""Timing: wall clock and CPU of the whole process, threads included.

`time.monotonic` counts for every process of a machine from the same zero on Linux and macOS, so the
readings of two workers can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

Sample = dict[str, float]


class Stopwatch:
    """`with Stopwatch() as watch: …`, then `watch.sample()`."""

    def __enter__(self) -> Self:
        self._cpu = time.process_time()
        self._start = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = time.monotonic()
        self._cpu = time.process_time() - self._cpu

    def sample(self) -> Sample:
        return {"wall": self._end - self._start, "cpu": self._cpu, "start": self._start, "end": self._end}


def repeat(work: Callable[[], Any], times: int, after: Callable[[Any], None] = lambda result: None) -> list[Sample]:
    """One sample per run of `work`; `after` sees each result outside the timing, to check or close it."""
    samples: list[Sample] = []
    for _ in range(times):
        with Stopwatch() as watch:
            result = work()
        samples.append(watch.sample())
        after(result)
    return samples
