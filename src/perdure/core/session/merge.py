"""Three-way merge: two changed documents and the one both started from become one.

Maps merge key by key and sets element by element. A list merges if one side left it alone, or if both only appended
to it: then ours' additions come first, theirs' follow. (That order is the one thing that changes when the sides are
swapped.) Anything else that both sides changed differently is a conflict, and so is deleting what the other changed;
absent is not None. Two maps or sets that both sides created under the same new key merge as if they had been empty.

A policy settles conflicts: the later side wins, a named side wins, or the base's value stays and the conflict is
listed for a person, who settles it with `resolve`.

Laws: merge(x, x, x) is x; merge(b, o, b) is o; merge(b, b, t) is t; merge(b, x, x) is x.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, assert_never

from msgspec import UNSET, Struct, UnsetType

from perdure.core.errors import Invalid, MergeConflict, TooDeep
from perdure.core.session.packing import encode
from perdure.core.session.values import DEFAULT_LIMITS, Path, Value, exact, path_text, same

ABSENT = UNSET
"""What a side holds at a path where it has nothing."""

_LISTS = (list, tuple)
_SETS = (set, frozenset)


class LastWriterWins(Struct, frozen=True, tag="last_writer_wins"):
    """The side that wrote later wins; at the same time, the one with the greater canonical bytes."""

    ours_at: int
    theirs_at: int


class Priority(Struct, frozen=True, tag="priority"):
    """The named side wins."""

    winner: Literal["ours", "theirs"]


class Escalate(Struct, frozen=True, tag="escalate"):
    """Nobody wins: the base's value stays until somebody decides."""


Policy: TypeAlias = LastWriterWins | Priority | Escalate


class Conflict(Struct, frozen=True, kw_only=True):
    """Both sides changed `path` differently. A side is ABSENT where it has nothing there."""

    path: Path
    base: Any | UnsetType = ABSENT
    ours: Any | UnsetType = ABSENT
    theirs: Any | UnsetType = ABSENT


class Merged(Struct, frozen=True):
    """The outcome. `conflicts` wait for a decision, `overridden` were decided by the policy, at one side's cost."""

    value: Any
    conflicts: tuple[Conflict, ...] = ()
    overridden: tuple[Conflict, ...] = ()

    def final(self) -> Any:
        """Give the value. Raises `MergeConflict`, with the paths, while something waits for a decision."""
        if self.conflicts:
            paths = [path_text(conflict.path) for conflict in self.conflicts]
            raise MergeConflict(
                f"both sides changed {', '.join(paths[:5])}{' …' if len(paths) > 5 else ''}; settle them with resolve",
                paths=paths,
            )
        return self.value


class Use(Struct, frozen=True):
    """A decision for neither side but for this value; ABSENT removes the key."""

    value: Value | UnsetType


Choice: TypeAlias = Literal["ours", "theirs", "base"] | Use


def merge(base: Value, ours: Value, theirs: Value, policy: Policy) -> Merged:
    """Merge two checked values with their common ancestor. Raises nothing on checked values."""
    run = _Run(policy)
    try:
        value = run.merge(base, ours, theirs, ())
    except RecursionError as error:
        limit = DEFAULT_LIMITS.max_depth
        raise TooDeep(f"the values are nested deeper than {limit} levels; nest less", limit=limit) from error
    return Merged(value, tuple(run.conflicts), tuple(run.overridden))


