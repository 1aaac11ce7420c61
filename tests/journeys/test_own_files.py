"""What perdure writes to never costs what it lives on: its store, its keys, its vault, its bundles."""

import os
from pathlib import Path

import pytest

import perdure
from perdure import events
from perdure.core.errors import ColdUnreachable, DiskFull, Invalid


@pytest.fixture
def db(tmp_path: Path) -> perdure.Perdure:
    return perdure.open(tmp_path / "a.db", cold=tmp_path / "cold")


def archived(db: perdure.Perdure) -> perdure.Session:
    session = db.create("old")
    session.append(events.Message(role="user", content="secret"))
    session.complete()
    session.archive()
    return session


@pytest.mark.filterwarnings("ignore:a new master key")
def test_nothing_is_destroyed_while_its_bundle_cannot_be_reached(db: perdure.Perdure, tmp_path: Path) -> None:
    gone, thawed = archived(db), archived(db)
    thawed.thaw()
    os.rename(tmp_path / "cold", tmp_path / "away")
    with pytest.raises(ColdUnreachable):
        gone.erase()
    with pytest.raises(ColdUnreachable):
        thawed.redact([event.version for event in thawed.events() if event.kind == "message"])
    os.rename(tmp_path / "away", tmp_path / "cold")
    assert [event.data.content for event in gone.events() if isinstance(event.data, events.Message)] == ["secret"]
    gone.erase()
    assert not list((tmp_path / "cold").rglob(f"*{gone.id}*"))
    db.close()


@pytest.mark.filterwarnings("ignore:a new master key")
@pytest.mark.parametrize("own", ["a.db", "a.db-wal", "a.db-shm", "a.db.master", "a.db.keys", "link/a.db", "cold"])
def test_a_copy_never_goes_over_what_the_store_lives_on(db: perdure.Perdure, tmp_path: Path, own: str) -> None:
    session = db.create("mine")
    archived(db)
    ref = session.attach(b"content")
    (tmp_path / "link").symlink_to(tmp_path)
    target = tmp_path / own
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for write in (
        lambda: db.backup(target, overwrite=True),
        lambda: session.export(target),
        lambda: db.blobs.save(ref, target),
    ):
        with pytest.raises(Invalid):
            write()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    db.close()
    with perdure.open(tmp_path / "a.db") as again:
        assert again.session(session.id).info().title == "mine"


@pytest.mark.skipif(os.name != "posix", reason="a pipe has a name only there")
def test_only_a_file_is_written_over(db: perdure.Perdure, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    session = db.create("mine")
    for write in (lambda: db.backup(tmp_path / "pipe", overwrite=True), lambda: session.export(tmp_path / "pipe")):
        with pytest.raises(Invalid, match="not a file"):
            write()
    db.close()


def test_a_backup_that_does_not_succeed_leaves_nothing(
    db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure.services import manifests

    db.create("mine")

    def full(*_: object) -> None:
        raise DiskFull("no space left; free some")

    monkeypatch.setattr(manifests, "digest_of", full)
    with pytest.raises(DiskFull):
        db.backup(tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))
    db.close()
