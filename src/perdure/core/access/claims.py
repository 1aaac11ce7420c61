"""Session tokens: what they claim, and in which order a request that shows one is judged.

The order is one table, `ORDER`: signature, expiry, revocation, session and owner, address and client key, rate,
anomaly. Each step asks the facts one question; the first that says no is the answer, and has one word for the audit
log. What was not looked up fails, except rate and anomaly, which are asked last because asking counts.

Invariant: nothing here has a clock or a secret. Times in claims are whole seconds, all others microseconds.
"""

import re
from collections.abc import Callable
from enum import Enum
from hashlib import sha256
from typing import Annotated, Final

import msgspec

from perdure.core.access.roles import Actor, Role, narrowed
from perdure.core.errors import Denied, Invalid, PerdureError, RateLimited, TokenExpired, TokenRevoked, Unauthenticated
from perdure.core.session.shown import shown

SECOND: Final = 1_000_000
LIFETIME: Final = 300
"""Seconds that an access token counts, unless a deployment says otherwise."""
LONGEST: Final = 900
"""Seconds that none may count longer than, whatever its own claims say."""
SKEW: Final = 5
"""Seconds by which the clock of whoever signed may be ahead of ours. Nothing makes a token count longer."""
RANDOM_BYTES: Final = 32
_TEXT: Final = 512

_HANDLE: Final = r"\A[A-Za-z0-9_-]{43}\Z"
Handle = Annotated[str, msgspec.Meta(pattern=_HANDLE)]
"""256 bits in base64url."""
Text = Annotated[str, msgspec.Meta(max_length=_TEXT)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class Confirmation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The client key a token is bound to, by its thumbprint (RFC 7638)."""

    jkt: Handle


class Kind(Enum):
    """What a token is for; each kind is signed with keys of its own."""

    ACCESS = "access"
    REFRESH = "refresh"


class Plain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Claims that are exactly these."""


class Grant(Plain, frozen=True, kw_only=True, rename={"principal": "sub"}):
    """To whom a token was given and what it is bound to. `owner` is the session's at that time; `credential` is the id
    of the key or sign-in it was issued under, which it does not outlive.
    """

    tenant: Text
    session: Text
    owner: Text
    principal: Text
    name: Text
    credential: Text
    kind: Text = "person"
    roles: tuple[Role, ...] = ()
    scopes: tuple[Text, ...] = ()
    task: Text | None = None
    agent: Text | None = None
    acting_for: Text | None = None
    address: Text | None = None
    cnf: Confirmation | None = None
    ttl: Seconds = LIFETIME


class Claims(Grant, frozen=True, kw_only=True):
    """Everything a token claims: the grant, its place in its family, and its time."""

    iss: Text
    aud: Text
    typ: Kind
    jti: Handle
    iat: Seconds
    nbf: Seconds
    exp: Seconds
    family: Handle
    generation: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]


class Place(msgspec.Struct, frozen=True):
    """By whom and for whom a token is signed, and where it stands in its family."""

    iss: str
    aud: str
    family: str
    generation: int


class Standing(msgspec.Struct, frozen=True):
    """What a session's row tells: whose it is, and whether it has ended."""

    owner: str
    ended: bool


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What an edge saw of a request. `target` is the session it is about; `proof` a DPoP proof, for `method` and
    `url`. `again` says that it was let in before and still goes on: it is not counted, and proven already.
    """

    address: str | None = None
    user_agent: str = ""
    operation: str = ""
    size: int = 0
    target: str | None = None
    sensitive: bool = False
    method: str = ""
    url: str = ""
    proof: str | None = None
    again: bool = False


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is judged by. `claims` is None when the token does not parse or its signature does not hold;
    `proven` is the thumbprint of the client key this request was proven with.
    """

    now: int
    claims: Claims | None = None
    revoked: bool = True
    standing: Standing | None = None
    holder: bool = True
    target: str | None = None
    address: str | None = None
    bound_addresses: bool = False
    proven: str | None = None
    wait: int = 0
    suspicious: bool = False
    block: bool = False
    sensitive: bool = False


