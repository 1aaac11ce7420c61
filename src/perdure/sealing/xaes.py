"""XAES-256-GCM as C2SP specifies it: AES-256-GCM under a key that the first half of a 24-byte nonce derives.

Nonces of 24 bytes may be drawn at random for any number of messages a store will ever hold (2^80 with a risk of
2^-32), so no counter has to survive a crash, a restore or a branch. The derivation is CMAC over one block each, which
comes down to two encryptions of a block; what they need of the key is computed once.
"""

from typing import Any, Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

NAME: Final = "XAES-256-GCM"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16
_HALF: Final = 12
_BLOCK: Final = 16
_CARRY: Final = 0x87
_MASK: Final = (1 << 128) - 1
_FIRST: Final = int.from_bytes(b"\x00\x01X\x00", "big")
_SECOND: Final = int.from_bytes(b"\x00\x02X\x00", "big")


class Xaes:
    """One key, ready for use from any thread."""

    __slots__ = ("_cipher", "_first", "_low", "_second", "_spare")

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(AES256(key), ECB())  # single blocks, as CMAC asks for
        # A context serves one thread at a time: it is taken out while in use, and another made if none is left.
        self._spare: list[Any] = []
        block = int.from_bytes(self._encrypt(bytes(_BLOCK)), "big")
        subkey = ((block << 1) ^ (_CARRY if block >> 127 else 0)) & _MASK
        high, self._low = subkey >> 96, subkey & ((1 << 96) - 1)
        self._first = (_FIRST ^ high).to_bytes(4, "big")
        self._second = (_SECOND ^ high).to_bytes(4, "big")

    def __repr__(self) -> str:
        return "Xaes(…)"

    def seal(self, nonce: bytes, plain: bytes, bound: bytes) -> bytes:
        """The sealed bytes with their tag. `bound` is not among them, but they do not open without it."""
        return AESGCM(self._subkey(nonce)).encrypt(nonce[_HALF:], plain, bound)

    def open(self, nonce: bytes, sealed: bytes, bound: bytes) -> bytes:
        """The plain bytes, or `InvalidTag`."""
        return AESGCM(self._subkey(nonce)).decrypt(nonce[_HALF:], sealed, bound)

    def _subkey(self, nonce: bytes) -> bytes:
        rest = (int.from_bytes(nonce[:_HALF], "big") ^ self._low).to_bytes(_HALF, "big")
        return self._encrypt(self._first + rest + self._second + rest)

    def _encrypt(self, blocks: bytes) -> bytes:
        try:
            context = self._spare.pop()
        except IndexError:
            context = self._cipher.encryptor()
        encrypted: bytes = context.update(blocks)
        self._spare.append(context)
        return encrypted
