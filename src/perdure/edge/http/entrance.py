"""The entrance: who asks, whether they may, how often. Every request and every surface comes in here.

Invariant: what is foreign looks as what is missing, to the byte; a refusal that tells that a thing is there is given
only to those who may see it.
"""

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from perdure.compose.entry import Entry
from perdure.core.access.book import Book
from perdure.core.access.claims import Claims, elsewhere
from perdure.core.access.claims import Request as Seen
from perdure.core.access.decide import decide
from perdure.core.access.directory import fault_of, identify
from perdure.core.access.entries import STRANGERS, AuditEntry, Outcome
from perdure.core.access.roles import Action, Actor, Context, Decision, Reason, Resource, Role
from perdure.core.access.rules import OPEN as NO_RULES
from perdure.core.access.rules import Policy
from perdure.core.access.signins import Limits
from perdure.core.errors import Denied, NotFound, NotOwner, PerdureError, RateLimited, Unauthenticated
from perdure.core.session.origin import Origin
from perdure.core.session.state import State
from perdure.edge.http.asgi import Request
from perdure.edge.http.asking import Ask, allowed, missing
from perdure.edge.http.pacing import Pace
from perdure.edge.http.reaching import must_not_hold_memories, resource_of, state_of
from perdure.edge.http.routes import MUTATING, Endpoint
from perdure.edge.http.settings import Issuer as Configured
from perdure.edge.http.settings import Settings
from perdure.services.outside import Issuer
from perdure.services.tokens import Settings as TokenSettings

if TYPE_CHECKING:
    from perdure.compose.tenants import Tenants
    from perdure.services.tokens import Validated

KEY: Final = "pdk_"
HOLDERS: Final = 10_000
"""Of how many keys it is remembered who holds them."""
COOKIE: Final = "__Host-perdure"
PLAIN_COOKIE: Final = "perdure"
"""The same without TLS, which browsers take for the other name only over it."""
DECISIONS: Final = 10_000
"""How many decisions are remembered, for as long as the directory stays as it is."""
SECOND: Final = 1_000_000
LET_IN: Final = Decision(True, Reason.ROLE)
REFUSALS: Final = (Unauthenticated, Denied, RateLimited, NotOwner)
ANY: Final = ""
"""What stands for the session where none is meant: of what belongs to nobody else, the asker is the owner."""
OVERRIDE: Final = "perdure-override"
"""The header in which an admin who breaks the glass says why."""


class _Told(Exception):
    """A refusal that the audit log was told of already."""

    def __init__(self, refusal: PerdureError) -> None:
        super().__init__("told")
        self.refusal = refusal


