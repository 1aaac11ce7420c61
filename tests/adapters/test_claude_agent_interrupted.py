"""Calls of tools that were left without a result, read by the Claude Agent SDK: each gets one that says so."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import perdure
from perdure.adapters.claude_agent import PerdureSessionStore, place_of
from perdure.adapters.parts.pairing import INTERRUPTED
from perdure.events import Message, ToolAsked, ToolFinished
from tests.adapters.claude_transcripts import KEY, exchange, line, uid


@pytest.fixture
async def db() -> AsyncIterator[perdure.AsyncPerdure]:
    async with await perdure.aopen(":memory:", seal=False) as opened:
        yield opened


@pytest.fixture
def store(db: perdure.AsyncPerdure) -> PerdureSessionStore:
    return PerdureSessionStore(db)


def asks(call: str) -> ToolAsked:
    return ToolAsked(call=call, name="look", arguments={})


def interrupted(call: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": INTERRUPTED, "is_error": True}


def blocks(entries: Any) -> list[Any]:
    """What each entry says, told shortly."""
    found: list[Any] = []
    for entry in entries:
        content = entry["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            short = {"text": block.get("text"), "tool_use": block.get("id"), "tool_result": block}
            found.append(short[block["type"]])
    return found


def chained(entries: Any) -> bool:
    """Whether each entry hangs on the one before it."""
    return [entry["parentUuid"] for entry in entries] == [None, *[entry["uuid"] for entry in entries[:-1]]]


async def begun(db: perdure.AsyncPerdure, *payloads: Any) -> tuple[perdure.AsyncSession, Any]:
    session = await db.create("elsewhere")
    await session.record(list(payloads))
    return session, {"project_key": "here", "session_id": session.id}


async def test_a_call_that_another_framework_left_open_gets_a_result(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    _, key = await begun(db, Message(role="user", content="Look"), asks("a"))
    entries: Any = await store.load(key)
    assert blocks(entries) == ["Look", "a", interrupted("a")]
    assert [entry["type"] for entry in entries] == ["user", "assistant", "user"]
    assert chained(entries)
    assert await PerdureSessionStore(db).load(key) == entries


async def test_of_several_calls_those_without_a_result_get_one_next_to_them(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    result = ToolFinished(call="b", result="found")
    _, key = await begun(
        db, Message(role="user", content="Look"), asks("a"), asks("b"), result, Message(role="user", content="Well?")
    )
    entries: Any = await store.load(key)
    told = {"type": "tool_result", "tool_use_id": "b", "content": "found"}
    assert blocks(entries) == ["Look", "a", interrupted("a"), "b", told, "Well?"]
    assert chained(entries)
    assert len({entry["uuid"] for entry in entries}) == len(entries)


async def test_what_claude_left_open_is_as_it_was_until_others_go_on(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    own: Any = exchange()[:6]
    await store.append(KEY, own)
    assert await store.load(KEY) == own
    await db.named(place_of(KEY).name).record([Message(role="user", content="Never mind")])
    entries: Any = await store.load(KEY)
    assert entries[:6] == own
    assert blocks(entries[6:]) == [interrupted("toolu_1"), "Never mind"]
    assert [entry["parentUuid"] for entry in entries[6:]] == [uid(5), entries[6]["uuid"]]


async def test_a_result_of_several_that_claude_left_open_hangs_on_the_last_of_them(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    def call(number: int, name: str) -> Any:
        block = {"type": "tool_use", "id": name, "name": "Bash", "input": {}}
        return line(number, "assistant", [block], number - 1, message={"stop_reason": "tool_use"})

    own: Any = [
        line(1, "user", "Look"),
        call(2, "a"),
        call(3, "b"),
        line(4, "user", [{"type": "tool_result", "tool_use_id": "b", "content": "found"}], 3),
        {**line(5, "attachment", None, 4), "message": None},
    ]
    await store.append(KEY, own)
    await db.named(place_of(KEY).name).record([Message(role="user", content="Well?")])
    entries: Any = await store.load(KEY)
    assert entries[:5] == own
    assert blocks(entries[5:]) == [interrupted("a"), "Well?"]
    assert [entry["parentUuid"] for entry in entries[5:]] == [uid(5), entries[5]["uuid"]]


async def test_the_result_is_the_same_each_time_and_is_never_written(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    session, key = await begun(db, Message(role="user", content="Look"), asks("a"))
    entries: Any = await store.load(key)
    version = (await session.info()).version
    await store.append(key, entries)
    assert (await session.info()).version == version
    goes_on = {**line(9, "user", "Go on"), "parentUuid": entries[-1]["uuid"]}
    await store.append(key, [*entries, goes_on])  # type: ignore[list-item]
    assert await store.load(key) == [*entries, goes_on]


async def test_a_result_that_comes_late_is_told_in_words_once_claude_went_on(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    """What Claude wrote hangs on the entry that stands for the result, so that one stays."""
    session, key = await begun(db, Message(role="user", content="Look"), asks("a"))
    before: Any = await store.load(key)
    goes_on = {**line(9, "user", "Go on"), "parentUuid": before[-1]["uuid"]}
    await store.append(key, [goes_on])  # type: ignore[list-item]
    await session.record([ToolFinished(call="a", result="found"), asks("a"), ToolFinished(call="a", result="again")])
    entries: Any = await store.load(key)
    assert entries[:4] == [*before, goes_on]
    again = {"type": "tool_result", "tool_use_id": "a", "content": "again"}
    assert blocks(entries[4:]) == ["(result of a tool) found", "a", again]
    assert chained(entries)


async def test_a_result_that_comes_before_claude_goes_on_is_the_result(
    store: PerdureSessionStore, db: perdure.AsyncPerdure
) -> None:
    session, key = await begun(db, Message(role="user", content="Look"), asks("a"))
    assert blocks(await store.load(key))[-1] == interrupted("a")
    await session.record([ToolFinished(call="a", result="found")])
    found = {"type": "tool_result", "tool_use_id": "a", "content": "found"}
    assert blocks(await store.load(key)) == ["Look", "a", found]


async def test_a_result_to_nothing_is_told_in_words(store: PerdureSessionStore, db: perdure.AsyncPerdure) -> None:
    _, key = await begun(
        db, Message(role="user", content="Look"), ToolFinished(call="gone", error="no such file"), asks("a")
    )
    assert blocks(await store.load(key)) == ["Look", "(result of a tool) no such file", "a", interrupted("a")]


# ── whatever happens ──

HAPPENS = st.one_of(
    st.tuples(st.sampled_from(["they ask", "they answer"]), st.sampled_from(["a", "b"])),
    st.tuples(
        st.sampled_from(["they say", "claude asks", "claude answers", "claude says", "claude notes"]), st.just("")
    ),
)


def theirs(kind: str, call: str) -> Any:
    said = {"they ask": asks(call), "they answer": ToolFinished(call=call, result="found")}
    return said.get(kind, Message(role="user", content="Well?"))


def own(number: int, kind: str, call: str, after: str | None) -> Any:
    content = {
        "claude asks": [{"type": "tool_use", "id": call, "name": "Bash", "input": {}}],
        "claude answers": [{"type": "tool_result", "tool_use_id": call, "content": "found"}],
    }.get(kind, "Well?")
    made = line(number, "assistant" if kind == "claude asks" else "user", content)
    return {**made, "parentUuid": after, "type": "attachment" if kind == "claude notes" else made["type"]}


def sound(entries: Any, mine: list[Any]) -> None:
    """Claude's own entries are as they were, the others fit to them: one chain, and a result for every call of theirs,
    right after it, and none to nothing.
    """
    assert [entry for entry in entries if entry["uuid"] in {one["uuid"] for one in mine}] == mine
    assert chained(entries)
    known = {one["uuid"] for one in mine}
    waiting: set[str] = set()
    lacking: set[str] = set()
    for entry in entries:
        content = entry["message"]["content"]
        for block in content if isinstance(content, list) and entry["type"] != "attachment" else []:
            foreign = entry["uuid"] not in known
            if block["type"] == "tool_use":
                waiting.add(block["id"])
                (lacking.add if foreign else lacking.discard)(block["id"])
            elif block["type"] == "tool_result":
                assert not foreign or block["tool_use_id"] in waiting
                waiting.discard(block["tool_use_id"])
                lacking.discard(block["tool_use_id"])
    assert not lacking


@settings(max_examples=150, deadline=None)
@given(st.lists(HAPPENS, min_size=1, max_size=12))
@example([("they ask", "a"), ("claude notes", ""), ("they answer", "a"), ("claude says", "")])
@example([("claude asks", ""), ("they say", ""), ("claude says", ""), ("they answer", "a")])
def test_whatever_is_left_open_the_chain_is_whole_and_every_call_is_answered(happens: list[tuple[str, str]]) -> None:
    with perdure.open(":memory:", seal=False) as db:
        store = PerdureSessionStore(db)
        session = db.create("elsewhere")
        key: Any = {"project_key": "here", "session_id": session.id}
        mine: list[Any] = []
        for number, (kind, call) in enumerate(happens, 1):
            if kind.startswith("they"):
                session.record([theirs(kind, call)])
            else:
                entries = perdure.drive(store.load(key))
                made = [one["message"]["content"][0].get("id") for one in mine if one["type"] == "assistant"]
                call = f"toolu_{number}" if kind == "claude asks" else made[-1] if made else "none"
                mine.append(own(number, kind, call, entries[-1]["uuid"] if entries else None))  # type: ignore[typeddict-item]
                perdure.drive(store.append(key, mine[-1:]))
            sound(perdure.drive(store.load(key)), mine)
