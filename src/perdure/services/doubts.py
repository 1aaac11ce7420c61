"""Bundles in doubt: whoever may leave one behind that nobody should have notes it in cold storage first.

A bundle is written before a session points to it, and taken away after content was destroyed in the store; a crash in
between leaves one that no session points to. The note tells whoever comes next which to look at.

Invariant: a bundle goes only if its session is gone, or stands where nothing can point to it any more.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

from perdure.core.errors import BundleMissing, Damaged
from perdure.core.session.ids import SessionId
from perdure.ports.ambient import Ambient
from perdure.ports.cold import Cold
from perdure.ports.store import Store

FOLDER: Final = "doubts"
_NONCE: Final = 8
_LARGEST: Final = 1 << 20


class Doubt(msgspec.Struct, frozen=True):
    """A note: the session, and the names of its bundles in doubt."""

    session: SessionId
    names: tuple[str, ...]


_note = msgspec.json.Decoder(Doubt).decode


class Doubts:
    """Noting and settling them."""

    def __init__(self, store: Store, cold: Cold, ambient: Ambient) -> None:
        self._store = store
        self._cold = cold
        self._ambient = ambient

    async def note(self, session: SessionId, names: Iterable[str]) -> None:
        """Note bundles of a session."""
        note = f"{FOLDER}/{session}/{self._ambient.random(_NONCE).hex()}"
        await self._cold.put(note, _once(msgspec.json.encode(Doubt(session, tuple(names)))))

    async def note_all(self, session: SessionId) -> None:
        """Note every bundle a session has, before it loses what they hold; refused while they cannot be seen."""
        await self._cold.reach()
        names = [kept.name async for kept in self._cold.list(session)]
        if names:
            await self.note(session, names)

    async def settle(self, session: SessionId | None = None) -> None:
        """Take away the bundles in doubt that nothing can point to any more, and then the notes: of one session, or
        all that a crash left behind.
        """
        folder = FOLDER if session is None else f"{FOLDER}/{session}"
        for note in [kept.name async for kept in self._cold.list(folder)]:
            await self._settle(note)

    async def _settle(self, note: str) -> None:
        from perdure.services.bundles import name_of

        doubt = await self._read(note)
        if doubt is None:
            return
        head = await self._store.head(doubt.session)
        wanted = set() if head is None else {head.row.cold, name_of(head)}
        for name in doubt.names:
            if name not in wanted:
                await self._cold.delete(name)
        if wanted.isdisjoint(doubt.names) or (head is not None and head.row.cold in doubt.names):
            await self._cold.delete(note)

    async def _read(self, note: str) -> Doubt | None:
        content = b""
        try:
            async for piece in self._cold.get(note):
                content += piece
                if len(content) > _LARGEST:
                    break
            return _note(content)
        except BundleMissing:  # somebody else settled it
            return None
        except msgspec.MsgspecError as broken:
            raise Damaged(f"{note} in cold storage is not a note of perdure; remove it", name=note) from broken


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