class Entrance:
    """Lets requests in, or says why not."""

    def __init__(self, tenants: "Tenants", pace: Pace, settings: Settings) -> None:
        self.tenants = tenants
        self.entry = Entry(
            tenants,
            pace,
            self._told,
            tokens=TokenSettings(
                lifetime=settings.token_lifetime, bound_addresses=settings.bind_ip, block=settings.anomaly == "block"
            ),
            limits=Limits(idle=settings.sign_in_idle, absolute=settings.sign_in_absolute),
            issuers=tuple(issuer_of(item) for item in settings.issuers),
        )
        self.pace = pace
        self._book: Book | None = None
        self._holders: dict[bytes, tuple[Actor, int | None]] = {}
        self._let_in: dict[tuple[str, str, str], tuple[Actor, Policy, Origin, Decision]] = {}

    async def admitted(self, ask: Ask, target: str | None) -> "Validated | None":
        """Let a request in: who asks, how often, whether they may. It knows its actor, policy and decision then; what
        is known of a session token comes back. A refusal is noted in the audit log.
        """
        endpoint = ask.endpoint
        try:
            book = await self.tenants.directory.book()
            if self._book is not book:
                self._book, self._holders, self._let_in = book, {}, {}
            ask.actor, token = await self.known(ask, target, book)
            ask.policy = book.policies.get(ask.actor.tenant, NO_RULES)
            if token is None:
                self._held(self.pace.principal(ask.actor.principal))
            ask.decision = await self.decided(ask) if endpoint.action is not None else LET_IN
            flagged = token is None and endpoint.scoped and self.watched(ask.actor, endpoint, ask.request, ask.id)
        except _Told as told:
            raise told.refusal from None
        except (*REFUSALS, NotFound) as refusal:
            self.turned_away(ask, refusal)
            raise
        if flagged:
            self.flagged(ask)
        return token

    # ── who ──

    async def known(self, ask: Ask, target: str | None, book: Book) -> tuple[Actor, "Validated | None"]:
        """Who asks, by the directory as it stands, and what is known of their session token if they have one; else
        `Unauthenticated`.
        """
        credential = credential_of(ask.request)
        try:
            if credential is None:
                raise Unauthenticated("who asks? send a key as `Authorization: Bearer …`, or sign in")
            if credential.startswith(KEY):
                return self._holder(book, credential), None
            if credential.startswith(COOKIE):
                return await self.entry.signin.validate(credential.removeprefix(COOKIE)), None
            return await self._by_token(ask, target, credential)
        except (Unauthenticated, _Told) as refusal:
            if isinstance(refusal, Unauthenticated) or isinstance(refusal.refusal, Unauthenticated):
                self._slow_down(ask.request)
            raise

    async def _by_token(self, ask: Ask, target: str | None, token: str) -> "tuple[Actor, Validated | None]":
        if self.entry.outside is not None and self.entry.outside.issued(token):
            return await self.entry.outside.identify(token), None
        try:
            found = await self.entry.tokens.validate(token, seen_by(ask.request, ask.endpoint, target))
        except REFUSALS as refusal:
            raise _Told(refusal) from None
        return found.actor, found

    def _holder(self, book: Book, key: str) -> Actor:
        """Who holds a key. Those who asked last are remembered for as long as the directory stays as it is."""
        mark, now = sha256(key.encode("utf-8", "surrogateescape")).digest(), self.tenants.ambient.now()
        known = self._holders.get(mark)
        if known is not None and (known[1] is None or now < known[1]):
            return known[0]
        actor = identify(book, key, now)
        if len(self._holders) < HOLDERS:
            self._holders[mark] = actor, book.keys[actor.credential].expires_at
        return actor

    def _slow_down(self, request: Request) -> None:
        """Those who keep knocking with what does not count wait longer and longer: `RateLimited`."""
        self._held(self.pace.stranger(request.address))

    # ── how often, and how unlike before ──

    def paced(self, actor: Actor, endpoint: Endpoint, request: Request, session: str) -> bool:
        """Take note of a request in a session, all of it: whether it is unlike those before it."""
        self._held(self.pace.principal(actor.principal))
        return self.watched(actor, endpoint, request, session)

    def watched(self, actor: Actor, endpoint: Endpoint, request: Request, session: str) -> bool:
        """Whether a request is unlike those of its actor in this session before, which is theirs to ask in: nothing is
        remembered of sessions that are not. `RateLimited` when there were too many, `Denied` when unusual ones are to
        be held back.
        """
        self._held(self.pace.session(session, actor.principal, endpoint.name))
        size = request.declared or 0
        unusual = self.pace.unusual(actor.principal, session, endpoint.name, size, request.address)
        if unusual and self.pace.block:
            raise Denied("this request is unlike those before it and was held back; sign in again", reason="anomaly")
        return unusual

    def _held(self, wait: int) -> None:
        if wait:
            raise limited(wait)

    # ── whether ──

    async def decided(self, ask: Ask) -> Decision:
        """Whether the request may go on; else `Denied`, or `NotFound` as for what is not there."""
        actor, action = ask.actor, ask.endpoint.action
        if action is None:
            raise TypeError(f"{ask.endpoint.name} is open to everyone; there is nothing to decide")
        policy, override = ask.policy, ask.request.headers.get(OVERRIDE) or None
        context = Context(at=self.tenants.ambient.now(), address=ask.request.address, override=override)
        if not ask.endpoint.scoped:
            resource = Resource(tenant=actor.tenant, session=ANY, owner=actor.name)
            if actor.session is not None:
                raise elsewhere(actor.session)
            return allowed(decide(actor, action, resource, context, policy), action, actor)
        # Rules may ask for what changes, such as tags: then what this node remembers is not enough.
        remembered = ask.endpoint.appends and not policy.rules
        state = await state_of(ask, ask.id, remembered=remembered)
        decision = self._opened(ask, action, state, context)
        if remembered and not decision.allowed:  # perhaps another session has its name by now
            state = await state_of(ask, ask.id)
            decision = self._opened(ask, action, state, context)
        allowed(decision, action, actor)
        if state is None:
            raise missing(Reason.MISSING)
        if ask.endpoint.method in MUTATING:
            must_not_hold_memories(state, ask.endpoint.name)
        ask.into = ask.id, state.origin.created_at
        return decision

    def _opened(self, ask: Ask, action: Action, state: State | None, context: Context) -> Decision:
        """What is decided on a session. What was decided for the very same actor, policy and origin counts again:
        without rules nothing else matters. Another credential is another actor, and a session that was erased and begun
        anew has another origin.
        """
        actor, policy = ask.actor, ask.policy
        if state is None:
            return decide(actor, action, Resource(tenant=actor.tenant, session=ask.id, exists=False), context, policy)
        if policy.rules or context.override is not None:
            return decide(actor, action, resource_of(state), context, policy)
        place = (ask.id, ask.endpoint.name, actor.principal)
        found = self._let_in.get(place)
        if found is not None and found[0] is actor and found[1] is policy and found[2] is state.origin:
            return found[3]
        decision = decide(actor, action, resource_of(state), context, policy)
        if decision.allowed:
            if len(self._let_in) >= DECISIONS:
                self._let_in.clear()
            self._let_in[place] = actor, policy, state.origin, decision
        return decision

    # ── what is written down ──

    async def _told(self, word: str, claims: Claims | None, request: Seen, /, *, passed: bool = False) -> None:
        """Have what was found wrong with a session token noted, soon; also if the request `passed` nevertheless."""
        tenant = claims.tenant if claims is not None else STRANGERS
        self.tenants.auditing.later(
            tenant,
            AuditEntry(
                what=word,
                at=self.tenants.ambient.now(),
                tenant=tenant,
                actor=claims.principal if claims is not None else None,
                credential=claims.family if claims is not None else None,
                session=claims.session if claims is not None else None,
                action=request.operation,
                outcome="flagged" if passed else "denied",
                reason=word,
                address=request.address,
            ),
        )

    def turned_away(self, ask: Ask, error: PerdureError) -> None:
        """Have an error noted if it is a refusal, also one that looks as what is missing; what merely is, is none."""
        concealed = error.__cause__ if isinstance(error.__cause__, Denied) else None
        if concealed is not None or isinstance(error, REFUSALS):
            self.refused(ask, concealed or error)
        if concealed is not None:
            error.__cause__ = None

    def strange(self, ask: Ask, error: Unauthenticated) -> None:
        """Have a failed attempt where anybody may try noted; `RateLimited` for those who keep trying."""
        self.refused(ask, error)
        self._slow_down(ask.request)

    def refused(self, ask: Ask, error: Any) -> None:
        """Have a refusal noted in the audit log, soon: in that of the tenant whose key was shown, if it is known."""
        entry = self._entry(ask, "denied", error.fields.get("reason") or error.code)
        shown = credential_of(ask.request) or ""
        if entry.actor is None and self._book is not None and shown.startswith(KEY):
            found = fault_of(self._book, shown, entry.at)
            if found is not None:
                key, why = found
                told = why if isinstance(error, Unauthenticated) else entry.reason
                entry = replace(entry, tenant=key.tenant, actor=key.principal, credential=key.id, reason=told)
        self.tenants.auditing.later(entry.tenant, entry)

    async def noted(self, ask: Ask, outcome: Outcome = "allowed", reason: str = "") -> None:
        """Write down what was asked, durably."""
        await self.tenants.auditing.note(ask.actor.tenant, self._entry(ask, outcome, reason))

    def flagged(self, ask: Ask) -> None:
        """Have an unusual request noted, soon."""
        self.tenants.auditing.later(ask.actor.tenant, self._entry(ask, "flagged", "anomaly"))

    def _entry(self, ask: Ask, outcome: Outcome, reason: str) -> AuditEntry:
        actor: Actor | None = getattr(ask, "actor", None)
        action = ask.endpoint.action
        override = ask.request.headers.get(OVERRIDE, "") if reason == Reason.OVERRIDE else ""
        return AuditEntry(
            what=ask.endpoint.name,
            at=self.tenants.ambient.now(),
            tenant=actor.tenant if actor is not None else STRANGERS,
            actor=actor.principal if actor is not None else None,
            credential=actor.credential if actor is not None else None,
            action=str(action) if action is not None else "",
            session=ask.params.get("session_id"),
            outcome=outcome,
            reason=reason,
            remark=override,
            address=ask.request.address,
        )


