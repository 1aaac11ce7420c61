"""Sessions in cold storage: read as if they were not, changed only after they are back, gone when they are erased."""

import os
import shutil
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Perdure, Session, errors, events
from perdure.cold.folder import FolderCold
from perdure.core.session.ids import SessionId
from perdure.edge.library import AsyncPerdure
from perdure.ports.cold import Kept
from perdure.ports.store import Query
from perdure.services.bundles import name_of
from perdure.services.cooling import CoolingStore
from perdure.waiting import drive

MARKER = "SECRET-b7c1e0"


@pytest.fixture(params=["clear", "sealed", "volatile"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cold"


@pytest.fixture
def db(kind: str, tmp_path: Path, place: Path) -> Iterator[Perdure]:
    path = ":memory:" if kind == "volatile" else str(tmp_path / "store.db")
    seal = None if kind == "volatile" else kind == "sealed"
    if seal:
        (tmp_path / "store.db.master").unlink(missing_ok=True)
    with pytest.warns(UserWarning, match="master key") if seal else _nothing():
        opened = perdure.open(path, cold=place, seal=seal)
    with opened:
        yield opened


class _nothing:  # noqa: N801 - used like a function
    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


def store_of(db: Perdure) -> CoolingStore:
    found: CoolingStore = db._behind._services.store
    return found


def bundles(place: Path) -> list[Path]:
    return sorted(place.rglob("*.bundle"))


def conversation(db: Perdure, turns: int = 12, **fields: Any) -> Session:
    """A session with turns, vars, checkpoints of both kinds and a redacted message."""
    session = db.create("A journey", tags=["travel"], vars={"n": 0}, **fields)
    for number in range(turns):
        with session.turn(f"question {number} {MARKER}") as turn:
            call = turn.ask("look", {"n": number})
            turn.start(call, key=f"k{number}")
            turn.finish(call, {"found": [number] * 5})
            turn.answer(f"answer {number}")
        session.patch_vars(n=number)
        if number in (3, 6):
            session.checkpoint(f"at {number}", {"number": number})
    spoken = [event.version for event in session.events() if event.kind == "message"]
    session.redact(spoken[-1])
    return session


def ended(db: Perdure, turns: int = 12, **fields: Any) -> Session:
    session = conversation(db, turns, **fields)
    session.complete()
    return session


def everything(session: Session) -> dict[str, Any]:
    """All that can be read of a session."""
    return {
        "events": [(event.version, event.kind, event.digest, event.data) for event in session.events()],
        "turns": session.turns(),
        "last": session.turns(last=2),
        "tail": session.tail("nobody"),
        "state": session.state(),
        "past": session.state(at=session.version() // 2),
        "vars": session.vars(),
        "checkpoints": session.checkpoints(),
        "restored": [session.restore(item.id) for item in session.checkpoints()],
        "export": session.export(),
    }


def test_an_archived_session_reads_as_before(db: Perdure, place: Path) -> None:
    session = ended(db)
    session.move("archive")
    db.restore_archived(session.id)
    before = everything(session)
    assert session.info().cold is None
    session.archive()
    assert session.info().cold == bundles(place)[0].relative_to(place).as_posix()
    assert everything(session) == before
    assert session.verify().ok
    assert everything(fresh(db, session)) == before


def fresh(db: Perdure, session: Session) -> Session:
    """The same session, with nothing of it in memory."""
    db._behind._services.sessions.loader.forget()
    store_of(db)._bundles.clear()
    return db.session(session.id)


def test_the_store_keeps_the_row_alone(db: Perdure) -> None:
    session = ended(db)
    assert [row.session for row in db.find(text=MARKER).items] == [session.id]
    session.archive()
    inner = store_of(db).inner
    run = drive(inner.run(SessionId(session.id), after=0, upto=1 << 40, limit=1000))
    assert run.records == ()
    assert drive(inner.checkpoints(SessionId(session.id))) == ()
    assert [row.session for row in db.find(tags=["travel"], phase="archived").items] == [session.id]
    assert db.find(text=MARKER).items == ()


def test_a_thawed_session_is_as_it_was(db: Perdure, place: Path) -> None:
    session = ended(db)
    session.archive()
    before = everything(session)
    assert db.restore_archived(session.id) is True
    assert session.info().cold is None
    shutil.rmtree(place)
    assert everything(fresh(db, session)) == before
    assert session.verify().ok
    assert session.thaw() is False
    assert [row.session for row in db.find(text=MARKER).items] == [session.id]


def test_archiving_again_finishes_and_changes_nothing(db: Perdure, place: Path) -> None:
    session = ended(db)
    first = db.archive(session.id)
    assert first.cold is not None
    assert (first.version, first.bytes) == (session.version(), os.path.getsize(place / first.cold))
    assert db.archive(session.id) == first
    session.thaw()
    assert db.archive(session.id) == first
    assert len(bundles(place)) == 1


def test_only_what_has_ended_is_archived(db: Perdure, place: Path) -> None:
    session = conversation(db)
    with pytest.raises(errors.MoveRefused):
        session.archive()
    assert not place.exists()


def test_any_move_to_archived_goes_to_cold_storage(db: Perdure) -> None:
    session = ended(db)
    session.move("archive")
    assert session.info().cold is not None
    assert session.verify().ok


def test_without_cold_storage_the_log_stays(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "plain.db", seal=False) as db:
        session = ended(db)
        assert db.archive(session.id).cold is None
        assert (session.info().phase, session.info().cold) == ("archived", None)
        assert session.verify().ok
        assert session.thaw() is False


# ── branches ──────────────────────────────────────────────────────────────────────────────────────


def test_branches_read_on_through_the_bundle(db: Perdure) -> None:
    session = conversation(db)
    branch = session.branch(at=20, title="aside")
    with branch.turn("another way") as turn:
        turn.answer("yes")
    twig = branch.branch(at=15)
    session.complete()
    before = [everything(branch), everything(twig)]
    session.archive()
    fresh(db, session)
    assert [everything(branch), everything(twig)] == before
    assert branch.verify().ok
    assert twig.verify().ok
    with branch.turn("and on") as turn:
        turn.answer("yes")
    assert len(branch.turns()) == len(before[0]["turns"]) + 1


def test_an_archived_session_can_be_branched(db: Perdure) -> None:
    session = ended(db)
    session.archive()
    mark = session.checkpoints()[0]
    branch, resumed = fresh(db, session).branch(at=9), fresh(db, session).resume(mark.id)
    assert [event.version for event in branch.events(upto=9)] == list(range(1, 10))
    assert resumed.vars() == session.state(at=mark.version).vars.document
    assert branch.verify().ok
    assert resumed.verify().ok


def test_an_archived_branch_stands_alone_and_still_belongs_to_its_parent(db: Perdure) -> None:
    parent = conversation(db)
    branch = parent.branch(at=20)
    branch.complete()
    branch.archive()
    before = everything(branch)
    assert parent.erase() == 1
    assert everything(fresh(db, branch)) == before
    branch.thaw()
    assert everything(fresh(db, branch)) == before
    assert branch.verify().ok


def test_erasing_an_archived_parent_gives_its_branches_their_copy(db: Perdure, place: Path) -> None:
    parent = conversation(db)
    branch = parent.branch(at=20)
    before = everything(branch)
    parent.complete()
    parent.archive()
    assert parent.erase() == 1
    assert bundles(place) == []
    assert everything(fresh(db, branch)) == before
    assert branch.verify().ok


# ── what changes an archived session ──────────────────────────────────────────────────────────────


def test_what_is_written_after_archiving_is_read_behind_the_bundle(db: Perdure) -> None:
    session = ended(db)
    session.archive()
    last = session.version()
    session.append(events.Feedback(rating=1))
    assert session.info().cold is not None
    assert [event.version for event in fresh(db, session).events()] == list(range(1, last + 2))
    assert [event.kind for event in session.events(after=last)] == ["feedback"]
    assert [event.version for event in session.events(after=last - 1)] == [last, last + 1]
    assert session.verify().ok
    session.thaw()
    assert [event.version for event in fresh(db, session).events()] == list(range(1, last + 2))
    assert session.verify().ok
    session.archive()
    assert [event.version for event in fresh(db, session).events()] == list(range(1, last + 2))


def test_redaction_reaches_cold_storage(db: Perdure, place: Path) -> None:
    session = ended(db)
    session.archive()
    old = [path.read_bytes() for path in bundles(place)]
    spoken = next(event.version for event in session.events() if event.kind == "message")
    session.redact(spoken)
    assert bundles(place) == []
    assert next(event for event in session.events() if event.version == spoken).redacted
    assert session.verify().ok
    session.archive()
    assert [path.read_bytes() for path in bundles(place)] != old
    assert next(event for event in fresh(db, session).events() if event.version == spoken).redacted
    assert session.verify().ok


def test_redaction_reaches_an_archived_branch(db: Perdure, place: Path) -> None:
    parent = conversation(db)
    branch = parent.branch(at=30)
    branch.complete()
    branch.archive()
    spoken = next(event.version for event in parent.events() if event.kind == "message")
    parent.redact(spoken)
    assert bundles(place) == []
    assert next(event for event in fresh(db, branch).events() if event.version == spoken).redacted
    assert branch.verify().ok
    assert parent.verify().ok


def test_a_pruned_session_is_archived_with_what_it_stands_on(db: Perdure, place: Path) -> None:
    session = conversation(db)
    for item in session.checkpoints():
        session.drop_checkpoint(item.id)
    reached = session.prune(30)
    session.complete()
    session.archive()
    assert fresh(db, session).events()[0].version == reached + 1
    assert session.verify().ok
    assert session.state().vars.document == {"n": 11}
    shutil.copytree(place, place.parent / "copy")
    session.thaw()
    shutil.rmtree(place)
    assert session.verify().ok
    assert fresh(db, session).state().vars.document == {"n": 11}


def test_pruning_an_archived_session_leaves_nothing_of_the_prefix(db: Perdure, place: Path) -> None:
    session = conversation(db)
    for item in session.checkpoints():
        session.drop_checkpoint(item.id)
    session.complete()
    for item in session.checkpoints():
        session.drop_checkpoint(item.id)
    session.archive()
    assert session.prune(30) <= 30
    assert bundles(place) == []
    session.archive()
    assert fresh(db, session).verify().ok
    assert session.verify().pruned_to == session.events()[0].version - 1


def test_changing_a_checkpoint_brings_the_session_back(db: Perdure) -> None:
    session = ended(db)
    session.archive()
    mark = session.checkpoints()[0]
    assert fresh(db, session).pin(mark.id).pinned
    assert session.info().cold is None
    assert session.verify().ok
    session.archive()
    assert fresh(db, session).checkpoints()[0].pinned
    session.drop_checkpoint(mark.id)
    assert mark.id not in [item.id for item in session.checkpoints()]
    assert session.verify().ok


def test_looking_for_expired_checkpoints_fetches_nothing(db: Perdure) -> None:
    session = ended(db)
    session.archive()
    store_of(db)._bundles.clear()
    db.expire_checkpoints()
    assert not store_of(db)._bundles


def test_an_erased_session_leaves_no_bundle(db: Perdure, place: Path) -> None:
    session, other = ended(db), ended(db)
    session.archive()
    other.archive()
    session.thaw()
    assert len(bundles(place)) == 2
    session.erase()
    assert [path.parent.name for path in bundles(place)] == [other.id]
    other.erase()
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_a_blob_of_an_archived_session_is_not_collected(db: Perdure) -> None:
    session = db.create("pictured")
    picture = db.blobs.put(b"picture" * 1000)
    session.append(events.Message(role="user", content=picture))
    session.complete()
    for put_away in (session.archive, session.thaw, session.archive):
        put_away()
        db.blobs.collect(grace=0)
        assert db.blobs.get(picture) == b"picture" * 1000
    session.erase()
    db.blobs.collect(grace=0)
    with pytest.raises(errors.BlobMissing):
        db.blobs.get(picture)


# ── damage ────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_bundle_is_named_and_reported(db: Perdure, place: Path) -> None:
    session = conversation(db)
    branch = session.branch(at=20)
    session.complete()
    session.archive()
    away = place.with_name("away")
    place.rename(away)
    with pytest.raises(errors.BundleMissing, match="is not in cold storage at") as refusal:
        fresh(db, session).events()
    assert refusal.value.fields["name"] == session.info().cold
    assert [problem.what for problem in session.verify().problems] == [refusal.value.message]
    assert not branch.verify().ok
    assert db.verify().sessions == 2
    away.rename(place)
    store_of(db)._missing.clear()
    assert session.verify().ok
    assert branch.verify().ok


def test_a_store_opened_without_cold_storage_says_what_to_do(tmp_path: Path, place: Path) -> None:
    with perdure.open(tmp_path / "store.db", seal=False, cold=place) as db:
        session = ended(db)
        session.archive()
    with perdure.open(tmp_path / "store.db") as db:
        assert db.session(session.id).info().phase == "archived"
        with pytest.raises(errors.BundleMissing, match="open the store with cold= "):
            db.session(session.id).events()
        with pytest.raises(errors.BundleMissing, match="PERDURE_COLD"):
            db.session(session.id).thaw()
        with pytest.raises(errors.BundleMissing, match="PERDURE_COLD"):
            db.session(session.id).erase()
    with perdure.open(tmp_path / "store.db", cold=place, read_only=True) as db:
        assert len(db.session(session.id).turns()) == 12


def test_a_session_whose_bundle_is_lost_can_be_erased(db: Perdure, place: Path) -> None:
    session = ended(db)
    session.archive()
    shutil.rmtree(place)
    place.mkdir()
    fresh(db, session)
    session.erase()
    assert db.count() == 0


def test_every_changed_byte_of_a_bundle_is_found(db: Perdure, place: Path) -> None:
    session = ended(db, turns=3)
    session.archive()
    path = bundles(place)[0]
    whole = path.read_bytes()
    for at in [*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises((errors.Tampered, errors.NewerStore)):
            fresh(db, session).events()
    for content in whole[:-1], whole[: len(whole) // 2], b"", whole + b"x":
        path.write_bytes(content)
        with pytest.raises(errors.Damaged):
            fresh(db, session).events()
    path.write_bytes(whole)
    assert fresh(db, session).verify().ok


def test_a_bundle_in_another_place_is_refused(db: Perdure, place: Path) -> None:
    session, other = ended(db), ended(db)
    session.archive()
    other.archive()
    mine = place / str(session.info().cold)
    theirs = place / str(other.info().cold)
    mine.write_bytes(theirs.read_bytes())
    with pytest.raises(errors.Damaged):
        fresh(db, session).events()


def test_an_older_bundle_of_the_same_session_is_refused(db: Perdure, place: Path) -> None:
    session = ended(db)
    session.archive()
    old = bundles(place)[0].read_bytes()
    session.append(events.Feedback(rating=1))
    session.thaw()
    session.archive()
    (place / str(session.info().cold)).write_bytes(old)
    with pytest.raises(errors.Damaged, match="another state"):
        fresh(db, session).events()


def test_a_damaged_bundle_left_by_a_crash_is_written_anew(db: Perdure, place: Path) -> None:
    session = ended(db)
    session.archive()
    session.thaw()
    path = bundles(place)[0]
    path.write_bytes(path.read_bytes()[:-1])
    session.archive()
    assert fresh(db, session).verify().ok


def test_what_verifies_no_longer_is_not_archived(tmp_path: Path, place: Path) -> None:
    with perdure.open(tmp_path / "store.db", seal=False, cold=place) as db:
        session = ended(db)
    content = (tmp_path / "store.db").read_bytes()
    assert content.count(b"answer 5") >= 1
    (tmp_path / "store.db").write_bytes(content.replace(b"answer 5", b"answer 6"))
    with perdure.open(tmp_path / "store.db", cold=place) as db:
        session = db.session(session.id)
        with pytest.raises(errors.Tampered):
            session.archive()
        assert session.info().cold is None
        assert bundles(place) == []


# ── sealing ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["sealed"])
def test_nothing_readable_reaches_cold_storage(db: Perdure, place: Path) -> None:
    from perdure.services.chunks import loosened

    session = conversation(db, metadata={"where": MARKER})
    session.complete()
    session.archive()
    content = bundles(place)[0].read_bytes()
    assert MARKER.encode() not in content
    for at in range(len(content)):
        if content[at : at + 4] == b"\x28\xb5\x2f\xfd":  # where zstd begins
            with pytest.raises(errors.Damaged):
                loosened(content[at:])


@pytest.mark.parametrize("kind", ["sealed"])
def test_an_erased_session_is_unreadable_in_a_copy_of_its_bundle(db: Perdure, place: Path, tmp_path: Path) -> None:
    session = ended(db)
    session.archive()
    shutil.copytree(place, tmp_path / "copy")
    shutil.copy(tmp_path / "store.db", tmp_path / "yesterday.db")
    db.backup(tmp_path / "backup.db", verify="quick")
    session.erase()
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(tmp_path / "copy", place)
    keys = {"key": tmp_path / "store.db.master", "vault": tmp_path / "store.db.keys"}
    yesterday = perdure.open(tmp_path / "backup.db", cold=place, read_only=True, **keys)
    with yesterday, pytest.raises(errors.Shredded):
        yesterday.session(session.id).events()


# ── at once ───────────────────────────────────────────────────────────────────────────────────────


class Meddling(FolderCold):
    """Cold storage in which something else happens while an object is written."""

    def __init__(self, folder: str, then: Callable[[], None]) -> None:
        super().__init__(folder)
        self._then: Callable[[], None] | None = then

    async def put(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        written = await super().put(name, chunks)
        if name.endswith(".bundle") and self._then is not None:
            then, self._then = self._then, None
            then()
        return written


def meddle(db: Perdure, place: Path, then: Callable[[], None]) -> None:
    store = store_of(db)
    store.cold = Meddling(str(place), then)


def test_a_session_that_changes_meanwhile_is_bundled_again(db: Perdure, place: Path) -> None:
    session = ended(db)
    meddle(db, place, lambda: session.append(events.Feedback(rating=1)) and None)
    done = db.archive(session.id)
    assert done.version == session.version()
    assert len(bundles(place)) == 1
    assert fresh(db, session).verify().ok


def test_a_session_that_is_pruned_meanwhile_is_bundled_again(db: Perdure, place: Path) -> None:
    session = ended(db, turns=8)
    for item in session.checkpoints():
        session.drop_checkpoint(item.id)
    meddle(db, place, lambda: session.prune(20) and None)
    session.archive()
    assert len(bundles(place)) == 1
    assert fresh(db, session).verify().ok
    assert session.verify().pruned_to > 0


def test_a_session_that_is_erased_meanwhile_leaves_no_bundle(db: Perdure, place: Path) -> None:
    session = ended(db)
    meddle(db, place, lambda: session.erase() and None)
    with pytest.raises(errors.NotFound):
        session.archive()
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_a_parent_that_is_erased_meanwhile_takes_nothing_along(db: Perdure, place: Path) -> None:
    parent = conversation(db)
    branch = parent.branch(at=20)
    branch.complete()
    branch.move("archive")
    branch.thaw()
    before = everything(branch)
    shutil.rmtree(place)
    meddle(db, place, lambda: parent.erase() and None)
    branch.archive()
    assert everything(fresh(db, branch)) == before
    branch.thaw()
    assert everything(fresh(db, branch)) == before


# ── sweeping ──────────────────────────────────────────────────────────────────────────────────────


def test_a_sweep_puts_away_what_ended_before_a_time(db: Perdure) -> None:
    old = [ended(db, turns=1) for _ in range(3)]
    running = conversation(db, turns=1)
    moment = max(session.info().active_at for session in [*old, running]) + 1
    young = db.create("young")
    while young.info().active_at < moment:
        young.append(events.Feedback(rating=1))
    young.complete()
    seen: list[tuple[int, int]] = []
    done, failed = db.archive_ended(moment, progress=lambda at, of: seen.append((at, of)))
    assert sorted(item.session for item in done) == sorted(session.id for session in old)
    assert failed == []
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert db.archive_ended(moment) == ([], [])
    assert [young.info().phase, running.info().phase] == ["completed", "active"]


def test_a_sweep_goes_past_what_will_not_go(tmp_path: Path, place: Path) -> None:
    with perdure.open(tmp_path / "store.db", seal=False, cold=place) as db:
        sessions = [ended(db, turns=1, metadata={"n": n}) for n in range(3)]
    content = (tmp_path / "store.db").read_bytes()
    with perdure.open(tmp_path / "store.db", cold=place) as db:
        body = next(event for event in db.session(sessions[1].id).events() if event.kind == "message").entry.data
        assert content.count(body) == 3
    at = [index for index in range(len(content)) if content.startswith(body, index)][1]
    (tmp_path / "store.db").write_bytes(content[: at + 3] + b"Q" + content[at + 4 :])
    with perdure.open(tmp_path / "store.db", cold=place) as db:
        done, failed = db.archive_ended(1 << 62)
        assert len(done) == 2
        assert [type(item.error) for item in failed] == [errors.Tampered]


def test_a_sweep_takes_away_bundles_that_a_crash_left(db: Perdure, place: Path) -> None:
    session = ended(db)
    head = drive(store_of(db).head(SessionId(session.id)))
    assert head is not None
    doubts = store_of(db).doubts
    assert doubts is not None
    name = name_of(head)
    drive(doubts.note(SessionId(session.id), [name]))
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(b"half a bundle of an earlier state")
    session.append(events.Feedback(rating=1))
    done, _ = db.archive_ended(1 << 62)
    assert [path.relative_to(place).as_posix() for path in bundles(place)] == [done[0].cold]
    assert not (place / "doubts").exists()


# ── large ones ────────────────────────────────────────────────────────────────────────────────────


def test_a_large_session_streams(tmp_path: Path, place: Path) -> None:
    """What is held in memory does not grow with the session: chunks do not, and the bundle is 24 MB."""
    with perdure.open(
        tmp_path / "store.db", seal=False, cold=place, snapshots=perdure.SnapshotPolicy(bytes=1 << 40)
    ) as db:
        session = db.create("large")
        for _ in range(24):
            session.append(events.Message(role="user", content=os.urandom(1 << 20)))
        session.complete()
        peaks = []
        for work in (session.archive, session.thaw):
            tracemalloc.start()
            work()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert bundles(place)[0].stat().st_size > 24 << 20
        assert session.verify().ok
    assert max(peaks) < 16 << 20, peaks


# ── async ─────────────────────────────────────────────────────────────────────────────────────────


async def test_tasks_read_and_archive_as_threads_do(tmp_path: Path, place: Path) -> None:
    async with await perdure.aopen(tmp_path / "store.db", seal=False, cold=place) as db:
        session = await db.create("async")
        async with session.turn("hello") as turn:
            await turn.answer("yes")
        await session.complete()
        assert await session.archive() == await session.version()
        assert (await session.info()).cold is not None
        assert len(await session.events()) == await session.version()
        await check_kept(db)
        assert await session.thaw()
        assert (await session.verify()).ok


async def check_kept(db: AsyncPerdure) -> None:
    store = db._services.store
    assert store.cold is not None
    kept = [item async for item in store.cold.list()]
    rows = await store.find(Query(tenant="local"))
    assert kept == [Kept(str(rows[0].cold), kept[0].size)]
