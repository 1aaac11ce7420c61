"""Session tokens: given out, judged on every request, refreshed, replaced and taken back, on every node alike.

Who holds what is kept in notes of the system tenant: the families of session S in `tokens:S`, and how often all of a
principal's tokens were taken back in `tokens`. Both are looked at on every request, and so is the key or sign-in that
a token was issued under: what was revoked anywhere is refused everywhere from then on.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from perdure.core.access import families as kin
from perdure.core.access.claims import (
    LIFETIME,
    LONGEST,
    RANDOM_BYTES,
    SECOND,
    Claims,
    Facts,
    Failure,
    Grant,
    Kind,
    Place,
    Request,
    Standing,
    Step,
    Verdict,
    actor_of,
    claims_of,
    client,
    error_of,
    grant,
    judge,
    well_formed,
)
from perdure.core.access.families import Families, Family, Turn
from perdure.core.access.roles import Actor
from perdure.core.errors import Denied, Invalid, NotFound, PerdureError, Terminal, TooLarge, Unauthenticated
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import TERMINAL, Phase
from perdure.services.notes import Kept, Notes
from perdure.services.sessions import Sessions
from perdure.services.signed import LONGEST as LONGEST_TOKEN
from perdure.services.signed import Ring, Secret, spelled
from perdure.services.token_ports import Audit, Guard, Holders, Prover, Standings

TYPES: Final = {Kind.ACCESS: "perdure-session+jwt", Kind.REFRESH: "perdure-refresh+jwt"}
KEPT: Final = 4096
"""Sessions whose families are kept at hand."""
NO_REQUEST: Final = Request()

FAMILIES: Final[Kept[Families, kin.Entry]] = Kept(
    kin.BLANK,
    kin.fold,
    lambda data: msgspec.convert(data, kin.Entry),
    kin.Summed,
    lambda book, now: kin.Summed(families=dict(kin.live(book, now))),
)
EPOCHS: Final[Kept[kin.Epochs, kin.Disowned | kin.Counted]] = Kept(
    kin.NO_EPOCHS,
    kin.fold_epochs,
    lambda data: msgspec.convert(data, kin.Disowned | kin.Counted),
    kin.Counted,
    lambda book, _: kin.Counted(epochs=dict(book)),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are given out; times in seconds. A refresh token is over `refresh` after it was made, a whole family
    `family` after it began. `bound_addresses` refuses tokens that are bound to no address, or to another one; `block`
    refuses unusual requests instead of flagging them.
    """

    issuer: str = "perdure"
    audience: str = "perdure"
    lifetime: int = LIFETIME
    refresh: int = 12 * 3600
    family: int = 7 * 86400
    bound_addresses: bool = False
    block: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.lifetime <= LONGEST:
            raise Invalid(f"access tokens may count 1 to {LONGEST} seconds; choose that", lifetime=self.lifetime)
        if not self.lifetime <= self.refresh <= self.family:
            raise Invalid("a family must outlive its refresh tokens, and they the access tokens; choose longer times")


class Validated(msgspec.Struct, frozen=True):
    """A request that may go on: who asks, with what, how it was judged, and from which client (a hash)."""

    actor: Actor
    claims: Claims
    verdict: Verdict
    client: str


class Pair(msgspec.Struct, frozen=True):
    """An access token with its claims, and the refresh token for the next one."""

    access: str
    refresh: str
    claims: Claims

    def __repr__(self) -> str:
        return f"Pair(family={self.claims.family!r}, generation={self.claims.generation})"


class _Rings(NamedTuple):
    access: Ring
    refresh: Ring


async def standing(sessions: Sessions, session: str) -> Standing | None:
    """How a session stands, from its row alone."""
    try:
        row = (await sessions.log.head(SessionId(session))).row
    except NotFound:
        return None
    return Standing(row.owner, Phase(row.phase) in TERMINAL)


