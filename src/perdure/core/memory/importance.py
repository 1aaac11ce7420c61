"""How much a memory counts, by its age, by how often it was of use, and by what its writer gave it."""

from math import exp
from typing import Final

from perdure.core.memory.parts import Memory

RECENCY: Final = 0.3
ACCESS: Final = 0.3
EXPLICIT: Final = 0.4
FADES: Final = 30.0
"""Days in which what age alone gives falls to a third."""
OFTEN: Final = 10
"""Uses after which more of them count no more."""
USEFUL: Final = 0.02
"""What each time it was cited adds, and each time it was shown for nothing takes away."""
FEEDBACK: Final = 0.2
"""As much as feedback can add or take away."""
DAY: Final = 86_400_000_000
_UNITS: Final = ((365 * DAY, "y"), (30 * DAY, "mo"), (DAY, "d"), (DAY // 24, "h"), (DAY // 1440, "m"))


def composite(memory: Memory, now: int) -> float:
    """Between 0 and 1: recency, use and the writer's importance, blended."""
    days = max(0, now - memory.recorded_at) / DAY
    used = min(memory.accesses / OFTEN, 1.0)
    return RECENCY * exp(-days / FADES) + ACCESS * used + EXPLICIT * memory.importance


def weight(memory: Memory, now: int) -> float:
    """The composite with what provenance taught: cited memories count more, those that were shown for nothing less."""
    learned = max(-FEEDBACK, min(FEEDBACK, USEFUL * (memory.cited - memory.unused)))
    return max(0.0, min(1.0, composite(memory, now) + learned))


def age(memory: Memory, now: int) -> str:
    """How old it is, in a few letters: `2d`, `5h`, `now`."""
    passed = max(0, now - memory.recorded_at)
    return next((f"{passed // unit}{letter}" for unit, letter in _UNITS if passed >= unit), "now")
