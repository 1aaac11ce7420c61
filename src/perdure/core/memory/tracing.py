"""Which memories go together when one of them must go: the forms it had, and what others made of it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.shelf import Proposal, Shelf
from perdure.core.memory.whom import about
from perdure.core.memory.words import terms
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryChanged, MemoryMoved

MERGED: Final = frozenset({"consolidation", "promotion"})
"""Kinds of sources that are memories themselves: what they say, others said before."""
Place = TypeVar("Place")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of where a memory or a proposal comes from, and of whom it speaks."""

    session: str = ""
    """The session that it was learnt from."""
    people: frozenset[str] = frozenset()
    """Who wrote it down, who said it, and whom it is about."""
    uri: str = ""
    writer: str = ""
    """Who wrote it down, or proposed it."""
    origin: str = ""
    """The space that a proposal was made from."""


Meant: TypeAlias = Callable[[Told], bool]


def told_of(one: Memory | Proposal, others: Iterable[str] = ()) -> Told:
    """Where it comes from, and of whom it speaks; of `others` because of what it stands for."""
    if isinstance(one, Proposal):
        named = frozenset({one.by, *one.subjects}) - {""}
        return Told(session=one.session, people=named, writer=one.by, origin=one.origin)
    people = frozenset({one.writer, one.author, one.agent, *one.subjects, *others}) - {""}
    return Told(session=one.source.session, people=people, uri=one.source.uri, writer=one.writer)


def together(shelf: Shelf, ids: Iterable[str]) -> set[str]:
    """These, the forms they had before, and what says the same: what took their place and has all of their words or was
    made of them, and what else that took the place of and has those words.
    """
    before = _before(shelf)
    after: dict[str, list[str]] = {}
    for id, olds in before.items():
        for old in olds:
            after.setdefault(old, []).append(id)
    found = _closed(ids, before)
    ahead = [*found]
    while ahead:
        one = shelf.memories.get(ahead.pop())
        if one is None:
            continue
        for id in after.get(one.id, ()):
            newer = shelf.memories[id]
            if not _says(newer, one) and newer.source.kind not in MERGED:
                continue
            beside = (other for other in before[id] if _says(shelf.memories[other], one))
            more = {id, *beside} - found
            found |= more
            ahead += more
    return found


def _before(shelf: Shelf) -> dict[str, list[str]]:
    """What each memory superseded, unless that counts again."""
    found: dict[str, dict[str, None]] = {}
    for memory in shelf:
        if memory.superseded_by in shelf.memories and memory.status is not Status.LIVE:
            found.setdefault(memory.superseded_by, {})[memory.id] = None
        for old in memory.supersedes:
            if old in shelf.memories and shelf.memories[old].status is not Status.LIVE:
                found.setdefault(memory.id, {})[old] = None
    return {id: [*olds] for id, olds in found.items()}


def _closed(ids: Iterable[str], before: Mapping[str, Sequence[str]]) -> set[str]:
    found = set(ids)
    ahead = [*found]
    while ahead:
        more = set(before.get(ahead.pop(), ())) - found
        found |= more
        ahead += more
    return found


def _says(one: Memory, other: Memory) -> bool:
    """Whether one has all the words of the other."""
    words = set(terms(other.content))
    return one.content == other.content if not words else words <= set(terms(one.content))


def meant(shelf: Shelf, asked: Meant, gone: set[str]) -> set[str]:
    """The memories and proposals of a shelf that are meant, those that were made of them or of others that are `gone`,
    and what was promoted of those.
    """
    others = about(shelf)
    found = {one.id for one in shelf if asked(told_of(one, (*others.get(one.id, ()), *_named_first(shelf, one.id))))}
    found |= {one.id for one in shelf.proposals.values() if asked(told_of(one))}
    known = found | gone
    while True:
        made = {
            memory.id
            for memory in shelf
            if memory.id not in known and memory.source.kind in MERGED and not known.isdisjoint(memory.supersedes)
        }
        proposed = {one.id for one in shelf.proposals.values() if one.id not in found and one.memory in known}
        became = {
            one.became
            for one in shelf.proposals.values()
            if one.became and one.became not in found and (one.id in known or one.id in proposed)
        }
        more = made | proposed | became
        if not more:
            return {id for id in found if shelf.versions_of(id)}
        found |= more
        known |= more


