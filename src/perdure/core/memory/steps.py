"""What a consolidation plans: steps, each of one phase, and what is doubtful."""

from typing import Final, Literal, TypeAlias

import msgspec

Phase: TypeAlias = Literal["newer", "same", "rank", "prune"]
PHASES: Final[tuple[Phase, ...]] = ("newer", "same", "rank", "prune")


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to do: `id` gives way to `by`, or gets another importance, or is archived; and why."""

    phase: Phase
    id: str
    by: str = ""
    importance: float | None = None
    reason: str = ""


class Doubt(msgspec.Struct, frozen=True):
    """Two memories that may say the same, or one what is no longer true; neither rules nor weights can tell."""

    older: str
    newer: str


class Planned(msgspec.Struct, frozen=True):
    """The steps of a phase in their order, and what is doubtful."""

    steps: tuple[Step, ...] = ()
    doubts: tuple[Doubt, ...] = ()
