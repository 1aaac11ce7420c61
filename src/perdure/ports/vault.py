"""Keys: where master keys are asked (`Masters`), and where salts live (`Vault`).

A salt stands for one secret: the master's answer to the salt, or, once the master key was changed, that same secret
wrapped by the new one. Whoever has a store and its vault but no master key can read nothing; whoever has a store and
its master key but not the vault's entry can read nothing either. So destroying an entry erases what it sealed.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

NAME_BYTES: Final = 16
SALT_BYTES: Final = 32
SALT: Final = "salt"
INDEX: Final = "index"
PROOF: Final = "proof"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One row of a vault: a salt under a master key, and the secret wrapped if the salt does not give it by itself.

    `kind` is `salt` (for one session or blob), `index` (for keyed hashes, one in a vault) or `proof` (one for every
    master key, by which a wrong key is known).
    """

    name: bytes
    kind: str
    master: str
    salt: bytes
    wrapped: bytes | None
    made_at: int

    def __repr__(self) -> str:
        return f"Entry({self.kind} {self.name.hex()} under {self.master})"


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many salts lie under one master key, and how many of them are condemned."""

    master: str
    salts: int
    condemned: int


class SignedHead(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far a session's log went when somebody vouched for it. `salt` names the session's entry, `store` is the mark
    of its store, `session` the raw id; `mac` is over all the others.
    """

    salt: bytes
    store: str
    tenant: str
    session: bytes
    version: int
    digest: bytes
    at: int
    remark: str
    mac: bytes


class Vault(Protocol):
    """Where salts live. Every method is one transaction and returns once the disk has it; any thread may call.

    Reading may raise the world's errors of `perdure.core.errors`, and so may writing.
    """

    @property
    def id(self) -> str:
        """What tells this vault from every other; copies of it have the same."""
        ...

    @property
    def place(self) -> str:
        """Where it is, for people: never with a password in it."""
        ...

    def current(self) -> str | None:
        """The master key under which new entries are made; None before `begin`."""
        ...

    def begin(self, first: Sequence[Entry]) -> None:
        """Put these entries into a vault that has none, their master key being the current one. Quietly nothing when
        somebody else was first.
        """
        ...

    def turn(self, proof: Entry) -> None:
        """Make new entries under this proof's master key from now on; the proof is kept unless there is one."""
        ...

    def add(self, entries: Sequence[Entry]) -> bool:
        """Keep new entries; False, and none is kept, when their master key is not the current one (any more)."""
        ...

    def get(self, name: bytes) -> Entry | None:
        """One entry."""
        ...

    def proofs(self) -> tuple[Entry, ...]:
        """The proofs of all master keys in use."""
        ...

    def page(self, after: bytes, limit: int, *, besides: str | None = None) -> tuple[Entry, ...]:
        """Entries other than proofs whose names come after this one, in order; only those that are not under the
        master key `besides`.
        """
        ...

    def replace(self, changes: Sequence[tuple[Entry, Entry]]) -> int:
        """Put entries in the place of their old selves, where those still stand as they were; how many that were.

        Nothing of the old salts stays behind.
        """
        ...

    def retire(self, master: str) -> bool:
        """Forget a master key's proof; False, and nothing is changed, while it is current or an entry is under it."""
        ...

    def condemn(self, names: Sequence[bytes], mark: str, at: int) -> None:
        """Note that the store with this mark is about to destroy these."""
        ...

    def spare(self, names: Sequence[bytes]) -> None:
        """Take that note back."""
        ...

    def condemned(self, mark: str) -> Mapping[bytes, int]:
        """What the store with this mark has condemned, and when."""
        ...

    def destroy(self, names: Sequence[bytes]) -> None:
        """Destroy entries, with nothing of their salts left behind. Those that are gone already are passed over."""
        ...

    def census(self) -> tuple[Count, ...]:
        """How many salts there are under each master key."""
        ...

    def close(self) -> None:
        """Let go of it; harmless when repeated."""
        ...


@runtime_checkable
class GivesMany(Protocol):
    """A vault that is asked for many entries more quickly together."""

    def several(self, names: Sequence[bytes]) -> Mapping[bytes, Entry]:
        """Those of these entries that there are, in one transaction."""
        ...


@runtime_checkable
class KeepsHeads(Protocol):
    """A vault that keeps signed heads as well: one for an entry, gone with it. Heads of condemned entries do not show.

    Every method is one transaction and returns once the disk has it; any thread may call.
    """

    def heads(self, salts: Sequence[bytes]) -> Mapping[bytes, SignedHead]:
        """The heads that are kept for these entries."""
        ...

    def heads_of(self, store: str, after: bytes, limit: int) -> tuple[SignedHead, ...]:
        """The heads of the store with this mark, in the order of their salts, after this one."""
        ...

    def keep_heads(self, heads: Sequence[SignedHead], *, back: bool = False) -> int:
        """Keep heads; how many were. One that is not newer than the one that is there is passed over, unless it is to
        be set `back`; so is one whose entry is gone.
        """
        ...

    def drop_heads(self, salts: Sequence[bytes]) -> None:
        """Forget the heads of these entries."""
        ...

    def noted(self, name: str) -> int | None:
        """A number that was noted."""
        ...

    def note(self, name: str, number: int) -> None:
        """Note a number under a name."""
        ...


@runtime_checkable
class Displaceable(Protocol):
    """A vault that can be taken away from under its users, as a file can. Asked before every salt that is given out."""

    def must_be_in_place(self) -> None:
        """Refuse with `KeyMissing` when this is not the vault any more that will be found at its place."""
        ...


class Masters(Protocol):
    """Master keys, KMS-shaped: they are named and used, never handed out. Any thread may call."""

    @property
    def place(self) -> str:
        """Where they come from, for people."""
        ...

    def current(self) -> str:
        """The id of the key that new entries should lie under."""
        ...

    def ids(self) -> tuple[str, ...]:
        """The ids of all keys there are."""
        ...

    def derive(self, key: str, salt: bytes, context: bytes) -> bytes:
        """32 bytes that only this key gives for this salt and context, always the same ones; or `KeyMissing`."""
        ...

    def refresh(self) -> None:
        """Look again which keys there are: another process may have made one."""
        ...


@runtime_checkable
class Minting(Protocol):
    """Masters that can make and forget keys themselves."""

    def mint(self) -> str:
        """Make a new key, keep it for good, and let it be the current one; its id."""
        ...

    def forget(self, key: str) -> None:
        """Destroy a key; `Refused` when it is the current one."""
        ...
