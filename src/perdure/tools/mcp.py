"""The tools of an MCP server: listed when it is first reached, and called one by one.

A server that has died is reached anew for the next call. A call it died in is made again only if running the tool twice
does no harm, or if it cannot have reached the server. The package `mcp` is loaded when a server is first needed.
"""

import asyncio
from typing import Any, Final

from perdure.core.session.shown import told
from perdure.core.talk.parts import Tool
from perdure.tools.mcp_blocks import named, outcome_from
from perdure.tools.mcp_link import Broken, Link, Server, StdioServer
from perdure.tools.outcome import Context, Outcome, failure

KEY: Final = "perdure/idempotency-key"
"""Where a server finds the idempotency key of a call, in `_meta`."""
MAX_PAGES: Final = 100
MAX_TOOLS: Final = 1000
_CLOSED: Final = "Connection closed"
_FORGOTTEN: Final = frozenset(
    {"session terminated", "session not found", "not found: session has been terminated", "invalid session id"}
)
"""How servers say that they know nothing of a connection from before they were started: nothing was run."""


class McpServer:
    """One server under the name it has here."""

    def __init__(self, name: str, server: Server) -> None:
        self.name = name
        self.tools: dict[str, McpTool] = {}
        self._server = server
        self._link: Link | None = None
        self._left: list[Link] = []
        self._opening = asyncio.Lock()

    async def ready(self) -> None:
        """Reach the server and list its tools, if that has not been done; `Broken` when it cannot be."""
        await self._linked()

    async def call(self, tool: str, arguments: dict[str, Any], context: Context) -> Outcome:
        """Call a tool. Raises TimeoutError when the time is over; anything else that goes wrong is a failed outcome."""
        for last in (False, True):
            try:
                link = await self._linked()
            except Broken as error:
                return failure(f"MCP server {self.name} cannot be reached: {error}")
            outcome = await self._once(link, tool, arguments, context, last=last)
            if outcome is not None:
                return outcome
        raise AssertionError("the last attempt has an outcome")

    async def close(self) -> None:
        """Hang up."""
        links = [*self._left, *([self._link] if self._link else [])]
        self._link, self._left = None, []
        for link in links:
            await link.close()

    async def _once(
        self, link: Link, tool: str, arguments: dict[str, Any], context: Context, *, last: bool
    ) -> Outcome | None:
        """What came of one attempt, or None if another one may be made."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        client = await link.client()
        link.in_flight += 1
        try:
            meta: Any = {KEY: context.key} if context.key else None
            answer = await client.call_tool(tool, arguments, read_timeout_seconds=context.seconds, meta=meta)
            return outcome_from(answer)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise TimeoutError(f"MCP server {self.name} gave no answer within {context.seconds:g} s") from None
            if self._has_forgotten(error.message):
                await self._drop(link)
                return failure(f"MCP server {self.name}: {error.message}") if last else None
            if error.code != CONNECTION_CLOSED:
                return failure(f"MCP server {self.name}: {error.message}")
            if error.message == _CLOSED:
                await link.ended(0.0 if link.dead else 2.0)
            if not last and (context.again or link.unsent):
                return None
            sure = "nothing was run" if link.unsent else "whether the tool did its work is not known"
            return failure(f"MCP server {self.name} died in the call; {sure}, and the next call starts it anew")
        finally:
            link.in_flight -= 1

    def _has_forgotten(self, words: str) -> bool:
        return not isinstance(self._server, StdioServer) and words.strip().lower() in _FORGOTTEN

    async def _drop(self, link: Link) -> None:
        """Use a link no more; calls that are under way on it are not cut off."""
        if self._link is link:
            self._link = None
        if link.in_flight <= 1:
            await link.close()
        else:
            self._left.append(link)

    async def _linked(self) -> Link:
        """A link that lives, with the tools listed over it."""
        async with self._opening:
            if self._link is None or self._link.dead:
                if self._link is not None:
                    await self._link.close()
                self._link = None
                link = Link(self._server)
                try:
                    await self._list(link)
                except BaseException:
                    await link.close()
                    raise
                self._link = link
            return self._link

    async def _list(self, link: Link) -> None:
        from mcp import MCPError

        client = await link.client()
        found: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        try:
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if cursor is None or cursor in seen or len(found) >= MAX_TOOLS:
                    break
                seen.add(cursor)
        except (MCPError, ValueError) as error:  # a list that is none is a ValueError
            raise Broken(f"it does not list its tools: {told(error)}") from error
        tools = named(self.name, found[:MAX_TOOLS])
        self.tools = {name: McpTool(self, there, tool) for name, (there, tool) in tools.items()}


class McpTool:
    """A `perdure.tools.outcome.Runner` for one tool of a server."""

    def __init__(self, server: McpServer, there: str, tool: Tool) -> None:
        self.tool = tool
        self._server = server
        self._there = there

    async def run(self, arguments: dict[str, Any], context: Context) -> Outcome:
        """Call it where it lives."""
        return await self._server.call(self._there, arguments, context)
