"""Master keys that this process holds itself: from a text in the environment, or made up for a store in RAM.

Invariant: a key leaves this module only as what was derived from it; no repr, error or log line holds one.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from perdure.core.errors import Invalid, KeyMissing
from perdure.ports.ambient import Ambient
from perdure.sealing.derivation import KEY_BYTES, derived, master_id

VARIABLE: Final = "PERDURE_MASTER_KEY"
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class HeldKeys:
    """Master keys in this process's memory; the first one is current."""

    def __init__(self, keys: Mapping[str, bytes], place: str) -> None:
        self._keys = dict(keys)
        self._place = place

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._keys)} from {self._place})"

    @property
    def place(self) -> str:
        """Where they come from."""
        return self._place

    def current(self) -> str:
        """The first one."""
        return next(iter(self._keys))

    def ids(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._keys)

    def derive(self, key: str, salt: bytes, context: bytes) -> bytes:
        """HKDF-SHA256 of the key."""
        found = self._keys.get(key)
        if found is None:
            raise KeyMissing(f"{self._place} has no master key {key}; bring it back", master=key)
        return derived(found, salt, context)

    def refresh(self) -> None:
        """Nothing to look at: they do not change while the process runs."""


def from_environment(text: str, place: str = f"${VARIABLE}") -> HeldKeys:
    """Keys from a text: `base64` or `id:base64`, several parted by commas, the first one current."""
    keys: dict[str, bytes] = {}
    for number, part in enumerate(text.split(","), 1):
        name, _, digits = part.strip().rpartition(":")
        key = key_from(digits, f"key {number} of {place}")
        if name and not _ID.fullmatch(name):
            raise Invalid(f"the id of key {number} of {place} is not up to 64 letters, digits, dots and dashes")
        if keys.setdefault(name or master_id(key), key) != key:
            raise Invalid(f"{place} gives two keys under the id {name}; give each its own")
    return HeldKeys(keys, place)


def made_up(ambient: Ambient) -> HeldKeys:
    """A key for as long as the process lives."""
    key = ambient.random(KEY_BYTES)
    return HeldKeys({master_id(key): key}, "memory")


def key_from(digits: str, what: str) -> bytes:
    """The 32 bytes behind base64, or `Invalid`, which never shows them."""
    try:
        key = base64.b64decode(digits, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise Invalid(f"{what} is not the base64 of {KEY_BYTES} bytes; make one with: openssl rand -base64 32")
    return key
