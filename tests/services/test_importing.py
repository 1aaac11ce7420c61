"""A session is rebuilt from its export exactly, or not at all."""

import random
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.core.errors import AlreadyExists, BadExport, Invalid, NotFound, PruneRefused, UnknownKind, VersionConflict
from perdure.core.session import codec, jsonl, kinds
from perdure.core.session import commands as do
from perdure.core.session.chain import commitment
from perdure.core.session.event import Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.turns import Message
from perdure.edge.files import lines as lines_of_file
from perdure.ports.store import Query
from perdure.services.exporting import Progress
from perdure.services.importing import ImportReport
from perdure.services.loading import SnapshotPolicy
from perdure.stores.sqlite import SqliteStore
from perdure.stores.volatile import VolatileStore
from perdure.testing import FixedAmbient
from perdure.waiting import drive
from tests.core.session import plain_values
from tests.services.world import World, edited


async def same_session(here: World, there: World, session: SessionId) -> None:
    """Assert that a session is the same in two worlds, in every respect that an export carries."""
    ours, theirs = await here.sessions.log.head(session), await there.sessions.log.head(session)
    armed = theirs.row.due_at  # the log does not tell when a sweeper looks next
    assert theirs.row == msgspec.structs.replace(ours.row, due_at=armed)
    assert (theirs.anchor_version, theirs.anchor_digest) == (ours.anchor_version, ours.anchor_digest)
    assert [(item.origin, item.upto, item.digest) for item in theirs.segments] == [
        (item.origin, item.upto, item.digest) for item in ours.segments
    ]
    assert await there.told(session) == await here.told(session)
    assert await there.states(session) == await here.states(session)
    assert (await there.verifying.verify(session)).problems == ()


async def test_a_session_comes_back_as_it_was(world: World, elsewhere: World) -> None:
    session = await world.story()
    report = await elsewhere.take(await world.lines(session))
    row = (await world.sessions.log.head(session)).row
    assert (report.session, report.version, report.events, report.existed) == (session, row.version, row.version, False)
    assert report.redacted == 4
    await same_session(world, elsewhere, session)


async def test_an_imported_session_exports_to_the_same_bytes(world: World, elsewhere: World) -> None:
    session = await world.story()
    lines = await world.lines(session)
    await elsewhere.take(lines)
    assert await elsewhere.lines(session) == lines


async def test_records_keep_their_grouping(world: World, elsewhere: World) -> None:
    session = await world.story()
    await elsewhere.take(await world.lines(session))
    asked: dict[str, Any] = {"after": 0, "upto": 1000, "limit": 1000}
    assert await elsewhere.store.run(session, **asked) == await world.store.run(session, **asked)


async def test_a_branch_stands_alone_where_it_is_imported(world: World, elsewhere: World) -> None:
    root = await world.create()
    await world.turn(root)
    middle = await world.branch(root, 5)
    await world.turn(middle)
    leaf = await world.branch(middle)
    await world.turn(leaf)
    await elsewhere.take(await world.lines(leaf))
    await same_session(world, elsewhere, leaf)
    head = await elsewhere.sessions.log.head(leaf)
    assert {item.source for item in head.segments} == {leaf}
    assert [item.origin for item in head.segments] == [root, middle]
    assert await elsewhere.store.head(root) is None


async def test_an_imported_branch_can_be_branched_and_exported_again(world: World, elsewhere: World) -> None:
    root = await world.create()
    await world.turn(root)
    branch = await world.branch(root, 5)
    await elsewhere.take(await world.lines(branch))
    twig = await elsewhere.branch(branch, 3)
    await elsewhere.turn(twig)
    await world.take(await elsewhere.lines(twig))
    await same_session(elsewhere, world, twig)


async def test_a_pruned_session_comes_back(world: World, elsewhere: World) -> None:
    session = await world.create()
    await world.turn(session)
    await world.set_vars(session, {"kept": True})
    await world.turn(session)
    await world.erasure.prune(session, 10)
    await elsewhere.take(await world.lines(session))
    await same_session(world, elsewhere, session)
    assert (await elsewhere.sessions.loader.load(session)).state.vars.document == {"kept": True}
    assert (await elsewhere.verifying.verify(session)).pruned_to == 10


async def test_a_branch_of_a_pruned_session_comes_back(world: World, elsewhere: World) -> None:
    root = await world.create()
    await world.turn(root)
    await world.turn(root)
    await world.erasure.prune(root, 6)
    branch = await world.branch(root, 8)
    await world.turn(branch)
    await elsewhere.take(await world.lines(branch))
    await same_session(world, elsewhere, branch)


