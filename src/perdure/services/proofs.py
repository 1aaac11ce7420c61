"""Proofs that a request comes from the holder of a client key (DPoP, RFC 9449): a stolen token is no use without it.

A proof is made for one request: for its method and address, for one access token, at this time, with a nonce this node
gave out, and it counts once. Which proofs were seen is remembered here alone, and so a nonce counts only at the node
that gave it: a proof that was used here is new to no other node.
"""

from collections import OrderedDict
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac
from typing import Annotated, Final, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from perdure.core.errors import RateLimited, Unauthenticated
from perdure.ports.ambient import Ambient
from perdure.services.signed import spelled, split, unspelled

SECOND: Final = 1_000_000
WINDOW: Final = 60
"""Seconds by which a proof's time may differ from ours."""
NONCE: Final = 300
"""Seconds after which the nonce changes; the one before it still counts."""
LONGEST: Final = 4096
SEEN: Final = 100_000
"""Proofs that are remembered at a time."""
_PORTS: Final = {"http": 80, "https": 443}
Number = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{43}\Z")]
"""256 bits: a coordinate of either curve, or a hash."""


class Curve(msgspec.Struct, frozen=True, tag_field="kty", tag="EC", forbid_unknown_fields=True):
    """A public key for ES256."""

    crv: Literal["P-256"]
    x: Number
    y: Number


class Edwards(msgspec.Struct, frozen=True, tag_field="kty", tag="OKP", forbid_unknown_fields=True):
    """A public key for EdDSA."""

    crv: Literal["Ed25519"]
    x: Number


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a proof's header says: here alone a token brings its key, which proves nothing but itself."""

    typ: Literal["dpop+jwt"]
    alg: Literal["ES256", "EdDSA"]
    jwk: Curve | Edwards


class Proof(msgspec.Struct, frozen=True):
    """What a proof claims."""

    jti: Annotated[str, msgspec.Meta(min_length=8, max_length=256)]
    htm: str
    htu: str
    iat: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    nonce: str = ""
    ath: str = ""


class Proofs:
    """Verifies proofs, once each, and gives out the nonces they are made with."""

    def __init__(self, ambient: Ambient) -> None:
        self._ambient = ambient
        self._key = ambient.random(32)
        self._seen: OrderedDict[bytes, int] = OrderedDict()

    def nonce(self) -> str:
        """What proofs made now must carry; sent with every answer as `DPoP-Nonce`."""
        return self._nonce(self._ambient.now() // (NONCE * SECOND))

    def verify(self, proof: str, *, method: str, url: str, token: str | None = None) -> str:
        """The thumbprint of the key that made a proof for this request, and for this access token if there is one.

        `Unauthenticated` when it does not hold; then `nonce` in its fields is the one to make the next proof with.
        """
        header, claims = self._opened(proof)
        now = self._ambient.now()
        if claims.htm != method or not _same(claims.htu, url):
            raise self._refusal("it is for another request")
        if abs(now - claims.iat * SECOND) > WINDOW * SECOND:
            raise self._refusal("its time is not now")
        if not compare_digest(claims.ath, "" if token is None else hash_of(token)):
            raise self._refusal("it is for another token")
        if not self._is_ours(claims.nonce, now):
            raise self._refusal("it needs the nonce of this answer", error="use_dpop_nonce")
        print_ = thumbprint(header.jwk)
        self._once(sha256(f"{print_} {claims.jti}".encode()).digest(), now)
        return print_

    def _opened(self, proof: object) -> tuple[Header, Proof]:
        from jwt import PyJWK, PyJWTError  # loaded with the first proof, so that a server starts quickly
        from jwt.api_jws import PyJWS

        pieces = split(proof, LONGEST)
        if pieces is None:
            raise self._refusal("it is none")
        try:
            header = msgspec.json.decode(unspelled(pieces[0]), type=Header)
            key = PyJWK(msgspec.to_builtins(header.jwk), header.alg)
            raw = PyJWS(algorithms=[header.alg]).decode(".".join(pieces), key, algorithms=[header.alg])
            return header, msgspec.json.decode(raw, type=Proof)
        except (PyJWTError, msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
            raise self._refusal("it is none") from None

    def _once(self, mark: bytes, now: int) -> None:
        """Remember a proof for as long as its time could count."""
        while self._seen and next(iter(self._seen.values())) <= now:
            self._seen.popitem(last=False)
        if mark in self._seen:
            raise self._refusal("it was used before")
        if len(self._seen) >= SEEN:
            raise RateLimited("too many proofs at a time; try again in a minute", retry_after=WINDOW)
        self._seen[mark] = now + 2 * WINDOW * SECOND + SECOND

    def _is_ours(self, nonce: str, now: int) -> bool:
        number = now // (NONCE * SECOND)
        given = nonce.encode("utf-8", "replace")
        return any(compare_digest(given, self._nonce(each).encode()) for each in (number, number - 1))

    def _nonce(self, number: int) -> str:
        return spelled(hmac(self._key, b"perdure nonce" + number.to_bytes(8, "big"), sha256).digest())

    def _refusal(self, why: str, error: str = "invalid_dpop_proof") -> Unauthenticated:
        told = f"this DPoP proof does not count: {why}; make a new one for this request"
        return Unauthenticated(told, error=error, nonce=self.nonce())


def hash_of(token: str) -> str:
    """The hash by which a proof names its access token."""
    return spelled(sha256(token.encode("utf-8", "replace")).digest())


def thumbprint(key: Curve | Edwards) -> str:
    """The name of a key: the hash of its required members in order (RFC 7638)."""
    members = dict(sorted(msgspec.to_builtins(key).items()))
    return spelled(sha256(msgspec.json.encode(members)).digest())


def _same(claimed: str, url: str) -> bool:
    """Whether two addresses are one: scheme, host, port and path; query and fragment do not count (RFC 9449)."""
    try:
        return _place(urlsplit(claimed)) == _place(urlsplit(url))
    except ValueError:
        return False


def _place(parts: SplitResult) -> tuple[str, str, int | None, str]:
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address with a name in it")
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme), parts.path or "/"
