"""Server-sent events: a session's log that can be rejoined with the id of the last event, and the change feed."""

import asyncio
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final

from perdure.core.errors import PerdureError
from perdure.core.session.ids import SessionId
from perdure.edge.http.asgi import Answer, Send
from perdure.edge.http.live.channel import Channel, Flavour
from perdure.edge.http.live.crowd import Crowd
from perdure.edge.http.live.ending import PROBLEM, PRUNED, End
from perdure.edge.http.live.surface import Surface
from perdure.edge.http.reaching import may
from perdure.edge.http.views import change_view
from perdure.ports.store import Change

if TYPE_CHECKING:
    from perdure.edge.http.asking import Ask

MEDIA: Final = b"text/event-stream; charset=utf-8"
BEAT: Final = b": still here\n\n"
RETRY_MS: Final = 1000
"""After how long a browser comes back."""
PAGE: Final = 256
TOLD: Final = 10_000
"""Sessions that a watcher remembers having been told of."""


def said(word: str, data: bytes) -> bytes:
    """A word of the stream itself. It has no id, so that a client comes back to where its events ended."""
    return b"event: %b\ndata: %b\n\n" % (word.encode(), data)


class Stream(Answer):
    """An answer that goes on for as long as its client stays."""

    def __init__(self, hub: Crowd, ask: "Ask", after: int) -> None:
        headers = [*ask.headers, (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        super().__init__(200, b"", MEDIA, headers)
        self.hub = hub
        self.ask = ask
        self.after = after
        self._send: Send

    async def send(self, send: Send, bare: bool = False) -> None:
        """Send until the client hangs up, or there is a reason to end."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        if bare:
            await send({"type": "http.response.body", "body": b""})
            return
        self._send = send
        surface = Surface(self.hub.admitted(self.ask), self.after)
        surface.task = asyncio.current_task()
        gone = asyncio.create_task(self.ask.request.gone())
        gone.add_done_callback(surface.leave)
        try:
            end = await self._served(surface)
            if end is not None:
                await self._put(surface, said(end.word, end.told(self.ask.voice)))
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not surface.cut:
                raise
            surface.task.uncancel()  # type: ignore[union-attr]  # it is this very task
        finally:
            gone.cancel()
            await asyncio.wait([gone])  # not awaited itself, so that whoever cancels this one is heard

    async def _served(self, surface: Surface) -> End | None:
        """Send what there is, and what comes; why it is over, or None when the client left."""
        raise NotImplementedError

    async def _put(self, surface: Surface, piece: bytes) -> None:
        surface.sending = self.hub.ticks
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        surface.sending = None

    async def _idle(self, surface: Surface) -> None:
        """Nothing to send: wait for a ring. At a heartbeat, and when a token's time is over, its pass is looked at."""
        await surface.wait()
        beat = surface.beat != self.hub.beats
        if beat or surface.let.over(self.hub.ambient.now()):
            await surface.let.check()
        if beat:
            surface.beat = self.hub.beats
            if surface.let.refused is None and not surface.left:
                await self._put(surface, self._beat(surface))

    def _beat(self, surface: Surface) -> bytes:
        """What breaks a long silence: a comment."""
        return BEAT


class Follow(Stream):
    """One session, from its log and then live."""

    async def _served(self, surface: Surface) -> End | None:
        hub, ask = self.hub, self.ask
        surface.beat = hub.beats
        try:
            channel = await hub.attach(surface, ask)
            await self._put(surface, b"retry: %d\n\n" % RETRY_MS)
            return await self._follow(surface, channel)
        except PerdureError as error:
            return End(PROBLEM, error)
        finally:
            hub.detach(surface, ask.id)

    async def _follow(self, surface: Surface, channel: Channel) -> End | None:
        hub, let, exact = self.hub, surface.let, self.ask.voice.exact
        while not surface.left:
            if (end := hub.over or let.refused or channel.ended) is not None:
                return end
            flavour = Flavour(exact, let.hidden, False)
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
                await self._put(surface, said(PRUNED, b'{"upto":%d}' % found.pruned))
            for piece in found.frames:
                await self._put(surface, piece)
            surface.version = found.upto
            hub.measures.deliveries += found.events
        return None


class Watch(Stream):
    """Every change of the tenant's sessions that whoever asks may see."""

    def __init__(self, hub: Crowd, ask: "Ask", after: int) -> None:
        super().__init__(hub, ask, after)
        self._told: OrderedDict[SessionId, None] = OrderedDict()

    async def _served(self, surface: Surface) -> End | None:
        hub = self.hub
        surface.beat = hub.beats
        hub.watchers.add(surface)
        try:
            await hub.enter(surface)
            await self._put(surface, b"retry: %d\n\n" % RETRY_MS)
            return await self._watch(surface)
        except PerdureError as error:
            return End(PROBLEM, error)
        finally:
            hub.exit(surface)

    async def _watch(self, surface: Surface) -> End | None:
        hub, let = self.hub, surface.let
        while not surface.left:
            if (end := hub.over or let.refused) is not None:
                return end
            changes = await self._changes(surface.version)
            if not changes:
                await self._idle(surface)
                continue
            if let.stale():
                await let.check()
                if let.refused is not None:
                    continue
            shown = [self._frame(change) for change in changes if await self._sees(surface, change)]
            if shown:
                await self._put(surface, b"".join(shown))
            surface.version = changes[-1].position
            hub.measures.deliveries += len(shown)
        return None

    async def _changes(self, after: int) -> list[Change]:
        hub = self.hub
        if after >= hub.position:
            return []
        if after < hub.since:
            return list(await hub.tenants.store.changes(after, PAGE))
        return list(islice((change for change in hub.changes if change.position > after), PAGE))

    def _beat(self, surface: Surface) -> bytes:
        """A comment and the position: whoever comes back need not pass again by what was not for them."""
        return b"id: %d\n" % surface.version + BEAT

    def _frame(self, change: Change) -> bytes:
        data = self.ask.voice.encode(change_view(change))
        return b"id: %d\nevent: change\ndata: %b\n\n" % (change.position, data)

    async def _sees(self, surface: Surface, change: Change) -> bool:
        """Whether a change is told. Of a session that is gone nobody can say whose it was: that it was erased is told
        to those who were told of it before.
        """
        told = self._told
        if change.erased:
            return told.pop(change.session, surface) is None
        ask = surface.let.ask
        if not await may(ask, change.session):
            return False
        told[change.session] = None
        told.move_to_end(change.session)
        if len(told) > TOLD:
            told.popitem(last=False)
        return True
