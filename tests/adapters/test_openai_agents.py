"""The OpenAI Agents SDK on perdure: its own runner, with a model that says what it is told to."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, RunConfig, RunContextWrapper, Runner, SessionSettings, function_tool, handoff
from agents.memory import OpenAIResponsesCompactionSession, Session, is_openai_responses_compaction_aware_session
from agents.memory.session import _session_accepts_wrapper
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import perdure
from perdure import errors
from perdure.adapters import openai_agents
from perdure.adapters.openai_agents import PerdureSession
from perdure.events import Message, ToolAsked, ToolFinished, native
from perdure.testing.postgres import running

QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with running() as opened:
        yield opened


@pytest.fixture(params=["memory", "sealed", "clear", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[perdure.Perdure]:
    """Every store there is."""
    match request.param:
        case "memory":
            place: str = ":memory:"
        case "postgres":
            place = request.getfixturevalue("server").database()
        case _:
            place = str(tmp_path / "a.db")
    with perdure.open(place, seal=False if request.param in ("clear", "postgres") else None) as opened:
        yield opened


@pytest.fixture
def here() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:") as opened:
        yield opened


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def answer(text: str) -> Any:
    return {"role": "assistant", "content": text}


def run_sync(agent: Agent[Any], text: str, session: PerdureSession) -> None:
    """A blocking run, with a loop that is closed after it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        Runner.run_sync(agent, text, session=session, run_config=QUIET)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@function_tool
