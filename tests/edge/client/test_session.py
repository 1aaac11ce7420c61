"""What a remote handle gives is what the store has: equal to the embedded library over the same file."""

import inspect
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure import events as ev
from perdure.core.errors import Refused
from perdure.core.session.state import to_bytes
from perdure.edge.blobs import AsyncBlobs
from perdure.edge.client.blobs import RemoteBlobs
from perdure.edge.client.library import RemotePerdure
from perdure.edge.client.session import RemoteSession
from perdure.edge.client.turn import RemoteTurn
from perdure.edge.library import AsyncPerdure
from perdure.edge.session import AsyncSession
from perdure.edge.turn import AsyncTurn
from tests.edge.client.served import Served, served

PAIRS = [
    (AsyncPerdure, RemotePerdure),
    (AsyncSession, RemoteSession),
    (AsyncTurn, RemoteTurn),
    (AsyncBlobs, RemoteBlobs),
]


class Both:
    """A server's store by both doors: over HTTP, and embedded, from the same file."""

    def __init__(self, far: perdure.Perdure, near: perdure.Perdure) -> None:
        self.far = far
        self.near = near


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    folder = tmp_path_factory.mktemp("both")
    with served(folder) as server:
        yield server, folder / "served.db"


@pytest.fixture
def both(place: tuple[Served, Path]) -> Iterator[Both]:
    server, path = place
    with perdure.connect(server.url, server.key) as far, perdure.open(path) as near:
        yield Both(far, near)


def lived(db: perdure.Perdure) -> perdure.Session:
    """A session in which much has happened."""
    session = db.create(
        "Lisbon trip",
        tags=["b", "a"],
        metadata={"raw": b"\x00"},
        vars={"set": frozenset({1, 2})},
        config={"model": "m"},
    )
    with session.turn({"$odd": [1.0, None]}, model="large") as turn:
        call = turn.ask("search", {"to": "LIS"})
        turn.start(call, key="once")
        turn.finish(call, ["TP 567", b"\xff"])
        turn.answer("TP 567")
        turn.count(10, 3)
    session.write_scratchpad("- a seat by the window")
    session.record(ev.native("mine", {"id": 1}, [ev.Message(role="user", content="and back?")]))
    session.checkpoint("here", {"why": b"so"})
    return session


def test_a_long_conversation_comes_in_pages_and_is_whole(both: Both) -> None:
    far = both.far.create()
    far.record([ev.Message(role=role, content=f"{n}") for n in range(1100) for role in ("user", "assistant")])
    near = both.near.session(far.id)
    assert len(far.turns()) == 1100
    assert far.turns() == near.turns()
    assert far.turns(1050) == near.turns(1050)
    assert len(far.conversation()) == 2200
    assert far.conversation() == near.conversation()
    assert far.conversation(1050) == near.conversation(1050)


def test_everything_read_over_a_connection_equals_what_the_store_gives(both: Both) -> None:
    far = lived(both.far)
    branch = far.branch(3, title="other")
    branch.patch_vars(more=1)
    far.merge(branch)
    far.redact(far.append(ev.Message(role="user", content="secret")))
    for id in (far.id, branch.id):
        one, other = both.far.session(id), both.near.session(id)
        assert one.info() == other.info()
        assert one.version() == other.version()
        assert to_bytes(one.state()) == to_bytes(other.state())
        assert to_bytes(one.state(2)) == to_bytes(other.state(2))
        assert one.events() == other.events()
        assert [event.data for event in one.events()] == [event.data for event in other.events()]
        assert [(event.id, event.at, event.actor, event.key) for event in one.events()] == [
            (event.id, event.at, event.actor, event.key) for event in other.events()
        ]
        assert one.turns() == other.turns()
        assert one.turns(1) == other.turns(1)
        assert one.conversation() == other.conversation()
        assert one.conversation(2) == other.conversation(2)
        assert [event for page in one.backwards(2) for event in page] == [
            event for page in other.backwards(2) for event in page
        ]
        assert one.vars() == other.vars()
        assert one.scratchpad() == other.scratchpad()
        assert one.checkpoints() == other.checkpoints()
        assert one.branches() == other.branches()
        assert one.lineage() == other.lineage()
        assert one.account() == other.account()
        assert one.diff(3) == other.diff(3)
        assert one.verify() == other.verify()
        assert one.export() == other.export()
        assert one.tail("nobody", 5) == other.tail("nobody", 5)
    (checkpoint,) = far.checkpoints()
    assert far.restore(checkpoint.id) == both.near.session(far.id).restore(checkpoint.id)


