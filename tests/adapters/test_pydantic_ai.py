"""The conversation store of Pydantic AI: it answers as the one in memory does, and it lasts."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests

import perdure
from perdure import errors
from perdure.adapters.langgraph_store import PerdureStore
from perdure.adapters.parts.pydantic_messages import heard
from perdure.adapters.pydantic_ai import PerdureConversationStore
from perdure.events import Message, ToolAsked, ToolFinished, native
from perdure.testing.postgres import Server, running

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content=text, timestamp=WHEN)])


def answered(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(content=text)], timestamp=WHEN)


def called(call: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(tool_name="look", args={"n": 1}, tool_call_id=call)], timestamp=WHEN)


def returned(call: str) -> ModelRequest:
    part = ToolReturnPart(tool_name="look", content={"found": [1, None]}, tool_call_id=call, timestamp=WHEN)
    return ModelRequest(parts=[part])


def texts(conversation: Conversation | None) -> list[str]:
    """What each message says; they all have one part here."""
    assert conversation is not None
    return [str(getattr(message.parts[0], "content", "")) for message in conversation.messages]


@pytest.fixture
async def db() -> AsyncIterator[perdure.AsyncPerdure]:
    async with await perdure.aopen(":memory:") as opened:
        yield opened


async def said(store: ConversationStore, name: str, *messages: ModelMessage) -> Conversation:
    found = await store.load(name) or Conversation(conversation_id=name)
    found.messages = [*found.messages, *messages]
    await store.save(found)
    return found


# ── the same answers as the store in memory ──


class Pair:
    """Two stores that are asked the same; ids that each makes are compared by what they stand for."""

    def __init__(self, db: perdure.AsyncPerdure) -> None:
        self.stores: list[ConversationStore] = [InMemoryConversationStore(), PerdureConversationStore(db)]
        self.kept: list[dict[str, Conversation]] = [{}, {}]
        self.numbers: list[dict[str, int]] = [{}, {}]

    async def both(self, ask: Callable[[int, ConversationStore], Any]) -> Any:
        answers = []
        for side, store in enumerate(self.stores):
            try:
                answers.append(await ask(side, store))
            except (ConversationConflict, UserError, KeyError) as error:
                answers.append((type(error).__name__, str(error) if isinstance(error, UserError) else ""))
        plain = [self.plain(side, answer) for side, answer in enumerate(answers)]
        if not (isinstance(plain[0], tuple) and plain[0][0] == "UserError"):
            assert plain[0] == plain[1]
        else:
            assert plain[0][0] == plain[1][0]
        return plain[0]

    async def everything(self, name: str) -> list[Any]:
        """All that can be reached of a conversation, as each store has it."""
        found = []
        for side, store in enumerate(self.stores):
            record = await store.read_record(name)
            tips = [] if record is None else [record.head_id, *record.branches]
            lines = [await store.read_history(tip, limit=limit) for tip in tips for limit in (None, 1, 3)]
            single = [await store.read_entry(str(tip)) for tip in tips if tip is not None]
            found.append(self.plain(side, [record, await store.load_entries(name), lines, single]))
        return found

    def number(self, side: int, id: str | None) -> int | None:
        return None if id is None else self.numbers[side].setdefault(str(id), len(self.numbers[side]))

    def plain(self, side: int, answer: Any) -> Any:
        if isinstance(answer, list):
            return [self.plain(side, item) for item in answer]
        if isinstance(answer, ConversationEntry):
            return self.number(side, answer.parent_id), self.number(side, answer.id), answer.message
        if isinstance(answer, Conversation):
            return answer.conversation_id, answer.messages, answer.usage, answer.revision is None
        if isinstance(answer, ConversationRecord):
            ids = [answer.head_id, answer.forked_at, *answer.branches]
            return answer.conversation_id, answer.scope, answer.forked_from, [self.number(side, id) for id in ids]
        return answer


NAMES = st.sampled_from(["a", "b", "c"])
SCOPES = st.sampled_from([None, "x", "y"])
TURNS = st.sampled_from(["q", "qa", "a", "qcra", "c", "r", ""])
ACTIONS = st.one_of(
    st.tuples(st.just("say"), NAMES, TURNS, SCOPES),
    st.tuples(st.just("load"), NAMES, st.sampled_from([None, 0, 1, 2, 5, -1]), SCOPES),
    st.tuples(st.just("again"), NAMES, TURNS, SCOPES),
    st.tuples(st.just("rewrite"), NAMES, st.integers(0, 3), TURNS),
    st.tuples(st.just("branch"), NAMES, st.integers(0, 6), SCOPES),
    st.tuples(st.just("back"), NAMES, st.integers(0, 4), st.integers(0, 3)),
    st.tuples(st.just("fork"), NAMES, NAMES, st.sampled_from([None, 0, 1, 2, 9])),
    st.tuples(st.just("forkback"), NAMES, NAMES, st.integers(0, 3)),
    st.tuples(st.just("delete"), NAMES, SCOPES, st.none()),
    st.tuples(st.just("list"), SCOPES, st.sampled_from([None, 0, 1, 2]), st.none()),
)


def turn(shape: str, count: int) -> list[ModelMessage]:
    made: list[ModelMessage] = []
    for place, letter in enumerate(shape):
        text = f"{letter}{count}.{place}"
        made.append(
            {"q": asked(text), "a": answered(text), "c": called(f"t{count}"), "r": returned(f"t{count}")}[letter]
        )
    return made


async def acts(pair: Pair, action: tuple[Any, ...], count: int) -> None:
    kind, name, third, fourth = action
    if kind == "say":

        async def say(side: int, store: ConversationStore) -> Any:
            found = await store.load(name, scope=fourth) or Conversation(conversation_id=name)
            found.messages += turn(third, count)
            pair.kept[side][name] = found
            return await store.save(found, scope=fourth)

        await pair.both(say)
    elif kind == "load":
        await pair.both(lambda _, store: store.load(name, limit=third, scope=fourth))
        await pair.both(lambda _, store: store.load_entries(name, limit=third))
    elif kind == "again":  # with what was loaded or saved some time ago

        async def again(side: int, store: ConversationStore) -> Any:
            found = pair.kept[side].get(name) or Conversation(conversation_id=name)
            found.messages += turn(third, count)
            return await store.save(found, scope=fourth)

        await pair.both(again)
    elif kind == "rewrite":

        async def rewrite(_: int, store: ConversationStore) -> Any:
            found = await store.load(name)
            if found is not None:
                found = replace(found, messages=found.messages[:third] + turn(fourth, count), new_message_index=None)
                return await store.save(found)
            return None

        await pair.both(rewrite)
    elif kind == "branch":

        async def branch(_: int, store: ConversationStore) -> Any:
            found = await store.load(name)
            revision = None if found is None else found.revision
            return await store.branch(name, at=third, expected_revision=revision, scope=fourth)

        await pair.both(branch)
    else:
        await acts_too(pair, action)


async def acts_too(pair: Pair, action: tuple[Any, ...]) -> None:
    kind, name, third, fourth = action
    if kind == "back":  # to an entry of a branch that was left

        async def back(_: int, store: ConversationStore) -> Any:
            record = await store.read_record(name)
            if record is None or not record.branches:
                return None
            line = await store.read_history(record.branches[third % len(record.branches)])
            chosen = line[fourth % len(line)].id
            return await store.branch(name, from_entry=str(chosen), expected_revision=record.revision)

        await pair.both(back)
    elif kind == "fork":
        await pair.both(lambda _, store: store.fork(name, at=fourth, new_conversation_id=third))
    elif kind == "forkback":

        async def forkback(_: int, store: ConversationStore) -> Any:
            record = await store.read_record(name)
            tips = [] if record is None else record.branches
            tip = str(tips[fourth % len(tips)]) if tips else "nothing"
            return await store.fork(name, from_entry=tip, new_conversation_id=third)

        await pair.both(forkback)
    elif kind == "delete":
        await pair.both(lambda _, store: store.delete(name, scope=third))
    else:
        await pair.both(lambda _, store: store.list_conversations(scope=name, limit=third))


async def agree(pair: Pair, db: perdure.AsyncPerdure, name: str) -> None:
    """What is shown is the line of the head, also for a store that knows nothing yet."""
    history = await pair.stores[1].load(name)
    if history is None:
        return
    fresh = PerdureConversationStore(db)
    assert await fresh.load(name) == history
    items = await db.named(name).conversation()
    assert len(items) == len(history.messages)
    shown = [item.native.get("id") or item.native["shows"] for item in items]
    entries = await fresh.load_entries(name) or []
    assert shown == [entry.id for entry in entries]
    assert (await db.named(name).verify()).ok


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=16))
def test_it_answers_as_the_store_in_memory_does(actions: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        async with await perdure.aopen(":memory:", seal=False) as db:
            pair = Pair(db)
            for count, action in enumerate(actions):
                await acts(pair, action, count)
            for name in "abc":
                theirs, ours = await pair.everything(name)
                assert ours == theirs
                await agree(pair, db, name)

    asyncio.run(run())


# ── with others in the same session ──

TOGETHER = st.one_of(
    st.tuples(st.just("say"), TURNS),
    st.tuples(st.just("they say"), st.sampled_from(["q", "qa", "a", "qcra", "c", "r"])),
    st.tuples(st.just("they take out"), st.integers(0, 9)),
    st.tuples(st.just("they clear"), st.integers(0, 1)),
    st.tuples(st.just("they redact"), st.integers(0, 9)),
    st.tuples(st.just("they clean"), st.integers(0, 19)),
    st.tuples(st.just("branch"), st.integers(0, 9)),
    st.tuples(st.just("back"), st.integers(0, 9)),
    st.tuples(st.just("fork"), st.integers(0, 9)),
)


def theirs(shape: str, count: int) -> list[Any]:
    """What another framework records for a turn of that shape."""
    made: list[Any] = []
    for place, letter in enumerate(shape):
        text = f"{letter}{count}.{place}"
        payload = {
            "q": Message(role="user", content=text),
            "a": Message(role="assistant", content=text),
            "c": ToolAsked(call=f"t{count}", name="look", arguments={"n": 1}),
            "r": ToolFinished(call=f"t{count}", result=text),
        }[letter]
        made += native("others", text, [payload]) if count % 2 else [payload]
    return made


async def they_take_out(session: perdure.AsyncSession, number: int, *, redact: bool) -> None:
    items = await session.conversation()
    if not items:
        return
    item = items[number % len(items)]
    if redact and item.first > ((await session.info()).branched_at or 0):
        await session.redact(range(item.first, item.last + 1))
    else:
        await session.retract(item.first, item.last)


async def they_clean(session: perdure.AsyncSession, number: int) -> None:
    """Destroy, or take out, something that is not shown."""
    shown = {version for item in await session.conversation() for version in range(item.first, item.last + 1)}
    own = (await session.info()).branched_at or 0
    said = (Message, ToolAsked, ToolFinished)
    events = [event for event in await session.events() if isinstance(event.data, said) and not event.redacted]
    hidden = [event.version for event in events if event.version > own and event.version not in shown]
    if hidden:
        version = hidden[number // 2 % len(hidden)]
        await (session.redact([version]) if number % 2 else session.retract(version, version))


async def together(db: perdure.AsyncPerdure, name: str, action: tuple[Any, ...], count: int) -> str:
    """Do it, and say in which conversation it goes on."""
    store, session = PerdureConversationStore(db), db.named(name)
    record = await store.read_record(name)
    kind, more = action
    if kind == "say":
        await said(store, name, *turn(more, count))
    elif record is None:
        return name
    elif kind == "they say":
        await session.record(theirs(more, count))
    elif kind in ("they take out", "they redact"):
        await they_take_out(session, more, redact=kind == "they redact")
    elif kind == "they clean":
        await they_clean(session, more)
    elif kind == "they clear":
        await session.retract(1)
    elif kind == "fork":
        line = await store.read_history(record.head_id)
        await store.fork(name, at=more % (len(line) + 1), new_conversation_id=f"{name}+")
        return f"{name}+"
    elif kind == "branch":
        line = await store.read_history(record.head_id)
        await store.branch(name, at=more % (len(line) + 1), expected_revision=record.revision)
    elif record.branches and (line := await store.read_history(record.branches[more % len(record.branches)])):
        entry = line[more % len(line)].id
        try:
            await store.branch(name, from_entry=str(entry), expected_revision=record.revision)
        except UserError:
            pass
    if kind.startswith("they") and (await store.read_record(name)) != record:
        late = Conversation(conversation_id=name, revision=record.revision)
        with pytest.raises(ConversationConflict):
            await store.save(late)
    return name


async def whole(db: perdure.AsyncPerdure, name: str) -> None:
    """What is shown is what is loaded, entry by entry, from wherever one looks."""
    store = PerdureConversationStore(db)
    items = [] if await store.read_record(name) is None else await db.named(name).conversation()
    entries = await store.load_entries(name) or []
    assert len(entries) == len(items)
    for entry, item in zip(entries, items, strict=True):
        own = item.by == "pydantic_ai"
        assert not own or entry.id in (item.native.get("id"), item.native.get("shows"))
        payload = item.payloads[0]
        words = payload.content if isinstance(payload, Message) else getattr(payload, "result", None)
        part: Any = entry.message.parts[0]
        if isinstance(words, str):
            assert part.content == words
        if isinstance(part, ToolReturnPart) and not own and any(_asks(item, part.tool_call_id) for item in items):
            assert part.tool_name == "look"
    assert [entry.parent_id for entry in entries] == [None, *[entry.id for entry in entries]][: len(entries)]
    for limit in (1, 2, 5):
        assert await store.load_entries(name, limit=limit) in (None, entries[-limit:])
    for entry in entries[-3:]:  # from its id alone; a fork may have lost what came before it
        found = await PerdureConversationStore(db).read_entry(str(entry.id))
        assert (found.id, found.message) == (entry.id, entry.message)


def _asks(item: Any, call: str) -> bool:
    return any(isinstance(payload, ToolAsked) and payload.call == call for payload in item.payloads)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TOGETHER, max_size=14))
@example([("say", "q"), ("say", "q"), ("say", "q"), ("branch", 2), ("they redact", 0)])
@example([("say", "qcra"), ("they redact", 3), ("they say", "c"), ("branch", 9), ("they redact", 1), ("say", "a")])
@example([("say", "qcra"), ("they redact", 9), ("fork", 2), ("they say", "qcra"), ("they redact", 0)])
def test_whatever_others_do_what_is_shown_is_what_is_loaded(actions: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        async with await perdure.aopen(":memory:", seal=False) as db:
            name = "trip"
            await db.create(name=name)
            for count, action in enumerate(actions):
                name = await together(db, name, action, count)
                await whole(db, name)
            assert (await db.verify()).ok

    asyncio.run(run())


async def test_of_two_who_save_at_once_one_is_told(db: perdure.AsyncPerdure) -> None:
    store = PerdureConversationStore(db)
    await said(store, "trip", asked("1"))
    loaded = [await store.load("trip") for _ in range(5)]
    for number, conversation in enumerate(loaded):
        assert conversation is not None
        conversation.messages.append(asked(f"by {number}"))
    saves = [store.save(conversation) for conversation in loaded if conversation is not None]
    outcomes = await asyncio.gather(*saves, return_exceptions=True)
    assert sum(isinstance(outcome, ConversationConflict) for outcome in outcomes) == 4
    assert len(texts(await store.load("trip"))) == 2


# ── any store, any process ──


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture(params=[":memory:", "sealed", "clear", pytest.param("postgres", marks=pytest.mark.slow)])
async def any_db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[perdure.AsyncPerdure]:
    place: Any = {":memory:": ":memory:", "sealed": tmp_path / "here.db", "clear": tmp_path / "clear.db"}.get(
        request.param
    )
    where: dict[str, Any] = {"seal": request.param != "clear"}
    if place is None:
        place = request.getfixturevalue("server").database()
        where |= {"key": tmp_path / "master", "vault": tmp_path / "vault"}
    async with await perdure.aopen(place, **where) as opened:
        yield opened


def looking_agent() -> Agent[None, str]:
    agent = Agent(FunctionModel(looking), instructions="Be brief.")

    @agent.tool_plain
    def look(place: str) -> dict[str, Any]:
        return {"place": place, "warm": True}

    return agent


def looking(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, UserPromptPart):
        call = ToolCallPart(tool_name="look", args={"place": str(last.content)}, tool_call_id=f"c{len(messages)}")
        return ModelResponse(parts=[TextPart(content="Let me look."), call])
    return ModelResponse(parts=[TextPart(content=f"Warm, says message {len(messages)}.")])


async def run(store: ConversationStore, prompt: str, name: str = "trip") -> list[ConversationEntry]:
    found = await store.load(name) or Conversation(conversation_id=name)
    return await store.save(await looking_agent().run(prompt, conversation=found))


async def test_an_agent_goes_on_with_its_conversation_on_any_store(any_db: perdure.AsyncPerdure) -> None:
    store, there = PerdureConversationStore(any_db), InMemoryConversationStore()
    for prompt in ("Lisbon", "Porto", "Faro"):
        assert len(await run(store, prompt)) == len(await run(there, prompt)) == 4
    found, wanted = await PerdureConversationStore(any_db).load("trip"), await there.load("trip")
    assert found is not None
    assert wanted is not None
    assert [[part.part_kind for part in message.parts] for message in found.messages] == [
        [part.part_kind for part in message.parts] for message in wanted.messages
    ]
    assert found.usage == wanted.usage
    turns = await any_db.named("trip").turns()
    assert [turn.status for turn in turns] == ["finished"] * 3
    assert [[message.content for message in turn.messages] for turn in turns] == [
        ["Lisbon", "Let me look.", "Warm, says message 3."],
        ["Porto", "Let me look.", "Warm, says message 7."],
        ["Faro", "Let me look.", "Warm, says message 11."],
    ]
    assert [call.result for turn in turns for call in turn.calls] == [
        {"place": place, "warm": True} for place in ("Lisbon", "Porto", "Faro")
    ]
    record = await store.read_record("trip")
    assert record is not None
    with pytest.raises(ConversationConflict):
        await store.delete_record("trip", expected_revision="another")
    await store.branch("trip", at=4, expected_revision=record.revision)
    await store.fork("trip", new_conversation_id="fork")
    await store.delete("trip")
    assert await store.load("trip") is None
    assert [record.conversation_id for record in await store.list_conversations()] == ["fork"]
    assert len((await store.load("fork")).messages) == 4  # type: ignore[union-attr]
    assert len(await any_db.named("fork").turns()) == 1


def test_blocking_and_async_stores_are_the_same(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "here.db") as db:
        asyncio.run(run(PerdureConversationStore(db), "Lisbon"))
        assert [turn.status for turn in db.named("trip").turns()] == ["finished"]
        asyncio.run(run(PerdureConversationStore(db.aio), "Porto"))
        assert len(db.named("trip").turns()) == 2


async def test_what_is_paused_for_approval_is_kept_with_the_conversation(db: perdure.AsyncPerdure) -> None:
    agent = Agent(FunctionModel(looking), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def look(place: str) -> str:
        return f"{place} is there"

    store = PerdureConversationStore(db)
    await store.save(await agent.run("Lisbon", conversation=Conversation(conversation_id="trip")), scope="me")
    assert [turn.status for turn in await db.named("trip").turns()] == ["open"]
    found = await PerdureConversationStore(db).load("trip", scope="me")
    assert found is not None
    assert found.deferred_tool_requests is not None
    results = found.deferred_tool_requests.build_results(approve_all=True)
    await store.save(await agent.run(conversation=found, deferred_tool_results=results))
    (only,) = await db.named("trip").turns()
    assert (only.status, [call.result for call in only.calls]) == ("finished", ["Lisbon is there"])
    record = await store.read_record("trip")
    assert record is not None
    assert (record.scope, record.deferred_tool_requests) == ("me", None)


# ── ours and everybody's ──


async def test_a_conversation_begun_elsewhere_loads_and_goes_on(db: perdure.AsyncPerdure) -> None:
    session = await db.create("A trip", name="trip", metadata={"mine": 1})
    assert await PerdureConversationStore(db).load("trip") is None
    item = {"role": "assistant"}
    asks = [Message(role="assistant", content="Looking"), ToolAsked(call="c1", name="look", arguments={"q": 1})]
    await session.record([Message(role="system", content="Be kind"), Message(role="user", content="Hi")])
    await session.record([*native("elsewhere", item, asks), ToolFinished(call="c1", result=[1])])
    await session.record(Message(role="assistant", content=[{"type": "text", "text": "One"}]))
    store = PerdureConversationStore(db)
    found = await store.load("trip")
    assert found is not None
    kinds = [[type(part).__name__ for part in message.parts] for message in found.messages]
    assert kinds == [
        ["SystemPromptPart"],
        ["UserPromptPart"],
        ["TextPart", "ToolCallPart"],
        ["ToolReturnPart"],
        ["TextPart"],
    ]
    assert found.messages[3].parts[0].tool_name == "look"
    assert await PerdureConversationStore(db).load("trip") == found
    await store.save(await looking_agent().run("Lisbon", conversation=found))
    loaded = await store.load("trip")
    assert loaded is not None
    assert loaded.messages[:5] == found.messages
    assert len(loaded.messages) == 9
    assert (await session.info()).metadata["mine"] == 1
    assert [turn.status for turn in (await session.turns()) if turn.number] == ["finished", "finished"]


async def test_what_others_add_or_take_out_is_part_of_the_conversation(db: perdure.AsyncPerdure) -> None:
    store = PerdureConversationStore(db)
    mine = await said(store, "trip", asked("1"), answered("2"))
    session = db.named("trip")
    await session.record([Message(role="user", content="3"), Message(role="assistant", content="4")])
    with pytest.raises(ConversationConflict):
        await store.save(replace(mine, messages=[*mine.messages, asked("lost?")]))
    found = await said(store, "trip", asked("5"), answered("6"))
    assert texts(found) == ["1", "2", "3", "4", "5", "6"]
    items = await session.conversation()
    await session.retract(items[2].first, items[2].last)
    assert texts(await store.load("trip")) == ["1", "2", "4", "5", "6"]
    await session.retract(items[5].first)
    assert texts(await store.load("trip")) == ["1", "2", "4", "5"]
    await session.redact([items[1].first])
    assert texts(await store.load("trip")) == ["1", "4", "5"]
    assert texts(await store.load("trip", limit=2)) == ["4", "5"]
    entries = await store.load_entries("trip", limit=1)
    assert entries is not None
    assert texts(await said(store, "trip", answered("7"))) == ["1", "4", "5", "7"]
    assert texts(await store.load("trip")) == ["1", "4", "5", "7"]
    await session.retract(1)
    assert texts(await store.load("trip")) == []
    assert texts(await said(store, "trip", asked("8"))) == ["8"]
    assert texts(await store.load("trip")) == ["8"]


async def test_what_is_no_conversation_is_not_reached_by_its_name(db: perdure.AsyncPerdure) -> None:
    memories = PerdureStore(db)
    await memories.aput(("memories", "ana"), "k", {"v": 1})
    state = await db.create(name="adk-user/shop/ada", metadata={"adk_shared_by": "shop/ada"})
    await state.record([Message(role="user", content="not to be read")])
    store = PerdureConversationStore(db)
    for name in ("langgraph-store/memories.ana", "adk-user/shop/ada"):
        version = await db.named(name).version()
        assert await store.load(name) is None
        await store.delete(name)
        with pytest.raises(errors.Invalid, match="no conversation"):
            await said(store, name, asked("hello"))
        assert await db.named(name).version() == version
    assert (await memories.aget(("memories", "ana"), "k")).value == {"v": 1}  # type: ignore[union-attr]


def parts(messages: list[ModelMessage]) -> list[tuple[str, Any]]:
    return [(part.part_kind, getattr(part, "content", None)) for message in messages for part in message.parts]


@pytest.mark.parametrize(
    ("finished", "told"),
    [
        (ToolFinished(call="c", result="res"), "res"),
        (ToolFinished(call="c", result={"n": 1}), '{"n": 1}'),
        (ToolFinished(call="c", result=[{"type": "text", "text": "res"}]), "res"),
        (ToolFinished(call="c", error="no"), "no"),
    ],
)
async def test_a_result_whose_call_was_taken_back_is_told_in_words(
    finished: ToolFinished, told: str, db: perdure.AsyncPerdure
) -> None:
    session = await db.create(name="trip")
    call, done = ToolAsked(call="c", name="f"), Message(role="assistant", content="a")
    await session.record([Message(role="user", content="q"), call, finished, done])
    store = PerdureConversationStore(db)
    before = await store.load("trip")
    assert before is not None
    assert [kind for kind, _ in parts(before.messages)] == ["user-prompt", "tool-call", "tool-return", "text"]
    item = (await session.conversation())[1]
    await session.retract(item.first, item.last)
    for limit in (None, 3, 2, 1):
        found = await store.load("trip", limit=limit)
        assert found is not None
        whole = [("user-prompt", "q"), ("user-prompt", f"(result of a tool) {told}"), ("text", "a")]
        assert parts(found.messages) == whole[-(limit or 3) :]
    after = await said(store, "trip", asked("more"), answered("b"))
    assert len(after.messages) == 5


async def test_a_result_that_is_given_twice_is_told_in_words_the_second_time(db: perdure.AsyncPerdure) -> None:
    session = await db.create(name="trip")
    await session.record([Message(role="user", content="q"), ToolAsked(call="c", name="f")])
    for number in (1, 2):
        await session.record([ToolFinished(call="c", result=number)])
    found = await PerdureConversationStore(db).load("trip")
    assert found is not None
    assert parts(found.messages)[2:] == [("tool-return", 1), ("user-prompt", "(result of a tool) 2")]


async def test_a_result_keeps_its_call_where_only_the_end_is_read(db: perdure.AsyncPerdure) -> None:
    session = await db.create(name="trip")
    calls = [ToolAsked(call="c", name="f"), ToolFinished(call="c", result=1)]
    for _ in range(2):  # the same id in each turn
        await session.record([Message(role="user", content="q"), *calls, Message(role="assistant", content="a")])
    store = PerdureConversationStore(db)
    for limit in range(1, 9):
        found, whole = await store.load("trip", limit=limit), await store.load("trip")
        assert found is not None
        assert whole is not None
        assert found.messages == whole.messages[-limit:]
        assert [kind for kind, _ in parts(found.messages)] == [
            *["user-prompt", "tool-call", "tool-return", "text"] * 2,
        ][-limit:]


async def test_a_turn_that_is_regenerated_stays_one_turn(db: perdure.AsyncPerdure) -> None:
    store = PerdureConversationStore(db)
    await said(store, "trip", asked("1"), answered("2"), asked("3"), answered("4"))
    record = await store.read_record("trip")
    assert record is not None
    branched = await store.branch("trip", at=3, expected_revision=record.revision)
    branched.messages.append(answered("other"))
    await store.save(branched)
    turns = await db.named("trip").turns()
    assert [[message.content for message in turn.messages] for turn in turns] == [["1", "2"], ["3", "other"]]
    assert [turn.status for turn in turns] == ["finished", "finished"]
    assert texts(await store.load("trip")) == ["1", "2", "3", "other"]


async def test_entries_beside_the_line_are_kept_and_not_shown(db: perdure.AsyncPerdure) -> None:
    store = PerdureConversationStore(db)
    line = ConversationEntry(parent_id=None, message=asked("shown"))
    side = ConversationEntry(parent_id=line.id, message=answered("not shown"))
    record = ConversationRecord(conversation_id="trip", head_id=line.id, branches=[side.id])
    await store.write_record(record, new_entries=[line, side], expected_revision=None)
    assert texts(await store.load("trip")) == ["shown"]
    fresh = PerdureConversationStore(db)
    assert [entry.message for entry in await fresh.read_history(side.id)] == [line.message, side.message]
    assert await fresh.read_entry(line.id) == line
    assert [item.payloads[0].content for item in await db.named("trip").conversation()] == ["shown"]  # type: ignore[union-attr]
    await store.branch("trip", from_entry=side.id, expected_revision=record.revision)
    assert texts(await fresh.load("trip")) == ["shown", "not shown"]


async def test_a_record_that_leads_nowhere_is_a_conflict_and_an_unknown_entry_a_key_error(
    db: perdure.AsyncPerdure,
) -> None:
    store = PerdureConversationStore(db)
    for head in ("nowhere", "perdure-0192f0c4-7d1e-7abc-8def-0123456789ab-7", "019c0000-0000-7000-8000-000000000000"):
        with pytest.raises(ConversationConflict):
            await store.write_record(ConversationRecord(conversation_id="a", head_id=head), expected_revision=None)
        with pytest.raises(KeyError):
            await store.read_entry(head)
    assert await store.read_record("a") is None
    assert await store.list_conversations() == []


async def test_a_session_branched_by_hand_is_a_fork(db: perdure.AsyncPerdure) -> None:
    store = PerdureConversationStore(db)
    await said(store, "trip", asked("1"), answered("2"))
    branch = await db.named("trip").branch()
    record = await store.read_record(branch.id)
    assert record is not None
    assert (record.forked_from, record.conversation_id) == ("trip", branch.id)
    assert record.revision != (await store.read_record("trip")).revision  # type: ignore[union-attr]
    assert texts(await said(store, branch.id, asked("3"))) == ["1", "2", "3"]
    assert texts(await store.load("trip")) == ["1", "2"]


async def test_only_the_end_of_a_long_conversation_is_read(db: perdure.AsyncPerdure) -> None:
    store = PerdureConversationStore(db)
    for number in range(40):
        await said(store, "trip", asked(f"{number}"), answered(f"{number}!"))
    await said(store, "other", asked("1"))
    seen: list[int] = []
    whole = perdure.AsyncSession.backwards

    async def backwards(self: perdure.AsyncSession, page: int = 256) -> AsyncIterator[list[Any]]:
        async for events in whole(self, page):
            seen.extend(event.version for event in events)
            yield events

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perdure.AsyncSession, "backwards", backwards)
        assert texts(await PerdureConversationStore(db).load("trip", limit=3)) == ["38!", "39", "39!"]
    assert min(seen) > 40 * 3
    assert (await store.load_entries("trip", limit=3))[0].parent_id == (  # type: ignore[index]
        (await store.load_entries("trip", limit=4))[0].id  # type: ignore[index]
    )


# ── what messages say ──

TEXTS = st.text(max_size=5)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=4,
)
CONTENT = st.one_of(
    TEXTS,
    st.builds(ImageUrl, url=st.just("https://example.com/a.png")),
    st.builds(BinaryContent, data=st.binary(max_size=5), media_type=st.sampled_from(["image/png", "audio/wav"])),
    st.just(CachePoint()),
)
REQUESTS = st.one_of(
    st.builds(SystemPromptPart, content=TEXTS),
    st.builds(UserPromptPart, content=st.one_of(TEXTS, st.lists(CONTENT, max_size=3))),
    st.builds(
        ToolReturnPart,
        tool_name=TEXTS,
        content=PLAIN,
        tool_call_id=TEXTS,
        outcome=st.sampled_from(["success", "denied"]),
    ),
)
RESPONSES = st.one_of(
    st.builds(TextPart, content=TEXTS),
    st.builds(ThinkingPart, content=TEXTS),
    st.builds(
        ToolCallPart,
        tool_name=TEXTS,
        args=st.one_of(st.none(), TEXTS, st.dictionaries(TEXTS, PLAIN)),
        tool_call_id=TEXTS,
    ),
    st.builds(FilePart, content=st.builds(BinaryContent, data=st.binary(max_size=5), media_type=st.just("image/png"))),
)
MESSAGES = st.one_of(
    st.builds(ModelRequest, parts=st.lists(REQUESTS, max_size=3)),
    st.builds(ModelResponse, parts=st.lists(RESPONSES, max_size=3)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=4))
def test_every_message_comes_back_as_it_was_and_says_something_to_others(messages: list[ModelMessage]) -> None:
    wanted = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))

    async def keep() -> None:
        async with await perdure.aopen(":memory:", seal=False) as db:
            await said(PerdureConversationStore(db), "trip", *messages)
            found = await PerdureConversationStore(db).load("trip")
            assert found is not None
            assert found.messages == wanted
            items = await db.named("trip").conversation()
            assert len(items) == len(messages)
            for item in items:  # as another framework's, they translate into messages of the same side
                again = heard([msgspec.structs.replace(item.payloads[0], metadata={})], 0, {})
                assert isinstance(again, ModelRequest | ModelResponse)

    asyncio.run(keep())


# ── several processes ──

SAYING = """
import asyncio, sys, perdure
from perdure.adapters.pydantic_ai import PerdureConversationStore
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart

