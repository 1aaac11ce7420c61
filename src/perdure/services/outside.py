"""People and services that somebody else vouches for: tokens of issuers that the operator named.

An issuer's keys come from where the operator said, a file or an address, never from anywhere a token names. They are
kept, and fetched again when a token is signed with a key nobody has seen, at most once a minute. The algorithm is one
that the operator allowed and that fits the key; the claims say who it is, in words that the operator mapped to ours.

Invariant: whom an issuer names is nobody in the directory, nor of another issuer, unless the operator took away the
prefix that their names have.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from perdure.core.access.given import APART, must_be_name
from perdure.core.access.roles import Actor, Role
from perdure.core.errors import Invalid, Unauthenticated
from perdure.core.session.shown import shown
from perdure.ports.ambient import Ambient
from perdure.services.signed import LONGEST, split, unspelled
from perdure.waiting import Lane, aside

if TYPE_CHECKING:  # loaded with the first token, so that a server starts quickly
    from jwt import PyJWK

SECOND: Final = 1_000_000
ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""What may be allowed, and the type and curve of the keys for it. Nothing that is signed with a shared secret."""
PAUSE: Final = 60
"""Seconds between two fetches of the same keys."""
FRESH: Final = 3600
"""Seconds after which keys are fetched again when they are next needed."""
STALE: Final = 86400
"""Seconds that keys still count when they cannot be fetched again."""
TIMEOUT: Final = 5.0
LARGEST: Final = 1 << 20
"""Bytes of a key set."""
SIZE: Final = 2 * LONGEST
"""Characters of a token of others', whose claims may be many."""
SMALLEST_RSA: Final = 2048
REFUSED: Final = frozenset({"jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc"})
"""Header fields that would have us take keys from a token, or read it in another way."""
Text = Annotated[str, msgspec.Meta(max_length=512)]
Fetch: TypeAlias = Callable[[str, float], bytes]
CREDENTIAL: Final = "iss_"
"""How the credential of those begins whom an issuer vouches for."""
_NOBODY: Final = "the issuer does not say who this is, or of which tenant; ask your operator"
_WORDS: Final = "this token does not count here; sign in with the issuer again"


class Issuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One issuer, as the operator configured it. `keys` is a file or an https address (http on this machine only).

    Its people are of `tenant`, or of the one that the claim `tenant_claim` names among `tenants`. `roles` maps words in
    the claim `roles_claim` (`a.b` looks inside) to ours; words that are not in it mean nothing. `prefix` stands before
    every name: the issuer and `#` when it is None, which no name in the directory has. Empty, the issuer is trusted
    with the names of this place.
    """

    issuer: str
    audience: str
    keys: str
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    types: tuple[str, ...] = ("JWT", "at+jwt", "")
    leeway: int = 30
    tenant: str = ""
    tenant_claim: str = ""
    tenants: tuple[str, ...] = ()
    name_claim: str = "sub"
    prefix: str | None = None
    kind: str = "person"
    roles_claim: str = "roles"
    roles: dict[str, Role] = {}
    always: tuple[Role, ...] = ()
    scopes: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        unknown = set(self.algorithms) - set(ALGORITHMS)
        if unknown or not self.algorithms:
            raise Invalid(f"allow some of {', '.join(ALGORITHMS)} for {self.issuer}", algorithms=self.algorithms)
        if not self.issuer or not self.audience:
            raise Invalid("an issuer needs its name and the audience its tokens are for; set both")
        if bool(self.tenant) == bool(self.tenant_claim) or (self.tenant_claim and not self.tenants):
            raise Invalid(f"set tenant, or tenant_claim and tenants, for {self.issuer}; not both")
        if any(name.startswith("_") for name in (self.tenant, *self.tenants)):
            raise Invalid("tenants that begin with _ are perdure's own; choose another", issuer=self.issuer)
        try:
            must_be_name(f"{self.before}x")
        except Invalid:
            raise Invalid(f"names of {shown(self.issuer)} cannot begin so; set a short prefix, in print") from None
        if not 0 <= self.leeway <= 300:
            raise Invalid("a leeway is 0 to 300 seconds; choose that", leeway=self.leeway)
        place = urlsplit(self.keys)
        if place.scheme == "http" and place.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise Invalid(f"fetch the keys of {self.issuer} by https", keys=self.keys)

    @property
    def before(self) -> str:
        """What stands before the names that it gives."""
        return f"{self.issuer}{APART}" if self.prefix is None else self.prefix


class Head(msgspec.Struct, frozen=True):
    """What a header must say."""

    alg: str
    kid: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    typ: str = ""


class Vouched(msgspec.Struct, frozen=True):
    """The claims every token must have; the rest is looked up by name."""

    iss: Text
    sub: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    aud: str | list[str]
    exp: float
    nbf: float = 0.0
    iat: float = 0.0


class _Named(msgspec.Struct, frozen=True):
    iss: Text


class Key(msgspec.Struct, frozen=True):
    """A public key with the algorithm it is for."""

    algorithm: str
    key: "PyJWK"


class Keyring:
    """The keys of one issuer: fetched when needed, kept, fetched anew for a key nobody has seen."""

    def __init__(self, issuer: Issuer, ambient: Ambient, fetch: Fetch) -> None:
        self._issuer = issuer
        self._ambient = ambient
        self._fetch = fetch
        self._keys: dict[tuple[str | None, str], Key] = {}
        self._fetched: int | None = None
        self._tried: int | None = None
        self._lane = Lane()

    async def key(self, kid: str | None, algorithm: str) -> Key | None:
        """The key of this id for an algorithm; a token without an id may have the only one there is for it."""
        found = self._find(kid, algorithm)
        if found is None or self._older(self._fetched, FRESH):
            async with self._lane:
                if self._older(self._tried, PAUSE) and (found is None or self._older(self._fetched, FRESH)):
                    await self._load()
            found = self._find(kid, algorithm)
        return None if self._older(self._fetched, STALE) else found

    def _find(self, kid: str | None, algorithm: str) -> Key | None:
        if kid is not None:
            return self._keys.get((kid, algorithm))
        fitting = [key for key in self._keys.values() if key.algorithm == algorithm]
        return fitting[0] if len(fitting) == 1 else None

    def _older(self, moment: int | None, seconds: int) -> bool:
        return moment is None or self._ambient.now() - moment >= seconds * SECOND

    async def _load(self) -> None:
        """Fetch the keys; when that fails, those there are stay."""
        self._tried = self._ambient.now()
        try:
            raw = await aside(lambda: self._fetch(self._issuer.keys, TIMEOUT))
            found = keys_in(raw, self._issuer.algorithms)
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
            return
        self._keys, self._fetched = found, self._tried


class Outside:
    """Everyone whom the operator's issuers vouch for."""

    def __init__(self, issuers: tuple[Issuer, ...], ambient: Ambient, fetch: Fetch | None = None) -> None:
        self._issuers = {item.issuer: item for item in issuers}
        if len(self._issuers) != len(issuers):
            raise Invalid("an issuer is named twice; keep one of them")
        self._prefixes = frozenset(item.before for item in issuers) - {""}
        if any(one != other and other.startswith(one) for one in self._prefixes for other in self._prefixes):
            raise Invalid("names of two issuers could be the same; set prefixes that do not begin with one another")
        self._rings = {item.issuer: Keyring(item, ambient, fetch or fetched) for item in issuers}
        self._ambient = ambient

    def issued(self, token: object) -> bool:
        """Whether a token says it is one of an issuer named here. That is all it tells: nothing was verified."""
        pieces = split(token, SIZE)
        try:
            return pieces is not None and msgspec.json.decode(unspelled(pieces[1]), type=_Named).iss in self._issuers
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False

    async def identify(self, token: str) -> Actor:
        """Whom a token names, or `Unauthenticated`."""
        from jwt import PyJWTError
        from jwt.api_jws import PyJWS

        pieces = split(token, SIZE)
        if pieces is None:
            raise Unauthenticated(_WORDS)
        try:
            head, claimed = _header(pieces[0]), msgspec.json.decode(unspelled(pieces[1]), type=Vouched)
            issuer = self._issuers.get(claimed.iss)
            if issuer is None or head.alg not in issuer.algorithms or head.typ not in issuer.types:
                raise Unauthenticated(_WORDS)
            key = await self._rings[issuer.issuer].key(head.kid, head.alg)
            if key is None:
                raise Unauthenticated(_WORDS)
            raw = PyJWS(algorithms=[head.alg]).decode(token, key.key, algorithms=[head.alg])
            claims, document = msgspec.json.decode(raw, type=Vouched), msgspec.json.decode(raw, type=dict[str, Any])
        except (PyJWTError, msgspec.MsgspecError, ValueError, RecursionError):
            raise Unauthenticated(_WORDS) from None
        if not _timely(claims, issuer, self._ambient.now()) or issuer.audience not in _audiences(claims):
            raise Unauthenticated(_WORDS)
        actor = _actor(claims, document, issuer)
        if not issuer.before and any(actor.name.startswith(prefix) for prefix in self._prefixes):
            raise Unauthenticated(_NOBODY)  # that name is another issuer's to give
        return actor


