"""What only single engines have to prove of streams: their bytes, older stores without tables for them, and backups."""

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import psycopg
import pytest

from perdure.compose import copying, engine_of
from perdure.core.errors import Damaged, ReadOnly
from perdure.ports.seal import CLEAR, Seal
from perdure.ports.store import Kept
from perdure.services.backup import Backups
from perdure.stores.postgres import PostgresStore
from perdure.stores.sqlite import SqliteStore
from perdure.testing import Builder, FixedAmbient
from perdure.testing.contract.keeping import NODE, UNTIL, pieces_of, stream
from perdure.testing.contract.looking import put
from perdure.waiting import drive
from tests.stores.postgres_server import Server, address, bare, server, shared
from tests.stores.test_formats import NAMES, unpacked
from tests.stores.test_sealed import file_keyring

__all__ = ["address", "bare", "server", "shared"]
SECRET = b"quokka-7341 says something short"
TABLES = ("stream", "stream_piece")


@pytest.fixture
def make() -> Builder:
    return Builder(FixedAmbient())


@pytest.fixture
async def sealed(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "sessions.db"), FixedAmbient(), seal=file_keyring(tmp_path))
    yield store
    await store.close()


@pytest.fixture
async def clear(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "clear.db"), FixedAmbient())
    yield store
    await store.close()


def holding(folder: Path, text: bytes = SECRET) -> list[str]:
    """The files in which a text stands."""
    return sorted(path.name for path in folder.iterdir() if text in path.read_bytes())


def change(path: Path | str, statement: str, *values: object) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def tables(path: Path | str) -> set[object]:
    return {name for (name,) in change(path, "SELECT name FROM sqlite_schema WHERE name IN ('stream', 'stream_piece')")}


# ── the bytes ──


async def test_no_word_of_a_stream_is_in_any_file_of_a_sealed_store(
    sealed: SqliteStore, make: Builder, tmp_path: Path
) -> None:
    made = await put(sealed, make.create())
    await stream(sealed, made, SECRET)
    assert await pieces_of(sealed, made) == ((0, SECRET),)
    assert holding(tmp_path) == []
    assert holding(tmp_path, NODE.encode()) != [], "the search sees what was written"
    await sealed.close()
    assert holding(tmp_path) == []


async def test_what_is_erased_from_a_store_in_the_clear_is_in_none_of_its_files(
    clear: SqliteStore, make: Builder, tmp_path: Path
) -> None:
    made = await put(clear, make.create())
    await stream(clear, made, SECRET)
    assert holding(tmp_path) == ["clear.db-wal"]
    assert await clear.erase(made.session, 5)
    assert holding(tmp_path) == []


MOVES = {
    "another turn": ("UPDATE stream_piece SET turn = 2", 0, 2),
    "another offset": ("UPDATE stream_piece SET start = 1, upto = upto + 1", 0, 1),
    "the clear": ("UPDATE stream_piece SET body = x'0068656c6c6f'", 0, 1),
    "nothing": ("UPDATE stream_piece SET body = x''", 0, 1),
    "another session": ("UPDATE stream_piece SET session = (SELECT max(no) FROM session)", 1, 1),
}


@pytest.mark.parametrize(("move", "whose", "turn"), MOVES.values(), ids=MOVES.keys())
async def test_a_piece_opens_only_in_its_session_its_turn_and_its_place(
    sealed: SqliteStore, make: Builder, move: str, whose: int, turn: int
) -> None:
    made, other = await put(sealed, make.create()), await put(sealed, make.create())
    await stream(sealed, made, b"hello")
    await stream(sealed, made, b"", turn=2)
    await stream(sealed, other, b"")
    change(sealed.path, move)
    with pytest.raises(Damaged):
        await sealed.kept((made, other)[whose].session, turn)


async def test_a_damaged_row_is_said_to_be(clear: SqliteStore, make: Builder) -> None:
    made = await put(clear, make.create())
    await stream(clear, made, b"hello")
    change(clear.path, "UPDATE stream_piece SET body = x'09'")
    with pytest.raises(Damaged):
        await clear.kept(made.session, 1)


# ── the feed ──


async def test_nobody_who_watches_the_feed_is_woken_by_a_stream(clear: SqliteStore, make: Builder) -> None:
    made = await put(clear, make.create())
    heard = clear._bell.heard()
    await stream(clear, made, b"text")
    await clear.let_go(made.session, 1)
    assert clear._bell.heard() == heard
    await put(clear, make.append(made))
    assert clear._bell.heard() != heard


async def test_nobody_is_told_of_a_stream_in_a_database(address: str, make: Builder) -> None:
    store = PostgresStore(address, FixedAmbient())
    made = await put(store, make.create())
    heard = store._bell.heard()
    with psycopg.connect(address, autocommit=True) as listening:
        listening.execute("LISTEN perdure")
        await stream(store, made, b"text")
        await store.let_go(made.session, 1)
        assert store._bell.heard() == heard
        assert list(listening.notifies(timeout=0.1)) == []
        await put(store, make.append(made))
        assert len(list(listening.notifies(timeout=10, stop_after=1))) == 1
    await store.close()


# ── ids that are erased and used again, elsewhere ──


async def used_anew(first: SqliteStore | PostgresStore, second: SqliteStore | PostgresStore, make: Builder) -> None:
    """One that has a session in mind keeps for its namesake, which another has made since."""
    made = await put(first, make.create())
    await stream(first, made, b"old")
    assert await second.erase(made.session, 5)
    await put(second, make.create(session=made.session))
    await stream(first, made, b"new")
    assert await pieces_of(first, made) == await pieces_of(second, made) == ((0, b"new"),)
    await second.close()


