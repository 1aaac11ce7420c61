"""The keyring: a `Seal` with a key for every session, from master keys and a vault.

Sealed bytes are `01`, a nonce of 24 random bytes, and XAES-256-GCM's output. Bound to them, and checked when they are
opened: the format, the algorithm, the salt's name, tenant, owner, kind, number, and for a record the chain's value
after it, which covers the writer's epoch and everything before.

Invariants: a key is used for one place alone; a nonce comes from chance, never from a number; nothing is sealed under
a salt that the vault does not have for good.
"""

import hmac
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag

from perdure.core.errors import Damaged, KeyMissing, Refused, Shredded, WorldError
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.ports.seal import Place
from perdure.ports.vault import Entry, GivesMany, KeepsHeads, Masters, Vault
from perdure.sealing.derivation import blind_key, heads_key, session_key
from perdure.sealing.heads import SignedHeads
from perdure.sealing.stock import Stock
from perdure.sealing.wrapping import INDEX_NAME, index_entry, missing, proof_entry, prove, secret_of
from perdure.sealing.xaes import NAME, NONCE_BYTES, TAG_BYTES, Xaes

FORMAT: Final = 1
MAX_KEYS: Final = 16_384
"""So many keys are remembered; a list as long is opened again without asking the vault."""
MAX_BLINDS: Final = 16_384
BLIND_BYTES: Final = 16
SPARED_AFTER: Final = 600_000_000
"""Microseconds for which a condemned salt is left alone that a store still names: its eraser may be at work."""
_HOT: Final = frozenset({"label", "word"})
_HEAD: Final = FORMAT.to_bytes(1, "big")
_BEGIN: Final = 1 + NONCE_BYTES
_encode = msgspec.msgpack.Encoder().encode


