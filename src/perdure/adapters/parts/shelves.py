"""Items by their keys, kept as notes in one session's log: what a log of puts, deletes and touches comes to. Pure.

Invariants: items stand in the order in which the log last stated them, so the first one says how much of the log may
go; stating an item again (`put` of what is there, in an append that expects nobody wrote meanwhile) changes nothing
but its place. So a log is tidied by stating what stands in its old part again and pruning that part.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile, zip_longest
from threading import Lock
from typing import Any, Final

import msgspec

from perdure import declare, errors
from perdure.adapters.parts.ranking import Document
from perdure.adapters.parts.sound import sound
from perdure.events import Event, Noted

BY: Final = "langgraph-store"
PUT, DELETE, TOUCH, TIDIED = "put", "delete", "touch", "tidied"
OVERHEAD: Final = 64
"""What a note weighs besides its data."""
SLACK: Final = 64 * 1024
"""So much may be dead before it is worth a thought."""
MAX_NOTES: Final = 1000
MAX_WEIGHT: Final = 8 << 20
SECOND: Final = 1_000_000
LARGEST: Final = (16 << 20) - (64 << 10)
MOST: Final = 999_000
DEEPEST: Final = 63
"""What a note takes, less what it says besides the value."""
_BOXES: Final = (dict, list, tuple, set, frozenset)
_OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_encoder = msgspec.msgpack.Encoder()
_plain = declare(dict)


class Kept(msgspec.Struct, kw_only=True):
    """An item. Times are microseconds; `index` says what of it is searched, as LangGraph spells it."""

    key: str
    value: dict[str, Any]
    created: int
    updated: int
    ttl: int | None = None
    expires: int | None = None
    index: Any = None
    vectors: tuple[bytes, ...] = ()
    version: int = 0
    weight: int = 0
    document: Document | None = None
    """Its words, once somebody asked for them."""

    def expired(self, now: int) -> bool:
        """Whether its time is over."""
        return self.expires is not None and self.expires <= now

    def touched(self, now: int) -> int | None:
        """When it expires if it is used now; None when that is hardly later than what is noted already."""
        if self.ttl is None or self.expires is None:
            return None
        later = now + self.ttl
        return later if later - self.expires > min(SECOND, self.ttl // 100) else None

    def same(self, updated: int, ttl: int | None) -> bool:
        """Whether it is still the item that was put then, to live so long; stating it again does not change that."""
        return self.updated == updated and self.ttl == ttl

    def note(self) -> Noted:
        """What states it in the log."""
        data: dict[str, Any] = {
            "key": self.key,
            "value": self.value,
            "created": self.created,
            "updated": self.updated,
        }
        if self.ttl is not None:
            data |= {"ttl": self.ttl, "expires": self.expires}
        if self.index is not None:
            data["index"] = self.index
        if self.vectors:
            data["vectors"] = list(self.vectors)
        return Noted(by=BY, about=PUT, data=data)


def deleted(keys: Iterable[str]) -> Noted:
    """What takes items away."""
    return Noted(by=BY, about=DELETE, data={"keys": list(keys)})


def touched(items: Iterable[Kept]) -> Noted:
    """What lets items live longer, and which ones: an item that is put anew meanwhile lives as it was put."""
    found = list(items)
    data = {
        "expires": [[kept.key, kept.expires] for kept in found],
        "put": [[kept.updated, kept.ttl] for kept in found],
    }
    return Noted(by=BY, about=TOUCH, data=data)


def tidied(upto: int) -> Noted:
    """What says that nothing up to a version counts any more."""
    return Noted(by=BY, about=TIDIED, data={"upto": upto})


def weight_of(note: Noted) -> int:
    """About how many bytes a note takes."""
    return OVERHEAD + len(_encoder.encode(note.data))


def admit_item(key: str, value: Mapping[str, Any]) -> None:
    """Refuse what no note can hold, before anything is written."""
    with sound(f"an item's key, {key!a}"):
        str(key).encode()
    document = dict(value)
    try:
        _plain.dump(document)
    except (errors.TooLarge, errors.TooDeep):  # for a document; a note takes more
        _admit_large(document)


def paths(fields: Any) -> list[str]:
    """The paths to search in, or `Invalid`; the whole item where none are given."""
    if fields is None:
        return ["$"]
    if not isinstance(fields, list | tuple) or not all(isinstance(path, str) for path in fields):
        raise errors.Invalid("name the fields to index as a list of paths, like ['text', 'notes[*].title']")
    return list(fields)


def _admit_large(value: dict[str, Any]) -> None:
    try:
        size = len(_encoder.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise errors.Invalid(f"an item's value is plain data, as JSON has it, and this is not: {error}") from error
    depth, parts = 0, 0
    level: list[Any] = [value]
    while level:
        depth += 1
        parts += sum(map(len, level))
        inside = (part for box in level for part in (box.values() if type(box) is dict else box))
        level = [part for part in inside if isinstance(part, _BOXES)]
    if depth > DEEPEST:
        raise errors.TooDeep(
            f"an item's value is nested {depth} deep, the limit is {DEEPEST}; nest less", limit=DEEPEST
        )
    if size > LARGEST or parts > MOST:
        raise errors.TooLarge(
            f"an item's value has {size} bytes in {parts} parts, the limits are {LARGEST} and {MOST}; keep it as a "
            "blob, and its name in the item",
            limit=LARGEST,
        )


class Shelf:
    """The items of one session. Whoever looks while others fold sees it before an event or after it, never between."""

    def __init__(self) -> None:
        self._items: dict[str, Kept] = {}
        self._lock = Lock()
        self.live = 0
        self.dead = 0
        self.tidied = 0
        self._gone: list[tuple[int, int]] = []

    def fold(self, events: Sequence[Event]) -> None:
        """Take in the next events of the log. What is not ours, or was redacted, says nothing."""
        for event in events:
            note = event.data
            if isinstance(note, Noted) and note.by == BY and type(note.data) is dict:
                with self._lock:
                    self._take(note, note.data, event.version)

    def _take(self, note: Noted, data: dict[str, Any], version: int) -> None:
        weight = weight_of(note)
        match note.about:
            case "put":
                kept = Kept(
                    key=data["key"],
                    value=data["value"],
                    created=data["created"],
                    updated=data["updated"],
                    ttl=data.get("ttl"),
                    expires=data.get("expires"),
                    index=data.get("index"),
                    vectors=tuple(data.get("vectors", ())),
                    version=version,
                    weight=weight,
                )
                self._drop(kept.key)
                self._items[kept.key] = kept
                self.live += weight
            case "delete":
                self._bury(version, weight)
                for key in data["keys"]:
                    self._drop(key)
            case "touch":
                self._bury(version, weight)
                for (key, expires), put in zip_longest(data["expires"], data.get("put", ())):
                    self._prolong(key, expires, put)
            case "tidied":
                self.tidied = data["upto"]
                self._gone = [(place, size) for place, size in self._gone if place > self.tidied]
                self.dead = sum(size for _, size in self._gone)

    def _prolong(self, key: str, expires: int, put: Sequence[Any] | None) -> None:
        """Let an item live longer, never shorter, if it is the one that was meant; in old logs nobody said which."""
        kept = self._items.get(key)
        if kept is None or kept.expires is None or not (put is None or kept.same(*put)):
            return
        self._items[key] = msgspec.structs.replace(kept, expires=max(kept.expires, expires))

    def _drop(self, key: str) -> None:
        gone = self._items.pop(key, None)
        if gone is not None:
            self.live -= gone.weight
            self._bury(gone.version, gone.weight)

    def _bury(self, version: int, weight: int) -> None:
        self.dead += weight
        self._gone.append((version, weight))

    def get(self, key: str) -> Kept | None:
        """The item with a key, if there is one."""
        with self._lock:
            return self._items.get(key)

    def held(self, now: int | None = None) -> list[Kept]:
        """The items, those whose time is over left out if a time is given."""
        with self._lock:
            items = list(self._items.values())
        return items if now is None else [item for item in items if not item.expired(now)]

    def due(self, slack: int = SLACK) -> bool:
        """Whether more than half of the log is dead, and it is worth the work."""
        return self.dead > self.live + slack

    def stated(self, upto: int) -> list[Kept]:
        """The items that the log states in its part up to a version."""
        return list(takewhile(lambda item: item.version <= upto, self.held()))


def portions(notes: Iterable[Noted]) -> Iterator[list[Noted]]:
    """Notes in their order, as many at a time as one append takes."""
    portion: list[Noted] = []
    size = 0
    for note in notes:
        weight = weight_of(note)
        if portion and (len(portion) >= MAX_NOTES or size + weight > MAX_WEIGHT):
            yield portion
            portion, size = [], 0
        portion.append(note)
        size += weight
    if portion:
        yield portion


def admit(condition: Any) -> None:
    """Refuse a filter with an operator nobody knows, before any item is looked at."""
    match condition:
        case dict():
            operators = [name for name in condition if isinstance(name, str) and name.startswith("$")]
            unknown = [name for name in condition if name not in _OPERATORS] if operators else []
            if unknown:
                raise errors.Invalid(
                    f"a filter knows no operator {unknown[0]!r:.80}; use {', '.join(_OPERATORS)}", operator=unknown[0]
                )
            for part in () if operators else condition.values():
                admit(part)
        case list() | tuple():
            for part in condition:
                admit(part)
        case _:
            return


def passes(value: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Whether an item's value fulfils every condition of an admitted filter."""
    return all(_fits(_at(value, name), wanted) for name, wanted in conditions.items())


