"""An export says everything a session's log says, in lines that stand alone."""

from pathlib import Path

import apsw
import pytest

from perdure.core.errors import NotFound, Tampered
from perdure.core.session import codec, jsonl
from perdure.core.session.chain import commitment
from perdure.core.session.ids import SessionId
from perdure.core.session.turns import Message
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient
from tests.services.world import World


async def test_an_export_has_a_header_a_line_for_each_event_and_a_footer(world: World) -> None:
    session = await world.story()
    row = (await world.sessions.log.head(session)).row
    first, *events, last = await world.lines(session)
    header = codec.from_json(first)
    assert header == {
        "perdure": "session",
        "format": 1,
        "session": session,
        "tenant": "local",
        "version": row.version,
        "digest": row.digest.hex(),
        "anchor": None,
        "segments": [],
    }
    assert [codec.from_json(line)["version"] for line in events] == list(range(1, row.version + 1))
    assert codec.from_json(last) == {"perdure": "end", "events": row.version, "digest": row.digest.hex()}
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in (first, *events, last))


async def test_a_line_shows_its_data_as_people_read_it_and_commits_to_it(world: World) -> None:
    session = await world.create()
    await world.append(session, Message(role="user", content="hello", metadata={"raw": b"\x01"}))
    line = codec.from_json((await world.lines(session))[-2])
    assert line["kind"] == "message"
    assert line["actor"] == "someone"
    assert line["data"] == {"role": "user", "content": "hello", "metadata": {"raw": b"\x01"}}
    event = (await world.events(session))[-1]
    blind = jsonl.from_base64(line["blind"], 1, "blind")
    assert commitment(blind, codec.encode(line["data"])) == event.commitment
    assert line["digest"] == event.digest.hex()
    assert "agent" not in line


async def test_a_redacted_event_shows_its_commitment_and_nothing_else(world: World) -> None:
    session = await world.create()
    version = await world.append(session, Message(role="user", content="secret"))
    (before,) = [event for event in await world.events(session) if event.version == version]
    await world.erasure.redact(session, [version])
    text = b"".join(await world.lines(session))
    line = codec.from_json(text.splitlines()[version])
    assert line["redacted"] is True
    assert line["commitment"] == before.commitment.hex()
    assert "data" not in line
    assert "blind" not in line
    assert b"secret" not in text


async def test_a_branch_brings_its_shared_prefix_along(world: World) -> None:
    parent = await world.create()
    await world.turn(parent)
    branch = await world.branch(parent, 4)
    await world.turn(branch)
    first, *events, _ = await world.lines(branch)
    digest = (await world.events(parent))[3].digest.hex()
    assert codec.from_json(first)["segments"] == [{"origin": parent, "upto": 4, "digest": digest}]
    assert [codec.from_json(line)["session"] for line in events[:5]] == [parent] * 4 + [branch]


async def test_lines_of_one_append_name_its_first_version(world: World) -> None:
    session = await world.create()
    await world.turn(session)
    records = [codec.from_json(line)["record"] for line in (await world.lines(session))[1:-1]]
    assert records == [1, 1, 3, 3, 3, 3, 7, 7, 7]


async def test_a_pruned_session_is_exported_with_what_it_stands_on(world: World) -> None:
    session = await world.create()
    await world.turn(session)
    await world.turn(session)
    pruned = await world.erasure.prune(session, 6)
    first, *events, _ = await world.lines(session)
    anchor = codec.from_json(first)["anchor"]
    assert anchor["version"] == pruned == 6
    assert codec.from_json(events[0])["version"] == 7


async def test_progress_reaches_the_number_of_events(world: World) -> None:
    session = await world.create()
    for _ in range(40):
        await world.turn(session)
    told: list[tuple[int, int]] = []
    async for _ in world.exporting.export(session, lambda done, total: told.append((done, total))):
        pass
    assert told == [(256, 282), (282, 282)]


async def test_a_session_that_is_not_there_cannot_be_exported(world: World) -> None:
    with pytest.raises(NotFound):
        await world.lines(SessionId(world.sessions.fresh_id()))


async def test_a_changed_byte_stops_the_export(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    store = SqliteStore(path, FixedAmbient())
    world = World(store)
    session = await world.create()
    await world.turn(session)
    connection = apsw.Connection(path)
    connection.execute("UPDATE record SET digest = zeroblob(32) WHERE first = 3")
    connection.close()
    with pytest.raises(Tampered):
        await world.lines(session)
    await store.close()
