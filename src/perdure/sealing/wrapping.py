"""Entries of a vault and the secrets they stand for.

A new salt gives its secret by itself: the master's answer to it. When the master key is changed, the secret is wrapped
under the new key's answer to a new salt, and stays what it was: so nothing that it sealed has to be written again.
"""

from typing import Final

from cryptography.exceptions import InvalidTag

from perdure.core.errors import Damaged, KeyMissing, WrongKey
from perdure.ports.ambient import Ambient
from perdure.ports.vault import INDEX, NAME_BYTES, PROOF, SALT, SALT_BYTES, Entry, Masters
from perdure.sealing.derivation import KEY_BYTES, proof_name
from perdure.sealing.xaes import NONCE_BYTES, TAG_BYTES, Xaes

WRAPPED_BYTES: Final = NONCE_BYTES + KEY_BYTES + TAG_BYTES
INDEX_NAME: Final = b"perdure/1/index\x00"
_SECRET: Final = b"perdure/1/secret"
_WRAP: Final = b"perdure/1/wrap"
_PROOF: Final = b"perdure/1/proof\x00".ljust(KEY_BYTES, b"\x00")


def salt_entry(master: str, ambient: Ambient) -> Entry:
    """A salt nobody has used."""
    return Entry(ambient.random(NAME_BYTES), SALT, master, ambient.random(SALT_BYTES), None, ambient.now())


def index_entry(masters: Masters, master: str, ambient: Ambient) -> Entry:
    """The secret behind the keyed hashes of a store's indexes."""
    return _wrapped(masters, master, INDEX_NAME, INDEX, ambient.random(KEY_BYTES), ambient)


def proof_entry(masters: Masters, master: str, ambient: Ambient) -> Entry:
    """By which a wrong key under this id is known."""
    return _wrapped(masters, master, proof_name(master), PROOF, _PROOF, ambient)


def rewrapped(masters: Masters, entry: Entry, master: str, ambient: Ambient) -> Entry:
    """The same secret under another master key."""
    return _wrapped(masters, master, entry.name, entry.kind, secret_of(masters, entry), ambient, entry.made_at)


def _wrapped(
    masters: Masters, master: str, name: bytes, kind: str, secret: bytes, ambient: Ambient, made_at: int | None = None
) -> Entry:
    salt, nonce = ambient.random(SALT_BYTES), ambient.random(NONCE_BYTES)
    cipher = Xaes(masters.derive(master, salt, _WRAP + name))
    wrapped = nonce + cipher.seal(nonce, secret, _bound(kind, master))
    return Entry(name, kind, master, salt, wrapped, ambient.now() if made_at is None else made_at)


def _bound(kind: str, master: str) -> bytes:
    return f"perdure/1/{kind}/{master}".encode()


def secret_of(masters: Masters, entry: Entry) -> bytes:
    """What an entry stands for. `KeyMissing` without its master key, `Damaged` when the entry is not as written."""
    if entry.master not in masters.ids():
        masters.refresh()
        if entry.master not in masters.ids():
            raise missing(masters, entry.master)
    if entry.wrapped is None:
        return masters.derive(entry.master, entry.salt, _SECRET + entry.name)
    nonce, sealed = entry.wrapped[:NONCE_BYTES], entry.wrapped[NONCE_BYTES:]
    try:
        cipher = Xaes(masters.derive(entry.master, entry.salt, _WRAP + entry.name))
        return cipher.open(nonce, sealed, _bound(entry.kind, entry.master))
    except InvalidTag:
        raise Damaged(
            f"entry {entry.name.hex()} of the vault is not what was written; restore the vault from its backup",
            entry=entry.name.hex(),
        ) from None


def prove(masters: Masters, proof: Entry) -> None:
    """Check that a master key is the one that made this proof, or `WrongKey`."""
    try:
        secret_of(masters, proof)
    except Damaged:
        raise WrongKey(
            f"the master key {proof.master} from {masters.place} is another one than the store was sealed with; "
            "give the right key, nothing was changed",
            master=proof.master,
            place=masters.place,
        ) from None


def missing(masters: Masters, master: str) -> KeyMissing:
    """The error for a master key that is not among those there are."""
    known = ", ".join(masters.ids()) or "no key"
    return KeyMissing(
        f"this was sealed under the master key {master}, but {masters.place} has {known}; "
        "bring that key back, nothing can be read without it",
        master=master,
        place=masters.place,
    )
