"""What waking asks of the world outside: tools, retrievals, a cache for them, layers of memory.

Whoever implements one of these may write plain or async methods: an answer that can be awaited is awaited.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from perdure.core.session.waking import Found, Question, Scope, Tool, ToolSpec

T = TypeVar("T")
Answer: TypeAlias = T | Awaitable[T]
"""The thing itself, or something to await for it."""


class ToolRegistry(Protocol):
    """Where tools are found by name and version. What it raises, or answers wrongly, counts as no tool and no yes.

    One that also has `versions(name)` is asked for it when a tool is missed: the versions there are, for the message.
    """

    def resolve(self, name: str, constraint: str) -> Answer[Tool | None]:
        """The tool of this name in the best version the constraint allows, or None; any other is not taken."""
        ...

    def find_substitute(self, spec: ToolSpec) -> Answer[Tool | None]:
        """Another tool that can stand in for this one, or None."""
        ...

    def authorize(self, tool: Tool, scope: Scope) -> Answer[bool]:
        """Whether a session of this scope may use the tool: only True is a yes, and raising means no."""
        ...


class Retriever(Protocol):
    """Who fetches evidence."""

    def retrieve(self, question: Question) -> Answer[Any]:
        """The evidence, as plain data. Whatever it raises is its failure; past the deadline nobody listens."""
        ...


class RetrievalCache(Protocol):
    """Evidence fetched before. Only a cache: what it raises, or answers wrongly, counts as not having it."""

    def get(self, key: bytes) -> Answer[Found | None]:
        """What is kept under a key, or None."""
        ...

    def put(self, key: bytes, found: Found, ttl: float) -> Answer[None]:
        """Keep it for so many seconds."""
        ...


class MemoryLayers(Protocol):
    """Memory beyond the session itself. A provider may lack any of these: that layer is empty then."""

    def episodic(self, scope: Scope) -> Answer[Sequence[Any]]:
        """What happened before, to this session and to those it knows of."""
        ...

    def semantic(self, scope: Scope) -> Answer[Sequence[Any]]:
        """What is known in the organisation, whoever asks."""
        ...

    def procedural(self, scope: Scope) -> Answer[Sequence[Any]]:
        """How tasks of this sort are done."""
        ...
