"""A vault in a SQLite file of its own, beside the store or anywhere else.

Invariants: a method returns once the disk has it (synchronous=FULL); what was destroyed is in no byte of the file nor
of its log afterwards; several processes may use one file at once; no connection crosses a fork. A vault is one file for
as long as it is open: when another takes its path, or none, nothing is changed in it any more.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import apsw

from perdure.core.errors import (
    Damaged,
    DiskFull,
    KeyMissing,
    NewerStore,
    NotAStore,
    PerdureError,
    ReadOnly,
    StoreBusy,
    StorePoisoned,
)
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.ports.vault import SALT_BYTES, Entry
from perdure.sealing import files
from perdure.sealing.given import place_text
from perdure.sealing.sqlvault import SqlVault
from perdure.sealing.wrapping import WRAPPED_BYTES
from perdure.statements import Asks, named

APPLICATION_ID: Final = 0x7065726B
FORMAT: Final = 1
BUSY_MILLISECONDS: Final = 60_000
SECRET_BYTES: Final = SALT_BYTES + WRAPPED_BYTES
ZEROS: Final = bytes(SECRET_BYTES)
Q: Final = named(__file__, "filevault.sql")


class FileVault(SqlVault):
    """A `Vault` in a file. With `create`, one is made where there is none; `read_only` never writes a byte."""

    Q = Q

    def __init__(self, path: str, ambient: Ambient, *, create: bool = False, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        self.path = os.path.abspath(path)
        self._file: tuple[int, int] | None = None
        if not os.path.exists(self.path):
            if not create or read_only:
                raise no_vault(self.path)
            self._create()
        with self._asking() as ask:
            if create and not read_only:
                self._prepare(ask, ambient)
            self._check(ask)
            self._id = str(ask.execute(Q["about"], ("id",)).fetchone()[0])
        on_fork(self, Forking(FileVault._pause, FileVault._go_on, FileVault._forked))

    def __repr__(self) -> str:
        return f"FileVault({self.path})"

    @property
    def id(self) -> str:
        """Random, made with the file."""
        return self._id

    @property
    def place(self) -> str:
        """The file's path."""
        return self.path

    # ── the file ──

    def _create(self) -> None:
        with files.spoken(self.path):
            try:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.PRIVATE))
            except FileExistsError:
                return
            files.sync_folder(self.path)

    def _prepare(self, ask: Asks, ambient: Ambient) -> None:
        """Make an empty file a vault; safe to race with others."""
        if _pragma(ask, "application_id") or ask.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            return
        ask.execute("PRAGMA journal_mode = WAL")
        ask.execute("BEGIN IMMEDIATE")
        if not _pragma(ask, "application_id"):
            ask.execute(Q["schema"])
            ask.execute(Q["set_about"], ("id", ambient.random(16).hex()))
            ask.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            ask.execute(f"PRAGMA user_version = {FORMAT}")
        ask.execute("COMMIT")

    def _check(self, ask: Asks) -> None:
        path = self.path
        if os.path.getsize(path) == 0 and not _pragma(ask, "application_id"):
            raise KeyMissing(f"the vault {path} is empty; put its newest copy in its place", path=path)
        if _pragma(ask, "application_id") != APPLICATION_ID:
            raise NotAStore(f"{path} is not a vault of perdure; choose another path, nothing was changed", path=path)
        found = _pragma(ask, "user_version")
        if found > FORMAT:
            raise NewerStore(
                f"the vault {path} has format {found}, this perdure reads up to {FORMAT}; upgrade perdure to open it",
                path=path,
                found=found,
                supported=FORMAT,
            )

    @contextmanager
    def _asking(self) -> Iterator[Asks]:
        """The connection, for this thread alone; the engine's errors as perdure's."""
        with self._lock:
            try:
                ask: Asks = self._connected()
                try:
                    yield ask
                finally:
                    if self._connection is not None and self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
            except apsw.Error as error:
                failure = _translated(error, self.path)
                if isinstance(failure, StorePoisoned):
                    self._disconnect()
                raise failure from error

    @contextmanager
    def _looking(self) -> Iterator[Asks]:
        """One transaction that only reads; it ends as `_asking` does."""
        with self._asking() as ask:
            ask.execute("BEGIN")
            yield ask

    @contextmanager
    def _writing(self) -> Iterator[Asks]:
        """One transaction, on the disk when this returns."""
        if self._read_only:
            raise ReadOnly(f"the vault {self.path} was opened read-only; open the store writable", path=self.path)
        with self._asking() as ask:
            self.must_be_in_place()
            ask.execute("BEGIN IMMEDIATE")
            yield ask
            self.must_be_in_place()
            ask.execute("COMMIT")

    def must_be_in_place(self) -> None:
        """Refuse with `KeyMissing` when the path leads to another file than the open one, or to none: what is written
        to that one, nobody finds again.
        """
        if _identity(self.path) != self._file:
            raise KeyMissing(
                f"the vault {self.path} was replaced or removed while this process has it open; stop every process "
                f"that uses it, put its newest copy at that path, remove {self.path}-wal and {self.path}-shm, and open "
                "the store again",
                path=self.path,
            )

    def _connected(self) -> apsw.Connection:
        self._must_be_open()
        if self._connection is None:
            if self._file is not None:
                self.must_be_in_place()  # another file may lack what this process was told is kept
            before = _identity(self.path)
            self._connection = _connect(self.path, read_only=self._read_only)
            self._file = self._file or before
            self.must_be_in_place()
        connection: apsw.Connection = self._connection
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):  # what could not be folded into the file stays in its log
                connection.close(True)

    # ── entries and their slots ──

    def get(self, name: bytes) -> Entry | None:
        """One entry; none is said to be gone from a file that is not the vault any more."""
        found = super().get(name)
        if found is None:
            self.must_be_in_place()
        return found

    def _entry(self, *columns: Any) -> Entry:
        name, kind, master, wrapped, made_at, secret = columns
        if type(secret) is not bytes or len(secret) != SECRET_BYTES:
            raise Damaged("a salt in the vault is not as it was written; restore the vault from its backup")
        return Entry(name, kind, master, secret[:SALT_BYTES], secret[SALT_BYTES:] if wrapped else None, made_at)

    def _insert(self, ask: Asks, entry: Entry) -> bool:
        if ask.execute(Q["slot_of"], (entry.name,)).fetchone() is not None:
            return False
        free = ask.execute(Q["take_free"]).fetchone()
        if free is None:
            slot = ask.execute(Q["new_slot"], (_secret(entry),)).fetchone()[0]
        else:
            slot = free[0]
            ask.execute(Q["fill_slot"], (_secret(entry), slot))
        wrapped = int(entry.wrapped is not None)
        ask.execute(Q["insert"], (entry.name, entry.kind, entry.master, slot, wrapped, entry.made_at))
        return True

    def _delete(self, ask: Asks, name: bytes) -> None:
        found = ask.execute(Q["delete"], (name,)).fetchone()
        if found is not None:
            ask.execute(Q["fill_slot"], (ZEROS, found[0]))
            ask.execute(Q["free_slot"], (found[0],))

    def replace(self, changes: Sequence[tuple[Entry, Entry]]) -> int:
        """Entries in the place of their old selves."""
        done = 0
        with self._writing() as ask:
            for old, new in changes:
                found = ask.execute(Q["get"], (old.name,)).fetchone()
                if found is not None and self._entry(*found) == old:
                    slot = ask.execute(Q["slot_of"], (old.name,)).fetchone()[0]
                    ask.execute(Q["fill_slot"], (_secret(new), slot))
                    ask.execute(Q["replace"], (new.master, int(new.wrapped is not None), new.name))
                    done += 1
        return done

    def destroy(self, names: Sequence[bytes]) -> None:
        """Overwrite entries with zeros, fold the log into the file and cut it."""
        if not names:
            return
        self._destroy(names)
        with self._asking() as ask:
            ask.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def copy(self, path: str) -> None:
        """A copy as of one moment, in a new file that only its owner may read, on the disk when this returns."""
        place_text(path, "a copy of a vault is the path of a file")
        files.refuse_existing(path)
        with files.spoken(path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.PRIVATE))
        with self._asking():
            try:
                _copy(self._connected(), path)
            except BaseException:
                os.unlink(path)
                raise
        files.sync_folder(path)


