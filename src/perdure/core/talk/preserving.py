"""What a compaction preserves beside its summary: exact values by category, each with the version it is from.

The document is plain data. `values` has, by category, the values found in what was summed up, newest first, as
`[value, version]` or `[value, version, name]`; `explicit` has those that somebody asked to preserve; `state` those
found in the session's vars and scratchpads as they stand; `documents` the parts of vars that its configuration names
(`extra["preserve"]`, paths such as `vault.positions`) and what hooks add; `given` a document of somebody else's.

Bounds: of each category the newest `MOST` values stay, and all together as many as fit a room of tokens: while they do
not, the oldest value of the category that takes the most room goes. `left_out` counts what went. What is explicit,
given or a document never goes, but for a document that alone is more than the room: `left_out` names it.
Values whose source was redacted or retracted since go, too.

Invariant: every value that is recognised in what goes away is in the document, byte for byte, unless it is older than
all that its category keeps; `missing` tells.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from perdure.core.session.event import Event
from perdure.core.session.redaction import Redacted
from perdure.core.session.state import State
from perdure.core.session.turns import Retracted, ToolAsked, ToolFinished, TurnInterrupted, said
from perdure.core.session.values import check
from perdure.core.talk.content import blocks_of, json_text
from perdure.core.talk.parts import Call, Result, Text
from perdure.core.talk.profiles import Profile
from perdure.core.talk.recognising import EXPLICIT, Found, Speaker, in_document, in_text
from perdure.core.talk.tokens import estimate

MOST: Final = 100
"""How many values of a category are preserved."""
STATE: Final = "state"
PATHS: Final = "preserve"
"""Under this name a session's configuration has, in `extra`, the paths into vars that are preserved whole."""
Count: TypeAlias = Callable[[str], int]
Ranges: TypeAlias = tuple[tuple[int, int], ...]


class Value(msgspec.Struct, frozen=True, array_like=True):
    """An exact text, the version it was last seen in, and the name it stood under, if it had one."""

    value: str
    version: int
    name: str = ""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is preserved."""

    profile: str
    values: dict[str, tuple[Value, ...]] = {}
    explicit: tuple[Value, ...] = ()
    state: dict[str, tuple[Value, ...]] = {}
    documents: dict[str, Any] = {}
    given: Any = None
    left_out: dict[str, int] = {}


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody adds to it: texts, and documents under names."""

    texts: tuple[str, ...] = ()
    documents: dict[str, Any] = {}


NOTHING: Final = Added()


def preserved(
    profile: Profile,
    events: Iterable[Event],
    before: Any,
    *,
    state: State,
    found: Document | None = None,
    gone: Ranges = (),
    added: Added = NOTHING,
    room: int | None = None,
    count: Count = estimate,
) -> dict[str, Any]:
    """What is preserved of these events, which go away, and of what an earlier compaction preserved. `found` are the
    values in them, if they are known already.
    """
    found = recognised(profile, events, state) if found is None else found
    texts = tuple(Value(text, state.version) for text in added.texts)
    found = msgspec.structs.replace(
        found, explicit=_newest((*texts, *found.explicit)), documents=added.documents | found.documents
    )
    return written(_bounded(_merged(opened(before, profile), found, gone), room, count))


def recognised(profile: Profile, events: Iterable[Event], state: State | None = None) -> Document:
    """Every value in these events, and in the session as it stands, without any bound."""
    values: dict[str, list[Value]] = {}
    for event in events:
        if event.redacted:
            continue
        for item in _found(profile, event):
            values.setdefault(item.category, []).append(Value(item.value, event.version, item.name))
    explicit = _newest(values.pop(EXPLICIT, ()))
    return Document(
        profile=profile.name,
        values={name: _newest(found) for name, found in sorted(values.items())},
        explicit=explicit,
        state={} if state is None else _standing(profile, state),
        documents={} if state is None else _named(state),
    )


