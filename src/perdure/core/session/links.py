"""How sessions hang together: typed links, shares, merges and the conflicts a person has yet to settle."""

from enum import Enum
from typing import Any, ClassVar

import msgspec

from perdure.core.session.event import Event, Payload


class Relation(Enum):
    """What one session is to another."""

    PARENT_CHILD = "parent_child"
    PREDECESSOR_SUCCESSOR = "predecessor_successor"
    PEER = "peer"
    REFERENCE = "reference"


class Linked(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A link to another session, or its removal."""

    kind: ClassVar[str] = "linked"
    callers: ClassVar[bool] = True
    other: str = ""
    relation: Relation | None = None
    removed: bool = False

    def aim(self) -> str | None:
        return self.other or None


class Shared(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of this session that another one may see."""

    kind: ClassVar[str] = "shared"
    other: str = ""
    fields: tuple[str, ...] = ()
    access: str = ""
    live: bool = False
    revoked: bool = False


class Merged(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Another session's vars and scratchpad were merged into this one."""

    kind: ClassVar[str] = "merged"
    source: str = ""
    source_version: int = 0
    base_version: int = 0
    policy: str = ""
    settles: str | None = None


class ConflictFound(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Both sides changed the same paths; a person decides."""

    kind: ClassVar[str] = "conflict_found"
    redactable: ClassVar[bool] = True
    id: str = ""
    source: str = ""
    source_version: int = 0
    base_version: int = 0
    conflicts: tuple[dict[str, Any], ...] = ()

    def aim(self) -> str | None:
        return self.id or None


class PendingConflict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conflict waiting for its answer."""

    source: str
    source_version: int
    base_version: int
    conflicts: tuple[dict[str, Any], ...] = ()


class Links(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps: links by other session, how far others were merged, conflicts by id."""

    others: dict[str, Relation] = {}
    merges: int = 0
    merged: dict[str, int] = {}
    conflicts: dict[str, PendingConflict] = {}


def evolve(part: Links, event: Event) -> Links:
    """Fold one event into the links."""
    replace = msgspec.structs.replace
    data = event.data
    match data:
        case Linked(relation=Relation() as relation):
            others = {name: kind for name, kind in part.others.items() if name != data.other}
            return replace(part, others=others if data.removed else {**others, data.other: relation})
        case ConflictFound():
            pending = PendingConflict(
                source=data.source,
                source_version=data.source_version,
                base_version=data.base_version,
                conflicts=data.conflicts,
            )
            return replace(part, conflicts={**part.conflicts, event.target or "": pending})
        case Merged():
            left = {name: item for name, item in part.conflicts.items() if item.source != data.source}
            merged = {**part.merged, data.source: data.source_version}
            return replace(part, merges=part.merges + 1, merged=merged, conflicts=left)
        case _:
            return part
