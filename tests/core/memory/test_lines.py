"""Lines of a file: which gave way to which, which say something of each other, and which are there already."""

import time
from typing import Any

import pytest

from perdure.core.memory.lines import LOOKED_AT, Line, firsts, in_order, paired, predecessors, successors, together
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.requests import Keeping


def line(id: str = "", content: str = "", *, since: int | None = None, **more: Any) -> Line:
    fields = {name: more.pop(name) for name in ("author", "subjects", "metadata") if name in more}
    return Line(asked=Keeping(content=content or f"memory {id}", valid_from=since, **fields), id=id, **more)


def memory(id: str, content: str, **more: Any) -> Memory:
    return Memory(id=id, type=MemoryType.FACT, content=content, **more)


def pairs(lines: list[Line], *memories: Memory) -> dict[int, str]:
    after = successors(lines)
    return {place: one.id for place, one in paired(lines, in_order(lines, after), after, memories).items()}


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ([line("a", superseded_by="b"), line("b")], [1, None]),
        ([line("a"), line("b", supersedes=("a",))], [1, None]),
        ([line("a", told=True), line("b", supersedes=("a",))], [None, None]),  # it counts again
        ([line("a", told=True, status=Status.ARCHIVED), line("b", supersedes=("a",))], [None, None]),
        ([line("a", superseded_by="a")], [None]),
        ([line("a", superseded_by="b"), line("b", superseded_by="c"), line("c", superseded_by="b")], [1, None, None]),
        ([line("a", superseded_by="nowhere"), line("")], [None, None]),
    ],
)
def test_what_a_line_gave_way_to_is_what_either_says(lines: list[Line], after: list[int | None]) -> None:
    assert successors(lines) == after


def test_what_was_put_away_after_it_gave_way_waits_for_what_it_gave_way_to() -> None:
    away = {"status": Status.ARCHIVED, "told": True}
    lines = [line("a", superseded_by="b", **away), line("b", superseded_by="c", **away), line("c")]
    assert in_order(lines, successors(lines)) == [2, 1, 0]


def test_a_chain_is_put_in_order_in_a_time_that_grows_as_it_does() -> None:
    count = 20_000
    chain = [line(str(at), supersedes=(str(at - 1),)) for at in range(count)][::-1]
    began = time.process_time()
    after = successors(chain)
    assert after == [None, *range(count - 1)]
    assert sum(map(len, predecessors(chain, after))) == count - 1
    assert [*map(len, together(chain))] == [count]
    assert len(in_order(chain, after)) == count
    assert time.process_time() - began < 5


def test_lines_that_say_nothing_of_each_other_are_apart() -> None:
    lines = [line("a", "x"), line("b", "y"), line("c", "z", superseded_by="a"), line("", "y"), line("", "w")]
    assert [[one.asked.content for one in group] for group in together(lines)] == [["x", "z"], ["y", "y"], ["w"]]


def test_what_only_repeats_another_line_is_dropped() -> None:
    lines = [line("a", "x"), line("", "x"), line("", "x"), line("b", "x"), line("a", "x"), line("", "x", author="ana")]
    assert firsts(lines) == [lines[0], lines[1], lines[3], lines[5]]


def test_each_memory_answers_for_one_line() -> None:
    assert pairs([line("1", "x"), line("2", "x")], memory("a", "x")) == {0: "a"}
    assert pairs([line("1", "x"), line("2", "x")], memory("a", "x"), memory("2", "x")) == {0: "a", 1: "2"}


def test_a_line_is_rather_what_stands_as_it_does() -> None:
    gone = memory("gone", "x", status=Status.SUPERSEDED)
    lines = [line("1", "x", superseded_by="2"), line("2", "x")]
    assert pairs(lines, memory("here", "x"), gone) == {0: "gone", 1: "here"}
    assert pairs(lines[1:], gone) == {0: "gone"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"author": "ana"}, {"author": "ben"}),
        ({"author": "ana"}, {}),
        ({"subjects": ("ana",)}, {"subjects": ("ben",)}),
        ({"metadata": {"customer": "acme"}}, {"metadata": {"customer": "globex"}}),
        ({"since": 5}, {"valid_from": 6}),
    ],
)
def test_what_consolidation_tells_apart_is_not_there(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert pairs([line("1", "x", **one)], memory("a", "x", **other)) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"author": "Ana"}, {"author": "ana"}),
        ({"subjects": ("ana",)}, {"subjects": ("ben", "Ana")}),
        ({"metadata": {"customer": "acme"}}, {"metadata": {"customer": "acme", "seen": 2}}),
        ({"since": 5}, {"recorded_at": 5}),
        ({}, {"valid_from": 6, "recorded_at": 5}),
    ],
)
def test_what_it_does_not_tell_apart_is(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert pairs([line("1", "x", **one)], memory("a", "x", **other)) == {0: "a"}


def test_what_is_exactly_so_is_found_among_any_number() -> None:
    others = [memory(str(at), "x", metadata={"customer": str(at)}) for at in range(3 * LOOKED_AT)]
    last = line("last", "x", metadata={"customer": str(len(others) - 1)})
    assert pairs([last], *others) == {0: others[-1].id}
