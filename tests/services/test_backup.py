"""Backups: of one moment, proven, whole or not there; and coming back from them (R9)."""

import json
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

import perdure
from perdure import Perdure, Session, errors, events
from perdure.compose import copying, engine_of
from perdure.ports.backup import Progress
from perdure.services import chunks
from perdure.services import manifests as files
from perdure.services.backup import BackedUp, Backups
from perdure.services.restore import Restored, Restores
from perdure.stores.sqlite.backup import SqliteEngine
from perdure.waiting import drive

MARKER = "SECRET-5d0a44"
VERSION = "9.8.7"


def back_up(source: Path, target: Path, **options: Any) -> BackedUp:
    return drive(Backups(copying(VERSION)).back_up(str(source), str(target), **options))


def restore(backup: Path, target: Path, **options: Any) -> Restored:
    return drive(Restores(copying(VERSION)).restore(str(backup), str(target), **options))


def opened(path: Path, **options: Any) -> Perdure:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a key was made
        return perdure.open(path, **options)


@pytest.fixture(params=["clear", "sealed"])
def sealed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "sealed")


@pytest.fixture
def store(tmp_path: Path, sealed: bool) -> Path:
    """A store with a life behind it."""
    path = tmp_path / "store.db"
    with opened(path, seal=sealed) as db:
        fill(db)
    return path


def fill(db: Perdure) -> None:
    session = db.create("first", tags=["travel"], metadata={"n": 1}, config={"max_cost": 1000}, key="made")
    session.reserve("call", 300)
    for number in range(8):
        with session.turn(f"question {number} {MARKER}") as turn:
            turn.answer("answer")
    session.checkpoint("half way")
    branch = session.branch(at=10, title="aside")
    branch.append(events.Message(role="user", content="another way"))
    spoken = next(event.version for event in session.events() if event.kind == "message")
    session.redact(spoken)
    db.create("second").complete()
    db.create("erased").erase()
    with_blob = db.create("with content")
    with_blob.append(events.Message(role="user", content=db.blobs.put(b"picture" * 1000)))


def keys_beside(store: Path, target: Path) -> None:
    for suffix in (".master", ".keys"):
        if Path(f"{store}{suffix}").exists():
            shutil.copy(f"{store}{suffix}", f"{target}{suffix}")


def digests(db: Perdure) -> dict[str, list[bytes]]:
    return {row.session: [event.digest for event in db.session(row.session).events()] for row in db.find().items}


def same(one: Path, other: Path) -> None:
    """Two stores hold the same, as far as anyone can see."""
    with perdure.open(one, read_only=True) as here, perdure.open(other) as there:
        assert digests(there) == digests(here)
        assert there.find().items == here.find().items
        assert there.verify().ok
        assert [row.title for row in there.find(text=MARKER).items] == ["first"]
        assert [row.title for row in there.find(tags=["travel"], metadata={"n": 1}).items] == ["aside", "first"]
        first = there.find(title="first").items[0]
        session, original = there.session(first.session), here.session(first.session)
        assert session.account() == original.account()
        assert session.checkpoints() == original.checkpoints()
        assert [session.restore(item.id).rebuilt for item in session.checkpoints()] == [False]
        assert there.position() >= here.position()
        again = there.create("first", tags=["travel"], metadata={"n": 1}, config={"max_cost": 1000}, key="made")
        assert again.id == first.session


# ── making one ────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_is_a_store_that_holds_the_same(store: Path, tmp_path: Path, sealed: bool) -> None:
    target = tmp_path / "backup.db"
    made = back_up(store, target)
    assert made.manifest.verified == "full"
    keys_beside(store, target)
    same(store, target)


