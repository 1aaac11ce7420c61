"""The items of an index as columns: each has a slot, whose number rises with every item; slots are linked in threads.

What a column holds is derived from the text, which is not kept. A dropped item's slot is dead until the next sweep; the
items before and after it are then neighbours.
"""

from array import array
from typing import Final

from perdure.core.memory.asking import Traits
from perdure.core.memory.dates import day
from perdure.ports.memory import Item

NONE: Final = -1
NO_DAY: Final = -(1 << 30)
"""The day of what nobody knows the day of."""
_EACH: Final = 260
"""Bytes of an item in these columns, its id in the table included."""


class Slots:
    """Columns by slot. Arrays of the standard library: numpy reads them in place, and without it they serve as well."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.by_id: dict[str, int] = {}
        self.alive = bytearray()
        self.lengths = array("d")
        self.questions = bytearray()
        self.times = bytearray()
        self.names = array("d")
        self.days = array("q")
        self.authors = array("q")
        self.threads = array("q")
        self.before = array("q")
        self.after = array("q")
        self.total_length = 0.0
        self._author_numbers: dict[str, int] = {}
        self._author_items: dict[str, int] = {}
        self._author_names: list[str] = []
        self._thread_ends: dict[str, tuple[int, int]] = {}  # by name: its number, its last slot
        self._thread_names: list[str] = []

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def count(self) -> int:
        """How many slots there are, dead ones included."""
        return len(self.ids)

    @property
    def thread_count(self) -> int:
        """How many numbers of threads there are."""
        return len(self._thread_names)

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        return self.count * _EACH

    def authors_now(self) -> list[str]:
        """Those who said what is there."""
        return list(self._author_items)

    def author_number(self, author: str | None) -> int:
        """The number of an author, or one that nobody has."""
        return self._author_numbers.get(author, NONE - 1) if author else NONE - 1

    def thread_of(self, id: str) -> str:
        """The thread of an item that is there."""
        return self._thread_names[self.threads[self.by_id[id]]]

    def put(self, item: Item, length: int, traits: Traits) -> int:
        """Give an item its slot: at the end of its thread, or in the place of the one it replaces."""
        old = self.by_id.get(item.id)
        place: tuple[int, int] | None = None
        if old is not None:
            if item.thread and self._thread_names[self.threads[old]] == item.thread:
                place = (self.before[old], self.after[old])
            self.drop(item.id)
        slot = len(self.ids)
        self.ids.append(item.id)
        self.by_id[item.id] = slot
        self.alive.append(1)
        self.lengths.append(length)
        self.total_length += length
        self.questions.append(traits.question)
        self.times.append(traits.time)
        self.names.append(traits.names)
        self.days.append(day(item.at) if item.at else NO_DAY)
        self.authors.append(self._author(item.author) if item.author else NONE)
        self._link(slot, item.thread, place)
        return slot

    def drop(self, id: str) -> bool:
        """Take an item out; its neighbours are neighbours now. False if it is not there."""
        slot = self.by_id.pop(id, None)
        if slot is None:
            return False
        self.alive[slot] = 0
        self.total_length -= self.lengths[slot]
        before, after = self.before[slot], self.after[slot]
        if before != NONE:
            self.after[before] = after
        if after != NONE:
            self.before[after] = before
        name = self._thread_names[self.threads[slot]]
        if name and self._thread_ends[name][1] == slot:
            self._thread_ends[name] = (self.threads[slot], before)
        self.before[slot] = self.after[slot] = NONE
        author = self.authors[slot]
        if author != NONE:
            self._author_leaves(self._author_names[author])
        return True

    def neighbours(self, slot: int) -> tuple[int, int, int, int]:
        """The slots before and after, and the second ones; `NONE` where there is none."""
        before, after = self.before[slot], self.after[slot]
        return (
            before,
            after,
            self.before[before] if before != NONE else NONE,
            self.after[after] if after != NONE else NONE,
        )

    def sweep(self) -> dict[int, int]:
        """Let go of dead slots; the new number of each old one."""
        kept = [slot for slot, alive in enumerate(self.alive) if alive]
        moved = {slot: new for new, slot in enumerate(kept)}
        self.ids = [self.ids[slot] for slot in kept]
        self.by_id = {id: slot for slot, id in enumerate(self.ids)}
        for column in ("questions", "times", "alive"):
            setattr(self, column, bytearray(getattr(self, column)[slot] for slot in kept))
        for column in ("lengths", "names"):
            setattr(self, column, array("d", (getattr(self, column)[slot] for slot in kept)))
        for column in ("days", "authors", "threads"):
            setattr(self, column, array("q", (getattr(self, column)[slot] for slot in kept)))
        for column in ("before", "after"):
            setattr(self, column, array("q", (moved.get(getattr(self, column)[slot], NONE) for slot in kept)))
        self._renumber_threads(moved)
        return moved

    def _renumber_threads(self, moved: dict[int, int]) -> None:
        numbers = {old: new for new, old in enumerate(dict.fromkeys(self.threads))}
        self._thread_names = [self._thread_names[old] for old in numbers]
        self.threads = array("q", (numbers[old] for old in self.threads))
        self._thread_ends = {
            name: (numbers[old], moved[last]) for name, (old, last) in self._thread_ends.items() if last in moved
        }

    def _author(self, author: str) -> int:
        self._author_items[author] = self._author_items.get(author, 0) + 1
        number = self._author_numbers.setdefault(author, len(self._author_names))
        if number == len(self._author_names):
            self._author_names.append(author)
        return number

    def _author_leaves(self, author: str) -> None:
        self._author_items[author] -= 1
        if not self._author_items[author]:
            del self._author_items[author]

    def _link(self, slot: int, thread: str, place: tuple[int, int] | None) -> None:
        fresh = len(self._thread_names)
        number, last = self._thread_ends.get(thread, (fresh, NONE)) if thread else (fresh, NONE)
        if number == fresh:
            self._thread_names.append(thread)
        before, after = place if place else (last, NONE)
        self.threads.append(number)
        self.before.append(before)
        self.after.append(after)
        if before != NONE:
            self.after[before] = slot
        if after != NONE:
            self.before[after] = slot
        if thread:
            self._thread_ends[thread] = (number, last if after != NONE else slot)
