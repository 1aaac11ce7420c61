"""Tools that a server has by its configuration: reached, called, asked for; and nothing secret is shown."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.errors import Invalid
from perdure.edge.http.configuring import configure, shown
from perdure.edge.http.settings import Settings
from perdure.edge.http.toolservers import ToolServer, servers_of
from perdure.tools.mcp_link import HttpServer
from tests.edge.http.world import world
from tests.tools.serving import QUIET, SCRIPT, Journal

PAGE = Path(__file__).parents[3] / "docs" / "CONFIG.md"
SECRET = "very-secret-0123456789"


async def test_a_model_calls_the_tools_of_a_server_that_the_configuration_names(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    journal = Journal(tmp_path)
    command = (sys.executable, *QUIET, str(SCRIPT), str(journal.path), "stdio")
    tools = {"sums": ToolServer(command=command), "asked": ToolServer(command=command, approval=True)}
    async with world(tools=tools) as there:
        ana = await there.principal("ana")
        path = f"/v1/sessions/{await ana.begun()}/messages"
        found = (await ana.post(path, {"content": 'call sums__add {"a": 2, "b": 3}'})).json
        assert (found["status"], found["text"]) == ("finished", "sums__add answered: 5.")
        assert (await ana.post(path, {"content": 'call asked__add {"a": 2, "b": 3}'})).json["status"] == "parked"


def test_a_header_has_what_the_environment_says() -> None:
    given = {"far": ToolServer(url="https://example.org/mcp", headers_env={"Authorization": "FAR_KEY"})}
    assert servers_of(given, {"FAR_KEY": SECRET}) == {
        "far": HttpServer(url="https://example.org/mcp", headers={"Authorization": SECRET})
    }
    with pytest.raises(Invalid, match=r"tools\.far: the environment has no FAR_KEY"):
        servers_of(given, {})


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, "a command or a url"),
        ({"command": ["x"], "url": "http://x"}, "a command or a url"),
        ({"url": "ftp://x"}, "begins with http"),
        ({"url": "http://x", "env": {"A": "b"}}, "env is for a command"),
        ({"command": ["x"], "headers_env": {"A": "B"}}, "headers_env is for a url"),
        ({"command": ["x"], "timeout": 0}, "timeout"),
        ({"command": ["x"], "shell": True}, "shell"),
    ],
)
def test_what_makes_no_sense_is_told_by_its_place(facts: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=f"(?s)PERDURE_TOOLS: .*{told}"):
        configure({}, {"PERDURE_TOOLS": msgspec.json.encode({"x": facts}).decode()})


async def test_a_name_that_no_server_can_have_is_told_before_anybody_is_served() -> None:
    with pytest.raises(Invalid, match=r"tools\.a b: 'a b' is no name for an MCP server"):
        async with world(tools={"a b": ToolServer(command=("x",))}):
            pass


def test_nothing_secret_is_shown() -> None:
    tools = {"x": {"command": ["run", f"--key={SECRET}"], "env": {"KEY": SECRET}}}
    found = configure({}, {"PERDURE_TOOLS": msgspec.json.encode(tools).decode()})
    assert SECRET not in repr(found.settings)
    told = {name: value for name, value, _ in shown(found)}
    assert SECRET not in told["tools"]
    assert '"run"' in told["tools"]


def test_the_example_on_the_page_configures_tools(tmp_path: Path) -> None:
    example = PAGE.read_text().partition("## Tools")[2].partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "c.toml").write_text(example)
    settings: Settings = configure({}, {}, tmp_path / "c.toml").settings
    assert list(servers_of(settings.tools, {"SEARCH_AUTHORIZATION": SECRET})) == ["files", "search"]
