"""The tools that a process offers: to models in their turns, and to sessions that wake."""

from collections.abc import Callable, Iterable
from typing import Any

from perdure.compose import Services
from perdure.core.errors import Invalid
from perdure.services.toolbox import Allow, Toolbox
from perdure.services.tooling import TIMEOUT
from perdure.tools.mcp_link import HttpServer, Server, StdioServer
from perdure.tools.python import must_say


class Tools(Toolbox):
    """What a library's `tools` are: the registry that sessions wake with, and what models may call."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._entries = services.waking.toolbox._entries

    def register(
        self,
        name: str,
        version: str | Callable[..., Any] | Server = "1.0.0",
        call: Any = None,
        *,
        substitutes_for: str | Iterable[str] = (),
        allow: Allow = True,
        approval: bool = False,
        timeout: float = TIMEOUT,
        idempotent: bool = False,
    ) -> None:
        """Offer a function as a tool, `register("add", add)`, or the tools of an MCP server.

        With `approval`, a person is asked before each call. It has `timeout` seconds. `idempotent` says that running it
        twice does no harm. With a version, `register("search", "1.4.0", search)`, it is also what a session that wakes
        is bound to: `substitutes_for` names tools it can stand in for, `allow` may look at the session's scope.
        """
        if isinstance(version, str):
            if approval or idempotent or timeout != TIMEOUT:
                raise Invalid("approval, timeout and idempotent are for tools without a version; leave that out")
            super().register(name, version, call, substitutes_for=substitutes_for, allow=allow)
            return
        if call is not None or substitutes_for or allow is not True:
            raise Invalid("substitutes_for and allow are for tools with a version; give that before the function")
        if not callable(version) and not isinstance(version, StdioServer | HttpServer):
            raise Invalid(f"a tool is a function or an MCP server, not {version!r:.80}", tool=name)
        if not isinstance(version, StdioServer | HttpServer):
            must_say(version, name)
        tooling = self._services.common.tooling
        tooling.register(name, version, approval=approval, timeout=timeout, idempotent=idempotent)
