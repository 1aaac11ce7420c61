"""Whatever is changed at rest is found, and reading never hands out what was not written."""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from perdure.core.errors import Damaged, NotFound, WorldError
from perdure.core.session import record as records
from perdure.core.session import state as states
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.record import Record
from perdure.core.session.turns import Message
from perdure.services.loading import SnapshotPolicy
from perdure.services.verifying import Report, StoreReport
from perdure.stores.packing import deflate, inflate, squeeze, unsqueeze
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient
from perdure.waiting import drive
from tests.services.world import World, told

SNAPSHOTS = SnapshotPolicy(events=7)


def pack(record: Record) -> bytes:
    return squeeze(records.to_bytes(record))


def unpack(body: bytes) -> Record:
    return records.from_bytes(unsqueeze(body))


def inflate_or_empty(stored: bytes) -> bytes:
    try:
        return inflate(stored)
    except Damaged:
        return b""


class Truth(msgspec.Struct):
    """What a session is before anybody touches the file."""

    after: int
    events: list[Any]
    states: dict[int, bytes]


class Scene:
    """A store at rest with sessions of every sort, and what is true of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.truth: dict[SessionId, Truth] = {}
        drive(self._make())

    async def _make(self) -> None:
        store = SqliteStore(str(self.path), FixedAmbient())
        world = World(store, snapshots=SNAPSHOTS)
        self.story = await world.story()
        self.twin = await world.story()
        self.branch = await world.branch(self.story, 7)
        await world.turn(self.branch)
        await world.turn(self.branch)
        await world.checkpoints.take(self.branch, "on a branch")
        self.pruned = await world.create(title="pruned")
        await world.turn(self.pruned)
        await world.turn(self.pruned)
        await world.erasure.prune(self.pruned, 6)
        for session in (self.story, self.twin, self.branch, self.pruned):
            head = await world.sessions.log.head(session)
            versions = range(max(1, head.anchor_version), head.row.version + 1)
            kept = {
                version: states.to_bytes(await world.sessions.loader.state_at(session, version)) for version in versions
            }
            self.truth[session] = Truth(head.anchor_version, await world.told(session), kept)
        await store.close()
        connection = apsw.Connection(str(self.path))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene") / "store.db")


class Changed:
    """A copy of the scene's file after somebody was at it."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene = scene
        self.path = folder / "changed.db"
        shutil.copyfile(scene.path, self.path)

    def sql(self, statement: str, *bound: Any) -> list[Any]:
        connection = apsw.Connection(str(self.path))
        try:
            return connection.execute(statement, bound).fetchall()
        finally:
            connection.close()

    def no(self, session: SessionId) -> int:
        found: int = self.sql("SELECT no FROM session WHERE session_id = ?", raw(session))[0][0]
        return found

    def look(self) -> tuple[StoreReport, dict[SessionId, Report | None]]:
        """What verifying says of it; and that reading it never tells what is not true."""

        async def looking() -> tuple[StoreReport, dict[SessionId, Report | None]]:
            store = SqliteStore(str(self.path), FixedAmbient(), read_only=True)
            world = World(store, snapshots=SNAPSHOTS)
            whole = await world.verifying.verify_store()
            reports: dict[SessionId, Report | None] = {}
            for session, truth in self.scene.truth.items():
                try:
                    reports[session] = await world.verifying.verify(session)
                except NotFound:
                    reports[session] = None
                await only_truth(world, session, truth)
            await store.close()
            return whole, reports

        return drive(looking())


async def only_truth(world: World, session: SessionId, truth: Truth) -> None:
    """Assert that every way of reading a session gives what is true, or a typed error."""
    try:
        head = await world.sessions.log.head(session)
        events = await world.sessions.log.events(head, truth.after)
        assert [told(event) for event in events] == truth.events[: len(events)]
        assert len(events) == len(truth.events) or head.row.version < max(truth.states)
    except (WorldError, NotFound):
        pass
    for version, expected in truth.states.items():
        try:
            found = await world.sessions.loader.state_at(session, version)
        except (WorldError, NotFound):
            continue
        assert states.to_bytes(found) == expected, version
    try:
        loaded = await world.sessions.loader.load(session)
    except (WorldError, NotFound):
        return
    assert states.to_bytes(loaded.state) == truth.states[loaded.state.version]


