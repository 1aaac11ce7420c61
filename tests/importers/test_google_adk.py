"""ADK's own databases are brought over, and the conversations go on."""

import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import perdure
from perdure import errors
from perdure.adapters.google_adk import PerdureSessionService, session_name
from perdure.events import Message
from perdure.importers.google_adk import BATCH, IMPORTING, INCOMPLETE, import_from
from perdure.importers.report import OWN, Imported
from tests.adapters.test_google_adk import changing, run, runner, said, texts
from tests.importers.flipping import flipped
from tests.stores.postgres_server import Server, server

__all__ = ["server"]

WHO = {"app_name": "shop", "user_id": "ada"}
ONE = {**WHO, "session_id": "s1"}
NAME = session_name("shop", "ada", "s1")


@pytest.fixture(params=[":memory:", "sealed"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[perdure.Perdure]:
    with perdure.open(tmp_path / "here.db" if request.param == "sealed" else ":memory:") as opened:
        yield opened


async def filled(service: BaseSessionService) -> list[Session]:
    """Some sessions as a shop would have them."""
    await service.create_session(**ONE, state={"k": 1, "app:rate": 2, "user:lang": "pt"})
    await run(runner(service), "tulips")
    await run(runner(service), "roses")
    found = await service.get_session(**ONE)
    assert found is not None
    await runner(service).rewind_async(
        user_id="ada", session_id="s1", rewind_before_invocation_id=found.events[4].invocation_id
    )
    await run(runner(service), "lilies")
    many = await service.create_session(app_name="shop", user_id="bob/1", session_id="s1")
    for number in range(12):
        await service.append_event(many, said(str(number), timestamp=2e9))
    await service.create_session(app_name="other", user_id="ada")
    return [
        item
        for app in ("shop", "other")
        for listed in (await service.list_sessions(app_name=app)).sessions
        if (item := await service.get_session(app_name=app, user_id=listed.user_id, session_id=listed.id)) is not None
    ]


async def matching(db: perdure.Perdure, wanted: list[Session]) -> None:
    """Every session is read through the adapter as ADK's own service reads it."""
    service = PerdureSessionService(db)
    for session in wanted:
        found = await service.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
        assert found is not None
        assert found.state == session.state
        assert [item.model_dump_json() for item in found.events] == [item.model_dump_json() for item in session.events]
    listed = [item.id for item in (await service.list_sessions(app_name="shop")).sessions]
    assert listed == [item.id for item in wanted if item.app_name == "shop"]


async def test_what_the_sqlite_service_wrote_is_brought_over_and_goes_on(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    wanted = await filled(SqliteSessionService(str(path)))
    before = path.read_bytes()
    seen: list[tuple[int, int]] = []
    report = await import_from(db, str(path), progress=lambda done, total: seen.append((done, total)))
    assert (report.sessions, report.items, report.skipped) == (3, sum(len(item.events) for item in wanted), [])
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert path.read_bytes() == before
    await matching(db, wanted)
    session = db.named(session_name("shop", "ada", "s1"))
    assert [turn.status for turn in session.turns()] == ["finished", "finished"]
    heard = [message.content for turn in session.turns() for message in turn.messages]
    assert heard == ["tulips", "It costs 6", "lilies", "It costs 6"]  # the rewound words are gone for others
    assert session.info().tags == ()
    service = PerdureSessionService(db)
    await run(runner(service), "asters")
    assert texts(await service.get_session(**ONE))[-4:] == ["asters", None, None, "It costs 6"]
    assert session.verify().ok


async def test_importing_again_adds_nothing(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    await filled(SqliteSessionService(str(path)))
    tried = await import_from(db, str(path), dry_run=True)
    assert list(db.find().items) == []
    first = await import_from(db, f"sqlite+aiosqlite:///{path}")
    assert (tried.sessions, tried.items, tried.names) == (first.sessions, first.items, first.names)
    versions = {row.session: row.version for row in db.find().items}
    second = await import_from(db, str(path))
    assert (second.sessions, second.items, len(second.skipped)) == (0, 0, 3)
    assert {row.session: row.version for row in db.find().items} == versions
    assert "already" in second.skipped[0].why


async def test_an_import_that_was_stopped_goes_on(
    db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "adk.db"
    service = SqliteSessionService(str(path))
    wanted = await filled(service)
    monkeypatch.setattr("perdure.importers.google_adk.BATCH", 5)
    name = session_name("shop", "bob/1", "s1")
    record = perdure.AsyncSession.record

    async def failing(self: perdure.AsyncSession, *given: Any, **more: Any) -> int:
        if self.id == db.named(name).id and await self.version() > 10:
            raise KeyboardInterrupt
        return await record(self, *given, **more)

    with monkeypatch.context() as during:
        during.setattr(perdure.AsyncSession, "record", failing)
        with pytest.raises(KeyboardInterrupt):
            await import_from(db, str(path))
    assert db.named(name).info().tags == (IMPORTING,)
    assert 0 < len(db.named(name).conversation()) < 12
    report = await import_from(db, str(path))
    assert report.sessions == 1
    await matching(db, wanted)


async def test_long_conversations_take_several_appends(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    service = SqliteSessionService(str(path))
    await service.create_session(**ONE)
    rows = [
        (f"e{n}", "shop", "ada", "s1", "i", float(n), said(str(n), timestamp=float(n), id=f"e{n}").model_dump_json())
        for n in range(2 * BATCH + 7)
    ]
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    report = await import_from(db, str(path))
    assert report.items == len(rows)
    assert texts(await PerdureSessionService(db).get_session(**ONE)) == [str(n) for n in range(len(rows))]


async def test_rows_that_cannot_be_read_are_named(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    service = SqliteSessionService(str(path))
    held = await service.create_session(**ONE, state={"user:lang": "pt"})
    for text in "abcd":
        await service.append_event(held, said(text, id=text))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET event_data = '{\"author\": 3}' WHERE id = 'b'")
        connection.execute("UPDATE events SET event_data = 'nonsense' WHERE id = 'c'")
        connection.execute("UPDATE user_states SET state = '[]'")
    connection.close()
    report = await import_from(db, str(path))
    assert (report.sessions, report.items) == (1, 2)
    assert len(report.skipped) == 3
    assert all(item.why for item in report.skipped)
    assert texts(await PerdureSessionService(db).get_session(**ONE)) == ["a", "d"]


async def test_what_is_no_database_of_adks_is_refused(db: perdure.Perdure, tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound):
        await import_from(db, str(tmp_path / "none.db"))
    (tmp_path / "text").write_text("no database " * 100)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE events (id TEXT)")
    connection.close()
    await SqliteSessionService(str(tmp_path / "newer.db")).create_session(**ONE)
    with sqlite3.connect(tmp_path / "newer.db") as connection:
        connection.execute("CREATE TABLE adk_internal_metadata (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute("INSERT INTO adk_internal_metadata VALUES ('schema_version', '2')")
    connection.close()
    whole = tmp_path / "newer.db"
    (tmp_path / "cut.db").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    for name in ("text", "other.db", "newer.db", "cut.db"):
        with pytest.raises(errors.Invalid):
            await import_from(db, str(tmp_path / name))
    with pytest.raises(errors.Invalid) as refused:
        await import_from(db, "postgresql://user:secret@localhost:1/none")
    assert "secret" not in str(refused.value)


# ── damaged first, repaired later ──


async def damaged(path: Path, *ids: str, rewind: str = "") -> dict[str, str]:
    """A database of six events, some of which cannot be read; what was in them."""
    service = SqliteSessionService(str(path))
    held = await service.create_session(**ONE, state={"k": 1})
    for text in "abcdef":
        actions = EventActions(rewind_before_invocation_id="of-b") if text == rewind else EventActions()
        event = said(text, author="user" if text in "ace" else "agent", invocation=f"of-{text}", id=text)
        await service.append_event(held, event.model_copy(update={"actions": actions}))
    marks = ", ".join("?" * len(ids))
    with sqlite3.connect(path) as connection:
        found = dict(connection.execute(f"SELECT id, event_data FROM events WHERE id IN ({marks})", ids))
        connection.execute(f"UPDATE events SET event_data = 'nonsense' WHERE id IN ({marks})", ids)
    connection.close()
    return found


def repair(path: Path, found: dict[str, str]) -> None:
    with sqlite3.connect(path) as connection:
        connection.executemany("UPDATE events SET event_data = ? WHERE id = ?", [(v, k) for k, v in found.items()])
    connection.close()


async def both(db: perdure.Perdure, path: Path, **more: Any) -> Imported:
    """The report of an import, which a dry run before it has told already."""
    before = list(db.find().items)
    tried = await import_from(db, str(path), dry_run=True, **more)
    assert list(db.find().items) == before
    found = await import_from(db, str(path), **more)
    assert msgspec.structs.replace(tried, dry_run=False) == found
    return found


@pytest.mark.parametrize("rewind", ["", "c", "d"])
@pytest.mark.parametrize("gaps", ["b", "bc", "ad", "f", "abcdef"])
async def test_what_could_not_be_read_is_filled_in_when_the_file_is_repaired(
    gaps: str, rewind: str, db: perdure.Perdure, tmp_path: Path
) -> None:
    path = tmp_path / "adk.db"
    lost = await damaged(path, *gaps, rewind=rewind)
    first = await import_from(db, str(path))
    assert (first.items, first.incomplete) == (6 - len(gaps), [NAME])
    assert db.named(NAME).info().tags == (INCOMPLETE,)
    repair(path, dict(list(lost.items())[:1]))
    await both(db, path)
    repair(path, lost)
    last = await both(db, path)
    assert (last.incomplete, last.items) == ([], len(gaps) - 1)
    reference = await SqliteSessionService(str(path)).get_session(**ONE)
    assert reference is not None
    await matching(db, [reference])
    session = db.named(NAME)
    assert session.info().tags == ()
    heard = [message.content for turn in session.turns() for message in turn.messages]
    assert heard == ([text for text in "abcdef" if text not in rewound_by(rewind)])
    again = await both(db, path)
    assert (again.sessions, [item.what for item in again.skipped]) == (0, [NAME])
    assert session.verify().ok


def rewound_by(rewind: str) -> str:
    return "abcdef"[1 : "abcdef".index(rewind) + 1] if rewind else ""


@pytest.mark.parametrize("rewind", ["", "a", "d"])
async def test_a_filling_that_was_stopped_goes_on(
    rewind: str, db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "adk.db"
    repaired = await damaged(path, "a", "d", rewind=rewind)
    await import_from(db, str(path))
    repair(path, repaired)

    async def killed(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    for step in ("record", "configure"):
        with monkeypatch.context() as during:
            during.setattr(perdure.AsyncSession, step, killed)
            with pytest.raises(KeyboardInterrupt):
                await import_from(db, str(path))
    assert (await both(db, path)).incomplete == []
    assert texts(await PerdureSessionService(db).get_session(**ONE)) == list("abcdef")
    assert db.named(NAME).info().tags == ()


async def test_gaps_stay_where_the_conversation_went_on_and_the_report_says_so(
    db: perdure.Perdure, tmp_path: Path
) -> None:
    path = tmp_path / "adk.db"
    repaired = await damaged(path, "b", "c")
    await import_from(db, str(path))
    service = PerdureSessionService(db)
    held = await service.get_session(**ONE)
    assert held is not None
    await service.append_event(held, said("here"))
    version = db.named(NAME).version()
    repair(path, repaired)
    for _ in range(2):
        report = await both(db, path)
        assert (report.sessions, report.items, report.incomplete) == (0, 0, [NAME])
        (left,) = report.skipped
        assert left.what == NAME
        assert "event b, event c" in left.why
        assert "erase" in left.why
        assert db.named(NAME).version() == version
    assert texts(await service.get_session(**ONE)) == ["a", "d", "e", "f", "here"]
    db.named(NAME).erase()
    assert (await both(db, path)).items == 6


@pytest.mark.parametrize("how", ["retract", "redact", "prune"])
async def test_what_was_taken_away_here_is_not_brought_back(
    how: str, db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.importers.google_adk.BATCH", 1)
    path = tmp_path / "adk.db"
    repaired = await damaged(path, "b")
    await import_from(db, str(path))
    session = db.named(NAME)
    place = session.conversation()[0].first
    if how == "retract":
        session.retract(place, place)
    elif how == "redact":
        session.redact([place])
    else:
        session.prune(place)
    left = texts(await PerdureSessionService(db).get_session(**ONE))
    assert "a" not in left
    repair(path, repaired)
    report = await both(db, path)
    assert (report.sessions, report.incomplete) == (0, [NAME])
    assert texts(await PerdureSessionService(db).get_session(**ONE)) == left


async def test_a_state_that_is_repaired_is_filled_in_and_other_tags_stay(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    await damaged(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE sessions SET state = 'nonsense'")
    connection.close()
    assert (await import_from(db, str(path))).incomplete == [NAME]
    db.named(NAME).configure(tags=["mine", INCOMPLETE])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE sessions SET state = '{\"k\": 1}'")
    connection.close()
    assert (await both(db, path)).incomplete == []
    reference = await SqliteSessionService(str(path)).get_session(**ONE)
    assert reference is not None
    await matching(db, [reference])
    assert (await PerdureSessionService(db).list_sessions(**WHO)).sessions[0].state == {"k": 1}
    assert db.named(NAME).info().tags == ("mine",)


# ── what is there already ──


async def grown(path: Path) -> None:
    """Two more events in the source, which change its state."""
    service = SqliteSessionService(str(path))
    held = await service.get_session(**ONE)
    assert held is not None
    await service.append_event(held, said("g", id="g"))
    await service.append_event(held, changing({"k": 2, "n": 3}, "h", id="h"))


async def test_a_database_that_grew_brings_what_is_new_with_the_state(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    await damaged(path)
    await import_from(db, str(path))
    await grown(path)
    report = await both(db, path)
    assert (report.sessions, report.items, report.skipped) == (1, 2, [])
    reference = await SqliteSessionService(str(path)).get_session(**ONE)
    assert reference is not None
    await matching(db, [reference])
    assert (await PerdureSessionService(db).list_sessions(**WHO)).sessions[0].state == {"k": 2, "n": 3}
    again = await both(db, path)
    assert (again.sessions, again.incomplete, "already" in again.skipped[0].why) == (0, [], True)


async def test_growth_that_was_cut_short_goes_on(
    db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "adk.db"
    await damaged(path)
    await import_from(db, str(path))
    await grown(path)
    monkeypatch.setattr("perdure.importers.google_adk.BATCH", 1)
    record, left = perdure.AsyncSession.record, [2]

    async def dying(self: perdure.AsyncSession, *given: Any, **more: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return await record(self, *given, **more)

    with monkeypatch.context() as during:
        during.setattr(perdure.AsyncSession, "record", dying)
        with pytest.raises(KeyboardInterrupt):
            await import_from(db, str(path))
    assert (await both(db, path)).items == 1
    reference = await SqliteSessionService(str(path)).get_session(**ONE)
    assert reference is not None
    await matching(db, [reference])


async def test_what_is_new_is_left_out_and_told_where_the_conversation_went_its_own_way(
    db: perdure.Perdure, tmp_path: Path
) -> None:
    path = tmp_path / "adk.db"
    await damaged(path)
    await import_from(db, str(path))
    db.named(NAME).record(Message(role="user", content="Said elsewhere"))
    here_only = await both(db, path)
    assert (here_only.incomplete, "already" in here_only.skipped[0].why) == ([], True)
    version = db.named(NAME).version()
    await grown(path)
    for _ in range(2):
        report = await both(db, path)
        assert (report.sessions, report.incomplete) == (0, [NAME])
        assert report.skipped[-1].why.startswith(f"{OWN}: 2 newer items were not imported")
        assert db.named(NAME).version() == version


async def test_another_session_of_the_name_stays_and_a_prefix_makes_room(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    await damaged(path)
    service = PerdureSessionService(db)
    held = await service.create_session(**ONE)
    await service.append_event(held, said("another"))
    report = await both(db, path)
    assert (report.sessions, report.incomplete) == (0, [NAME])
    assert report.skipped[-1].why.startswith(f"{OWN};")
    aside = await both(db, path, prefix="old-")
    assert aside.names == [f"old-{NAME}"]
    id = db.named(f"old-{NAME}").id
    assert {item.id for item in (await service.list_sessions(**WHO)).sessions} == {"s1", id}
    assert texts(await service.get_session(**WHO, session_id=id)) == list("abcdef")
    assert texts(await service.get_session(**ONE)) == ["another"]
    assert (await both(db, path, prefix="old-")).incomplete == []


async def test_the_original_times_are_kept_beside_what_was_said(db: perdure.Perdure, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "adk.db") as connection:
        connection.executescript(V1.format(json="TEXT", time="DATETIME"))
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", v1_rows())
    connection.close()
    await import_from(db, str(tmp_path / "adk.db"))
    session = db.named(NAME)
    assert session.info().metadata["began_at"] == "2026-01-01T00:00:00Z"
    assert [item.payloads[0].metadata["said_at"] for item in session.conversation()] == [
        "2026-01-01T00:00:01.250000Z",
        "2026-01-01T00:00:01.500000Z",
    ]
    await brought(db)


# ── the database service; its package, SQLAlchemy, need not be here ──

V1 = """
CREATE TABLE adk_internal_metadata (key VARCHAR(128) PRIMARY KEY, value VARCHAR(256) NOT NULL);
CREATE TABLE app_states (app_name VARCHAR(128) PRIMARY KEY, state {json} NOT NULL, update_time {time} NOT NULL);
CREATE TABLE user_states (app_name VARCHAR(128), user_id VARCHAR(128), state {json} NOT NULL,
    update_time {time} NOT NULL, PRIMARY KEY (app_name, user_id));
CREATE TABLE sessions (app_name VARCHAR(128), user_id VARCHAR(128), id VARCHAR(128), state {json} NOT NULL,
    create_time {time} NOT NULL, update_time {time} NOT NULL, PRIMARY KEY (app_name, user_id, id));
CREATE TABLE events (id VARCHAR(128), app_name VARCHAR(128), user_id VARCHAR(128), session_id VARCHAR(128),
    invocation_id VARCHAR(256) NOT NULL, timestamp {time} NOT NULL, event_data {json},
    PRIMARY KEY (id, app_name, user_id, session_id));
INSERT INTO adk_internal_metadata VALUES ('schema_version', '1');
INSERT INTO app_states VALUES ('shop', '{{"rate": 2}}', '2026-01-01 00:00:00.000000');
INSERT INTO user_states VALUES ('shop', 'ada', '{{"lang": "pt"}}', '2026-01-01 00:00:00.000000');
INSERT INTO sessions VALUES ('shop', 'ada', 's1', '{{"k": 1}}', '2026-01-01 00:00:00.000000',
    '2026-01-01 00:00:01.500000');
"""
HELD = {"k": 1, "app:rate": 2, "user:lang": "pt"}
EVENTS = [
    said("tulips?", timestamp=1767225601.25, id="e1"),
    changing({"k": 1}, "3 each", timestamp=1767225601.5, id="e2"),
]


def v1_rows() -> list[tuple[str, ...]]:
    times = ("2026-01-01 00:00:01.250000", "2026-01-01 00:00:01.500000")
    return [
        (event.id, "shop", "ada", "s1", event.invocation_id, time, event.model_dump_json(exclude_none=True))
        for event, time in zip(EVENTS, times, strict=True)
    ]


async def brought(db: perdure.Perdure) -> None:
    found = await PerdureSessionService(db).get_session(**ONE)
    assert found is not None
    assert found.state == HELD
    assert [item.model_dump_json() for item in found.events] == [item.model_dump_json() for item in EVENTS]


async def test_a_database_of_layout_1_is_brought_over(db: perdure.Perdure, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "adk.db") as connection:
        connection.executescript(V1.format(json="TEXT", time="DATETIME"))
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", v1_rows())
    connection.close()
    report = await import_from(db, f"sqlite:///{tmp_path / 'adk.db'}")
    assert (report.sessions, report.items, report.skipped) == (1, 2, [])
    await brought(db)


async def test_a_database_on_postgresql_is_brought_over(db: perdure.Perdure, server: Server) -> None:
    address = server.database()
    with psycopg.connect(address) as connection:
        connection.execute(V1.format(json="JSONB", time="TIMESTAMP").encode())
        connection.cursor().executemany("INSERT INTO events VALUES (%s, %s, %s, %s, %s, %s, %s)", v1_rows())
    report = await import_from(db, address.replace("postgresql:", "postgresql+asyncpg:"))
    assert (report.sessions, report.items, report.skipped) == (1, 2, [])
    await brought(db)


class Trap:
    """What a pickle must never be able to do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("caught",))


async def test_a_database_of_layout_0_is_brought_over_and_its_pickles_run_nothing(
    db: perdure.Perdure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (
        "id, app_name, user_id, session_id, invocation_id, author, branch, timestamp, content, grounding_metadata, "
        "custom_metadata, usage_metadata, citation_metadata, partial, turn_complete, error_code, error_message, "
        "interrupted, long_running_tool_ids_json, input_transcription, output_transcription, actions"
    )
    when = "2026-01-01 00:00:01.250000"
    content = types.Content(role="model", parts=[types.Part(text="3 each")]).model_dump_json(exclude_none=True)

    def row(id: str, actions: bytes | None) -> tuple[Any, ...]:
        said = (content, None, '{"a": 1}', None, None, 0, 1, None, None, None, '["t1"]', None, None, actions)
        return (id, "shop", "ada", "s1", "i1", "agent", None, when, *said)

    with sqlite3.connect(tmp_path / "adk.db") as connection:
        script = V1.format(json="TEXT", time="DATETIME").split(";")
        tables = [part for part in script if "adk_internal_metadata" not in part and "TABLE events" not in part]
        connection.executescript(";".join(tables))
        connection.execute(f"CREATE TABLE events ({columns})")
        marks = ", ".join("?" * 22)
        for id, actions in (
            ("e1", pickle.dumps(EventActions(state_delta={"k": 1}, escalate=True))),
            ("e2", pickle.dumps(Trap())),
            ("e3", b"\x80\x04nonsense"),
            ("e4", None),
        ):
            connection.execute(f"INSERT INTO events VALUES ({marks})", row(id, actions))
    connection.close()
    report = await import_from(db, str(tmp_path / "adk.db"))
    assert (report.sessions, report.items) == (1, 4)
    assert [item.what.split()[-1] for item in report.skipped] == ["e2", "e3"]
    assert capsys.readouterr().out == ""
    found = await PerdureSessionService(db).get_session(**ONE)
    assert found is not None
    assert found.state == HELD
    first = found.events[0]
    assert first.actions == EventActions(state_delta={"k": 1}, escalate=True)
    assert (first.timestamp, first.author, first.turn_complete, first.partial) == (1767225601.25, "agent", True, False)
    assert (first.custom_metadata, first.long_running_tool_ids) == ({"a": 1}, {"t1"})
    assert texts(found) == ["3 each"] * 4


async def test_what_the_database_service_itself_wrote_is_brought_over(db: perdure.Perdure, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from google.adk.sessions.database_session_service import DatabaseSessionService

    service = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
    wanted = await filled(service)
    await service.close()
    report = await import_from(db, str(tmp_path / "adk.db"))
    assert (report.sessions, report.skipped) == (3, [])
    assert report.items == sum(len(item.events) for item in wanted)


# ── what does not fit, and what was damaged ──


async def three(path: Path, **more: Any) -> Path:
    """Sessions a, b and c, with a word in each; b as told."""
    service = SqliteSessionService(str(path))
    for id in "abc":
        row = more if id == "b" else {}
        session = await service.create_session(**WHO, session_id=row.get("id", id), state=row.get("state"))
        await service.append_event(session, said(row.get("word", id)))
        await service.append_event(session, said("more"))
    return path


async def alike(db: perdure.Perdure, path: Path) -> Imported:
    """The report of an import, which a dry run before it has told already."""
    tried = await import_from(db, str(path), dry_run=True)
    found = await import_from(db, str(path))
    assert msgspec.structs.replace(tried, dry_run=False) == found
    return found


async def heard(db: perdure.Perdure, id: str) -> list[str | None]:
    return texts(await PerdureSessionService(db).get_session(**WHO, session_id=id))


async def test_an_event_that_is_too_large_is_named_and_the_rest_is_brought_over(
    db: perdure.Perdure, tmp_path: Path
) -> None:
    path = await three(tmp_path / "adk.db", word="x" * (9 << 20))
    report = await alike(db, path)
    assert (report.sessions, report.items, report.incomplete) == (3, 5, [session_name("shop", "ada", "b")])
    assert "more than 16777216 bytes" in report.skipped[0].why
    assert [await heard(db, id) for id in "abc"] == [["a", "more"], ["more"], ["c", "more"]]
    assert (await alike(db, path)).items == 0


async def test_state_that_is_too_large_is_named_and_the_rest_is_brought_over(
    db: perdure.Perdure, tmp_path: Path
) -> None:
    large = "x" * (5 << 20)
    path = await three(tmp_path / "adk.db", state={"large": large, "app:large": large, "user:lang": "pt"})
    report = await alike(db, path)
    name = session_name("shop", "ada", "b")
    assert (report.sessions, report.items, report.incomplete) == (3, 6, ["adk-app/shop", name])
    assert [one.what for one in report.skipped] == ["adk-app/shop", f"{name}: state"]
    found = await PerdureSessionService(db).get_session(**WHO, session_id="b")
    assert found is not None
    assert found.state == {"user:lang": "pt"}
    assert (await alike(db, path)).items == 0


@pytest.mark.parametrize("id", ["hex(zeroblob(600))", "CAST(x'ff41' AS TEXT)", "x'41'"])
@pytest.mark.parametrize("column", ["app_name", "user_id", "id"])
async def test_a_session_that_cannot_have_its_name_is_named_and_the_others_are_brought_over(
    tmp_path: Path, id: str, column: str
) -> None:
    path = await three(tmp_path / "adk.db", state={"app:rate": 1, "user:lang": "pt"})
    altered(path, f"UPDATE sessions SET {column} = {id} WHERE id = 'b'")
    with perdure.open(":memory:") as db:
        report = await alike(db, path)
        assert (report.sessions, len(report.skipped), len(report.incomplete)) == (2, 1, 1)
        assert [await heard(db, id) for id in "ac"] == [["a", "more"], ["c", "more"]]


@pytest.mark.parametrize("id", ["hex(zeroblob(600))", "CAST(x'ff41' AS TEXT)", "x'41'"])
@pytest.mark.parametrize(
    ("table", "column"), [("app_states", "app_name"), ("user_states", "app_name"), ("user_states", "user_id")]
)
async def test_state_that_belongs_to_nobody_is_named_and_the_rest_is_brought_over(
    tmp_path: Path, id: str, table: str, column: str
) -> None:
    path = await three(tmp_path / "adk.db", state={"app:rate": 1, "user:lang": "pt"})
    altered(path, f"UPDATE {table} SET {column} = {id}")
    with perdure.open(":memory:") as db:
        report = await alike(db, path)
        assert (report.sessions, len(report.skipped), len(report.incomplete)) == (3, 1, 1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET state = '{\"a\": ' || replace(hex(zeroblob(50000)), '0', '[') WHERE id = 'b'",
        "UPDATE events SET event_data = replace(hex(zeroblob(50000)), '0', '[') WHERE session_id = 'b'",
        "UPDATE events SET event_data = CAST(x'7bff7d' AS TEXT) WHERE session_id = 'b'",
        "UPDATE events SET event_data = 5 WHERE session_id = 'b'",
        "UPDATE events SET event_data = json_set(event_data, '$.timestamp', json('9e999')) WHERE session_id = 'b'",
        "UPDATE events SET id = CAST(x'ff' || hex(rowid) AS TEXT) WHERE session_id = 'b'",
        "UPDATE events SET id = x'ff' || hex(rowid) WHERE session_id = 'b'",
        "UPDATE app_states SET state = replace(hex(zeroblob(50000)), '0', '[')",
        "UPDATE app_states SET app_name = NULL",
    ],
)
async def test_a_damaged_row_is_named_and_the_rest_is_brought_over(tmp_path: Path, statement: str) -> None:
    path = await three(tmp_path / "adk.db", state={"app:rate": 1})
    altered(path, statement)
    with perdure.open(":memory:") as db:
        for _ in range(2):
            report = await alike(db, path)
            assert len(report.incomplete) == 1
        assert [await heard(db, id) for id in "ac"] == [["a", "more"], ["c", "more"]]
        await PerdureSessionService(db).get_session(**WHO, session_id="b")


@pytest.mark.parametrize("column", ["state", "app_name"])
async def test_sessions_that_lack_a_column_are_no_sessions_of_adks(tmp_path: Path, column: str) -> None:
    path = await three(tmp_path / "adk.db")
    altered(path, f"ALTER TABLE sessions RENAME COLUMN {column} TO other")
    with perdure.open(":memory:") as db, pytest.raises(errors.Invalid, match=f"no {column}"):
        await import_from(db, str(path))


async def test_bytes_that_flipped_stop_nothing_and_a_dry_run_says_the_same(tmp_path: Path) -> None:
    path = await three(tmp_path / "adk.db", state={"k": 1, "app:rate": 2, "user:lang": "pt"})
    flipped(path, import_from)


def altered(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA foreign_keys = OFF")
        file.execute(statement)
    file.close()