def still_meant(shelf: Shelf, asked: Meant, gone: set[str], ids: set[str]) -> set[str]:
    """What is meant of a shelf, and what of these is still there."""
    return {id for id in ids if shelf.versions_of(id)} | meant(shelf, asked, gone)


def everything(shelf: Shelf) -> set[str]:
    """All the memories and proposals there are."""
    return {*shelf.memories, *shelf.proposals}


def links(shelf: Shelf, among: Collection[str]) -> Iterator[tuple[str, str]]:
    """What was made of what, or is about somebody because of it: of each of these, what it cannot be found without."""
    for memory in (shelf.memories[id] for id in among if id in shelf.memories):
        if memory.source.kind in MERGED:
            yield from ((memory.id, old) for old in memory.supersedes)
        if memory.superseded_by:
            yield memory.superseded_by, memory.id
    for one in (shelf.proposals[id] for id in among if id in shelf.proposals):
        yield one.id, one.memory
        yield one.became, one.id


def in_order(found: Mapping[Place, set[str]], made_of: Iterable[tuple[str, str]]) -> Iterator[tuple[Place, set[str]]]:
    """Steps in which to take what was found out of each place, so that nothing goes before what was made of it in
    another one: wherever it breaks off, what is left can still be found.
    """
    made: dict[str, set[str]] = {}
    for newer, older in made_of:
        made.setdefault(older, set()).add(newer)
    left = {place: set(ids) for place, ids in found.items() if ids}
    while left:
        before = sum(map(len, left.values()))
        for place in [*left]:
            others = set[str]().union(*(ids for each, ids in left.items() if each != place))
            if ready := left[place] - _needed(left[place], others, made):
                yield place, ready
                left[place] -= ready
                if not left[place]:
                    del left[place]
        if sum(map(len, left.values())) == before:  # a ring, which no log of ours has: any order is as good
            yield from left.items()
            return


def _needed(ids: set[str], others: set[str], made: Mapping[str, set[str]]) -> set[str]:
    """Which of these lead to others, or to what does."""
    found, ahead = set[str](), others
    while ahead := {id for id in ids - found if not ahead.isdisjoint(made.get(id, ()))}:
        found |= ahead
    return found


def _named_first(shelf: Shelf, id: str) -> Sequence[str]:
    """Whom a memory that is about others now was kept as being about: it cannot stay without what names them."""
    changes = shelf.named.get(id)
    return _subjects(changes[min(changes)].before) if changes else ()


def _subjects(fields: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(fields.get("subjects", ()))


def naming(shelf: Shelf, asked: Meant) -> dict[int, MemoryChanged]:
    """What was said at some time of whom memories are about, and names somebody who is meant; by its version."""
    return {
        version: change
        for changes in shelf.named.values()
        for version, change in changes.items()
        if asked(Told(people=frozenset((*_subjects(change.before), *_subjects(change.after)))))
    }


def told_again(shelf: Shelf, changes: Iterable[MemoryChanged]) -> Sequence[Payload]:
    """What keeps memories as they are when these changes are taken out of the log."""
    fields: dict[str, dict[str, Any]] = {}
    for change in changes:
        memory = shelf.memories[change.id]
        fields.setdefault(change.id, {}).update((name, getattr(memory, name)) for name in change.after)
    return [MemoryChanged(id=id, before=same, after=same) for id, same in msgspec.to_builtins(fields).items()]


def brought(payloads: Iterable[Payload]) -> int:
    """How many more memories are live after these moves."""
    moves = [one for one in payloads if isinstance(one, MemoryMoved)]
    return sum(one.status == Status.LIVE for one in moves) - sum(one.was == Status.LIVE for one in moves)


def freed(shelf: Shelf, ids: set[str], reason: str, later: Collection[str] = ()) -> Sequence[Payload]:
    """What had been superseded by these alone, and is not one of them, nor goes later, counts again."""
    going = {*ids, *later}
    return [
        MemoryMoved(id=memory.id, was=memory.status, status=Status.LIVE, reason=reason)
        for memory in shelf
        if memory.status is Status.SUPERSEDED and memory.superseded_by in ids and memory.id not in going
    ]
