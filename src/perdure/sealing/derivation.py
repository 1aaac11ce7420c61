"""One key from another: HKDF-SHA256, and the names that keep its uses apart."""

from hashlib import sha256
from typing import Final

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

KEY_BYTES: Final = 32
_SESSION: Final = "perdure/1/session"
_BLIND: Final = "perdure/1/blind"
_HEADS: Final = "perdure/1/heads"
_ID: Final = b"perdure/1/master"
_encode = msgspec.msgpack.Encoder().encode


def derived(key: bytes, salt: bytes, context: bytes) -> bytes:
    """A key for this salt and context."""
    return HKDF(SHA256(), KEY_BYTES, salt, context).derive(key)


def session_key(secret: bytes, tenant: str, owner: bytes) -> bytes:
    """What seals the content of one place: from the secret its salt stands for, and whose it is."""
    return HKDFExpand(SHA256(), KEY_BYTES, _encode((_SESSION, tenant, owner))).derive(secret)


def blind_key(secret: bytes, use: str) -> bytes:
    """What hashes one kind of index entry."""
    return HKDFExpand(SHA256(), KEY_BYTES, _encode((_BLIND, use))).derive(secret)


def heads_key(secret: bytes) -> bytes:
    """What signs heads: from the secret of the indexes, for this use alone."""
    return HKDFExpand(SHA256(), KEY_BYTES, _encode((_HEADS,))).derive(secret)


def master_id(key: bytes) -> str:
    """What a master key is called where nobody gave it a name: the same wherever it is kept, and no help in guessing
    it.
    """
    return derived(key, b"", _ID)[:8].hex()


def proof_name(master: str) -> bytes:
    """The name of a master key's proof in the vault."""
    return sha256(b"perdure/1/proof" + master.encode()).digest()[:16]
