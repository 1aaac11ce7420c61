"""Waking, the tools: every tool the session needs is looked up anew, and the core decides what it is bound to."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from perdure.core.session.answers import fitting, tool_of, versions_of, yes_of
from perdure.core.session.state import State
from perdure.core.session.waking import Lookup, Scope, Tool, ToolSpec, degraded, rebind
from perdure.core.session.woken import BoundTool, ToolOutcome, Uncallable
from perdure.ports.waking import ToolRegistry
from perdure.services.foreign import called, fault, its_own_fault

T = TypeVar("T")
_EARLIER: Final = "it was not to be had then"


async def rebound(registry: ToolRegistry, state: State, scope: Scope) -> dict[str, BoundTool]:
    """What each tool is bound to from now on, in the order they were asked for; typed errors for required ones."""
    found: dict[str, BoundTool] = {}
    for name, binding in state.tools.bindings.items():
        spec = ToolSpec(name=name, constraint=binding.constraint, required=binding.required)
        found[name] = rebind(state.session, spec, await _look_up(registry, spec, scope))
    return found


async def held(registry: ToolRegistry, state: State) -> dict[str, BoundTool]:
    """What each tool is bound to already, with what this process runs it by."""
    found: dict[str, BoundTool] = {}
    for name, item in state.tools.bindings.items():
        outcome = ToolOutcome.DEGRADED if item.version is None else ToolOutcome.REBOUND
        found[name] = BoundTool(
            name=name,
            constraint=item.constraint,
            required=item.required,
            outcome=ToolOutcome.SUBSTITUTED if item.substitute else outcome,
            version=item.version,
            substitute=item.substitute,
            reason=_EARLIER if item.version is None else "",
            call=await _call(registry, name, item.substitute or name, item.version),
        )
    return found


async def _call(registry: ToolRegistry, name: str, bound: str, version: str | None) -> Any:
    """What this process runs a bound tool by."""
    if version is None:
        return degraded(name, _EARLIER)
    spec = ToolSpec(name=bound, constraint=f"=={version}")
    here = await _answer(registry, "resolve", (bound, spec.constraint), lambda answer: fitting(answer, spec), [])
    if here is not None:
        return here.call
    why = f"is bound to {bound} {version}, which this program does not offer; register it here to call it"
    return Uncallable(tool=name, why=why, reason=f"this program does not offer {bound} {version}")


async def _look_up(registry: ToolRegistry, spec: ToolSpec, scope: Scope) -> Lookup:
    """What the registry says of a tool. What it does wrong is no answer: the tool is not there, or not allowed."""
    troubles: list[str] = []
    offers: list[Any] = []

    def offered(answer: Any) -> Tool | None:
        offers.append(answer)
        return fitting(answer, spec)

    def instead(answer: Any) -> Tool | None:
        offers.append(answer)
        return tool_of(answer)

    tool = await _answer(registry, "resolve", (spec.name, spec.constraint), offered, troubles)
    if tool is not None:
        allowed = await _answer(registry, "authorize", (offers[-1], scope), yes_of, troubles)
        return Lookup(tool=tool, allowed=allowed is True, trouble="; ".join(troubles))
    other = await _answer(registry, "find_substitute", (spec,), instead, troubles)
    if other is not None:
        allowed = await _answer(registry, "authorize", (offers[-1], scope), yes_of, troubles)
        return Lookup(substitute=other, substitute_allowed=allowed is True, trouble="; ".join(troubles))
    there = await _answer(registry, "versions", (spec.name,), versions_of, []) or ()
    return Lookup(trouble="; ".join(troubles), versions=there)


async def _answer(
    registry: ToolRegistry, method: str, given: tuple[Any, ...], checked: Callable[[Any], T], troubles: list[str]
) -> T | None:
    """What the registry answers, checked; None when it fails, or its answer does, and the trouble is noted."""
    try:
        answer = await called(getattr(registry, method), *given)
        with its_own_fault():
            return checked(answer)
    except Exception as error:  # a registry is foreign code: what it raises means that it offers and allows nothing
        troubles.append(f"tool registry: {method}: {fault(error)}")
        return None
