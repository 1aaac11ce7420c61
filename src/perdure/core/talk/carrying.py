"""What of a request survives where client and provider speak different forms, beyond what both have a place for.

Between OpenAI's two forms the shape of an answer, the effort and the verbosity are carried over. What does not change
the answer is left out. Anything else that a client asked for is refused rather than dropped: it would be answered as
if it had never said so. The built-in model hears none of it.
"""

from collections.abc import Iterator
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.choosing import choice_of
from perdure.core.talk.parts import Ask, Tool
from perdure.core.talk.wire import origin

_ANTHROPIC, _CHAT, _RESPONSES = "anthropic", "openai-chat", "openai-responses"
_OPENAIS: Final = frozenset({_CHAT, _RESPONSES})
_BOTH_OPENAIS: Final = {
    "user",
    "store",
    "service_tier",
    "stream_options",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "tool_choice",
    "parallel_tool_calls",
}
PASSED_OVER: Final[dict[str, frozenset[str]]] = {
    _ANTHROPIC: frozenset(
        {"service_tier", "cache_control", "context_management", "inference_geo", "speed", "tool_choice"}
    ),
    _CHAT: frozenset(_BOTH_OPENAIS | {"max_tokens", "prediction"}),
    _RESPONSES: frozenset(_BOTH_OPENAIS | {"truncation", "client_metadata"}),
}
"""Fields by form that are said elsewhere in the common form, or that do not change what is answered."""
_USUAL: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    _ANTHROPIC: {},
    _CHAT: {
        "n": (1,),
        "logprobs": (False,),
        "top_logprobs": (0,),
        "frequency_penalty": (0,),
        "presence_penalty": (0,),
        "modalities": (["text"],),
    },
    _RESPONSES: {"background": (False,), "top_logprobs": (0,), "include": (["reasoning.encrypted_content"],)},
}
"""What fields say that say nothing: it is so anyhow."""
_CARRIED: Final = ("format", "effort", "verbosity")
"""What OpenAI's forms both have a place for, each its own."""
_SPOKEN: Final = {
    _CHAT: {"format": "response_format", "effort": "reasoning_effort", "verbosity": "verbosity"},
    _RESPONSES: {"format": "text.format", "effort": "reasoning.effort", "verbosity": "text.verbosity"},
}
"""How each of them calls these."""
_SHOWN_ONLY: Final = ("reasoning.summary", "reasoning.generate_summary")
_UNBOUNDED: Final = ("adaptive", "disabled")
"""Kinds of Anthropic's thinking that leave it to the model, or are what others do."""


def lost(ask: Ask, form: str) -> Invalid | None:
    """What is wrong with asking this in a form: the first field that changes the answer and has no place there."""
    if not form:
        return None
    name = next(_homeless(ask, form), None)
    if name is None:
        return None
    told = (
        f"{name} cannot be said in the form of {form}, which is what the provider of this model speaks; "
        f"ask a model of a provider that speaks {origin(ask) or 'its form'}, or leave it out"
    )
    return Invalid(told, where=name, form=form)


def carried(ask: Ask, form: str) -> dict[str, Any]:
    """The fields of a request in one of OpenAI's forms that say what the other one said."""
    home = origin(ask)
    if home == form or home not in _OPENAIS or form not in _OPENAIS:
        return {}
    wishes = {name: value for name, _, value in _wishes(home, ask.extra[home])}
    if form == _CHAT:
        said = {_SPOKEN[_CHAT][name]: value for name, value in wishes.items() if name != "format"}
        return said | ({"response_format": _nested(wishes["format"])} if "format" in wishes else {})
    text = {name: wishes[name] for name in ("format", "verbosity") if name in wishes}
    return {
        **({"text": text} if text else {}),
        **({"reasoning": {"effort": wishes["effort"]}} if "effort" in wishes else {}),
    }


def _homeless(ask: Ask, form: str) -> Iterator[str]:
    """The names of what has no place in a form."""
    for at, tool in enumerate(ask.tools):
        kind = _run_elsewhere(tool, form)
        if kind:
            yield f"tools[{at}] ({kind})"
    home = origin(ask)
    if not home or home == form:
        return
    if ask.stop and form == _RESPONSES:
        yield "stop_sequences" if home == _ANTHROPIC else "stop"
    extra: dict[str, Any] = ask.extra[home]
    if extra.get("tool_choice") is not None and ask.tools and not choice_of(ask).mode:
        yield "tool_choice"
    if home in _OPENAIS and form not in _OPENAIS:
        yield from (name for _, name, _ in _wishes(home, extra))
    for name, value in _beyond(home, extra):
        if value in (None, {}, []) or name in PASSED_OVER[home] or value in _USUAL[home].get(name, ()):
            continue
        yield name


def _run_elsewhere(tool: Tool, form: str) -> str:
    """The kind of a tool that only another provider knows, or ""."""
    foreign = tool.foreign or {}
    kinds = [str(found["type"]) for found in foreign.values() if isinstance(found, dict) and "type" in found]
    mine = foreign.get(form)
    return "" if not kinds or (isinstance(mine, dict) and "type" in mine) else kinds[0]


def _wishes(home: str, extra: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """What an OpenAI request wants of the shape of an answer: our name for it, its own, and the value. The usual is no
    wish.
    """
    for name in _CARRIED:
        spoken = _SPOKEN[home][name]
        value = _at(extra, spoken)
        if name == "format" and isinstance(value, dict):
            value = _flat(value)
        if value is None or (name == "format" and value == {"type": "text"}):
            continue
        yield name, spoken, value


def _beyond(home: str, extra: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a request that are none of those wishes."""
    wishes = set(_SPOKEN.get(home, {}).values())
    for name, value in extra.items():
        if home == _RESPONSES and name in ("text", "reasoning") and isinstance(value, dict):
            inside = {f"{name}.{key}": item for key, item in value.items()}
            yield from ((key, item) for key, item in inside.items() if key not in wishes and key not in _SHOWN_ONLY)
        elif home == _ANTHROPIC and name == "thinking" and isinstance(value, dict):
            if value.get("type") not in _UNBOUNDED:
                yield name, value
        elif name not in wishes:
            yield name, value


def _at(extra: dict[str, Any], path: str) -> Any:
    found: Any = extra
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _flat(value: dict[str, Any]) -> dict[str, Any]:
    """A format as Responses spells it; Chat Completions nests its schema."""
    inner = value.get("json_schema")
    return {"type": value.get("type"), **inner} if isinstance(inner, dict) else value


def _nested(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("type") != "json_schema":
        return value
    return {"type": "json_schema", "json_schema": {key: item for key, item in value.items() if key != "type"}}
