"""What a consolidation plans: steps, each of one phase, and what is doubtful."""

from collections.abc import Collection, Mapping, Sequence
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
    """Two memories that may say the same, or one what is no longer true; neither rules nor weights can tell for sure.
    `otherwise` is what they would do if nobody says more.
    """

    older: str
    newer: str
    otherwise: Step | None = None


class Apart(msgspec.Struct, frozen=True):
    """What somebody took back: steps (id, and by whom or which phase), and of each memory those that a run had made one
    with it, whichever of them was to stay. And pairs that a model was `asked` about and that were left as they are.
    """

    steps: frozenset[tuple[str, str]] = frozenset()
    merged: Mapping[str, Sequence[Collection[str]]] = {}
    asked: frozenset[tuple[str, str]] = frozenset()

    def forbids(self, step: Step) -> bool:
        """Whether it would do again what was taken back, or what a model was asked about."""
        return (
            (step.id, step.by or step.phase) in self.steps
            or self._was_asked(step.id, step.by)
            or (step.phase == "same" and self._were_one(step.id, step.by))
        )

    def settles(self, doubt: Doubt) -> bool:
        """Whether nobody needs to be asked any more."""
        one, other = doubt.older, doubt.newer
        taken = (one, other) in self.steps or (other, one) in self.steps
        return taken or self._was_asked(one, other) or self._were_one(one, other)

    def _was_asked(self, one: str, other: str) -> bool:
        return (one, other) in self.asked or (other, one) in self.asked

    def _were_one(self, one: str, other: str) -> bool:
        return any(other in together for together in self.merged.get(one, ()))


NOTHING: Final = Apart()


class Planned(msgspec.Struct, frozen=True):
    """The steps of a phase in their order, and what is doubtful."""

    steps: tuple[Step, ...] = ()
    doubts: tuple[Doubt, ...] = ()
