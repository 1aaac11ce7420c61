"""What people come in by, over one store: session tokens, sign-ins, issuers from outside, proofs of client keys."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.compose.making import made_once
from perdure.compose.tenants import SYSTEM, Tenants
from perdure.core.access.claims import Standing
from perdure.core.access.roles import Actor
from perdure.core.access.signins import Limits

if TYPE_CHECKING:
    from perdure.services.outside import Issuer, Outside
    from perdure.services.proofs import Proofs
    from perdure.services.signin import SignIn
    from perdure.services.token_ports import Audit, Guard
    from perdure.services.tokens import Settings as TokenSettings
    from perdure.services.tokens import Tokens


class Entry:
    """The ways in, made when they are first used."""

    def __init__(
        self,
        tenants: Tenants,
        guard: "Guard",
        audit: "Audit",
        *,
        tokens: "TokenSettings | None" = None,
        limits: Limits | None = None,
        issuers: "tuple[Issuer, ...]" = (),
    ) -> None:
        self._tenants = tenants
        self._guard = guard
        self._audit = audit
        self._token_settings = tokens
        self._limits = limits
        self._issuers = issuers

    @made_once
    def tokens(self) -> "Tokens":
        """Session tokens."""
        from perdure.services.tokens import Tokens

        return Tokens(
            self._tenants.services(SYSTEM).sessions,
            self._secret,
            standings=self._standing,
            holders=self.holder,
            guard=self._guard,
            proofs=self.proofs,
            audit=self._audit,
            settings=self._token_settings,
        )

    @made_once
    def proofs(self) -> "Proofs":
        """Proofs that whoever asks holds a client key."""
        from perdure.services.proofs import Proofs

        return Proofs(self._tenants.ambient)

    @made_once
    def signin(self) -> "SignIn":
        """People who signed in with a browser."""
        from perdure.services.signin import SignIn

        return SignIn(
            self._tenants.services(SYSTEM).sessions, self._secret, holder=self._principal, limits=self._limits
        )

    @made_once
    def outside(self) -> "Outside | None":
        """Issuers of tokens that the operator trusts; None when there are none."""
        if not self._issuers:
            return None
        from perdure.services.outside import Outside

        return Outside(self._issuers, self._tenants.ambient)

    async def _secret(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return [(item.id, item.value) for item in await self._tenants.directory.secret(kind)]

    async def _standing(self, tenant: str, session: str) -> Standing | None:
        from perdure.services.tokens import standing

        return await standing(self._tenants.services(tenant).sessions, session)

    async def holder(self, tenant: str, principal: str, credential: str) -> Actor | None:
        """A principal as it stands now under the key or sign-in of this id; None when it is gone or shut out, and when
        the key was revoked or has expired, or the sign-in has ended.
        """
        from perdure.core.access.directory import holder_of

        book = await self._tenants.directory.book()
        if credential in book.keys:
            found = holder_of(book, credential, self._tenants.ambient.now())
        else:
            found = await self._principal(principal)
            if found is not None and not await self.signin.lasts(principal, credential):
                return None
        return found if found is not None and (found.tenant, found.principal) == (tenant, principal) else None

    async def _principal(self, principal: str) -> Actor | None:
        from perdure.core.access.book import Status
        from perdure.core.access.directory import actor_of

        found = (await self._tenants.directory.book()).principals.get(principal)
        return actor_of(found) if found is not None and found.status is Status.ACTIVE else None