def missing(document: Document, after: Any) -> tuple[str, ...]:
    """The values of a document that another one lacks although its bounds would have let them stay."""
    kept = opened(after, None)
    lacking = [item.value for item in document.explicit if item.value not in {other.value for other in kept.explicit}]
    for name, values in document.values.items():
        lacking += _lacking(values, kept.values.get(name, ()), name in kept.left_out)
    for name, values in document.state.items():
        lacking += _lacking(values, kept.state.get(name, ()), STATE in kept.left_out)
    for path, value in document.documents.items():
        same = path in kept.documents and json_text(kept.documents[path]) == json_text(value)
        lacking += [] if same or path in kept.left_out else [path]
    return tuple(lacking)


def _lacking(values: Sequence[Value], kept: Sequence[Value], full: bool) -> list[str]:
    there = {item.value for item in kept}
    oldest = min((item.version for item in kept), default=None) if full else -1
    return [item.value for item in values if item.value not in there and oldest is not None and item.version > oldest]


def withdrawn(events: Iterable[Event]) -> Ranges:
    """The versions that these events redact or retract, as ranges."""
    found: list[tuple[int, int]] = []
    for event in events:
        if event.kind == Redacted.kind and isinstance(event.data, Redacted):
            found += [(version, version) for version in event.data.versions]
        elif event.kind == Retracted.kind and isinstance(event.data, Retracted):
            found.append((event.data.first, event.data.upto))
    return tuple(found)


# ── where values are ──


def _found(profile: Profile, event: Event) -> Iterator[Found]:
    data = event.data
    match data:
        case ToolAsked():
            yield from _in_data(profile, data.arguments)
        case ToolFinished():
            yield from _in_data(profile, data.result)
            yield from in_text(profile, data.error or "")
        case TurnInterrupted():
            yield from in_text(profile, data.text, "assistant")
        case _:
            words = said(data)
            if words is not None:
                yield from _in_content(profile, words.content, "assistant" if words.role == "assistant" else "user")


def _in_content(profile: Profile, content: Any, speaker: Speaker) -> Iterator[Found]:
    for block in blocks_of(content):
        match block:
            case Text():
                yield from in_text(profile, block.text, speaker)
            case Call():
                yield from _in_data(profile, block.raw or block.arguments)
            case Result():
                for inner in block.content:
                    yield from in_text(profile, inner.text) if isinstance(inner, Text) else ()


def _in_data(profile: Profile, data: Any) -> Iterator[Found]:
    """What a tool is given or gives: a text, blocks, or a document."""
    if type(data) is str:
        yield from in_text(profile, data)
    elif data is not None:
        texts = [item["text"] for item in data if _is_text(item)] if isinstance(data, list) else []
        for text in texts:
            yield from in_text(profile, text)
        if not texts:
            yield from in_document(profile, data)


