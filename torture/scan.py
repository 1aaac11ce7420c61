"""Reading a session's log back into the appends it is made of.

Invariant: every turn names its append when it starts; what lies between its start and its end is that append's, or a
checkpoint taken on the way. Anything else in the log of a tortured session is a problem.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from torture.content import piece

BESIDE = frozenset(
    {
        "created", "configured", "moved", "checkpoint_taken", "vars_patched", "scratchpad_written", "merged", "linked",
        "redacted", "conflict_found", "checkpoint_expired",
    }
)  # fmt: skip
INSIDE = frozenset({"message", "tool_asked", "tool_started", "tool_finished"})
STEPS = ("message", "tool_asked", "tool_started", "tool_finished", "message")


class Group(msgspec.Struct, kw_only=True):
    """One turn as found: which append it names, where, and what each event says (None where it was redacted)."""

    name: str
    session: str
    first: int
    last: int
    pieces: list[str | None]
    kinds: list[str]
    ended: str = ""
    key: str | None = None

    @property
    def stepwise(self) -> bool:
        """Written step by step, so that a crash may leave a part of it."""
        return self.name.startswith("step.")


def groups_of(session: str, events: Sequence[Any], problems: list[str]) -> list[Group]:
    """The turns in these events, in order."""
    found: list[Group] = []
    current: Group | None = None
    for event in events:
        kind, place = event.kind, f"{session}@{event.version}"
        if kind == "turn_started":
            if current is not None:
                problems.append(f"{place}: a turn starts inside {current.name}")
            current = _begun(session, event)
            found.append(current)
        elif kind in INSIDE or kind in {"turn_finished", "turn_interrupted"}:
            if current is None:
                problems.append(f"{place}: {kind} outside of any turn")
                continue
            _extend(current, event, problems)
            current = None if current.ended else current
        elif kind not in BESIDE:
            problems.append(f"{place}: {kind} was written by nobody")
    return found


def _begun(session: str, event: Any) -> Group:
    version = event.version
    return Group(
        name=event.data.model or "",
        session=session,
        first=version,
        last=version,
        pieces=[piece(event.data)],
        kinds=[event.kind],
        key=event.key,
    )


def _extend(group: Group, event: Any, problems: list[str]) -> None:
    if event.kind in {"turn_finished", "turn_interrupted"}:
        group.ended = event.kind
    if not group.stepwise and (event.key != group.key or event.version != group.last + 1):
        problems.append(f"{group.session}@{event.version}: {group.name} is not one append")
    group.last = event.version
    group.kinds.append(event.kind)
    group.pieces.append(None if event.redacted else piece(event.data))
