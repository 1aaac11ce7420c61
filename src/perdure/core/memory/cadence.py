"""When a space is to be consolidated: by its plan's cadence, and by the runs there were."""

from typing import Final

from perdure.core.memory.importance import DAY
from perdure.core.memory.plans import plan_of
from perdure.core.memory.shelf import Run, Shelf

OPEN: Final = ("began", "stepped")
"""Phases of a run that is not over."""
FRESH: Final = 180_000_000
"""Microseconds after its last step during which a run is taken to be under way somewhere: longer than a question may
take.
"""
_PERIODS: Final = {"daily": DAY, "weekly": 7 * DAY}


def open_run(shelf: Shelf) -> Run | None:
    """The run that is not over, if there is one."""
    return next((run for run in reversed([*shelf.runs.values()]) if run.phase in OPEN), None)


def due_at(shelf: Shelf, fresh: int = FRESH) -> int | None:
    """When the next run is due; None while there is nothing to consolidate or the plan wants none. One that stopped is
    due as soon as nobody seems to be at it.
    """
    period = _PERIODS.get(plan_of(shelf.plan).cadence)
    if period is None or not shelf.count():
        return None
    stopped = open_run(shelf)
    if stopped is not None:
        return stopped.at + fresh
    if shelf.runs:
        return max(run.began_at for run in shelf.runs.values()) + period
    return next(iter(shelf)).recorded_at + period
