"""What is said of a backup in a file beside it, and how files get their final names: whole, on disk, or not at all."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

from perdure.core.errors import Damaged, Invalid, NewerStore, NotAStore, NotFound, StoreBusy
from perdure.ports.backup import Progress
from perdure.services.disk import sync_folder, translated

FORMAT: Final = 1
SUFFIX: Final = ".manifest.json"
PARTIAL: Final = ".partial"
PIECE: Final = 1 << 20
SMALL: Final = 1 << 20
Kind = Literal["file", "portable"]
Verified = Literal["full", "quick", "none"]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a backup. `kind` is `file` (a store as its engine keeps it) or `portable` (rows, see `dumping`);
    `keys` are the ids of the master keys that open a sealed one, never keys; `cold` counts the sessions whose log is in
    cold storage and not in here, `unreadable` those whose key was gone already, or that of a session they share their
    beginning with; `made_at` is in microseconds since 1970.
    """

    perdure: Literal["backup"] = "backup"
    format: int = FORMAT
    version: str
    engine: str
    kind: Kind
    store_format: int
    made_at: int
    position: int
    sessions: int
    records: int
    cold: int
    sealed: bool
    keys: tuple[str, ...]
    bytes: int
    sha256: str
    verified: Verified
    unreadable: int = 0


_decode = msgspec.json.Decoder(Manifest).decode


def beside(backup: str) -> str:
    """Where the manifest of a backup lies."""
    return backup + SUFFIX


def drafted(backup: str, manifest: Manifest) -> None:
    """Write a manifest, durable, under the name it has until its backup is in place."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    with translated(backup), open(beside(backup) + PARTIAL, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def found(backup: str) -> tuple[Manifest, ...]:
    """The manifests of a backup, the one in place first; after a crash the other may be the right one. `NotAStore` when
    there is none.
    """
    place, draft = beside(backup), beside(backup) + PARTIAL
    manifests = [read(place)] if os.path.exists(place) else []
    if os.path.exists(draft):
        with suppress(Damaged) if manifests else nullcontext():  # half-written: what it was for never got in place
            manifests.append(read(draft))
    if not manifests:
        raise NotAStore(f"{backup} has no manifest {place}; give a backup that perdure made", path=backup)
    return tuple(manifests)


def read(path: str) -> Manifest:
    """A manifest from its file, or `Damaged`."""
    with translated(path), open(path, "rb") as file:
        content = file.read(SMALL)
    try:
        probe = msgspec.json.decode(content)
        if isinstance(probe, dict) and probe.get("perdure") == "backup" and probe.get("format", 0) > FORMAT:
            raise NewerStore(f"{path} has format {probe['format']}, this perdure reads {FORMAT}; upgrade perdure")
        return _decode(content)
    except (msgspec.MsgspecError, ValueError, TypeError) as broken:
        raise Damaged(f"{path} is not a manifest: {broken}; take another copy", path=path) from broken


def in_place(backup: str) -> None:
    """Give a backup and its manifest, both durable, their final names."""
    with translated(backup):
        os.replace(backup + PARTIAL, backup)
        os.replace(beside(backup) + PARTIAL, beside(backup))
        sync_folder(backup)


def digest_of(path: str, progress: Progress | None = None) -> tuple[str, int]:
    """SHA-256 and size of a file."""
    sha, done = sha256(), 0
    with translated(path), open(path, "rb") as file:
        total = os.fstat(file.fileno()).st_size
        while piece := file.read(PIECE):
            sha.update(piece)
            done += len(piece)
            if progress is not None:
                progress(done, max(done, total))
    return sha.hexdigest(), done


def taken_over(source: str, target: str, progress: Progress | None = None) -> tuple[str, int]:
    """Copy a file, going on where an earlier try stopped; SHA-256 and size of what was read. Durable when it returns.

    What is there already is compared, not trusted: from the first difference on it is written anew.
    """
    sha, done, comparing = sha256(), 0, True
    with translated(source), open(source, "rb") as old, translated(target), _reopened(target) as new:
        total = os.fstat(old.fileno()).st_size
        while piece := old.read(PIECE):
            sha.update(piece)
            if comparing and new.read(len(piece)) != piece:
                comparing = False
                new.seek(done)
                new.truncate()
            if not comparing:
                new.write(piece)
            done += len(piece)
            if progress is not None:
                progress(done, max(done, total))
        new.truncate(done)
        new.flush()
        os.fsync(new.fileno())
    return sha.hexdigest(), done


def _reopened(path: str) -> Any:
    if os.path.islink(path):
        os.unlink(path)  # ours is a file: whoever put a link there meant another one to be written
    return open(path, "r+b" if os.path.exists(path) else "w+b")


@contextmanager
def claimed(path: str) -> Iterator[None]:
    """Keep others from making the same file at the same time; `StoreBusy` when somebody is at it."""
    lock = path + ".lock"
    with translated(lock):
        number = _locked(lock)
    try:
        yield
    finally:
        discard(lock)
        os.close(number)


def _locked(lock: str) -> int:
    while True:
        number = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.name == "posix":
                import fcntl

                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(lock) and os.path.samestat(os.stat(lock), os.fstat(number)):
                return number
        except BlockingIOError:
            os.close(number)
            raise StoreBusy(
                f"another process is writing {lock.removesuffix('.lock')}; wait for it", path=lock
            ) from None
        os.close(number)  # whoever had it has just removed it


def discard(*paths: str) -> None:
    """Remove files that may be there."""
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def is_server(place: str) -> bool:
    """Whether a store is on a server, not in a file."""
    return "://" in place


def absolute(path: str) -> str:
    """A path that means the same wherever one stands; a server's address does already."""
    return path if is_server(path) else os.path.abspath(path)


def exists(path: str) -> bool:
    """Whether something is there."""
    return os.path.exists(path)


def refuse_folder(path: str) -> None:
    """A folder is no place for a file, and a missing one neither."""
    if os.path.isdir(path):
        raise Invalid(f"{path} is a folder; give the path of a file in it", path=path)
    if not os.path.isdir(os.path.dirname(path)):
        raise NotFound(f"the folder {os.path.dirname(path)} does not exist; create it first", path=path)


OWN: Final = ("", "-wal", "-shm", ".master", ".keys")
"""What lies beside a store and belongs to it."""


def refuse_own(target: str, places: Iterable[str]) -> None:
    """Refuse to write over what a store lives on, by whatever path it is named, or over what is no file."""
    real = os.path.realpath(target)
    if os.path.exists(real) and not os.path.isfile(real):
        raise Invalid(f"{target} is not a file; choose another path", path=target)
    if any(real == os.path.realpath(place + suffix) for place in places for suffix in OWN):
        raise Invalid(f"{target} is the store itself, or belongs to it; choose another path", path=target)