class Step(Enum):
    """The questions, in the order of asking."""

    SIGNATURE = "signature"
    EXPIRY = "expiry"
    REVOCATION = "revocation"
    SESSION = "session"
    BINDING = "binding"
    RATE = "rate"
    ANOMALY = "anomaly"


class Failure(Enum):
    """Why a request is refused: the step, and the word the audit log has for it."""

    SIGNATURE = (Step.SIGNATURE, "invalid_token_signature")
    EARLY = (Step.EXPIRY, "early_token")
    EXPIRED = (Step.EXPIRY, "expired_token")
    REVOKED = (Step.REVOCATION, "revoked_token")
    REUSED = (Step.REVOCATION, "refresh_token_reused")
    SESSION = (Step.SESSION, "invalid_session")
    ELSEWHERE = (Step.SESSION, "other_session")
    OWNER = (Step.SESSION, "user_session_mismatch")
    ADDRESS = (Step.BINDING, "ip_mismatch")
    PROOF = (Step.BINDING, "proof_missing")
    RATE = (Step.RATE, "rate_limited")
    ANOMALY = (Step.ANOMALY, "anomalous_request")

    @property
    def step(self) -> Step:
        """Which question it failed."""
        return self.value[0]

    @property
    def word(self) -> str:
        """What the audit log calls it."""
        return self.value[1]


class Verdict(msgspec.Struct, frozen=True):
    """The answer. `audit` is a word for the audit log, also for a request that is let through but looks unusual
    (`flagged`); `rotate` says that the token is to be replaced.
    """

    ok: bool
    failure: Failure | None = None
    audit: str | None = None
    rotate: bool = False
    flagged: bool = False
    wait: int = 0


def _signature(facts: Facts) -> Failure | None:
    return Failure.SIGNATURE if facts.claims is None else None


def _expiry(facts: Facts) -> Failure | None:
    claims = _known(facts)
    if facts.now >= claims.exp * SECOND:
        return Failure.EXPIRED
    return Failure.EARLY if max(claims.nbf, claims.iat) * SECOND > facts.now + SKEW * SECOND else None


def _revocation(facts: Facts) -> Failure | None:
    return Failure.REVOKED if facts.revoked or not facts.holder else None


def _session(facts: Facts) -> Failure | None:
    claims, standing = _known(facts), facts.standing
    if standing is None or standing.ended:
        return Failure.SESSION
    if standing.owner != claims.owner:
        return Failure.OWNER
    return Failure.ELSEWHERE if facts.target not in (None, claims.session) else None


def _binding(facts: Facts) -> Failure | None:
    claims = _known(facts)
    if (facts.bound_addresses or claims.address is not None) and (
        claims.address is None or facts.address != claims.address
    ):
        return Failure.ADDRESS
    return Failure.PROOF if claims.cnf is not None and facts.proven != claims.cnf.jkt else None


def _rate(facts: Facts) -> Failure | None:
    return Failure.RATE if facts.wait > 0 else None


def _anomaly(facts: Facts) -> Failure | None:
    return Failure.ANOMALY if facts.suspicious and facts.block else None


ORDER: Final[tuple[tuple[Step, Callable[[Facts], Failure | None]], ...]] = (
    (Step.SIGNATURE, _signature),
    (Step.EXPIRY, _expiry),
    (Step.REVOCATION, _revocation),
    (Step.SESSION, _session),
    (Step.BINDING, _binding),
    (Step.RATE, _rate),
    (Step.ANOMALY, _anomaly),
)


def judge(facts: Facts) -> Verdict:
    """Whether a request may go on: the first step that says no decides, in the order of the table."""
    for _, asked in ORDER:
        failure = asked(facts)
        if failure is not None:
            return Verdict(False, failure, failure.word, wait=facts.wait)
    flagged = facts.suspicious
    return Verdict(True, None, Failure.ANOMALY.word if flagged else None, facts.sensitive, flagged)


def _known(facts: Facts) -> Claims:
    if facts.claims is None:  # the step before said no
        raise Unauthenticated("this token does not count; sign in again")
    return facts.claims


def elsewhere(session: str) -> Denied:
    """What is said when a token is shown for anything but its session, the same whether that is there or not."""
    told = f"this token opens session {session} and nothing else; ask with a key"
    return Denied(told, reason=Failure.ELSEWHERE.word, session=session)


