"""What a search finds: the words people and models said, and nothing else.

Every store folds and splits text with these functions, so the same search finds the same sessions everywhere.
Invariant: splitting is stable, `words(" ".join(words(text))) == words(text)`, so an index may keep either form.
"""

import re
from collections.abc import Iterator
from typing import Any
from unicodedata import normalize

from perdure.core.session import kinds
from perdure.core.session.agents import RoomMessage
from perdure.core.session.event import Payload
from perdure.core.session.origin import Configured, Created
from perdure.core.session.record import Record
from perdure.core.session.steering import FollowedUp, Steered
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, TurnFinished, TurnInterrupted, TurnStarted

_WORD = re.compile(r"[^\W_]+")
_SPEAKING = frozenset(
    item.kind
    for item in (
        Configured,
        Created,
        FollowedUp,
        Message,
        RoomMessage,
        Steered,
        ToolAsked,
        ToolFinished,
        TurnFinished,
        TurnInterrupted,
        TurnStarted,
    )
)


def fold(text: str) -> str:
    """The text as it is compared: without case, and in one spelling where Unicode knows several."""
    if text.isascii():
        return text.lower()
    return normalize("NFKC", normalize("NFKC", text).casefold())


def words(text: str) -> list[str]:
    """The folded words of a text in their order: runs of letters and digits in any script."""
    return _WORD.findall(fold(text))


def text_of(payload: Payload) -> str:
    """What the payload says, one piece a line; empty for kinds that say nothing. Scratchpads are not speech."""
    return "\n".join(_pieces(payload))


def text_of_record(record: Record) -> str:
    """What the events of a record say; redacted ones are silent. Raises `Damaged` when the data does not decode."""
    return "\n".join(
        said
        for entry in record.entries
        if entry.blind is not None
        and entry.kind in _SPEAKING
        and (said := text_of(kinds.decode(entry.kind, entry.kind_version, entry.data)))
    )


def _pieces(payload: Payload) -> Iterator[str]:
    match payload:
        case Message() | TurnStarted() | TurnFinished():
            yield from _content(payload.content)
        case ToolAsked():
            yield from _strings(payload.arguments)
        case ToolFinished():
            yield from _strings(payload.result)
            yield from _strings(payload.error)
        case RoomMessage() | Steered() | FollowedUp() | TurnInterrupted():
            yield from _strings(payload.text)
        case Created() | Configured():
            yield from _strings(payload.title)
        case _:
            return


def _content(content: Any) -> Iterator[str]:
    """A message's text, or that of its blocks. Only known fields are read: an image's base64 is not text."""
    match content:
        case str():
            yield from _strings(content)
        case list() | tuple():
            for block in content:
                yield from _content(block)
        case dict():
            yield from _strings(content.get("text"))
            yield from _content(content.get("content"))
            yield from _strings(content.get("input"))
        case _:
            return


def _strings(value: Any) -> Iterator[str]:
    """Every non-empty string inside a value; keys are structure, not text."""
    match value:
        case str():
            if value:
                yield value
        case list() | tuple():
            for item in value:
                yield from _strings(item)
        case set() | frozenset():
            yield from sorted(item for item in value if isinstance(item, str) and item)
        case dict():
            for item in value.values():
                yield from _strings(item)
        case _:
            return
