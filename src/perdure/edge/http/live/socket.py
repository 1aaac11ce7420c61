"""The socket of a surface: it sees the session's events in order and who else is there, and writes.

A message that makes no sense is answered, no more; one who says too much is read later; one who takes nothing is cut
off.
"""

import asyncio
import logging
from collections import deque
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from perdure.core.access.rate import Limit, admit
from perdure.core.access.roles import Reason
from perdure.core.errors import Invalid, NotFound, PerdureError, TooLarge
from perdure.edge.http import problems
from perdure.edge.http.api.live import AttachQuery
from perdure.edge.http.api.logs import table as logs
from perdure.edge.http.asgi import Answer, Receive, Request, Send
from perdure.edge.http.asking import Ask
from perdure.edge.http.entrance import REFUSALS
from perdure.edge.http.live import messages as say
from perdure.edge.http.live.channel import Channel, Flavour, Who
from perdure.edge.http.live.crowd import Crowd
from perdure.edge.http.live.ending import ACCESS, ERASED, LEAVING, PROBLEM, End
from perdure.edge.http.live.passes import Pass
from perdure.edge.http.live.surface import Surface
from perdure.services.acting import acting

log: Final = logging.getLogger("perdure.live")
CODES: Final = {ERASED: 4004, ACCESS: 4003, LEAVING: 1001}
"""How a socket is closed; docs/LIVE.md explains them."""
BROKEN: Final = 1011
DONE: Final = 1000
MESSAGES: Final = Limit(20_000, 100)
"""A surface says 50 things a second in the long run; more are read later."""
ANSWERS: Final = 64
"""Answers that wait to be sent before another message is read."""
APPEND: Final = next(endpoint for endpoint in logs.endpoints if endpoint.name == "append_events")


async def let_write(ask: Ask, let: Pass) -> None:
    """Let what a surface writes in as any other request, but for who it is: that is known."""
    entrance, endpoint, target = ask.node.entrance, ask.endpoint, ask.params["session_id"]
    ask.actor, ask.policy = let.ask.actor, let.ask.policy
    try:
        flagged = entrance.paced(ask.actor, endpoint, ask.request, target)
        ask.decision = await entrance.decided(ask)
    except (*REFUSALS, NotFound) as refusal:
        if isinstance(refusal, REFUSALS) or refusal.__cause__ is not None:
            entrance.refused(ask, refusal.__cause__ or refusal)
            refusal.__cause__ = None
        raise
    if flagged:
        entrance.flagged(ask)


class Attachment(Surface):
    """A surface with a socket: it has a name, hears of the others, and gets answers."""

    listens = True

    def __init__(self, let: Pass, version: int, who: Who) -> None:
        super().__init__(let, version)
        self.who = who
        self.noted = 0
        self.answers: deque[bytes] = deque()
        self.room = asyncio.Event()
        self.failed = False
        self.tat = 0

    def answer(self, message: msgspec.Struct) -> None:
        """Have an answer sent."""
        self.answers.append(say.encoded(message))
        self.ring()


