"""Proof that contenders are equally durable: what a connection is set to, or how often it really syncs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Protocol

from bench.corpus import Turn

_PRAGMAS = ("journal_mode", "synchronous")


class Unequal(RuntimeError):
    """This contender may acknowledge before the bytes are on disk; its numbers would mean nothing."""


def settings(db: sqlite3.Connection) -> str:
    """Journal and synchronous of this connection in words; raises `Unequal` below FULL."""
    (journal,), (synchronous,) = (db.execute(f"PRAGMA {name}").fetchone() for name in _PRAGMAS)
    require_full(synchronous)
    return f"{journal}, synchronous=FULL"


def require_full(synchronous: int) -> None:
    """Raises `Unequal` unless this value of the pragma means FULL or more."""
    if synchronous < 2:
        raise Unequal(f"synchronous is {synchronous}, which is less than FULL")


def defaults(path: str) -> str:
    """The same for a library that opens its own connections to `path` and leaves `synchronous` alone."""
    db = sqlite3.connect(path)
    try:
        return settings(db)
    finally:
        db.close()


class Store(Protocol):
    """The part of a contender that counting needs."""

    def open(self, folder: Path) -> None: ...
    def append(self, turns: list[Turn]) -> None: ...
    def close(self) -> None: ...


def counted(store: Store, folder: Path, turns: list[Turn]) -> str:
    """Appends to a new store with the syncs of its log counted; raises `Unequal` unless every turn had one.

    Counts what goes through apsw's default VFS, so the store must be one that opens its connections with apsw.
    """
    import apsw

    base = apsw.vfs_names()[0]
    syncs = 0

    class File(apsw.VFSFile):
        def __init__(self, name: Any, flags: list[int]) -> None:
            super().__init__(base, name, flags)
            self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

        def xSync(self, flags: int) -> None:  # noqa: N802  (the name is SQLite's)
            nonlocal syncs
            syncs += self._is_log
            super().xSync(flags)

    class Counting(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("counting", base, makedefault=True)

        def xOpen(self, name: Any, flags: list[int]) -> File:  # noqa: N802
            return File(name, flags)

    vfs = Counting()
    try:
        store.open(folder)
        before = syncs
        for one in turns:
            store.append([one])
        found = syncs - before
        store.close()
    finally:
        vfs.unregister()
    if found < len(turns):
        raise Unequal(f"{found} syncs for {len(turns)} turns")
    return f"wal, {found} syncs counted for {len(turns)} turns"
