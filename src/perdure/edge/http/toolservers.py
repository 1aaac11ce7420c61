"""Whose tools models may call at a server, as an operator writes it down: MCP servers, run here or at an address."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core.errors import Invalid

if TYPE_CHECKING:  # loaded only where there are any, so that a server starts quickly
    from perdure.services.tooling import Tooling
    from perdure.tools.mcp_link import Server

Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class ToolServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server: a command that is run, or an address; and how its tools are called."""

    command: Annotated[tuple[str, ...], Meta(description="the program that is started, and its arguments")] = ()
    env: Annotated[dict[str, str], Meta(description="variables that it sees besides what every program needs")] = {}
    url: Annotated[str, Meta(description="instead of a command: where it speaks streamable HTTP")] = ""
    headers_env: Annotated[
        dict[str, str], Meta(description="headers for it, each by the variable of the environment that has its value")
    ] = {}
    approval: Annotated[bool, Meta(description="ask a person before each call")] = False
    timeout: Annotated[Seconds, Meta(description="seconds that a call may take")] = 60.0

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("a tool server has a command or a url; give one of them")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("url begins with http:// or https://")
        if self.url and self.env:
            raise ValueError("env is for a command; give headers_env for a url")
        if self.command and self.headers_env:
            raise ValueError("headers_env is for a url; give env for a command")

    def __repr__(self) -> str:
        """Without what may be secret: arguments, variables, the address."""
        return f"ToolServer(command={self.command[:1]!r})"


def servers_of(tools: Mapping[str, ToolServer], environ: Mapping[str, str] | None = None) -> "dict[str, Server]":
    """The servers by name. `Invalid` when the environment lacks what a header is to have."""
    if not tools:
        return {}
    from perdure.tools.mcp_link import HttpServer, StdioServer

    found: dict[str, Server] = {}
    for name, given in tools.items():
        if given.command:
            found[name] = StdioServer(command=given.command[0], args=given.command[1:], env=given.env)
        else:
            headers = _headers(name, given, os.environ if environ is None else environ)
            found[name] = HttpServer(url=given.url, headers=headers)
    return found


def _headers(name: str, given: ToolServer, environ: Mapping[str, str]) -> dict[str, str]:
    for variable in given.headers_env.values():
        if not environ.get(variable):
            told = f"tools.{name}: the environment has no {variable}; set it, or leave that header out"
            raise Invalid(told, tool=name, variable=variable)
    return {header: environ[variable] for header, variable in given.headers_env.items()}


def offer(tooling: "Tooling", tools: Mapping[str, ToolServer], servers: "Mapping[str, Server]") -> None:
    """Have models offered the tools of these servers, as `name__tool`. `Invalid` for what is no name of a server."""
    for name, server in servers.items():
        try:
            tooling.register(name, server, approval=tools[name].approval, timeout=tools[name].timeout)
        except Invalid as wrong:
            raise Invalid(f"tools.{name}: {wrong.message}", **wrong.fields) from wrong


def without_secrets(tools: Mapping[str, ToolServer]) -> dict[str, Any]:
    """Tool servers as they may be shown: of arguments and variables, only that they are there."""
    return {
        name: {
            field: _covered(field, value)
            for field, value in msgspec.structs.asdict(server).items()
            if value not in ((), "", {})
        }
        for name, server in tools.items()
    }


def _covered(field: str, value: Any) -> Any:
    if field == "env":
        return dict.fromkeys(value, "…")
    return (value[0], *("…" for _ in value[1:])) if field == "command" else value
