"""Sealing: what a store does to content before it touches a disk, and back.

Content belongs to a place: a session (or a blob) of a tenant, with a salt of its own that lives in the vault. The
salt's name is kept beside the content, the salt itself never is: destroying it makes every copy unreadable.

A store notes in itself how it is sealed, as a mark: whoever opens it shows the mark to its seal (`join`) first.
Erasing goes condemn → the content goes → destroy, and `settle` at the next opening ends what a dead process began.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from perdure.core.errors import KeyMissing
from perdure.core.session.ids import SessionId


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

    def join(self, mark: str | None) -> str:
        """Take on a store with this mark (None: a new one, "": one that is not sealed); the mark it has to carry.

        `KeyMissing` when it was sealed with another vault, `Refused` when it is not sealed and this would seal it.
        """
        ...

    def fresh(self) -> bytes | None:
        """The name of a salt nobody has used, durable in the vault before it is given; None when nothing is sealed."""
        ...

    def seal(self, place: Place, kind: str, seq: int, bound: bytes, plain: bytes) -> bytes:
        """Sealed bytes that open only in this place, as this kind, with this number and this binding."""
        ...

    def open(self, place: Place, kind: str, seq: int, bound: bytes, sealed: bytes) -> bytes:
        """The plain bytes. `Damaged` when they were changed or belong elsewhere, `KeyMissing` without the key, and its
        kind `Shredded` once the salt was destroyed.
        """
        ...

    def blind(self, use: str, text: str) -> str:
        """A stand-in that equals another's exactly if the texts are equal: a keyed hash, or the text itself."""
        ...

    def condemn(self, salts: Sequence[bytes]) -> None:
        """Note durably that these salts are about to be destroyed, before their content goes."""
        ...

    def spare(self, salts: Sequence[bytes]) -> None:
        """Take the note back: their content stays after all."""
        ...

    def destroy(self, salts: Sequence[bytes]) -> None:
        """Destroy salts for good: what they sealed is unreadable from now on, in every copy."""
        ...

    def settle(self, used: Callable[[], Collection[bytes]]) -> None:
        """End what a dead process began: condemned salts that the store no longer names (`used`) are destroyed, the
        others spared. Ask it when the store is opened for writing.
        """
        ...

    def close(self) -> None:
        """Let go of the vault; harmless when repeated."""
        ...


@runtime_checkable
class Expecting(Protocol):
    """A seal that finds the keys of many places together, more quickly than one by one."""

    def expect(self, places: Sequence[Place]) -> None:
        """Content of these places is about to be opened. A key that is not there is told when it is needed."""
        ...


@runtime_checkable
class Salted(Protocol):
    """A store that can tell which salt each of its sessions names."""

    async def salts(self, after: SessionId | None, limit: int) -> tuple[tuple[SessionId, bytes | None], ...]:
        """Sessions of all tenants in the order of their ids, after this one, each with the name of its salt."""
        ...


class Clear:
    """No sealing: content is kept as it is."""

    clear = True

    def join(self, mark: str | None) -> str:
        if mark:
            raise KeyMissing("the store is sealed; open it with its master key and its vault")
        return ""

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

    def spare(self, salts: Sequence[bytes]) -> None:
        return

    def destroy(self, salts: Sequence[bytes]) -> None:
        return

    def settle(self, used: Callable[[], Collection[bytes]]) -> None:
        return

    def close(self) -> None:
        return


CLEAR: Final = Clear()
