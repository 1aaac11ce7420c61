"""The only place that wires things: which store, which ambient, which services.

Services are made when they are first used, and their modules loaded then: `import perdure` stays light.
"""

import os
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from perdure.ambient import Ids, RealAmbient
from perdure.core.errors import Invalid, Refused
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Moved
from perdure.core.session.origin import Timeouts
from perdure.core.session.timeouts import OFF
from perdure.core.session.values import check
from perdure.ports.ambient import Ambient
from perdure.ports.cold import Cold
from perdure.ports.seal import CLEAR, Seal
from perdure.ports.store import Store
from perdure.sealing.given import AS_FOUND, Given

if TYPE_CHECKING:
    from perdure.ports.backup import Engine
    from perdure.sealing.keys import Checked, Keys
    from perdure.sealing.rotation import Progress
    from perdure.services.archiving import Archiving
    from perdure.services.blobs import Blobs
    from perdure.services.branches import Branches
    from perdure.services.checkpoints import Checkpoints
    from perdure.services.cleanup import Cleanup
    from perdure.services.cooling import CoolingStore
    from perdure.services.copies import Wiring
    from perdure.services.erasure import Erasure
    from perdure.services.exporting import Exporting
    from perdure.services.finding import Finding
    from perdure.services.importing import Importing
    from perdure.services.lifecycle import Lifecycle
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.merging import Merging
    from perdure.services.mirroring import Mirroring
    from perdure.services.sessions import Identity, Sessions
    from perdure.services.timeouts import Timekeeper
    from perdure.services.verifying import Verifying
    from perdure.services.waking import Waking

VOLATILE = ":memory:"
SERVER = ("postgresql://", "postgres://")
MAX_NAME = 256


class Opened(msgspec.Struct, frozen=True):
    """How a store was opened: where it is, with which keys, with which cold storage."""

    path: str
    keys: Given
    cold: str | os.PathLike[str] | None


class Services:
    """Everything an edge calls."""

    opened: Opened | None = None

    def __init__(self, store: "CoolingStore", sessions: "Sessions") -> None:
        self.store = store
        self.sessions = sessions

    @cached_property
    def archiving(self) -> "Archiving":
        from perdure.services.archiving import Archiving

        return Archiving(self.sessions, self.lifecycle, self.store)

    @cached_property
    def checkpoints(self) -> "Checkpoints":
        from perdure.services.checkpoints import Checkpoints

        return Checkpoints(self.sessions)

    @cached_property
    def branches(self) -> "Branches":
        from perdure.services.branches import Branches

        return Branches(self.sessions, self.checkpoints)

    @cached_property
    def blobs(self) -> "Blobs":
        from perdure.services.blobs import Blobs

        return Blobs(self.sessions)

    @cached_property
    def merging(self) -> "Merging":
        from perdure.services.merging import Merging

        return Merging(self.sessions)

    @cached_property
    def erasure(self) -> "Erasure":
        from perdure.services.erasure import Erasure

        return Erasure(self.sessions, self.checkpoints)

    @cached_property
    def lifecycle(self) -> "Lifecycle":
        from perdure.services.lifecycle import Lifecycle

        made = Lifecycle(self.sessions)
        if self.store.cold is not None:
            made.hook("after", "archive", self._archived)
        return made

    async def _archived(self, session: SessionId, moved: Moved) -> None:
        await self.archiving.moved(session, moved)

    @cached_property
    def cleanup(self) -> "Cleanup":
        from perdure.services.cleanup import Cleanup

        return Cleanup(self.sessions, self.erasure)

    @cached_property
    def timeouts(self) -> "Timekeeper":
        from perdure.services.timeouts import Timekeeper

        return Timekeeper(self.sessions, self.lifecycle, self.cleanup, self.erasure)

    @cached_property
    def waking(self) -> "Waking":
        from perdure.services.waking import Waking

        return Waking(self.sessions, self.lifecycle)

    @cached_property
    def finding(self) -> "Finding":
        from perdure.services.finding import Finding

        return Finding(self.sessions)

    @cached_property
    def exporting(self) -> "Exporting":
        from perdure.services.exporting import Exporting

        return Exporting(self.sessions)

    @cached_property
    def importing(self) -> "Importing":
        from perdure.services.importing import Importing

        return Importing(self.sessions)

    @cached_property
    def mirroring(self) -> "Mirroring":
        from perdure.services.mirroring import Mirroring

        return Mirroring(self.sessions)

    @cached_property
    def verifying(self) -> "Verifying":
        from perdure.services.verifying import Verifying

        return Verifying(self.sessions)


