"""What every tool that runs here has in common: what it is told, what it answers, and how much of that is kept.

Invariant: a bounded outcome can be stored and sent. Its texts have bytes, together no more than the limit, and where
something was left out there is a mark that says so.
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.core.talk.content import json_text
from perdure.core.talk.parts import Foreign, Media, Result, Text, Tool

Content: TypeAlias = Text | Media | Foreign
MAX_TEXT: Final = 256 * 1024
MAX_MEDIA: Final = 8 * 1024 * 1024
MAX_BLOCKS: Final = 1000
MARK: Final = 256
"""Bytes of the limit on texts that are set aside for marks."""
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool may know of the call it runs for. `key` is the same when the same call is tried again."""

    key: str = ""
    session: str = ""
    turn: int = 0
    call: str = ""
    seconds: float = 60.0
    """How long it has."""
    again: bool = False
    """Whether running it twice does no harm."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running a tool."""

    content: tuple[Content, ...] = ()
    failed: bool = False


class Runner(Protocol):
    """One tool and how it is run. Whatever `run` raises is the tool's failure."""

    tool: Tool

    async def run(self, arguments: dict[str, Any], context: Context) -> Outcome:
        """Run it under asyncio; whoever cancels that stops the tool, as far as it can be stopped."""
        ...


def outcome_of(answer: Any) -> Outcome:
    """What a function answered: a text, blocks or a `Result` as they are, the bytes of an image, None, or data."""
    if isinstance(answer, Outcome):
        return answer
    if isinstance(answer, Result):
        return Outcome(content=answer.content, failed=answer.failed)
    if isinstance(answer, list | tuple) and answer and all(isinstance(item, Text | Media | Foreign) for item in answer):
        return Outcome(content=tuple(answer))
    return Outcome(content=_one(answer))


def failure(words: str) -> Outcome:
    """A failure in these words."""
    return Outcome(content=(Text(text=words),), failed=True)


def _one(answer: Any) -> tuple[Content, ...]:
    if answer is None:
        return ()
    if isinstance(answer, Text | Media | Foreign):
        return (answer,)
    if isinstance(answer, str):
        return (Text(text=str(answer)),) if answer else ()
    if isinstance(answer, bytes | bytearray):
        return (_media(bytes(answer)),)
    return (Text(text=_JSON.encode(answer).decode()),)


def _media(data: bytes) -> Media:
    for start, kind in _MAGIC:
        if data.startswith(start):
            return Media(media_type=kind, data=data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Media(media_type="image/webp", data=data)
    raise Invalid("the tool answered bytes that are no known image or PDF; let it answer a Media with its media_type")


def _foreign_data(value: Any) -> Any:
    """Data that only its own class can spell: a pydantic model."""
    dump = getattr(type(value), "model_dump", None)
    if callable(dump):
        return dump(value, mode="json")
    raise Invalid(f"the tool answered a {shown(value)}, which is no data; let it answer text, data or blocks")


_JSON: Final = msgspec.json.Encoder(enc_hook=_foreign_data)


# ── bounds ──


def bounded(content: Iterable[Content], max_text: int = MAX_TEXT, max_media: int = MAX_MEDIA) -> tuple[Content, ...]:
    """As much of it as may be kept: texts are cut, what cannot be cut is left out, and a mark says so."""
    left, room, missed = max(0, max_text - MARK), max_media, 0
    found: list[Content] = []
    for block in content:
        block = _fitting(block, left, room)
        if len(found) >= MAX_BLOCKS or (left <= 0 and not isinstance(block, Media)):
            missed += 1
            continue
        match block:
            case Text():
                text, size = _cut(_sound(block.text), left)
                left -= size
                found.append(Text(text=text))
            case Media():
                room -= _weight(block)
                found.append(block)
            case Foreign():
                left -= _weight(block)
                found.append(block)
    return (*found, Text(text=f"[left out: {missed} more blocks]")) if missed else tuple(found)


def _fitting(block: Content, left: int, room: int) -> Content:
    """The block, or a mark in its place when it is too large and cannot be cut."""
    if isinstance(block, Text) or (size := _weight(block)) <= (room if isinstance(block, Media) else left):
        return block
    what = block.media_type[:80] if isinstance(block, Media) else "a block"
    return Text(text=f"[left out: {what} of {size} bytes; too large to keep]")


def _weight(block: Media | Foreign) -> int:
    if isinstance(block, Media):
        return len(block.data) + len(block.url) + len(block.name)
    return len(json_text(block.block).encode())


def _sound(text: str) -> str:
    """The text without half characters, which have no bytes."""
    return text.encode("utf-8", "replace").decode()


def _cut(text: str, limit: int) -> tuple[str, int]:
    """As much of a text as fits into so many bytes, and what it takes."""
    data = text.encode()
    if len(data) <= limit:
        return text, len(data)
    kept = data[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut: the first {len(kept.encode())} of {len(data)} bytes]", limit
