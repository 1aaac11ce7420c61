"""A disk that forgets: what SQLite wrote, and what of it would be left if the power failed at a given moment.

Bytes are sure once their file was synced, names once their folder was. Everything since then may be there or not,
sector by sector. A sync that fails loses some of it for good, and a later one does not bring it back, as on Linux.
Invariant: `image` never invents bytes, and never drops sure ones.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Self

import apsw

SECTOR = 512
Step = tuple[str, str, int, bytes]
"""What happened (write, truncate, sync, broken, create, delete, folder, said), to which file, where, which bytes."""


class Inode:
    """One file: the bytes that are sure, and what was done to it since."""

    def __init__(self) -> None:
        self.sure = bytearray()
        self.pending: list[Step] = []
        self.synced = False

    def sync(self) -> None:
        """Everything so far is sure."""
        for step in self.pending:
            _apply(self.sure, step)
        self.pending.clear()
        self.synced = True

    def break_sync(self, rng: random.Random) -> None:
        """A sync failed: some of what was pending reached the disk, and the rest never will."""
        self.sure = self.image(rng)
        self.pending.clear()

    def image(self, rng: random.Random) -> bytearray:
        """One of the states the file may be in."""
        left = bytearray(self.sure)
        kept = rng.choice((0.0, 0.5, 1.0))
        for step in self.pending:
            if step[0] == "truncate":
                if rng.random() < kept:
                    _apply(left, step)
                continue
            for start in range(0, len(step[3]), SECTOR):
                if rng.random() < kept:
                    _apply(left, ("write", step[1], step[2] + start, step[3][start : start + SECTOR]))
        return left


def _apply(content: bytearray, step: Step) -> None:
    if step[0] == "truncate":
        del content[step[2] :]
        return
    content.extend(bytes(max(0, step[2] - len(content))))
    content[step[2] : step[2] + len(step[3])] = step[3]


class Disk:
    """A folder of files, played forward step by step."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now: dict[str, Inode] = {}
        self._sure: dict[str, Inode] = {}

    def play(self, step: Step) -> None:
        """Let one thing happen."""
        what, name = step[:2]
        match what:
            case "create":
                self._now.setdefault(name, Inode())
            case "delete":
                self._now.pop(name, None)
            case "folder":
                self._sure = dict(self._now)
            case "sync" if name in self._now:
                first = not self._now[name].synced
                self._now[name].sync()
                if first and step[2]:
                    self._sure = dict(self._now)
            case "broken" if name in self._now:
                self._now[name].break_sync(self._rng)
            case "write" | "truncate" if name in self._now:
                self._now[name].pending.append(step)

    def image(self, folder: Path) -> None:
        """Write one of the states the folder may be in after the power failed now."""
        names = self._sure if self._rng.random() < 0.5 else self._now
        for name, inode in names.items():
            (folder / name).write_bytes(inode.image(self._rng))
            (folder / name).chmod(0o600)  # a vault is nobody else's to read, and stays so


class Recorder:
    """A VFS under SQLite that takes down every step while it really happens, in one order for all threads."""

    def __init__(self, *, forget_syncs: bool = False, broken_syncs: frozenset[int] = frozenset()) -> None:
        self.steps: list[Step] = []
        self._forget = forget_syncs
        self._broken = broken_syncs
        self._syncs = 0
        self._lock = Lock()
        self._vfs = _vfs(self._note, self._breaks)
        self._fsync = os.fsync

    def __enter__(self) -> Self:
        def fsync(fd: Any) -> None:
            self._fsync(fd)
            self._note("folder", "", 0)

        os.fsync = fsync
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync = self._fsync
        self._vfs.unregister()

    def _note(self, what: str, name: str, at: int, content: bytes = b"") -> None:
        if what == "sync" and name.endswith(".db-wal") and self._forget:
            return
        with self._lock:
            self.steps.append((what, os.path.basename(name), at, content))

    def _breaks(self, name: str) -> bool:
        """Whether this sync is one of those that fail; noted if so."""
        with self._lock:
            self._syncs += 1
            if self._syncs not in self._broken:
                return False
            self.steps.append(("broken", os.path.basename(name), 0, b""))
            return True

    def said(self, line: bytes) -> None:
        """Something that left the process: an acknowledgement."""
        self._note("said", "", 0, line)


def _vfs(note: Callable[..., None], breaks: Callable[[str], bool]) -> apsw.VFS:
    base = apsw.vfs_names()[0]

    class File(apsw.VFSFile):
        def __init__(self, name: Any, flags: list[int]) -> None:
            super().__init__(base, name, flags)
            kinds = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
            spelled = name.filename() if isinstance(name, apsw.URIFilename) else name
            self._name = spelled if spelled and flags[0] & kinds else ""
            self._syncs_folder = int(not flags[0] & apsw.SQLITE_OPEN_MAIN_DB)
            if self._name:
                note("create", self._name, 0)

        def xLock(self, level: int) -> None:  # noqa: N802 - the names are SQLite's
            """A read-only file cannot be locked for writing; SQLite asks when it closes, and lives with a no."""
            try:
                super().xLock(level)
            except apsw.IOError as refused:
                raise apsw.BusyError("read-only") from refused

        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
            super().xWrite(data, offset)
            if self._name:
                note("write", self._name, offset, bytes(data))

        def xTruncate(self, newsize: int) -> None:  # noqa: N802
            super().xTruncate(newsize)
            if self._name:
                note("truncate", self._name, newsize)

        def xSync(self, flags: int) -> None:  # noqa: N802
            if self._name and breaks(self._name):
                raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
            super().xSync(flags)
            if self._name:
                note("sync", self._name, self._syncs_folder)

    class Recording(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("recording", base, makedefault=True)

        def xOpen(self, name: Any, flags: list[int]) -> File:  # noqa: N802
            return File(name, flags)

        def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
            super().xDelete(filename, syncdir)
            note("delete", filename, 0)
            if syncdir:
                note("folder", "", 0)

    return Recording()
