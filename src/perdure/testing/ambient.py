"""An ambient without surprises: time stands still until told otherwise, chance repeats itself.

Invariant: the same calls in the same order give the same answers, on every machine.
"""

from collections.abc import Generator
from hashlib import sha256
from threading import Lock
from types import coroutine
from typing import Final

from perdure.waiting import blocking

NOON: Final = 1_767_268_800_000_000
"""The first of January 2026, 12:00 UTC, in microseconds."""
_MICROSECONDS = 1_000_000


class FixedAmbient:
    """A `perdure.ports.ambient.Ambient` for tests. Two with different seeds never give out the same bytes."""

    def __init__(self, now: int = NOON, seed: bytes = b"perdure") -> None:
        self._now = now
        self._seed = seed
        self._drawn = 0
        self._lock = Lock()

    def now(self) -> int:
        """The time it was last set to."""
        return self._now

    def advance(self, seconds: float) -> int:
        """Let time pass; the new time. It never runs backwards."""
        if seconds < 0:
            raise ValueError("time does not run backwards; advance by zero seconds or more")
        with self._lock:
            self._now += round(seconds * _MICROSECONDS)
            return self._now

    def random(self, count: int) -> bytes:
        """Bytes that look random: SHA-256 of the seed and a counter."""
        found = b""
        while len(found) < count:
            with self._lock:
                self._drawn += 1
                drawn = self._drawn
            found += sha256(self._seed + drawn.to_bytes(8, "big")).digest()
        return found[:count]

    async def sleep(self, seconds: float) -> None:
        """Advance the clock instead of waiting; other tasks get their turn, as they would in a real sleep."""
        self.advance(seconds)
        if not blocking():
            await _one_turn()


@coroutine
def _one_turn() -> Generator[None, None, None]:
    yield
