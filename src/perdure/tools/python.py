"""A Python function as a tool: what it takes is read from its signature, what it is given is checked against that.

A function may be plain or async. A plain one runs on a thread of its own; when nobody waits any longer it is left
behind there, for Python has no way to stop it. Keyword-only arguments named `key` and `context` are not the model's to
give: the idempotency key of the call, and the `Context` whole.
"""

from collections.abc import Callable
from contextvars import copy_context
from inspect import Parameter, getdoc, isawaitable, iscoroutinefunction, signature
from threading import Thread
from typing import Any, Final, get_type_hints

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown, told
from perdure.core.talk.parts import Tool
from perdure.tools.outcome import Context, Outcome, failure, outcome_of
from perdure.waiting import Ticket

_GIVEN: Final = ("key", "context")
_REFS: Final = "#/$defs/"


class PythonTool:
    """A `perdure.tools.outcome.Runner` for a function.

    >>> def add(a: int, b: int = 1) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> tool = PythonTool(add).tool
    >>> tool.description, tool.schema["required"], tool.schema["properties"]["b"]
    ('Add two numbers.', ['a'], {'type': 'integer', 'default': 1})
    """

    def __init__(self, function: Callable[..., Any], name: str = "", description: str | None = None) -> None:
        self.function = function
        name = name or getattr(function, "__name__", "")
        parameters = _parameters(function, name)
        self._fields = tuple(item for item in parameters if not _is_given(item) and item.kind not in _SEVERAL)
        self._takes = tuple(item.name for item in parameters if _is_given(item))
        self._more = any(item.kind is Parameter.VAR_KEYWORD for item in parameters)
        hints = _hints(function, name)
        self._arguments = _struct(name, self._fields, hints, more=self._more)
        self._async = iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        words = getdoc(_bare(function)) if description is None else description
        self.tool = Tool(name=name, description=words or "", schema=_schema(self._arguments, name, self._fields))

    async def run(self, arguments: dict[str, Any], context: Context) -> Outcome:
        """Call the function. Arguments that do not fit are a failure that says which, and it is not called."""
        try:
            checked = msgspec.convert(arguments, self._arguments, str_keys=True)
        except msgspec.ValidationError as wrong:
            return failure(f"the arguments do not fit, so the tool was not run: {wrong}")
        positional, named = self._laid_out(checked, arguments)
        named |= {name: context.key if name == "key" else context for name in self._takes}
        if self._async:
            return outcome_of(await self.function(*positional, **named))
        answer = await _on_thread(lambda: self.function(*positional, **named))
        return outcome_of(await answer if isawaitable(answer) else answer)

    def _laid_out(self, checked: Any, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as the function takes them; those that are not given are left to its own defaults."""
        positional: list[Any] = []
        named = {name: item for name, item in arguments.items() if name not in self._takes} if self._more else {}
        for field in self._fields:
            value = getattr(checked, field.name)
            named.pop(field.name, None)
            if field.kind is Parameter.POSITIONAL_ONLY:
                positional.append(field.default if value is msgspec.UNSET else value)
            elif value is not msgspec.UNSET:
                named[field.name] = value
        return positional, named


_SEVERAL: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _is_given(parameter: Parameter) -> bool:
    return parameter.kind is Parameter.KEYWORD_ONLY and parameter.name in _GIVEN


def _bare(function: Any) -> Any:
    """The function within a `functools.partial`."""
    return getattr(function, "func", function)


def _parameters(function: Any, name: str) -> tuple[Parameter, ...]:
    if not callable(function):
        raise Invalid(f"tool {shown(name)} is something to call, not {shown(function)}")
    try:
        return tuple(signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise Invalid(f"tool {shown(name)} does not say what it takes ({error}); wrap it in a function") from error


def _hints(function: Any, name: str) -> dict[str, Any]:
    """The annotations of the parameters, resolved."""
    owner = _bare(function)
    owner = owner if hasattr(owner, "__name__") else type(owner).__call__
    try:
        return get_type_hints(owner, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise Invalid(
            f"the annotations of tool {shown(name)} cannot be resolved ({told(error)}); import what they name "
            "where the function is defined",
            tool=name,
        ) from error


def must_say(function: Any, name: str) -> None:
    """Refuse a function that says of none of its arguments what it may be: a model could only guess."""
    fields = [item for item in _parameters(function, name) if not _is_given(item) and item.kind not in _SEVERAL]
    if fields and all(item.annotation is Parameter.empty for item in fields):
        raise Invalid(
            f"tool {shown(name)} does not say what {', '.join(field.name for field in fields)} may be; annotate the "
            f"parameters, like {fields[0].name}: str, or wrap a builtin or lambda in a function that does",
            tool=name,
        )


def _struct(name: str, fields: tuple[Parameter, ...], hints: dict[str, Any], *, more: bool) -> type[msgspec.Struct]:
    """The type that arguments are checked against. What may be left out is unset then, and no default is copied."""
    described: list[Any] = []
    for field in fields:
        kind = hints.get(field.name, Any)
        optional = field.default is not Parameter.empty
        described.append((field.name, kind | msgspec.UnsetType, msgspec.UNSET) if optional else (field.name, kind))
    return msgspec.defstruct(name or "arguments", described, kw_only=True, forbid_unknown_fields=not more)


def _schema(arguments: type[msgspec.Struct], name: str, fields: tuple[Parameter, ...]) -> dict[str, Any]:
    """The JSON schema of the arguments: one object, with what it refers to beneath."""
    try:
        msgspec.json.Decoder(arguments)  # refuses what could never be checked, such as two structs without tags
        (top,), parts = msgspec.json.schema_components((arguments,), ref_template=_REFS + "{name}")
    except TypeError as error:
        raise Invalid(
            f"tool {shown(name)} takes what has no JSON schema ({told(error)}); annotate its parameters with plain "
            "types, dataclasses or msgspec structs",
            tool=name,
        ) from error
    schema = parts.pop(top["$ref"].removeprefix(_REFS))
    schema.pop("title", None)
    for field in fields:
        shown_default = _default(field.default)
        if shown_default is not msgspec.UNSET:
            schema["properties"][field.name].setdefault("default", shown_default)
    return {**schema, "$defs": parts} if parts else schema


def _default(value: Any) -> Any:
    """A default that can be shown to a model, or UNSET."""
    if value is Parameter.empty or value is msgspec.UNSET:
        return msgspec.UNSET
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError):
        return msgspec.UNSET


def _on_thread(call: Callable[[], Any]) -> Ticket[Any]:
    """Run a call on a thread that does not keep the process alive."""
    ticket: Ticket[Any] = Ticket()
    context = copy_context()

    def run() -> None:
        try:
            answer = call()
        except BaseException as error:  # delivered, not swallowed: whoever waits for the tool raises it
            ends_others = isinstance(error, StopIteration) or not isinstance(error, Exception)
            ticket.fail(RuntimeError(f"it raised {told(error)}") if ends_others else error)
        else:
            ticket.deliver(answer)

    Thread(target=context.run, args=(run,), name="perdure-tool", daemon=True).start()
    return ticket
