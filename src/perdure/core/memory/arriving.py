"""Memories that come from elsewhere and are kept as they stood there: live, put away, or in the place of each other.

Whatever becomes of one is in the append that keeps it, so nothing counts in between that did not count where it comes
from; and where an import breaks off, what is there tells the next one how to go on. What is there is left alone, unless
it gives way to what comes, which only a line that is trusted as much can say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from perdure.core.memory.lines import Line, Words, firsts, in_order, paired, predecessors, successors, words_of
from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.requests import Keeping
from perdure.core.memory.shelf import Shelf
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryChanged, MemoryKept, MemoryMoved


class Coming(msgspec.Struct, frozen=True, kw_only=True):
    """A memory to be kept under an id of its own, as it stands: what it is superseded `by` may come later. `ended` is
    when it gave way, if that is known.
    """

    asked: Keeping
    id: str
    status: Status = Status.LIVE
    by: str = ""
    ended: int | None = None


class Batch(msgspec.Struct, frozen=True):
    """Memories that are kept at once, and what memories, those or others, are said to supersede from then on."""

    coming: Sequence[Coming] = ()
    supersedes: Mapping[str, tuple[str, ...]] = {}


class Arriving:
    """The lines of one file on their way into a space, of which `memories` are there. `fresh` makes ids."""

    def __init__(self, lines: Sequence[Line], memories: Iterable[Memory], fresh: Callable[[], str]) -> None:
        known = {memory.id: memory for memory in memories}
        self.lines = firsts(lines)
        self._fresh = fresh
        self._after = successors(self.lines)
        self._before = predecessors(self.lines, self._after)
        self._order = in_order(self.lines, self._after)
        self._there = paired(self.lines, self._order, self._after, known.values())
        self._ids = {place: one.id for place, one in self._there.items() if self.lines[place].stands_for(one)}
        """What lines are called here; those of which nothing may be said have no name."""
        self._known = {*known}
        self._here = {*self._ids}
        """The places of lines that are here, and may be linked with each other."""
        self._told = {id: known[id].supersedes for id in self._ids.values()}
        self._newer: dict[int, list[int]] = {}
        for place, olds in enumerate(self._before):
            for old in olds:
                self._newer.setdefault(old, []).append(place)

    def order(self) -> list[int]:
        """The places of lines that are not there, in the order in which they are kept."""
        return [place for place in self._order if place not in self._there]

    def batch(self, places: Sequence[int]) -> Batch:
        """What is to be kept of these, once all that come before them are."""
        coming = [self._coming(place) for place in places]
        self._here |= {*places}
        touched = dict.fromkeys(one for place in places for one in (place, *self._newer.get(place, ())))
        links: dict[str, tuple[str, ...]] = {}
        for place in touched:
            if place not in self._here:
                continue
            id = self._ids[place]
            olds = dict.fromkeys(self._ids[old] for old in self._before[place] if old in self._here)
            had = self._told[id]
            now = (*(old for old in had if old not in olds), *olds)
            if now != had:
                self._told[id] = links[id] = now
        return Batch(coming, links)

    def _coming(self, place: int) -> Coming:
        line, newer, id = self.lines[place], self._after[place], self._id(place)
        by = "" if newer is None else self._id(newer)
        gives = tuple(self._there[old].id for old in self._before[place] if self._gives_way(old, place))
        self._told[id] = gives
        asked = msgspec.structs.replace(line.asked, supersedes=gives) if gives else line.asked
        if by and newer is not None:
            status = Status.ARCHIVED if line.status is Status.ARCHIVED else Status.SUPERSEDED
            ended = _ended(line, self.lines[newer]) if line.ended is None else line.ended
            return Coming(asked=asked, id=id, status=status, by=by, ended=ended)
        status = Status.LIVE if line.status is Status.LIVE and newer is None else Status.ARCHIVED
        return Coming(asked=asked, id=id, status=status, ended=line.ended)

    def _gives_way(self, old: int, place: int) -> bool:
        """Whether what is there gives way to a line that comes."""
        return self._after[old] == place and old in self._there and old in self._ids

    def _id(self, place: int) -> str:
        """What a line is called here; nothing if it is there as something that is trusted more. What an import that
        broke off has promised to those that gave way is kept.
        """
        if place not in self._ids:
            if place in self._there:
                return ""
            ways = (self._there[old] for old in self._before[place] if self._gives_way(old, place))
            promised = (one.superseded_by for one in ways if one.status is Status.SUPERSEDED)
            id = next((id for id in promised if id and id not in self._known), "") or self._fresh()
            self._known.add(id)
            self._ids[place] = id
        return self._ids[place]


def _ended(line: Line, newer: Line) -> int | None:
    """When a line that does not say it gave way: as another began, but not before it began itself."""
    until, since, own = newer.asked.valid_from, line.asked.valid_from, line.asked.valid_to
    if until is None:
        return None
    ended = until if since is None else max(since, until)
    return ended if own is None else min(ended, own)


class Others:
    """What others keep in a space while the lines of a file are kept there: it may be the same lines."""

    def __init__(self, there: Iterable[Memory]) -> None:
        self._known = {memory.id for memory in there}
        self._words = set[Words]()

    def have(self, batch: Batch, memories: dict[str, Memory]) -> bool:
        """Whether others have kept some words of a batch meanwhile; if not, it is kept with what there is now."""
        for id in reversed(memories):
            if id in self._known:
                break  # what came before was looked at
            self._known.add(id)
            self._words.add(words_of(memories[id]))
        if any(words_of(one.asked) in self._words for one in batch.coming):
            return True
        self._known.update(one.id for one in batch.coming)
        return False


# ── as events ──


def more(batch: Batch, shelf: Shelf) -> int:
    """How many more memories are live once a batch is kept."""
    gone = {old for one in batch.coming for old in one.asked.supersedes}
    live = sum(old in shelf.memories and shelf.memories[old].status is Status.LIVE for old in gone)
    return sum(one.status is Status.LIVE for one in batch.coming) - live


def arrived(batch: Batch, kept: Sequence[MemoryKept], shelf: Shelf) -> Iterator[Payload]:
    """The events that keep a batch, of which `kept` are those that say what is kept."""
    for one, data in zip(batch.coming, kept, strict=True):
        if one.by:
            yield data
            yield MemoryMoved(id=one.id, was=Status.LIVE, status=Status.SUPERSEDED, by=one.by, until=one.ended)
            if one.status is Status.ARCHIVED:
                yield MemoryMoved(id=one.id, was=Status.SUPERSEDED, status=one.status, by=one.by)
        else:
            ended = data.valid_to if one.ended is None else one.ended
            status = "" if one.status is Status.LIVE else one.status.value
            yield msgspec.structs.replace(data, status=status, valid_to=ended)
    own = {one.id: one.asked.supersedes for one in batch.coming}
    for id, olds in batch.supersedes.items():
        had = own[id] if id in own else shelf.memories[id].supersedes if id in shelf.memories else None
        if had is not None:  # else it was forgotten meanwhile
            yield MemoryChanged(id=id, before={"supersedes": [*had]}, after={"supersedes": [*olds]})