def no_vault(path: str) -> KeyMissing:
    """The error for a vault that is not there."""
    return KeyMissing(
        f"the vault {path} with the salts of a sealed store is not there; put it back, or name another place with "
        "vault= or PERDURE_VAULT",
        path=path,
    )


def _identity(path: str) -> tuple[int, int] | None:
    """What tells the file at a path from every other; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: str, *, read_only: bool) -> apsw.Connection:
    name, flags = path, apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    if read_only and not os.access(os.path.dirname(path), os.W_OK) and not os.path.exists(path + "-wal"):
        escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        name, flags = f"file:{escaped}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    if not read_only:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = 1")
            connection.execute("PRAGMA checkpoint_fullfsync = 1")
    return connection


def _copy(source: apsw.Connection, path: str) -> None:
    target = apsw.Connection(path)
    try:
        with target.backup("main", source, "main") as backup:
            backup.step()
        target.execute("PRAGMA journal_mode = DELETE")
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    finally:
        target.close()


def _pragma(ask: Asks, name: str) -> Any:
    return ask.execute(f"PRAGMA {name}").fetchone()[0]


def _secret(entry: Entry) -> bytes:
    return entry.salt + (entry.wrapped or bytes(WRAPPED_BYTES))


def _translated(error: apsw.Error, path: str) -> PerdureError:
    match error:
        case apsw.FullError():
            return DiskFull(f"no space left for the vault {path}; free some and try again", path=path)
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"the vault {path} was held by another process for a minute; try again", path=path)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            beside = files.left_beside(path)
            said = beside or f"the vault {path} cannot be opened; check the path and its permissions"
            return ReadOnly(said, path=path)
        case apsw.NotADBError():
            return NotAStore(f"{path} is not a vault of perdure; choose another path", path=path)
        case apsw.IOError():
            return StorePoisoned(f"the disk failed under the vault {path}: {error}; open the store again", path=path)
        case _:
            return Damaged(f"the vault {path} is damaged: {error}; restore it from its backup", path=path)