def test_the_manifest_tells_what_is_in_it_and_no_key(store: Path, tmp_path: Path, sealed: bool) -> None:
    target = tmp_path / "backup.db"
    made = back_up(store, target)
    said = json.loads(Path(f"{target}.manifest.json").read_bytes())
    facts = engine_of(str(store)).facts()
    sha, size = files.digest_of(str(target))
    assert (said["version"], said["engine"], said["kind"]) == (VERSION, "sqlite", "file")
    assert (said["store_format"], said["position"]) == (facts.format, facts.position)
    assert (said["sessions"], said["records"], said["cold"]) == (facts.sessions, facts.records, 0)
    assert (said["sha256"], said["bytes"]) == (sha, size)
    assert said["sealed"] is sealed
    assert len(said["keys"]) == int(sealed)
    assert files.read(f"{target}.manifest.json") == made.manifest
    if sealed:
        key = json.loads(Path(f"{store}.master").read_bytes())
        secrets = [value for value in _texts(key) if len(value) > 40]
        assert secrets
        content = target.read_bytes() + Path(f"{target}.manifest.json").read_bytes()
        assert not any(secret.encode() in content for secret in secrets)
        assert any("perdure keys backup" in remark for remark in made.remarks)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value


def test_nothing_readable_is_in_a_backup_of_a_sealed_store(tmp_path: Path) -> None:
    with opened(tmp_path / "store.db", seal=True) as db:
        fill(db)
    for name, portable in (("file", False), ("stream", True)):
        back_up(tmp_path / "store.db", tmp_path / name, portable=portable)
        content = (tmp_path / name).read_bytes()
        assert MARKER.encode() not in content
        assert b"travel" not in content
        if portable:
            unframer = chunks.Unframer()
            plain = [chunks.loosened(frame.body) for frame in unframer.feed(content) if frame.letter == b"C"]
            assert not any(MARKER.encode() in chunk or b"travel" in chunk for chunk in plain)


def test_a_session_erased_today_is_unreadable_in_yesterdays_backup(tmp_path: Path) -> None:
    store, target = tmp_path / "store.db", tmp_path / "backup.db"
    with opened(store, seal=True) as db:
        session = db.create("secret")
        session.append(events.Message(role="user", content=MARKER))
        back_up(store, target)
        session.erase()
    keys_beside(store, target)
    with perdure.open(target) as yesterday, pytest.raises(errors.Shredded):
        yesterday.session(session.id).events()


def test_a_backup_leaves_nothing_else_behind(store: Path, tmp_path: Path) -> None:
    before = set(os.listdir(tmp_path))
    back_up(store, tmp_path / "backup.db")
    assert set(os.listdir(tmp_path)) - before <= {
        "backup.db",
        "backup.db.manifest.json",
        "store.db-shm",
        "store.db-wal",
    }


