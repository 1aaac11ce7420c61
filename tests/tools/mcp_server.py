"""An MCP server for tests, run as a process of its own: `mcp_server.py JOURNAL stdio` or `mcp_server.py JOURNAL PORT`.

What its tools do is written to the journal, a line each, so that a test can count what really ran.
"""

import os
import socket
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import MCPError, stdio_server
from mcp.server.lowlevel import Server
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
PAGE = 4
TEN_MB = 10_000_000
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
NAMES = ("add", "big", "data", "die", "die_once", "files.read", "files/read", "hang", "image", "key", "odd", "refuse")
NAMES += ("say_no", "stray", "who", "z" * 100)

journal = Path(sys.argv[1]) if __name__ == "__main__" else Path()


def note(line: str) -> None:
    with journal.open("a") as file:
        file.write(line + "\n")


def text(words: Any) -> TextContent:
    return TextContent(text=str(words))


def described(name: str) -> Tool:
    output = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    return Tool(
        name=name,
        description=f"The tool {name}.",
        input_schema=NUMBERS if name == "add" else {"type": "object"},
        output_schema=output if name in ("data", "stray") else None,
    )


async def list_tools(_: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
    start = int((params and params.cursor) or 0)
    more = str(start + PAGE) if start + PAGE < len(NAMES) else None
    note(f"list {start}")
    return ListToolsResult(tools=[described(name) for name in NAMES[start : start + PAGE]], next_cursor=more)


async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
    note(params.name)
    given = params.arguments or {}
    match params.name:
        case "add":
            return CallToolResult(content=[text(given["a"] + given.get("b", 0))])
        case "big":
            return CallToolResult(content=[text("x" * TEN_MB)])
        case "data":
            return CallToolResult(content=[], structured_content={"sum": 3})
        case "stray":
            return CallToolResult(content=[text("?")], structured_content={"sum": "three"})
        case "image":
            data = b64encode(PIXEL).decode()
            return CallToolResult(content=[text("look"), ImageContent(data=data, mime_type="image/png")])
        case "odd":
            return odd()
        case "key":
            return CallToolResult(content=[text((params.meta or {}).get("perdure/idempotency-key"))])
        case "say_no":
            return CallToolResult(content=[text("there is no such fish")], is_error=True)
        case "refuse":
            raise MCPError(code=-32602, message="not with me")
        case "hang":
            await hang()
        case "die":
            os._exit(1)
        case "die_once" if journal.read_text().splitlines().count("die_once") == 1:
            os._exit(1)
    return CallToolResult(content=[text(f"{params.name} {os.getpid()}")])


async def hang() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        note("hang was stopped")


def odd() -> CallToolResult:
    return CallToolResult(
        content=[
            AudioContent(data=b64encode(b"sound").decode(), mime_type="audio/wav"),
            ImageContent(data="no base64 é", mime_type="image/png"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="words of a")),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob=b64encode(b"%PDF").decode())),
            ResourceLink(name="c", uri="file:///c"),
        ]
    )


server: Server[Any] = Server("fixture", version="1.0", on_list_tools=list_tools, on_call_tool=call_tool)


async def over_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http(port: int) -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", lifespan="on")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    note(f"started {os.getpid()}")
    if sys.argv[2] == "stdio":
        anyio.run(over_stdio)
    else:
        over_http(int(sys.argv[2]))
