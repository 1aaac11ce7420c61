"""Turns with models: saying something, following the answer from anywhere, stepping in, answering for tools."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.errors import Invalid
from perdure.core.talk.content import documents_of, result_blocks
from perdure.core.talk.parts import Result, Tool, Usage
from perdure.core.talk.turning import (
    Busy,
    Caching,
    TurnEnded,
    TurnEvent,
    TurnOutcome,
    TurnRequest,
    Waiting,
    place_of,
)
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.granting import must_see_memory
from perdure.edge.http.reaching import must_see_all, must_see_context, must_see_words
from perdure.edge.http.routes import Table
from perdure.edge.http.views import Version

if TYPE_CHECKING:  # loaded with the first turn, so that a server starts quickly
    from perdure.services.running import Line, Running

table = Table()
MEDIA = b"text/event-stream; charset=utf-8"
Text = Annotated[str, Meta(max_length=1000)]
Words = Annotated[str, Meta(min_length=1, max_length=100_000)]
Count = Annotated[int, Meta(ge=1, lt=1 << 31)]
_PROVIDERS = (
    errors.ProviderFailed,
    errors.ProviderRefused,
    errors.PromptTooLong,
    errors.UnknownModel,
    errors.BudgetExhausted,
    errors.TurnRefused,
    errors.Suspended,
    errors.Terminal,
)


class ToolBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A tool that the caller runs."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    description: Annotated[str, Meta(max_length=20_000)] = ""
    input_schema: dict[str, Any] = {}


class ResultBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What came of a tool that the caller ran."""

    id: Text
    content: Any = None
    failed: bool = False


class MessageBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is said to the session's model: a text, or a list of blocks. Without content and results the session goes on
    where it stopped. `busy` says what becomes of a turn that is still running.
    """

    content: Any = None
    results: Annotated[tuple[ResultBody, ...], Meta(max_length=1000)] = ()
    model: Text | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()
    tools: Annotated[tuple[ToolBody, ...], Meta(max_length=512)] = ()
    busy: Busy = "reject"
    cache: Caching = "off"
    agent: Text | None = None
    strategy: Text = ""
    stream: bool = False


class TurnAnswer(msgspec.Struct, kw_only=True):
    """What came of a turn. `status` says whether it is finished, waits for results of `tools`, is parked until a person
    allows a call, was interrupted or rolled back, or is still open. `cost` is in micro-dollars.
    """

    session_id: str
    turn: int
    version: int
    status: str
    content: tuple[Any, ...] = ()
    text: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Usage = Usage()
    cost: int = 0
    estimated: bool = False
    rounds: int = 0
    waiting: tuple[Waiting, ...] = ()
    reason: str = ""
    cached: str = ""


class ContextPart(msgspec.Struct, kw_only=True):
    """A part of a context: how many tokens, and why it is in. What is `cached` stays the same between turns."""

    name: str
    role: str
    tokens: int
    why: str
    cached: bool = False
    messages: int = 0


class ContextView(msgspec.Struct, kw_only=True):
    """What the model would be asked with: its parts in order, the messages themselves, and what is left out."""

    session_id: str
    tokens: int
    over: int
    parts: tuple[ContextPart, ...]
    left_out: tuple[Any, ...]
    system: tuple[Any, ...]
    messages: tuple[Any, ...]
    tools: tuple[str, ...]


class ContextQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For which model, and with what said next."""

    model: Text | None = None
    content: Annotated[str, Meta(max_length=20_000)] | None = None
    max_tokens: Count | None = None


class WordsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Words of a person's."""

    text: Words
    agent: Text | None = None


class InterruptBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why the turn is stopped."""

    reason: Text = "interrupted"


class Interrupted(msgspec.Struct, kw_only=True):
    """Whether there was a turn to stop."""

    session_id: str
    interrupted: bool


class PlaceQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """From which offset on; `Last-Event-ID` comes first."""

    after: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0


@table.add(
    "POST",
    "/v1/sessions/{session_id}/messages",
    (Verb.WRITE, Thing.TURNS),
    body=MessageBody,
    answer=TurnAnswer,
    keyed=True,
    errors=(*_PROVIDERS, errors.KeyReused, errors.KeyInFlight),
    example={"content": "What did we decide about the budget?"},
)
async def send_message(ask: Ask) -> Answer:
    """Say something to the session's model; with `stream`, the answer comes as server-sent events."""
    body: MessageBody = await ask.body()
    must_see_context(ask)
    request = _request(body, ask.key)
    talking = ask.services.talking
    if not body.stream:
        return told(ask, await talking.run(ask.id, request))
    begun = await talking.begin(ask.id, request)
    return _streamed(ask, begun.turn, begun.running, 0)


@table.add(
    "GET",
    "/v1/sessions/{session_id}/turns/{turn}",
    (Verb.READ, Thing.TURNS),
    answer=TurnAnswer,
)
async def read_turn(ask: Ask) -> Answer:
    """What came of a turn, as far as it is."""
    must_see_words(ask)
    return told(ask, await ask.services.talking.outcome(ask.id, number_of(ask)))


@table.add(
    "GET",
    "/v1/sessions/{session_id}/turns/{turn}/stream",
    (Verb.READ, Thing.TURNS),
    query=PlaceQuery,
    answer=bytes,
    media="text/event-stream",
)
async def follow_turn(ask: Ask) -> Answer:
    """A turn's stream from any place on, on any node; the id of an event is its turn and the offset behind it."""
    must_see_words(ask)
    query: PlaceQuery = ask.query()
    number, after = number_of(ask), query.after
    told = ask.request.headers.get("last-event-id")
    if told is not None:
        turn, after = place_of(told)
        if turn != number:
            raise Invalid(f"Last-Event-ID is of turn {turn}, and this is turn {number}; follow that one")
    await ask.services.talking.outcome(ask.id, number)
    return _streamed(ask, number, None, after)


