"""Whose content each session's is: in a sealed store, under which salt it lies. The salt goes when the session does.

An id may be erased and used again, with another salt, by whoever else has the store open. So what is remembered here is
only tried: the engine compares the salt inside its transaction, and after a refusal it is looked up again.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from perdure.core.errors import CallerError, ConflictError
from perdure.core.session.ids import SessionId, raw
from perdure.ports.seal import Place
from perdure.ports.store import Commit, Wrapping
from perdure.steady import unbroken
from perdure.stores.packing import Packing, PlaceWrapping
from perdure.stores.refusals import unknown
from perdure.waiting import aside

MAX_PLACES: Final = 100_000
Look = Callable[[SessionId], Awaitable[Place | None]]
"""Finds a place in the database."""


class Owners:
    """The places of a store's sessions."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._places: dict[SessionId, Place] = {}

    def known(self, commit: Commit) -> Place | None:
        """Whose content a commit's is, if that is known without looking; a new session gets a salt of its own."""
        row = commit.row
        if self._packing.clear:
            return Place(row.tenant, raw(row.session))
        if commit.creates:  # of several who create it at once, only one will have done so: see `made`
            return Place(row.tenant, raw(row.session), self._packing.seal.fresh())
        return self._places.get(row.session)

    async def found(self, commit: Commit, look: Look) -> Place:
        """Whose content a commit's is, by looking; of a session that is gone none, as the write will say."""
        row = commit.row
        place = await look(row.session)
        return Place(row.tenant, raw(row.session)) if place is None else self._remember(row.session, place)

    def made(self, commit: Commit, place: Place) -> None:
        """Note the place of a session that is there now."""
        if commit.creates and not self._packing.clear:
            self._remember(commit.row.session, place)

    def _remember(self, session: SessionId, place: Place) -> Place:
        if len(self._places) > MAX_PLACES:
            self._places.clear()
        self._places[session] = place
        return place

    def forget(self, sessions: Iterable[SessionId]) -> None:
        """Look these up again next time."""
        for session in sessions:
            self._places.pop(session, None)

    async def keep(self, session: SessionId, look: Look, work: Callable[[Place], Awaitable[bool]]) -> None:
        """Have something kept for a session where its content is thought to lie, and if that is not so any more, where
        it does; nothing when it is gone. In the clear nothing is bound to whose it is.
        """
        tried = Place("", raw(session)) if self._packing.clear else self._places.get(session)
        if tried is not None and await work(tried):
            return
        place = await look(session)
        if place is not None and place != tried:
            await work(self._remember(session, place))

    async def wrapping(self, session: SessionId, look: Look) -> Wrapping:
        """How content of a session is kept outside; `NotFound` when it is gone."""
        place = await look(session)
        if place is None:
            raise unknown(session)
        return PlaceWrapping(self._packing.seal, place)

    async def erase(self, session: SessionId, look: Look, work: Callable[[bytes | None], Awaitable[bool]]) -> bool:
        """Have a session erased that has this salt, or none; then its salt goes as well, and with it the session in
        every backup.
        """
        place = await look(session)
        if place is None or place.salt is None:
            return await work(None)
        return await unbroken(self._erase_sealed(session, place.salt, work))

    async def _erase_sealed(
        self, session: SessionId, salt: bytes, work: Callable[[bytes | None], Awaitable[bool]]
    ) -> bool:
        doomed, seal = [salt], self._packing.seal
        await aside(lambda: seal.condemn(doomed))
        try:
            gone = await work(salt)
        except (CallerError, ConflictError):  # refused; after any other error the next opening sees what became of it
            await aside(lambda: seal.spare(doomed))
            raise
        self.forget((session,))
        await aside(lambda: seal.destroy(doomed))
        return gone
