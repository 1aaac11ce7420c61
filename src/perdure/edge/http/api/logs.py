"""What happened in a session: events appended and read, turns, the conversation item by item."""

from bisect import bisect_right
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.fields import spelled
from perdure.core.access.roles import Action, Thing, Verb
from perdure.core.access.views import pad_path
from perdure.core.errors import Invalid, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session.conversation import Item
from perdure.core.session.decide import drafts_of
from perdure.core.session.event import Draft
from perdure.core.session.kinds import from_document
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.reaching import must, must_see_words, must_write, other, pinned, written_to_session
from perdure.edge.http.routes import Table
from perdure.edge.http.views import Events, Turns, event_view, turn_view
from perdure.services.sessions import Outcome

table = Table()
PAGE = 1000
WRITE_STATE = Action(Verb.WRITE, Thing.STATE)
Text = Annotated[str, Meta(max_length=1000)]
Versions = Annotated[int, Meta(ge=0, lt=1 << 62)]


class EventBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An event to append: its kind, and what happened."""

    kind: str
    data: dict[str, Any] = {}
    agent: Text | None = None
    child_agent: Text | None = None


class RetractBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Versions to take out of the conversation; the log keeps them."""

    first: int
    upto: int | None = None
    reason: Text = ""


class AppendBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Events to make durable together. With `arrange`, turns are opened and closed around what was said elsewhere;
    the other fields belong to that.
    """

    events: Annotated[tuple[EventBody, ...], Meta(max_length=10_000)]
    arrange: bool = False
    more: bool = False
    title: Text | None = None
    metadata: dict[str, Any] | None = None
    replacing: int | None = None
    vars: dict[str, Any] | None = None
    others: dict[str, dict[str, Any]] | None = None
    """Fields of other sessions' vars, by their ids, that change in the same append."""
    retracting: Annotated[tuple[RetractBody, ...], Meta(max_length=1000)] = ()
    digest: Annotated[str, Meta(min_length=64, max_length=64)] | None = None
    """That of the latest event that was seen, in place of If-Match."""
    echo: bool = False
    """Answer with the events that were written."""


class Appended(msgspec.Struct, kw_only=True):
    """The version of the last event, the turn the first one belongs to, and the events if they were asked for."""

    session_id: str
    version: int
    turn: int | None = None
    events: tuple[Any, ...] | None = None


class EventsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which part of the log."""

    after: Versions = 0
    upto: Versions | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE)] = 100
    last: Annotated[int, Meta(ge=1, le=PAGE)] | None = None


class TurnsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many counted from the end, or all; of those the ones after a version, so many at a time."""

    last: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    after: Versions = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE)] = PAGE


class Conversation(msgspec.Struct, kw_only=True):
    """What was said and done, item by item. `after` is where the next page begins; null on the last one."""

    items: Any
    after: int | None = None


class _Placed(Protocol):
    """A turn, or an item of a conversation."""

    @property
    def first(self) -> int:
        """The version it begins at."""
        ...


P = TypeVar("P", bound=_Placed)


def _page(found: Sequence[P], query: TurnsQuery) -> tuple[Sequence[P], int | None]:
    """A page of what was found, and after which version the next one begins."""
    rest = found[bisect_right(found, query.after, key=lambda item: item.first) :]
    page = rest[: query.limit]
    return page, page[-1].first if len(rest) > len(page) else None


class RedactBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Events whose content is to be destroyed."""

    versions: Annotated[tuple[int, ...], Meta(min_length=1, max_length=10_000)]
    reason: Text = ""


class PruneBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Up to which version the log is to be dropped, for good."""

    upto: int


class Pruned(msgspec.Struct):
    """The version really pruned to."""

    session_id: str
    upto: int


def drafts(events: tuple[EventBody, ...]) -> list[Draft]:
    """The events as the library wants them."""
    return [
        Draft(from_document(item.kind, item.data), agent=item.agent, child_agent=item.child_agent) for item in events
    ]