def weather(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


# ── the runner ──


async def test_a_run_with_tools_is_one_turn_and_the_next_run_knows_it(db: perdure.Perdure) -> None:
    model = ScriptedModel([[function_call("weather", {"city": "Lisbon"}, call_id="c1")], [assistant_message("Sunny.")]])
    agent = Agent(name="guide", model=model, tools=[weather])
    session = PerdureSession("lisbon", db)
    assert (await Runner.run(agent, "How is it?", session=session, run_config=QUIET)).final_output == "Sunny."
    (turn,) = await db.aio.named("lisbon").turns()
    assert turn.status == "finished"
    assert [(call.name, call.arguments, call.result) for call in turn.calls] == [
        ("weather", {"city": "Lisbon"}, "sunny in Lisbon")
    ]
    model.enqueue([assistant_message("Still.")])
    again = PerdureSession("lisbon", db)
    await Runner.run(agent, "And now?", session=again, run_config=QUIET)
    told = model.calls[-1].input
    assert [item.get("type", item.get("role")) for item in told] == [
        "user", "function_call", "function_call_output", "message", "user",
    ]  # fmt: skip
    assert await session.get_items() == await again.get_items()


async def test_two_agents_speak_in_one_session(here: perdure.Perdure) -> None:
    model = ScriptedModel([[function_call("transfer_to_booker", {}, call_id="h1")], [assistant_message("Booked.")]])
    booker = Agent(name="booker", model=model)
    guide = Agent(name="guide", model=model, handoffs=[handoff(booker)])
    session = PerdureSession("trip", here)
    result = await Runner.run(guide, "Book it", session=session, run_config=QUIET)
    assert result.last_agent is booker
    model.enqueue([assistant_message("You are welcome.")])
    await Runner.run(booker, "Thanks", session=session, run_config=QUIET)
    first, second = await here.aio.named("trip").turns()
    assert [call.name for call in first.calls] == ["transfer_to_booker"]
    assert [item.content for item in second.messages] == ["Thanks", "You are welcome."]


async def test_a_streamed_run_is_kept(here: perdure.Perdure) -> None:
    model = ScriptedModel([[assistant_message("Hello.")]])
    session = PerdureSession("s", here)
    result = Runner.run_streamed(Agent(name="a", model=model), "Hi", session=session, run_config=QUIET)
    async for _ in result.stream_events():
        pass
    assert [item.get("role") for item in await session.get_items()] == ["user", "assistant"]


def test_it_works_from_any_thread_and_loop(db: perdure.Perdure) -> None:
    session = PerdureSession("s", db)
    for number in range(3):
        model = ScriptedModel([[assistant_message(str(number))]])
        run_sync(Agent(name="a", model=model), "Hi", session)
    asyncio.run(session.add_items([user("from another loop")]))
    assert len(asyncio.run(session.get_items())) == 7


async def test_it_is_what_the_sdk_calls_a_session(here: perdure.Perdure) -> None:
    session = PerdureSession("s", here)
    assert isinstance(session, Session)
    assert _session_accepts_wrapper(session)
    assert not is_openai_responses_compaction_aware_session(session)
    context = RunContextWrapper(context=None)
    await session.add_items([user("a")], wrapper=context)
    assert await session.get_items(wrapper=context) == [await session.pop_item(wrapper=context)]
    await session.clear_session(wrapper=context)


# ── the items ──

ODD: list[Any] = [
    user("plain"),
    {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
    {"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}]},
    {"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}, {"type": "input_file", "file_url": "u"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "content": None},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"n": 123456789012345678901}'},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "not json"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "x"}]},
    {"type": "function_call_output", "call_id": "nobody", "output": "y"},
    {"type": "computer_call", "id": "cu", "call_id": "c2", "action": {"type": "click", "x": 1, "y": 2}},
    {"type": "computer_call_output", "call_id": "c2", "output": {"type": "computer_screenshot", "file_id": "f"}},
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "mcp_call", "id": "m", "name": "t", "server_label": "l", "arguments": "{}", "error": "no"},
    {"type": "mcp_list_tools", "id": "ml", "server_label": "l", "tools": []},
    {"type": "compaction", "id": "cmp", "encrypted_content": "zzz"},
    {"type": "item_reference", "id": "msg_1"},
    {"role": "user", "content": "half a pair \ud800", "extra": {"deep": [1, 2.5, None, True], "nan": 1e300}},
    {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]},
    {},
]  # fmt: skip


async def test_items_come_back_exactly(db: perdure.Perdure) -> None:
    session = PerdureSession("s", db)
    await session.add_items(ODD)
    assert await session.get_items() == ODD
    assert await PerdureSession("s", db).get_items() == ODD
    assert [list(item) for item in await session.get_items()] == [list(item) for item in ODD]  # keys in their order


async def test_every_item_shows_in_the_turns(here: perdure.Perdure) -> None:
    await PerdureSession("s", here).add_items(ODD)
    spoken = [payload for item in await here.aio.named("s").conversation() for payload in item.payloads]
    assert len(spoken) == len(ODD) + 2
    asked = {item.call: (item.name, item.arguments) for item in spoken if isinstance(item, ToolAsked)}
    assert asked == {
        "c1": ("f", '{"n": 123456789012345678901}'),
        "c2": ("computer", {"type": "click", "x": 1, "y": 2}),
        "ws": ("web_search", {"type": "search", "query": "q"}),
        "m": ("t", {}),
    }
    finished = {item.call: item.error or item.result for item in spoken if isinstance(item, ToolFinished)}
    assert finished["m"] == "no"
    assert finished["c1"] == "x"


async def test_objects_of_the_sdk_are_taken_too(here: perdure.Perdure) -> None:
    text = ResponseOutputText(text="Hi", type="output_text", annotations=[])
    message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
    session = PerdureSession("s", here)
    given: Any = [message]
    await session.add_items(given)
    assert await session.get_items() == [message.model_dump(exclude_unset=True)]


@pytest.mark.parametrize("item", [{"role": "user", "content": object()}, 7, {"role": "user", "content": b"x"}])
async def test_what_is_no_item_is_refused_and_nothing_is_kept(here: perdure.Perdure, item: Any) -> None:
    session = PerdureSession("s", here)
    with pytest.raises(errors.Invalid):
        await session.add_items([user("a"), item])
    assert await session.get_items() == []
    assert await here.aio.count() == 0


async def test_one_call_is_one_append(here: perdure.Perdure) -> None:
    session = PerdureSession("s", here)
    await session.add_items([user("a"), answer("b")])
    position = await here.aio.position()
    await session.add_items([user("c"), answer("d"), user("e")])
    assert await here.aio.position() == position + 1
    await session.add_items([])
    assert await here.aio.position() == position + 1


async def test_thousands_of_items_take_several(here: perdure.Perdure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_agents, "APPEND", 10)
    session = PerdureSession("s", here)
    await session.add_items([user(str(number)) for number in range(25)])
    assert [item["content"] for item in await session.get_items()] == [str(number) for number in range(25)]  # type: ignore[index]


# ── limits, popping, clearing ──


async def test_limits_are_the_ones_of_the_sdk(db: perdure.Perdure) -> None:
    session = PerdureSession("s", db, SessionSettings(limit=2))
    items = [user(str(number)) for number in range(5)]
    await session.add_items(items)
    assert await session.get_items() == items[-2:]
    assert await session.get_items(limit=4) == items[-4:]
    assert await session.get_items(limit=0) == []
    assert await session.get_items(limit=-1) == items
    assert await session.get_items(limit=99) == items
    assert await PerdureSession("s", db, {"limit": 1}).get_items() == items[-1:]
    assert PerdureSession("s", db).session_settings == SessionSettings()


async def test_popping_takes_the_latest_item_and_clearing_takes_all(db: perdure.Perdure) -> None:
    session = PerdureSession("s", db)
    assert await session.pop_item() is None
    await session.clear_session()
    await session.add_items([user("a"), answer("b")])
    assert await session.pop_item() == answer("b")
    assert await session.get_items() == [user("a")]
    await session.add_items([answer("c")])
    assert await session.get_items(limit=5) == [user("a"), answer("c")]
    await session.clear_session()
    assert (await session.get_items(), await session.get_items(3), await session.pop_item()) == ([], [], None)
    await session.add_items([user("again")])
    assert await session.get_items(limit=2) == [user("again")]
    assert await db.aio.named("s").events()  # the log keeps what was said


async def test_a_call_that_was_popped_is_no_longer_awaited(here: perdure.Perdure) -> None:
    session = PerdureSession("s", here)
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    given: Any = [user("a"), call]
    await session.add_items(given)
    assert await session.pop_item() == call
    await session.add_items([answer("b")])
    (turn,) = await here.aio.named("s").turns()
    assert (turn.status, turn.calls) == ("finished", ())


async def test_one_object_sees_what_others_do(db: perdure.Perdure) -> None:
    one, other = PerdureSession("s", db), PerdureSession("s", db)
    await one.add_items([user("a"), user("b")])
    assert await one.get_items() == await other.get_items() == [user("a"), user("b")]
    await other.add_items([user("c")])
    assert await one.get_items() == [user("a"), user("b"), user("c")]
    await other.pop_item()
    await other.add_items([user("d")])
    assert await one.get_items() == [user("a"), user("b"), user("d")]
    handle = db.aio.named("s")
    (first, *_) = await handle.conversation()
    await handle.redact(first.first)
    assert await one.get_items() == [user("b"), user("d")]
    await handle.erase()
    assert await one.get_items() == []
    await other.add_items([user("new")])
    assert await one.get_items() == [user("new")]


async def test_what_a_caller_does_to_its_items_stays_with_it(here: perdure.Perdure) -> None:
    session = PerdureSession("s", here)
    await session.add_items([user("a")])
    (await session.get_items())[0]["content"] = "changed"  # type: ignore[typeddict-unknown-key]
    assert await session.get_items() == [user("a")]


# ── other frameworks ──


async def test_what_others_said_is_translated(here: perdure.Perdure) -> None:
    other = await here.aio.create(name="s")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    thought = {"type": "thinking", "thinking": "hm"}
    await other.record([
        Message(role="system", content="Be brief."),
        Message(role="user", content=[{"type": "text", "text": "What is it?"}, image]),
        *native("x", 1, [
            Message(role="assistant", content=[thought, {"type": "text", "text": "Let me see."}]),
            ToolAsked(call="c1", name="my.look", arguments={"at": "it"}),
        ]),
        ToolFinished(call="c1", result={"it": "a cat"}),
        ToolFinished(call="lost", result=[{"type": "text", "text": "to nobody"}]),
        Message(role="assistant", content=[thought]),
        Message(role="assistant", content="A cat."),
    ])  # fmt: skip
    session = PerdureSession("s", here)
    assert await session.get_items() == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is it?"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"},
            ],
        },
        answer("Let me see."),
        {"type": "function_call", "call_id": "c1", "name": "my_look", "arguments": '{"at":"it"}'},
        {"type": "function_call_output", "call_id": "c1", "output": '{"it":"a cat"}'},
        answer("(result of a tool) to nobody"),
        answer("A cat."),
    ]
    assert (await session.get_items(limit=3))[0] == answer('(result of a tool) {"it":"a cat"}')


