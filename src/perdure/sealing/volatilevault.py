"""A vault in RAM, for stores in RAM: the smallest one, to read first."""

from collections.abc import Mapping, Sequence
from threading import Lock

from perdure.core.errors import AlreadyExists
from perdure.ports.ambient import Ambient
from perdure.ports.vault import PROOF, Count, Entry, SignedHead


class VolatileVault:
    """A `Vault` that is gone with the process. What each method promises, the Protocol says."""

    def __init__(self, ambient: Ambient) -> None:
        self._lock = Lock()
        self._id = ambient.random(16).hex()
        self._current: str | None = None
        self._entries: dict[bytes, Entry] = {}
        self._condemned: dict[bytes, tuple[str, int]] = {}
        self._heads: dict[bytes, SignedHead] = {}
        self._notes: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"VolatileVault({len(self._entries)} entries)"

    @property
    def id(self) -> str:
        return self._id

    @property
    def place(self) -> str:
        return "memory"

    def current(self) -> str | None:
        return self._current

    def begin(self, first: Sequence[Entry]) -> None:
        with self._lock:
            if self._current is None:
                self._entries |= {entry.name: entry for entry in first}
                self._current = first[0].master

    def turn(self, proof: Entry) -> None:
        with self._lock:
            self._entries.setdefault(proof.name, proof)
            self._current = proof.master

    def add(self, entries: Sequence[Entry]) -> bool:
        with self._lock:
            if any(entry.master != self._current for entry in entries):
                return False
            if any(entry.name in self._entries for entry in entries):
                raise AlreadyExists("a fresh name for a salt is taken; draw another")
            self._entries |= {entry.name: entry for entry in entries}
            return True

    def get(self, name: bytes) -> Entry | None:
        return self._entries.get(name)

    def proofs(self) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(entry for entry in self._entries.values() if entry.kind == PROOF)

    def page(self, after: bytes, limit: int, *, besides: str | None = None) -> tuple[Entry, ...]:
        with self._lock:
            following = sorted(
                (
                    entry
                    for entry in self._entries.values()
                    if entry.name > after and entry.kind != PROOF and entry.master != besides
                ),
                key=lambda entry: entry.name,
            )
        return tuple(following[:limit])

    def replace(self, changes: Sequence[tuple[Entry, Entry]]) -> int:
        with self._lock:
            standing = {new.name: new for old, new in changes if self._entries.get(old.name) == old}
            self._entries |= standing
            return len(standing)

    def retire(self, master: str) -> bool:
        with self._lock:
            under = [entry for entry in self._entries.values() if entry.master == master]
            if master == self._current or any(entry.kind != PROOF for entry in under):
                return False
            for entry in under:
                del self._entries[entry.name]
            return True

    def condemn(self, names: Sequence[bytes], mark: str, at: int) -> None:
        with self._lock:
            self._condemned |= {name: (mark, at) for name in names if name in self._entries}

    def spare(self, names: Sequence[bytes]) -> None:
        with self._lock:
            for name in names:
                self._condemned.pop(name, None)

    def condemned(self, mark: str) -> Mapping[bytes, int]:
        with self._lock:
            return {name: at for name, (by, at) in self._condemned.items() if by == mark}

    def destroy(self, names: Sequence[bytes]) -> None:
        with self._lock:
            for name in names:
                self._entries.pop(name, None)
                self._condemned.pop(name, None)
                self._heads.pop(name, None)

    def census(self) -> tuple[Count, ...]:
        with self._lock:
            kept = [entry for entry in self._entries.values() if entry.kind != PROOF]
            condemned = set(self._condemned)
        return tuple(
            Count(
                master=master,
                salts=sum(entry.master == master for entry in kept),
                condemned=sum(entry.master == master and entry.name in condemned for entry in kept),
            )
            for master in sorted({entry.master for entry in kept})
        )

    def heads(self, salts: Sequence[bytes]) -> Mapping[bytes, SignedHead]:
        with self._lock:
            return {salt: self._heads[salt] for salt in salts if salt in self._heads and salt not in self._condemned}

    def heads_of(self, store: str, after: bytes, limit: int) -> tuple[SignedHead, ...]:
        with self._lock:
            found = sorted(salt for salt, head in self._heads.items() if head.store == store and salt > after)
            return tuple(self._heads[salt] for salt in found if salt not in self._condemned)[:limit]

    def keep_heads(self, heads: Sequence[SignedHead], *, back: bool = False) -> int:
        kept = 0
        with self._lock:
            for head in heads:
                standing = self._heads.get(head.salt)
                if head.salt in self._entries and (standing is None or back or head.version > standing.version):
                    self._heads[head.salt] = head
                    kept += 1
        return kept

    def drop_heads(self, salts: Sequence[bytes]) -> None:
        with self._lock:
            for salt in salts:
                self._heads.pop(salt, None)

    def noted(self, name: str) -> int | None:
        return self._notes.get(name)

    def note(self, name: str, number: int) -> None:
        with self._lock:
            self._notes[name] = number

    def close(self) -> None:
        return
