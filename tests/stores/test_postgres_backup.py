"""A store in PostgreSQL backed up in the portable form, from one snapshot under writers, and brought back."""

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

import perdure
from perdure import Perdure, errors, events
from perdure.compose import copying, engine_of
from perdure.sealing.given import Given
from perdure.services.backup import BackedUp, Backups
from perdure.services.copies import Wiring
from perdure.services.restore import Restored, Restores
from perdure.waiting import drive
from tests.stores.postgres_server import Server, bare, server, shared

__all__ = ["bare", "server", "shared"]
MARKER = "SECRET-91be02"


def keys(folder: Path, sealed: bool) -> dict[str, Any]:
    return {"key": folder / "master", "vault": folder / "vault"} if sealed else {"seal": False}


def wiring(folder: Path, sealed: bool = False) -> Wiring:
    return copying("0", Given(None, folder / "master", folder / "vault") if sealed else Given())


def back_up(source: str, target: Path, world: Wiring, **options: Any) -> BackedUp:
    return drive(Backups(world).back_up(source, str(target), **options))


def restore(backup: Path, target: str, world: Wiring, **options: Any) -> Restored:
    return drive(Restores(world).restore(str(backup), target, **options))


def digests(db: Perdure) -> dict[str, list[bytes]]:
    return {row.session: [event.digest for event in db.session(row.session).events()] for row in db.find().items}


@pytest.mark.filterwarnings("ignore:a new master key was made")
@pytest.mark.parametrize("sealed", [False, True])
def test_a_database_goes_there_and_back(bare: str, server: Server, tmp_path: Path, sealed: bool) -> None:
    world, stream = wiring(tmp_path, sealed), tmp_path / "store.perdure"
    with perdure.open(bare, **keys(tmp_path, sealed)) as db:
        session = db.create("first", tags=["travel"], metadata={"n": 1}, config={"max_cost": 1000}, key="made")
        session.reserve("call", 300)
        for number in range(20):
            with session.turn(f"question {number} {MARKER}") as turn:
                turn.answer("answer \0 with a NUL")
        mark = session.checkpoint("half way")
        session.branch(at=10).append(events.Message(role="user", content="another way"))
        db.create("erased").erase()
        assert [row.title for row in db.find(text=MARKER).items] == ["first"]
        before, account, position = digests(db), session.account(), db.position()
    made = back_up(bare, stream, world)
    assert (made.manifest.engine, made.manifest.kind, made.manifest.sealed) == ("postgres", "portable", sealed)
    assert (made.manifest.sessions, made.manifest.verified) == (2, "full")
    assert sorted(path.name for path in tmp_path.glob("store*")) == ["store.perdure", "store.perdure.manifest.json"]
    assert not sealed or MARKER.encode() not in stream.read_bytes()
    with pytest.raises(errors.AlreadyExists):
        restore(stream, bare, world)
    elsewhere = server.database()
    tried = restore(stream, elsewhere, world, dry_run=True)
    assert (tried.done, tried.verified) == (False, "full")
    with pytest.raises(errors.NotAStore):
        engine_of(elsewhere).facts()
    done = restore(stream, elsewhere, world)
    assert (done.done, done.verified) == (True, "full")
    assert engine_of(elsewhere).facts() == engine_of(bare).facts()
    with perdure.open(elsewhere, **({} if not sealed else keys(tmp_path, True))) as db:
        assert digests(db) == before
        session = db.session(session.id)
        assert session.account() == account
        assert session.restore(mark.id).rebuilt is False
        assert [row.title for row in db.find(text=MARKER).items] == ["first"]
        assert [row.title for row in db.find(tags=["travel"], metadata={"n": 1}).items][-1] == "first"
        again = db.create("first", tags=["travel"], metadata={"n": 1}, config={"max_cost": 1000}, key="made")
        assert again.id == session.id
        db.create("later")
        assert db.position() > position
        assert db.verify().ok


