"""Tokens of our own as signed text (JWS, HS256): one algorithm, one type per kind, keys of its own per kind.

The header must be, to the letter, what we write for a key we know: nothing in it is ever read, so nothing in it can
name an algorithm, a key or a place. The claims are read only after the signature held. There is no partial answer.
"""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from hmac import new as hmac
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from perdure.core.errors import KeyMissing, TokenRevoked

ALGORITHM: Final = "HS256"
LONGEST: Final = 8192
"""Characters; a token of ours is far shorter."""
KEY_BYTES: Final = 32
Secret: TypeAlias = Callable[[str], Awaitable[Sequence[tuple[str, bytes]]]]
"""The keys of a kind with their ids: the current one first, then those before it that still count."""
_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
T = TypeVar("T", bound=msgspec.Struct)


@cache
def _jws() -> Any:
    """What signs and spells. It is loaded with the first token, so that a server starts quickly."""
    from jwt.api_jws import PyJWS

    return PyJWS(algorithms=[ALGORITHM])


@cache
def _hs256() -> Any:
    from jwt.algorithms import HMACAlgorithm

    return HMACAlgorithm(HMACAlgorithm.SHA256)


@lru_cache(256)
def header(typ: str, kid: str) -> str:
    """The one header that a token of this type, signed with this key, can have."""
    headers = {"typ": typ, "kid": kid}
    spelled: str = _jws().encode(b"", bytes(KEY_BYTES), algorithm=ALGORITHM, headers=headers)
    return spelled.partition(".")[0]


class Ring:
    """The keys of one kind of token, as they stood a moment ago: signs and opens tokens of that kind."""

    def __init__(self, kind: str, typ: str, keys: Sequence[tuple[str, bytes]]) -> None:
        if not keys or any(len(key) < KEY_BYTES for _, key in keys):
            told = f"no key of {KEY_BYTES} bytes signs {kind} tokens; start the server anew to make one"
            raise KeyMissing(told, kind=kind)
        self._kind = kind
        self._typ = typ
        self._keys = keys

    @property
    def current(self) -> str:
        """The id of the key that signs now."""
        return self._keys[0][0]

    def sign(self, claims: msgspec.Struct) -> str:
        """The claims as a token, signed with the current key."""
        kid, key = self._keys[0]
        headers = {"typ": self._typ, "kid": kid}
        token: str = _jws().encode(msgspec.json.encode(claims), key, algorithm=ALGORITHM, headers=headers)
        return token

    def opened(self, token: object, into: type[T]) -> T | None:
        """What a token claims; None when it is none of ours, was changed, or is of another kind."""
        pieces = split(token, LONGEST)
        if pieces is None:
            return None
        told, claims, signature = pieces
        key = next((key for kid, key in self._keys if header(self._typ, kid) == told), None)
        try:
            if key is None or not _hs256().verify(f"{told}.{claims}".encode(), key, unspelled(signature)):
                return None
            return msgspec.json.decode(unspelled(claims), type=into)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def derived(self, kid: str, *context: str) -> str:
        """A handle that only we can make, always the same for a context; `TokenRevoked` when the key is gone."""
        key = next((key for known, key in self._keys if known == kid), None)
        if key is None:
            raise TokenRevoked("the key behind this token is gone; sign in again")
        parts = [part.encode() for part in (self._kind, *context)]
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return spelled(hmac(key, b"perdure handle" + message, sha256).digest())


def split(token: object, longest: int) -> tuple[str, str, str] | None:
    """The header, claims and signature of a token as they are spelled; None when it has not that shape."""
    if type(token) is not str or len(token) > longest:
        return None
    found = _SHAPE.fullmatch(token)
    return None if found is None else (found[1], found[2], found[3])


def spelled(raw: bytes) -> str:
    """Bytes in base64url, without padding."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def unspelled(text: str) -> bytes:
    """The bytes of a text in base64url; `ValueError` when it is not exactly how they are spelled."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if spelled(raw) != text:
        raise ValueError("not the usual spelling")
    return raw