@pytest.fixture
def changed(scene: Scene, tmp_path: Path) -> Changed:
    return Changed(scene, tmp_path)


def flipped(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def problems(changed: Changed) -> dict[str, list[tuple[int, int] | None]]:
    """Where problems are found, by place; at least one must be."""
    whole, reports = changed.look()
    assert not whole.ok or reports
    reported = [*whole.damaged, *(report for report in reports.values() if report is not None)]
    found = [*whole.problems, *(problem for report in reported for problem in report.problems)]
    assert found
    assert all(problem.what and problem.advice for problem in found)
    places: dict[str, list[tuple[int, int] | None]] = {}
    for problem in found:
        places.setdefault(problem.place, []).append(problem.versions)
    return places


# ── nothing is wrong ──────────────────────────────────────────────────────────────────────────────


def test_an_untouched_store_is_whole(changed: Changed) -> None:
    whole, reports = changed.look()
    assert whole.ok
    assert (whole.sessions, whole.problems, whole.damaged) == (4, (), ())
    assert whole.events == sum(len(truth.events) for truth in changed.scene.truth.values())
    assert whole.redacted == 8 + 1
    pruned = reports[changed.scene.pruned]
    assert pruned is not None
    assert (pruned.ok, pruned.pruned_to, pruned.events) == (True, 6, 10)


def test_progress_counts_sessions(changed: Changed) -> None:
    told: list[tuple[int, int]] = []

    async def looking() -> None:
        store = SqliteStore(str(changed.path), FixedAmbient(), read_only=True)
        await World(store).verifying.verify_store(lambda done, total: told.append((done, total)))
        await store.close()

    drive(looking())
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


async def test_a_session_of_any_engine_is_whole(world: World) -> None:
    session = await world.story()
    report = await world.verifying.verify(session)
    assert (report.ok, report.problems, report.redacted) == (True, (), 4)
    assert (await world.verifying.verify_store()).ok
    with pytest.raises(NotFound):
        await world.verifying.verify(SessionId(world.sessions.fresh_id()))


async def test_a_checkpoint_that_waits_to_be_rebuilt_is_no_problem(world: World) -> None:
    session = await world.create()
    version = await world.append(session, Message(role="user", content="secret"))
    await world.checkpoints.take(session, "one")
    rebuild, world.checkpoints.rebuild = world.checkpoints.rebuild, _nothing  # type: ignore[method-assign]
    await world.erasure.redact(session, [version])
    assert (await world.store.checkpoints(session))[0].payload == b""
    assert (await world.verifying.verify(session)).ok
    await rebuild(session, 1)
    assert (await world.verifying.verify(session)).ok


async def _nothing(*_: Any) -> None:
    pass


async def test_a_session_that_is_written_to_meanwhile_is_not_called_broken(world: World) -> None:
    session = await world.create()
    await world.turn(session)
    asked = world.store.checkpoints

    async def while_writing(name: SessionId) -> Any:
        world.store.checkpoints = asked  # type: ignore[method-assign]
        await world.turn(session)
        await world.checkpoints.take(session, "new")
        return await asked(name)

    world.store.checkpoints = while_writing  # type: ignore[method-assign]
    report = await world.verifying.verify(session)
    assert report.ok
    assert report.events > 9


async def test_a_session_that_is_written_to_without_a_pause_is_not_called_broken(world: World) -> None:
    session = await world.create()
    await world.turn(session)
    asked = world.store.checkpoints
    looks = 0

    async def while_writing(name: SessionId) -> Any:
        nonlocal looks
        world.store.checkpoints = asked  # type: ignore[method-assign]
        looks += 1
        await world.checkpoints.take(session, f"look {looks}")
        await world.turn(session)
        world.store.checkpoints = while_writing  # type: ignore[method-assign]
        return await asked(name)

    world.store.checkpoints = while_writing  # type: ignore[method-assign]
    report = await world.verifying.verify(session)
    assert looks > 1, "nothing was written while it looked again"
    assert report.ok, report.problems


# ── flipped bits ──────────────────────────────────────────────────────────────────────────────────


def means(column: str, content: bytes) -> bytes:
    """What the bytes of a column say; some bits of a compressed frame say nothing at all."""
    if column == "body" and content[:1] == b"\x01":
        return content[:1] + inflate_or_empty(content[1:])
    return inflate_or_empty(content) if column in ("state_blob", "payload") else content


BLOBS = [
    ("record", "body", "position", 120),
    ("record", "digest", "position", 25),
    ("snapshot", "state_blob", "session || '/' || version", 30),
    ("snapshot", "checksum", "session || '/' || version", 10),
    ("checkpoint", "payload", "id", 40),
    ("checkpoint", "payload_sha", "id", 6),
    ("checkpoint", "state_sha", "id", 6),
    ("session", "digest", "no", 6),
    ("segment", "digest", "session || '/' || ordinal", 4),
    ("segment", "origin", "session || '/' || ordinal", 4),
]


@pytest.mark.parametrize(("table", "column", "key", "times"), BLOBS)
def test_a_flipped_bit_is_found(scene: Scene, tmp_path: Path, table: str, column: str, key: str, times: int) -> None:
    chance = random.Random(f"{table}.{column}")
    for number in range(times):
        folder = tmp_path / str(number)
        folder.mkdir()
        changed = Changed(scene, folder)
        rows = changed.sql(f"SELECT {key}, {column} FROM {table} WHERE length({column}) > 0 ORDER BY 1")
        name, content = chance.choice(rows)
        spoiled = flipped(content, chance)
        if means(column, spoiled) == means(column, content):
            continue
        changed.sql(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", spoiled, name)
        problems(changed)
        shutil.rmtree(folder)


ROW = {
    "tenant": "'someone else'",
    "owner_id": "'eve'",
    "title": "title || '!'",
    "lifecycle_phase": "'archived'",
    "schema_version": "'9.0.0'",
    "state_version": "state_version - 1",
    "state_version + 1": "state_version + 1",
    "digest": "zeroblob(32)",
    "created_at": "created_at + 1",
    "last_active_at": "last_active_at - 1",
    "expires_at": "12345",
    "turns": "turns + 1",
    "open_turn": "3",
    "parent": "session_id",
    "branch_kind": "'dream'",
    "branched_at": "2",
    "account": "'another'",
    "metadata": """'{"metadata":{"n":true},"tags":["x","y"]}'""",
    "metadata nonsense": "'{nonsense'",
    "metadata list": "'[1]'",
    "metadata tags": """'{"tags":7}'""",
    "title nonsense": "CAST(x'ff' AS TEXT)",
    "owner_id nonsense": "CAST(x'c328' AS TEXT)",
    "session_id": "zeroblob(16)",
    "session_id short": "zeroblob(3)",
    "digest short": "x'00'",
    "anchor_version": "3",
    "anchor_digest": "zeroblob(32)",
}


@pytest.mark.parametrize("what", ROW)
@pytest.mark.parametrize("which", ["story", "branch", "pruned"])
def test_a_changed_row_is_found(changed: Changed, what: str, which: str) -> None:
    session = getattr(changed.scene, which)
    column = what.split(maxsplit=1)[0]
    changed.sql(f"UPDATE session SET {column} = {ROW[what]} WHERE session_id = ?", raw(session))
    places = problems(changed)
    if what in ("owner_id", "title", "lifecycle_phase", "turns", "account", "created_at", "last_active_at"):
        assert set(places) == {"row"}


CHECKPOINT = {
    "version": "version - 1",
    "label": "'other'",
    "trigger": "'lifecycle'",
    "is_full": "1 - is_full",
    "base": "coalesce(base, 0) + 1",
    "at": "at + 1",
    "expires_at": "NULL",
    "pinned": "1",
    "metadata": """'{"a":1}'""",
    "metadata nonsense": "'{'",
    "id": "'another'",
    "seq": "seq + 100",
    "payload": "x'00'",
    "payload gone": "x''",
}


@pytest.mark.parametrize("what", CHECKPOINT)
def test_a_changed_checkpoint_is_found(changed: Changed, what: str) -> None:
    (last,) = changed.sql("SELECT max(seq) FROM checkpoint WHERE session = ?", changed.no(changed.scene.story))[0]
    column = what.split(maxsplit=1)[0]
    changed.sql(
        f'UPDATE checkpoint SET "{column}" = {CHECKPOINT[what]} WHERE session = ? AND seq = ?',
        changed.no(changed.scene.story),
        last,
    )
    if what == "is_full":
        return
    places = problems(changed)
    assert set(places) <= {"checkpoint", "row", "store"}


def test_a_checkpoint_of_another_state_is_found_even_if_its_digests_fit(changed: Changed) -> None:
    no = changed.no(changed.scene.story)
    statement = "SELECT payload, payload_sha, state_sha, is_full, base FROM checkpoint WHERE session = ? AND seq = 1"
    (found,) = changed.sql(statement, changed.no(changed.scene.twin))
    changed.sql(
        "UPDATE checkpoint SET payload = ?, payload_sha = ?, state_sha = ?, is_full = ?, base = ? "
        "WHERE session = ? AND seq = 1",
        *found,
        no,
    )
    assert set(problems(changed)) == {"checkpoint"}


def test_a_snapshot_of_another_session_is_found_and_not_believed(changed: Changed) -> None:
    story, twin = changed.no(changed.scene.story), changed.no(changed.scene.twin)
    for version, blob, checksum in changed.sql(
        "SELECT version, state_blob, checksum FROM snapshot WHERE session = ?", twin
    ):
        changed.sql(
            "UPDATE snapshot SET state_blob = ?, checksum = ? WHERE session = ? AND version = ?",
            blob,
            checksum,
            story,
            version,
        )
    assert set(problems(changed)) == {"snapshot"}


def test_a_snapshot_that_says_something_else_is_found(changed: Changed) -> None:
    no = changed.no(changed.scene.story)
    version, blob = changed.sql("SELECT version, state_blob FROM snapshot WHERE session = ?", no)[0]
    state = states.from_bytes(inflate(blob))
    lie = states.to_bytes(msgspec.structs.replace(state, origin=msgspec.structs.replace(state.origin, title="a lie")))
    changed.sql(
        "UPDATE snapshot SET state_blob = ?, checksum = ? WHERE session = ? AND version = ?",
        deflate(lie),
        sha256(lie).digest(),
        no,
        version,
    )

    async def looking() -> Report:
        store = SqliteStore(str(changed.path), FixedAmbient(), read_only=True)
        report = await World(store).verifying.verify(changed.scene.story)
        await store.close()
        return report

    assert [(problem.place, problem.versions) for problem in drive(looking()).problems] == [
        ("snapshot", (version, version))
    ]


# ── moved, removed, forged ────────────────────────────────────────────────────────────────────────


def places_of(changed: Changed, session: SessionId) -> list[tuple[int, int]]:
    """First and last of every record."""
    return [
        (first, last)
        for first, last in changed.sql(
            "SELECT first, last FROM record WHERE session = ? ORDER BY first", changed.no(session)
        )
    ]


def test_every_damaged_place_is_named(changed: Changed) -> None:
    story = changed.scene.story
    places = places_of(changed, story)
    no = changed.no(story)
    spoiled = [places[2], places[4], places[-1]]
    for first, _ in spoiled:
        (body,) = changed.sql("SELECT body FROM record WHERE session = ? AND first = ?", no, first)[0]
        record = unpack(body)
        entry = msgspec.structs.replace(record.entries[0], target="forged")
        forged = msgspec.structs.replace(record, entries=(entry, *record.entries[1:]))
        changed.sql("UPDATE record SET body = ? WHERE session = ? AND first = ?", pack(forged), no, first)
    report = changed.look()[1][story]
    assert report is not None
    assert [problem.versions for problem in report.problems if problem.place == "log"] == spoiled


def test_unreadable_records_are_named_and_what_follows_is_still_proven(changed: Changed) -> None:
    story, no = changed.scene.story, changed.no(changed.scene.story)
    places = places_of(changed, story)
    for first, _ in (places[1], places[5]):
        changed.sql("UPDATE record SET body = x'0107' WHERE session = ? AND first = ?", no, first)
    report = changed.look()[1][story]
    assert report is not None
    assert [problem.versions for problem in report.problems if problem.place == "log"] == [places[1], places[5]]


@pytest.mark.parametrize("index", [0, 1, 3, -1])
def test_a_missing_record_is_named(changed: Changed, index: int) -> None:
    story = changed.scene.story
    place = places_of(changed, story)[index]
    changed.sql("DELETE FROM record WHERE session = ? AND first = ?", changed.no(story), place[0])
    report = changed.look()[1][story]
    assert report is not None
    assert ("log", place) in [(problem.place, problem.versions) for problem in report.problems]


def test_a_missing_tail_is_named(changed: Changed) -> None:
    story = changed.scene.story
    places = places_of(changed, story)
    changed.sql("DELETE FROM record WHERE session = ? AND first >= ?", changed.no(story), places[-3][0])
    report = changed.look()[1][story]
    assert report is not None
    assert (places[-3][0], places[-1][1]) in [problem.versions for problem in report.problems]


def test_a_log_without_records_is_named(changed: Changed) -> None:
    changed.sql("DELETE FROM record WHERE session = ?", changed.no(changed.scene.twin))
    assert "log" in problems(changed)


def test_a_digest_changed_beside_a_record_does_not_blame_the_next_one(changed: Changed) -> None:
    story = changed.scene.story
    place = places_of(changed, story)[3]
    changed.sql("UPDATE record SET digest = zeroblob(32) WHERE session = ? AND first = ?", changed.no(story), place[0])
    report = changed.look()[1][story]
    assert report is not None
    assert [problem.versions for problem in report.problems if problem.place == "log"] == [place]


def test_swapped_records_are_found(changed: Changed) -> None:
    no = changed.no(changed.scene.story)
    places = places_of(changed, changed.scene.story)
    same_length = [first for first, last in places if last - first == 3]
    one, other = same_length[0], same_length[1]
    bodies = [
        changed.sql("SELECT body, digest FROM record WHERE session = ? AND first = ?", no, first)[0]
        for first in (one, other)
    ]
    for first, (body, digest) in ((one, bodies[1]), (other, bodies[0])):
        changed.sql("UPDATE record SET body = ?, digest = ? WHERE session = ? AND first = ?", body, digest, no, first)
    assert "log" in problems(changed)


def test_records_swapped_between_sessions_are_found(changed: Changed) -> None:
    story, twin = changed.no(changed.scene.story), changed.no(changed.scene.twin)
    place = places_of(changed, changed.scene.story)[3]
    assert place in places_of(changed, changed.scene.twin)
    changed.sql(
        "UPDATE record SET session = CASE session WHEN ?1 THEN -1 ELSE ?1 END WHERE first = ?3 AND session IN (?1, ?2)",
        story,
        twin,
        place[0],
    )
    changed.sql("UPDATE record SET session = ? WHERE session = -1", twin)
    places = problems(changed)
    assert places["log"].count(place) >= 2


def test_records_swapped_by_body_between_sessions_are_found(changed: Changed) -> None:
    story, twin = changed.no(changed.scene.story), changed.no(changed.scene.twin)
    first, _ = places_of(changed, changed.scene.story)[3]
    statement = "SELECT body, digest FROM record WHERE session = ? AND first = ?"
    (ours,), (theirs,) = changed.sql(statement, story, first), changed.sql(statement, twin, first)
    for no, (body, digest) in ((story, theirs), (twin, ours)):
        changed.sql("UPDATE record SET body = ?, digest = ? WHERE session = ? AND first = ?", body, digest, no, first)
    assert "log" in problems(changed)


def test_a_record_added_to_the_end_is_found(changed: Changed) -> None:
    story = changed.no(changed.scene.story)
    first, last = places_of(changed, changed.scene.story)[-1]
    body, digest = changed.sql("SELECT body, digest FROM record WHERE session = ? AND first = ?", story, first)[0]
    more = msgspec.structs.replace(unpack(body), first=last + 1)
    changed.sql(
        "INSERT INTO record (position, session, first, last, digest, body) VALUES (9999, ?, ?, ?, ?, ?)",
        story,
        more.first,
        more.last,
        digest,
        pack(more),
    )
    assert set(problems(changed)["row"]) == {(more.first, more.last)}


@pytest.mark.parametrize("column", ["first", "last"])
@pytest.mark.parametrize("by", [-1, 1, 100])
def test_a_record_that_claims_another_place_is_found(changed: Changed, column: str, by: int) -> None:
    no = changed.no(changed.scene.story)
    first = next(first for first, last in places_of(changed, changed.scene.story)[1:] if last - first == 3)
    changed.sql(f"UPDATE record SET {column} = {column} + ? WHERE session = ? AND first = ?", by, no, first)
    assert "log" in problems(changed)


def forge(changed: Changed, session: SessionId, kind: str, how: Callable[[Any], Any]) -> tuple[int, int]:
    """Change the first entry of a kind that still has its content; its version, twice."""
    no = changed.no(session)
    for (body,) in changed.sql("SELECT body FROM record WHERE session = ? ORDER BY first", no):
        record = unpack(body)
        for index, entry in enumerate(record.entries):
            if entry.kind == kind and entry.blind is not None:
                entries = (*record.entries[:index], how(entry), *record.entries[index + 1 :])
                packed = pack(msgspec.structs.replace(record, entries=entries))
                changed.sql("UPDATE record SET body = ? WHERE session = ? AND first = ?", packed, no, record.first)
                return record.first + index, record.first + index
    raise AssertionError("no such event")


def test_content_that_was_blanked_without_a_redaction_is_found(changed: Changed) -> None:
    story = changed.scene.story
    version = forge(
        changed,
        story,
        "message",
        lambda entry: msgspec.structs.replace(
            entry, blind=None, data=records.chain.commitment(entry.blind, entry.data)
        ),
    )

    async def looking() -> Report:
        store = SqliteStore(str(changed.path), FixedAmbient(), read_only=True)
        report = await World(store).verifying.verify(story)
        await store.close()
        return report

    report = drive(looking())
    assert ("log", version) in [(problem.place, problem.versions) for problem in report.problems]


def test_bytes_moved_from_the_data_into_the_blind_are_found(changed: Changed) -> None:
    """The commitment is taken over both together, so it does not notice; the blind's length does."""

    def moved(entry: Any) -> Any:
        inner = entry.data.rindex(b"\x82\xa4call")
        return msgspec.structs.replace(entry, blind=entry.blind + entry.data[:inner], data=entry.data[inner:])

    forge(changed, changed.scene.story, "tool_finished", moved)
    assert "log" in problems(changed)


SEGMENT = {
    "upto": "upto - 1",
    "upto + 1": "upto + 1",
    "source": "source + 1",
    "source gone": "999",
    "ordinal": "ordinal + 1",
}


@pytest.mark.parametrize("what", SEGMENT)
def test_a_changed_segment_is_found(changed: Changed, what: str) -> None:
    changed.sql(f"UPDATE segment SET {what.split(maxsplit=1)[0]} = {SEGMENT[what]}")
    if what == "ordinal":
        assert changed.look()[0].ok
    else:
        problems(changed)


def test_a_wrong_digest_of_a_segment_blames_the_segment_alone(changed: Changed) -> None:
    changed.sql("UPDATE segment SET digest = zeroblob(32)")
    report = changed.look()[1][changed.scene.branch]
    assert report is not None
    assert {problem.place for problem in report.problems} == {"segment"}


def test_a_lost_segment_is_found(changed: Changed) -> None:
    changed.sql("DELETE FROM segment")
    assert "segment" in problems(changed)


def test_a_parent_that_is_gone_is_found(changed: Changed) -> None:
    changed.sql("DELETE FROM session WHERE session_id = ?", raw(changed.scene.story))
    places = problems(changed)
    assert "store" in places
    assert "segment" in places


def test_the_anchor_of_a_pruned_log_is_found_missing(changed: Changed) -> None:
    changed.sql("DELETE FROM snapshot WHERE session = ?", changed.no(changed.scene.pruned))
    report = changed.look()[1][changed.scene.pruned]
    assert report is not None
    assert ("snapshot", (6, 6)) in [(problem.place, problem.versions) for problem in report.problems]


# ── the file itself ───────────────────────────────────────────────────────────────────────────────


def cuts(size: int) -> Iterator[int]:
    chance = random.Random(size)
    yield from (size - 1, size - 8192, size // 2, 8192, 100)
    yield from (chance.randrange(size) for _ in range(5))


def test_a_truncated_file_is_found_or_refused(scene: Scene, tmp_path: Path) -> None:
    size = scene.path.stat().st_size
    for number, length in enumerate(cuts(size)):
        folder = tmp_path / str(number)
        folder.mkdir()
        changed = Changed(scene, folder)
        with open(changed.path, "r+b") as file:
            file.truncate(length)
        try:
            whole, _ = changed.look()
        except WorldError:
            continue
        assert not whole.ok, length


def test_a_bit_flipped_anywhere_in_the_file_never_makes_reading_lie(scene: Scene, tmp_path: Path) -> None:
    chance = random.Random(11)
    content = scene.path.read_bytes()
    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        changed = Changed(scene, folder)
        changed.path.write_bytes(flipped(content, chance))
        with suppress(WorldError):
            changed.look()
        shutil.rmtree(folder)
