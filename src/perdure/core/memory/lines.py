"""Memories as a file tells of them: which lines say one thing, which are there already, and what each gave way to.

What is there answers for one line each, so that of two who say the same in a file both are kept. A line is there if a
memory has its words and nothing tells the two apart: not who said it, of whom it speaks, since when it is true, nor its
metadata, as far as consolidation heeds them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from perdure.core.memory.comparing import are_alike
from perdure.core.memory.parts import TRUST, Memory, Status, Trust, people, person
from perdure.core.memory.requests import Keeping, lesser

LOOKED_AT: Final = 100
"""Memories of the same words among which one is looked for that is not told apart, if none is exactly so."""
Words: TypeAlias = tuple[str, str]
"""A type, and what is said."""
Whose: TypeAlias = tuple[str, tuple[str, ...], bytes]
"""Who said it, of whom it speaks, and its metadata."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of a file. `id` is the one it has there, if it has one. Where its file has `told` how it stands, that
    counts; else it gave way to whatever says so. `ended` is when what gave way did.
    """

    asked: Keeping
    id: str = ""
    status: Status = Status.LIVE
    superseded_by: str = ""
    supersedes: tuple[str, ...] = ()
    told: bool = False
    ended: int | None = None

    @property
    def trust(self) -> Trust:
        """How far it is trusted when it is kept."""
        most = TRUST[self.asked.source.kind]
        return lesser(self.asked.trust or most, most)

    def stands_for(self, memory: Memory) -> bool:
        """Whether something may take the place of a memory, or stand in it, because of this line, which says the same:
        it is trusted as much as the memory is.
        """
        return lesser(memory.trust, self.trust) == memory.trust


class Known(msgspec.Struct, frozen=True):
    """What a line or a memory is known by."""

    words: Words
    whose: Whose
    since: int | None


def known_of(one: Line | Memory) -> Known:
    """What it is known by; a line that names no time says the same as any."""
    if isinstance(one, Memory):
        return Known(words_of(one), _whose(one.author, one.subjects, one.metadata), one.since)
    said = one.asked
    whose = _whose(said.author, said.subjects, said.metadata)
    return Known(words_of(said), whose, said.valid_from)


def words_of(one: Keeping | Memory) -> Words:
    """The words of what is there, or of what is asked to be kept."""
    if isinstance(one, Memory):
        return one.type.value, one.content
    return one.memory_type.value, one.content.strip()


def _whose(author: str, subjects: Sequence[str], metadata: dict[str, Any]) -> Whose:
    return (
        person(author) if author else "",
        tuple(sorted(people(subjects))) if subjects else (),
        msgspec.json.encode(metadata, order="deterministic") if metadata else b"",
    )


def firsts(lines: Sequence[Line]) -> list[Line]:
    """The lines without those that only repeat another one: the same of one id, or of none."""
    found: dict[tuple[str, Words, Whose, int | None], Line] = {}
    for line in lines:
        known = known_of(line)
        found.setdefault((line.id, known.words, known.whose, known.since), line)
    return [*found.values()]


# ── what gave way to what ──


def successors(lines: Sequence[Line]) -> list[int | None]:
    """The place of the line that each gave way to, if it is among them; in a circle nobody gave way."""
    places: dict[str, int] = {}
    for place, line in enumerate(lines):
        if line.id:
            places.setdefault(line.id, place)
    listed: dict[int, int] = {}
    for place, line in enumerate(lines):
        for old in line.supersedes:
            if old in places:
                listed.setdefault(places[old], place)
    found = [_successor(line, places, listed.get(place)) for place, line in enumerate(lines)]
    for place in _circles(found):
        found[place] = None
    return found


def _successor(line: Line, places: dict[str, int], listed: int | None) -> int | None:
    if line.told and line.status is Status.LIVE:
        return None
    named = places.get(line.superseded_by) if line.superseded_by else None
    if named is None and (line.status is Status.SUPERSEDED or not line.told):
        return listed
    return named


def _circles(after: Sequence[int | None]) -> Iterator[int]:
    """The places that lead back to themselves."""
    seen_from: dict[int, int] = {}
    for start in range(len(after)):
        path, place = list[int](), start
        at: int | None = start
        while at is not None and at not in seen_from:
            seen_from[at] = start
            path.append(at)
            at = after[at]
        if at is not None and seen_from[at] == start:
            place = path.index(at)
            yield from path[place:]


def predecessors(lines: Sequence[Line], after: Sequence[int | None]) -> list[list[int]]:
    """The places of those that each line says it superseded, and then of those that say so themselves."""
    places: dict[str, int] = {}
    for place, line in enumerate(lines):
        if line.id:
            places.setdefault(line.id, place)
    found = [dict.fromkeys(places[old] for old in line.supersedes if old in places) for line in lines]
    for place, newer in enumerate(after):
        if newer is not None:
            found[newer].setdefault(place)
    return [[old for old in olds if old != place] for place, olds in enumerate(found)]


def in_order(lines: Sequence[Line], after: Sequence[int | None]) -> list[int]:
    """The places of lines in the order in which they are kept: as they stand, but that who was put away after it had
    given way waits for what it gave way to.
    """
    found = [place for place, line in enumerate(lines) if line.status is not Status.ARCHIVED or after[place] is None]
    came = {*found}
    for place in range(len(lines)):
        chain, at = list[int](), place
        while at not in came:
            chain.append(at)
            came.add(at)
            newer = after[at]
            at = at if newer is None else newer
        found += reversed(chain)
    return found


def together(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines in groups, none of which says anything of another: neither that one gave way, nor in the same words."""
    first = [*range(len(lines))]

    def first_of(place: int) -> int:
        while first[place] != place:
            first[place] = place = first[first[place]]
        return place

    met: dict[str | Words, int] = {}
    for place, line in enumerate(lines):
        names: list[str | Words] = [known_of(line).words, line.id, line.superseded_by, *line.supersedes]
        for name in names:
            if name:
                one, other = first_of(place), first_of(met.setdefault(name, place))
                first[max(one, other)] = min(one, other)
    found: dict[int, list[Line]] = {}
    for place, line in enumerate(lines):
        found.setdefault(first_of(place), []).append(line)
    return [*found.values()]