def test_a_backup_replaces_another_only_if_told(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_bytes(b"precious")
    with pytest.raises(errors.AlreadyExists):
        back_up(store, target)
    assert target.read_bytes() == b"precious"
    back_up(store, target, overwrite=True)
    assert restore(target, tmp_path / "there.db", dry_run=True).done is False


def test_the_store_itself_is_no_place_for_its_backup(store: Path) -> None:
    with pytest.raises(errors.Invalid):
        back_up(store, store, overwrite=True)


def test_what_is_no_store_is_not_backed_up(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear me")
    with apsw.Connection(str(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    for name in ("letter.txt", "other.db", "nothing.db"):
        with pytest.raises(errors.NotAStore):
            back_up(tmp_path / name, tmp_path / "backup.db")
    with pytest.raises(errors.Refused):
        drive(Backups(copying(VERSION)).back_up(":memory:", str(tmp_path / "backup.db")))
    with pytest.raises(errors.NotFound):
        back_up(tmp_path / "other.db", tmp_path / "no folder" / "backup.db")
    assert not (tmp_path / "backup.db").exists()


def test_an_interrupted_backup_is_begun_anew(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "backup.db"
    whole = SqliteEngine.copy

    def cut(self: SqliteEngine, path: str, progress: Progress | None = None) -> Any:
        whole(self, path, progress)
        os.truncate(path, os.path.getsize(path) // 2)
        raise errors.DiskFull("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteEngine, "copy", cut)
        with pytest.raises(errors.DiskFull):
            back_up(store, target)
    assert not target.exists()
    assert not Path(f"{target}.partial").exists()
    with pytest.raises(errors.NotAStore):
        restore(target, tmp_path / "there.db")
    assert back_up(store, target).manifest.verified == "full"
    assert not Path(f"{target}.partial").exists()


def test_two_at_once_do_not_meet(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SqliteEngine.copy
    refusals: list[errors.PerdureError] = []

    def meanwhile(self: SqliteEngine, path: str, progress: Progress | None = None) -> Any:
        monkeypatch.setattr(SqliteEngine, "copy", whole)
        with pytest.raises(errors.StoreBusy) as refusal:
            back_up(store, tmp_path / "backup.db")
        refusals.append(refusal.value)
        return whole(self, path, progress)

    monkeypatch.setattr(SqliteEngine, "copy", meanwhile)
    back_up(store, tmp_path / "backup.db")
    assert len(refusals) == 1
    assert restore(tmp_path / "backup.db", tmp_path / "there.db", dry_run=True)


def test_a_damaged_store_is_not_called_verified(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with opened(store, seal=False) as db:
        db.create("first").append(events.Message(role="user", content="needle in plain letters"))
    content = store.read_bytes()
    assert content.count(b"needle") == 1
    store.write_bytes(content.replace(b"needle", b"noodle"))
    with pytest.raises(errors.Damaged, match=f"1 problem in {store}: .* See perdure sessions verify --store {store};"):
        back_up(store, tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()
    assert back_up(store, tmp_path / "backup.db", verify="quick").manifest.verified == "quick"
    for dry_run in (True, False):
        with pytest.raises(errors.Damaged, match=f"in the backup {tmp_path / 'backup.db'}: ") as refusal:
            restore(tmp_path / "backup.db", tmp_path / "there.db", dry_run=dry_run)
        assert "there.db" not in refusal.value.message
    assert not (tmp_path / "there.db").exists()
    with pytest.raises(errors.Damaged, match="1 problem in"):
        back_up(store, tmp_path / "stream", portable=True)
    assert back_up(store, tmp_path / "stream", portable=True, verify="quick").manifest.verified == "quick"
    for dry_run in (True, False):
        with pytest.raises(errors.Damaged, match="1 problem in"):
            restore(tmp_path / "stream", tmp_path / "there.db", dry_run=dry_run)
    assert restore(tmp_path / "backup.db", tmp_path / "there.db", verify="none").verified == "none"


def test_a_way_to_verify_that_is_none_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.Invalid):
        back_up(store, tmp_path / "backup.db", verify="twice")


def test_progress_is_told_by_stages(store: Path, tmp_path: Path) -> None:
    told: dict[str, list[tuple[int, int]]] = {}

    def stages(label: str) -> Callable[[int, int], None]:
        seen = told[label] = []
        return lambda done, total: seen.append((done, total))

    back_up(store, tmp_path / "backup.db", stages=stages)
    assert list(told) == ["copying", "verifying", "hashing"]
    for seen in told.values():
        assert seen == sorted(seen)
        assert seen[-1][0] == seen[-1][1] > 0


# ── under load ────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_under_writers_holds_a_prefix_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    """Four threads write; each backup has at least what was acknowledged before it began, and each log in it is the
    beginning of that log.
    """
    store = tmp_path / "store.db"
    stop = threading.Event()
    acknowledged: dict[str, int] = {}
    with opened(store, seal=False) as db:
        sessions = [db.create(f"session {number}") for number in range(4)]

        def write(session: Session) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                said = events.Message(role="user", content=f"{number} " + "x" * 2000)
                acknowledged[session.id] = session.append([said])

        writers = [threading.Thread(target=write, args=(session,)) for session in sessions]
        for writer in writers:
            writer.start()
        made = []
        try:
            while len(acknowledged) < len(sessions):
                stop.wait(0.01)
            for number in range(4):
                before = dict(acknowledged)
                target = tmp_path / f"backup-{number}.db"
                assert back_up(store, target).manifest.verified == "full"
                made.append((target, before, dict(acknowledged)))
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        final = digests(db)
    grew = 0
    for target, before, after in made:
        restore(target, tmp_path / "there.db", overwrite=True)
        with perdure.open(tmp_path / "there.db") as there:
            assert there.verify().ok
            for session, found in digests(there).items():
                assert found == final[session][: len(found)]
                assert len(found) >= before[session]
                grew += after[session] > before[session]
    assert grew, "nobody wrote while a backup was made"


@pytest.mark.filterwarnings("ignore:a new master key was made")
async def test_an_open_store_backs_itself_up(tmp_path: Path, sealed: bool) -> None:
    async with await perdure.aopen(tmp_path / "store.db", seal=sealed) as db:
        session = await db.create("first")
        await session.append(events.Message(role="user", content="hello"))
        made = await db.backup(tmp_path / "backup.db")
        assert made.manifest.verified == "full"
    keys_beside(tmp_path / "store.db", tmp_path / "backup.db")
    async with await perdure.aopen(tmp_path / "backup.db") as copy:
        assert [event.kind for event in await (await copy.session(session.id)).events()][-1] == "message"
        assert (await copy.verify()).ok


# ── coming back ───────────────────────────────────────────────────────────────────────────────────


def test_a_restored_store_holds_the_same(store: Path, tmp_path: Path) -> None:
    backup, target = tmp_path / "backup.db", tmp_path / "there.db"
    back_up(store, backup)
    keys_beside(store, target)
    done = restore(backup, target)
    assert (done.done, done.verified, done.replaced) == (True, "full", None)
    same(store, target)
    assert sorted(name for name in os.listdir(tmp_path) if "there" in name and "partial" in name) == []


def test_a_dry_run_writes_nothing(store: Path, tmp_path: Path) -> None:
    back_up(store, tmp_path / "backup.db")
    before = sorted(os.listdir(tmp_path))
    assert restore(tmp_path / "backup.db", tmp_path / "there.db", dry_run=True).manifest.verified == "full"
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("portable", [False, True])
def test_a_dry_run_proves_everything_and_leaves_nothing(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portable: bool
) -> None:
    (tmp_path / "aside").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "aside"))
    backup, target = tmp_path / "backup.db", tmp_path / "there.db"
    back_up(store, backup, portable=portable, verify="quick")
    keys_beside(store, target)
    before = set(os.listdir(tmp_path))
    done = restore(backup, target, dry_run=True)
    assert (done.verified, done.manifest.verified, done.done) == ("full", "quick", False)
    assert restore(backup, target, dry_run=True, verify="quick").verified == "quick"
    assert restore(backup, target, dry_run=True, verify="none").verified == "none"
    assert set(os.listdir(tmp_path)) - before <= {"there.db.keys-wal", "there.db.keys-shm"}  # the vault was read
    assert os.listdir(tmp_path / "aside") == []


def test_a_dry_run_without_room_says_where_room_is_needed(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(store, tmp_path / "backup.db")

    def full(*_: Any) -> None:
        raise errors.DiskFull("no space left")

    monkeypatch.setattr(files, "taken_over", full)
    with pytest.raises(errors.DiskFull, match="TMPDIR, or verify quick"):
        restore(tmp_path / "backup.db", tmp_path / "there.db", dry_run=True)


def test_a_sealed_store_without_its_keys_is_restored_but_not_proven(tmp_path: Path) -> None:
    with opened(tmp_path / "store.db", seal=True) as db:
        fill(db)
    made = back_up(tmp_path / "store.db", tmp_path / "backup.db")
    done = restore(tmp_path / "backup.db", tmp_path / "there.db")
    assert done.verified == "quick"
    assert any("the keys are not here" in remark for remark in done.remarks)
    assert any(made.manifest.keys[0] in remark for remark in done.remarks)
    with pytest.raises(errors.KeyMissing):
        perdure.open(tmp_path / "there.db")


@pytest.mark.parametrize("portable", [False, True])
def test_a_backup_that_was_changed_is_refused_and_nothing_is_touched(
    store: Path, tmp_path: Path, portable: bool
) -> None:
    backup, target = tmp_path / "backup.db", tmp_path / "there.db"
    back_up(store, backup, portable=portable)
    whole = backup.read_bytes()
    target.write_bytes(b"precious")
    for at in range(0, len(whole), len(whole) // 8):
        backup.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises((errors.Tampered, errors.NewerStore)):
            restore(backup, target, overwrite=True)
        with pytest.raises((errors.Tampered, errors.NewerStore)):
            restore(backup, target, overwrite=True, dry_run=True)
    for content in whole[:-1], whole + b"x", b"":
        backup.write_bytes(content)
        with pytest.raises(errors.Tampered):
            restore(backup, target, overwrite=True)
    assert target.read_bytes() == b"precious"
    assert not Path(f"{target}.partial").exists()


def test_a_backup_without_a_manifest_is_none(store: Path, tmp_path: Path) -> None:
    back_up(store, tmp_path / "backup.db")
    manifest = Path(f"{tmp_path / 'backup.db'}.manifest.json")
    said = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(errors.NotAStore, match="manifest"):
        restore(tmp_path / "backup.db", tmp_path / "there.db")
    for wrong, kind in ((b"{}", errors.Damaged), (b"x", errors.Damaged), (_newer(said), errors.NewerStore)):
        manifest.write_bytes(wrong)
        with pytest.raises(kind):
            restore(tmp_path / "backup.db", tmp_path / "there.db")


def _newer(said: bytes) -> bytes:
    return json.dumps({**json.loads(said), "format": 99}).encode()


def test_a_backup_whose_manifest_was_about_to_get_its_name_counts(store: Path, tmp_path: Path) -> None:
    """A crash between the two renames leaves the new file beside the old manifest."""
    backup = tmp_path / "backup.db"
    back_up(store, backup)
    old = Path(f"{backup}.manifest.json").read_bytes()
    with opened(store) as db:
        db.create("newer")
    back_up(store, backup, overwrite=True)
    os.replace(f"{backup}.manifest.json", f"{backup}.manifest.json.partial")
    Path(f"{backup}.manifest.json").write_bytes(old)
    assert restore(backup, tmp_path / "there.db").manifest.sessions == json.loads(old)["sessions"] + 1


def test_a_manifest_that_was_still_being_written_is_no_part_of_the_backup_in_place(store: Path, tmp_path: Path) -> None:
    """A crash while a backup is to be replaced leaves the old one, and the beginning of the next one's manifest."""
    backup = tmp_path / "backup.db"
    back_up(store, backup)
    said = Path(f"{backup}.manifest.json").read_bytes()
    draft = Path(f"{backup}.manifest.json.partial")
    for begun in (b"", said[: len(said) // 2]):
        draft.write_bytes(begun)
        assert restore(backup, tmp_path / "there.db", dry_run=True).manifest.sessions == json.loads(said)["sessions"]
    Path(f"{backup}.manifest.json").unlink()
    with pytest.raises(errors.Damaged):
        restore(backup, tmp_path / "there.db")


def test_a_store_is_replaced_only_if_told_and_then_set_aside(store: Path, tmp_path: Path) -> None:
    backup, target = tmp_path / "backup.db", tmp_path / "there.db"
    back_up(store, backup)
    with opened(target, seal=False) as db:
        mine = db.create("mine").id
    with pytest.raises(errors.AlreadyExists):
        restore(backup, target)
    for number in (1, 2):
        done = restore(backup, target, overwrite=True)
        assert done.replaced == f"{target}.replaced" + (".2" if number == 2 else "")
    with perdure.open(f"{target}.replaced") as db:
        assert db.session(mine).info().title == "mine"


def test_a_store_in_use_is_not_replaced(store: Path, tmp_path: Path) -> None:
    backup, target = tmp_path / "backup.db", tmp_path / "there.db"
    back_up(store, backup)
    with opened(target, seal=False) as db:
        session = db.create("mine")
        with pytest.raises(errors.StoreBusy):
            restore(backup, target, overwrite=True)
        session.append(events.Message(role="user", content="still here"))
    with perdure.open(target) as db:
        assert [event.kind for event in db.session(session.id).events()][-1] == "message"


def test_a_log_left_beside_never_gets_into_a_restored_store(tmp_path: Path) -> None:
    store, backup, target = (tmp_path / name for name in ("store.db", "backup.db", "there.db"))
    with opened(store, seal=False) as db:
        fill(db)
        back_up(store, backup)
        db.create("written after")
        for suffix in ("", "-wal"):  # as a crash leaves it: the log is not folded in
            shutil.copy(f"{store}{suffix}", f"{target}{suffix}")
    assert os.path.getsize(f"{target}-wal")
    (target).write_bytes(b"SQLite format 3\0" + b"damaged" * 1000)
    done = restore(backup, target, overwrite=True)
    assert done.replaced == f"{target}.replaced"
    with perdure.open(target) as db:
        assert db.verify().ok
        assert "written after" not in [row.title for row in db.find().items]


def test_a_restore_does_not_trust_what_an_earlier_try_left(store: Path, tmp_path: Path) -> None:
    backup, target = tmp_path / "backup.db", tmp_path / "there.db"
    back_up(store, backup)
    content = backup.read_bytes()
    for left in (b"", content[:5000], b"x" * 40_000, content[:20_000] + b"x" * 20_000, content + b"x" * 5000):
        Path(f"{target}.partial").write_bytes(left)
        restore(backup, target)
        assert target.read_bytes() == content
        target.unlink()


# ── erased since ──────────────────────────────────────────────────────────────────────────────────


class Erased(NamedTuple):
    """A backup, the place to restore it to with the keys of today beside it, and who is in it."""

    backup: Path
    target: Path
    gone: str
    branch: str
    further: str
    whole: str


@pytest.fixture(params=["file", "stream"])
def erased(request: pytest.FixtureRequest, tmp_path: Path) -> Erased:
    """A session with branches that was erased after the backup."""
    store, backup, target = tmp_path / "store.db", tmp_path / "backup.db", tmp_path / "there.db"
    with opened(store, seal=True) as db:
        gone = db.create("gone")
        for number in range(5):
            gone.append(events.Message(role="user", content=f"{number}"))
        gone.checkpoint("kept")
        branch = gone.branch(at=4, title="branch")
        branch.append([events.Message(role="user", content="of its own"), events.Message(role="user", content="more")])
        further = branch.branch(title="further")
        further.append(events.Message(role="user", content="further"))
        whole = db.create("whole")
        db.backup(backup, portable=request.param == "stream")
        gone.erase()
        assert branch.verify().ok
    keys_beside(store, target)
    return Erased(backup, target, gone.id, branch.id, further.id, whole.id)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_backup_older_than_an_erasure_is_restored_and_says_what_is_gone(erased: Erased, dry_run: bool) -> None:
    done = restore(erased.backup, erased.target, dry_run=dry_run)
    assert (done.verified, done.done, done.erased) == ("full", not dry_run, (erased.gone,))
    assert set(done.bereft) == {erased.branch, erased.further}
    said = next(remark for remark in done.remarks if "erased" in remark)
    assert f"sessions unreadable because they were erased after this backup: {erased.gone};" in said
    assert "branches unreadable up to where they left a session that was erased after this backup: " in said
    assert erased.branch in said
    assert erased.whole not in said


def test_damage_is_refused_beside_what_was_erased(erased: Erased) -> None:
    """A branch keeps its own key: what it wrote itself is proven, and found when it was changed."""
    restore(erased.backup, erased.target)
    last = "SELECT max(position) FROM record AS r JOIN session AS s ON s.no = r.session WHERE s.session_id = ?"
    with closing(apsw.Connection(str(erased.target))) as connection:
        connection.execute(
            f"DELETE FROM record WHERE position = ({last})",
            (bytes.fromhex(erased.branch.replace("-", "")),),
        )
    with pytest.raises(errors.Damaged, match=erased.branch) as refusal:
        back_up(erased.target, erased.target.with_name("again.db"))
    assert erased.gone not in refusal.value.message


def test_a_store_with_erased_sessions_is_backed_up_and_the_manifest_counts_them(erased: Erased) -> None:
    restore(erased.backup, erased.target)
    made = back_up(erased.target, erased.target.with_name("again.db"))
    assert (made.manifest.verified, made.manifest.unreadable) == ("full", 3)
    assert any(erased.gone in remark and "erased" in remark for remark in made.remarks)


def test_verifying_tells_an_erased_session_from_a_damaged_one(erased: Erased) -> None:
    restore(erased.backup, erased.target)
    with perdure.open(erased.target) as db:
        for session, said in ((erased.gone, "was erased"), (erased.branch, f"shared with session {erased.gone}")):
            (problem,) = db.session(session).verify().problems
            assert (problem.place, said in problem.what) == ("key", True)
        assert db.session(erased.whole).verify().ok
        own = db.session(erased.branch).events(after=4)
        assert [event.data.content for event in own if event.kind == "message"] == ["of its own", "more"]


def test_an_erased_parent_goes_after_its_branches(erased: Erased) -> None:
    restore(erased.backup, erased.target)
    with perdure.open(erased.target) as db:
        with pytest.raises(errors.Shredded, match="cannot be erased before its branches: its key is gone") as refusal:
            db.session(erased.gone).erase()
        assert set(refusal.value.fields["branches"]) == {erased.branch, erased.further}
        for session in (erased.branch, erased.further, erased.gone):
            db.session(session).erase()
        assert [row.session for row in db.find().items] == [erased.whole]
        assert db.verify().ok


def test_an_archived_session_that_was_erased_is_not_called_damaged(tmp_path: Path) -> None:
    store, backup, target, cold = (tmp_path / name for name in ("store.db", "backup.db", "there.db", "cold"))
    with opened(store, seal=True, cold=cold) as db:
        session = db.create("old")
        branch = session.branch(title="branch")
        branch.append(events.Message(role="user", content="own"))
        session.complete()
        session.archive()
        db.backup(backup)
        session.erase()
    keys_beside(store, target)
    done = drive(Restores(copying(VERSION, cold=cold)).restore(str(backup), str(target)))
    assert (done.verified, done.erased, done.bereft) == ("full", (session.id,), (branch.id,))


# ── from a program ────────────────────────────────────────────────────────────────────────────────


def test_a_program_restores_with_keys_from_elsewhere(tmp_path: Path) -> None:
    keys = {"key": tmp_path / "master", "vault": tmp_path / "vault"}
    with opened(tmp_path / "store.db", **keys) as db:
        session = db.create("first")
        db.backup(tmp_path / "backup.db")
    told: list[int] = []
    tried = perdure.restore(tmp_path / "backup.db", tmp_path / "there.db", dry_run=True, **keys)
    assert (tried.done, tried.verified) == (False, "full")
    done = perdure.restore(
        tmp_path / "backup.db", tmp_path / "there.db", progress=lambda now, _: told.append(now), **keys
    )
    assert (done.done, done.verified, bool(told)) == (True, "full", True)
    with perdure.open(tmp_path / "there.db", **keys) as db:
        assert db.session(session.id).info().title == "first"
    with pytest.raises(errors.AlreadyExists):
        perdure.restore(tmp_path / "backup.db", tmp_path / "there.db", **keys)
    assert perdure.restore(tmp_path / "backup.db", tmp_path / "there.db", overwrite=True, **keys).replaced
    with pytest.raises(errors.Invalid):
        perdure.restore(tmp_path / "backup.db", tmp_path / "there.db", verify="twice")


async def test_async_code_restores_too(tmp_path: Path) -> None:
    async with await perdure.aopen(tmp_path / "store.db", seal=False) as db:
        await db.create("first")
        await db.backup(tmp_path / "backup.db")
    for options in ({"dry_run": True}, {}):
        assert (await perdure.arestore(tmp_path / "backup.db", tmp_path / "there.db", **options)).verified == "full"
    async with await perdure.aopen(tmp_path / "there.db") as db:
        assert (await db.verify()).sessions == 1


# ── the portable form ─────────────────────────────────────────────────────────────────────────────


def test_the_portable_form_brings_everything_back(store: Path, tmp_path: Path, sealed: bool) -> None:
    stream, target = tmp_path / "store.perdure", tmp_path / "there.db"
    made = back_up(store, stream, portable=True)
    assert (made.manifest.kind, made.manifest.verified, made.manifest.sealed) == ("portable", "full", sealed)
    keys_beside(store, target)
    assert restore(stream, target).verified == "full"
    same(store, target)
    with perdure.open(target) as db:
        with_blob = db.find(title="with content").items[0]
        spoken = next(event for event in db.session(with_blob.session).events() if event.kind == "message")
        assert db.blobs.get(spoken.data.content) == b"picture" * 1000


def test_a_stream_of_another_engine_or_of_the_future_is_refused(store: Path, tmp_path: Path) -> None:
    engine = SqliteEngine(str(tmp_path / "there.db"))
    with SqliteEngine(str(store)).dump() as dump:
        future = {**{name: getattr(dump.facts, name) for name in dump.facts.__struct_fields__}, "format": 99}
        with pytest.raises(errors.NewerStore):
            engine.load(type(dump.facts)(**future), dump.tables, dump.rows())
        with pytest.raises(errors.Damaged):
            engine.load(dump.facts, {**dump.tables, "mystery": ("x",)}, dump.rows())
        with pytest.raises(errors.Damaged):
            engine.load(dump.facts, {**dump.tables, "session": ("session_id", "mystery")}, dump.rows())
        assert not (tmp_path / "there.db").exists()
        engine.load(dump.facts, dump.tables, dump.rows())
    with pytest.raises(errors.AlreadyExists), SqliteEngine(str(store)).dump() as dump:
        engine.load(dump.facts, dump.tables, dump.rows())


# ── archived sessions ─────────────────────────────────────────────────────────────────────────────


def test_archived_sessions_are_counted_and_proven_only_with_their_cold_storage(tmp_path: Path) -> None:
    store, cold = tmp_path / "store.db", tmp_path / "cold"
    with opened(store, seal=False, cold=cold) as db:
        session = db.create("old")
        session.complete()
        session.archive()
        db.create("new")
        made = db.backup(tmp_path / "one.db")
    assert (made.manifest.cold, made.manifest.verified) == (1, "full")
    assert any("lie in cold storage" in remark for remark in made.remarks)
    assert not any("not proven" in remark for remark in made.remarks)
    assert any(
        "1 archived sessions were not proven" in remark for remark in back_up(store, tmp_path / "two.db").remarks
    )
    bundle = next(cold.rglob("*.bundle"))
    bundle.write_bytes(bundle.read_bytes()[:-1])
    with pytest.raises(errors.Damaged), perdure.open(store, cold=cold) as db:
        db.backup(tmp_path / "three.db")
