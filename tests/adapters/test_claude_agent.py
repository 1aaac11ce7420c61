"""The Claude Agent SDK's session store: judged by the SDK's own contracts, by its own functions, and by its own runner
with the real command line and a model that runs here.
"""

import json
import multiprocessing
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    delete_session_via_store,
    fold_session_summary,
    fork_session_via_store,
    get_session_info_from_store,
    get_session_messages_from_store,
    get_subagent_messages_from_store,
    list_sessions_from_store,
    list_subagents_from_store,
    project_key_for_directory,
    query,
    rename_session_via_store,
    tag_session_via_store,
)
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure import errors
from perdure.adapters.claude_agent import PerdureSessionStore, place_of
from perdure.adapters.google_adk import PerdureSessionService
from perdure.adapters.langgraph_store import PerdureStore
from perdure.adapters.parts.pairing import INTERRUPTED
from perdure.events import Message, Noted, ToolAsked, ToolFinished
from tests.adapters.claude_transcripts import KEY, OTHER, PROJECT, SESSION, exchange, line, model, uid
from tests.stores.postgres_server import Server, server

__all__ = ["server"]


@pytest.fixture
async def db() -> AsyncIterator[perdure.AsyncPerdure]:
    async with await perdure.aopen(":memory:") as opened:
        yield opened


@pytest.fixture
def store(db: perdure.AsyncPerdure) -> PerdureSessionStore:
    return PerdureSessionStore(db)


# ── the SDK's contracts ──

CONTRACTS = 14  # each is put to a store of its own, after one that is asked which methods there are


async def held(make: Callable[[], Awaitable[PerdureSessionStore]]) -> int:
    """How many contracts were judged; the SDK leaves out those for methods that a store lacks, and raises for those
    that do not hold.
    """
    stores: list[PerdureSessionStore] = []

    async def another() -> PerdureSessionStore:
        stores.append(await make())
        return stores[-1]

    await run_session_store_conformance(another)
    return len(stores) - 1


@pytest.mark.parametrize("kind", ["memory", "clear", "sealed", "blocking"])
async def test_every_contract_of_the_sdk_holds(kind: str, tmp_path: Path) -> None:
    numbers = iter(range(100))
    async with AsyncExitStack() as stack:

        async def make() -> PerdureSessionStore:
            path = ":memory:" if kind == "memory" else str(tmp_path / f"{next(numbers)}.db")
            if kind == "blocking":
                return PerdureSessionStore(stack.enter_context(perdure.open(path, seal=False)))
            return PerdureSessionStore(
                await stack.enter_async_context(
                    await perdure.aopen(path, seal=None if kind == "memory" else kind == "sealed")
                )
            )

        assert await held(make) == CONTRACTS


@pytest.mark.slow
@pytest.mark.parametrize("seal", [False, True])
async def test_every_contract_of_the_sdk_holds_on_postgresql(seal: bool, server: Server, tmp_path: Path) -> None:
    address, numbers = server.database(), iter(range(100))
    keys: dict[str, Any] = {"key": tmp_path / "master", "vault": tmp_path / "keys"} if seal else {}
    async with AsyncExitStack() as stack:

        async def make() -> PerdureSessionStore:
            opened = await perdure.aopen(address, tenant=f"tenant{next(numbers)}", seal=seal, **keys)
            return PerdureSessionStore(await stack.enter_async_context(opened))

        assert await held(make) == CONTRACTS


async def test_a_store_that_breaks_a_contract_is_found_out(db: perdure.AsyncPerdure) -> None:
    class Backwards(PerdureSessionStore):
        async def load(self, key: Any) -> Any:
            return list(reversed(await super().load(key) or [])) or None

    async def make() -> PerdureSessionStore:
        return Backwards(db)

    with pytest.raises(AssertionError):
        await held(make)


def test_a_wrong_key_or_entry_is_refused_by_name(store: PerdureSessionStore) -> None:
    wrong: Any
    for wrong in (
        {},
        {"project_key": "p"},
        {**KEY, "session_id": ""},
        {**KEY, "subpath": ""},
        {**KEY, "subpath": 3},
        None,
    ):
        with pytest.raises(errors.Invalid):
            perdure.drive(store.load(wrong))
    for wrong in (
        "text",
        {"type": "x", "data": object()},
        {"type": ["user"]},
        {"type": {}, "message": {}},
        {"type": 5},
    ):
        with pytest.raises(errors.Invalid):
            perdure.drive(store.append(KEY, [wrong]))
    assert perdure.drive(store.load(KEY)) is None