class Tokens:
    """The session tokens of all tenants, over the sessions of the system tenant."""

    def __init__(
        self,
        sessions: Sessions,
        secret: Secret,
        *,
        standings: Standings,
        holders: Holders | None = None,
        guard: Guard | None = None,
        proofs: Prover | None = None,
        audit: Audit | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._sessions = sessions
        self._ambient = sessions.ambient
        self._standings = standings
        self._holders = holders
        self._guard = guard
        self._proofs = proofs
        self._audit = audit
        self._secret = secret
        self._families: OrderedDict[str, Notes[Families, kin.Entry]] = OrderedDict()
        self._epochs = Notes(sessions, "tokens", EPOCHS)

    async def issue(
        self,
        actor: Actor,
        session: str,
        *,
        ttl: int | None = None,
        address: str | None = None,
        cnf: str | None = None,
        request: Request = NO_REQUEST,
    ) -> Pair:
        """A new family for an actor in a session, bound to an address or a client key if they are given.

        Whoever calls has decided that the actor may have it. A token is never given for a token.
        """
        if actor.session is not None:
            raise Denied("a session token gets no other; ask with a key, or refresh it", session=session)
        lifetime = self.settings.lifetime if ttl is None else ttl
        if not 1 <= lifetime <= LONGEST:
            raise Invalid(f"a token may count 1 to {LONGEST} seconds; ask for that", ttl=ttl)
        stands = await self._standings(actor.tenant, session)
        if stands is None:
            raise NotFound(f"no session {session} here; find lists those there are", session=session)
        if stands.ended:
            raise Terminal(f"session {session} has ended; tokens are for sessions that go on", session=session)
        given = grant(actor, session, stands.owner, ttl=lifetime, address=address, cnf=cnf)
        rings = await self._rings()
        now, name, kid = self._ambient.now(), self._chance(), rings.refresh.current
        entry = kin.Issued(
            family=name,
            principal=actor.principal,
            epoch=await self._epoch(actor.principal),
            jti=self._chance(),
            kid=kid,
            handle=kin.hashed(rings.refresh.derived(kid, name, "1")),
            client=client(request, cnf),
            at=now,
            until=now + self.settings.refresh * SECOND,
            ends=now + self.settings.family * SECOND,
        )
        made = self._pair(rings, given, name, kin.fold(kin.BLANK, entry)[name])
        if max(len(made.access), len(made.refresh)) > LONGEST_TOKEN:
            raise TooLarge("this principal has too many scopes for one token; give it fewer")
        await self._notes(session).decided(lambda _: [entry])
        return made

    async def validate(self, token: str, request: Request) -> Validated:
        """Who asks with an access token, or the refusal; each refusal is told to the audit log."""
        facts, holder = await self._facts(Kind.ACCESS, token, request)
        claims, verdict = await self._passed(facts, request)
        return Validated(actor_of(claims, holder), claims, verdict, client(request, facts.proven))

    async def refresh(self, token: str, request: Request) -> Pair:
        """The next tokens of a family. Using a refresh token twice ends the family, unless its client asks again
        because the answer was lost.
        """
        facts, _ = await self._facts(Kind.REFRESH, token, request)
        claims, _ = await self._passed(facts, request)
        by, jti, turn = client(request, facts.proven), self._chance(), Turn.NONE
        rings = await self._rings()

        def decide(book: Families) -> list[kin.Entry]:
            nonlocal turn
            family, now = book.get(claims.family), self._ambient.now()
            turn = Turn.NONE if family is None else kin.renewal(family, claims, by, now)
            if family is None or turn in (Turn.NONE, Turn.AGAIN):
                return []
            if turn is Turn.REUSED:
                return [kin.Revoked(at=now, reason=Failure.REUSED.word, family=claims.family)]
            kid, generation = rings.refresh.current, family.generation + 1
            handle = kin.hashed(rings.refresh.derived(kid, claims.family, str(generation)))
            until = min(now + self.settings.refresh * SECOND, family.ends)
            return [
                kin.Refreshed(
                    family=claims.family,
                    generation=generation,
                    jti=jti,
                    kid=kid,
                    handle=handle,
                    client=by,
                    at=now,
                    until=until,
                )
            ]

        family = (await self._notes(claims.session).decided(decide)).get(claims.family)
        if turn is Turn.REUSED or family is None or family.jti is None:
            failure = Failure.REUSED if turn is Turn.REUSED else Failure.REVOKED
            raise await self._refused(Verdict(False, failure, failure.word), claims, request)
        return self._pair(rings, claims, claims.family, family)

    async def rotate(self, validated: Validated) -> str | None:
        """The access token that replaces the one of this request, which has its grace; it counts no longer than that
        one would have. None when the token was replaced before, for another client.
        """
        claims, turn, jti = validated.claims, Turn.NONE, self._chance()

        def decide(book: Families) -> list[kin.Entry]:
            nonlocal turn
            family, now = book.get(claims.family), self._ambient.now()
            turn = Turn.NONE if family is None else kin.rotation(family, claims, validated.client, now)
            entry = kin.Rotated(family=claims.family, jti=jti, client=validated.client, at=now)
            return [entry] if turn is Turn.NEXT else []

        family = (await self._notes(claims.session).decided(decide)).get(claims.family)
        if turn is Turn.NONE or family is None:
            return None
        return (await self._ring(Kind.ACCESS)).sign(self._access(claims, claims.family, family))

    async def revoke(
        self, session: str, *, jti: str | None = None, family: str | None = None, reason: str = ""
    ) -> None:
        """Take back one access token, one family, or, with neither, every token of a session."""
        entry = kin.Revoked(at=self._ambient.now(), reason=reason, jti=jti, family=family)
        await self._notes(session).decided(lambda book: [entry] if kin.fold(book, entry) != book else [])

    async def revoke_all(self, principal: str, reason: str = "") -> None:
        """Take back every token of a principal, in all sessions."""
        entry = kin.Disowned(principal=principal, at=self._ambient.now(), reason=reason)
        await self._epochs.decided(lambda _: [entry])

    async def _facts(self, kind: Kind, token: str, request: Request) -> tuple[Facts, Actor | None]:
        """What a request is judged by: looked up step by step, and no further than the first that fails."""
        claims = (await self._ring(kind)).opened(token, Claims)
        longest = LONGEST if kind is Kind.ACCESS else self.settings.refresh
        ours = claims is not None and well_formed(claims, kind, self.settings.issuer, self.settings.audience, longest)
        facts = Facts(
            now=self._ambient.now(),
            claims=claims if ours else None,
            target=request.target,
            address=request.address,
            bound_addresses=self.settings.bound_addresses,
            block=self.settings.block,
            sensitive=request.sensitive,
        )
        if claims is None or _failed(facts) is not Step.REVOCATION:
            return facts, None
        holder = None
        if self._holders is not None:
            holder = await self._holders(claims.tenant, claims.principal, claims.credential)
        facts = replace(facts, holder=self._holders is None or holder is not None)
        facts = replace(facts, revoked=await self._revoked(kind, claims, facts.now))
        if _failed(facts) is Step.SESSION:
            facts = replace(facts, standing=await self._standings(claims.tenant, claims.session))
        if request.again:
            return replace(facts, proven=claims.cnf and claims.cnf.jkt), holder
        if _failed(facts) is Step.BINDING and self._proofs is not None and request.proof is not None:
            bound = token if kind is Kind.ACCESS else None
            try:
                proven = self._proofs.verify(request.proof, method=request.method, url=request.url, token=bound)
            except Unauthenticated:
                await self._told(Failure.PROOF.word, claims, request)
                raise
            facts = replace(facts, proven=proven)
        if self._guard is not None and _failed(facts) is None:
            facts = replace(facts, wait=self._guard.admit(claims, request))
            if _failed(facts) is None:
                facts = replace(facts, suspicious=self._guard.suspicious(claims, request))
        return facts, holder

    async def _revoked(self, kind: Kind, claims: Claims, now: int) -> bool:
        book = (await self._notes(claims.session).fresh()).book
        if claims.family not in book:
            return True
        asked = kin.counts if kind is Kind.ACCESS else kin.refreshable
        return not asked(book, claims, await self._epoch(claims.principal), now)

    async def _passed(self, facts: Facts, request: Request) -> tuple[Claims, Verdict]:
        """The claims of a request that may go on; what the audit log has a word for is told to it."""
        verdict = judge(facts)
        if not verdict.ok or facts.claims is None:
            raise await self._refused(verdict, facts.claims, request)
        if self._audit is not None and verdict.audit is not None:
            await self._audit(verdict.audit, facts.claims, request, passed=True)
        return facts.claims, verdict

    async def _refused(self, verdict: Verdict, claims: Claims | None, request: Request) -> PerdureError:
        await self._told(verdict.audit, claims, request)
        return error_of(verdict, claims)

    async def _told(self, word: str | None, claims: Claims | None, request: Request) -> None:
        if self._audit is not None and word is not None:
            await self._audit(word, claims, request)

    def _pair(self, rings: _Rings, given: Grant, name: str, family: Family) -> Pair:
        """The tokens of a family as it stands; always the same for the same generation."""
        access = self._access(given, name, family)
        handle = rings.refresh.derived(family.kid, name, str(family.generation))
        times = (family.began, family.until)
        renewing = claims_of(given, self._place(name, family), Kind.REFRESH, handle, times)
        return Pair(rings.access.sign(access), rings.refresh.sign(renewing), access)

    def _access(self, given: Grant, name: str, family: Family) -> Claims:
        times = (family.at, min(family.began + given.ttl * SECOND, family.ends))
        return claims_of(given, self._place(name, family), Kind.ACCESS, family.jti or "", times)

    def _place(self, name: str, family: Family) -> Place:
        return Place(self.settings.issuer, self.settings.audience, name, family.generation)

    async def _epoch(self, principal: str) -> int:
        return (await self._epochs.fresh()).book.get(principal, 0)

    async def _ring(self, kind: Kind) -> Ring:
        return Ring(kind.value, TYPES[kind], await self._secret(kind.value))

    async def _rings(self) -> _Rings:
        return _Rings(await self._ring(Kind.ACCESS), await self._ring(Kind.REFRESH))

    def _chance(self) -> str:
        return spelled(self._ambient.random(RANDOM_BYTES))

    def _notes(self, session: str) -> Notes[Families, kin.Entry]:
        found = self._families.get(session)
        if found is None:
            found = self._families[session] = Notes(self._sessions, f"tokens:{session}", FAMILIES)
        self._families.move_to_end(session)
        while len(self._families) > KEPT:
            self._families.popitem(last=False)
        return found


def _failed(facts: Facts) -> Step | None:
    failure = judge(facts).failure
    return None if failure is None else failure.step