def _at(value: Mapping[str, Any], name: Any) -> Any:
    """The field of that name; `a.b` is also the field b of the field a. Nothing is called by what is no text."""
    if not isinstance(name, str) or name in value or "." not in name:
        return value.get(name)
    found: Any = value
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _fits(found: Any, wanted: Any) -> bool:
    match wanted:
        case dict():
            if any(isinstance(name, str) and name.startswith("$") for name in wanted):
                return all(_compares(found, operator, bound) for operator, bound in wanted.items())
            return isinstance(found, dict) and all(_fits(found.get(name), part) for name, part in wanted.items())
        case list() | tuple():
            return (
                isinstance(found, list | tuple)
                and len(found) == len(wanted)
                and all(_fits(one, other) for one, other in zip(found, wanted, strict=True))
            )
        case _:
            return bool(found == wanted)


def _compares(found: Any, operator: str, bound: Any) -> bool:
    """Numbers compare as numbers, also when they are spelled as text; other texts as texts; nothing else is ordered."""
    if operator in ("$eq", "$ne"):
        return bool((found == bound) == (operator == "$eq"))
    one, other = _number(found), _number(bound)
    if one is None or other is None:
        if not (isinstance(found, str) and isinstance(bound, str)):
            return False
        one, other = found, bound
    if operator == "$gt":
        return bool(one > other)
    if operator == "$gte":
        return bool(one >= other)
    if operator == "$lt":
        return bool(one < other)
    return bool(one <= other)


def _number(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def copied(value: Any) -> Any:
    """A value whose lists and dicts are the caller's own to change."""
    if type(value) is dict:
        return {name: copied(part) for name, part in value.items()}
    return [copied(part) for part in value] if type(value) is list else value


def strings(value: Any) -> Iterator[str]:
    """Every text inside a value; the names of fields are structure, not text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from strings(part)
