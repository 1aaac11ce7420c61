"""The index in RAM: words in postings, vectors in int8, one pass over all and a finer look at the best.

Texts are not kept, but for the last two of each thread, which go into the vectors of what follows. Calls from several
threads take turns; texts are embedded outside of that. Without numpy, words and signs alone rank the items.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Any, Final

from perdure.core.memory.asking import Asked, asked, traits
from perdure.core.memory.dates import Span, spans
from perdure.core.memory.scoring import NO_VECTORS, WEIGHTS, WITHOUT_VECTORS
from perdure.core.memory.words import terms, terms_of, words
from perdure.indexes import plain
from perdure.indexes.postings import Postings
from perdure.indexes.slots import NO_DAY, Slots
from perdure.ports.memory import Embedder, Found, Item

_BEST: Final = 300
"""Items that are looked at more finely, at least."""
_BEFORE: Final = 2
_SAID: Final = 1_000
"""Characters of what was said before that go into a vector."""
_TAIL: Final = 600
"""Bytes of the last texts of a thread, roughly."""
_DEAD: Final = 1_000
"""Dead slots at which a sweep may be worth it."""


class RamIndex:
    """Implements `MemoryIndex`."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._lock = threading.Lock()
        self._slots = Slots()
        self._postings = Postings()
        self._said: dict[str, list[tuple[str, str]]] = {}
        self._columns: Any = None
        self._numpy = _has_numpy()
        self._vectors: Any = None
        if embedder is not None and self._numpy:
            from perdure.indexes.vectors import Vectors

            self._vectors = Vectors(embedder)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        size = self._slots.size + self._postings.size
        size += len(self._said) * _TAIL
        if self._columns is not None:
            size += self._columns.size
        return size + (self._vectors.size if self._vectors is not None else 0)

    def add(self, items: Sequence[Item], vectors: Sequence[bytes] = ()) -> list[bytes]:
        """See the port."""
        packed: list[bytes] = []
        if self._vectors is not None:
            packed = self._vectors.packed(items, list(vectors), self._contexts)
        with self._lock:
            self._columns = None
            for item in items:
                said = words(item.text)
                its = terms_of(said)
                if self._vectors is not None:
                    self._note(item)
                self._postings.put(self._slots.put(item, len(its), traits(item.text, said)), its)
            if packed:
                self._vectors.append(packed)
            self._sweep()
        return packed or [b""] * len(items)

    def drop(self, ids: Iterable[str]) -> None:
        """See the port."""
        with self._lock:
            gone = {id for id in ids if self._slots.drop(id)}
            if not gone:
                return
            self._columns = None
            for thread in [thread for thread, tail in self._said.items() if any(id in gone for id, _ in tail)]:
                self._unsay(thread, gone)
            self._sweep()

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        among: Callable[[str], bool] | None = None,
        prior: Callable[[str], float] | None = None,
        now: int = 0,
    ) -> list[Found]:
        """See the port."""
        vector = self._vectors.of(query) if self._vectors is not None and len(self) else None
        with self._lock:
            if not len(self) or k < 1:
                return []
            vector = self._vectors.fitting(vector) if self._vectors is not None else None
            question = asked(query, self._slots.authors_now())
            signals: dict[str, Any] = {}
            order = self._ranked(question, self._spans(query, now), vector, signals)
            wanted = max(_BEST, 2 * k) if vector is not None or prior is not None else k
            chosen = sorted(_first(order, self._slots.ids, among, wanted))
            if not chosen:
                return []
            table = self._picked(signals, chosen)
            if vector is not None:
                table["meaning"] = self._vectors.meanings(chosen, vector)
            return self._found(chosen, table, k, prior, by_words=vector is None)

    def near(self, text: str, *, k: int = 10) -> list[tuple[str, float]]:
        """See the port."""
        vector = self._vectors.of(text) if self._vectors is not None and len(self) else None
        with self._lock:
            if not len(self) or k < 1:
                return []
            if vector is not None and (vector := self._vectors.fitting(vector)) is not None:
                close: list[tuple[int, float]] = self._vectors.nearest(vector, k, self._snapshot())
            else:
                close = self._alike(terms(text), k)
            return [(self._slots.ids[slot], likeness) for slot, likeness in close]

    def _snapshot(self) -> Any:
        if self._columns is None:
            from perdure.indexes.quick import Columns

            self._columns = Columns(self._slots)
        return self._columns

    def _ranked(self, question: Asked, meant: list[Span], vector: Any, signals: dict[str, Any]) -> Iterator[int]:
        """Slots that are alive, the best first, by all signals that every item has; `signals` is filled with these."""
        author = self._slots.author_number(question.author)
        weights = WITHOUT_VECTORS if vector is None else WEIGHTS
        if not self._numpy:
            plain.by_words(self._slots, self._postings, question.terms, signals)
            plain.by_signs(self._slots, question, author, meant, signals)
            totals = [0.0] * self._slots.count
            for name, values in signals.items():
                weight = weights[name]
                totals = [total + weight * value for total, value in zip(totals, values, strict=True)]
            living = (slot for slot, alive in enumerate(self._slots.alive) if alive)
            return iter(sorted(living, key=lambda slot: (-totals[slot], slot)))
        from perdure.indexes import quick

        columns = self._snapshot()
        quick.by_words(columns, self._postings, question.terms, signals)
        quick.by_signs(columns, question, author, meant, signals)
        if vector is not None:
            quick.by_vectors(columns, self._vectors.contexts, vector, signals)
        return quick.ordered(columns, quick.weighed(columns, signals, weights), _BEST)

    def _spans(self, query: str, now: int) -> list[Span]:
        known = self._snapshot().days_known if self._numpy else [each for each in self._slots.days if each != NO_DAY]
        return spans(query, first=min(known), last=max(known), now=now) if known else []

    def _picked(self, signals: dict[str, Any], chosen: list[int]) -> dict[str, Any]:
        """The signals of some slots."""
        if not self._numpy:
            return {name: [values[slot] for slot in chosen] for name, values in signals.items()}
        places = self._snapshot().numpy.array(chosen)
        return {name: values[places] for name, values in signals.items()}

    def _totals(self, table: dict[str, Any], count: int, weights: dict[str, float]) -> list[float]:
        """The sum of some slots' signals, each with its weight."""
        if self._numpy:
            total = self._snapshot().numpy.zeros(count)
            for name, values in table.items():
                total += weights[name] * values
            found: list[float] = total.tolist()
            return found
        totals = [0.0] * count
        for name, values in table.items():
            weight = weights[name]
            totals = [total + weight * value for total, value in zip(totals, values, strict=True)]
        return totals

    def _found(
        self,
        chosen: list[int],
        table: dict[str, Any],
        k: int,
        prior: Callable[[str], float] | None,
        *,
        by_words: bool,
    ) -> list[Found]:
        ids, weights = self._slots.ids, WITHOUT_VECTORS if by_words else WEIGHTS
        lacking = NO_VECTORS if by_words and self._vectors is not None else ""
        totals, priors = self._totals(table, len(chosen), weights), dict[int, float]()
        # Whoever has less than the best without their priors is not among them, whatever its own.
        least = nlargest(k, totals)[-1] - (0.0 if prior is None else weights["prior"])
        best = [at for at, total in enumerate(totals) if total >= least]
        if prior is not None:
            for at in best:
                priors[at] = prior(ids[chosen[at]])
                totals[at] += weights["prior"] * priors[at]
        best.sort(key=lambda at: (-totals[at], at))
        found = []
        for at in best[:k]:
            parts = {name: weights[name] * float(values[at]) for name, values in table.items() if values[at]}
            if priors.get(at):
                parts["prior"] = weights["prior"] * priors[at]
            found.append(Found(ids[chosen[at]], totals[at], parts, lacking))
        return found

    def _alike(self, its: list[str], k: int) -> list[tuple[int, float]]:
        """The share of words that two texts have in common, repeated ones counted."""
        shared: dict[int, int] = {}
        for term in dict.fromkeys(its):
            often = its.count(term)
            for slot, count in self._postings.of(term):
                if self._slots.alive[slot]:
                    shared[slot] = shared.get(slot, 0) + min(count, often)
        alike = {slot: 2 * both / (len(its) + self._slots.lengths[slot]) for slot, both in shared.items()}
        return sorted(alike.items(), key=lambda pair: (-pair[1], pair[0]))[:k]

    def _contexts(self, items: Sequence[Item]) -> list[tuple[str, str]]:
        """Each text alone, and with who said it and what was said before it in its thread."""
        tails: dict[str, list[tuple[str, str]]] = {}
        made = []
        for item in items:
            said = _said(item)
            if not item.thread:
                made.append((item.text, said))
                continue
            tail = tails.get(item.thread)
            if tail is None:
                tail = list(self._said.get(item.thread, ()))
            before = [text for id, text in tail if id != item.id]
            made.append((item.text, " ".join([*before, said])))
            tails[item.thread] = _followed(tail, item)
        return made

    def _note(self, item: Item) -> None:
        """Remember what was said last; called before the item has its slot."""
        known = item.id in self._slots.by_id
        if known and (was := self._slots.thread_of(item.id)) != item.thread and was in self._said:
            self._unsay(was, {item.id})
        if not item.thread:
            return
        tail = self._said.setdefault(item.thread, [])
        if known:
            self._said[item.thread] = _followed(tail, item)
        else:
            tail.append((item.id, _said(item)[:_SAID]))
            del tail[:-_BEFORE]

    def _unsay(self, thread: str, gone: set[str]) -> None:
        left = [pair for pair in self._said[thread] if pair[0] not in gone]
        if left:
            self._said[thread] = left
        else:
            del self._said[thread]

    def _sweep(self) -> None:
        dead = self._slots.count - len(self._slots)
        if dead >= _DEAD and dead > len(self._slots):
            moved = self._slots.sweep()
            self._postings.sweep(moved)
            if self._vectors is not None:
                self._vectors.keep(list(moved))


def _has_numpy() -> bool:
    try:
        import numpy as np  # noqa: F401 - only whether it can be
    except ImportError:
        return False
    return True


def _said(item: Item) -> str:
    return f"{item.author}: {item.text}" if item.author else item.text


def _followed(tail: list[tuple[str, str]], item: Item) -> list[tuple[str, str]]:
    """The last things said in a thread after one more; one that is said anew stands where it stood."""
    entry = (item.id, _said(item)[:_SAID])
    if any(id == item.id for id, _ in tail):
        return [entry if pair[0] == item.id else pair for pair in tail]
    return [*tail, entry][-_BEFORE:]


def _first(order: Iterator[int], ids: list[str], among: Callable[[str], bool] | None, wanted: int) -> Iterator[int]:
    """The first so many slots that may be found."""
    for slot in order:
        if among is None or among(ids[slot]):
            yield slot
            wanted -= 1
            if not wanted:
                return
