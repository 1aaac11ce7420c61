"""API keys as text, `pdk_<id>_<secret>`: the id finds the key, the secret proves it, only the secret's hash is kept."""

import re
from hashlib import sha256
from string import ascii_letters, digits
from typing import Final, NamedTuple

PREFIX: Final = "pdk"
ID_BYTES: Final = 16
SECRET_BYTES: Final = 32
_ALPHABET: Final = digits + ascii_letters
_ID_CHARACTERS: Final = 22
_SECRET_CHARACTERS: Final = 43
_SHAPE: Final = re.compile(f"{PREFIX}_([0-9A-Za-z]{{{_ID_CHARACTERS}}})_([0-9A-Za-z]{{{_SECRET_CHARACTERS}}})")


class Handle(NamedTuple):
    """The two parts of a key."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Handle({self.id})"

    @property
    def spelled(self) -> str:
        """The whole key, as its holder keeps it."""
        return f"{PREFIX}_{self.id}_{self.secret}"


NOBODY: Final = Handle("0" * _ID_CHARACTERS, "0" * _SECRET_CHARACTERS)
"""Looked up in place of what is no key, so that it takes as long to refuse."""


def made(chance: bytes) -> Handle:
    """A key from 48 random bytes."""
    assert len(chance) == ID_BYTES + SECRET_BYTES, "an id and a secret are made from 48 random bytes"
    return Handle(base62(chance[:ID_BYTES], _ID_CHARACTERS), base62(chance[ID_BYTES:], _SECRET_CHARACTERS))


def parsed(spelled: object) -> Handle | None:
    """The parts of a key; None when this is none."""
    found = _SHAPE.fullmatch(spelled) if type(spelled) is str else None
    return None if found is None else Handle(found[1], found[2])


def hashed(secret: str) -> bytes:
    """What is stored of a secret. It has 256 random bits: guessing from the hash is as hopeless as guessing it."""
    return sha256(secret.encode()).digest()


def base62(data: bytes, width: int) -> str:
    """Bytes as letters and digits, always so many."""
    number = int.from_bytes(data, "big")
    found = ""
    for _ in range(width):
        number, rest = divmod(number, len(_ALPHABET))
        found = _ALPHABET[rest] + found
    assert not number, "the width holds all the bytes"
    return found


def opaque(prefix: str, chance: bytes) -> str:
    """An id that tells nothing: a prefix, and 128 random bits."""
    return f"{prefix}_{base62(chance[:ID_BYTES], _ID_CHARACTERS)}"