def error_of(verdict: Verdict, claims: Claims | None = None) -> PerdureError:
    """What a refused caller is told: enough to go on, nothing about anybody else."""
    match verdict.failure:
        case Failure.SIGNATURE:
            return Unauthenticated(
                "this is neither a key (those begin with pdk_) nor a token of this server; "
                "look whether it was copied whole, or ask for a new one"
            )
        case Failure.ELSEWHERE if claims is not None:
            return elsewhere(claims.session)
        case Failure.EXPIRED:
            return TokenExpired("the token's time is over; refresh it, or sign in again")
        case Failure.REVOKED | Failure.REUSED:
            return TokenRevoked("the token was taken back or replaced; use its successor, or sign in again")
        case Failure.PROOF:
            return Unauthenticated("the token is bound to a client key; send a DPoP proof made with that key")
        case Failure.RATE:
            seconds = -(-verdict.wait // SECOND)
            return RateLimited(f"too many requests; try again in {seconds} s", retry_after=seconds)
        case Failure.ANOMALY:
            return Denied("this request is unlike those before it and was held back; sign in again")
        case _:
            return Unauthenticated("this token does not count here; sign in again or ask for a new one")


def well_formed(claims: Claims, kind: Kind, issuer: str, audience: str, longest: int) -> bool:
    """Whether claims whose signature holds are ours, of this kind, and no longer-lived than allowed (in seconds)."""
    return (
        claims.typ is kind
        and claims.iss == issuer
        and claims.aud == audience
        and claims.iat <= claims.exp
        and claims.exp - claims.iat <= longest
    )


def grant(actor: Actor, session: str, owner: str, *, ttl: int, address: str | None, cnf: str | None) -> Grant:
    """What an actor is given for a session, bound to an address and to a client key if they are given."""
    if cnf is not None and not re.fullmatch(_HANDLE, cnf):
        raise Invalid("a client key is named by its SHA-256 thumbprint, 43 characters of base64url", cnf=shown(cnf))
    return Grant(
        tenant=actor.tenant,
        session=session,
        owner=owner,
        principal=actor.principal,
        name=actor.name,
        credential=actor.credential,
        kind=actor.kind,
        roles=tuple(sorted(actor.roles, key=lambda role: role.value)),
        scopes=actor.scopes,
        task=actor.task,
        agent=actor.agent,
        acting_for=actor.acting_for,
        address=address,
        cnf=None if cnf is None else Confirmation(jkt=cnf),
        ttl=ttl,
    )


def claims_of(given: Grant, place: Place, kind: Kind, jti: str, times: tuple[int, int]) -> Claims:
    """The claims of a token: what was given, where it stands, and from when until when (in microseconds)."""
    granted = {name: getattr(given, name) for name in Grant.__struct_fields__}
    since, over = times[0] // SECOND, times[1] // SECOND
    return Claims(**granted, **msgspec.structs.asdict(place), typ=kind, jti=jti, iat=since, nbf=since, exp=over)


def actor_of(claims: Claims, holder: Actor | None) -> Actor:
    """Who acts with a token. What its holder lost since it was given is lost to the token, too."""
    roles, scopes = frozenset(claims.roles), claims.scopes
    if holder is not None:
        roles = roles & holder.roles
        scopes = scopes if holder.scopes in (("*",), scopes) else narrowed(holder.scopes, scopes)
    return Actor(
        tenant=claims.tenant,
        principal=claims.principal,
        name=claims.name,
        kind=claims.kind,
        roles=roles,
        scopes=scopes,
        task=claims.task,
        agent=claims.agent,
        acting_for=claims.acting_for,
        session=claims.session,
        credential=claims.jti,
    )


def client(request: Request, proven: str | None) -> str:
    """Tells clients apart without keeping who they are: a hash of address, user agent and client key."""
    parts = (request.address or "", request.user_agent, proven or "")
    spelled = b"".join(len(raw).to_bytes(4, "big") + raw for raw in (part.encode("utf-8", "replace") for part in parts))
    return sha256(b"perdure client" + spelled).hexdigest()[:32]
