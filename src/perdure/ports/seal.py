"""Sealing: what a store does to content before it touches a disk, and back.

Content belongs to a place: a session (or a blob) of a tenant, with a salt of its own that lives in the vault. The
salt's name is kept beside the content, the salt itself never is: destroying it makes every copy unreadable.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec


class Place(msgspec.Struct, frozen=True, gc=False):
    """Whose content it is: the tenant, the raw id of the session or blob, and the name of its salt (None: in the
    clear).
    """

    tenant: str
    owner: bytes
    salt: bytes | None = None


class Seal(Protocol):
    """Encryption of content under a key per place. Safe to use from any thread."""

    clear: bool
    """Whether nothing is sealed: then `fresh` gives None, and `seal` is never asked."""

    def fresh(self) -> bytes | None:
        """The name of a salt nobody has used, durable in the vault before it is given; None when nothing is sealed."""
        ...

    def seal(self, place: Place, kind: str, seq: int, bound: bytes, plain: bytes) -> bytes:
        """Sealed bytes that open only in this place, as this kind, with this number and this binding."""
        ...

    def open(self, place: Place, kind: str, seq: int, bound: bytes, sealed: bytes) -> bytes:
        """The plain bytes. `Damaged` when they were changed or belong elsewhere, `KeyMissing` without the key."""
        ...

    def blind(self, use: str, text: str) -> str:
        """A stand-in that equals another's exactly if the texts are equal: a keyed hash, or the text itself."""
        ...

    def condemn(self, salts: Sequence[bytes]) -> None:
        """Note durably that these salts are about to be destroyed, before their content goes."""
        ...

    def destroy(self, salts: Sequence[bytes]) -> None:
        """Destroy salts for good: what they sealed is unreadable from now on, in every copy."""
        ...

    def close(self) -> None:
        """Let go of the vault; harmless when repeated."""
        ...


class Clear:
    """No sealing: content is kept as it is."""

    clear = True

    def fresh(self) -> bytes | None:
        return None

    def seal(self, place: Place, kind: str, seq: int, bound: bytes, plain: bytes) -> bytes:
        return plain

    def open(self, place: Place, kind: str, seq: int, bound: bytes, sealed: bytes) -> bytes:
        return sealed

    def blind(self, use: str, text: str) -> str:
        return text

    def condemn(self, salts: Sequence[bytes]) -> None:
        return

    def destroy(self, salts: Sequence[bytes]) -> None:
        return

    def close(self) -> None:
        return


CLEAR: Final = Clear()