def _is_text(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "text" and type(item.get("text")) is str


def _standing(profile: Profile, state: State) -> dict[str, tuple[Value, ...]]:
    """The values in vars and scratchpads."""
    values: dict[str, list[Value]] = {}
    pads = [item for pad in state.scratchpads.pads.values() for item in in_text(profile, pad.content)]
    for item in (*in_document(profile, state.vars.document), *pads):
        values.setdefault(item.category, []).append(Value(item.value, state.version, item.name))
    return {name: _newest(found) for name, found in sorted(values.items())}


def _named(state: State) -> dict[str, Any]:
    """The parts of vars that the configuration names."""
    paths = state.config.extra.get(PATHS, ())
    found: dict[str, Any] = {}
    for path in [paths] if type(paths) is str else paths if isinstance(paths, list | tuple) else ():
        place: Any = state.vars.document
        for key in str(path).strip("/").replace("/", ".").split("."):
            place = place.get(key) if isinstance(place, dict) else None
        if place is not None:
            found[str(path)] = place
    return found


# ── one document from several ──


def opened(document: Any, profile: Profile | None) -> Document:
    """A preserved document as it was written; what somebody else wrote is `given`."""
    name = "" if profile is None else profile.name
    if document is None:
        return Document(profile=name)
    try:
        return msgspec.convert(document, Document)
    except (msgspec.ValidationError, TypeError):
        return Document(profile=name, given=document)


def written(document: Document) -> dict[str, Any]:
    """A document as plain data, without what is empty."""
    found: dict[str, Any] = {
        "profile": document.profile,
        "explicit": _plain(document.explicit),
        "values": {name: _plain(values) for name, values in document.values.items() if values},
        "state": {name: _plain(values) for name, values in document.state.items() if values},
        "documents": document.documents,
        "given": document.given,
        "left_out": document.left_out,
    }
    return {name: value for name, value in found.items() if value not in ([], {}, None)}


def _plain(values: Iterable[Value]) -> list[list[Any]]:
    return [[item.value, item.version, item.name] if item.name else [item.value, item.version] for item in values]


def _merged(before: Document, found: Document, gone: Ranges) -> Document:
    names = sorted({*before.values, *found.values})
    return Document(
        profile=found.profile,
        values={
            name: _newest((*found.values.get(name, ()), *_left(before.values.get(name, ()), gone))) for name in names
        },
        explicit=_newest((*found.explicit, *_left(before.explicit, gone))),
        state=found.state,
        documents=before.documents | found.documents,
        given=before.given,
        left_out={name: number for name, number in before.left_out.items() if name in names},
    )


def _left(values: Sequence[Value], gone: Ranges) -> Sequence[Value]:
    if not gone:
        return values
    return [item for item in values if not any(first <= item.version <= upto for first, upto in gone)]


def _newest(values: Iterable[Value]) -> tuple[Value, ...]:
    """Each value once, newest first; one that also has a name does not stand there without it."""
    latest: dict[tuple[str, str], Value] = {}
    for item in values:
        known = latest.get((item.value, item.name))
        if known is None or known.version < item.version:
            latest[item.value, item.name] = item
    named = {value: 0 for value, name in latest if name}
    for item in latest.values():
        if item.value in named:
            named[item.value] = max(named[item.value], item.version)
    kept = [
        msgspec.structs.replace(item, version=named[item.value]) if item.name else item
        for item in latest.values()
        if item.name or item.value not in named
    ]
    return tuple(sorted(kept, key=lambda item: -item.version))


# ── bounds ──


def _bounded(document: Document, room: int | None, count: Count) -> Document:
    values = {name: list(found[:MOST]) for name, found in document.values.items()}
    state = {name: list(found[:MOST]) for name, found in document.state.items()}
    documents, left_out = dict(document.documents), dict(document.left_out)
    if room is not None:
        for path in [path for path, value in documents.items() if count(json_text(value)) > room]:
            del documents[path]
            left_out[path] = 1
        fixed = written(msgspec.structs.replace(document, values={}, state={}, documents=documents))
        _trim([*values.values(), *state.values()], room - count(json_text(fixed)), count)
    for name, found in document.values.items():
        if len(found) > len(values[name]):
            left_out[name] = left_out.get(name, 0) + len(found) - len(values[name])
    lost = sum(map(len, document.state.values())) - sum(map(len, state.values()))
    return msgspec.structs.replace(
        document,
        values={name: tuple(kept) for name, kept in values.items()},
        state={name: tuple(kept) for name, kept in state.items()},
        documents=documents,
        left_out=left_out | ({STATE: lost} if lost else {}),
    )


def _trim(groups: Sequence[list[Value]], room: int, count: Count) -> None:
    """Let the oldest values of the largest groups go until all fit the room."""
    sizes = [[count(json_text(item)) + 1 for item in _plain(group)] for group in groups]
    totals = [sum(found) for found in sizes]
    while sum(totals) > max(0, room):
        largest = totals.index(max(totals))
        groups[largest].pop()
        totals[largest] -= sizes[largest].pop()


def added_of(answer: Any) -> Added:
    """What a hook's answer adds: a text, some texts, or documents under names; nothing else does. Raises `Invalid` for
    what cannot be stored.
    """
    found = NOTHING
    if isinstance(answer, str):
        found = Added(texts=(answer,))
    elif isinstance(answer, Mapping):
        found = Added(documents={str(name): value for name, value in answer.items()})
    elif isinstance(answer, Sequence):
        found = Added(texts=tuple(item for item in answer if isinstance(item, str)))
    check([found.texts, found.documents])
    return found
