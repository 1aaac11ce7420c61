"""Children: sessions spawned for subtasks. A parent completes only when every child has ended."""

from typing import Any, ClassVar

import msgspec

from perdure.core.session.event import Event, Payload


class Spawned(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A child exists, with this slice of the parent's budget. The envelope's target is the child's id."""

    kind: ClassVar[str] = "spawned"
    child: str = ""
    task: str = ""
    slice: int = 0
    returns: str = ""

    def aim(self) -> str | None:
        return self.child or None


class ChildFinished(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A child ended; its result and what it spent come back."""

    kind: ClassVar[str] = "child_finished"
    redactable: ClassVar[bool] = True
    child: str = ""
    phase: str = ""
    result: Any = None
    spent: int = 0

    def aim(self) -> str | None:
        return self.child or None


class Children(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps: open children by id, with their slices."""

    open: dict[str, int] = {}
    finished: int = 0


def evolve(part: Children, event: Event) -> Children:
    """Fold one event into the children."""
    child = event.target or ""
    match event.data:
        case Spawned(slice=share):
            return msgspec.structs.replace(part, open={**part.open, child: share})
        case ChildFinished():
            left = {name: share for name, share in part.open.items() if name != child}
            return Children(open=left, finished=part.finished + 1)
        case _:
            return part
