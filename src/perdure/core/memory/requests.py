"""What may be asked of memory: to keep something, to change it, to look for it. Wrong requests are refused here."""

from collections.abc import Callable, Collection, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid, TooLarge
from perdure.core.memory.importance import composite
from perdure.core.memory.parts import EVER, TRUST, Memory, MemoryType, Source, Status, Trust
from perdure.core.session.memories import MemoryKept
from perdure.core.session.values import check

MAX_CONTENT: Final = 32_768
"""Characters of one memory."""
MAX_METADATA: Final = 16_384
"""Bytes of its metadata."""
MAX_TOP: Final = 1_000
MAX_QUERY: Final = 32_768
MAX_BATCH: Final = 1_000
MAX_NAME: Final = 1_024
"""Characters of an author, a thread, a subject, or of where it comes from."""
BEGUN: Final = 10**14
"""Microseconds: what is less, and more than none, is in 1973 or before, or else was meant in seconds."""
MAX_NAMES: Final = 100
"""Subjects of one memory, and memories that it supersedes, that a request may name."""
_LEVELS: Final[tuple[Trust, ...]] = ("low", "medium", "high")
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "memory_type": tuple(MemoryType),
    "type_filter": tuple(MemoryType),
    "statuses": tuple(Status),
    "trust": _LEVELS,
    "kind": tuple(TRUST),
}
"""What there is to choose from in those fields of a request that are a choice."""
_PUT_AWAY: Final = frozenset({Status.SUPERSEDED, Status.ARCHIVED})
"""What does not count any more, though it may have been true: who asks for another time finds it."""
_NONE: Final[Mapping[str, int | None]] = MappingProxyType({})


class Keeping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory to be kept. `supersedes` are ids of those that are no longer true because of it."""

    content: str
    memory_type: MemoryType = MemoryType.FACT
    importance: float = 0.5
    metadata: dict[str, Any] = {}
    author: str = ""
    source: Source = Source()
    trust: Trust | None = None
    """Less than its source would have, if need be; never more."""
    subjects: tuple[str, ...] = ()
    thread: str = ""
    valid_from: int | None = None
    valid_to: int | None = None
    supersedes: tuple[str, ...] = ()


class Changing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another way. Other content is another memory, which takes the place of this one."""

    content: str | None = None
    memory_type: MemoryType | None = None
    importance: float | None = None
    metadata: dict[str, Any] | None = None
    subjects: tuple[str, ...] | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    reason: str = ""


