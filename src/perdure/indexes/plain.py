"""Ranking in plain Python, by words and signs alone: for where numpy is not installed. The same sums, slower."""

from collections.abc import Callable, Sequence
from math import log1p
from typing import Final

from perdure.core.memory.asking import Asked
from perdure.core.memory.dates import Span, closeness
from perdure.core.memory.scoring import NEIGHBOURS, STRETCH, rarity, saturated
from perdure.indexes.postings import Postings
from perdure.indexes.slots import NO_DAY, NONE, Slots

_TINY: Final = 1e-9


def by_words(slots: Slots, postings: Postings, terms: Sequence[str], signals: dict[str, list[float]]) -> None:
    """What the words of a query say: of the item, of it with its neighbours, and how much of the query is there."""
    count, usual = slots.count, max(slots.total_length / max(len(slots), 1), 1.0)
    alone, around, covered = [0.0] * count, [0.0] * count, [0.0] * count
    worth = 0.0
    for term in terms:
        counts = {slot: float(number) for slot, number in postings.of(term) if slots.alive[slot]}
        rare = rarity(len(slots), len(counts))
        worth += rare
        wide: set[int] = set()
        close: set[int] = set()
        for slot, number in counts.items():
            alone[slot] += rare * saturated(number, slots.lengths[slot] / usual)
            near = slots.neighbours(slot)
            close.update((slot, *near[:2]))
            wide.update((slot, *near))
        for slot in close - {NONE}:
            covered[slot] += rare
        for slot in wide - {NONE}:
            there = _spread(slots, slot, lambda at, counts=counts: counts.get(at, 0.0))  # type: ignore[misc]
            length = _spread(slots, slot, lambda at: slots.lengths[at] / usual) / STRETCH
            around[slot] += rare * saturated(there, length)
    signals["words"] = _shares(alone)
    signals["around"] = _shares(around)
    signals["covered"] = [each / max(worth, _TINY) for each in covered]
    signals["answer"] = [
        signals["words"][before] * slots.questions[before] if before != NONE else 0.0 for before in slots.before
    ]


def by_signs(slots: Slots, asked: Asked, author: int, spans: Sequence[Span], signals: dict[str, list[float]]) -> None:
    """What can be told without the query's words: who, when, how long, and what kind of text."""
    signals["length"] = [log1p(length) for length in slots.lengths]
    signals["question"] = [float(each) for each in slots.questions]
    if asked.author is not None:
        signals["author"] = [float(each == author) for each in slots.authors]
    if asked.when:
        signals["time"] = [float(each) for each in slots.times]
    if asked.who:
        signals["names"] = list(slots.names)
    if spans:
        signals["date"] = [closeness(each, spans) if each != NO_DAY else 0.0 for each in slots.days]


def _spread(slots: Slots, slot: int, value: Callable[[int], float]) -> float:
    before, after, second, third = (value(near) if near != NONE else 0.0 for near in slots.neighbours(slot))
    return value(slot) * NEIGHBOURS[0] + NEIGHBOURS[1] * (before + after) + NEIGHBOURS[2] * (second + third)


def _shares(values: list[float]) -> list[float]:
    most = max(max(values, default=0.0), _TINY)
    return [value / most for value in values]
