"""Waking, the tools: every tool the session needs is looked up anew, and the core decides what it is bound to."""

from collections.abc import Callable

from perdure.core.session.shown import told
from perdure.core.session.state import State
from perdure.core.session.waking import Lookup, Scope, Tool, ToolSpec, rebind
from perdure.core.session.woken import BoundTool, ToolOutcome
from perdure.ports.waking import Answer, ToolRegistry
from perdure.services.foreign import settled


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
        bound = item.substitute or name
        here = await _offer(registry.resolve, [], bound, f"=={item.version}") if item.version is not None else None
        found[name] = BoundTool(
            name=name,
            constraint=item.constraint,
            required=item.required,
            outcome=ToolOutcome.SUBSTITUTED if item.substitute else outcome,
            version=item.version,
            substitute=item.substitute,
            call=None if here is None else here.call,
        )
    return found


async def _look_up(registry: ToolRegistry, spec: ToolSpec, scope: Scope) -> Lookup:
    """What the registry says of a tool. What it raises is no answer: the tool is not there, or not allowed."""
    troubles: list[str] = []
    tool = await _offer(registry.resolve, troubles, spec.name, spec.constraint)
    if tool is not None:
        allowed = await _may(registry, tool, scope, troubles)
        return Lookup(tool=tool, allowed=allowed, trouble="; ".join(troubles))
    other = await _offer(registry.find_substitute, troubles, spec)
    allowed = other is not None and await _may(registry, other, scope, troubles)
    return Lookup(substitute=other, substitute_allowed=allowed, trouble="; ".join(troubles))


async def _offer(ask: Callable[..., Answer[Tool | None]], troubles: list[str], *given: str | ToolSpec) -> Tool | None:
    try:
        return await settled(ask(*given))
    except Exception as error:  # a registry is foreign code: what it raises means that it offers nothing
        troubles.append(told(error))
        return None


async def _may(registry: ToolRegistry, tool: Tool, scope: Scope, troubles: list[str]) -> bool:
    try:
        return bool(await settled(registry.authorize(tool, scope)))
    except Exception as error:  # foreign code again: whoever cannot say yes says no
        troubles.append(told(error))
        return False