def test_no_two_keys_lead_to_one_session() -> None:
    keys: list[Any] = [
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a%2Fb", "session_id": "c"},
        {"project_key": "a", "session_id": "b", "subpath": "c/d"},
    ]
    assert len({place_of(key).name for key in keys}) == len(keys)


# ── what goes in comes out ──

TEXTS = st.text(st.characters(), max_size=12)  # lone surrogates too: a cut in an emoji leaves one
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
BLOCKS = st.one_of(
    VALUES,
    st.fixed_dictionaries({"type": st.just("text"), "text": VALUES | TEXTS}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": TEXTS, "name": TEXTS, "input": VALUES}),
    st.fixed_dictionaries(
        {"type": st.just("tool_result"), "tool_use_id": TEXTS, "content": VALUES}, optional={"is_error": VALUES}
    ),
)
ENTRIES = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "x"])},
    optional={
        "uuid": TEXTS,
        "message": VALUES | st.fixed_dictionaries({"role": TEXTS, "content": TEXTS | st.lists(BLOCKS, max_size=4)}),
        "isSidechain": VALUES,
        "isMeta": st.booleans(),
        "more": VALUES,
    },
)


def same(a: Any, b: Any) -> bool:
    """Equal to JSON: 1 and 1.0 and true differ."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


@settings(max_examples=150)
@given(appends=st.lists(st.lists(ENTRIES, max_size=5), max_size=4))
def test_whatever_entries_hold_they_come_back_in_order_each_uuid_once(appends: list[list[Any]]) -> None:
    expected, known = [], set()
    for entry in (entry for append in appends for entry in append):
        uuid = entry.get("uuid")
        if uuid and uuid.encode("utf-8", "replace") in known:
            continue
        known.add((uuid or "").encode("utf-8", "replace"))
        expected.append(entry)
    with perdure.open(":memory:") as db:
        store = PerdureSessionStore(db)
        for append in appends:
            perdure.drive(store.append(KEY, append))
        assert same(perdure.drive(store.load(KEY)), expected or None)
        again = PerdureSessionStore(db)
        for append in appends:
            perdure.drive(again.append(KEY, [entry for entry in append if entry.get("uuid")]))
        assert same(perdure.drive(again.load(KEY)), expected or None)


async def test_a_character_cut_in_half_is_no_reason_to_lose_an_entry(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    entry: Any = line(1, "user", "half a \ud83d", deep={"float": float("inf"), "large": 2**80})
    await store.append(KEY, [entry])
    assert await store.load(KEY) == [entry]
    (item,) = await db.named(place_of(KEY).name).conversation()
    assert item.payloads[0].content == "half a ?"  # type: ignore[union-attr]


async def test_a_large_entry_comes_back_whole_and_is_read_by_its_beginning(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    large = line(1, "user", [{"type": "tool_result", "tool_use_id": "t", "content": "é" * (9 << 20)}])
    await store.append(KEY, [large, line(2, "user", "short", 1)])
    await store.append(KEY, [large])
    assert await store.load(KEY) == [large, line(2, "user", "short", 1)]
    conversation = await db.named(place_of(KEY).name).conversation()
    assert len(str(conversation[0].payloads[0])) < 10_000


async def test_more_entries_than_one_append_takes_are_all_there(store: PerdureSessionStore) -> None:
    many: list[Any] = [line(number, "user", f"{number}") for number in range(1, 5001)]
    await store.append(KEY, many)
    assert await store.load(KEY) == many


# ── the conversation ──


async def test_entries_read_as_turns(store: PerdureSessionStore, db: perdure.AsyncPerdure) -> None:
    entries: list[Any] = exchange()
    await store.append(KEY, entries)
    session = db.named(place_of(KEY).name)
    (turn,) = await session.turns()
    assert turn.status == "finished"
    assert [message.content for message in turn.messages if type(message.content) is str] == [
        "Find a flight",
        "I look.",
        "TP 123 at nine.",
    ]
    spoken = [payload for item in await session.conversation() for payload in item.payloads]
    assert [(item.name, item.arguments) for item in spoken if isinstance(item, ToolAsked)] == [
        ("Bash", {"command": "flights"})
    ]
    assert [item.result for item in spoken if isinstance(item, ToolFinished)] == ["TP 123"]
    notes = [event.data.about for event in await session.events() if isinstance(event.data, Noted)]
    assert notes == ["queue-operation", "attachment", "last-prompt"]
    assert (await session.info()).title == "Find a flight"


async def test_a_turn_mirrored_line_by_line_is_one_turn(store: PerdureSessionStore, db: perdure.AsyncPerdure) -> None:
    entries: list[Any] = exchange()
    for entry in entries:
        await store.append(KEY, [entry])
    await store.append(KEY, [line(10, "user", "Thanks", 7)])
    session = db.named(place_of(KEY).name)
    assert [turn.status for turn in await session.turns()] == ["finished", "open"]
    assert await store.load(KEY) == [*entries, line(10, "user", "Thanks", 7)]


async def test_a_failed_tool_is_an_error(store: PerdureSessionStore, db: perdure.AsyncPerdure) -> None:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "no such file"}]}
    await store.append(KEY, [*exchange()[:6], line(6, "user", [{**block, "is_error": True}], 5)])  # type: ignore[list-item]
    last = (await db.named(place_of(KEY).name).conversation(last=1))[0].payloads[0]
    assert isinstance(last, ToolFinished)
    assert last.error == "no such file"


async def test_what_is_aside_of_the_conversation_is_kept_but_not_said(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    entries: list[Any] = [
        line(1, "user", "Find a flight"),
        line(2, "user", "Caveat", 1, isMeta=True),
        line(3, "user", "Look at fares", None, isSidechain=True),
        line(4, "user", "Earlier: a flight was wanted", 2, isCompactSummary=True),
    ]
    await store.append(KEY, entries)
    below: Any = {**KEY, "subpath": "subagents/agent-1"}
    await store.append(below, [entries[2]])
    assert await store.load(KEY) == entries
    assert [item.native for item in await db.named(place_of(KEY).name).conversation()] == [entries[0]]
    assert [item.native for item in await db.named(place_of(below).name).conversation()] == [entries[2]]


async def test_what_others_say_in_between_is_read_as_entries_of_the_same_chain(
    store: PerdureSessionStore, db: perdure.AsyncPerdure, tmp_path: Path
) -> None:
    key: Any = {**KEY, "project_key": project_key_for_directory(tmp_path)}
    entries: list[Any] = exchange()
    await store.append(key, entries)
    session = db.named(place_of(key).name)
    await session.record(
        [
            Message(role="user", content="And a hotel?"),
            ToolAsked(call="call:1", name="hotels", arguments={"city": "Lisbon"}),
            ToolFinished(call="call:1", result={"name": "Avenida"}),
            Message(role="assistant", content="The Avenida."),
        ]
    )
    loaded: Any = await store.load(key)
    assert loaded[: len(entries)] == entries
    others = loaded[len(entries) :]
    assert [entry["parentUuid"] for entry in others] == [uid(7), *[entry["uuid"] for entry in others[:-1]]]
    assert [entry["message"]["content"][0] for entry in others] == [
        {"type": "text", "text": "And a hotel?"},
        {"type": "tool_use", "id": "call_1", "name": "hotels", "input": {"city": "Lisbon"}},
        {"type": "tool_result", "tool_use_id": "call_1", "content": '{"name": "Avenida"}'},
        {"type": "text", "text": "The Avenida."},
    ]
    await store.append(key, others)
    assert await store.load(key) == loaded
    messages = await get_session_messages_from_store(store, SESSION, str(tmp_path))
    assert [message.uuid for message in messages][-5:] == [uid(7), *[entry["uuid"] for entry in others]]


async def test_a_session_of_another_framework_is_opened_by_its_id_from_one_project(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    begun = await db.create("A trip", metadata={"mine": 1})
    await begun.record([Message(role="user", content="Hello"), Message(role="assistant", content="Hi")])
    here: Any = {"project_key": "here", "session_id": begun.id}
    there: Any = {"project_key": "there", "session_id": begun.id}
    loaded: Any = await store.load(here)
    assert [entry["type"] for entry in loaded] == ["user", "assistant"]
    assert await store.list_sessions("here") == []
    await store.append(here, [line(9, "user", "Go on")])
    assert [entry["uuid"] for entry in await store.load(here) or []] == [*[e["uuid"] for e in loaded], uid(9)]
    assert [item["session_id"] for item in await store.list_sessions("here")] == [begun.id]
    assert (await begun.info()).metadata["mine"] == 1
    assert (await begun.info()).title == "A trip"
    assert await store.load(there) is None
    assert await PerdureSessionStore(db, shared=False).load(here) is None
    await store.delete(here)
    with pytest.raises(errors.NotFound):
        await begun.info()


async def test_what_is_no_conversation_is_not_reached_by_its_name(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    memories = PerdureStore(db)
    await memories.aput(("memories", "ana"), "k", {"v": 1})
    service = PerdureSessionService(db)
    await service.create_session(app_name="shop", user_id="ada", session_id="s", state={"user:card": "1", "app:n": 2})
    shelf = db.named("langgraph-store/memories.ana")
    branch = await shelf.branch()
    names = ["langgraph-store/memories.ana", shelf.id, branch.id, "adk-user/shop/ada", "adk-app/shop"]
    for name in names:
        version = await db.named(name).version()  # it is there
        key: Any = {"project_key": "p", "session_id": name}
        assert await store.load(key) is None
        await store.delete(key)
        entry: Any = line(1, "user", "Hello")
        await store.append(key, [entry])
        assert await store.load(key) == [entry]
        await store.delete(key)
        assert await db.named(name).version() == version
    assert (await memories.aget(("memories", "ana"), "k")).value == {"v": 1}  # type: ignore[union-attr]
    assert await service.get_user_state(app_name="shop", user_id="ada") == {"card": "1"}


async def test_thoughts_of_other_models_are_left_out(store: PerdureSessionStore, db: perdure.AsyncPerdure) -> None:
    session = await db.create(name="o")
    thought = {"type": "thinking", "thinking": "THOUGHT"}
    secret = {"type": "redacted_thinking", "data": "THOUGHT"}
    key: Any = {"project_key": "p", "session_id": "o"}
    await session.record([Message(role="assistant", content=[thought])])
    assert await store.load(key) is None
    await session.record(
        [
            Message(role="user", content="q"),
            Message(role="assistant", content=[thought]),
            Message(role="assistant", content=[secret, thought]),
            Message(role="assistant", content=[thought, {"type": "text", "text": "a"}]),
            Message(role="assistant", content=[thought, {"type": "odd", "text": "b"}]),
        ]
    )
    loaded: Any = await store.load(key)
    assert [[block["text"] for block in entry["message"]["content"]] for entry in loaded] == [["q"], ["a"], ["b"]]
    assert [entry["parentUuid"] for entry in loaded] == [None, *[entry["uuid"] for entry in loaded[:-1]]]


@pytest.mark.parametrize("odd", [None, 5, 2.5, True, "", "\ud800", [], ["a"], [[]], {}, {"a": 1}, [{"type": []}]])
@pytest.mark.parametrize("where", ["uuid", "parentUuid", "sessionId", "timestamp", "message", "content", "isSidechain"])
async def test_a_field_of_another_kind_is_kept_as_it_is(
    where: str, odd: Any, store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    entry: Any = line(1, "user", "Hello")
    if where == "content":
        entry["message"]["content"] = odd
    else:
        entry[where] = odd
    await store.append(KEY, [entry])
    session = db.named(place_of(KEY).name)
    await session.record([Message(role="assistant", content="Hi")])
    assert (await store.load(KEY) or [])[0] == entry
    assert len(await store.list_session_summaries(KEY["project_key"])) == 1
    await session.turns()


# ── listing ──


async def test_a_summary_is_what_the_sdk_folds_and_needs_no_log(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    entries: list[Any] = [*exchange(), {"type": "custom-title", "customTitle": "Lisbon", "uuid": uid(20)}]
    for first in range(0, len(entries), 3):
        await store.append(KEY, entries[first : first + 3])
    (summary,) = await store.list_session_summaries(PROJECT)
    assert summary["data"] == fold_session_summary(None, KEY, entries)["data"]
    assert [{"session_id": SESSION, "mtime": summary["mtime"]}] == await store.list_sessions(PROJECT)
    row = await db.named(place_of(KEY).name).info()
    assert row.metadata["claude_summary"] == summary["data"]
    assert row.title == "Lisbon"


async def test_a_transcript_shows_the_name_of_its_session_whatever_its_title(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    nested: Any = {**KEY, "subpath": "subagents/agent-a1"}
    await store.append(KEY, exchange()[:4])
    await store.append(nested, [line(31, "user", "Look", None, isSidechain=True)])
    await store.append(KEY, exchange()[4:])
    await rename_session_via_store(store, SESSION, "My flight", directory="/srv/trip")
    rows = (await db.find()).items
    assert {row.name: row.title for row in rows} == {
        f"claude/{PROJECT}/{SESSION}": "My flight",
        f"claude/{PROJECT}/{SESSION}/subagents/agent-a1": "subagents/agent-a1",
    }


async def test_a_transcript_that_lost_its_name_to_a_title_gets_it_back(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    place = place_of(KEY)
    older = await db.create("Find a flight", id=db.named(place.name).id, metadata=place.marks)
    assert (await older.info()).name is None
    await store.append(KEY, exchange())
    row = await older.info()
    assert (row.title, row.name) == ("Find a flight", place.name)


async def test_more_sessions_than_a_page_are_listed(store: PerdureSessionStore, db: perdure.AsyncPerdure) -> None:
    for number in range(1001):
        place = place_of({"project_key": PROJECT, "session_id": f"s{number}"})
        await db.create(name=place.name, metadata=place.marks)
    assert len(await store.list_sessions(PROJECT)) == 1001


async def test_the_sdks_own_functions_work_on_the_store(store: PerdureSessionStore, tmp_path: Path) -> None:
    where = str(tmp_path)
    key: Any = {"project_key": project_key_for_directory(where), "session_id": SESSION}
    below: Any = {**key, "subpath": "subagents/agent-a1"}
    await store.append(key, exchange())  # type: ignore[arg-type]
    await store.append(below, [line(30, "user", "Look", None, isSidechain=True)])  # type: ignore[list-item]
    assert await list_subagents_from_store(store, SESSION, where) == ["a1"]
    assert len(await get_subagent_messages_from_store(store, SESSION, "a1", where)) == 1
    messages = await get_session_messages_from_store(store, SESSION, where)
    assert [message.uuid for message in messages] == [uid(number) for number in (1, 3, 4, 5, 6, 7)]
    await rename_session_via_store(store, SESSION, "A trip", where)
    await tag_session_via_store(store, SESSION, "travel", where)
    (listed,) = await list_sessions_from_store(store, where)
    assert (listed.summary, listed.tag, listed.first_prompt) == ("A trip", "travel", "Find a flight")
    info = await get_session_info_from_store(store, SESSION, where)
    assert info is not None
    assert info.custom_title == "A trip"
    fork = await fork_session_via_store(store, SESSION, where, title="Another trip")
    assert len(await get_session_messages_from_store(store, fork.session_id, where)) == len(messages)
    assert {item.summary for item in await list_sessions_from_store(store, where)} == {"A trip", "Another trip"}
    await delete_session_via_store(store, SESSION, where)
    assert await store.load(key) is None
    assert await store.load(below) is None
    assert [item.session_id for item in await list_sessions_from_store(store, where)] == [fork.session_id]


async def test_a_key_that_was_deleted_begins_anew(store: PerdureSessionStore) -> None:
    await store.append(KEY, exchange())  # type: ignore[arg-type]
    await store.delete(KEY)
    await store.append(KEY, exchange()[:2])  # type: ignore[arg-type]
    assert await store.load(KEY) == exchange()[:2]


# ── several at once ──


def append_some(path: str, who: int, count: int) -> None:
    """One process's share: entries of its own, and some that both have."""
    with perdure.open(path) as db:
        store = PerdureSessionStore(db)
        for number in range(count):
            own: Any = line(1000 * who + number, "user", f"{who} says {number}")
            both: Any = line(number, "user", f"both say {number}")
            perdure.drive(store.append(KEY, [own, both]))


