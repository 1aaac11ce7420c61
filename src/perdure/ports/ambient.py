"""The one seam for chance: clock, randomness, sleep."""

from typing import Protocol


class Ambient(Protocol):
    """Where time and chance come from. The real one is `perdure.ambient`, the fixed one `perdure.testing`."""

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        ...

    def random(self, count: int) -> bytes:
        """This many unpredictable bytes."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        ...
