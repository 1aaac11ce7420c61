"""Signing in with a browser: a one-time code in a link, a cookie for it, and signing out, on every node alike.

Kept in the notes `signins` of the system tenant. Who somebody is and may do is asked anew on every request, so what a
principal loses it loses at once; the cookie says only which sign-in it is.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from perdure.core.access import signins
from perdure.core.access.claims import RANDOM_BYTES, SECOND, SKEW
from perdure.core.access.families import hashed
from perdure.core.access.roles import Actor
from perdure.core.access.signins import Book, Cookie, Limits
from perdure.core.errors import TokenExpired, TokenRevoked, Unauthenticated, WorldError
from perdure.services.notes import Kept, Notes
from perdure.services.sessions import Sessions
from perdure.services.signed import Ring, Secret, spelled

KIND: Final = "signin"
TYPE: Final = "perdure-signin+jwt"
Holder: TypeAlias = Callable[[str], Awaitable[Actor | None]]
"""A principal as it stands now, by its id; None when it is gone or disabled."""
SIGNINS: Final[Kept[Book, signins.Entry]] = Kept(
    signins.BLANK, signins.fold, lambda data: msgspec.convert(data, signins.Entry), signins.Summed, signins.summed
)


class Signed(msgspec.Struct, frozen=True):
    """Somebody signed in: who, the cookie, and for how many seconds it may be kept."""

    actor: Actor
    cookie: str
    max_age: int

    def __repr__(self) -> str:
        return f"Signed({self.actor.principal})"


class SignIn:
    """Codes, cookies and sign-ins of all principals."""

    def __init__(
        self,
        sessions: Sessions,
        secret: Secret,
        *,
        holder: Holder,
        limits: Limits | None = None,
        issuer: str = "perdure",
        audience: str = "perdure",
    ) -> None:
        self.limits = limits or Limits()
        self._ambient = sessions.ambient
        self._secret = secret
        self._holder = holder
        self._issuer = issuer
        self._audience = audience
        self._notes = Notes(sessions, "signins", SIGNINS)

    async def code(self, principal: str) -> str:
        """A code with which this principal may sign in, once, within minutes."""
        code, now = self._chance(), self._ambient.now()
        until = now + self.limits.code * SECOND
        entry = signins.Offered(code=hashed(code), principal=principal, until=until, at=now)
        await self._notes.decided(lambda _: [entry])
        return code

    async def enter(self, code: str) -> Signed:
        """Sign in with a code, which is used up. `Unauthenticated` when it was used, is over or never was."""
        kept, id, handle, now = hashed(code), self._chance(), self._chance(), self._ambient.now()
        ends = now + self.limits.absolute * SECOND

        def decide(book: Book) -> list[signins.Entry]:
            found = signins.offered(book, kept, now)
            if found is None:
                raise Unauthenticated("this link was used or is over; restart the server for another one")
            place = {"code": kept, "id": id, "handle": hashed(handle), "principal": found.principal}
            return [signins.Entered(**place, at=now, ends=ends)]

        principal = (await self._notes.decided(decide)).people[id].principal
        actor = await self._actor(principal, id)
        times = {"iat": now // SECOND, "nbf": now // SECOND, "exp": ends // SECOND}
        claims = Cookie(
            iss=self._issuer, aud=self._audience, typ="signin", jti=handle, id=id, principal=principal, **times
        )
        return Signed(actor, (await self._ring()).sign(claims), self.limits.absolute)

    async def validate(self, cookie: str, *, again: bool = False) -> Actor:
        """Who signed in, as they stand now; else `Unauthenticated`. To ask `again` for a stream is no use of it."""
        claims, now = (await self._ring()).opened(cookie, Cookie), self._ambient.now()
        if claims is None or (claims.iss, claims.aud) != (self._issuer, self._audience):
            raise Unauthenticated("this cookie does not count; sign in again")
        if now >= claims.exp * SECOND or max(claims.nbf, claims.iat) > now // SECOND + SKEW:
            raise TokenExpired("you were signed in for as long as one may be; sign in again")
        found = signins.lasting((await self._notes.fresh()).book, claims)
        if found is None:
            raise TokenRevoked("you signed out; sign in again")
        if signins.over(found, self.limits, now):
            raise TokenExpired("nobody was here for a while; sign in again")
        actor = await self._actor(claims.principal, claims.id)
        if not again and signins.worth_noting(found, self.limits, now):
            await self._notice(claims.id, now)
        return actor

    async def lasts(self, principal: str, id: str) -> bool:
        """Whether a sign-in, by its id, is this principal's and goes on; to ask is no use of it."""
        found = (await self._notes.fresh()).book.people.get(id)
        if found is None or found.principal != principal:
            return False
        return not signins.over(found, self.limits, self._ambient.now())

    async def leave(self, actor: Actor) -> None:
        """Sign out what this actor came in with; the cookie counts nowhere from the next request on."""
        entry = signins.Left(at=self._ambient.now(), id=actor.credential)
        await self._notes.decided(lambda book: [entry] if actor.credential in book.people else [])

    async def revoke_all(self, principal: str) -> None:
        """Sign a principal out everywhere, and make its codes useless."""
        entry = signins.Left(at=self._ambient.now(), principal=principal)
        await self._notes.decided(lambda book: [entry] if signins.fold(book, entry) != book else [])

    async def _notice(self, id: str, now: int) -> None:
        """Write a use down, unless somebody else just did. Where nothing can be written, reading goes on."""

        def decide(book: Book) -> list[signins.Entry]:
            found = book.people.get(id)
            due = found is not None and signins.worth_noting(found, self.limits, now)
            return [signins.Noticed(id=id, at=now)] if due else []

        with suppress(WorldError):
            await self._notes.decided(decide)

    async def _actor(self, principal: str, id: str) -> Actor:
        found = await self._holder(principal)
        if found is None:
            raise TokenRevoked("whoever this was for may not come in any more; ask your operator")
        return replace(found, credential=id)

    async def _ring(self) -> Ring:
        return Ring(KIND, TYPE, await self._secret(KIND))

    def _chance(self) -> str:
        return spelled(self._ambient.random(RANDOM_BYTES))