@pytest.mark.slow
def test_two_processes_on_one_session_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    perdure.open(path, seal=False).close()
    spawning = multiprocessing.get_context("spawn")
    processes = [spawning.Process(target=append_some, args=(path, who, 25)) for who in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    with perdure.open(path) as db:
        loaded: Any = perdure.drive(PerdureSessionStore(db).load(KEY))
        summaries = perdure.drive(PerdureSessionStore(db).list_session_summaries(PROJECT))
    uuids = [entry["uuid"] for entry in loaded]
    assert len(uuids) == len(set(uuids)) == 75
    for who in (0, 1, 2):
        mine = [uuid for uuid in uuids if uuid in {uid(1000 * who + number) for number in range(25)}]
        assert mine == [uid(1000 * who + number) for number in range(25)]
    assert len(summaries) == 1
    assert summaries[0]["data"]["first_prompt"] == loaded[0]["message"]["content"]


# ── the real command line ──


@pytest.mark.slow
async def test_the_real_command_line_runs_a_turn_and_resumes_from_the_store_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run has an empty configuration folder: all it knows of the conversation, it has from the store."""
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    work = tmp_path / "work"
    work.mkdir()
    async with await perdure.aopen(tmp_path / "s.db") as db:
        store = PerdureSessionStore(db)
        with model() as (address, asked):

            async def ask(prompt: str, **options: Any) -> ResultMessage:
                home = tmp_path / f"home{len(asked)}"
                home.mkdir()
                env = {
                    "HOME": str(home),
                    "CLAUDE_CONFIG_DIR": str(home / "config"),
                    "ANTHROPIC_BASE_URL": address,
                    "ANTHROPIC_API_KEY": "none",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    "DISABLE_AUTOUPDATER": "1",
                }
                asking = ClaudeAgentOptions(
                    cwd=work, session_store=store, env=env, allowed_tools=["Bash"], setting_sources=[], **options
                )
                found = [item async for item in query(prompt=prompt, options=asking)]
                assert isinstance(found[-1], ResultMessage)
                return found[-1]

            first = await ask("use a tool")
            assert first.result == "Answer 2."
            (listed,) = await list_sessions_from_store(store, str(work))
            session = db.named(
                place_of({"project_key": project_key_for_directory(work), "session_id": listed.session_id}).name
            )
            assert [turn.status for turn in await session.turns()] == ["finished"]
            await session.record([Message(role="user", content="elsewhere?"), Message(role="assistant", content="yes")])
            second = await ask("and now?", resume=first.session_id)
            assert second.session_id == first.session_id
            told = json.dumps(asked[-1])
            assert all(text in told for text in ("use a tool", "from-the-tool", "Answer 2.", "elsewhere?", "and now?"))
            begun = await db.create("elsewhere")
            await begun.record(
                [Message(role="user", content="begun elsewhere"), Message(role="assistant", content="so it was")]
            )
            third = await ask("go on", resume=begun.id)
            assert third.session_id == begun.id
            assert all(text in json.dumps(asked[-1]) for text in ("begun elsewhere", "so it was", "go on"))
            stopped = await db.create("stopped")
            await stopped.record(
                [Message(role="user", content="look it up"), ToolAsked(call="c1", name="Bash", arguments={})]
            )
            await ask("what came of it?", resume=stopped.id)
            kinds = [
                [block["type"] for block in message["content"]]
                for message in asked[-1]
                if "c1" in json.dumps(message["content"])
            ]
            assert ["tool_use" in kinds[0], "tool_result" in kinds[1], len(kinds)] == [True, True, 2]
            assert INTERRUPTED in json.dumps(asked[-1])
        assert [len(turn.messages) for turn in await begun.turns()] == [2, 2]
        assert {item.session_id for item in await list_sessions_from_store(store, str(work))} == {
            first.session_id,
            begun.id,
            stopped.id,
        }


def test_other_session_ids_stay_apart(store: PerdureSessionStore) -> None:
    perdure.drive(store.append(KEY, exchange()))  # type: ignore[arg-type]
    assert perdure.drive(store.load({**KEY, "session_id": OTHER})) is None