class Socket:
    """One socket: a task that reads what the client says, and one that sends what there is."""

    def __init__(self, hub: Crowd, ask: Ask, after: int, receive: Receive, send: Send) -> None:
        self._hub = hub
        self._after = after
        self._ask = ask
        self._receive = receive
        self._send = send
        self._ambient = hub.ambient

    async def served(self) -> None:
        """Until one side has enough."""
        ask, hub = self._ask, self._hub
        surface = self._surface()
        surface.task = asyncio.current_task()
        reading: asyncio.Task[None] | None = None
        try:
            channel = await hub.attach(surface, ask)
            await self._welcome(surface, channel)
            reading = asyncio.create_task(self._reads(surface, channel))
            reading.add_done_callback(surface.leave)
            end = await self._writes(surface, channel)
            await self._close(surface, end)
        except PerdureError as error:
            await self._close(surface, End(PROBLEM, error))
        except OSError:  # the client is gone; servers say so in this way
            pass
        except asyncio.CancelledError:
            if not surface.cut:
                raise
            surface.task.uncancel()  # type: ignore[union-attr]  # it is this very task
        finally:
            if reading is not None:
                reading.cancel()
            self._part(surface)

    def _surface(self) -> Attachment:
        ask, now = self._ask, self._ambient.now()
        query: AttachQuery = ask.query()
        who = Who(
            surface=f"srf_{self._ambient.random(9).hex()}",
            kind=query.surface,
            name=query.name,
            principal=ask.actor.name,
            since=now,
        )
        surface = Attachment(self._hub.admitted(ask), self._after, who)
        surface.beat, surface.tat = self._hub.beats, now
        return surface

    async def _welcome(self, surface: Attachment, channel: Channel) -> None:
        """Say hello, and to the others that somebody came."""
        head = (await self._ask.services.sessions.log.head(self._ask.id)).row.version
        others = tuple(channel.roster.values())
        channel.roster[surface.who.surface] = surface.who
        channel.note(surface.who.surface, say.encoded(say.Attached(who=surface.who)))
        surface.noted = channel.noted
        hello = say.Hello(
            session_id=self._ask.id, you=surface.who, version=head, after=surface.version, attached=others
        )
        await self._put(surface, say.encoded(hello))

    def _part(self, surface: Attachment) -> None:
        channel = self._hub.channels.get(self._ask.id)
        if channel is not None and channel.roster.pop(surface.who.surface, None) is not None:
            channel.note(surface.who.surface, say.encoded(say.Detached(who=surface.who)))
        self._hub.detach(surface, self._ask.id)

    # ── what goes out ──

    async def _writes(self, surface: Attachment, channel: Channel) -> End | None:
        hub, let, exact = self._hub, surface.let, self._ask.voice.exact
        while True:
            await self._answers(surface)
            if surface.left:
                return None
            if (end := hub.over or let.refused or channel.ended) is not None:
                return end
            await self._notes(surface, channel)
            flavour = Flavour(exact, let.hidden, True)
            found = channel.batch(surface.version, flavour)
            if found is None:
                found = await channel.read(surface.version, flavour)
            if not found.events and not found.pruned:
                await self._idle(surface)
                continue
            if let.stale():
                await let.check()
                if let.refused is not None or let.hidden != flavour.hidden:
                    continue
            if found.pruned:
                await self._put(surface, say.encoded(say.Pruned(upto=found.pruned)))
            for frame in found.frames:
                await self._put(surface, frame)
            surface.version = found.upto
            hub.measures.deliveries += found.events

    async def _idle(self, surface: Attachment) -> None:
        """Nothing to send: wait for a ring. At a heartbeat, and when a token's time is over, its pass is looked at."""
        await surface.wait()
        beat = surface.beat != self._hub.beats
        if beat or surface.let.over(self._ambient.now()):
            await surface.let.check()
        if beat:
            surface.beat = self._hub.beats
            if surface.let.refused is None and not surface.left:
                await self._put(surface, say.encoded(say.Heartbeat(at=self._ambient.now())))

    async def _answers(self, surface: Attachment) -> None:
        while surface.answers:
            await self._put(surface, surface.answers.popleft())
        surface.room.set()

    async def _notes(self, surface: Attachment, channel: Channel) -> None:
        me = surface.who.surface
        notes = channel.notes(surface.noted, me)
        surface.noted = channel.noted
        if notes is None:
            others = tuple(who for name, who in channel.roster.items() if name != me)
            notes = [say.encoded(say.Surfaces(attached=others))]
        for note in notes:
            await self._put(surface, note)

    async def _put(self, surface: Attachment, frame: bytes) -> None:
        surface.sending = self._hub.ticks
        await self._send({"type": "websocket.send", "text": frame.decode()})
        surface.sending = None

    async def _close(self, surface: Attachment, end: End | None) -> None:
        if end is None:
            if surface.failed:
                await self._send({"type": "websocket.close", "code": BROKEN, "reason": "unexpected"})
            else:
                await self._send({"type": "websocket.close", "code": DONE, "reason": "detached"})
            return
        problem = None if end.error is None else msgspec.Raw(end.told(self._ask.voice))
        await self._put(surface, say.encoded(say.Over(reason=end.word, problem=problem)))
        await self._send({"type": "websocket.close", "code": CODES.get(end.word, BROKEN), "reason": end.word})

    # ── what comes in ──

    async def _reads(self, surface: Attachment, channel: Channel) -> None:
        """Serve one message after the other, no faster than allowed; ends when the client detaches or is gone."""
        try:
            while True:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._paced(surface)
                if not await self._served(surface, channel, message):
                    return
        except OSError:
            return
        except Exception:  # whatever it was, the surface is closed and nothing of it goes out
            log.exception("a surface broke off")
            surface.failed = True

    async def _paced(self, surface: Attachment) -> None:
        """Hold back one who says too much, and one who does not take the answers."""
        while len(surface.answers) >= ANSWERS:
            surface.room.clear()
            await surface.room.wait()
        while True:
            surface.tat, wait = admit(surface.tat, self._ambient.now(), MESSAGES.interval, MESSAGES.burst)
            if not wait:
                return
            await self._ambient.sleep(wait / 1_000_000)

    async def _served(self, surface: Attachment, channel: Channel, message: MutableMapping[str, Any]) -> bool:
        """Serve a message; False when the client has enough."""
        mark: say.Mark = None
        try:
            text = message.get("text")
            if text is None:
                raise Invalid("messages are text, not binary; send JSON as text")
            if len(text) > self._hub.settings.max_body:
                raise TooLarge("the message is too large; send less, or put it as a blob")
            fields = say.fields_of(text)
            mark = say.taken(fields, "id")
            return await self._done(surface, channel, fields, mark)
        except PerdureError as error:
            surface.answer(say.Trouble(id=mark, problem=msgspec.Raw(problems.told(error, self._ask.voice).body)))
        except Exception:  # one message must not end the surface, and nothing of it goes out
            log.exception("unexpected")
            detail = "something went wrong here; the server's log says what"
            told = problems.answer(HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected", detail, self._ask.voice)
            surface.answer(say.Trouble(id=mark, problem=msgspec.Raw(told.body)))
        return True

    async def _done(self, surface: Attachment, channel: Channel, fields: say.Fields, mark: say.Mark) -> bool:
        kind, me = say.taken(fields, "type"), surface.who.surface
        if kind == "append":
            surface.answer(say.Ack(id=mark, version=await self._append(surface, fields)))
        elif kind == "ping":
            say.must_be_empty(fields)
            surface.answer(say.Pong(id=mark))
        elif kind == "typing":
            on = say.taken(fields, "on", True)
            say.must_be_empty(fields)
            channel.note(me, say.encoded(say.Typing(surface=me, on=on)))
        elif kind == "presence":
            state = say.state_of(fields)
            say.must_be_empty(fields)
            surface.who.state = state
            channel.note(me, say.encoded(say.Presence(surface=me, state=state)))
        elif kind == "detach":
            return False
        else:
            raise Invalid("a message has a type: append, typing, presence, ping or detach", type=str(kind)[:80])
        return True

    async def _append(self, surface: Attachment, fields: say.Fields) -> int:
        """What POST events does with the same fields, asked by whoever this surface belongs to now."""
        key, expected = say.taken(fields, "key"), say.taken(fields, "expected")
        let = surface.let
        await let.use()
        if let.refused is not None:
            surface.ring()
            raise let.refused.error or NotFound("no such session here; GET /v1/sessions lists those there are")
        ask = _ask(self._ask, say.body_of(fields), key, expected)
        await let_write(ask, let)
        with acting(ask.actor.name, ask.into):
            answer: Answer = await APPEND.call(ask)
        if ask.decision.reason is Reason.OVERRIDE:
            await ask.node.entrance.noted(ask, reason=str(ask.decision.reason))
        return msgspec.json.decode(answer.body, type=_Version).version


class _Version(msgspec.Struct):
    version: int


def _ask(attached: Ask, body: bytes, key: str | None, expected: int | None) -> Ask:
    """An append as if it had come by itself, with the headers of the socket it came by."""
    scope = dict(attached.request.scope)
    dropped = (b"content-length", b"content-type", b"if-match", b"idempotency-key")
    headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
    headers.append((b"content-length", str(len(body)).encode()))
    if key is not None:
        headers.append((b"idempotency-key", key.encode("utf-8", "surrogatepass")))
    if expected is not None:
        headers.append((b"if-match", b'"%d"' % expected))
    scope |= {"method": "POST", "headers": headers, "query_string": b""}

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    request = Request(scope, receive, attached.node.settings.max_body)
    filled = [attached.params["session_id"]]
    return Ask(attached.node, request, APPEND, filled, attached.heard, attached.voice)
