"""What the ports of waking answered, checked: a tool, a yes or no, cached evidence, a layer of memory.

Ports are other people's code. Invariant: what passes here has the types that the rest relies on; whatever does not is
`Invalid`, and says what came instead. Whoever asked knows which port it was, and what its failure means.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.session.constraints import constraint_of, version_of
from perdure.core.session.shown import shown
from perdure.core.session.timeouts import LATEST
from perdure.core.session.values import check
from perdure.core.session.waking import Found, Tool, ToolSpec

MOST: Final = 100_000
"""So many are taken of what is listed; an answer without an end is none."""
LISTED: Final = 20
"""So many versions are told to whoever misses one."""


def tool_of(answer: Any) -> Tool | None:
    """The tool a registry offers, or None. One of the registry's own make will do if it has a name and a version."""
    if answer is None:
        return None
    _must_have(answer, ("name", "version"), "a Tool")
    name, version = answer.name, answer.version
    if type(name) is not str or not name:
        raise Invalid(f"answered with a tool, but its name is {shown(name)}")
    if type(version) is not str:
        raise Invalid(f"answered with tool {shown(name)}, but its version is {shown(version)}")
    version_of(version)
    return answer if type(answer) is Tool else Tool(name=name, version=version, call=getattr(answer, "call", None))


def fitting(answer: Any, spec: ToolSpec) -> Tool | None:
    """The tool that was asked for, in a version that its constraint admits, or None."""
    tool = tool_of(answer)
    if tool is None:
        return None
    if tool.name != spec.name:
        raise Invalid(f"answered with tool {shown(tool.name)} when asked for {spec.name}; offer it as a substitute")
    if not constraint_of(spec.constraint).admits(version_of(tool.version)):
        raise Invalid(f"answered with {tool.name} {tool.version}, which is not {spec.constraint}")
    return tool


def yes_of(answer: Any) -> bool:
    """Whether a registry said yes. Only True is one, and only False is a no."""
    if type(answer) is not bool:
        raise Invalid(f"answers with True or False, not {shown(answer)}")
    return answer


def versions_of(answer: Any) -> tuple[str, ...]:
    """The versions of a tool that there are, the lowest first; not all of them when there are many."""
    found = [(version_of(text).precedence(), text) for text in layer_of(answer)]
    return tuple(text for _, text in sorted(found)[-LISTED:])


def found_of(answer: Any, now: int) -> Found | None:
    """Evidence from a cache, or None. What claims to come from the future was fetched now, at the latest."""
    if answer is None:
        return None
    _must_have(answer, ("results", "fetched_at"), "a Found")
    at = answer.fetched_at
    if type(at) is not int or not 0 <= at < LATEST:
        raise Invalid(f"answered with evidence, but its fetched_at is {shown(at)}, not microseconds since 1970")
    check(answer.results)
    return Found(results=answer.results, fetched_at=min(at, now))


def layer_of(answer: Any) -> tuple[Any, ...]:
    """Everything in a layer of memory; None is an empty one. A text is no list of its letters."""
    if answer is None:
        return ()
    if isinstance(answer, str | bytes | bytearray | Mapping) or not isinstance(answer, Iterable):
        raise Invalid(f"answered with {type(answer).__name__}, not with a list")
    found = tuple(islice(answer, MOST + 1))
    if len(found) > MOST:
        raise Invalid(f"answered with more than {MOST:,} of them; answer with those that matter")
    return found


def _must_have(answer: Any, names: tuple[str, ...], what: str) -> None:
    missing = [name for name in names if not hasattr(answer, name)]
    if missing:
        lacking = f", which has no {missing[0]}" if len(missing) < len(names) else ""
        raise Invalid(f"answered with {type(answer).__name__}{lacking}, not with {what} or None")