async def test_of_anothers_item_only_the_last_part_is_popped(here: perdure.Perdure) -> None:
    other = await here.aio.create(name="s")
    parts = [Message(role="assistant", content="Two."), ToolAsked(call="c1", name="f"), ToolAsked(call="c2", name="g")]
    await other.record([Message(role="user", content="Go"), *native("x", "whole", parts)])
    session = PerdureSession("s", here)
    assert (await session.pop_item() or {})["call_id"] == "c2"  # type: ignore[typeddict-item]
    assert [item.get("type", item.get("role")) for item in await session.get_items()] == [
        "user", "assistant", "function_call",
    ]  # fmt: skip
    assert (await other.state()).turns.open.calls.keys() == {"c1"}  # type: ignore[union-attr]


# ── compaction ──


class Compactor:
    """A client of OpenAI's that sums up whatever it is given."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.responses = self

    async def compact(self, **given: Any) -> Any:
        self.asked.append(given)
        return SimpleNamespace(output=[{"type": "compaction", "id": "cmp_1", "encrypted_content": "sum"}], usage=None)


async def test_the_sdks_compaction_works_on_top(db: perdure.Perdure) -> None:
    client: Any = Compactor()
    below = PerdureSession("s", db)
    session = OpenAIResponsesCompactionSession(
        "s", below, client=client, should_trigger_compaction=lambda found: len(found["session_items"]) >= 4
    )
    model = ScriptedModel([[assistant_message("One.")], [assistant_message("Two.")]])
    for word in ("a", "b"):
        await Runner.run(Agent(name="a", model=model), word, session=session, run_config=QUIET)
    assert len(client.asked) == 1
    assert await below.get_items() == [{"type": "compaction", "id": "cmp_1", "encrypted_content": "sum"}]
    await below.add_items([user("c")])
    await session.run_compaction({"force": True, "compaction_mode": "input"})
    assert [item["type"] for item in await below.get_items()] == ["compaction"]  # type: ignore[typeddict-item]
    assert len(await db.aio.named("s").turns()) == 1


async def test_a_replacement_is_one_append_and_is_not_made_when_the_history_went_on(here: perdure.Perdure) -> None:
    session = PerdureSession("s", here)
    await session.add_items([user("a"), answer("b"), user("c"), answer("d")])
    snapshot = await session._get_compaction_snapshot(3)
    assert (snapshot.complete, snapshot.items) == (False, [answer("b"), user("c"), answer("d")])
    position = await here.aio.position()
    await here.aio.named("s").configure(title="another title")
    assert await snapshot.replace_suffix(1, [answer("sum")])
    assert await here.aio.position() == position + 2
    assert await session.get_items() == [user("a"), answer("b"), answer("sum")]
    late = await session._get_compaction_snapshot(2)
    await PerdureSession("s", here).add_items([user("e")])
    assert not await late.replace_suffix(0, [answer("too late")])
    assert (await session.get_items())[-1] == user("e")


async def test_a_compaction_of_ones_own_is_offered_after_every_run(here: perdure.Perdure) -> None:
    seen: list[int] = []

    async def compact(items: list[Any]) -> list[Any] | None:
        seen.append(len(items))
        return [user("summary"), *items[-2:]] if len(items) > 3 else None

    session = PerdureSession("s", here, compact=compact)
    assert is_openai_responses_compaction_aware_session(session)
    model = ScriptedModel([[assistant_message("One.")], [assistant_message("Two.")]])
    for word in ("a", "b"):
        await Runner.run(Agent(name="a", model=model), word, session=session, run_config=QUIET)
    assert seen == [2, 4]
    assert [item.get("content") for item in await session.get_items()][:2] == ["summary", "b"]


# ── several at once ──


async def test_of_many_who_pop_each_gets_another_item(db: perdure.Perdure) -> None:
    await PerdureSession("s", db).add_items([user(str(number)) for number in range(12)])
    popped = await asyncio.gather(*(PerdureSession("s", db).pop_item() for _ in range(14)))
    words = [item["content"] for item in popped if item is not None]  # type: ignore[typeddict-item]
    assert sorted(words, key=int) == [str(number) for number in range(12)]


async def test_a_cancelled_add_has_happened_or_not_when_the_caller_knows(db: perdure.Perdure) -> None:
    session = PerdureSession("s", db)
    task = asyncio.ensure_future(session.add_items([user("a")]))
    await asyncio.sleep(0)
    told = task.cancel()  # a store in memory is done by now
    with pytest.raises(asyncio.CancelledError) if told else nullcontext():
        await task
    assert await session.get_items() == [user("a")]


WORK = """
    import asyncio, sys, warnings
    warnings.simplefilter("ignore")
    import perdure
    from agents import Agent, RunConfig, Runner
    from agents.testing import ScriptedModel, assistant_message
    from perdure.adapters.openai_agents import PerdureSession

    path, key, number = sys.argv[1], sys.argv[2], int(sys.argv[3])

    async def one(start):
        with perdure.open(path, key=key) as db:
            agent = Agent(name="a", model=ScriptedModel([[assistant_message("Hello")]]))
            session = PerdureSession("own %d.%d" % (number, start), db)
            shared = PerdureSession("shared", db)
            await Runner.run(agent, "Hi", session=session, run_config=RunConfig(tracing_disabled=True))
            await shared.add_items([{"role": "user", "content": "%d.%d" % (number, start)}])

    async def main():
        await asyncio.gather(*(one(start) for start in range(40)))

    asyncio.run(main())
    print("fine")
