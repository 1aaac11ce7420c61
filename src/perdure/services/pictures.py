"""Pictures and files that are said as blobs, fetched just before a model is asked: the log keeps where they are.

Invariant: a context holds no more bytes of blobs than `MOST`; what was said last comes first. What is gone or too large
is told in words in its place, so a conversation goes on without it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from perdure.core.errors import BlobMissing, Refused, Shredded, Tampered, TooLarge
from perdure.core.session.ids import SessionId
from perdure.core.talk.content import blob_at
from perdure.core.talk.parts import Block, Call, Foreign, Media, Result, Said, Text, Thought

if TYPE_CHECKING:
    from perdure.services.blobs import Blobs

MOST: Final = 24 << 20
"""Bytes of blobs in one context: what providers take of one request."""
KEPT: Final = 64 << 20
"""Bytes of blobs that are kept at hand."""
_UNTOLD: Final = ("", "application/octet-stream")
_SIGNS: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_WEBP: Final = (b"RIFF", b"WEBP")


class Pictures:
    """The blobs that contexts point to, kept per session until it is forgotten."""

    def __init__(self, blobs: "Callable[[], Blobs]") -> None:
        self._blobs = blobs
        self._kept: OrderedDict[tuple[SessionId, str], Media] = OrderedDict()
        self._bytes = 0

    async def fetched(self, session: SessionId, messages: tuple[Said, ...]) -> tuple[Said, ...]:
        """The messages with the content of all blobs that are there."""
        wanted = dict.fromkeys(media.url for media in _pointing(messages))
        if not wanted:
            return messages
        found: dict[str, Media | str] = {}
        room = MOST
        for url in wanted:
            media = await self._one(session, url, room)
            found[url] = media
            room -= len(media.data) if isinstance(media, Media) else 0
        return tuple(
            msgspec.structs.replace(said, blocks=tuple(_shown(block, found) for block in said.blocks))
            if any(_pointing((said,)))
            else said
            for said in messages
        )

    async def _one(self, session: SessionId, url: str, room: int) -> Media | str:
        """A blob's content, or why it is not there."""
        known = self._kept.get((session, url))
        if known is not None and len(known.data) <= room:
            self._kept.move_to_end((session, url))
            return known
        try:
            blobs = self._blobs()
            info = await blobs.stat(url)
            data = await blobs.get(url, limit=room)
        except TooLarge:
            return "is too large to be shown beside the others"
        except (BlobMissing, Shredded):
            return "is not kept any more"
        except (Tampered, Refused):
            return "cannot be read"
        told = _sign(data) if info.media_type in _UNTOLD else info.media_type
        media = Media(media_type=told, data=data, name=info.name)
        self._keep((session, url), media)
        return media

    def _keep(self, place: tuple[SessionId, str], media: Media) -> None:
        self._drop(place)
        self._kept[place] = media
        self._bytes += len(media.data)
        while self._bytes > KEPT:
            self._drop(next(iter(self._kept)))

    def _drop(self, place: tuple[SessionId, str]) -> None:
        gone = self._kept.pop(place, None)
        self._bytes -= 0 if gone is None else len(gone.data)

    def forget(self, session: SessionId | None) -> None:
        """Drop what is kept of a session, or of all."""
        for place in [place for place in self._kept if session in (None, place[0])]:
            self._drop(place)


_WORDS: Final = frozenset({Text, Thought, Call})


def may_point(said: Said) -> bool:
    """Whether a message may hold more than words: most do not, and a long conversation has many."""
    return any(type(block) not in _WORDS for block in said.blocks)


def _pointing(messages: tuple[Said, ...]) -> Iterator[Media]:
    """The media that lie in blobs, the last one first."""
    for said in reversed(messages):
        for block in reversed(said.blocks):
            inner: Iterable[Block] = reversed(block.content) if isinstance(block, Result) else (block,)
            yield from (item for item in inner if isinstance(item, Media) and blob_at(item) is not None)


def _shown(block: Block, found: dict[str, Media | str]) -> Block:
    if isinstance(block, Result):
        return msgspec.structs.replace(block, content=tuple(_one(item, found) for item in block.content))
    return _one(block, found) if isinstance(block, Media) else block


def _one(block: Text | Media | Foreign, found: dict[str, Media | str]) -> Text | Media | Foreign:
    if not isinstance(block, Media) or (media := found.get(block.url)) is None:
        return block
    kind, _, form = block.media_type.partition("/")
    kind = kind if form == "*" else "file"
    if isinstance(media, str):
        return Text(text=f"(the {kind} {block.name or block.url} {media})", cached=block.cached)
    if not media.data:
        return Text(text=f"(the {kind} {block.name or block.url} is empty)", cached=block.cached)
    told = media.media_type or {"image": "image/png"}.get(kind, "application/octet-stream")
    name = block.name or media.name
    return msgspec.structs.replace(block, media_type=told, data=media.data, url="", name=name)


def _sign(data: bytes) -> str:
    """The media type that content itself tells, or nothing."""
    if (data[:4], data[8:12]) == _WEBP:
        return "image/webp"
    return next((kind for sign, kind in _SIGNS if data.startswith(sign)), "")
