"""One request of a provider's client: read, recorded or managed, and answered in the client's own form."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from perdure.core.errors import Invalid, UnknownModel
from perdure.core.session.ids import SessionId
from perdure.core.talk import parts
from perdure.core.talk.carrying import lost
from perdure.core.talk.content import documents_of
from perdure.core.talk.folding import Folding
from perdure.core.talk.parts import Result, Said
from perdure.core.talk.routes import AUTO, Form
from perdure.core.talk.turning import TurnEvent, TurnRequest
from perdure.core.talk.wire import fields, origin, rest_in, texts
from perdure.edge.http import addressing, replying
from perdure.edge.http.addressing import Wishes
from perdure.edge.http.asgi import Answer, Headers
from perdure.edge.http.asking import Ask
from perdure.edge.http.reaching import must_see_context
from perdure.services.acting import acting
from perdure.services.gateway import Incoming, Recorded
from perdure.services.running import Line
from perdure.services.talking import Begun

EVENTS = b"text/event-stream; charset=utf-8"
_KEPT_THERE = ("previous_response_id", "conversation")
"""Fields of Responses that stand for a history that the provider keeps."""


async def body_of(ask: Ask) -> dict[str, Any]:
    """The body as a document; a prompt may be larger than other bodies."""
    ask.request.limit = ask.node.settings.max_prompt
    return fields(await ask.document(), "body")


async def answered(ask: Ask, form: Form) -> Answer:
    """The answer to a request in this form."""
    headers = ask.request.headers
    wishes = addressing.wishes_of(headers)
    spelled, body = addressing.addressed(headers, await body_of(ask))
    asked = replying.read(form, body)
    if spelled is None and wishes.mode == "manage":
        raise Invalid(f"perdure-mode: manage needs a session; name one in the header {addressing.SESSION}")
    _sayable(ask, asked, body, wishes)
    if spelled is not None:
        state = await addressing.reached(ask, spelled)
        with acting(ask.actor.name, (ask.id, state.origin.created_at)):
            if wishes.mode == "manage":
                return await _managed(ask, form, body, asked, wishes)
            incoming = _incoming(ask, form, body, asked, wishes)
            return await _recorded(ask, incoming, await ask.services.gateway.record(ask.id, incoming, state))
    incoming = _incoming(ask, form, body, asked, wishes)
    return await _recorded(ask, incoming, await ask.services.gateway.account(await addressing.ledger(ask), incoming))


def _sayable(ask: Ask, asked: parts.Ask, body: dict[str, Any], wishes: Wishes) -> None:
    """`Invalid` for what changes the answer and cannot be said to whoever answers first. Of a request to a managed
    session only some fields are taken; the others are nobody's to hear.
    """
    if wishes.mode == "manage":
        if asked.model == AUTO:
            return
        asked = msgspec.structs.replace(asked, extra={home: {} for home in asked.extra})
    else:
        _continues(ask, origin(asked), body)
    wrong = lost(asked, ask.services.desk.calling.route(asked.model).candidates[0].form)
    if wrong is not None:
        raise wrong


def _incoming(ask: Ask, form: Form, body: dict[str, Any], asked: parts.Ask, wishes: Wishes) -> Incoming:
    return Incoming(
        form=form,
        ask=asked,
        body=body,
        headers=addressing.passed(ask.request.headers),
        query=ask.request.scope["query_string"].decode("latin-1"),
        diverging=wishes.diverging,
        continues=_continues(ask, form, body),
        agent=wishes.agent,
        strategy=wishes.strategy,
    )


def _continues(ask: Ask, form: str, body: dict[str, Any]) -> bool:
    """Whether a request goes on from what its provider keeps; `Invalid` when its model's keeps nothing."""
    named = next((name for name in _KEPT_THERE if form == "openai-responses" and body.get(name)), None)
    if named is None:
        return False
    model = body.get("model")
    if any(candidate.form != form for candidate in ask.services.desk.calling.route(model).candidates):
        told = f"who answers for {model!r} knows nothing of a {named}; send the whole history, or perdure-mode: manage"
        raise Invalid(told)
    return True


