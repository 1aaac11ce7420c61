"""The real ambient: the machine's clock and randomness. The only module that may ask for them."""

import os
import time
from threading import Lock

from perdure.core.session.ids import RANDOM_BYTES, uuid7
from perdure.ports.ambient import Ambient
from perdure.waiting import blocking


class RealAmbient:
    """Time that never runs backwards inside one process, and the kernel's randomness."""

    def __init__(self) -> None:
        self._latest = 0

    def now(self) -> int:
        """Microseconds since 1970; a wall clock set back repeats the latest value instead of falling."""
        latest = max(time.time_ns() // 1000, self._latest)
        self._latest = latest
        return latest

    def random(self, count: int) -> bytes:
        """Bytes from the kernel."""
        return os.urandom(count)

    async def sleep(self, seconds: float) -> None:
        """Sleep this thread or this task, whichever is waiting."""
        if blocking():
            time.sleep(seconds)  # noqa: ASYNC251 - in a blocking call this thread is the one to wait
            return
        import asyncio

        await asyncio.sleep(seconds)


class Ids:
    """Fresh UUIDv7s, each greater than the last one this object gave out."""

    def __init__(self, ambient: Ambient) -> None:
        self._ambient = ambient
        self._lock = Lock()
        self._last = b""

    def fresh(self, at: int, random: bytes | None = None) -> bytes:
        """The next id. Within one millisecond, order is kept by counting on from the last one."""
        made = uuid7(at // 1000, random or self._ambient.random(RANDOM_BYTES))
        with self._lock:
            if made[:6] <= self._last[:6]:
                made = (int.from_bytes(self._last, "big") + 0x1_0000).to_bytes(16, "big")
            self._last = made
        return made
