"""Every store keeps the contract of blobs, sealed and not; and what only a look at the bytes can tell."""

import inspect
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.core.errors import BlobMissing, KeyMissing, Shredded, Tampered
from perdure.core.session.refs import blob_ref
from perdure.ports.blobs import CHUNK, Blob, Note
from perdure.ports.seal import CLEAR, Seal
from perdure.ports.store import Store
from perdure.sealing.opening import Given, volatile_keyring
from perdure.stores.sqlblobs import SqlBlobs
from perdure.stores.sqlite import SqliteStore
from perdure.stores.volatile import VolatileStore
from perdure.testing import BlobContract, Builder, FixedAmbient
from perdure.testing.contract.content import collect, content_of, keep, pointing, sha_of, there
from perdure.testing.contract.looking import TENANT, put

BIG = b"".join(bytes([number]) * CHUNK for number in range(3)) + b"the end"


class TestVolatile(BlobContract):
    durable = False

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = VolatileStore()
        yield store
        await store.close()


class TestSealedVolatile(BlobContract):
    durable = False

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = VolatileStore(volatile_keyring(Given(), FixedAmbient()))
        yield store
        await store.close()


class TestSqlite(BlobContract):
    @pytest.fixture
    def seal(self) -> Seal:
        return CLEAR

    @pytest.fixture
    async def store(self, tmp_path: Path, seal: Seal) -> AsyncIterator[Store]:
        self.seal = seal
        store = SqliteStore(str(tmp_path / "sessions.db"), FixedAmbient(), seal=seal)
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        assert isinstance(store, SqliteStore)
        return SqliteStore(store.path, FixedAmbient(), seal=self.seal)


class TestSealedSqlite(TestSqlite):
    @pytest.fixture
    def seal(self) -> Seal:
        return volatile_keyring(Given(), FixedAmbient())


def test_no_store_is_excused_from_a_claim() -> None:
    claims = [name for name in dir(BlobContract) if name.startswith("test_")]
    assert len(claims) >= 25
    assert all(inspect.iscoroutinefunction(getattr(BlobContract, claim)) for claim in claims)
    with pytest.raises(TypeError, match=claims[0]):
        type("Muted", (BlobContract,), {claims[0]: None})


# ── the bytes in the file ──


class File:
    """A store in a file, and another connection to it."""

    def __init__(self, folder: Path, seal: Seal) -> None:
        self.path = str(folder / "store.db")
        self.ambient = FixedAmbient()
        self.make = Builder(self.ambient)
        self.seal = seal
        self.store = SqliteStore(self.path, self.ambient, seal=seal)

    async def keep(self, content: bytes, note: Note | None = None) -> Blob:
        return await keep(self.store, self.make, self.ambient, content, note=note or Note())

    def change(self, statement: str, *values: Any) -> list[Any]:
        connection = apsw.Connection(self.path)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(Path(self.path).parent.glob("store.db*")))