# ── what is there ──


def paired(
    lines: Sequence[Line], order: Sequence[int], after: Sequence[int | None], memories: Iterable[Memory]
) -> dict[int, Memory]:
    """The memories that lines are there as, by the places of the lines: each answers for one. Those come first that are
    the line itself, then what is exactly so and counts as the line does, then what is exactly so, then what is alike;
    of several, as they are kept, so that what an import has kept that broke off is found again.
    """
    wanted = [known_of(line) for line in lines]
    there: dict[Words, list[Memory]] = {known.words: [] for known in wanted}
    for memory in memories:
        same = there.get(words_of(memory))
        if same is not None:
            same.append(memory)
    found, groups = dict[int, Memory](), dict[Words, list[int]]()
    for place in order:
        words = wanted[place].words
        if there[words]:
            groups.setdefault(words, []).append(place)
    for words, group in groups.items():
        _pair(lines, after, wanted, group, there[words], found)
    return found


def _pair(
    lines: Sequence[Line],
    after: Sequence[int | None],
    wanted: Sequence[Known],
    group: list[int],
    memories: list[Memory],
    found: dict[int, Memory],
) -> None:
    """Pair lines and memories of the same words, both in their order."""
    free = {memory.id: memory for memory in memories}
    for place in group:
        memory = free.pop(lines[place].id, None)
        if memory is not None:
            found[place] = memory
    facts = {id: known_of(memory) for id, memory in free.items()}
    for dated, heeded in ((True, True), (True, False), (False, True), (False, False)):
        exactly: dict[tuple[Whose, int | None, bool], list[str]] = {}
        for id, memory in reversed(free.items()):
            counts = heeded and memory.status is Status.LIVE
            exactly.setdefault((facts[id].whose, facts[id].since if dated else None, counts), []).append(id)
        for place in group:
            line, known = lines[place], wanted[place]
            if place not in found and dated is (known.since is not None):
                counts = heeded and line.status is Status.LIVE and after[place] is None
                ids = exactly.get((known.whose, known.since, counts))
                if ids:
                    found[place] = free.pop(ids.pop())
    for place in group:
        if place not in found and free and (like := _like(lines[place], free)) is not None:
            found[place] = free.pop(like.id)


def _like(line: Line, free: dict[str, Memory]) -> Memory | None:
    """A memory of the same words that nothing tells apart from a line: it may say more of whom it is about, say."""
    said = line.asked
    told = Memory(
        id="",
        type=said.memory_type,
        content=said.content,
        author=said.author,
        subjects=said.subjects,
        metadata=said.metadata,
    )
    for _, memory in zip(range(LOOKED_AT), free.values(), strict=False):
        if said.valid_from in (None, memory.since) and are_alike(told, memory):
            return memory
    return None
