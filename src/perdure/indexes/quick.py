"""Ranking with numpy: every signal of every item at once, but for the finest one, which only the best are asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from perdure.core.memory.asking import Asked
from perdure.core.memory.dates import Span, tolerance
from perdure.core.memory.scoring import (
    LENGTH,
    NEIGHBOURS,
    SATURATION,
    SPREAD,
    STRETCH,
    rarity,
)
from perdure.indexes.matrix import Matrix
from perdure.indexes.postings import Postings
from perdure.indexes.slots import NO_DAY, Slots

_TINY: Final = 1e-9


class Columns:
    """The slots as arrays, copied at one moment: they serve until the next change."""

    def __init__(self, slots: Slots) -> None:
        import numpy as np

        self.numpy = np
        self.count = slots.count
        self.alive = np.frombuffer(bytes(slots.alive), dtype=np.bool_)
        self.living = np.flatnonzero(self.alive)
        self.all_alive = len(self.living) == self.count
        lengths = np.array(slots.lengths, dtype=np.float64)
        usual = max(slots.total_length / max(len(slots), 1), 1.0)
        # One place more than there are slots: -1, the neighbour that is not there, reads it.
        before, after = (np.append(np.array(column, dtype=np.int64), -1) for column in (slots.before, slots.after))
        self.links = (before[:-1], after[:-1], before[before][:-1], after[after][:-1])
        self.lengths = np.log1p(lengths)
        self.relative = lengths / usual
        self.around = self.spread(np.append(self.relative, 0.0)) / STRETCH
        self.questions = np.frombuffer(bytes(slots.questions), dtype=np.uint8).astype(np.float64)
        asks = np.append(self.questions, 0.0)
        self.asked_before = asks[self.links[0]]
        self.times = np.frombuffer(bytes(slots.times), dtype=np.uint8).astype(np.float64)
        self.names = np.array(slots.names, dtype=np.float64)
        self.days = np.array(slots.days, dtype=np.int64)
        known = self.days[self.days != NO_DAY]
        self.days_known = (int(known.min()), int(known.max())) if len(known) else ()
        self.authors = np.array(slots.authors, dtype=np.int64)
        self.threads = np.array(slots.threads, dtype=np.int64)
        self.thread_count = slots.thread_count

    def spread(self, values: Any, at: Any = slice(None)) -> Any:
        """Values of the items with their neighbours' shares; `values` has a zero at its end."""
        one, two = NEIGHBOURS[1:]
        first, second, third, fourth = (link[at] for link in self.links)
        own = values[:-1][at] * NEIGHBOURS[0]
        return own + one * (values[first] + values[second]) + two * (values[third] + values[fourth])

    @property
    def size(self) -> int:
        """Bytes in memory."""
        arrays = [value for value in vars(self).values() if hasattr(value, "nbytes")]
        return int(sum(array.nbytes for array in arrays) + sum(link.nbytes for link in self.links))


def by_words(columns: Columns, postings: Postings, terms: Sequence[str], signals: dict[str, Any]) -> None:
    """What the words of a query say: of the item, of it with its neighbours, and how much of the query is there."""
    np, count = columns.numpy, columns.count
    alone, around, covered = np.zeros(count), np.zeros(count), np.zeros(count)
    touched, values = np.zeros(count + 1, dtype=np.bool_), np.zeros(count + 1)
    worth = 0.0
    for term in terms:
        found = postings.arrays(term)
        if found is not None and not columns.all_alive:
            living = columns.alive[found[0]]
            found = found[0][living], found[1][living]
        rare = rarity(len(columns.living), 0 if found is None else len(found[0]))
        worth += rare
        if found is None or not len(found[0]):
            continue
        at, counts = found
        alone[at] += rare * _saturated(counts, columns.relative[at])
        values[at] = counts
        first, second, third, fourth = (link[at] for link in columns.links)
        for near in (at, first, second):
            touched[near] = True
        touched[-1] = False
        covered[np.flatnonzero(touched)] += rare
        for near in (third, fourth):
            touched[near] = True
        touched[-1] = False
        wide = np.flatnonzero(touched)
        around[wide] += rare * _saturated(columns.spread(values, wide), columns.around[wide])
        touched[wide] = False
        values[at] = 0.0
    signals["words"] = alone / max(alone.max(), _TINY)
    signals["around"] = around / max(around.max(), _TINY)
    signals["covered"] = covered / max(worth, _TINY)
    signals["answer"] = np.append(signals["words"], 0.0)[columns.links[0]] * columns.asked_before


def by_signs(columns: Columns, asked: Asked, author: int, spans: Sequence[Span], signals: dict[str, Any]) -> None:
    """What can be told without the query's words: who, when, how long, and what kind of text."""
    np = columns.numpy
    signals["length"] = columns.lengths
    signals["question"] = columns.questions
    if asked.author is not None:
        signals["author"] = (columns.authors == author).astype(np.float64)
    if asked.when:
        signals["time"] = columns.times
    if asked.who:
        signals["names"] = columns.names
    if spans:
        best = np.zeros(columns.count)
        for span in spans:
            away = np.maximum(np.maximum(span.first - columns.days, columns.days - span.last), 0)
            np.maximum(best, span.weight * np.exp(-away / tolerance(span)), out=best)
        best[columns.days == NO_DAY] = 0.0
        signals["date"] = best


def by_vectors(columns: Columns, contexts: Matrix, vector: Any, signals: dict[str, Any]) -> None:
    """What the vectors of items with what was said before them say: of the item, and of the best in its thread."""
    np = columns.numpy
    near = contexts.times(vector).astype(np.float64)
    living = near if columns.all_alive else near[columns.living]
    there = living if living.all() else living[living != 0]  # zero where there is no vector
    if not len(there):
        return
    mean = there.mean()
    context = (near - mean) / max(there.max() - mean, SPREAD)
    if len(there) < len(living):
        context[near == 0] = 0.0
    signals["context"] = context
    best = np.full(columns.thread_count, -1.0)
    if columns.all_alive:
        np.maximum.at(best, columns.threads, context)
    else:
        np.maximum.at(best, columns.threads[columns.living], context[columns.living])
    signals["thread"] = best[columns.threads]


def weighed(columns: Columns, signals: dict[str, Any], weights: Mapping[str, float]) -> Any:
    """The sum of the signals, each with its weight."""
    total = columns.numpy.zeros(columns.count)
    for name, values in signals.items():
        total += weights[name] * values
    return total


def _saturated(counts: Any, lengths: Any) -> Any:
    return counts * (SATURATION + 1) / (counts + SATURATION * (1 - LENGTH + LENGTH * lengths))


def ordered(columns: Columns, totals: Any, first: int) -> Iterator[int]:
    """Slots that are alive, the best first; the first so many are found without sorting all."""
    np = columns.numpy
    living = columns.living
    scores = totals if columns.all_alive else totals[living]
    if len(scores) <= 2 * first:
        yield from living[np.argsort(-scores, kind="stable")].tolist()
        return
    edge = np.partition(scores, len(scores) - first)[len(scores) - first]
    best = np.flatnonzero(scores >= edge)
    yield from living[best[np.argsort(-scores[best], kind="stable")]].tolist()
    rest = np.flatnonzero(scores < edge)
    yield from living[rest[np.argsort(-scores[rest], kind="stable")]].tolist()