class Seeking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is looked for. `at` is when it should be true (now, or `known_at`, if nothing is said), `known_at` when it
    should have been known: what was learned later, also that something is no longer true, is left out. `metadata` must
    match field by field: a value equals, or is among those listed; a list matches when it shares one.
    """

    query: str
    top_k: int = 10
    type_filter: tuple[MemoryType, ...] = ()
    min_importance: float | None = None
    metadata: dict[str, Any] = {}
    at: int | None = None
    known_at: int | None = None
    statuses: tuple[Status, ...] = (Status.LIVE,)
    sessions: tuple[str, ...] = ()
    """Only what came from these sessions."""
    count: bool = True
    """Whether being found counts as use."""


def must_keep(asked: Keeping, names: int | None = MAX_NAMES) -> None:
    """Refuse what is no memory, or names more than so many subjects or others; an export may name any number."""
    _must_be_text(asked.content, "content", MAX_CONTENT)
    _must_be_share(asked.importance, "importance")
    _must_be_small(asked.metadata)
    must_be_span(asked.valid_from, asked.valid_to)
    _must_be_names(asked.subjects, "subjects", names)
    _must_be_names(asked.supersedes, "supersedes", names)
    source = asked.source
    _must_be_names((asked.author, asked.thread), "author, thread")
    _must_be_names((source.session, source.checkpoint, source.uri), "source")
    _must_be_time(source.version, "the source's version")


def must_be_live(memory: Memory) -> None:
    """Refuse to change what does not count now, and say what can be."""
    if memory.status is Status.LIVE:
        return
    told = f"is {memory.status}; change one that is live"
    if memory.status in (Status.ARCHIVED, Status.QUARANTINED):
        told = f"is {memory.status}; restore() brings it back"
    elif memory.superseded_by:
        told = f"was superseded by {memory.superseded_by}; change that one"
    raise Invalid(f"memory {memory.id} {told}", memory=memory.id, status=memory.status.value)


def must_change(asked: Changing) -> None:
    """Refuse what would make no memory of it."""
    if asked.content is not None:
        _must_be_text(asked.content, "content", MAX_CONTENT)
    if asked.importance is not None:
        _must_be_share(asked.importance, "importance")
    if asked.metadata is not None:
        _must_be_small(asked.metadata)
    must_be_span(asked.valid_from, asked.valid_to)
    _must_be_names(asked.subjects or (), "subjects")
    _must_be_names((asked.reason,), "reason")
    if all(getattr(asked, name) is None for name in asked.__struct_fields__ if name != "reason"):
        raise Invalid("nothing is to be changed: name at least one field")


def must_seek(asked: Seeking) -> None:
    """Refuse what is no search."""
    _must_be_text(asked.query, "query", MAX_QUERY)
    if not 1 <= asked.top_k <= MAX_TOP:
        raise Invalid(f"top_k is from 1 to {MAX_TOP}, not {asked.top_k}")
    if asked.min_importance is not None:
        _must_be_share(asked.min_importance, "min_importance")
    _must_be_small(asked.metadata)
    _must_be_time(asked.at, "at")
    _must_be_time(asked.known_at, "known_at")


def kept(asked: Keeping, id: str, *, agent: str, writer: str, flags: tuple[str, ...] = ()) -> MemoryKept:
    """The event that keeps it, but for its vectors."""
    trusted = TRUST[asked.source.kind]
    if asked.trust is not None:
        trusted = lesser(asked.trust, trusted)
    return MemoryKept(
        id=id,
        type=asked.memory_type.value,
        content=asked.content.strip(),
        importance=float(asked.importance),
        metadata=asked.metadata,
        author=asked.author,
        agent=agent,
        writer=writer,
        source=asked.source.kind,
        session=asked.source.session,
        version=asked.source.version,
        checkpoint=asked.source.checkpoint,
        uri=asked.source.uri,
        trust=trusted,
        flags=flags,
        subjects=asked.subjects,
        thread=asked.thread or asked.source.session,
        valid_from=asked.valid_from,
        valid_to=asked.valid_to,
        supersedes=asked.supersedes,
    )


def lesser(one: Trust, other: Trust) -> Trust:
    """The less trusted of two."""
    return min(one, other, key=_LEVELS.index)


def sought(asked: Seeking, now: int, otherwise: Mapping[str, int | None] = _NONE) -> Callable[[Memory], bool]:
    """Which memories may be found. `otherwise` tells of those that were superseded when they would have ended but for
    that, for whom what was known before is asked.
    """
    types, statuses, sessions = frozenset(asked.type_filter), frozenset(asked.statuses), frozenset(asked.sessions)
    past = asked.at is not None or asked.known_at is not None
    so = _so_then(asked, statuses | _PUT_AWAY, otherwise) if past else _so_now(statuses, now)
    wanted = list(asked.metadata.items())
    if not (types or sessions or wanted) and asked.min_importance is None:
        return so  # as most searches are: they look at hundreds of memories

    def fits(memory: Memory) -> bool:
        if not so(memory):
            return False
        if types and memory.type not in types:
            return False
        if sessions and memory.source.session not in sessions:
            return False
        if asked.min_importance is not None and composite(memory, now) < asked.min_importance:
            return False
        return all(_matches(memory.metadata.get(name), value) for name, value in wanted)

    return fits


def _so_now(statuses: Collection[Status], now: int) -> Callable[[Memory], bool]:
    """Which memories of these statuses are so now."""
    ways = [_of_one(status, now) for status in statuses]
    return ways[0] if len(ways) == 1 else lambda memory: any(way(memory) for way in ways)


def _of_one(status: Status, now: int) -> Callable[[Memory], bool]:
    """The same of one status. What gives way to another from a later time on counts as a live one until then."""
    live = status is Status.LIVE

    def is_so(memory: Memory) -> bool:
        since, until = memory.valid_from, memory.valid_to
        if memory.status is not status:
            return live and until is not None and now < until and memory.stays(now)
        return (until is None and (since is None or since <= now)) or memory.holds(now)  # most need not be asked

    return is_so


def _so_then(
    asked: Seeking, statuses: Collection[Status], otherwise: Mapping[str, int | None]
) -> Callable[[Memory], bool]:
    """Which memories of these statuses were so at one time, by what was known at another."""
    known = asked.known_at
    at = known if asked.at is None else asked.at

    def was_so(memory: Memory) -> bool:
        if memory.status not in statuses or (known is not None and memory.recorded_at > known):
            return False
        learned = known is None or memory.superseded_at <= known
        ended = memory.valid_to if learned else otherwise.get(memory.id)
        return at is not None and memory.began <= at and (ended is None or at < ended)

    return was_so


def _matches(has: Any, wanted: Any) -> bool:
    have = has if isinstance(has, list | tuple) else [has]
    want = wanted if isinstance(wanted, list | tuple) else [wanted]
    return any(_same(one, other) for one in have for other in want)


def _same(one: Any, other: Any) -> bool:
    """Equal and of one kind: True is not 1. Words are the same however they are written large or small."""
    if isinstance(one, str) and isinstance(other, str):
        return one.casefold() == other.casefold()
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _must_be_text(text: str, name: str, limit: int) -> None:
    if not text.strip():
        raise Invalid(f"{name} says nothing; give it some words")
    if len(text) > limit:
        raise TooLarge(f"{name} is longer than {limit} characters; keep the gist of it, or a blob", limit=limit)
    _must_be_whole(text, name)


def _must_be_whole(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{name} has half a character in it (a lone surrogate); correct it") from None


def _must_be_share(value: float, name: str) -> None:
    if not isfinite(value) or not 0 <= value <= 1:
        raise Invalid(f"{name} is a number from 0 to 1, not {value}")


def _must_be_small(metadata: dict[str, Any]) -> None:
    try:
        check(metadata)
        size = len(msgspec.json.encode(metadata))
    except (Invalid, TypeError, ValueError, RecursionError, OverflowError):
        raise Invalid("metadata is plain data: texts, numbers, lists, objects") from None
    if size > MAX_METADATA:
        raise TooLarge(f"metadata is larger than {MAX_METADATA} bytes; keep less there", limit=MAX_METADATA)


def _must_be_names(names: tuple[str, ...], what: str, most: int | None = MAX_NAMES) -> None:
    if most is not None and len(names) > most:
        raise TooLarge(f"{what}: {len(names)} are too many; name {most} at most", limit=most)
    for name in names:
        if len(name) > MAX_NAME:
            raise TooLarge(f"{what}: one is longer than {MAX_NAME} characters; shorten it", limit=MAX_NAME)
        if name:
            _must_be_whole(name, what)


def _must_be_time(value: int | None, name: str) -> None:
    if value is not None and not EVER <= value <= -EVER:
        raise Invalid(f"{name} is not within reach: give microseconds since 1970")


def must_be_micros(value: object, name: str, hint: str) -> None:
    """Refuse a time that its writer meant in seconds, or milliseconds: it would be over half a century ago. The hint
    says what to do where it is meant so.
    """
    if type(value) is int and 0 < value < BEGUN:
        what = "milliseconds" if value >= BEGUN // 1_000 else "seconds"
        raise Invalid(f"{name} is in microseconds since 1970; {value} looks like {what}; {hint}", field=name)


def must_be_span(since: int | None, until: int | None) -> None:
    """Refuse a time that ends before it begins."""
    _must_be_time(since, "valid_from")
    _must_be_time(until, "valid_to")
    if since is not None and until is not None and until <= since:
        raise Invalid("valid_to is not after valid_from; turn them round")