@table.add(
    "POST",
    "/v1/sessions/{session_id}/events",
    (Verb.WRITE, Thing.TURNS),
    body=AppendBody,
    answer=Appended,
    status=HTTPStatus.CREATED,
    keyed=True,
    guarded=True,
    appends=True,
    errors=(
        errors.UnknownKind,
        errors.VersionConflict,
        errors.KeyReused,
        errors.KeyInFlight,
        errors.TurnRefused,
        errors.Terminal,
        errors.Suspended,
        errors.BudgetExhausted,
        errors.DiskFull,
    ),
    example={"events": [{"kind": "message", "data": {"role": "user", "content": "Find me a flight"}}], "arrange": True},
)
async def append_events(ask: Ask) -> Answer:
    """Append events, all or none; acknowledged once the disk has them."""
    body: AppendBody = await ask.body()
    items = drafts_of(drafts(body.events))
    if pads := {pad_path(event.agent) for event in body.events if event.kind == ScratchpadWritten.kind}:
        await must(ask, Thing.SCRATCHPAD, tuple(pads))
    if body.arrange:
        outcome = await _arranged(ask, body, items)
    else:
        _must_be_strict(body)
        outcome = await ask.services.sessions.handle(
            ask.id, do.Append(drafts=items), expected=_seen(ask, body), key=ask.key
        )
    events = outcome.events
    if outcome.repeated:  # a retry is told what the first call was
        events = tuple(await ask.session.events(outcome.first - 1, outcome.version))
    view = Appended(session_id=ask.id, version=outcome.version, turn=events[0].turn if events else None)
    if body.echo:
        view.events = tuple(event_view(event, ask.voice, ask.hidden) for event in events)
    return ask.answer(view, version=outcome.version)


async def _arranged(ask: Ask, body: AppendBody, items: tuple[Draft, ...]) -> Outcome:
    """Write what was said elsewhere, and what else of the session changes with it, if whoever asks may change that."""
    others = [(await other(ask, name, WRITE_STATE), vars) for name, vars in (body.others or {}).items()]
    for found, fields in others:
        if ask.policy.fields:  # all that is named, since those sessions may change until this is written
            await must(ask, Thing.STATE, _named(fields), found.id)
    command = do.Record(
        drafts=items,
        more=body.more,
        replacing=body.replacing,
        title=body.title,
        metadata=body.metadata,
        vars=body.vars or {},
        retracted=tuple(_retracted(item) for item in body.retracting),
    )
    seen = _seen(ask, body)
    if ask.policy.fields and body.replacing is None and not body.retracting:
        before = await ask.services.sessions.repeated(ask.id, ask.key, command)
        if before is not None:  # what was done already is not checked against what is there now
            return before
    while True:
        checked = await _checked(ask, body, seen)
        expected = seen if checked is None else checked
        try:
            return await ask.services.recording.record(
                ask.id, command, expected=expected, key=ask.key, others={found.id: vars for found, vars in others}
            )
        except VersionConflict:
            if checked is None or seen is not None:
                raise


async def _checked(ask: Ask, body: AppendBody, seen: int | bytes | None) -> int | None:
    """The version at which whoever asks may change what an append changes besides; None when that is any."""
    if body.title is None and body.metadata is None and not body.vars:
        return None
    if not ask.policy.fields:
        if body.title is not None or body.metadata is not None:
            await must(ask, Thing.SESSION)
        if body.vars:
            await must(ask, Thing.STATE)
        return None
    state = (await pinned(ask, seen)).state
    if body.title is not None or body.metadata is not None:
        named = written_to_session(ask, state, title=body.title, metadata=body.metadata)
        await must(ask, Thing.SESSION, named)
    if body.vars:
        document = state.vars.document
        await must_write(ask, document, {**document, **body.vars}, _named(body.vars))
    return state.version


def _named(fields: dict[str, Any]) -> tuple[str, ...]:
    return tuple(spelled(("vars", name)) for name in fields)


def _retracted(body: RetractBody) -> do.Retract:
    if body.upto is None:
        raise Invalid("what is retracted along with an append has an end; give upto")
    return do.Retract(first=body.first, upto=body.upto, reason=body.reason)


def _seen(ask: Ask, body: AppendBody) -> int | bytes | None:
    """What the client saw last: a digest, or a version."""
    if body.digest is None:
        return ask.seen
    if set(body.digest) - set("0123456789abcdef"):
        raise Invalid("a digest is 64 hexadecimal digits, as events have it")
    return bytes.fromhex(body.digest)