async def main(path, who, count):
    async with await perdure.aopen(path) as db:
        store = PerdureConversationStore(db)
        conflicts = 0
        print("ready", flush=True)
        for number in range(count):
            while True:
                found = await store.load("trip") or Conversation(conversation_id="trip")
                found.messages = [*found.messages, ModelRequest(parts=[UserPromptPart(content=f"{who}{number}")])]
                if number == 0 and conflicts == 0:
                    sys.stdin.readline()
                try:
                    await store.save(found)
                    print("saved", f"{who}{number}", flush=True)
                    break
                except ConversationConflict:
                    conflicts += 1
        print("conflicts", conflicts, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def saying(path: Path, who: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SAYING, str(path), who, str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_of_two_processes_one_is_told_of_the_conflict_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "here.db"
    with perdure.open(path) as db:
        asyncio.run(said(PerdureConversationStore(db), "trip", asked("start")))
        both = [saying(path, who, 5) for who in "ab"]
        answers = [process.communicate("\n", timeout=60)[0] for process in both]
        assert sum(int(answer.split()[-1]) for answer in answers) >= 1
        found = asyncio.run(PerdureConversationStore(db).load("trip"))
        assert sorted(texts(found)) == sorted(["start", *(f"{who}{number}" for who in "ab" for number in range(5))])
        assert db.verify().ok


@pytest.mark.slow
def test_what_was_saved_before_a_kill_is_there_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "here.db"
    process = saying(path, "a", 10_000)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    told = [process.stdout.readline().split()[1] for _ in range(8)]
    process.kill()
    rest, _ = process.communicate(timeout=60)
    told += [line.split()[1] for line in rest.splitlines() if line.startswith("saved ") and line[6:].strip()]
    with perdure.open(path) as db:
        store = PerdureConversationStore(db)
        found = texts(asyncio.run(store.load("trip")))
        assert found[: len(told)] == told
        assert len(found) <= len(told) + 1
        assert texts(asyncio.run(said(store, "trip", answered("on")))) == [*found, "on"]
        assert db.verify().ok
