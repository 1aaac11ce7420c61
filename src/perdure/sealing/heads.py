"""Signing heads: an HMAC-SHA256 over where a log stands, under a key that comes from a secret in the vault.

That secret is the one behind the indexes: random, wrapped under the master key and wrapped anew when that changes. So
heads stay valid through every rotation, and whoever has the store alone, or the vault alone, can sign nothing.
"""

import hmac
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from perdure.core.session.ids import SessionId, raw, text
from perdure.ports.ambient import Ambient
from perdure.ports.heads import Reached, Vouched
from perdure.ports.seal import Place
from perdure.ports.vault import KeepsHeads, SignedHead

LABEL: Final = "perdure/1/head"
NO_MAC: Final = b""
_encode = msgspec.msgpack.Encoder().encode


def signed_bytes(head: SignedHead) -> bytes:
    """What is signed of a head: everything but the signature, in a form that is one head's alone."""
    return _encode(
        (LABEL, head.salt, head.store, head.tenant, head.session, head.version, head.digest, head.at, head.remark)
    )


def signature(key: bytes, head: SignedHead) -> bytes:
    """The signature of a head."""
    return hmac.digest(key, signed_bytes(head), "sha256")


def fault_of(key: bytes, store: str, head: SignedHead) -> str:
    """Why a head is not to be believed in the store with this mark; empty when it is."""
    if not hmac.compare_digest(signature(key, head), head.mac):
        return "its signed head was changed or forged: the signature is not that of this store's keys"
    if head.store != store:
        return "its head was signed for another store: the mark of this one was changed"
    return ""


class SignedHeads:
    """`perdure.ports.heads.Heads` in a vault."""

    def __init__(self, vault: KeepsHeads, key: bytes, store: str, ambient: Ambient) -> None:
        self._vault = vault
        self._key = key
        self._store = store
        self._ambient = ambient

    def __repr__(self) -> str:
        return f"SignedHeads({self._store})"

    def sign(self, reached: Sequence[Reached], remark: str = "", *, back: bool = False) -> int:
        """One transaction for all of them."""
        return self._vault.keep_heads([self._signed(item, remark) for item in reached], back=back) if reached else 0

    def _signed(self, item: Reached, remark: str) -> SignedHead:
        place = item.place
        assert place.salt is not None, "a place in the clear has no head"
        head = SignedHead(
            salt=place.salt,
            store=self._store,
            tenant=place.tenant,
            session=place.owner,
            version=item.version,
            digest=item.digest,
            at=self._ambient.now(),
            remark=remark,
            mac=NO_MAC,
        )
        return msgspec.structs.replace(head, mac=signature(self._key, head))

    def signed(self, places: Sequence[Place]) -> Mapping[bytes, Vouched]:
        """The heads of these places."""
        found = self._vault.heads([place.salt for place in places if place.salt is not None])
        return {salt: self._vouched(head) for salt, head in found.items()}

    def known(self, after: bytes, limit: int) -> tuple[Vouched, ...]:
        """All heads of the store."""
        return tuple(self._vouched(head) for head in self._vault.heads_of(self._store, after, limit))

    def fault(self, head: Vouched) -> str:
        """Signed anew, and compared."""
        taken = SignedHead(
            salt=head.salt,
            store=head.store,
            tenant=head.tenant,
            session=raw(head.session),
            version=head.version,
            digest=head.digest,
            at=head.at,
            remark=head.remark,
            mac=head.mac,
        )
        return fault_of(self._key, self._store, taken)

    def drop(self, salts: Sequence[bytes]) -> None:
        """Forget heads."""
        if salts:
            self._vault.drop_heads(salts)

    def caught_up(self, tenant: str) -> int:
        """The vault's note."""
        return self._vault.noted(self._note(tenant)) or 0

    def note_caught_up(self, tenant: str, at: int) -> None:
        """Into the vault's notes."""
        self._vault.note(self._note(tenant), at)

    def _note(self, tenant: str) -> str:
        return f"signed/{self._store}/{tenant}"

    def _vouched(self, head: SignedHead) -> Vouched:
        return Vouched(
            salt=head.salt,
            tenant=head.tenant,
            session=SessionId(text(head.session[:16].ljust(16, b"\0"))),
            version=head.version,
            digest=head.digest,
            at=head.at,
            remark=head.remark,
            fault=fault_of(self._key, self._store, head),
            store=head.store,
            mac=head.mac,
        )