@pytest.fixture(params=["clear", "sealed"])
async def file(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[File]:
    seal = CLEAR if request.param == "clear" else volatile_keyring(Given(), FixedAmbient())
    file = File(tmp_path, seal)
    yield file
    await file.store.close()


@pytest.fixture
async def sealed(tmp_path: Path) -> AsyncIterator[File]:
    file = File(tmp_path, volatile_keyring(Given(), FixedAmbient()))
    yield file
    await file.store.close()


def flip(body: bytes, place: int) -> bytes:
    return body[:place] + bytes([body[place] ^ 0x40]) + body[place + 1 :]


@pytest.mark.parametrize("where", [0, 1, 5, 30, 60, -1])
async def test_a_flipped_bit_of_a_chunk_is_found_without_reading_the_rest(file: File, where: int) -> None:
    blob = await file.keep(BIG)
    ((body,),) = file.change("SELECT body FROM blob_chunk WHERE number = 1")
    file.change("UPDATE blob_chunk SET body = ? WHERE number = 1", flip(body, where % len(body)))
    with pytest.raises(Tampered):
        await file.store.blobs.read(blob, 1)
    assert await file.store.blobs.read(blob, 2) == BIG[2 * CHUNK : 3 * CHUNK]


TAMPERINGS = {
    "two chunks change places": "UPDATE blob_chunk SET number = 9 WHERE number = 0;"
    "UPDATE blob_chunk SET number = 0 WHERE number = 1; UPDATE blob_chunk SET number = 1 WHERE number = 9",
    "the end is cut off": f"DELETE FROM blob_chunk WHERE number = 3; UPDATE blob SET size = {3 * CHUNK}",
    "the end comes twice": "UPDATE blob_chunk SET body = (SELECT body FROM blob_chunk WHERE number = 3)"
    " WHERE number = 1",
    "a chunk is missing": "DELETE FROM blob_chunk WHERE number = 2",
    "the size is another": "UPDATE blob SET size = size - 1",
    "the card is gone": "UPDATE blob SET card = x''",
    "the id is another": "UPDATE blob SET blob_id = x'00112233445566778899aabbccddeeff'",
}


@pytest.mark.parametrize("how", TAMPERINGS)
async def test_a_blob_that_was_tampered_with_is_never_served(file: File, how: str) -> None:
    await file.keep(BIG)
    file.change(TAMPERINGS[how])
    with pytest.raises(Tampered):
        await _all_of(file.store, BIG)


async def test_blobs_that_change_places_are_found(file: File) -> None:
    await file.keep(b"one")
    await file.keep(b"two")
    file.change("UPDATE blob SET address = 'aside' WHERE no = 1")
    ((second,),) = file.change("SELECT address FROM blob WHERE no = 2")
    file.change("UPDATE blob SET address = ? || '' WHERE no = 2", "first")
    file.change("UPDATE blob SET address = ? WHERE no = 1", second)
    with pytest.raises(Tampered):
        await _all_of(file.store, b"two")


async def test_a_chunk_of_another_blob_is_found(file: File) -> None:
    await file.keep(b"one")
    await file.keep(b"two")
    file.change("UPDATE blob_chunk SET body = (SELECT body FROM blob_chunk WHERE blob = 1) WHERE blob = 2")
    with pytest.raises(Tampered):
        await _all_of(file.store, b"two")
    assert await there(file.store, b"one")


async def test_a_damaged_blob_is_mended_by_putting_it_again(file: File) -> None:
    await file.keep(BIG)
    await put(file.store, file.make.create(pointing(BIG)))
    file.change("DELETE FROM blob_chunk WHERE number = 1")
    await keep(file.store, file.make, file.ambient, BIG, replace=True)
    assert await there(file.store, BIG)
    assert (await collect(file.store, file.ambient)).blobs == 0


async def _all_of(store: SqliteStore, content: bytes) -> bytes:
    blob = await store.blobs.find(TENANT, sha_of(content))
    assert blob is not None
    return await content_of(store.blobs, blob)


# ── sealing ──


async def test_nothing_of_a_sealed_blob_is_in_the_file(sealed: File) -> None:
    content = b"a planted marker, compressible, compressible, compressible" * 5000
    note = Note("image/x-planted", "planted-name.png")
    await sealed.keep(content, note)
    await put(sealed.store, sealed.make.create(pointing(content)))
    sha = sha_of(content)
    for trace in (b"planted", b"compressible", sha, sha.hex().encode(), blob_ref(sha).uri.encode()):
        assert trace not in sealed.bytes(), trace
    await sealed.store.close()
    assert b"planted" not in sealed.bytes()


async def test_in_the_clear_the_same_marks_would_have_been_found(tmp_path: Path) -> None:
    file = File(tmp_path, CLEAR)
    await file.keep(b"a planted marker", Note("image/x-planted", "planted-name.png"))
    assert b"a planted marker" in file.bytes()
    assert sha_of(b"a planted marker").hex().encode() in file.bytes()
    await file.store.close()


async def test_two_tenants_with_the_same_content_cannot_be_told_by_their_rows(sealed: File) -> None:
    await keep(sealed.store, sealed.make, sealed.ambient, BIG, tenant="one")
    await keep(sealed.store, sealed.make, sealed.ambient, BIG, tenant="two")
    addresses = sealed.change("SELECT address, salt, card FROM blob")
    bodies = sealed.change("SELECT body FROM blob_chunk")
    for column in zip(*addresses, strict=True):
        assert len(set(column)) == 2
    assert len(set(bodies)) == len(bodies) == 8


async def test_a_collected_blob_is_unreadable_in_yesterdays_backup(sealed: File, tmp_path: Path) -> None:
    blob = await sealed.keep(BIG)
    await sealed.keep(b"kept")
    await put(sealed.store, sealed.make.create(pointing(b"kept")))
    sealed.change("PRAGMA wal_checkpoint(TRUNCATE)")
    backup = str(shutil.copy(sealed.path, tmp_path / "backup.db"))
    assert (await collect(sealed.store, sealed.ambient)).blobs == 1
    old = SqliteStore(backup, FixedAmbient(), seal=sealed.seal)
    assert await there(old, b"kept")
    with pytest.raises(Shredded):
        await old.blobs.find(TENANT, blob.sha256)
    with pytest.raises(Shredded):
        await old.blobs.read(blob, 0)
    old._closed = True  # the seal is the other store's to close
    old._readers.close()
    old._writer.close()


async def test_a_sealed_blob_needs_the_key(sealed: File) -> None:
    await sealed.keep(BIG)
    await sealed.store.close()
    with pytest.raises(KeyMissing):
        SqliteStore(sealed.path, FixedAmbient())


# ── a crash in the middle ──


@pytest.mark.parametrize("step", ["doom", "condemn", "drop", "destroy"])
async def test_what_a_crash_leaves_of_collecting_the_next_one_finishes(
    sealed: File, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = await sealed.keep(BIG)
    await sealed.keep(b"kept")
    await put(sealed.store, sealed.make.create(pointing(b"kept")))
    blobs = sealed.store.blobs
    broken: Any = blobs._seal if step in ("condemn", "destroy") else blobs._table
    with monkeypatch.context() as patch:
        patch.setattr(broken, step, _crash(getattr(broken, step), after=step == "drop"))
        now = sealed.ambient.advance(1)
        with pytest.raises(Crash):
            await blobs.collect(TENANT, now, now)
    assert await there(sealed.store, b"kept")
    found = await sealed.store.blobs.find(TENANT, blob.sha256)
    assert (found is None) == (step != "doom")
    await collect(sealed.store, sealed.ambient)
    assert sealed.change("SELECT count(*) FROM blob") == [(1,)]
    assert sealed.change("SELECT count(*) FROM blob_chunk") == [(1,)]
    assert await there(sealed.store, b"kept")


class Crash(Exception):
    """The process died here."""


def _crash(step: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    async def die(*arguments: Any) -> Any:
        if after:
            await step(*arguments)
        raise Crash

    def die_now(*arguments: Any) -> Any:
        raise Crash

    return die if after or getattr(step, "__name__", "") in ("doom", "drop") else die_now


async def test_a_reader_is_told_when_its_blob_goes(file: File) -> None:
    blob = await file.keep(BIG)
    assert await file.store.blobs.read(blob, 0) == BIG[:CHUNK]
    await collect(file.store, file.ambient)
    with pytest.raises(BlobMissing, match="while it was read"):
        await file.store.blobs.read(blob, 1)


def test_a_table_of_blobs_that_lacks_a_method_of_its_engine_is_not_made() -> None:
    class Lacking(SqlBlobs[Any]):
        Q = {}

    with pytest.raises(TypeError, match="abstract method _id"):
        Lacking(*[lambda _: None] * 3)  # type: ignore[abstract]