@table.add(
    "GET",
    "/v1/sessions/{session_id}/context",
    (Verb.READ, Thing.TURNS),
    query=ContextQuery,
    answer=ContextView,
    errors=(errors.UnknownModel,),
)
async def read_context(ask: Ask) -> Answer:
    """What the model would be asked with now, part by part, and why each is in."""
    must_see_all(ask)
    await must_see_memory(ask)
    query: ContextQuery = ask.query()
    request = TurnRequest(content=query.content, model=query.model, max_tokens=query.max_tokens)
    context = await ask.services.talking.context(ask.id, request)
    view = ContextView(
        session_id=ask.id,
        tokens=context.tokens,
        over=context.over,
        parts=tuple(ContextPart(**msgspec.structs.asdict(portion)) for portion in context.portions),
        left_out=tuple(msgspec.structs.asdict(item) for item in context.left_out),
        system=tuple(documents_of(context.system)),
        messages=tuple({"role": said.role, "content": documents_of(said.blocks)} for said in context.messages),
        tools=tuple(tool.name for tool in context.tools),
    )
    return ask.answer(view)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/steer",
    (Verb.WRITE, Thing.TURNS),
    body=WordsBody,
    answer=Version,
    keyed=True,
    errors=(errors.Suspended, errors.Terminal, errors.KeyReused),
    example={"text": "Stop looking for flights; take the train."},
)
async def steer(ask: Ask) -> Answer:
    """Change what the session is doing right now: what runs is cut short and goes on with these words."""
    body: WordsBody = await ask.body()
    version = await ask.services.talking.steer(ask.id, body.text, agent=body.agent, key=ask.key)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/follow-up",
    (Verb.WRITE, Thing.TURNS),
    body=WordsBody,
    answer=Version,
    keyed=True,
    errors=(errors.Suspended, errors.Terminal, errors.KeyReused),
    example={"text": "Look at the refund rules next time."},
)
async def follow_up(ask: Ask) -> Answer:
    """Have something considered in the next turn."""
    body: WordsBody = await ask.body()
    version = await ask.services.talking.follow_up(ask.id, body.text, agent=body.agent, key=ask.key)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/interrupt",
    (Verb.WRITE, Thing.TURNS),
    body=InterruptBody,
    optional=True,
    answer=Interrupted,
    errors=(errors.Terminal,),
)
async def interrupt(ask: Ask) -> Answer:
    """Stop the turn in flight; what it has said stays."""
    body: InterruptBody = await ask.body()
    found = await ask.services.talking.interrupt(ask.id, body.reason)
    return ask.answer(Interrupted(session_id=ask.id, interrupted=found))


def number_of(ask: Ask) -> int:
    """The turn that a path names, or `Invalid`."""
    told = ask.params["turn"]
    if not (told.isascii() and told.isdigit() and len(told) < 12):
        raise Invalid("a turn goes by its number; GET …/turns lists them")
    return int(told)


def _request(body: MessageBody, key: str | None) -> TurnRequest:
    results = tuple(
        Result(call=item.id, content=result_blocks(item.content), failed=item.failed) for item in body.results
    )
    tools = tuple(Tool(name=tool.name, description=tool.description, schema=tool.input_schema) for tool in body.tools)
    return TurnRequest(
        content=body.content,
        results=results,
        model=body.model,
        max_tokens=body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        stop=body.stop,
        tools=tools,
        busy=body.busy,
        cache=body.cache,
        agent=body.agent,
        strategy=body.strategy,
        key=key,
    )


def view_of(outcome: TurnOutcome) -> TurnAnswer:
    """A turn's outcome as HTTP tells it."""
    return TurnAnswer(
        session_id=outcome.session,
        turn=outcome.turn,
        version=outcome.version,
        status=outcome.status,
        content=tuple(documents_of(outcome.content)),
        text=outcome.text,
        model=outcome.model,
        stop_reason=outcome.stop,
        usage=outcome.usage,
        cost=outcome.cost,
        estimated=outcome.estimated,
        rounds=outcome.rounds,
        waiting=outcome.waiting,
        reason=outcome.reason,
        cached=outcome.cached,
    )


def told(ask: Ask, outcome: TurnOutcome) -> Answer:
    """A turn's outcome as an answer."""
    return ask.answer(view_of(outcome), version=outcome.version)


def _streamed(ask: Ask, turn: int, running: "Running | None", after: int) -> Answer:
    """The turn's lines as server-sent events."""
    lines = running.follow(after) if running is not None else ask.services.talking.follow(ask.id, turn, after)
    headers = [*ask.headers, (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    headers.append((b"perdure-turn", str(turn).encode()))
    return Answer(200, b"", MEDIA, headers, pieces=_framed(turn, lines))


async def _framed(turn: int, lines: "AsyncIterator[Line]") -> AsyncGenerator[bytes, None]:
    async for line in lines:
        kind: Literal["turn_began", "piece", "tool", "turn_ended", "turn_broke"] = line.event.__struct_config__.tag  # type: ignore[assignment]
        yield b"id: %d:%d\nevent: %b\ndata: %b\n" % (turn, line.place, kind.encode(), data_of(line.event, line.data))


def data_of(event: TurnEvent, line: bytes) -> bytes:
    """A line as HTTP tells it: what came of a turn in the form that an answer has which is not streamed."""
    if not isinstance(event, TurnEnded):
        return line
    return msgspec.json.encode({"event": "turn_ended", "outcome": view_of(event.outcome)}) + b"\n"