def test_a_backup_under_writers_is_of_one_moment(bare: str, server: Server, tmp_path: Path) -> None:
    stop, acknowledged = threading.Event(), {}
    with perdure.open(bare, seal=False) as db:
        sessions = [db.create(f"session {number}") for number in range(3)]

        def write(session: perdure.Session) -> None:
            while not stop.is_set():
                acknowledged[session.id] = session.append([events.Message(role="user", content="x" * 500)])

        writers = [threading.Thread(target=write, args=(session,)) for session in sessions]
        for writer in writers:
            writer.start()
        try:
            while len(acknowledged) < len(sessions):
                stop.wait(0.01)
            before = dict(acknowledged)
            back_up(bare, tmp_path / "store.perdure", wiring(tmp_path))
            after = dict(acknowledged)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        final = digests(db)
    elsewhere = server.database()
    restore(tmp_path / "store.perdure", elsewhere, wiring(tmp_path))
    with perdure.open(elsewhere) as db:
        assert db.verify().ok
        for session, found in digests(db).items():
            assert found == final[session][: len(found)]
            assert len(found) >= before[session]
    assert after != before, "nobody wrote while the backup was made"


def test_what_does_not_add_up_leaves_the_database_empty(bare: str, server: Server, tmp_path: Path) -> None:
    stream, world = tmp_path / "store.perdure", wiring(tmp_path)
    with perdure.open(bare, seal=False) as db:
        db.create("first")
    back_up(bare, stream, world)
    elsewhere = server.database()
    engine = engine_of(elsewhere)
    with engine_of(bare).dump() as dump, pytest.raises(ValueError, match="cut"):
        engine.load(dump.facts, dump.tables, _cut(dump.rows()))
    with pytest.raises(errors.NotAStore):
        engine.facts()
    content = stream.read_bytes()
    stream.write_bytes(content[:-1])
    with pytest.raises(errors.Tampered):
        restore(stream, elsewhere, world)
    with pytest.raises(errors.NotAStore):
        engine.facts()
    stream.write_bytes(content)
    assert restore(stream, elsewhere, world, dry_run=True).done is False
    assert restore(stream, elsewhere, world).done


def _cut(rows: Any) -> Any:
    for number, batch in enumerate(rows):
        if number == 5:
            raise ValueError("cut")
        yield batch


def test_a_file_is_not_restored_to_a_server_nor_a_database_to_a_file(bare: str, tmp_path: Path) -> None:
    world = wiring(tmp_path)
    with perdure.open(tmp_path / "store.db", seal=False) as db:
        db.create("in a file")
    back_up(str(tmp_path / "store.db"), tmp_path / "file", world)
    for name, portable in (("file", False), ("rows", True)):
        back_up(str(tmp_path / "store.db"), tmp_path / name, world, portable=portable, overwrite=True)
        for dry_run in (False, True):
            with pytest.raises(errors.Invalid, match=r"in a file: restore it to a file\. .*\(perdure sessions export"):
                restore(tmp_path / name, bare, world, dry_run=dry_run)
    with perdure.open(bare, seal=False) as db:
        db.create("in a database")
    back_up(bare, tmp_path / "stream", world)
    for dry_run in (False, True):
        with pytest.raises(errors.Invalid, match="PostgreSQL: restore it to an empty database, postgresql://"):
            restore(tmp_path / "stream", str(tmp_path / "there.db"), world, dry_run=dry_run)
    assert not (tmp_path / "there.db").exists()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE perdure.record SET body = overlay(body placing '\\x5a'::bytea from 20) WHERE first > 1",
        "DELETE FROM perdure.record WHERE first = 5",
        "UPDATE perdure.snapshot SET checksum = sha256('another')",
        "UPDATE perdure.checkpoint SET label = 'another'",
        "UPDATE perdure.session SET turns = turns + 1",
    ],
)
def test_a_damaged_database_is_not_called_verified(bare: str, server: Server, tmp_path: Path, damage: str) -> None:
    world, stream = wiring(tmp_path), tmp_path / "stream"
    with perdure.open(bare, seal=False, snapshots=perdure.SnapshotPolicy(events=5)) as db:
        session = db.create("first")
        for number in range(12):
            session.append(events.Message(role="user", content=f"{number}"))
        session.checkpoint("half way")
    assert back_up(bare, stream, world).manifest.verified == "full"
    with psycopg.connect(bare, autocommit=True) as connection:
        assert connection.execute(damage).rowcount > 0
    with pytest.raises(errors.Damaged, match=" in postgresql://"):
        back_up(bare, stream, world, overwrite=True)
    assert not list(tmp_path.glob("stream.partial*"))
    assert back_up(bare, stream, world, overwrite=True, verify="quick").manifest.verified == "quick"
    elsewhere = server.database()
    with pytest.raises(errors.Damaged, match=f"in the backup {stream}: .* Take another backup"):
        restore(stream, elsewhere, world, dry_run=True)
    assert restore(stream, elsewhere, world, dry_run=True, verify="quick").verified == "quick"
    with pytest.raises(errors.Damaged, match="drop the schema perdure there"):
        restore(stream, elsewhere, world)


