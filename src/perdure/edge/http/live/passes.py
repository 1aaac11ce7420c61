"""Passes: what lets a surface in, and whether it still does.

Those who show the same credential for the same session from the same address share one, so that they are asked about
once. A pass is asked about before a delivery unless that was done within the last second, at every heartbeat, when its
token's time is over, and before anything is written.
"""

import base64
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from perdure.core.access.book import Book
from perdure.core.access.directory import identify
from perdure.core.access.roles import Actor
from perdure.core.access.rules import OPEN
from perdure.core.errors import Denied, NotFound, PerdureError, Unauthenticated
from perdure.edge.http.entrance import COOKIE, KEY, OVERRIDE, credential_of, seen_by
from perdure.edge.http.live.ending import ACCESS, ERASED, End
from perdure.services.looking import Shared

if TYPE_CHECKING:
    from perdure.edge.http.asking import Ask

SECOND: Final = 1_000_000
Shown = tuple[str | None, ...]
"""What two surfaces must have in common to share a pass."""


class _Times(msgspec.Struct):
    exp: float | None = None


class Pass:
    """Who is behind some surfaces, and what they may see."""

    def __init__(self, ask: "Ask", credential: str) -> None:
        self.ask = ask
        self.held = 0
        self.refused: End | None = None
        self.until = expiry_of(credential)
        self._credential = credential
        self._ambient = ask.node.tenants.ambient
        self._checked = self._ambient.now()
        self.check: Shared[None] = Shared(self._check)

    @property
    def hidden(self) -> tuple[str, ...]:
        """What they may not see."""
        return self.ask.hidden

    def stale(self) -> bool:
        """Whether it was last asked about a second ago or more."""
        return self._ambient.now() - self._checked >= SECOND

    def over(self, now: int) -> bool:
        """Whether its token's time is over."""
        return self.until is not None and now >= self.until

    async def use(self) -> None:
        """Ask anew, because something is to be written: that counts as a use of a sign-in, and listening does not."""
        await self.check()
        if self.refused is None and self._credential.startswith(COOKIE):
            await self.ask.node.entrance.entry.signin.validate(self._credential.removeprefix(COOKIE))

    async def _check(self) -> None:
        """Ask anew who it is and what they may."""
        if self.refused is not None:
            return
        ask, now = self.ask, self._ambient.now()
        try:
            book = await ask.node.tenants.directory.book()
            ask.actor = await self._holder(book)
            ask.policy = book.policies.get(ask.actor.tenant, OPEN)
            ask.decision = await ask.node.entrance.decided(ask)
        except (Unauthenticated, Denied, NotFound) as refusal:
            self.refused = self._end(refusal)
        self._checked = now

    def _end(self, refusal: PerdureError) -> End:
        if isinstance(refusal, NotFound) and refusal.__cause__ is None:
            return End(ERASED)
        self.ask.node.entrance.refused(self.ask, refusal.__cause__ or refusal)
        refusal.__cause__ = None
        return End(ACCESS, refusal)

    async def _holder(self, book: Book) -> Actor:
        """Who holds the credential now; nothing is counted, and no proof is asked for twice."""
        entry, credential = self.ask.node.entrance.entry, self._credential
        if credential.startswith(KEY):
            return identify(book, credential, self._ambient.now())
        if credential.startswith(COOKIE):
            return await entry.signin.validate(credential.removeprefix(COOKIE), again=True)
        if entry.outside is not None and entry.outside.issued(credential):
            return await entry.outside.identify(credential)
        seen = seen_by(self.ask.request, self.ask.endpoint, self.ask.params.get("session_id"))
        return (await entry.tokens.validate(credential, replace(seen, again=True))).actor


class Passes:
    """The passes of this node's surfaces."""

    def __init__(self) -> None:
        self._passes: dict[Shown, Pass] = {}

    def take(self, ask: "Ask") -> Pass:
        """The pass for a request that was let in; give it back when its surface is gone."""
        key = _shown(ask)
        found = self._passes.get(key)
        if found is None or found.refused is not None:
            found = self._passes[key] = Pass(ask, key[0] or "")
        found.held += 1
        return found

    def give_back(self, let: Pass) -> None:
        """Forget a pass when nobody holds it."""
        let.held -= 1
        key = _shown(let.ask)
        if not let.held and self._passes.get(key) is let:
            del self._passes[key]


def _shown(ask: "Ask") -> Shown:
    request = ask.request
    return (
        credential_of(request),
        ask.params.get("session_id"),
        ask.endpoint.name,
        request.address,
        request.headers.get(OVERRIDE),
    )


def expiry_of(credential: str) -> int | None:
    """When a token that was found good ends, in microseconds; None for what is no token."""
    pieces = credential.split(".")
    if len(pieces) != 3 or credential.startswith((KEY, COOKIE)):
        return None
    try:
        padded = pieces[1] + "=" * (-len(pieces[1]) % 4)
        found = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Times).exp
    except (ValueError, msgspec.DecodeError):
        return None
    return None if found is None else int(found * SECOND)
