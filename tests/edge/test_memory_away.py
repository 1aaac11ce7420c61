"""Memory with an embedder at an address: there or not, with a key by name, and never in the way."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.compose.memory import embedder_of
from perdure.core.errors import Invalid, PerdureError, ProviderDenied, ProviderDown, ProviderGarbled, ProviderRefused
from perdure.edge.memory import MemorySpace
from perdure.memory import MemorySettings
from perdure.testing import FixedAmbient
from tests.embedders.answering import KEY, Server, address, answering, nobodys_port

LATER = 31
LACKING = "by words alone: the embedder failed"
TALK = "I prefer window seats. Never book trains with less than 20 minutes to change."


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as server:
        yield server


def named(server: Server | int) -> str:
    return f"{address(server)}#m"


def lived(db: perdure.Perdure) -> MemorySpace:
    """Everything that needs no vectors, done once."""
    ana = db.memory("ana")
    kept = ana.add("Prefers a window seat")
    ana.add_many(["Lives in Lisbon", "Lives by the river"])
    changed = ana.update(kept.id, content="Prefers an aisle seat")
    assert ana.import_(["The night train leaves at ten"]).kept == 1
    session = db.create("Trip", config={"model": "offline/echo", "memory": {"agent": "ana"}})
    session.send(TALK)
    assert ana.extract(session).kept
    assert f"found {LACKING}" in {part.why for part in session.context("a seat").portions}
    found = ana.search("Which aisle seat?")
    assert (found[0].memory.id, found[0].lacking) == (changed.id, LACKING)
    assert {one.memory.content for one in found} >= {"Lives in Lisbon", "Lives by the river"}
    assert ana.get(kept.id).status == "superseded"
    assert len(ana.history(changed.id)) == 2
    assert ana.stats().embedder
    assert ana.stats().embedded == 0
    everybody = db.memory(lethe=True)
    everybody.add("Trains are late")
    assert everybody.review(ana.propose(changed.id, to=everybody).id, True).became
    ana.add("Lives in Lisbon.")
    assert ana.consolidate(dry=True).found
    run = ana.consolidate()
    assert (run.phase, LACKING in run.place) == ("ended", True)
    assert ana.forget(kept.id) >= 1
    return ana


def test_who_was_never_there_stops_nothing_but_what_asks_for_vectors(tmp_path: Path) -> None:
    port = nobodys_port()
    with perdure.open(tmp_path / "agent.db", memory=named(port)) as db, pytest.raises(ProviderDown):
        lived(db).reembed()
    with perdure.open(tmp_path / "agent.db", memory=named(port)) as db:
        ana = db.memory("ana")
        total = sum(ana.stats().counts.values())
        with pytest.raises(ProviderDown):
            ana.reembed()
        with answering(port):  # asked for just that, it is asked again at once
            done = ana.reembed()
        assert (done.made, done.left) == (total, 0)
        assert ana.search("seats")[0].lacking == LACKING  # gone again
    with answering(port), perdure.open(tmp_path / "agent.db", memory=named(port)) as db:
        assert db.memory("ana").search("seats")[0].lacking == ""


@pytest.mark.parametrize(
    ("behave", "error"),
    [("401", ProviderDenied), ("404", ProviderRefused), ("garbled", ProviderGarbled), ("500", ProviderDown)],
)
def test_who_answers_otherwise_stops_nothing_either(server: Server, behave: str, error: type[PerdureError]) -> None:
    server.behave = behave
    with perdure.open(":memory:", memory=named(server)) as db:
        ana = lived(db)
        with pytest.raises(error):
            ana.reembed()
        server.behave = ""
        assert ana.reembed().left == 0


def test_a_model_that_makes_other_vectors_than_before_is_gone_without(server: Server, tmp_path: Path) -> None:
    where = tmp_path / "agent.db"
    with perdure.open(where, memory=named(server)) as db:
        db.memory("ana").add_many(["Prefers a window seat", "Lives in Lisbon"])
    server.behave = "other size"
    embedder_of.cache_clear()  # as another process
    with perdure.open(where, memory=named(server)) as db:
        ana = db.memory("ana")
        ana.add("Likes tea")
        assert [one.lacking for one in ana.search("window seat")] == [LACKING] * 3
        assert ana.search("window seat")[0].memory.content == "Prefers a window seat"
        assert ana.search("tea")[0].memory.content == "Likes tea"


def test_searches_do_not_ask_again_and_again(server: Server) -> None:
    clock = FixedAmbient()
    with perdure.open(":memory:", memory=named(server), ambient=clock) as db:
        ana = db.memory("ana")
        ana.add("Prefers a window seat")
        server.behave = "503"
        server.asked.clear()
        for _ in range(5):
            assert ana.search("a seat")[0].lacking == LACKING
        assert len(server.asked) == 1
        clock.advance(LATER)
        server.behave = ""
        assert ana.search("a seat")[0].lacking == ""
        assert len(server.asked) == 2


async def test_who_waits_for_an_endpoint_keeps_no_event_loop_waiting(server: Server) -> None:
    async with perdure.aopen(":memory:", memory=named(server)) as db:
        ana = db.memory("ana")
        await ana.add("Prefers a window seat")
        server.behave = "slow"
        searching = asyncio.create_task(ana.search("a seat"))
        turns = 0
        while not searching.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert turns > 20
        assert (await searching)[0].memory.content == "Prefers a window seat"


def test_a_key_is_given_by_the_name_of_its_variable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.behave = "guarded"
    monkeypatch.setenv("OUR_KEY", KEY)
    for given in (
        MemorySettings(embedder=named(server), key_env="OUR_KEY"),
        {"embedder": named(server), "key_env": "OUR_KEY"},
    ):
        with perdure.open(":memory:", memory=given) as db:
            ana = db.memory("ana")
            ana.add("Prefers a window seat")
            assert (ana.stats().embedded, ana.search("seat")[0].lacking) == (1, "")
    assert set(server.keys) == {f"Bearer {KEY}"}
    with perdure.open(":memory:", memory=named(server)) as db:
        db.memory("ana").add("Prefers a window seat")
        with pytest.raises(ProviderDenied, match="key_env"):
            db.memory("ana").reembed()


def test_a_key_that_is_not_there_is_told_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUR_KEY", raising=False)
    with pytest.raises(Invalid, match="OUR_KEY"):
        perdure.open(":memory:", memory={"embedder": named(server), "key_env": "OUR_KEY"})
    assert server.asked == []


@pytest.mark.parametrize("around", ["\n", "\r\n", " "])
def test_a_key_may_come_from_a_file_that_ends_in_a_line(
    server: Server, monkeypatch: pytest.MonkeyPatch, around: str
) -> None:
    server.behave = "guarded"
    monkeypatch.setenv("OUR_KEY", f"{KEY}{around}")
    with perdure.open(":memory:", memory=MemorySettings(embedder=named(server), key_env="OUR_KEY")) as db:
        db.memory("ana").add("Prefers a window seat")
        assert db.memory("ana").stats().embedded == 1


@pytest.mark.parametrize("key", [f"{KEY}\nmore", f"{KEY}☃", "\n"])
def test_a_key_that_cannot_be_sent_is_told_at_once_and_not_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OUR_KEY", key)
    with pytest.raises(Invalid, match=r"OUR_KEY.*key_env|key_env.*OUR_KEY") as wrong:
        perdure.open(":memory:", memory=MemorySettings(embedder=named(server), key_env="OUR_KEY"))
    assert KEY not in wrong.value.message + repr(wrong.value.fields)


@pytest.mark.parametrize("status", ["400", "401", "500"])
def test_what_an_endpoint_repeats_of_memories_is_told_to_nobody(server: Server, status: str) -> None:
    server.behave = status
    with perdure.open(":memory:", memory=named(server)) as db:
        ana = db.memory("ana")
        ana.add("The diagnosis is secret")
        for _ in range(2):
            with pytest.raises(PerdureError) as failed:
                ana.reembed()
            assert failed.value.fields["status"] == int(status)
            assert "diagnosis" not in failed.value.message + repr(failed.value.fields)


@pytest.mark.parametrize(
    "given",
    [
        "bogus",
        "http://127.0.0.1/ü#m",
        "http://ex ample/v1#m",
        "http://.example/v1#m",
        {"embedder": "sentence-transformers:"},
        MemorySettings(embedder="https://h#"),
    ],
)
def test_a_name_that_no_embedder_has_is_told_at_once(given: Any, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="https://"):
        perdure.open(tmp_path / "agent.db", memory=given)
    assert not (tmp_path / "agent.db").exists()


def test_a_store_whose_embedder_is_not_installed_closes_all_the_same(tmp_path: Path) -> None:
    try:
        import sentence_transformers  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        db = perdure.open(tmp_path / "agent.db", memory="sentence-transformers:any")
        for ask in (lambda: db.memory("ana").add("tea"), lambda: db.memory("ana").search("tea")):
            with pytest.raises(Invalid, match="pip install"):
                ask()
        db.close()