class Keyring:
    """Keys for the places of one store, found in a vault with the help of master keys.

    Opening one proves the master keys, so a wrong one is known before anything is written. What each method promises,
    `perdure.ports.seal.Seal` says.
    """

    clear = False

    def __init__(self, masters: Masters, vault: Vault, ambient: Ambient, *, read_only: bool = False) -> None:
        self._masters = masters
        self._vault = vault
        self._ambient = ambient
        self._mark = ""
        self._read_only = read_only
        self._keys: dict[Place, Xaes] = {}
        self._given: dict[bytes, Entry] = {}
        self._hashes: dict[str, bytes] = {}
        self._blinds: dict[tuple[str, str], str] = {}
        self._stock = Stock(masters, vault, ambient)
        self._index = _unlocked(masters, vault, ambient, read_only)
        on_fork(self, Forking(_nothing, _nothing, Keyring._forked))

    def __repr__(self) -> str:
        return f"Keyring({self._masters.place}, {self._vault.place})"

    def _forked(self) -> None:
        """In the child: what is in stock is the parent's to give out."""
        self._stock = Stock(self._masters, self._vault, self._ambient)
        self._given = {}

    def join(self, mark: str | None) -> str:
        if mark == "":
            raise Refused(
                "the store is not sealed, and sealing cannot be added to what is written; open it without seal, key "
                "and vault, or export its sessions and import them into a new, sealed store"
            )
        if mark is None:
            mark = f"{self._vault.id}.{self._ambient.random(8).hex()}"
        must_be_its_own(self._vault, mark)
        self._mark = mark
        return mark

    @property
    def heads(self) -> SignedHeads | None:
        """The signed heads of the store that was joined; None when the vault cannot keep any."""
        if not isinstance(self._vault, KeepsHeads):
            return None
        return SignedHeads(self._vault, heads_key(self._index), self._mark, self._ambient)

    def fresh(self) -> bytes | None:
        entry = self._stock.take()
        if len(self._given) > MAX_KEYS:
            self._given = {}
        self._given[entry.name] = entry
        return entry.name

    def seal(self, place: Place, kind: str, seq: int, bound: bytes, plain: bytes) -> bytes:
        key = self._keys.get(place) or self._key(place)
        nonce = self._ambient.random(NONCE_BYTES)
        return _HEAD + nonce + key.seal(nonce, plain, _place_bytes(place, kind, seq, bound))

    def open(self, place: Place, kind: str, seq: int, bound: bytes, sealed: bytes) -> bytes:
        if sealed[:1] != _HEAD or len(sealed) < _BEGIN + TAG_BYTES:
            raise Damaged(f"a sealed {kind} does not begin as this version writes one; restore a backup")
        key = self._keys.get(place) or self._key(place)
        try:
            return key.open(sealed[1:_BEGIN], sealed[_BEGIN:], _place_bytes(place, kind, seq, bound))
        except InvalidTag:
            raise Damaged(f"a sealed {kind} was changed or belongs elsewhere; restore a backup") from None

    def expect(self, places: Sequence[Place]) -> None:
        if not isinstance(self._vault, GivesMany):
            return
        wanted = [place for place in places if place not in self._keys and place.salt not in self._given]
        names = [place.salt for place in wanted if place.salt is not None]
        known = self._vault.several(names) if len(names) > 1 else {}
        for place in wanted:
            entry = known.get(place.salt or b"")
            if entry is not None:
                self._remember(place, self._made(place, entry))

    def _key(self, place: Place) -> Xaes:
        assert place.salt is not None, "a place in the clear is never sealed"
        entry = self._given.pop(place.salt, None)
        if entry is None or entry.master not in self._masters.ids():  # it may have been wrapped anew meanwhile
            entry = self._vault.get(place.salt)
        if entry is None:
            raise Shredded(
                "the salt of this content is not in the vault: it was erased, or the vault is older than the store",
                salt=place.salt.hex(),
                vault=self._vault.place,
            )
        key = self._made(place, entry)
        self._remember(place, key)
        return key

    def _made(self, place: Place, entry: Entry) -> Xaes:
        return Xaes(session_key(secret_of(self._masters, entry), place.tenant, place.owner))

    def _remember(self, place: Place, key: Xaes) -> None:
        """Keep a key; the one that was found first goes when there are too many."""
        keys = self._keys
        while len(keys) >= MAX_KEYS:
            with suppress(RuntimeError, StopIteration):  # another thread was at it in the same moment: look again
                keys.pop(next(iter(keys)), None)
        keys[place] = key

    def blind(self, use: str, text: str) -> str:
        if use not in _HOT:
            return self._hashed(use, text)
        found = self._blinds.get((use, text))
        if found is None:
            found = self._hashed(use, text)
            if len(self._blinds) >= MAX_BLINDS:
                self._blinds = {}
            self._blinds[use, text] = found
        return found

    def _hashed(self, use: str, text: str) -> str:
        key = self._hashes.get(use)
        if key is None:
            key = self._hashes[use] = blind_key(self._index, use)
        return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")[:BLIND_BYTES].hex()

    def condemn(self, salts: Sequence[bytes]) -> None:
        self._vault.condemn(salts, self._mark, self._ambient.now())

    def spare(self, salts: Sequence[bytes]) -> None:
        self._vault.spare(salts)

    def destroy(self, salts: Sequence[bytes]) -> None:
        gone = frozenset(salts)
        self._keys = {place: key for place, key in list(self._keys.items()) if place.salt not in gone}
        self._vault.destroy(salts)

    def settle(self, used: Callable[[], Collection[bytes]]) -> None:
        condemned = self._vault.condemned(self._mark)
        if not condemned:
            return
        named, now = used(), self._ambient.now()
        self.destroy([name for name in condemned if name not in named])
        self.spare([name for name, at in condemned.items() if name in named and at + SPARED_AFTER <= now])

    def close(self) -> None:
        if not self._read_only:
            with suppress(WorldError):  # what stays is unused; it only takes space
                self._stock.give_back()
        self._keys, self._given, self._blinds = {}, {}, {}
        self._vault.close()


def must_be_its_own(vault: Vault, mark: str) -> None:
    """Refuse a vault that the store with this mark was not sealed with."""
    if mark.partition(".")[0] != vault.id:
        raise KeyMissing(
            f"the store was sealed with another vault than {vault.place}; name its own with vault= or PERDURE_VAULT",
            place=vault.place,
        )


def _nothing(_: object) -> None:
    return


def _place_bytes(place: Place, kind: str, seq: int, bound: bytes) -> bytes:
    return _encode((FORMAT, NAME, place.salt, place.tenant, place.owner, kind, seq, bound))


def _unlocked(masters: Masters, vault: Vault, ambient: Ambient, read_only: bool) -> bytes:
    """The secret of the indexes, once every master key there is has been proven; a new vault is begun."""
    current = vault.current()
    if current is None and not read_only:
        first = masters.current()
        vault.begin((proof_entry(masters, first, ambient), index_entry(masters, first, ambient)))
        current = vault.current()
    index = vault.get(INDEX_NAME)
    if current is None or index is None:
        raise KeyMissing(f"the vault at {vault.place} is empty; restore it from its backup", place=vault.place)
    if current not in masters.ids():
        masters.refresh()
    known = masters.ids()
    for proof in vault.proofs():
        if proof.master in known:
            prove(masters, proof)
    if current not in known:
        raise missing(masters, current)
    return secret_of(masters, index)