def issuer_of(configured: Configured) -> Issuer:
    """An issuer as the operator wrote it down."""
    by_claim = configured.tenant_claim is not None
    return Issuer(
        issuer=configured.issuer,
        audience=configured.audience,
        keys=configured.jwks,
        algorithms=(configured.algorithm,),
        tenant="" if by_claim else configured.tenant,
        tenant_claim=configured.tenant_claim or "",
        tenants=configured.tenants,
        name_claim=configured.name_claim,
        prefix=configured.prefix,
        roles_claim=configured.roles_claim,
        roles={word: Role(role) for word, role in configured.roles.items()},
    )


def credential_of(request: Request) -> str | None:
    """What a request shows: a bearer token or a key in a header, else the cookie of someone who signed in."""
    headers = request.headers
    told = headers.get("authorization")
    if told is not None:
        scheme, _, rest = told.partition(" ")
        return rest.strip() if scheme.lower() in ("bearer", "dpop") and rest.strip() else None
    if (key := headers.get("x-api-key")) is not None:
        return key.strip()
    for piece in headers.get("cookie", "").split(";"):
        name, _, value = piece.strip().partition("=")
        if name in (COOKIE, PLAIN_COOKIE) and value:
            return COOKIE + value
    return None


def seen_by(request: Request, endpoint: Endpoint, target: str | None) -> Seen:
    """A request as tokens are judged by."""
    return Seen(
        address=request.address,
        user_agent=request.headers.get("user-agent", "")[:200],
        operation=endpoint.name,
        size=request.declared or 0,
        target=target,
        sensitive=endpoint.sensitive,
        method=request.method,
        url=url_of(request),
        proof=request.headers.get("dpop"),
    )


def url_of(request: Request) -> str:
    """The address a request was sent to, without its query."""
    return f"{request.scope.get('scheme', 'http')}://{request.headers.get('host', '')}{request.path}"


def limited(wait: int) -> RateLimited:
    """What is said to someone who asks too often."""
    seconds = max(1, -(-wait // SECOND))
    return RateLimited(f"too many requests; try again in {seconds} s", retry_after=seconds)