def open_store(
    path: str | os.PathLike[str], ambient: Ambient, *, read_only: bool = False, keys: Given = AS_FOUND
) -> Store:
    """The store behind a path: a SQLite file, a PostgreSQL database for its URL, or RAM for `:memory:`."""
    spelled = os.fspath(path)
    if not spelled or "\0" in spelled:
        raise Invalid(f"{path!r} is not a path to a store", path=str(path))
    if spelled.startswith(SERVER):
        return open_server(spelled, ambient, read_only=read_only, keys=keys)
    if "://" in spelled:
        raise Invalid(f"{spelled.split('://')[0]}:// is not a store this version knows; give the path of a file")
    if spelled == VOLATILE:
        from perdure.stores.volatile import VolatileStore

        return VolatileStore(volatile_seal(keys, ambient))
    from perdure.stores.sqlite import SqliteStore
    from perdure.stores.sqlite.connection import absent

    def find(mark: str | None) -> Seal:
        return seal_of(spelled, mark, keys, ambient, read_only=read_only)

    # A new store gets its keys before its file; of an old one the mark says what it needs.
    return SqliteStore(spelled, ambient, read_only=read_only, seal=find(None) if absent(spelled) else find)


def open_server(address: str, ambient: Ambient, *, read_only: bool = False, keys: Given = AS_FOUND) -> Store:
    """The store in a PostgreSQL database."""
    try:
        from perdure.stores.postgres import PostgresStore, look
    except ImportError as missing:
        raise Invalid("a store in PostgreSQL needs psycopg; install perdure[postgres]") from missing
    shown, mark = look(address, ambient)
    seal = seal_of(shown, mark, keys, ambient, read_only=read_only)
    try:
        return PostgresStore(address, ambient, read_only=read_only, seal=seal)
    except BaseException:
        seal.close()
        raise


def seal_of(store: str, mark: str | None, keys: Given, ambient: Ambient, *, read_only: bool = False) -> Seal:
    """The seal of a store with this mark (None: there is no store yet, "": it is not sealed). A new one is sealed
    unless the caller says no.
    """
    if keys.seal is False:
        if mark:
            raise Refused(f"{store} is sealed and stays so; open it without seal=False", store=store)
        return CLEAR
    if mark == "":
        if keys.sealed:
            raise Refused(
                f"{store} is not sealed, and sealing cannot be added to what is written; open it without seal, key and "
                "vault, or export its sessions and import them into a new store",
                store=store,
            )
        return CLEAR
    if mark is None and read_only:
        return CLEAR  # there is nothing to read, as the store will say
    from perdure.sealing.opening import keyring

    return keyring(store, keys, ambient, new=mark is None, read_only=read_only)


def volatile_seal(keys: Given, ambient: Ambient) -> Seal:
    """The seal of a store in RAM: none, unless the caller wants one."""
    if not keys.sealed:
        return CLEAR
    from perdure.sealing.opening import volatile_keyring

    return volatile_keyring(keys, ambient)


def keys_of(path: str | os.PathLike[str], keys: Given = AS_FOUND, ambient: Ambient | None = None) -> "Keys":
    """The master keys and the vault of a sealed store; `Refused` when it is not sealed."""
    from perdure.sealing.opening import keys_of
    from perdure.stores.sqlite.connection import mark

    spelled = os.fspath(path)
    if "://" not in spelled and not mark(os.path.abspath(spelled)):
        raise Refused(f"{spelled} is not a sealed store; it has no keys", store=spelled)
    return keys_of(spelled, keys, ambient or RealAmbient())


async def check_keys(
    path: str | os.PathLike[str], keys: Given = AS_FOUND, progress: "Progress | None" = None
) -> "Checked":
    """Whether every session of a store can be opened with its keys."""
    ambient = RealAmbient()
    store = open_store(path, ambient, read_only=True, keys=keys)
    try:
        found = keys_of(path, keys, ambient)
        try:
            return await found.check(store, progress)
        finally:
            found.close()
    finally:
        await store.close()