def _must_be_strict(body: AppendBody) -> None:
    given = (body.title, body.metadata, body.replacing, body.vars, body.others)
    if body.more or body.retracting or any(item is not None for item in given):
        told = (
            "more, title, metadata, replacing, retracting, vars and others go with arrange; set it, or leave them out"
        )
        raise Invalid(told)


@table.add(
    "GET", "/v1/sessions/{session_id}/events", (Verb.READ, Thing.LOG), query=EventsQuery, answer=Events, live=True
)
async def read_events(ask: Ask) -> Answer:
    """A page of the log, proven; as `text/event-stream`, the log and then what follows, live."""
    if "text/event-stream" in ask.request.headers.get("accept", ""):
        followed: Answer = await ask.node.hub.follow(ask)
        return followed
    query: EventsQuery = ask.query()
    session = ask.session
    head = await session.version()
    first, upto = query.after, min(head, query.upto if query.upto is not None else head)
    if query.last is not None:
        first = max(first, upto - query.last)
    end = min(upto, first + query.limit if query.last is None else upto)
    found = await session.events(first, end) if end > first else []
    items = tuple(event_view(event, ask.voice, ask.hidden) for event in found)
    return ask.answer(Events(items=items, version=head, after=end if end < upto else None), version=head)


@table.add("GET", "/v1/sessions/{session_id}/turns", (Verb.READ, Thing.TURNS), query=TurnsQuery, answer=Turns)
async def read_turns(ask: Ask) -> Answer:
    """A page of turns, oldest first; with `last`, of the last ones. No tool call is cut from its result."""
    query: TurnsQuery = ask.query()
    session = ask.session
    turns, after = _page(await session.turns(query.last), query)
    items = tuple(turn_view(turn, ask.voice, ask.hidden) for turn in turns)
    version = await session.version()
    return ask.answer(Turns(items=items, version=version, after=after), version=version)


@table.add(
    "GET", "/v1/sessions/{session_id}/conversation", (Verb.READ, Thing.TURNS), query=TurnsQuery, answer=Conversation
)
async def read_conversation(ask: Ask) -> Answer:
    """A page of what was said and done, item by item as it was handed over, oldest first."""
    query: TurnsQuery = ask.query()
    must_see_words(ask)
    found, after = _page(await ask.session.conversation(query.last), query)
    return ask.answer(Conversation(items=ask.voice.content([_item(item) for item in found]), after=after))


def _item(item: Item) -> dict[str, Any]:
    facts = msgspec.structs.asdict(item)
    payloads = [{"kind": payload.kind, "data": msgspec.structs.asdict(payload)} for payload in item.payloads]
    return facts | {"payloads": payloads}


@table.add(
    "POST",
    "/v1/sessions/{session_id}/retract",
    (Verb.WRITE, Thing.TURNS),
    body=RetractBody,
    answer=Appended,
    keyed=True,
    guarded=True,
    errors=(errors.VersionConflict, errors.Terminal),
    example={"first": 3, "upto": 5, "reason": "said by mistake"},
)
async def retract(ask: Ask) -> Answer:
    """Take what these versions say out of the conversation; the log keeps it."""
    body: RetractBody = await ask.body()
    version = await ask.session.retract(body.first, body.upto, reason=body.reason, expected=ask.seen, key=ask.key)
    return ask.answer(Appended(session_id=ask.id, version=version), version=version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/redact",
    (Verb.DELETE, Thing.LOG),
    body=RedactBody,
    answer=Appended,
    sensitive=True,
    errors=(errors.RedactionRefused,),
    example={"versions": [4], "reason": "asked for by the customer"},
)
async def redact(ask: Ask) -> Answer:
    """Destroy the content of events; the chain stays whole."""
    body: RedactBody = await ask.body()
    version = await ask.session.redact(body.versions, body.reason)
    return ask.answer(Appended(session_id=ask.id, version=version), version=version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/prune",
    (Verb.DELETE, Thing.LOG),
    body=PruneBody,
    answer=Pruned,
    sensitive=True,
    errors=(errors.PruneRefused,),
    example={"upto": 100},
)
async def prune(ask: Ask) -> Answer:
    """Drop the log up to a version, for good."""
    body: PruneBody = await ask.body()
    return ask.answer(Pruned(ask.id, await ask.session.prune(body.upto)))
