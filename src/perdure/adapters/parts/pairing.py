"""Calls of tools that were left without a result, and what is said in its place. Pure: nothing here reads or writes.

A model refuses a call that nothing answers. One is left behind when a framework is stopped between a call and its
result and the conversation goes on elsewhere. What a framework left open itself is its own business until then.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

INTERRUPTED: Final = "interrupted: the conversation went on before this tool had a result"
"""The result of a call that has none."""


def in_words(name: str) -> str:
    """A call that has no result, where none can be put beside it."""
    return f"(called {name}; {INTERRUPTED})"


class Step(NamedTuple):
    """One item of a conversation, as the framework sees it that reads: the calls made in it, the calls whose results
    are in it, and whether the item is the framework's own.
    """

    asked: Collection[str]
    answered: Collection[str]
    own: bool


class Open(NamedTuple):
    """A call without a result: the step that made it, and the place among the steps where a result would stand."""

    call: str
    step: int
    place: int


def left_open(steps: Sequence[Step]) -> list[Open]:
    """The calls that need a result, in their order: those of others that have none, and own ones after which others
    went on.
    """
    found: list[Open] = []
    results: set[str] = set()
    others, place = False, len(steps)
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        lacking = [call for call in step.asked if call not in results and call not in step.answered]
        if not step.own or others:
            found += [Open(call, index, place) for call in reversed(lacking)]
        results.difference_update(step.asked)
        results.update(step.answered)
        others = not step.own or (others and bool(step.asked or step.answered))
        if step.asked or not step.answered:
            place = index
    return found[::-1]


def with_results(items: Sequence[T], steps: Sequence[Step], result: Callable[[str], T]) -> list[T]:
    """The items, and in its place a result for each call that is left open."""
    found = list(items)
    for lack in reversed(left_open(steps)):
        found.insert(lack.place, result(lack.call))
    return found