def test_lists_equal_what_the_store_gives(both: Both) -> None:
    session = lived(both.far)
    for conditions in ({"tags": ["a"]}, {"metadata": {"raw": b"\x00"}}, {"title": "Lisbon trip"}, {"phase": "active"}):
        assert both.far.find(**conditions) == both.near.find(**conditions)  # type: ignore[arg-type]
        assert both.far.count(**conditions) == both.near.count(**conditions)  # type: ignore[arg-type]
    first = both.far.find(limit=1)
    assert both.far.find(limit=1, cursor=first.cursor) == both.near.find(limit=1, cursor=first.cursor)
    assert session.id == first.items[0].session
    assert both.far.position() == both.near.position()
    with pytest.raises(errors.BadCursor):
        both.far.find(limit=1, cursor="nonsense")


def test_a_log_of_several_pages_comes_whole_and_proven(both: Both) -> None:
    session = both.far.create()
    session.append([ev.Message(role="user", content=str(number)) for number in range(2500)])
    near = both.near.session(session.id)
    assert session.events() == near.events()
    assert session.events(1200, 2300) == near.events(1200, 2300)
    assert session.events(9999) == near.events(9999) == []
    assert [event for page in session.backwards() for event in page] == near.events()[::-1]


def test_what_was_changed_on_the_way_is_noticed(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.edge.client import reading

    session = lived(both.far)
    whole = reading.events_of

    def meddled(documents: Any, before: Any = None) -> Any:
        found = list(documents)
        found[4] = {**found[4], "actor": "somebody else"}
        return whole(found, before)

    monkeypatch.setattr(reading, "events_of", meddled)
    with pytest.raises(errors.Tampered, match="event 5"):
        session.events()


def test_blobs_come_and_go_in_pieces(both: Both, tmp_path: Path) -> None:
    content = os.urandom(700_000)
    (tmp_path / "a.bin").write_bytes(content)
    ref = both.far.blobs.put(tmp_path / "a.bin", media_type="image/png")
    assert both.far.blobs.put(content[start : start + 999] for start in range(0, len(content), 999)) == ref
    assert both.far.blobs.stat(ref) == both.near.blobs.stat(ref)
    assert both.far.blobs.get(ref) == content
    with both.far.blobs.open(ref) as file:
        file.seek(300_000)
        assert file.read(10) == content[300_000:300_010]
    assert both.far.blobs.save(ref, tmp_path / "b.bin") == len(content)
    assert (tmp_path / "b.bin").read_bytes() == content
    assert both.far.blobs.list() == both.near.blobs.list()
    assert both.far.blobs.get(both.far.blobs.put(b"")) == b""
    with pytest.raises(errors.TooLarge):
        both.far.blobs.get(ref, limit=10)
    with pytest.raises(errors.BlobMissing):
        both.far.blobs.get("perdure:blob/" + "0" * 64)
    session = both.far.create()
    assert session.attach(content) == ref
    session.append(ev.Message(role="user", content={"image": ref}))
    assert both.far.blobs.stat(ref).used


def test_an_export_to_a_file_is_taken_in_again(both: Both, tmp_path: Path) -> None:
    session = lived(both.far)
    assert session.export(tmp_path / "s.jsonl") == []
    assert session.mirror(tmp_path / "m.jsonl") == session.version() + 1
    session.append(ev.Message(role="user", content="more"))
    assert session.mirror(tmp_path / "m.jsonl", finish=True) == 2
    assert (tmp_path / "m.jsonl").read_bytes().splitlines()[1:] == [line.rstrip() for line in session.export()][1:]
    with pytest.raises(errors.BadExport, match="choose another file"):
        both.far.create().mirror(tmp_path / "m.jsonl")
    digest = session.info().digest
    session.erase()
    report = both.far.import_report(tmp_path / "m.jsonl")
    assert (report.session, report.existed) == (session.id, False)
    assert both.far.session(session.id).info().digest == digest
    assert both.far.import_report((tmp_path / "m.jsonl").read_bytes().splitlines()).existed
    with pytest.raises(errors.BadExport):
        both.far.import_report([b"nonsense"])


def test_a_branch_goes_by_the_name_that_led_to_its_id(both: Both) -> None:
    session = both.far.create()
    made = session.branch(id=both.far.named("the other way").id)
    assert made.id == both.far.named("the other way").id
    assert both.near.named("the other way").info() == made.info()
    with pytest.raises(errors.AlreadyExists):
        session.branch(id=made.id)
    with pytest.raises(Refused, match="the server chooses ids"):
        session.branch(id="0192f0c4-7d1e-7abc-8def-0123456789ab")


def test_a_name_that_is_an_id_is_refused(both: Both) -> None:
    session = both.far.create()
    with pytest.raises(errors.Invalid, match="choose another name"):
        both.far.create(name=session.id)
    assert both.far.create("A title", name="titled", metadata={"n": 1}).info().name == "titled"


async def test_changes_are_watched_as_they_come(place: tuple[Served, Path]) -> None:
    server, _ = place
    async with perdure.aconnect(server.url, server.key) as db:
        session = await db.create()
        other = await db.create()
        start = await db.position()
        seen: AsyncIterator[Any] = session.watch(start)
        await other.append(ev.Message(role="user", content="elsewhere"))
        version = await session.append(ev.Message(role="user", content="here"))
        change = await anext(seen)
        assert (change.session, change.last, change.kinds) == (session.id, version, ("message",))
        version = await session.patch_vars(a=1)
        assert (await anext(seen)).last == version
        await seen.aclose()  # type: ignore[attr-defined]


def test_blocking_callers_watch_too(both: Both) -> None:
    start = both.far.position()
    session = both.far.create()
    for change in both.far.watch(start):
        assert (change.session, change.first) == (session.id, 1)
        break


def test_what_belongs_to_the_store_is_refused_with_what_to_do(both: Both) -> None:
    db, session = both.far, both.far.create()
    for act in (
        lambda: db.before("*", print),
        lambda: db.after("*", print),
        lambda: db.compensation("undo", print),
        lambda: db.tools,
        lambda: db.backup("copy.db"),
        db.sweep,
        lambda: list(db.sweeper()),
        lambda: db.webhook("notify", "https://example.org", "secret"),
        session.compensate,
        db.blobs.collect,
    ):
        with pytest.raises(Refused, match="not over a connection; "):
            act()


@pytest.mark.parametrize(("near", "far"), PAIRS)
def test_no_method_reaches_for_a_store_that_is_not_there(near: type, far: type) -> None:
    """What is inherited may only be made of what is not."""
    left = []
    for name in dir(near):
        found = inspect.getattr_static(far, name)
        code = found.fget if isinstance(found, property) else found
        if not name.startswith("__") and inspect.isfunction(code) and "_services" in inspect.getsource(code):
            left.append(name)
    own = {"_query", "_hook", "_latest", "_own", "_events", "_spawning", "_talking"}
    """Steps of methods that are all replaced."""
    assert [name for name in left if name not in own] == []


def test_costs_and_corrections_are_the_same_by_both_doors(both: Both) -> None:
    far = both.far.create(config={"max_cost": 100, "max_tokens": 90, "max_rounds": 3})
    near = both.near.session(far.id)
    far.reserve("a", 60, tokens=50, rounds=1)
    near.settle("a", 60, estimated=True, tokens=40, rounds=1)
    far.correct("a", 20)
    found = far.costs()
    assert found == near.costs()
    assert (found.spent, found.estimated, found.tokens, found.rounds) == (20, 0, 40, 1)
    assert found.limits["cost"] == far.account() == near.account()
    assert found.limits["tokens"].left == 50
    for session in (far, near):
        with pytest.raises(errors.LimitReached) as refusal:
            session.reserve("b", 1, tokens=51)
        assert (refusal.value.limit, refusal.value.left, refusal.value.asked) == ("tokens", 50, 51)
        with pytest.raises(errors.NotFound):
            session.correct("a", 10)