@pytest.mark.filterwarnings("ignore:a new master key was made")
def test_a_session_erased_since_is_told_when_a_database_comes_back(bare: str, server: Server, tmp_path: Path) -> None:
    world, stream = wiring(tmp_path, sealed=True), tmp_path / "stream"
    with perdure.open(bare, **keys(tmp_path, True)) as db:
        gone = db.create("gone")
        gone.append(events.Message(role="user", content=MARKER))
        branch = gone.branch(title="branch")
        back_up(bare, stream, world)
        gone.erase()
    elsewhere = server.database()
    for dry_run in (True, False):
        done = restore(stream, elsewhere, world, dry_run=dry_run)
        assert (done.verified, done.erased, done.bereft) == ("full", (gone.id,), (branch.id,))
        assert any("erased after this backup" in remark for remark in done.remarks)


@pytest.mark.filterwarnings("ignore:a new master key was made")
def test_a_sealed_database_without_its_keys_is_backed_up_but_not_proven(bare: str, tmp_path: Path) -> None:
    with perdure.open(bare, **keys(tmp_path, True)) as db:
        db.create("first")
    made = back_up(bare, tmp_path / "stream", wiring(tmp_path))
    assert made.manifest.verified == "quick"
    assert any("the keys are not here" in remark for remark in made.remarks)


@pytest.mark.filterwarnings("ignore:a new master key was made")
def test_a_vault_that_is_no_file_is_left_to_the_tools_of_its_server(bare: str, server: Server, tmp_path: Path) -> None:
    where = {"key": tmp_path / "master", "vault": server.database()}
    with perdure.open(bare, **where) as db:
        db.create("first")
        said = " ".join(db.backup(tmp_path / "store.perdure").remarks)
    assert "with the tools of its server" in said
    assert "perdure keys backup" not in said
    done = restore(tmp_path / "store.perdure", server.database(), copying("0", Given(None, **where)))
    assert done.verified == "full"
    assert f"master key {done.manifest.keys[0]}" in " ".join(done.remarks)


def test_sessions_of_a_database_are_archived_and_thawed(bare: str, tmp_path: Path) -> None:
    with perdure.open(bare, seal=False, cold=tmp_path / "cold") as db:
        session = db.create("old")
        for number in range(30):
            session.append(events.Message(role="user", content=f"{number} {MARKER}"))
        session.complete()
        before = digests(db)
        session.archive()
        assert session.info().cold is not None
        assert len(digests(db)[session.id]) == len(before[session.id]) + 1
        assert session.verify().ok
        assert session.thaw()
        assert session.verify().ok
        session.archive()
        session.erase()
    assert list((tmp_path / "cold").rglob("*.bundle")) == []
