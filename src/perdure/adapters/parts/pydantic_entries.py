"""Entries of Pydantic AI as they are written, and what their ids tell. Pure: nothing here reads or writes."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord

from perdure.adapters.parts import pydantic_messages as messages
from perdure.events import Spoken, native

BY: Final = "pydantic_ai"
DAY: Final = 86_400_000_000


# ── ids ──


class EntryId(str):
    """An entry's id that knows in which session it was found."""

    __slots__ = ("session",)
    session: str

    def __new__(cls, id: str, session: str) -> Self:
        made = super().__new__(cls, id)
        made.session = session
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def session_of(entry: str) -> str | None:
    """The session that the id of what others wrote names."""
    return entry[8:44] if entry.startswith("perdure-") and len(entry) > 45 else None


def made_at(entry: str) -> int | None:
    """When an entry was made, in microseconds, if its id tells."""
    plain = entry.replace("-", "")
    if len(entry) != 36 or len(plain) != 32 or plain[12] != "7":
        return None
    try:
        return int(plain[:12], 16) * 1000
    except ValueError:
        return None


def enough(found: Sequence[ConversationRecord], limit: int, active_at: int) -> bool:
    """Whether sessions that were last active before a moment cannot be among the newest."""
    return len(found) >= limit and messages.time_of(active_at + DAY) < found[limit - 1].updated_at


# ── what is written ──


def kept(entry: ConversationEntry) -> dict[str, Any]:
    """An entry as it is written."""
    parent = None if entry.parent_id is None else str(entry.parent_id)
    return {"id": str(entry.id), "parent": parent, "message": messages.as_text(entry.message)}


def written(entry: ConversationEntry) -> list[Spoken]:
    """An entry and what it says to everybody."""
    item = kept(entry)
    return native(BY, item, messages.told(item["message"]))


def arranged(
    head: str | None, entries: Iterable[ConversationEntry]
) -> tuple[list[ConversationEntry], str | None, list[ConversationEntry]]:
    """The new entries that lead to the head, in their order; the entry they go on from; and the other new ones."""
    left = {str(entry.id): entry for entry in entries}
    line: list[ConversationEntry] = []
    while head is not None and head in left:
        line.append(left.pop(head))
        head = line[-1].parent_id
    return line[::-1], head, list(left.values())