class _Run:
    """One merge under one policy, and the conflicts it met."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.conflicts: list[Conflict] = []
        self.overridden: list[Conflict] = []

    def merge(self, base: Any, ours: Any, theirs: Any, path: Path) -> Any:
        if ours is theirs or theirs is base:
            return ours
        if ours is base:
            return theirs
        if type(ours) is dict and type(theirs) is dict and (type(base) is dict or base is ABSENT):
            return self._merge_maps({} if base is ABSENT else base, ours, theirs, path)
        if _same(ours, theirs) or _same(base, theirs):
            return ours
        if _same(base, ours):
            return theirs
        if type(ours) in _SETS and type(theirs) in _SETS and (type(base) in _SETS or base is ABSENT):
            found = _merge_sets(frozenset() if base is ABSENT else base, ours, theirs)
            if found is not None:
                return found
        if type(ours) in _LISTS and type(theirs) in _LISTS and type(base) in _LISTS:
            length = len(base)
            if _same(list(ours[:length]), list(base)) and _same(list(theirs[:length]), list(base)):
                return [*ours, *theirs[length:]]
        return self._settle(base, ours, theirs, path)

    def _merge_maps(self, base: Any, ours: Any, theirs: Any, path: Path) -> dict[str, Any]:
        merged = {}
        for key in sorted(base.keys() | ours.keys() | theirs.keys()):
            sides = (base.get(key, ABSENT), ours.get(key, ABSENT), theirs.get(key, ABSENT))
            value = self.merge(*sides, (*path, key))
            if value is not ABSENT:
                merged[key] = value
        return merged

    def _settle(self, base: Any, ours: Any, theirs: Any, path: Path) -> Any:
        conflict = Conflict(path=path, base=base, ours=ours, theirs=theirs)
        policy = self.policy
        if isinstance(policy, Escalate):
            self.conflicts.append(conflict)
            return base
        self.overridden.append(conflict)
        if isinstance(policy, Priority):
            return ours if policy.winner == "ours" else theirs
        if isinstance(policy, LastWriterWins):
            ranks = ((policy.ours_at, _bytes(ours)), (policy.theirs_at, _bytes(theirs)))
            return ours if ranks[0] > ranks[1] else theirs
        assert_never(policy)


def _merge_sets(base: Any, ours: Any, theirs: Any) -> frozenset[Any] | None:
    """Keep what nobody removed and add what anybody added; None if Python cannot hold the outcome (1 beside True)."""
    kept = {exact(item): item for item in (*base, *ours, *theirs)}
    before, mine, other = ({exact(item) for item in side} for side in (base, ours, theirs))
    wanted = (before & mine & other) | (mine - before) | (other - before)
    found = frozenset(kept[key] for key in wanted)
    return found if len(found) == len(wanted) else None


def _same(a: Any, b: Any) -> bool:
    if a is ABSENT or b is ABSENT:
        return a is b
    return same(a, b)


def _bytes(side: Any) -> bytes:
    return b"" if side is ABSENT else encode(side)


def resolve(merged: Merged, choices: Mapping[Path, Choice]) -> Merged:
    """Settle escalated conflicts, all or some; what is not chosen keeps waiting.

    Raises `Invalid` if a path is not among the conflicts, or leads through something that is no map any more.
    """
    waiting = {conflict.path: conflict for conflict in merged.conflicts}
    value: Any = merged.value
    for path, choice in choices.items():
        conflict = waiting.pop(path, None)
        if conflict is None:
            raise Invalid(f"at {path_text(path)}: nothing waits for a decision here; choose from the conflicts")
        value = _put(value, path, choice.value if isinstance(choice, Use) else getattr(conflict, choice))
    return Merged(value, tuple(waiting.values()), merged.overridden)


def _put(value: Any, path: Path, chosen: Any) -> Any:
    """Give `value` with `chosen` at `path`, copying the maps on the way (conflicts never lie inside lists).

    The value may have moved on since the conflict: a map that has gone is made again, unless nothing goes into it.
    """
    if not path:
        return chosen
    if type(value) is not dict:
        raise Invalid(f"at {path_text(path)}: what the conflict lay in is no map any more; merge again", path=path)
    step, rest = path[0], path[1:]
    copy = dict(value)
    if chosen is ABSENT and (step not in copy or not rest):
        copy.pop(step, None)
    else:
        copy[step] = _put(copy.get(step, {}), rest, chosen) if rest else chosen
    return copy