def fetched(place: str, timeout: float) -> bytes:
    """The key set at a file or address. A redirection is not followed: the operator named this place and no other."""
    if urlsplit(place).scheme not in ("http", "https"):
        raw = Path(place.removeprefix("file://")).read_bytes()
    else:
        from http.client import HTTPException
        from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

        class Straight(HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                return None

        opener = build_opener(Straight(), ProxyHandler())
        asked = Request(place, headers={"Accept": "application/jwk-set+json, application/json"})
        try:
            with opener.open(asked, timeout=timeout) as answer:
                raw = answer.read(LARGEST + 1)
        except HTTPException as error:
            raise OSError(f"{type(error).__name__} from the issuer's keys") from None
    if len(raw) > LARGEST:
        raise ValueError("the key set is too large")
    return raw


def keys_in(raw: bytes, algorithms: tuple[str, ...]) -> dict[tuple[str | None, str], Key]:
    """The public signing keys of a set that fit an allowed algorithm; all others are passed over."""
    from jwt import PyJWK, PyJWTError

    class Set(msgspec.Struct):
        keys: list[dict[str, Any]]

    found: dict[tuple[str | None, str], Key] = {}
    for number, item in enumerate(msgspec.json.decode(raw, type=Set).keys):
        for algorithm in algorithms:
            kty, curve = ALGORITHMS[algorithm]
            if item.get("kty") != kty or item.get("crv") != curve or "d" in item:
                continue
            if item.get("use", "sig") != "sig" or item.get("alg", algorithm) != algorithm:
                continue
            try:
                key = PyJWK(item, algorithm)
            except (PyJWTError, ValueError, TypeError, KeyError):
                continue
            if kty == "RSA" and key.key.key_size < SMALLEST_RSA:
                continue
            kid = item.get("kid")
            found[kid if isinstance(kid, str) else f"\x00{number}", algorithm] = Key(algorithm, key)
    return found


def _header(text: str) -> Head:
    raw = unspelled(text)
    if REFUSED & set(msgspec.json.decode(raw, type=dict[str, msgspec.Raw])):
        raise ValueError("a header that names keys or another reading")
    return msgspec.json.decode(raw, type=Head)


def _timely(claims: Vouched, issuer: Issuer, now: int) -> bool:
    seconds = now / SECOND
    return claims.exp > seconds - issuer.leeway and max(claims.nbf, claims.iat) <= seconds + issuer.leeway


def _audiences(claims: Vouched) -> list[str]:
    return [claims.aud] if isinstance(claims.aud, str) else claims.aud


def _actor(claims: Vouched, document: Mapping[str, Any], issuer: Issuer) -> Actor:
    tenant = issuer.tenant or _inside(document, issuer.tenant_claim)
    name = _inside(document, issuer.name_claim)
    known = not issuer.tenant_claim or tenant in issuer.tenants
    unproven = issuer.name_claim == "email" and document.get("email_verified") is not True
    if not isinstance(tenant, str) or not known or unproven:
        raise Unauthenticated(_NOBODY)
    try:
        name = must_be_name(issuer.before + must_be_name(name))
    except Invalid:
        raise Unauthenticated(_NOBODY) from None
    words = _inside(document, issuer.roles_claim)
    words = words.split() if isinstance(words, str) else words if isinstance(words, list) else []
    roles = {issuer.roles[word] for word in words if isinstance(word, str) and word in issuer.roles}
    whose = b"".join(len(part).to_bytes(4, "big") + part for part in (issuer.issuer.encode(), claims.sub.encode()))
    return Actor(
        tenant=tenant,
        principal=f"prn_{sha256(b'perdure outside' + whose).hexdigest()[:32]}",
        name=name,
        kind=issuer.kind,
        roles=frozenset(roles | set(issuer.always)),
        scopes=issuer.scopes,
        credential=f"{CREDENTIAL}{sha256(issuer.issuer.encode()).hexdigest()[:16]}",
    )


def _inside(document: Any, path: str) -> Any:
    """What lies under a name, or under names inside one another; the whole name first, as some contain dots."""
    if not path or not isinstance(document, Mapping):
        return None
    if path in document:
        return document[path]
    first, _, rest = path.partition(".")
    return _inside(document.get(first), rest)