async def test_life_goes_on_after_an_import(world: World, elsewhere: World) -> None:
    session = await world.story()
    await elsewhere.take(await world.lines(session))
    await elsewhere.turn(session, "and on")
    await elsewhere.checkpoints.take(session, "new")
    assert (await elsewhere.verifying.verify(session)).problems == ()


async def test_an_imported_session_is_found_and_told_of(world: World, elsewhere: World) -> None:
    session = await world.story()
    before = await elsewhere.store.position()
    await elsewhere.take(await world.lines(session))
    query = Query(tenant="local", owner="ada", tags=("x",), metadata={"n": 1}, text="third")
    assert [row.session for row in await elsewhere.store.find(query)] == [session]
    told = await elsewhere.store.changes(before, 1000)
    assert {change.session for change in told} == {session}
    assert told[-1].last == (await world.sessions.log.head(session)).row.version


async def test_the_feed_does_not_tell_of_inherited_records_again(world: World, elsewhere: World) -> None:
    root = await world.create()
    await world.turn(root)
    branch = await world.branch(root, 5)
    await elsewhere.take(await world.lines(branch))
    assert [change.first for change in await elsewhere.store.changes(0, 100)] == [6]


async def test_checkpoints_stay_behind(world: World, elsewhere: World) -> None:
    session = await world.story()
    (first, *_) = await world.checkpoints.list(session)
    await elsewhere.take(await world.lines(session))
    assert await elsewhere.checkpoints.list(session) == ()
    with pytest.raises(NotFound):
        await elsewhere.checkpoints.restore(first.id)


async def test_importing_again_changes_nothing(world: World, elsewhere: World) -> None:
    session = await world.story()
    lines = await world.lines(session)
    await elsewhere.take(lines)
    position = await elsewhere.store.position()
    again = await elsewhere.take(lines)
    assert again.existed
    assert await elsewhere.store.position() == position
    assert (await world.take(lines)).existed


async def test_an_id_that_stands_for_another_version_is_taken(world: World) -> None:
    session = await world.create()
    lines = await world.lines(session)
    await world.turn(session)
    with pytest.raises(AlreadyExists) as refusal:
        await world.take(lines)
    assert (refusal.value.found, refusal.value.version) == (9, 2)


async def test_a_session_that_appears_meanwhile_is_not_overwritten(world: World, elsewhere: World) -> None:
    session = await world.create()
    lines = await world.lines(session)

    async def with_a_rival() -> Any:
        for line in lines:
            yield line
        await elsewhere.take(lines)

    assert (await elsewhere.importing.import_lines(with_a_rival())).existed


async def test_lines_may_come_as_text_without_newlines_or_from_windows(world: World, elsewhere: World) -> None:
    session = await world.create(title="ünï")
    lines = await world.lines(session)
    as_text: Iterable[Any] = [line.decode().rstrip("\n") for line in lines]
    assert not (await elsewhere.importing.import_lines(as_text)).existed
    assert (await elsewhere.take([line[:-1] + b"\r\n" for line in lines])).existed


async def test_another_spelling_of_the_json_is_read_as_well(world: World, elsewhere: World) -> None:
    session = await world.story()
    await elsewhere.take([codec.to_json(codec.from_json(line)) for line in await world.lines(session)])
    await same_session(world, elsewhere, session)


async def test_an_export_flows_from_store_to_store(world: World, elsewhere: World) -> None:
    session = await world.story()
    await elsewhere.importing.import_lines(world.exporting.export(session))
    await same_session(world, elsewhere, session)


async def test_an_export_in_a_file_is_read_line_by_line(world: World, elsewhere: World, tmp_path: Path) -> None:
    session = await world.story()
    path = tmp_path / "story.jsonl"
    path.write_bytes(b"".join(await world.lines(session)))
    await elsewhere.importing.import_lines(lines_of_file(str(path)))
    await same_session(world, elsewhere, session)
    with pytest.raises(NotFound):
        list(lines_of_file(str(tmp_path / "nowhere.jsonl")))


async def test_progress_tells_of_events(world: World, elsewhere: World) -> None:
    session = await world.create()
    for _ in range(40):
        await world.turn(session)
    told: list[tuple[int, int]] = []
    progress: Progress = lambda done, total: told.append((done, total))  # noqa: E731
    await elsewhere.importing.import_lines(await world.lines(session), progress)
    assert told[-1] == (282, 282)
    assert told == sorted(told)