async def _recorded(ask: Ask, incoming: Incoming, recorded: Recorded) -> Answer:
    """The answer to what the log has already."""
    gateway, form, now = ask.services.gateway, incoming.form, ask.node.tenants.ambient.now()
    headers = [*ask.headers, *_where(ask, recorded)]
    if not incoming.ask.stream:
        answer, raw = await gateway.whole(recorded, incoming)
        return Answer(200, raw or replying.document(form, answer, now), headers=headers)
    piecemeal = await gateway.streamed(recorded, incoming)
    if piecemeal.candidate.form == form:
        return _streamed(headers, replying.relayed(form, piecemeal.frames()))
    pieces = replying.pieces_in(piecemeal.frames())
    return _streamed(headers, replying.rewritten(form, replying.writing(form, incoming.body, now), pieces))


def _where(ask: Ask, recorded: Recorded) -> Headers:
    """What is told of where it was written down."""
    if not recorded.content:
        return []
    found = [(b"perdure-session", recorded.session.encode())]
    loaded = ask.services.sessions.loader.recent(recorded.session)
    if loaded is not None and loaded.state.turns.open is not None:
        found.append((b"perdure-turn", str(loaded.state.turns.open.number).encode()))
    if recorded.branched is not None:
        found.append((b"perdure-branched-from", recorded.branched.encode()))
    return found


def _streamed(headers: Headers, pieces: Any) -> Answer:
    more = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    return Answer(200, b"", EVENTS, [*headers, *more], pieces=pieces)


# ── turns of our own ──


async def _managed(ask: Ask, form: Form, body: dict[str, Any], asked: parts.Ask, wishes: Wishes) -> Answer:
    """The answer of a turn with the session's own context: of the client's history only what is new is taken."""
    must_see_context(ask)
    session, services, now = ask.id, ask.services, ask.node.tenants.ambient.now()
    request = await _request(ask, session, asked, wishes)
    begun = await services.talking.begin(session, request)
    headers = [*ask.headers, (b"perdure-session", session.encode()), (b"perdure-turn", str(begun.turn).encode())]
    told = replying.told(_events(ask, session, begun), services.desk.tooling.knows)
    pieces = await replying.begun(told)
    if asked.stream:
        return _streamed(headers, replying.rewritten(form, replying.writing(form, body, now), pieces))
    folding = Folding()
    async for piece in pieces:
        folding.take(piece)
    return Answer(200, replying.document(form, folding.answer(), now), headers=headers)


async def _request(ask: Ask, session: SessionId, asked: parts.Ask, wishes: Wishes) -> TurnRequest:
    """What the client says beyond what it has heard: results of its tools, or words. Words beside results are said to
    the turn that goes on.
    """
    said = _new(asked.messages)
    results = tuple(block for message in said for block in message.blocks if isinstance(block, Result))
    words = tuple(
        block
        for message in said
        for block in message.blocks
        if not isinstance(block, Result) and rest_in(block) is None
    )
    if results and (spoken := texts(words)):
        await ask.services.talking.steer(session, spoken, agent=wishes.agent)
    return TurnRequest(
        content=documents_of(words) if words and not results else None,
        results=results,
        model=_model(ask, asked.model),
        max_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        stop=asked.stop,
        tools=asked.tools,
        busy="enqueue",
        cache=wishes.cache,
        agent=wishes.agent,
        strategy=wishes.strategy,
        key=ask.key,
    )


def _model(ask: Ask, model: str) -> str:
    """The model, if there is one of that name."""
    try:
        ask.services.desk.calling.route(model)
    except UnknownModel:
        if model != "auto":
            raise
    return model


def _new(messages: tuple[Said, ...]) -> tuple[Said, ...]:
    """What the user's side says after the model's last answer."""
    spoken = [number for number, message in enumerate(messages, 1) if message.role == "assistant"]
    after = messages[spoken[-1] :] if spoken else messages
    return tuple(message for message in after if message.role == "user")


async def _events(ask: Ask, session: SessionId, begun: Begun) -> AsyncIterator[TurnEvent]:
    """What is told of a turn, wherever it runs."""
    running, talking = begun.running, ask.services.talking
    lines: AsyncIterator[Line] = running.follow() if running is not None else talking.follow(session, begun.turn)
    async for line in lines:
        yield line.event
    if running is not None and running.error is not None:
        raise running.error