"""


def test_160_starts_in_four_processes_meet_no_error(tmp_path: Path) -> None:
    path, key = str(tmp_path / "a.db"), str(tmp_path / "a.master")
    perdure.open(path, key=key).close()
    command = [sys.executable, "-c", textwrap.dedent(WORK), path, key]
    started = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in range(4)]
    assert [process.communicate(timeout=240)[0] for process in started] == ["fine\n"] * 4
    with perdure.open(path, key=key) as db:
        shared = asyncio.run(PerdureSession("shared", db).get_items())
        assert len({item["content"] for item in shared}) == len(shared) == 160  # type: ignore[typeddict-item]
        assert db.count() == 161


KILLED = """
    import asyncio, os, signal, sys, warnings
    warnings.simplefilter("ignore")
    import perdure
    from agents import Agent, RunConfig, Runner, function_tool
    from agents.testing import ScriptedModel, function_call
    from perdure.adapters.openai_agents import PerdureSession

    @function_tool
    def fall() -> str:
        "Falls."
        os.kill(os.getpid(), signal.SIGKILL)

    with perdure.open(sys.argv[1]) as db:
        session = PerdureSession("s", db)
        asyncio.run(session.add_items([{"role": "user", "content": "Before"}, {"role": "assistant", "content": "Yes"}]))
        agent = Agent(name="a", model=ScriptedModel([[function_call("fall", {}, call_id="c")]]), tools=[fall])
        asyncio.run(Runner.run(agent, "Go", session=session, run_config=RunConfig(tracing_disabled=True)))
"""


def test_a_run_goes_on_after_its_process_was_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), path], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.path.exists(path)
    with perdure.open(path) as db:
        model = ScriptedModel([[assistant_message("Here I am.")]])
        session = PerdureSession("s", db)
        run_sync(Agent(name="a", model=model), "Are you there?", session)
        assert [item.get("content") for item in model.calls[0].input] == ["Before", "Yes", "Go", "Are you there?"]
        assert len(asyncio.run(session.get_items())) == 5
        assert db.verify().ok


async def test_an_item_whose_type_is_no_text_is_refused() -> None:
    async with await perdure.aopen(":memory:") as db:
        odd: Any = {"type": ["x"]}
        with pytest.raises(errors.Invalid, match="type of an item"):
            await PerdureSession("trip", db).add_items([odd])
        await PerdureSession("trip", db).add_items([{"role": "user", "content": [{"type": ["x"]}]}])  # type: ignore[list-item,typeddict-item]
