"""Tools inside a turn: who is offered which, what may run, and that running one never raises."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import Invalid
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Config, Origin
from perdure.core.session.state import State
from perdure.core.session.tools import Binding, Tools
from perdure.core.session.waking import Scope
from perdure.core.talk.parts import Call, Media, Result, Text
from perdure.services import tooling as module
from perdure.services.toolbox import Toolbox
from perdure.services.tooling import Tooling
from perdure.tools.mcp_link import HttpServer, StdioServer
from tests.tools.serving import Journal, over_http, over_stdio

SESSION = SessionId("s1")
IMAGE = Media(media_type="image/png", data=b"\x89PNG\r\n\x1a\n")


@pytest.fixture
async def tooling() -> AsyncIterator[Tooling]:
    made = Tooling(max_text=2000)
    yield made
    await made.close()


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def ruled(*rules: dict[str, Any], **bindings: Binding) -> State:
    config = Config(extra={"tools": list(rules)}) if rules else Config()
    return State(session="s1", origin=Origin(config=config), tools=Tools(bindings=bindings))


def names(tooling: Tooling, state: State | None = None) -> list[str]:
    return [tool.name for tool in tooling.offers(state or State())]


async def ran(
    tooling: Tooling, name: str, arguments: dict[str, Any] | None = None, deadline: float = 30.0, **given: Any
) -> Result:
    call = Call(id="c1", name=name, arguments=arguments or {})
    return await tooling.run(call, key="k1", session=SESSION, turn=3, deadline=deadline, **given)


def words(result: Result) -> str:
    return "".join(block.text for block in result.content if isinstance(block, Text))


# ── offers and permission ──


def test_what_is_offered_comes_in_one_order_whatever_was_registered_first() -> None:
    one, other = Tooling(), Tooling()
    for name in ("b", "a", "c"):
        one.register(name, add)
    for name in ("c", "b", "a"):
        other.register(name, add)
    assert one.offers(State()) == other.offers(State())
    assert names(one) == ["a", "b", "c"]
    assert one.offers(State())[0].description == "Add two numbers."


def test_a_tool_is_hidden_only_when_it_is_denied_whatever_its_arguments() -> None:
    tooling = Tooling()
    for name in ("read", "write", "remove"):
        tooling.register(name, add, approval=name == "write")
    state = ruled(
        {"tool": "remove", "do": "deny"},
        {"tool": "read", "when": {"/a": {">": 5}}, "do": "deny", "reason": "too far"},
    )
    assert names(tooling, state) == ["read", "write"]
    assert tooling.permission(state, "read", {"a": 6}) == module.Permission("deny", "too far")
    assert tooling.permission(state, "read", {"a": 5}).do == "allow"
    assert tooling.permission(state, "write", {}).do == "ask"
    assert tooling.permission(state, "remove", {}).do == "deny"
    assert tooling.permission(state, "nothing", {}).do == "deny"
    assert [tooling.knows(name) for name in ("remove", "nothing")] == [True, False]


def test_rules_that_say_nothing_stop_offers_and_deny_every_call_with_the_place() -> None:
    tooling = Tooling()
    tooling.register("read", add)
    state = ruled({"tool": "*", "do": "allow it"})
    with pytest.raises(Invalid, match="tools/0/do"):
        tooling.offers(state)
    denied = tooling.permission(state, "read", {})
    assert denied.do == "deny"
    assert "tools/0/do" in denied.reason


@pytest.mark.parametrize("name", ["", "a b", "a__b", "x" * 65, "é", None, "a.b"])
def test_a_name_that_a_provider_would_not_take_or_a_server_has_is_refused(name: Any) -> None:
    with pytest.raises(Invalid, match="no name for a tool"):
        Tooling().register(name, add)


@pytest.mark.parametrize("name", ["", "a__b", "a_", "_a", "x" * 33, None])
def test_a_server_has_a_name_that_can_be_told_from_its_tools(name: Any) -> None:
    with pytest.raises(Invalid, match="no name for an MCP server"):
        Tooling().register(name, HttpServer(url="http://127.0.0.1:9"))


def test_a_name_is_taken_once() -> None:
    box = Toolbox()
    box.register("boxed", "1.0.0", add)
    tooling = Tooling(box)
    tooling.register("add", add)
    tooling.register("far", StdioServer(command="serve"))
    for name in ("add", "far", "boxed"):
        with pytest.raises(Invalid, match="already"):
            tooling.register(name, add)
        with pytest.raises(Invalid, match="already"):
            tooling.register(name, HttpServer(url="http://127.0.0.1:9"))


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", None])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(Invalid, match="timeout is"):
        Tooling().register("add", add, timeout=timeout)


def test_what_does_no_harm_twice_says_so() -> None:
    tooling = Tooling()
    tooling.register("add", add, idempotent=True)
    tooling.register("pay", add)
    assert [tooling.idempotent(name) for name in ("add", "pay", "nothing")] == [True, False, False]


# ── a toolbox ──


def versioned(version: str) -> Any:
    def search(query: str) -> str:
        return f"{query} by {version}"

    return search


@pytest.fixture
def boxed() -> Tooling:
    box = Toolbox()
    for version in ("1.2.0", "1.4.0"):
        box.register("search", version, versioned(version))
    box.register("grep", "3.0.0", versioned("grep"), substitutes_for="look")
    box.register("elsewhere", "1.0.0")
    box.register("spoken name", "1.0.0", add)
    box.register("mine", "1.0.0", add, allow=lambda scope: scope.owner == "ana")
    box.register("slow", "1.0.0", add, allow=said_later)
    box.register("broken", "1.0.0", add, allow=raising)
    return Tooling(box)


async def said_later(_: Scope) -> bool:
    return True


def raising(_: Scope) -> bool:
    raise RuntimeError("no rule today")


async def test_a_session_is_served_the_version_that_it_is_bound_to(boxed: Tooling) -> None:
    bound = ruled(search=Binding(version="1.2.0"))
    assert words(await ran(boxed, "search", {"query": "fish"}, state=bound)) == "fish by 1.2.0"
    assert words(await ran(boxed, "search", {"query": "fish"}, state=State())) == "fish by 1.4.0"
    gone = ruled(search=Binding(version="1.3.0"))
    assert (await ran(boxed, "search", {"query": "fish"}, state=gone)).failed
    assert "search" not in names(boxed, gone)
    assert "search" not in names(boxed, ruled(search=Binding(version=None)))


async def test_what_stands_in_for_a_tool_is_offered_under_the_name_that_was_asked_for(boxed: Tooling) -> None:
    state = ruled(look=Binding(version="3.0.0", substitute="grep"))
    assert "look" in names(boxed, state)
    assert boxed.permission(state, "look", {}).do == "allow"
    assert words(await ran(boxed, "look", {"query": "fish"}, state=state)) == "fish by grep"
    assert boxed.knows("look")
    assert not boxed.knows("look", State())


def test_only_what_runs_here_and_is_allowed_here_is_offered(boxed: Tooling) -> None:
    assert names(boxed) == ["grep", "search"]
    assert [boxed.knows(name) for name in ("elsewhere", "mine")] == [False, True]
    ana = State(origin=Origin(owner="ana"))
    assert names(boxed, ana) == ["grep", "mine", "search"]
    assert boxed.permission(ana, "mine", {}).do == "allow"
    denied = boxed.permission(State(), "mine", {})
    assert (denied.do, denied.reason) == ("deny", "the tool is not allowed for this session")
    assert boxed.permission(State(), "broken", {}).do == "deny"


def test_a_rule_that_must_be_awaited_was_asked_when_the_session_woke(boxed: Tooling) -> None:
    assert boxed.permission(State(), "slow", {}).do == "deny"
    assert boxed.permission(ruled(slow=Binding(version="1.0.0")), "slow", {}).do == "allow"


def test_a_function_that_is_registered_again_is_the_one_that_runs() -> None:
    box = Toolbox()
    tooling = Tooling(box)
    box.register("add", "1.0.0", add)
    assert tooling.offers(State())[0].description == "Add two numbers."
    box.register("add", "1.0.0", versioned("new"))
    assert tooling.offers(State())[0].schema["required"] == ["query"]


# ── running ──


async def test_a_tool_answers_under_the_id_of_its_call(tooling: Tooling) -> None:
    tooling.register("add", add)
    assert await ran(tooling, "add", {"a": 1, "b": 2}) == Result(call="c1", content=(Text(text="3"),))


async def test_a_tool_is_told_the_key_and_the_call_it_runs_for(tooling: Tooling) -> None:
    async def who(*, key: str, context: Any) -> list[Any]:
        return [key, context.session, context.turn, context.call, context.seconds]

    tooling.register("who", who, timeout=5)
    assert words(await ran(tooling, "who")) == '["k1","s1",3,"c1",5.0]'
    assert words(await ran(tooling, "who", deadline=2.0)) == '["k1","s1",3,"c1",2.0]'


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("a fish"), "ValueError: a fish"),
        (KeyError("fish"), "KeyError: 'fish'"),
        (SystemExit(3), "SystemExit"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
        (TimeoutError(), "TimeoutError"),
        (StopAsyncIteration(), "StopAsyncIteration"),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
async def test_whatever_a_tool_raises_is_a_failed_result_without_a_traceback(
    tooling: Tooling, error: BaseException, told: str, plain: bool
) -> None:
    def wrong() -> None:
        raise error

    async def wrong_later() -> None:
        await asyncio.sleep(0)
        raise error

    tooling.register("wrong", wrong if plain else wrong_later)
    result = await ran(tooling, "wrong")
    assert result.failed
    assert told in words(result)
    assert "Traceback" not in words(result)
    assert ".py" not in words(result)


async def test_an_async_tool_that_hangs_is_cancelled_when_its_time_is_over(tooling: Tooling) -> None:
    stopped = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    tooling.register("hang", hang, timeout=0.05)
    result = await ran(tooling, "hang")
    assert (result.failed, words(result)) == (True, "TimeoutError: hang gave no answer within 0.05 s")
    assert stopped.is_set()


async def test_a_plain_tool_that_hangs_is_left_behind_and_the_next_call_is_served(tooling: Tooling) -> None:
    gate = threading.Event()
    tooling.register("hang", lambda: gate.wait() and None)
    tooling.register("add", add)
    try:
        assert words(await ran(tooling, "hang", deadline=0.05)).startswith("TimeoutError")
        assert words(await ran(tooling, "add", {"a": 1})) == "1"
    finally:
        gate.set()


async def test_a_tool_that_will_not_be_cancelled_is_left_behind(
    tooling: Tooling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.05)
    gate = asyncio.Event()

    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    tooling.register("stubborn", stubborn, timeout=0.05)
    assert (await ran(tooling, "stubborn")).failed
    gate.set()
    await tooling.close()
    assert not tooling._behind


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("nan")])
async def test_without_time_a_tool_is_not_run(tooling: Tooling, deadline: float) -> None:
    calls: list[int] = []
    tooling.register("note", lambda: calls.append(1))
    assert words(await ran(tooling, "note", deadline=deadline)) == (
        "TimeoutError: no time was left, so the tool was not run"
    )
    assert calls == []


async def test_who_cancels_a_run_cancels_the_tool(tooling: Tooling) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    tooling.register("hang", hang)
    task = asyncio.create_task(ran(tooling, "hang"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


async def test_a_result_of_10_mb_is_cut_and_says_so(tooling: Tooling) -> None:
    tooling.register("big", lambda: "x" * 10_000_000)
    result = await ran(tooling, "big")
    assert not result.failed
    assert len(words(result)) <= 2000
    assert words(result).endswith("of 10000000 bytes]")


async def test_an_error_of_10_mb_is_cut_as_well(tooling: Tooling) -> None:
    def wrong() -> None:
        raise ValueError("x" * 10_000_000)

    tooling.register("wrong", wrong)
    result = await ran(tooling, "wrong")
    assert (result.failed, len(words(result)) <= 2000) == (True, True)


async def test_an_image_comes_through(tooling: Tooling) -> None:
    tooling.register("image", lambda: [Text(text="look"), IMAGE])
    assert (await ran(tooling, "image")).content == (Text(text="look"), IMAGE)


async def test_what_is_no_data_is_a_failed_result(tooling: Tooling) -> None:
    tooling.register("strange", lambda: [object()])
    result = await ran(tooling, "strange")
    assert result.failed
    assert words(result).startswith("Invalid: the tool answered a object")


async def test_an_unknown_tool_and_arguments_that_are_none_are_failed_results(tooling: Tooling) -> None:
    tooling.register("add", add)
    assert words(await ran(tooling, "sub")) == "there is no tool 'sub' here"
    call = Call(id="c1", name="add", raw='{"a": ')
    result = await tooling.run(call, key="k1", session=SESSION, turn=3, deadline=5.0)
    assert (result.failed, "no JSON object" in words(result)) == (True, True)
    result = await ran(tooling, "add", {"a": "one"})
    assert (result.failed, "$.a" in words(result)) == (True, True)


async def test_many_tools_run_at_once(tooling: Tooling) -> None:
    together = asyncio.Barrier(50)

    async def meet(number: int) -> int:
        await together.wait()
        return number

    tooling.register("meet", meet)
    results = await asyncio.gather(*(ran(tooling, "meet", {"number": number}) for number in range(50)))
    assert [words(result) for result in results] == [str(number) for number in range(50)]


# ── MCP servers ──


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


@pytest.mark.slow
async def test_the_tools_of_servers_are_offered_and_run_like_any_other(tooling: Tooling, journal: Journal) -> None:
    with over_http(journal) as port:
        tooling.register("near", over_stdio(journal), approval=True, timeout=20)
        tooling.register("far", HttpServer(url=f"http://127.0.0.1:{port}/mcp"), idempotent=True)
        assert names(tooling) == []
        assert await asyncio.gather(*(tooling.ready() for _ in range(5))) == [{}] * 5
        assert len(journal.starts()) == 2
        assert {"near__add", "far__add", "far__files_read"} <= set(names(tooling))
        assert names(tooling) == sorted(names(tooling))
        assert "near__add" not in names(tooling, ruled({"tool": "near__*", "do": "deny"}))
        assert tooling.permission(State(), "near__add", {}).do == "ask"
        assert tooling.permission(State(), "far__add", {}).do == "allow"
        assert (tooling.idempotent("far__add"), tooling.idempotent("near__add")) == (True, False)

        starts = journal.starts()
        assert await tooling.ready() == {}
        for server in ("near", "far"):
            assert words(await ran(tooling, f"{server}__add", {"a": 1, "b": 2})) == "3"
            assert words(await ran(tooling, f"{server}__key")) == "k1"
            assert words(await ran(tooling, f"{server}__big")).endswith("of 10000000 bytes]")
            no = await ran(tooling, f"{server}__say_no")
            assert (no.failed, words(no)) == (True, "there is no such fish")
            stray = await ran(tooling, f"{server}__stray")
            assert (stray.failed, words(stray).startswith("RuntimeError: ")) == (True, True)
            late = await ran(tooling, f"{server}__hang", deadline=0.5)
            assert (late.failed, words(late).startswith("TimeoutError: ")) == (True, True)
        assert journal.starts() == starts


@pytest.mark.slow
async def test_a_server_that_dies_in_a_call_is_a_failed_result_and_serves_the_next_one(
    tooling: Tooling, journal: Journal
) -> None:
    tooling.register("near", over_stdio(journal))
    await tooling.ready()
    died = await ran(tooling, "near__die")
    assert (died.failed, "died in the call" in words(died)) == (True, True)
    assert words(await ran(tooling, "near__add", {"a": 1})) == "1"
    assert (journal.count("die"), len(journal.starts())) == (1, 2)


@pytest.mark.slow
async def test_a_server_that_cannot_be_reached_is_told_and_left_alone_for_a_while(
    tooling: Tooling, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    tooling.register("near", over_stdio(journal))
    tooling.register("far", StdioServer(command="there-is-no-such-program"))
    troubles = await tooling.ready()
    assert list(troubles) == ["far"]
    assert "there-is-no-such-program" in troubles["far"]
    assert "near__add" in names(tooling)
    assert await tooling.ready() == troubles
    assert tooling._unreached() == []
    monkeypatch.setattr(tooling, "_troubles", {"far": (0.0, "long ago")})
    assert await tooling.ready() == troubles
    assert (await ran(tooling, "far__add")).failed
