"""The built-in tool registry: what this process can run, by name and version, and who may."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.constraints import ANY, best, version_of
from perdure.core.session.shown import shown
from perdure.core.session.waking import Scope, Tool, ToolSpec
from perdure.ports.waking import Answer

Allow = bool | Callable[[Scope], Answer[bool]]
"""Whether a session may use a tool: always, never, or as this answers; what it raises is a no."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one tool."""

    tool: Tool
    substitutes_for: tuple[str, ...]
    allow: Allow


class Toolbox:
    """A `perdure.ports.waking.ToolRegistry` in this process.

    >>> tools = Toolbox()
    >>> tools.register("search", "1.4.0", len)
    >>> tools.register("grep", "3.11", substitutes_for="search")
    >>> tools.resolve("search", "^1.2").version
    '1.4.0'
    >>> tools.find_substitute(ToolSpec(name="search", constraint=">=2")).name
    'grep'
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}

    def register(
        self,
        name: str,
        version: str = "1.0.0",
        call: Any = None,
        *,
        substitutes_for: str | Iterable[str] = (),
        allow: Allow = True,
    ) -> None:
        """Offer a version of a tool; the same one again replaces it. `call` is what a waking hands back for it.

        `substitutes_for` names tools it can stand in for. `allow` may look at the scope: owner, isolation and so on.
        """
        if type(name) is not str or not name:
            raise Invalid(f"a tool needs a name, not {shown(name)}")
        names = (substitutes_for,) if isinstance(substitutes_for, str) else tuple(substitutes_for)
        if any(type(other) is not str or not other for other in names):
            raise Invalid("substitutes_for takes names of tools")
        if type(allow) is not bool and not callable(allow):
            raise Invalid(f"allow is True, False or something to call, not {shown(allow)}")
        version_of(version)
        entry = Entry(tool=Tool(name=name, version=version, call=call), substitutes_for=names, allow=allow)
        self._entries[name, version] = entry

    def remove(self, name: str, version: str | None = None) -> None:
        """Offer a tool no longer, in one version or in any; harmless when it is not there."""
        for place in list(self._entries):
            if place[0] == name and version in (None, place[1]):
                self._entries.pop(place, None)

    def resolve(self, name: str, constraint: str = ANY) -> Tool | None:
        """The tool in the highest version that will do, or None; `Invalid` when the constraint says nothing."""
        offers = [(entry.tool.version, entry.tool) for entry in self._all() if entry.tool.name == name]
        return best(offers, constraint)

    def find_substitute(self, spec: ToolSpec) -> Tool | None:
        """The tool registered first of those that stand in for this one, in its highest version."""
        fitting = [entry.tool for entry in self._all() if spec.name in entry.substitutes_for]
        return best([(tool.version, tool) for tool in fitting if tool.name == fitting[0].name], ANY)

    def names(self) -> tuple[str, ...]:
        """Every tool that is offered, each once."""
        return tuple(dict.fromkeys(entry.tool.name for entry in self._all()))

    def versions(self, name: str) -> tuple[str, ...]:
        """Every version of a tool that is offered."""
        return tuple(entry.tool.version for entry in self._all() if entry.tool.name == name)

    def authorize(self, tool: Tool, scope: Scope) -> Answer[bool]:
        """Whether the tool's own rule allows it here."""
        entry = self._entries.get((tool.name, tool.version))
        if entry is None:
            return False
        return entry.allow if isinstance(entry.allow, bool) else entry.allow(scope)

    def _all(self) -> list[Entry]:
        return list(self._entries.values())
