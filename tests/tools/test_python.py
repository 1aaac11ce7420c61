"""A Python function as a tool: its schema from the signature, its arguments checked, plain and async."""

import asyncio
import threading
from contextvars import ContextVar
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import pytest

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Text
from perdure.tools.outcome import Context, Outcome
from perdure.tools.python import PythonTool

WHOSE: ContextVar[str] = ContextVar("WHOSE", default="nobody's")


class Point(msgspec.Struct):
    x: int
    y: int = 0


def draw(
    points: list[Point],
    colour: Literal["red", "blue"] = "red",
    width: Annotated[int, msgspec.Meta(ge=1, description="in pixels")] = 1,
    *,
    note: str | None = None,
    key: str,
) -> dict[str, Any]:
    """Draw a line.

    Through all the points.
    """
    return {"points": len(points), "colour": colour, "width": width, "note": note, "key": key}


async def run(function: Any, arguments: dict[str, Any], **given: Any) -> Outcome:
    return await PythonTool(function).run(arguments, Context(**{"key": "k1", **given}))


def words(outcome: Outcome) -> str:
    return "".join(block.text for block in outcome.content if isinstance(block, Text))


def test_a_tool_is_described_by_its_signature_and_docstring() -> None:
    tool = PythonTool(draw).tool
    assert tool.name == "draw"
    assert tool.description == "Draw a line.\n\nThrough all the points."
    assert tool.schema["type"] == "object"
    assert tool.schema["required"] == ["points"]
    assert tool.schema["additionalProperties"] is False
    assert set(tool.schema["properties"]) == {"points", "colour", "width", "note"}
    assert tool.schema["properties"]["colour"] == {"enum": ["blue", "red"], "default": "red"}
    width = {"type": "integer", "minimum": 1, "description": "in pixels", "default": 1}
    assert tool.schema["properties"]["width"] == width
    assert tool.schema["properties"]["points"]["items"] == {"$ref": "#/$defs/Point"}
    assert tool.schema["$defs"]["Point"]["required"] == ["x"]


async def test_arguments_come_in_as_the_types_that_the_signature_names() -> None:
    outcome = await run(draw, {"points": [{"x": 1}, {"x": 2, "y": 3}], "width": 2}, key="once")
    assert words(outcome) == '{"points":2,"colour":"red","width":2,"note":null,"key":"once"}'


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({}, "points"),
        ({"points": [{"x": "one"}]}, r"\$.points\[0\].x"),
        ({"points": [], "colour": "green"}, r"\$.colour"),
        ({"points": [], "width": 0}, r"\$.width"),
        ({"points": [], "key": "mine"}, "key"),
        ({"points": [], "and": 1}, "and"),
    ],
)
async def test_arguments_that_do_not_fit_are_named_and_the_function_is_not_called(
    arguments: dict[str, Any], where: str
) -> None:
    outcome = await run(draw, arguments)
    assert outcome.failed
    assert "so the tool was not run" in words(outcome)
    with pytest.raises(AssertionError, match=where):
        raise AssertionError(words(outcome))


async def test_a_plain_function_runs_on_another_thread_and_in_the_same_context() -> None:
    WHOSE.set("mine")

    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), WHOSE.get()]

    assert words(await run(where, {})) == '[false,"mine"]'


async def test_an_async_function_is_awaited_where_it_was_asked() -> None:
    async def where(*, context: Context) -> list[Any]:
        await asyncio.sleep(0)
        return [threading.current_thread() is threading.main_thread(), context.session, context.turn]

    assert words(await run(where, {}, session="s1", turn=4)) == '[true,"s1",4]'


async def test_whatever_can_be_called_can_be_a_tool() -> None:
    class Adder:
        """Adds."""

        def __init__(self, more: int) -> None:
            self.more = more

        async def __call__(self, a: int) -> int:
            return a + self.more

        def plain(self, a: int) -> int:
            return a + self.more

    def both(a: int, b: int) -> int:
        return a + b

    def loose(a, **more):  # type: ignore[no-untyped-def]
        return [a, more]

    async def later(a: int) -> int:
        return a

    assert words(await PythonTool(Adder(2), "adder").run({"a": 1}, Context())) == "3"
    assert words(await run(Adder(2).plain, {"a": 1})) == "3"
    assert words(await PythonTool(partial(both, b=5), "both").run({"a": 1}, Context())) == "6"
    assert words(await run(len, {"obj": [1, 2]})) == "2"
    assert words(await run(loose, {"a": 1, "b": 2, "c": {"d": 3}})) == '[1,{"b":2,"c":{"d":3}}]'
    assert words(await PythonTool(lambda a: later(a + 1), "later").run({"a": 7}, Context())) == "8"


async def test_a_default_of_its_own_is_never_shared_between_calls_by_us() -> None:
    def kept(item: int, into: list[int] | None = None, more: dict[str, int] = {"a": 1}) -> list[Any]:  # noqa: B006
        return [item, into, more]

    assert PythonTool(kept).tool.schema["properties"]["more"]["default"] == {"a": 1}
    assert words(await run(kept, {"item": 1})) == '[1,null,{"a":1}]'


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
async def test_what_a_plain_function_raises_is_an_exception_whatever_it_is(kind: type[BaseException]) -> None:
    def raising() -> None:
        raise kind("a fish")

    with pytest.raises((Exception,), match="a fish"):
        await run(raising, {})


class Odd:
    """Nothing that JSON knows."""


def takes_odd(odd: Odd) -> None: ...


def takes_unknown(odd: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("function", [takes_odd, takes_unknown, 5, None])
def test_what_cannot_be_a_tool_is_refused_when_it_is_registered(function: Any) -> None:
    with pytest.raises(Invalid, match=r"tool '?odd"):
        PythonTool(function, "odd")
