"""Files that are not a store, no longer one, or not yet one: typed refusals that change nothing, never a guess."""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors


@pytest.fixture
def store(tmp_path: Path, turn: Any) -> Path:
    """A store with one session of twenty turns, all of it in the one file."""
    path = tmp_path / "store.db"
    with perdure.open(path) as db:
        session = db.create("kept")
        for number in range(20):
            session.append(turn(f"t{number}", "word " * 200))
    settle = sqlite3.connect(path)
    settle.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    settle.close()
    return path


def used(path: Path) -> int:
    """Open, read everything, append: the number of turns."""
    with perdure.open(path) as db:
        session = db.session(db.find().items[0].session)
        assert session.verify().ok
        session.append(perdure.events.Feedback())
        return len(session.turns())


@pytest.mark.parametrize(
    "content",
    [b"hello", os.urandom(64), os.urandom(50_000), b"SQLite format 3\0" + os.urandom(9_000), b"\0" * 20_000],
    ids=["text", "a few bytes", "many bytes", "the right beginning", "zeros"],
)
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "holiday.jpg"
    path.write_bytes(content)
    for read_only in (False, True):
        with pytest.raises((errors.NotAStore, errors.Damaged)):
            perdure.open(path, read_only=read_only)
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["holiday.jpg"]


def test_the_database_of_another_application_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE session (id INTEGER, title TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(errors.NotAStore, match="not a perdure store"):
            perdure.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_format_is_refused_and_left_alone(store: Path) -> None:
    newer = sqlite3.connect(store)
    newer.execute("PRAGMA user_version = 4242")
    newer.close()
    before = store.read_bytes()
    for read_only in (False, True):
        with pytest.raises(errors.NewerStore) as refusal:
            perdure.open(store, read_only=read_only)
        assert refusal.value.fields["found"] == 4242
    assert store.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with perdure.open(path) as db:
        db.create()
    with perdure.open(path) as db:
        assert db.count() == 1


def test_an_empty_file_is_no_store_for_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with pytest.raises(errors.NotAStore):
        perdure.open(path, read_only=True)
    assert path.read_bytes() == b""


def test_a_directory_is_refused(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises((errors.NotAStore, errors.ReadOnly)):
            perdure.open(tmp_path, read_only=read_only)


def test_a_path_in_no_folder_is_refused(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(errors.NotAStore, match="does not exist"):
            perdure.open(tmp_path / "nowhere" / "store.db", read_only=read_only)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0.95, 0.7, 0.3, 0.05, 0.001])
def test_a_store_cut_short_is_called_damaged(store: Path, share: float) -> None:
    os.truncate(store, int(store.stat().st_size * share))
    with pytest.raises((errors.Damaged, errors.Tampered, errors.NotAStore)):
        used(store)


def test_a_store_overwritten_under_an_open_handle_is_called_damaged(store: Path, turn: Any) -> None:
    with perdure.open(store) as db:
        session = db.session(db.find().items[0].session)
        with store.open("r+b") as file:
            file.write(os.urandom(store.stat().st_size))
        for _ in range(3):
            with pytest.raises((errors.Damaged, errors.Tampered, errors.NotAStore)):
                [session.append(turn("more")), session.verify(), db.find()]


def test_every_block_of_garbage_is_noticed_or_harmless(store: Path, tmp_path: Path) -> None:
    """R17 at the level of the file: the right answer or an error, never a wrong answer."""
    with perdure.open(store) as db:
        session = db.find().items[0].session
        truth = [event.digest for event in db.session(session).events()]
    content = store.read_bytes()
    noticed = 0
    for place in range(0, len(content), 8192):
        spoiled = tmp_path / "spoiled.db"
        spoiled.write_bytes(content[: place + 4000] + os.urandom(64) + content[place + 4064 :])
        try:
            with perdure.open(spoiled, key=f"{store}.master", vault=f"{store}.keys") as db:
                if db.session(session).verify().ok:
                    assert [event.digest for event in db.session(session).events()] == truth
                else:
                    noticed += 1
        except errors.PerdureError:
            noticed += 1
        for file in tmp_path.glob("spoiled.db*"):
            file.unlink()
    assert noticed > 0, "no block mattered, so nothing was tested"


def test_a_store_can_be_copied_when_it_is_closed(store: Path, tmp_path: Path, turn: Any) -> None:
    """`one file` means one file: after close there is nothing beside it but what opens it."""
    with perdure.open(store) as db:
        session = db.session(db.find().items[0].session)
        session.append(turn("last"))
        session.events()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.db", "store.db.keys", "store.db.master"]
    shutil.copy(store, tmp_path / "copy.db")
    with perdure.open(tmp_path / "copy.db", key=f"{store}.master", vault=f"{store}.keys") as db:
        assert len(db.session(session.id).turns()) == 21