async def test_another_tenants_session_is_not_taken_in(world: World, tmp_path: Path) -> None:
    session = await world.create()
    lines = await world.lines(session)
    stranger = World(VolatileStore(), tenant="stranger")
    with pytest.raises(BadExport, match="tenant"):
        await stranger.take(lines)


# ── what is wrong is refused, and nothing is written ──────────────────────────────────────────────


def other_hex(text: str) -> str:
    return ("0" if text[0] != "0" else "1") + text[1:]


def spoiled(lines: list[bytes]) -> Iterable[tuple[str, int, list[bytes]]]:
    """Everything that can be wrong with an export: what, on which line, and the lines."""
    last = len(lines)
    message = next(index for index, line in enumerate(lines) if b'"kind":"message"' in line)
    header, event, footer = (codec.from_json(lines[index]) for index in (0, message, -1))

    def at(index: int, **changes: Any) -> list[bytes]:
        return [*lines[:index], edited(lines[index], **changes), *lines[index + 1 :]]

    def instead(index: int, *texts: bytes) -> list[bytes]:
        return [*lines[:index], *texts, *lines[index + 1 :]]

    yield "cut before the footer", last, lines[:-1]
    yield "cut in an event", message + 1, [*lines[:message], lines[message][:40]]
    yield "empty", 1, []
    yield "an event missing", message + 1, instead(message)
    yield "an event twice", message + 2, instead(message, lines[message], lines[message])
    yield "two events swapped", message + 1, instead(message, lines[message + 1], lines[message])
    yield "no header", 1, lines[1:]
    yield "two headers", 2, [lines[0], *lines]
    yield "something after the end", last + 1, [*lines, lines[-1]]
    yield "not json", message + 1, instead(message, b"{nonsense}\n")
    yield "not an object", message + 1, instead(message, b"[1]\n")
    yield "not utf-8", message + 1, instead(message, lines[message].replace(b"hello", b"\xff\xfe"))
    yield "a blank line", message + 1, instead(message, b"\n", lines[message])
    yield "a key twice", message + 1, instead(message, lines[message].replace(b'"at":', b'"at":1,"at":'))
    yield "an unknown field", message + 1, at(message, surprise=1)
    yield "an unknown field in the header", 1, at(0, surprise=1)
    yield "an unknown line", 2, instead(1, b'{"perdure":"checkpoint"}\n')
    yield "a newer format", 1, at(0, format=2)
    yield "no format", 1, at(0, format=None)
    yield "another version in the header", last, at(0, version=header["version"] + 1)
    yield "another digest in the header", last - 1, at(0, digest=other_hex(header["digest"]))
    yield "another session in the header", 2, at(0, session=event["id"])
    yield "an id in another spelling", 1, at(0, session=header["session"].upper())
    yield (
        "segments that are not there",
        message,
        at(0, segments=[{"origin": header["session"], "upto": message - 1, "digest": header["digest"]}]),
    )
    yield "other words", message + 1, at(message, data=event["data"] | {"content": "goodbye"})
    yield "one more field in the data", message + 1, at(message, data=event["data"] | {"more": 1})
    yield "data that is no map", message + 1, at(message, data=[1])
    yield "another blind", message + 1, at(message, blind="AAAAAAAAAAAAAAAAAAAAAA==")
    yield "a short blind", message + 1, at(message, blind="AAAA")
    yield "a blind that is not base64", message + 1, at(message, blind="A A=")
    yield "no blind", message + 1, at(message, blind=None)
    yield "no data", message + 1, at(message, data=None)
    yield "data and raw", message + 1, at(message, raw="")
    yield "a commitment too many", message + 1, at(message, commitment=header["digest"])
    yield "redacted with its data", message + 1, at(message, redacted=True)
    yield (
        "redacted by someone",
        last,
        at(message, redacted=True, blind=None, data=None, commitment=_commitment(event).hex()),
    )
    yield (
        "a redacted beginning",
        2,
        at(1, redacted=True, blind=None, data=None, commitment=_commitment(codec.from_json(lines[1])).hex()),
    )
    yield "another digest", message + 1, at(message, digest=other_hex(event["digest"]))
    yield "a digest in capitals", message + 1, at(message, digest="A" * 64)
    yield "another kind", message + 1, at(message, kind="turn_finished")
    yield "another kind version", message + 1, at(message, kind_version=0)
    yield "another time", message + 1, at(message, at=event["at"] + 1)
    yield "a time that is no number", message + 1, at(message, at="now")
    yield "a time beyond all numbers", message + 1, at(message, at=1 << 63)
    yield "another actor", message + 1, at(message, actor="nobody")
    yield "another key", message + 1, at(message, key="k")
    yield "another turn", message + 1, at(message, turn=99)
    yield "another target", message + 1, at(message, target="x")
    yield "another agent", message + 1, at(message, agent="x")
    yield "another id", message + 1, at(message, id=header["session"])
    yield "another origin", message + 1, at(message, session=event["id"])
    yield "another tenant on a line", message + 1, at(message, tenant="x")
    yield "another record", message + 1, at(message, record=event["record"] + 1)
    yield "another version", message + 1, at(message, version=event["version"] + 1)
    yield "a footer with another number", last, at(-1, events=footer["events"] - 1)
    yield "a footer with another digest", last, at(-1, digest=other_hex(footer["digest"]))