def open_cold(place: str | os.PathLike[str] | None) -> Cold | None:
    """Cold storage at a place: a folder, or `s3://bucket/prefix`."""
    if place is None:
        return None
    spelled = os.fspath(place)
    if not spelled or "\0" in spelled:
        raise Invalid(f"{place!r:.80} is not a place for archived sessions; name a folder, or s3://bucket/prefix")
    if spelled.startswith("s3://"):
        from perdure.cold.s3 import S3Cold

        return S3Cold(spelled)
    if "://" in spelled:
        raise Invalid(f"{spelled.split('://')[0]}:// is not cold storage; name a folder, or s3://bucket/prefix")
    from perdure.cold.folder import FolderCold

    return FolderCold(spelled)


def engine_of(place: str) -> "Engine":
    """The engine of the store at a path or URL, for copies of the whole."""
    if place.startswith(SERVER):
        from perdure.stores.postgres.backup import PostgresEngine

        return PostgresEngine(place)
    if place == VOLATILE or "://" in place:
        raise Refused(f"{place} cannot be backed up; export its sessions instead", store=place)
    from perdure.stores.sqlite.backup import SqliteEngine

    return SqliteEngine(place)


def copying(
    version: str, keys: Given = AS_FOUND, cold: str | os.PathLike[str] | None = None, ambient: Ambient | None = None
) -> "Wiring":
    """What backup, restore and upgrade need of the world, with these keys and this cold storage."""
    from perdure.core.errors import KeyMissing
    from perdure.services.cooling import CoolingStore
    from perdure.services.copies import Proven, Wiring, proven
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.sessions import Identity, Sessions

    chance = ambient or RealAmbient()

    async def prove(copy: str, original: str, progress: "Progress | None") -> Proven:
        archive = open_cold(cold)
        store = CoolingStore(open_copy(copy, original, chance, keys), archive, chance)
        try:
            found = Proven()
            for tenant in engine_of(copy).tenants():
                who = Identity(tenant=tenant, actor="verify")
                sessions = Sessions(store, chance, Ids(chance).fresh, who, SnapshotPolicy())
                found += await proven(sessions, cold=archive is not None, progress=progress)
            return found
        finally:
            await store.close()

    def key_ids(path: str) -> tuple[str, ...]:
        try:
            found = keys_of(path, keys, chance)
        except KeyMissing:
            return ()
        try:
            return tuple(item.id for item in found.show())
        finally:
            found.close()

    async def open_once(path: str) -> None:
        await open_store(path, chance, keys=keys).close()

    return Wiring(engine_of, prove, key_ids, open_once, chance, version)


def open_copy(copy: str, original: str, ambient: Ambient, keys: Given) -> Store:
    """A copy of a store, to be read with the keys of the original."""
    if copy.startswith(SERVER):
        return open_store(copy, ambient, read_only=True, keys=keys)
    from perdure.stores.sqlite import SqliteStore
    from perdure.stores.sqlite.connection import mark

    seal = seal_of(original, mark(copy), keys, ambient, read_only=True)
    try:
        return SqliteStore(copy, ambient, read_only=True, seal=seal)
    except BaseException:
        seal.close()
        raise


def compose(
    store: Store,
    ambient: Ambient,
    identity: "Identity",
    snapshots: "SnapshotPolicy",
    cold: Cold | None = None,
    timeouts: Timeouts = OFF,
) -> Services:
    """The services over a store, and over cold storage if there is one."""
    from perdure.services.cooling import CoolingStore
    from perdure.services.sessions import Sessions

    cooling = CoolingStore(store, cold, ambient)
    return Services(cooling, Sessions(cooling, ambient, Ids(ambient).fresh, identity, snapshots, timeouts))


def embedded(
    path: str | os.PathLike[str],
    *,
    tenant: str = "local",
    actor: str = "local",
    read_only: bool = False,
    ambient: Ambient | None = None,
    snapshots: "SnapshotPolicy | None" = None,
    cold: str | os.PathLike[str] | None = None,
    keys: Given = AS_FOUND,
    timeouts: Timeouts = OFF,
) -> Services:
    """The services over the store at a path."""
    for name, value in (("tenant", tenant), ("actor", actor)):
        if type(value) is not str or not 0 < len(value) <= MAX_NAME:
            raise Invalid(f"{name} is a text of 1 to {MAX_NAME} characters, not {value!r:.80}")
        check(value)
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.sessions import Identity

    chance = ambient or RealAmbient()
    archive = open_cold(cold)
    store = open_store(path, chance, read_only=read_only, keys=keys)
    identity = Identity(tenant=tenant, actor=actor)
    services = compose(store, chance, identity, snapshots or SnapshotPolicy(), archive, timeouts)
    services.opened = Opened(os.fspath(path), keys, cold)
    return services
