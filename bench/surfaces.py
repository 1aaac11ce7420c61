"""A thousand surfaces on one session: how many events they are told a second, and what each costs in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.edge.http.crowd import UNHURRIED, crowd, served

SURFACES = 1000
APPENDS = 200


def surfaces(repetitions: int) -> dict[str, list[float]]:
    """Both figures, once per repetition; each surface is checked to have been told everything, in order."""
    import uvloop

    found: dict[str, list[float]] = {"deliveries/s": [], "kB of memory per surface": []}
    for number in range(1, repetitions + 1):
        print(f"surfaces, repetition {number} of {repetitions}", flush=True)
        with tempfile.TemporaryDirectory() as folder, served(Path(folder), *UNHURRIED) as here:
            figures = uvloop.run(crowd(here, SURFACES, APPENDS))
        found["deliveries/s"].append(figures.per_second)
        found["kB of memory per surface"].append(figures.bytes_per_surface / 1000)
    return found
