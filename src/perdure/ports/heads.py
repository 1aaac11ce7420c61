"""Signed heads: how far each log went when somebody vouched for it, kept apart from the store that holds the log.

The chain proves that what is there follows from what was before; that something is missing at its end, or that all of
it is an older copy, only somebody outside can tell. Only seals with keys can sign: a store in the clear has no heads.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from perdure.core.session.ids import SessionId
from perdure.ports.seal import Place, Seal


class Reached(msgspec.Struct, frozen=True):
    """How far the log of a place goes: its version, and the chain's digest there."""

    place: Place
    version: int
    digest: bytes


class Vouched(msgspec.Struct, frozen=True, kw_only=True):
    """A signed head as it was found. `fault` says why it cannot be believed, if so: then the rest is hearsay."""

    salt: bytes
    tenant: str
    session: SessionId
    version: int
    digest: bytes
    at: int
    remark: str
    fault: str = ""
    store: str = ""
    mac: bytes = b""
    """The mark of the store it was signed for, and the signature itself, for whoever takes it elsewhere."""


class Heads(Protocol):
    """The signed heads of one store. Every method blocks until the disk has it; any thread may call."""

    def sign(self, reached: Sequence[Reached], remark: str = "", *, back: bool = False) -> int:
        """Vouch for logs, now; how many heads changed. A head moves forward only, unless it is to be set `back`."""
        ...

    def signed(self, places: Sequence[Place]) -> Mapping[bytes, Vouched]:
        """The heads of these places, by the names of their salts."""
        ...

    def known(self, after: bytes, limit: int) -> tuple[Vouched, ...]:
        """All heads of the store in the order of their salts, after this one."""
        ...

    def fault(self, head: Vouched) -> str:
        """Why a head that was taken elsewhere is not to be believed; empty when this store's keys signed it."""
        ...

    def drop(self, salts: Sequence[bytes]) -> None:
        """Forget heads."""
        ...

    def caught_up(self, tenant: str) -> int:
        """Up to which moment everything of a tenant is known to have been signed; 0 when nobody has said."""
        ...

    def note_caught_up(self, tenant: str, at: int) -> None:
        """Say so."""
        ...


@runtime_checkable
class SignsHeads(Protocol):
    """A seal that has signed heads, if its vault can keep them."""

    @property
    def heads(self) -> Heads | None:
        """The heads, or None."""
        ...


@runtime_checkable
class Sealed(Protocol):
    """A store that tells under which seals its content lies."""

    seals: tuple[Seal, ...]


@runtime_checkable
class Placed(Protocol):
    """A wrapping that tells whose content it wraps, under which seal."""

    seal: Seal
    place: Place


def heads_of(seal: Seal) -> Heads | None:
    """The signed heads of a seal; None in the clear, and where the vault keeps none."""
    return seal.heads if isinstance(seal, SignsHeads) else None
