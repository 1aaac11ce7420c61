"""Stores of every format there ever was open today, with everything in them; ones of the future are left alone."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure import Perdure, errors
from perdure.compose import copying, engine_of
from perdure.services.backup import Backups
from perdure.services.restore import Restores
from perdure.services.upgrade import Upgraded, Upgrades
from perdure.stores.sqlite.connection import FORMAT
from perdure.testing import FixedAmbient
from perdure.waiting import drive

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FIXTURES = Path(__file__).parent.parent / "fixtures"
NAMES = sorted(path.name.removesuffix(".db.zst") for path in FIXTURES.glob("*.db.zst"))
MADE_AT = {"format-1": 1_794_747_768_000_000}
"""When a fixture was made that was not made with a fixed clock: its checkpoints were there then."""


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def store(name: str, tmp_path: Path) -> Path:
    return unpacked(name, tmp_path)


def unpacked(name: str, folder: Path) -> Path:
    path = folder / "store.db"
    path.write_bytes(zstd.decompress((FIXTURES / f"{name}.db.zst").read_bytes()))
    for suffix in (".keys", ".master"):
        if (FIXTURES / f"{name}.db{suffix}").exists():
            shutil.copy(FIXTURES / f"{name}.db{suffix}", f"{path}{suffix}")
            os.chmod(f"{path}{suffix}", 0o600)
    return path


def opened(name: str, path: Path, **options: Any) -> Perdure:
    ambient = FixedAmbient(now=MADE_AT[name]) if name in MADE_AT else FixedAmbient()
    ambient.advance(600)
    return perdure.open(path, ambient=ambient, **options)


def number(name: str) -> int:
    return int(name.removesuffix("-sealed").rpartition("-")[2])


def upgrade(path: Path, **options: Any) -> Upgraded:
    return drive(Upgrades(copying("0")).upgrade(str(path), **options))


def check(db: Perdure) -> None:
    """What every fixture holds."""
    rows = {row.title: row for row in db.find().items}
    assert {"Lisbon trip", "Cheaper trip", "Notes", "Long", "Done"} <= set(rows)
    assert "Gone" not in rows
    trip = db.session(rows["Lisbon trip"].session)
    said = [[message.content for message in turn.messages] for turn in trip.turns()]
    assert said == [
        ["Find me a flight to Lisbon", "TP571 for 120 euro"],
        ["And a hotel?", "Hotel Avenida, two nights"],
    ]
    assert [call.name for call in trip.turns()[0].calls] == ["search"]
    assert trip.vars() == {"flight": "TP571", "seats": [1, 2]}
    mark = trip.checkpoints()[0]
    assert (mark.label, trip.restore(mark.id).rebuilt) == ("booked", False)
    assert trip.restore(mark.id).state.vars.document == {"flight": "TP571", "seats": [1, 2]}
    branch = db.session(rows["Cheaper trip"].session)
    assert (branch.info().parent, branch.info().branched_at) == (trip.id, 3)
    assert [message.content for message in branch.turns()[-1].messages] == ["Something cheaper?", "The night train"]
    notes = db.session(rows["Notes"].session)
    assert notes.verify().redacted == 1
    assert [message.content for message in notes.turns()[0].messages if message.content][-1] == "noted"
    long = db.session(rows["Long"].session)
    assert long.verify().pruned_to > 30
    assert [message.content for message in long.turns(last=1)[0].messages] == ["question 59", "answer 59"]
    assert rows["Done"].phase == "completed"
    assert sorted(row.title for row in db.find(tags=["travel"], metadata={"city": "Lisbon"}).items) == [
        "Cheaper trip",
        "Lisbon trip",
    ]
    assert [row.title for row in db.find(owner="ben").items] == ["Done", "Notes"]
    assert db.verify().ok


def check_more(db: Perdure) -> None:
    """What needs a store that can be written: an index, a blob, going on."""
    assert [row.title for row in db.find(text="Avenida").items] == ["Lisbon trip"]
    pictured = db.find(title="Picture").items
    if pictured:
        spoken = next(event for event in db.session(pictured[0].session).events() if event.kind == "message")
        assert db.blobs.get(spoken.data.content) == b"picture " * 4096
    trip = db.session(db.find(title="Lisbon trip").items[0].session)
    with trip.turn("And back?") as turn:
        turn.answer("TP572")
    resumed = trip.resume(trip.checkpoints()[0].id)
    assert resumed.vars() == trip.vars()
    assert db.verify().ok


def test_there_is_a_fixture_of_every_format() -> None:
    assert sorted({number(name) for name in NAMES}) == list(range(1, FORMAT + 1)), "run tests/fixtures/make.py"


def test_a_store_of_any_format_opens_with_everything_in_it(name: str, store: Path) -> None:
    with opened(name, store) as db:
        check(db)
        check_more(db)
        assert db.inspect()["format"] == FORMAT


def test_an_older_store_is_not_opened_read_only_before_it_was_upgraded(name: str, store: Path) -> None:
    before = store.read_bytes()
    if number(name) < FORMAT:
        with pytest.raises(errors.ReadOnly, match="perdure upgrade --store"):
            opened(name, store, read_only=True)
        assert store.read_bytes() == before
    done = upgrade(store)
    assert (done.found, done.format, done.verified) == (number(name), FORMAT, "full")
    with opened(name, store, read_only=True) as db:
        check(db)


def test_upgrading_backs_up_first_and_the_backup_is_of_the_old_format(name: str, store: Path, tmp_path: Path) -> None:
    before = engine_of(str(store)).facts()
    done = upgrade(store)
    if number(name) == FORMAT:
        assert done.backup is None
        return
    assert done.backup == f"{store}.format-{number(name)}.backup"
    restored = drive(Restores(copying("0")).restore(done.backup, str(tmp_path / "back.db")))
    assert restored.manifest.store_format == number(name)
    assert restored.manifest.verified == "full"
    assert engine_of(str(tmp_path / "back.db")).facts() == before
    with opened(name, tmp_path / "back.db") as db:
        check(db)


def test_the_backup_may_be_skipped_or_lie_elsewhere(tmp_path: Path) -> None:
    first = unpacked("format-1", tmp_path)
    assert upgrade(first, skip_backup=True).backup is None
    (tmp_path / "two").mkdir()
    second = unpacked("format-1", tmp_path / "two")
    (tmp_path / "taken").write_bytes(b"precious")
    with pytest.raises(errors.AlreadyExists):
        upgrade(second, backup=str(tmp_path / "taken"))
    assert engine_of(str(second)).facts().format == 1
    assert upgrade(second, backup=str(tmp_path / "mine")).backup == str(tmp_path / "mine")


def test_a_portable_backup_of_an_older_format_is_restored_to_todays(name: str, store: Path, tmp_path: Path) -> None:
    wiring = copying("0")
    drive(Backups(wiring).back_up(str(store), str(tmp_path / "old.perdure"), portable=True))
    target = tmp_path / "new.db"
    for suffix in (".keys", ".master"):
        if Path(f"{store}{suffix}").exists():
            shutil.copy(f"{store}{suffix}", f"{target}{suffix}")
    assert drive(Restores(wiring).restore(str(tmp_path / "old.perdure"), str(target))).verified == "full"
    with opened(name, target) as db:
        check(db)
        check_more(db)


def test_a_newer_store_is_refused_politely_with_nothing_changed(tmp_path: Path) -> None:
    store = unpacked("format-1", tmp_path)
    connection = apsw.Connection(str(store))
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = f"has format {FORMAT + 1}, this perdure reads up to {FORMAT}; upgrade perdure"
    wiring = copying("0")
    for refused in (
        lambda: perdure.open(store),
        lambda: perdure.open(store, read_only=True),
        lambda: upgrade(store),
        lambda: drive(Backups(wiring).back_up(str(store), str(tmp_path / "backup.db"))),
    ):
        with pytest.raises(errors.NewerStore, match=said):
            refused()
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".db-shm"}
    assert {name: content for name, content in after.items() if content} == before
