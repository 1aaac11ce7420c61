"""What a vault in a file and one in PostgreSQL have in common: the port's methods, each one transaction of statements
that both engines have under the same names. Where the engines differ, the rows of entries are theirs.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, ClassVar

from perdure.core.errors import AlreadyExists, StoreClosed
from perdure.ports.vault import Count, Entry, SignedHead
from perdure.statements import Asks
from perdure.waiting import holding


class SqlVault(ABC):
    """A `Vault` that `KeepsHeads`, over a connection of its own that no two threads use at once and no fork crosses.

    The table of heads is made with the first of them, so vaults from before there were any are vaults still.
    """

    Q: ClassVar[Mapping[str, str]]

    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._lock = Lock()
        self._hold = holding(self._lock)
        self._connection: Any = None
        self._closed = False
        self._has_heads = False

    # ── what an engine does in its own way ──

    @abstractmethod
    def _asking(self) -> AbstractContextManager[Asks]:
        """The connection, for this thread alone; the engine's errors as perdure's."""

    @abstractmethod
    def _looking(self) -> AbstractContextManager[Asks]:
        """One transaction that only reads."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Asks]:
        """One transaction, alone among those who write, and on the disk when this returns."""

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _insert(self, ask: Asks, entry: Entry) -> bool:
        """Keep an entry; False when its name is taken."""

    @abstractmethod
    def _delete(self, ask: Asks, name: bytes) -> None:
        """Take an entry away, and nothing of its salt stays behind."""

    @abstractmethod
    def _entry(self, *columns: Any) -> Entry: ...

    # ── the connection ──

    def _must_be_open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed; open it again")

    def _pause(self) -> None:
        """Before a fork: nothing of the connection may be in the child."""
        self._hold = holding(self._lock)
        next(self._hold)
        self._disconnect()

    def _go_on(self) -> None:
        self._hold.close()

    def _forked(self) -> None:
        self._lock = Lock()

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            self._closed = True
            self._disconnect()

    # ── the port ──

    def current(self) -> str | None:
        """The master key for new entries."""
        with self._asking() as ask:
            return self._about(ask, "current")

    def begin(self, first: Sequence[Entry]) -> None:
        """The first entries."""
        with self._writing() as ask:
            if self._about(ask, "current") is None:
                for entry in first:
                    self._insert(ask, entry)
                ask.execute(self.Q["set_about"], ("current", first[0].master))

    def turn(self, proof: Entry) -> None:
        """Another master key for new entries."""
        with self._writing() as ask:
            self._insert(ask, proof)
            ask.execute(self.Q["set_about"], ("current", proof.master))

    def add(self, entries: Sequence[Entry]) -> bool:
        """New entries under the current master key."""
        with self._writing() as ask:
            current = self._about(ask, "current")
            if any(entry.master != current for entry in entries):
                return False
            for entry in entries:
                if not self._insert(ask, entry):
                    raise AlreadyExists("a fresh name for a salt is taken; draw another")
            return True

    def get(self, name: bytes) -> Entry | None:
        """One entry."""
        with self._asking() as ask:
            found = ask.execute(self.Q["get"], (name,)).fetchone()
        return None if found is None else self._entry(*found)

    def several(self, names: Sequence[bytes]) -> Mapping[bytes, Entry]:
        """Many entries."""
        with self._looking() as ask:
            found = [ask.execute(self.Q["get"], (name,)).fetchone() for name in names]
        return {entry.name: entry for entry in (self._entry(*columns) for columns in found if columns is not None)}

    def proofs(self) -> tuple[Entry, ...]:
        """The proofs of master keys."""
        with self._asking() as ask:
            return tuple(self._entry(*found) for found in ask.execute(self.Q["proofs"]).fetchall())

    def page(self, after: bytes, limit: int, *, besides: str | None = None) -> tuple[Entry, ...]:
        """Entries in the order of their names."""
        with self._asking() as ask:
            found = ask.execute(self.Q["page"], (after, besides, limit)).fetchall()
        return tuple(self._entry(*columns) for columns in found)

    def retire(self, master: str) -> bool:
        """Forget a master key's proof, once nothing is under it."""
        with self._writing() as ask:
            if self._about(ask, "current") == master or ask.execute(self.Q["under"], (master,)).fetchone() is not None:
                return False
            for name, *_ in ask.execute(self.Q["proofs_of"], (master,)).fetchall():
                self._delete(ask, name)
            return True

    def condemn(self, names: Sequence[bytes], mark: str, at: int) -> None:
        """A note before entries go."""
        if names:
            with self._writing() as ask:
                for name in names:
                    ask.execute(self.Q["condemn"], (mark, at, name))

    def spare(self, names: Sequence[bytes]) -> None:
        """The note taken back."""
        if names:
            with self._writing() as ask:
                for name in names:
                    ask.execute(self.Q["spare"], (name,))

    def condemned(self, mark: str) -> Mapping[bytes, int]:
        """What a store has condemned, and when."""
        with self._asking() as ask:
            return dict(ask.execute(self.Q["condemned"], (mark,)).fetchall())

    def _destroy(self, names: Sequence[bytes]) -> None:
        """Take entries away, and their heads with them."""
        with self._writing() as ask:
            heads = self._heads_there(ask)
            for name in names:
                self._delete(ask, name)
                if heads:
                    ask.execute(self.Q["drop_head"], (name,))

    def census(self) -> tuple[Count, ...]:
        """How many salts lie under each master key."""
        with self._asking() as ask:
            found = ask.execute(self.Q["census"]).fetchall()
        return tuple(Count(master=master, salts=salts, condemned=condemned) for master, salts, condemned in found)

    def _about(self, ask: Asks, name: str) -> str | None:
        found = ask.execute(self.Q["about"], (name,)).fetchone()
        return None if found is None else str(found[0])

    # ── signed heads ──

    def _heads_there(self, ask: Asks) -> bool:
        if not self._has_heads:
            self._has_heads = bool(ask.execute(self.Q["has_heads"]).fetchone()[0])
        return self._has_heads

    def heads(self, salts: Sequence[bytes]) -> Mapping[bytes, SignedHead]:
        """The heads of these entries."""
        with self._asking() as ask:
            if not self._heads_there(ask):
                return {}
            found = [ask.execute(self.Q["head"], (salt,)).fetchone() for salt in salts]
        return {columns[0]: _head(columns) for columns in found if columns is not None}

    def heads_of(self, store: str, after: bytes, limit: int) -> tuple[SignedHead, ...]:
        """The heads of one store."""
        with self._asking() as ask:
            if not self._heads_there(ask):
                return ()
            return tuple(map(_head, ask.execute(self.Q["heads_of"], (store, after, limit)).fetchall()))

    def keep_heads(self, heads: Sequence[SignedHead], *, back: bool = False) -> int:
        """Heads, forward only unless they are to be set back."""
        kept = 0
        with self._writing() as ask:
            if not self._heads_there(ask):
                ask.execute(self.Q["heads_schema"])
            for head in heads:
                values = (*(getattr(head, name) for name in SignedHead.__struct_fields__), head.salt, int(back))
                kept += ask.execute(self.Q["keep_head"], values).fetchone() is not None
        return kept

    def drop_heads(self, salts: Sequence[bytes]) -> None:
        """Heads that nobody stands for."""
        with self._writing() as ask:
            if self._heads_there(ask):
                for salt in salts:
                    ask.execute(self.Q["drop_head"], (salt,))

    def noted(self, name: str) -> int | None:
        """A number from the notes."""
        with self._asking() as ask:
            found = self._about(ask, name)
        return int(found) if found is not None and found.isdecimal() else None

    def note(self, name: str, number: int) -> None:
        """A number into the notes."""
        with self._writing() as ask:
            ask.execute(self.Q["set_about"], (name, str(number)))


def _head(columns: Sequence[Any]) -> SignedHead:
    return SignedHead(**dict(zip(SignedHead.__struct_fields__, columns, strict=True)))
