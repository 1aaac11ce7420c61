"""The table of endpoints: what is asked where, of whom, with what body, and how it is answered.

One table serves dispatch, access, limits, idempotency and the OpenAPI document, so that none can drift from another.
"""

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from perdure.core.access.roles import Action, Thing, Verb
from perdure.core.errors import PerdureError

Call = Callable[[Any], Awaitable[Any]]
"""What answers: it gets the request that was let in (`asking.Ask`)."""
MUTATING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One row of the table."""

    method: str
    path: str
    call: Call
    action: Action | None
    """What it asks for; None for what is open to everyone, or, if `known`, to everyone who is known."""
    known: bool = False
    summary: str
    body: Any = None
    """The type of its JSON body; `bytes` for one that is streamed."""
    query: type[msgspec.Struct] | None = None
    answer: Any = None
    """The type of its answer; None for no content."""
    status: int = HTTPStatus.OK
    media: str = "application/json"
    errors: tuple[type[PerdureError], ...] = ()
    keyed: bool = False
    """Takes an Idempotency-Key."""
    guarded: bool = False
    """Takes an If-Match with the version that was seen."""
    pieces: bool = False
    """Answers in pieces, for as long as the client takes."""
    live: bool = False
    """May be followed as server-sent events. Of those there may be so many as there may be surfaces; none is told that
    the server is busy, because a browser would not come back.
    """
    appends: bool = False
    """Goes on from what this node remembers of a session: if that is stale, the append tells."""
    sensitive: bool = False
    """Has session tokens rotated, and is audited also when it is allowed."""
    example: Any = None
    optional: bool = False
    """Whether the body may be left out."""
    takes: tuple[str, ...] = ("application/json",)
    form: str = ""
    """Whose endpoint it stands in for, if it is a provider's: errors are told in that wire form, any query is taken."""
    decoder: Any = None

    @property
    def name(self) -> str:
        """Its operation id."""
        return self.call.__name__

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(piece[1:-1] for piece in self.path.split("/") if piece.startswith("{"))

    @property
    def scoped(self) -> bool:
        """Whether it is about one session."""
        return self.path.startswith("/v1/sessions/{session_id}")


class Table:
    """Endpoints as modules declare them."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []

    def add(self, method: str, path: str, action: tuple[Verb, Thing] | None, **facts: Any) -> Callable[[Call], Call]:
        """Declare the decorated coroutine as an endpoint; its docstring's first line is the summary."""

        def declare(call: Call) -> Call:
            summary = (call.__doc__ or call.__name__).strip().splitlines()[0]
            body = facts.get("body")
            decoder = msgspec.json.Decoder(body) if body is not None and body is not bytes else None
            wanted = None if action is None else Action(*action)
            row = Endpoint(
                method=method, path=path, call=call, action=wanted, summary=summary, decoder=decoder, **facts
            )
            self.endpoints.append(row)
            return call

        return declare


class _Node:
    __slots__ = ("any", "calls", "named")

    def __init__(self) -> None:
        self.named: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.calls: dict[str, Endpoint] = {}


class Router:
    """Finds the endpoint of a request."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._root = _Node()
        for endpoint in self.endpoints:
            self._add(endpoint)

    def _add(self, endpoint: Endpoint) -> None:
        node = self._root
        for piece in endpoint.path.split("/")[1:]:
            if piece.startswith("{"):
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.named.setdefault(piece, _Node())
        if endpoint.method in node.calls:
            raise TypeError(f"two endpoints claim {endpoint.method} {endpoint.path}")
        node.calls[endpoint.method] = endpoint

    def find(self, method: str, pieces: list[str]) -> tuple[Endpoint | None, list[str], tuple[str, ...]]:
        """The endpoint, the pieces that fill its path, and the methods the path knows (none: no such path)."""
        node, filled = self._root, []
        for piece in pieces:
            known = node.named.get(piece)
            if known is None and piece:
                known = node.any
                filled.append(piece)
            if known is None:
                return None, filled, ()
            node = known
        found = node.calls.get(method)
        if found is None and method == "HEAD":
            found = node.calls.get("GET")
        return found, filled, tuple(sorted(node.calls))
