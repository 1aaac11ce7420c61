"""Which tool a model must take: the one field beyond the common form whose meaning crosses between providers."""

from typing import Any, Final, Literal

import msgspec

from perdure.core.talk.parts import Ask

_OPENAI: Final[dict[str, Literal["auto", "any", "none"]]] = {"auto": "auto", "required": "any", "none": "none"}
_TO_OPENAI: Final = {mode: word for word, mode in _OPENAI.items()}


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """As the model likes, any tool, none, or the one named; `parallel` is whether several at once are allowed."""

    mode: Literal["auto", "any", "none", "one", ""] = ""
    name: str = ""
    parallel: bool | None = None


def choice_of(ask: Ask) -> Choice:
    """What an ask says about it, whichever wire form it was read from; what cannot be told is left open."""
    if "anthropic" in ask.extra:
        return _from_anthropic(ask.extra["anthropic"].get("tool_choice"))
    for provider in ("openai-chat", "openai-responses"):
        if provider in ask.extra:
            return _from_openai(ask.extra[provider])
    return Choice()


def _from_anthropic(value: Any) -> Choice:
    if not isinstance(value, dict):
        return Choice()
    parallel = False if value.get("disable_parallel_tool_use") is True else None
    match value.get("type"):
        case "auto" | "any" | "none" as mode:
            return Choice(mode=mode, parallel=parallel)
        case "tool" if isinstance(value.get("name"), str):
            return Choice(mode="one", name=value["name"], parallel=parallel)
        case _:
            return Choice(parallel=parallel)


def _from_openai(extra: dict[str, Any]) -> Choice:
    value, several = extra.get("tool_choice"), extra.get("parallel_tool_calls")
    parallel = several if isinstance(several, bool) else None
    if isinstance(value, str):
        return Choice(mode=_OPENAI.get(value, ""), parallel=parallel)
    if isinstance(value, dict) and value.get("type") == "function":
        inner = value.get("function", value)
        name = inner.get("name") if isinstance(inner, dict) else None
        if isinstance(name, str):
            return Choice(mode="one", name=name, parallel=parallel)
    return Choice(parallel=parallel)


def to_anthropic(choice: Choice) -> dict[str, Any]:
    """The fields of an Anthropic request that say so."""
    several = {"disable_parallel_tool_use": True} if choice.parallel is False else {}
    if choice.mode == "one":
        return {"tool_choice": {"type": "tool", "name": choice.name, **several}}
    if choice.mode == "none":
        return {"tool_choice": {"type": "none"}}
    if choice.mode or several:
        return {"tool_choice": {"type": choice.mode or "auto", **several}}
    return {}


def to_openai(choice: Choice, *, nested: bool) -> dict[str, Any]:
    """The fields of an OpenAI request that say so; Chat Completions nests the name, Responses does not."""
    said: dict[str, Any] = {}
    if choice.mode == "one":
        name = {"name": choice.name}
        said["tool_choice"] = {"type": "function", **({"function": name} if nested else name)}
    elif choice.mode:
        said["tool_choice"] = _TO_OPENAI[choice.mode]
    if choice.parallel is not None:
        said["parallel_tool_calls"] = choice.parallel
    return said