def _commitment(event: dict[str, Any]) -> bytes:
    return commitment(jsonl.from_base64(event["blind"], 1, "blind"), codec.encode(event["data"]))


async def test_whatever_is_wrong_is_refused_with_its_line_and_nothing_is_written(
    world: World, elsewhere: World
) -> None:
    session = await world.create()
    await world.turn(session, "hello")
    lines = await world.lines(session)
    for what, number, bad in spoiled(lines):
        with pytest.raises(BadExport) as refusal:
            await elsewhere.take(bad)
        assert abs(refusal.value.line - number) <= 2, (what, number, refusal.value.message)
        assert await elsewhere.store.head(session) is None, what
    assert await elsewhere.store.position() == 0


async def test_a_line_that_is_too_long_is_refused(
    world: World, elsewhere: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = await world.lines(await world.create(title="x" * 2000))
    monkeypatch.setattr(jsonl, "MAX_LINE", 1000)
    with pytest.raises(BadExport, match="line 2"):
        await elsewhere.take(lines)


async def test_an_anchor_that_was_changed_is_refused(world: World, elsewhere: World) -> None:
    session = await world.create()
    await world.turn(session)
    await world.erasure.prune(session, 2)
    lines = await world.lines(session)
    anchor = codec.from_json(lines[0])["anchor"]
    other = jsonl.base64(b"\x80")
    for change in (
        {"version": 3},
        {"digest": other_hex(anchor["digest"])},
        {"sha": other_hex(anchor["sha"])},
        {"state": other},
        {"state": other, "sha": sha256(b"\x80").hexdigest()},
    ):
        with pytest.raises(BadExport):
            await elsewhere.take([edited(lines[0], anchor=anchor | change), *lines[1:]])
    assert await elsewhere.store.head(session) is None


class Dreamt(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A kind that no release knows."""

    kind: ClassVar[str] = "dreamt"
    callers: ClassVar[bool] = True


async def test_a_kind_of_tomorrow_asks_for_an_upgrade(
    world: World, elsewhere: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as tomorrow:
        tomorrow.setitem(kinds.KINDS, Dreamt.kind, Dreamt)
        tomorrow.setitem(kinds._DECODERS, Dreamt.kind, codec.decoder(Dreamt))
        session = await world.create()
        await world.append(session, Dreamt())
        lines = await world.lines(session)
    with pytest.raises(UnknownKind, match="upgrade"):
        await elsewhere.take(lines)
    with pytest.raises(BadExport):
        await elsewhere.take([*lines[:-2], edited(lines[-2], kind="told"), lines[-1]])
    report = await world.verifying.verify(session)
    assert [(problem.place, problem.versions) for problem in report.problems] == [("log", (3, 3))]


async def test_fields_this_version_does_not_know_are_kept(world: World, elsewhere: World) -> None:
    class Message2(Message, frozen=True, kw_only=True, omit_defaults=True):
        mood: str = ""

    session = await world.create()
    await world.append(session, Message2(role="user", content="x", mood="good"))
    lines = await world.lines(session)
    assert codec.from_json(lines[-2])["data"]["mood"] == "good"
    await elsewhere.take(lines)
    assert await elsewhere.lines(session) == lines


async def test_a_store_that_fails_half_way_has_nothing_of_the_session(world: World, elsewhere: World) -> None:
    session = await world.story()
    lines = await world.lines(session)
    whole = elsewhere.store.bring

    async def half(head: Any, records: Any, snapshot: Any) -> None:
        def failing() -> Iterable[Any]:
            for index, item in enumerate(records):
                if index == 3:
                    raise VersionConflict("the world ends here")
                yield item

        await whole(head, failing(), snapshot)

    elsewhere.store.bring = half  # type: ignore[method-assign]
    with pytest.raises(VersionConflict):
        await elsewhere.take(lines)
    elsewhere.store.bring = whole  # type: ignore[method-assign]
    assert await elsewhere.store.head(session) is None
    assert (await elsewhere.store.run(session, after=0, upto=99, limit=99)).records == ()
    await elsewhere.take(lines)
    await same_session(world, elsewhere, session)


async def test_any_changed_byte_is_refused_or_means_the_same(world: World, elsewhere: World) -> None:
    session = await world.story()
    lines = await world.lines(session)
    chance = random.Random(7)
    taken = 0
    for _ in range(400):
        bad = list(lines)
        index = chance.randrange(len(bad))
        line = bytearray(bad[index])
        place = chance.randrange(len(line) - 1)
        line[place] ^= 1 << chance.randrange(8)
        bad[index] = bytes(line)
        try:
            await elsewhere.take(bad)
        except (BadExport, UnknownKind):
            assert await elsewhere.store.head(session) is None
        else:
            taken += 1
            await same_session(world, elsewhere, session)
            await elsewhere.erasure.erase(session)
    assert taken < 40


# ── whatever a session went through ───────────────────────────────────────────────────────────────

Step = tuple[str, Any, int]


def step(what: str, with_: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Something that happens to one of the sessions there are."""
    return st.tuples(st.just(what), with_, st.integers(0, 3))


steps = st.lists(
    st.one_of(
        step("turn", plain_values.values),
        step("vars", plain_values.documents),
        step("say", plain_values.texts),
        step("redact", st.integers(0, 50)),
        step("branch", st.integers(0, 50)),
        step("checkpoint", plain_values.texts),
        step("prune", st.integers(1, 20)),
        step("configure", plain_values.documents),
        step("erase", st.none()),
    ),
    max_size=14,
)


async def happen(world: World, sessions: list[SessionId], what: str, with_: Any, session: SessionId) -> None:
    match what:
        case "turn":
            await world.turn(session, with_)
        case "vars":
            await world.set_vars(session, with_)
        case "say":
            await world.append(session, Message(role="user", content=with_))
        case "redact":
            mine = [
                event for event in await world.events(session) if event.session == session and event.data.redactable
            ]
            await world.erasure.redact(session, [mine[with_ % len(mine)].version] if mine else [])
        case "branch":
            head = await world.sessions.log.head(session)
            sessions.append(await world.branch(session, 1 + with_ % head.row.version))
        case "checkpoint":
            await world.checkpoints.take(session, with_)
        case "prune":
            await world.erasure.prune(session, with_)
        case "configure":
            await world.sessions.handle(session, do.Configure(metadata=with_))
        case "erase" if len(sessions) > 1:
            await world.erasure.erase(session)
            sessions.remove(session)


async def live(world: World, story: list[Step]) -> list[SessionId]:
    """Let all this happen, beginning with one session; the sessions there are in the end."""
    sessions = [await world.create(title="it")]
    for what, with_, which in story:
        with suppress(Invalid, NotFound, PruneRefused):
            await happen(world, sessions, what, with_, sessions[which % len(sessions)])
    return sessions


@given(steps, st.booleans(), st.sampled_from([1, 3, 1000]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_session_went_through_it_comes_back(
    tmp_path_factory: pytest.TempPathFactory, story: list[Step], on_disk: bool, snapshot_every: int
) -> None:
    folder = tmp_path_factory.mktemp("there") if on_disk else None

    async def there_and_back() -> None:
        here, there = (
            World(
                SqliteStore(str(folder / f"{name}.db"), FixedAmbient()) if folder is not None else VolatileStore(),
                seed=name.encode(),
                snapshots=SnapshotPolicy(events=snapshot_every),
            )
            for name in ("here", "there")
        )
        for session in await live(here, story):
            assert (await here.verifying.verify(session)).problems == ()
            await there.take(await here.lines(session))
            await same_session(here, there, session)
        await here.store.close()
        await there.store.close()

    drive(there_and_back())


def test_the_report_is_plain_data() -> None:
    report = ImportReport(session=SessionId("s"), version=1, events=1, redacted=0, existed=False)
    assert msgspec.json.decode(msgspec.json.encode(report), type=ImportReport) == report
