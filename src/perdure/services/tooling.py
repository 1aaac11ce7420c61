"""Tools that run here, inside a turn: who is offered which, whether a call may run, and running it.

Functions and MCP servers are registered here; what a `Toolbox` holds a function for can be run as well, in the version
that the session is bound to. Everything works under asyncio alone. Invariant: running a tool never raises but for the
cancellation that the caller asked for; whatever a tool does wrong is a failed result.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown, told
from perdure.core.session.state import State
from perdure.core.session.waking import Tool as Offered
from perdure.core.session.waking import ToolSpec, scope_of
from perdure.core.talk.parts import Call, Result, Tool
from perdure.core.talk.permitting import EXTRA, Permission, Policy, Standing, never, permission, policy_of
from perdure.services.foreign import GaveUp, its_own_fault
from perdure.services.toolbox import Toolbox
from perdure.tools.mcp_link import HttpServer, Server, StdioServer
from perdure.tools.outcome import MAX_MEDIA, MAX_TEXT, Context, Outcome, Runner, bounded, failure
from perdure.tools.python import PythonTool

if TYPE_CHECKING:
    from perdure.tools.mcp import McpServer

TIMEOUT: Final = 60.0
GRACE: Final = 2.0
"""How long a tool that is stopped has to stop; then it is left behind."""
AGAIN: Final = 30.0
"""How long a server that could not be reached is left alone."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SERVER: Final = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_LONGEST_SERVER: Final = 32


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool is run: whether a person must allow it, how many seconds it has, whether twice does no harm."""

    approval: bool = False
    timeout: float = TIMEOUT
    idempotent: bool = False


class Entry(msgspec.Struct, frozen=True):
    """A tool that can be run."""

    runner: Runner
    terms: Terms = Terms()


class Tooling:
    """The tools of this process.

    >>> def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> tooling = Tooling()
    >>> tooling.register("add", add)
    >>> [tool.name for tool in tooling.offers(State())], tooling.permission(State(), "add", {}).do
    (['add'], 'allow')
    """

    def __init__(self, toolbox: Toolbox | None = None, *, max_text: int = MAX_TEXT, max_media: int = MAX_MEDIA) -> None:
        self._toolbox = toolbox
        self._max_text, self._max_media = max_text, max_media
        self._functions: dict[str, Entry] = {}
        self._servers: dict[str, tuple[Server, Terms]] = {}
        self._reached: dict[str, McpServer] = {}
        self._troubles: dict[str, tuple[float, str]] = {}
        self._wrapped: dict[tuple[str, str], tuple[Any, Entry | None]] = {}
        self._reaching = asyncio.Lock()
        self._behind: set[asyncio.Task[Outcome]] = set()

    def anew(self) -> "Tooling":
        """The same tools for another event loop: no server is reached yet, and nothing runs."""
        made = Tooling(self._toolbox, max_text=self._max_text, max_media=self._max_media)
        made._functions, made._servers = self._functions, self._servers
        return made

    def register(
        self,
        name: str,
        tool: Callable[..., Any] | Server,
        *,
        approval: bool = False,
        timeout: float = TIMEOUT,
        idempotent: bool = False,
    ) -> None:
        """Have a function run as this tool, or the tools of an MCP server as `name__tool`. A name is taken once.

        With `approval` every call is asked for, unless the session's rules say otherwise. `timeout` is in seconds.
        `idempotent` says that running it twice does no harm, so that a call that broke off may be made again.
        """
        if type(timeout) not in (int, float) or not timeout > 0:
            raise Invalid(f"timeout is a number of seconds above zero, not {shown(timeout)}")
        terms = Terms(approval=approval, timeout=float(timeout), idempotent=idempotent)
        if isinstance(tool, StdioServer | HttpServer):
            self._register_server(name, tool, terms)
            return
        if type(name) is not str or not _NAME.fullmatch(name) or "__" in name:
            raise Invalid(
                f"{shown(name)} is no name for a tool; it has up to 64 letters, digits, hyphens and single underscores",
                name=name,
            )
        self._must_be_free(name)
        self._functions[name] = Entry(PythonTool(tool, name), terms)

    def _register_server(self, name: str, server: Server, terms: Terms) -> None:
        if type(name) is not str or len(name) > _LONGEST_SERVER or not _SERVER.fullmatch(name):
            raise Invalid(
                f"{shown(name)} is no name for an MCP server; it has up to {_LONGEST_SERVER} letters, digits, hyphens "
                "and single underscores between them",
                name=name,
            )
        self._must_be_free(name)
        self._servers[name] = (server, terms)

    def _must_be_free(self, name: str) -> None:
        if name in self._functions or name in self._servers or (self._toolbox and self._toolbox.versions(name)):
            raise Invalid(f"there is a tool or an MCP server {name} already; choose another name", name=name)

    async def ready(self) -> dict[str, str]:
        """Reach the MCP servers and list their tools; what is reached already costs nothing.

        Answers with what is wrong with those that cannot be reached. They are tried again, but not at once.
        """
        if self._unreached():
            async with self._reaching:
                await asyncio.gather(*map(self._reach, self._unreached()))
        return {name: words for name, (_, words) in self._troubles.items()}

    def _unreached(self) -> list[str]:
        """The servers to try now."""
        now = asyncio.get_running_loop().time()
        return [
            name
            for name in self._servers
            if name not in self._reached and now >= self._troubles.get(name, (now, ""))[0]
        ]

    async def _reach(self, name: str) -> None:
        from perdure.tools.mcp import McpServer

        server = McpServer(name, self._servers[name][0])
        try:
            await server.ready()
        except Exception as error:  # what answers may be anything but an MCP server
            self._troubles[name] = (asyncio.get_running_loop().time() + AGAIN, told(error).removeprefix("Broken: "))
        else:
            self._troubles.pop(name, None)
            self._reached[name] = server

    # ── who may run what ──

    def knows(self, name: str, state: State | None = None) -> bool:
        """Whether a tool runs here; if not, its calls are the caller's to answer."""
        return self._entry(name, state) is not None

    def idempotent(self, name: str, state: State | None = None) -> bool:
        """Whether a call that may have run already can be run again without harm, whatever its key does."""
        entry = self._entry(name, state)
        return entry is not None and entry.terms.idempotent

    def offers(self, state: State) -> tuple[Tool, ...]:
        """The tools that a model may ask for in this session, by name; `Invalid` when its rules say nothing."""
        policy = policy_of(state.config.extra.get(EXTRA))
        found: list[Tool] = []
        for name in sorted(self._names(state)):
            entry = self._entry(name, state)
            if entry is not None and not never(policy, self._standing(state, name, entry), name):
                found.append(msgspec.structs.replace(entry.runner.tool, name=name))
        return tuple(found)

    def permission(self, state: State, name: str, arguments: Any) -> Permission:
        """Whether a call may run, needs a person's word, or may not. Rules that say nothing deny, and tell why."""
        try:
            policy: Policy = policy_of(state.config.extra.get(EXTRA))
        except Invalid as wrong:
            return Permission("deny", f"the session's rules for tools are wrong: {wrong.message}")
        entry = self._entry(name, state)
        if entry is not None and not self._allowed(state, name):
            return Permission("deny", "the tool is not allowed for this session")
        return permission(policy, self._standing(state, name, entry), name, arguments)

    def _standing(self, state: State, name: str, entry: Entry | None) -> Standing:
        if entry is None or not self._allowed(state, name):
            return "unknown"
        return "approval" if entry.terms.approval else "safe"

    def _names(self, state: State) -> set[str]:
        names = {*self._functions, *(name for server in self._reached.values() for name in server.tools)}
        if self._toolbox is not None:
            names |= {*self._toolbox.names(), *state.tools.bindings}
        return {name for name in names if _NAME.fullmatch(name)}

    def _entry(self, name: str, state: State | None) -> Entry | None:
        """What runs a tool, in the version that the session is bound to."""
        if name in self._functions:
            return self._functions[name]
        for server, reached in self._reached.items():
            if name in reached.tools:
                return Entry(reached.tools[name], self._servers[server][1])
        offered = self._offered(name, state)
        return None if offered is None else self._wrapping(offered)

    def _offered(self, name: str, state: State | None) -> Offered | None:
        """What the toolbox has for a name: the bound version, else the highest one or what stands in for it."""
        if self._toolbox is None or type(name) is not str or not name:
            return None
        binding = None if state is None else state.tools.bindings.get(name)
        if binding is None:
            return self._toolbox.resolve(name) or (
                self._toolbox.find_substitute(ToolSpec(name=name)) if state is None else None
            )
        if binding.version is None:
            return None
        return self._toolbox.resolve(binding.substitute or name, f"=={binding.version}")

    def _wrapping(self, offered: Offered) -> Entry | None:
        """The function of a toolbox as a tool; None when it is no function, or does not say what it takes."""
        place = (offered.name, offered.version)
        known = self._wrapped.get(place)
        if known is None or known[0] is not offered.call:
            try:
                entry = Entry(PythonTool(offered.call, offered.name)) if callable(offered.call) else None
            except Invalid:
                entry = None
            known = self._wrapped[place] = (offered.call, entry)
        return known[1]

    def _allowed(self, state: State, name: str) -> bool:
        """Whether the toolbox allows a tool here. One that has to be awaited was asked when the session woke."""
        if self._toolbox is None or name in self._functions:
            return True
        offered = self._offered(name, state)
        if offered is None:
            return True
        try:
            answer = self._toolbox.authorize(offered, scope_of(state, ""))
        except Exception:  # a rule of the application that raises is a no
            return False
        if isinstance(answer, Awaitable):
            getattr(answer, "close", bool)()
            return name in state.tools.bindings
        return answer is True

    # ── running ──

    async def run(
        self,
        call: Call,
        *,
        key: str,
        session: SessionId,
        turn: int,
        deadline: float,
        state: State | None = None,
    ) -> Result:
        """Run a tool for at most its own time-out and `deadline` seconds. What it does wrong is a failed result.

        With the `state` the session's bound version is run, without it the highest. Cancelling this cancels the tool.
        """
        entry = self._entry(call.name, state)
        if entry is None:
            return self._result(call, failure(f"there is no tool {shown(call.name)} here"))
        if call.raw:
            return self._result(call, failure("the arguments are no JSON object, so the tool was not run"))
        seconds = min(entry.terms.timeout, deadline)
        if not deadline > 0:
            return self._result(call, failure("TimeoutError: no time was left, so the tool was not run"))
        again = entry.terms.idempotent
        context = Context(key=key, session=session, turn=turn, call=call.id, seconds=seconds, again=again)
        task = asyncio.create_task(_outcome(entry.runner, call.arguments, context), name=f"perdure-tool {call.name}")
        try:
            await asyncio.wait({task}, timeout=seconds)
            late = not task.done()
        finally:
            await self._stop(task)
        if late:
            return self._result(call, failure(f"TimeoutError: {call.name} gave no answer within {seconds:g} s"))
        return self._result(call, task.result())

    async def _stop(self, task: "asyncio.Task[Outcome]") -> None:
        """End a tool that still runs; one that does not end in time is left behind."""
        if task.done():
            return
        task.cancel()
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        await asyncio.wait({task}, timeout=GRACE)

    def _result(self, call: Call, outcome: Outcome) -> Result:
        content = bounded(outcome.content, self._max_text, self._max_media)
        return Result(call=call.id, content=content, failed=outcome.failed)

    async def close(self) -> None:
        """Stop what still runs and let go of the servers."""
        for task in tuple(self._behind):
            await self._stop(task)
        reached, self._reached = self._reached, {}
        await asyncio.gather(*(server.close() for server in reached.values()))


async def _outcome(runner: Runner, arguments: dict[str, Any], context: Context) -> Outcome:
    """What comes of a tool, whatever it raises."""
    try:
        with its_own_fault():
            return await runner.run(arguments, context)
    except GaveUp as error:
        return failure(f"{type(error.__cause__).__name__}: {error}")
    except Exception as error:  # a tool is foreign code: what it raises is its answer
        return failure(told(error))
