"""Tools of MCP servers: real servers in processes of their own, over stdio and over HTTP on the loopback device."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.core.talk.parts import Media, Text
from perdure.tools.mcp import McpServer
from perdure.tools.mcp_link import Broken, HttpServer, Server, StdioServer
from perdure.tools.outcome import Context, Outcome
from tests.tools.mcp_server import NAMES, PIXEL, TEN_MB
from tests.tools.serving import Journal, over_http, over_stdio

pytestmark = pytest.mark.slow


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


@asynccontextmanager
async def reached(server: Server) -> AsyncIterator[McpServer]:
    found = McpServer("far", server)
    try:
        await found.ready()
        yield found
    finally:
        await found.close()


@pytest.fixture(params=["stdio", "stdio legacy", "http", "http legacy"])
async def server(request: pytest.FixtureRequest, journal: Journal) -> AsyncIterator[McpServer]:
    kind, _, protocol = request.param.partition(" ")
    protocol = protocol or "auto"
    if kind == "stdio":
        async with reached(over_stdio(journal, protocol=protocol)) as found:
            yield found
    else:
        with over_http(journal) as port:
            async with reached(HttpServer(url=f"http://127.0.0.1:{port}/mcp", protocol=protocol)) as found:
                yield found


def context(**given: Any) -> Context:
    return Context(**{"key": "k1", "seconds": 30.0, **given})


async def called(server: McpServer, name: str, arguments: dict[str, Any] | None = None, **given: Any) -> Outcome:
    return await server.tools[f"far__{name}"].run(arguments or {}, context(**given))


def words(outcome: Outcome) -> str:
    return "".join(block.text for block in outcome.content if isinstance(block, Text))


async def test_a_server_is_asked_for_every_page_of_its_tools_and_answers_in_every_form(
    server: McpServer, journal: Journal
) -> None:
    assert len(server.tools) == len(NAMES)
    assert [line for line in journal.lines() if line.startswith("list")] == ["list 0", "list 4", "list 8", "list 12"]
    add = server.tools["far__add"].tool
    assert (add.name, add.description, add.schema["required"]) == ("far__add", "The tool add.", ["a"])

    assert await called(server, "add", {"a": 1, "b": 2}) == Outcome(content=(Text(text="3"),))
    assert (await called(server, "image")).content == (
        Text(text="look"),
        Media(media_type="image/png", data=PIXEL),
    )
    assert words(await called(server, "data")) == '{"sum":3}'
    assert await called(server, "say_no") == Outcome(content=(Text(text="there is no such fish"),), failed=True)
    assert words(await called(server, "key", key="once")) == "once"
    refused = await called(server, "refuse")
    assert (refused.failed, words(refused)) == (True, "MCP server far: not with me")
    assert len(words(await called(server, "big"))) == TEN_MB
    with pytest.raises(RuntimeError, match="three"):
        await called(server, "stray")


async def test_a_tool_that_hangs_is_given_up_and_told_to_stop_and_the_next_call_is_served(
    server: McpServer, journal: Journal
) -> None:
    with pytest.raises(TimeoutError, match=r"no answer within 0\.5 s"):
        await called(server, "hang", seconds=0.5)
    assert await asyncio.to_thread(journal.holds, "hang was stopped")
    assert words(await called(server, "add", {"a": 5})) == "5"
    assert len(journal.starts()) == 1


async def test_a_call_that_is_cancelled_is_stopped_at_the_server(server: McpServer, journal: Journal) -> None:
    task = asyncio.create_task(called(server, "hang"))
    assert await asyncio.to_thread(journal.holds, "hang")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(journal.holds, "hang was stopped")


@pytest.fixture
async def piped(journal: Journal) -> AsyncIterator[McpServer]:
    async with reached(over_stdio(journal)) as found:
        yield found


async def test_every_block_of_an_answer_has_a_place(piped: McpServer) -> None:
    assert (await called(piped, "odd")).content == (
        Media(media_type="audio/wav", data=b"sound"),
        Text(text="[left out: image/png that is not base64]"),
        Text(text="words of a"),
        Media(media_type="application/octet-stream", data=b"%PDF", name="file:///b"),
        Text(text="c: file:///c"),
    )


async def test_names_that_a_provider_would_not_take_are_changed_and_told_apart(piped: McpServer) -> None:
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in piped.tools)
    assert words(await piped.tools["far__files_read"].run({}, context())).startswith("files.read ")
    (other,) = (name for name in piped.tools if name.startswith("far__files_read_"))
    assert words(await piped.tools[other].run({}, context())).startswith("files/read ")
    (long,) = (name for name in piped.tools if name.startswith("far__zzz"))
    assert words(await piped.tools[long].run({}, context())).startswith("z" * 100)


async def test_a_server_that_dies_in_a_call_may_have_run_it_so_it_is_not_run_again(
    piped: McpServer, journal: Journal
) -> None:
    died = await called(piped, "die")
    assert died.failed
    assert "whether the tool did its work is not known" in words(died)
    assert journal.count("die") == 1
    assert words(await called(piped, "add", {"a": 5})) == "5"
    assert len(journal.starts()) == 2


async def test_all_calls_that_a_server_died_in_are_told_and_it_is_started_anew_once(
    piped: McpServer, journal: Journal
) -> None:
    waiting = [asyncio.create_task(called(piped, "hang")) for _ in range(10)]
    assert await asyncio.to_thread(journal.holds, "hang", 10)
    results = [await called(piped, "die"), *await asyncio.gather(*waiting)]
    assert all(result.failed and "not known" in words(result) for result in results)
    again = await asyncio.gather(*(called(piped, "add", {"a": number}) for number in range(10)))
    assert [words(result) for result in again] == [str(number) for number in range(10)]
    assert (journal.count("hang"), len(journal.starts())) == (10, 2)


async def test_a_call_that_does_no_harm_twice_is_made_again_once(piped: McpServer, journal: Journal) -> None:
    assert words(await called(piped, "die_once", again=True)) == f"die_once {journal.starts()[1]}"
    assert (await called(piped, "die", again=True)).failed
    assert journal.count("die") == 2
    assert len(journal.starts()) == 3


async def test_a_server_that_was_killed_between_calls_is_started_anew(piped: McpServer, journal: Journal) -> None:
    (first,) = journal.starts()
    os.kill(first, signal.SIGKILL)
    link = piped._link
    assert link is not None
    await asyncio.wait_for(link._hung_up.wait(), 30)
    who = await called(piped, "who")
    assert (who.failed, words(who)) == (False, f"who {journal.starts()[1]}")


async def test_closing_ends_the_process_of_a_server(journal: Journal) -> None:
    async with reached(over_stdio(journal)):
        (pid,) = journal.starts()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_over_http_that_was_started_again_is_reached_anew(journal: Journal, protocol: Any) -> None:
    with over_http(journal) as port:
        found = McpServer("far", HttpServer(url=f"http://127.0.0.1:{port}/mcp", protocol=protocol))
        await found.ready()
        first = await called(found, "who")
    down = await called(found, "who")
    assert down.failed
    with over_http(journal, port):
        second = await called(found, "who")
        await found.close()
    assert (first.failed, second.failed) == (False, False)
    assert [words(first), words(second)] == [f"who {pid}" for pid in journal.starts()]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_over_http_that_knows_nothing_of_us_any_more_is_greeted_again(
    journal: Journal, protocol: Any
) -> None:
    with over_http(journal) as port:
        found = McpServer("far", HttpServer(url=f"http://127.0.0.1:{port}/mcp", protocol=protocol))
        await found.ready()
    with over_http(journal, port):
        who = await called(found, "who")
        await found.close()
    assert (who.failed, words(who)) == (False, f"who {journal.starts()[1]}")
    assert journal.count("who") == 1


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_over_http_that_dies_in_a_call_is_told(journal: Journal, protocol: Any) -> None:
    with over_http(journal) as port:
        async with reached(HttpServer(url=f"http://127.0.0.1:{port}/mcp", protocol=protocol)) as found:
            died = await called(found, "die")
            assert died.failed
            assert "not known" in words(died)
            assert journal.count("die") == 1


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (StdioServer(command="there-is-no-such-program"), "FileNotFoundError"),
        (StdioServer(command=sys.executable, args=("-c", "print('hello')")), "closed"),
        (StdioServer(command=sys.executable, args=("-c", "input(); input()"), connect_timeout=1.5), "1.5 s"),
        (HttpServer(url="http://127.0.0.1:9/mcp"), "ConnectError"),
        (HttpServer(url="nothing"), "URL"),
    ],
)
async def test_a_server_that_is_none_is_broken_and_says_why(server: Server, why: str) -> None:
    found = McpServer("far", server)
    with pytest.raises(Broken, match=why):
        await found.ready()
    await found.close()


def test_secrets_are_not_shown() -> None:
    shown = repr(StdioServer(command="serve", args=("--token", "s3cret"), env={"TOKEN": "s3cret"}))
    shown += repr(HttpServer(url="https://me:s3cret@there/mcp", headers={"Authorization": "s3cret"}))
    assert "s3cret" not in shown
