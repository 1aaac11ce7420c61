"""Children: sessions spawned for subtasks. A parent completes only when every child has ended."""

from typing import Any, ClassVar

import msgspec

from perdure.core.session.event import Event, Payload
from perdure.core.session.values import storable


class Spawned(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A child exists, or will: all that it is begun with is here. `slice` is what it has of the parent's budget, `node`
    whoever carries it on. The envelope's target is the child's id.
    """

    kind: ClassVar[str] = "spawned"
    redactable: ClassVar[bool] = True
    child: str = ""
    task: str = ""
    slice: int = 0
    returns: str = ""
    context: str = ""
    model: str = ""
    max_tokens: int = 0
    tools: tuple[str, ...] | None = None
    strategy: str = ""
    node: str = ""

    def aim(self) -> str | None:
        return self.child or None


class ChildFinished(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A child ended; its result, or what went wrong, and what it spent come back."""

    kind: ClassVar[str] = "child_finished"
    redactable: ClassVar[bool] = True
    child: str = ""
    phase: str = ""
    result: Any = None
    spent: int = 0
    error: str = ""

    def aim(self) -> str | None:
        return self.child or None


class Children(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps: open children by id, with their slices, and what the others spent."""

    open: dict[str, int] = {}
    finished: int = 0
    spent: int = 0


def evolve(part: Children, event: Event) -> Children:
    """Fold one event into the children."""
    child = event.target or ""
    match event.data:
        case Spawned(slice=share):
            return msgspec.structs.replace(part, open={**part.open, child: share})
        case ChildFinished(spent=spent):
            left = {name: share for name, share in part.open.items() if name != child}
            return Children(open=left, finished=part.finished + 1, spent=storable(part.spent + max(0, spent)))
        case _:
            return part