async def test_a_namesake_made_elsewhere_has_its_stream_in_a_file(
    sealed: SqliteStore, make: Builder, tmp_path: Path
) -> None:
    await used_anew(sealed, SqliteStore(sealed.path, FixedAmbient(), seal=file_keyring(tmp_path)), make)


@pytest.mark.parametrize("seals", [True, False])
async def test_a_namesake_made_elsewhere_has_its_stream_in_a_database(
    bare: str, make: Builder, tmp_path: Path, seals: bool
) -> None:
    def seal() -> Seal:
        return file_keyring(tmp_path) if seals else CLEAR

    first = PostgresStore(bare, FixedAmbient(), seal=seal())
    await used_anew(first, PostgresStore(bare, FixedAmbient(), seal=seal()), make)
    await first.close()


# ── stores without tables for streams ──


async def test_a_file_has_tables_for_streams_from_the_first_one_on(clear: SqliteStore, make: Builder) -> None:
    made = await put(clear, make.create())
    assert await clear.kept(made.session, 1) is None
    await clear.let_go(made.session, 1)
    await clear.erase((await put(clear, make.create())).session, 5)
    assert tables(clear.path) == set()
    reader = SqliteStore(clear.path, FixedAmbient(), read_only=True)
    assert await reader.kept(made.session, 1) is None
    await stream(clear, made, b"text")
    assert tables(clear.path) == set(TABLES)
    assert await reader.kept(made.session, 1) == Kept(turn=1, node=NODE, until=UNTIL, pieces=((0, b"text"),))
    with pytest.raises(ReadOnly):
        await stream(reader, made, b"text")
    with pytest.raises(ReadOnly):
        await reader.let_go(made.session, 1)
    await reader.close()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("-sealed")])
async def test_a_store_of_any_format_takes_a_stream(name: str, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path)
    store = SqliteStore(str(path), FixedAmbient())
    (session, _), *_ = await store.salts(None, 1)
    assert await store.kept(session, 1) is None
    await store.keep(session, 1, node=NODE, until=UNTIL, offset=0, data=b"text")
    assert await store.kept(session, 1) == Kept(turn=1, node=NODE, until=UNTIL, pieces=((0, b"text"),))
    await store.close()


async def test_a_database_from_before_gets_the_tables_when_it_is_opened(address: str, make: Builder) -> None:
    store = PostgresStore(address, FixedAmbient())
    made = await put(store, make.create())
    await store.close()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TABLE perdure.stream, perdure.stream_piece")
    reader = PostgresStore(address, FixedAmbient(), read_only=True)
    assert await reader.kept(made.session, 1) is None
    store = PostgresStore(address, FixedAmbient())
    await stream(store, made, b"text")
    assert await pieces_of(store, made) == ((0, b"text"),)
    assert await pieces_of(reader, made) == ((0, b"text"),)
    await reader.close()
    await store.close()


# ── backups ──


@pytest.mark.parametrize("portable", [False, True])
def test_no_backup_of_a_file_has_a_stream(make: Builder, tmp_path: Path, portable: bool) -> None:
    store = SqliteStore(str(tmp_path / "clear.db"), FixedAmbient())
    made = drive(put(store, make.create()))
    for number in range(200):
        drive(store.keep(made.session, 1, node=NODE, until=UNTIL, offset=number * 99, data=SECRET))
    (tmp_path / "backups").mkdir()
    backup = tmp_path / "backups" / "one"
    drive(Backups(copying("0")).back_up(store.path, str(backup), portable=portable))
    assert holding(tmp_path / "backups") == []
    assert sorted(path.name for path in (tmp_path / "backups").iterdir()) == ["one", "one.manifest.json"]
    found = drive(store.kept(made.session, 1))
    assert found is not None
    assert len(found.pieces) == 200
    drive(store.close())
    if not portable:
        copy = SqliteStore(str(backup), FixedAmbient())
        assert drive(copy.head(made.session)) is not None
        assert drive(copy.kept(made.session, 1)) is None
        drive(copy.close())


def test_a_portable_backup_is_restored_and_streams_anew(make: Builder, tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "clear.db"), FixedAmbient())
    made = drive(put(store, make.create()))
    drive(stream(store, made, SECRET))
    target = engine_of(str(tmp_path / "other.db"))
    with engine_of(store.path).dump() as dump:
        assert not set(dump.tables) & set(TABLES)
        target.load(dump.facts, dump.tables, dump.rows())
    drive(store.close())
    other = SqliteStore(str(tmp_path / "other.db"), FixedAmbient())
    assert drive(other.kept(made.session, 1)) is None
    drive(stream(other, made, b"text"))
    assert drive(pieces_of(other, made)) == ((0, b"text"),)
    drive(other.close())


def test_no_backup_of_a_database_has_a_stream(address: str, server: Server, make: Builder) -> None:
    store = PostgresStore(address, FixedAmbient())
    made = drive(put(store, make.create()))
    drive(stream(store, made, SECRET))
    elsewhere = server.database()
    with engine_of(address).dump() as dump:
        assert not set(dump.tables) & set(TABLES)
        engine_of(elsewhere).load(dump.facts, dump.tables, dump.rows())
    drive(store.close())
    other = PostgresStore(elsewhere, FixedAmbient())
    assert drive(other.kept(made.session, 1)) is None
    drive(stream(other, made, b"text"))
    assert drive(pieces_of(other, made)) == ((0, b"text"),)
    drive(other.close())
