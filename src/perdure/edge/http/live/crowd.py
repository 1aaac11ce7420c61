"""Everybody who is attached to a node: one task follows the store's change feed and tells the channels of sessions.

Sessions nobody is attached to cost nothing, and while nobody is attached at all, the feed is not followed.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from perdure.core.errors import NotFound, PerdureError, RateLimited, StoreClosed
from perdure.core.session.ids import SessionId
from perdure.edge.http.live.channel import Channel
from perdure.edge.http.live.ending import GONE, OVER, PROBLEM, End
from perdure.edge.http.live.passes import Pass, Passes
from perdure.edge.http.live.surface import Surface
from perdure.ports.ambient import Ambient
from perdure.ports.store import Change

if TYPE_CHECKING:
    from perdure.compose.tenants import Tenants
    from perdure.edge.http.asking import Ask
    from perdure.edge.http.measures import Measures
    from perdure.edge.http.settings import Settings

log: Final = logging.getLogger("perdure.live")
TICK: Final = 1.0
BEAT: Final = 15
"""Ticks between heartbeats."""
STALL: Final = 60
"""Ticks after which a surface that takes nothing is cut off."""
READERS: Final = 16
"""How many surfaces that are behind read their logs at the same time."""
CHANGES: Final = 1024
"""Changes kept for those who follow all of a tenant's sessions."""
PATIENCE: Final = 1.0
"""Seconds between attempts to follow a feed that broke off."""


class Crowd:
    """Everybody who is attached to this node."""

    def __init__(self, tenants: "Tenants", settings: "Settings", ambient: Ambient, measures: "Measures") -> None:
        self.tenants = tenants
        self.settings = settings
        self.ambient = ambient
        self.passes = Passes()
        self.channels: dict[SessionId, Channel] = {}
        self.surfaces: set[Surface] = set()
        self.watchers: set[Surface] = set()
        self.ticks = 0
        self.beats = 0
        self.over: End | None = None
        self.position = 0
        self.changes: deque[Change] = deque()
        self.since = 0
        """The position after which `changes` has everything."""
        self.measures = measures
        self._gate = asyncio.Semaphore(READERS)
        self._wanted = asyncio.Event()
        self._following = asyncio.Event()
        self._reading: dict[Channel, asyncio.Task[None]] = {}

    # ── the node's own task ──

    async def run(self) -> None:
        """Follow the feed while anybody is attached, and keep time for them; until it is cancelled."""
        while True:
            await self._wanted.wait()
            feed = asyncio.create_task(self._feed(), name="perdure-feed")
            try:
                while self.surfaces:
                    await self.ambient.sleep(TICK)
                    self.tick()
            finally:
                self._wanted.clear()
                self._following.clear()
                feed.cancel()
                await asyncio.wait([feed])  # its end is awaited, and our own cancellation is not taken for it

    async def _feed(self) -> None:
        """Hand each change to whom it concerns. What breaks off is taken up again where it was."""
        position: int | None = None
        while True:
            try:
                if position is None:
                    position = self.position = self.since = await self.tenants.store.position()
                    self.changes.clear()
                    self._following.set()
                async for change in self.tenants.store.watch(position):
                    position = change.position
                    self.heard(change)
                self.leave_now()  # the store was closed
                return
            except StoreClosed:
                self.leave_now()
                return
            except PerdureError as trouble:
                log.warning("the feed broke off", extra={"code": trouble.code})
            except Exception:  # whatever it was, those who are attached must not be left waiting for ever
                log.exception("the feed broke off")
            await self.ambient.sleep(PATIENCE)

    def heard(self, change: Change) -> None:
        """Tell whom a change concerns."""
        self.position = change.position
        self.changes.append(change)
        if len(self.changes) > CHANGES:
            self.since = self.changes.popleft().position
        for watcher in self.watchers:
            watcher.ring()
        channel = self.channels.get(change.session)
        if channel is None:
            return
        if change.erased:
            channel.end(GONE)
        elif channel.told(change.last):
            self._read_on(channel)

    def _read_on(self, channel: Channel) -> None:
        """Have a channel read what is new, unless it is at it."""
        if channel not in self._reading:
            self._reading[channel] = asyncio.create_task(self._reads(channel), name="perdure-channel")

    async def _reads(self, channel: Channel) -> None:
        try:
            while channel.behind and channel.surfaces and channel.ended is None:
                await channel.read_on()
        except NotFound:
            channel.end(GONE)
        except PerdureError as error:
            channel.end(End(PROBLEM, error))
        except Exception:  # whatever it was: they are told to come back, and nothing of it goes out
            log.exception("a channel broke off")
            channel.end(OVER)
        finally:
            del self._reading[channel]

    def tick(self) -> None:
        """A second has passed: heartbeats, tokens whose time is over, surfaces that take nothing, what is to forget."""
        self.ticks += 1
        beat = self.ticks % BEAT == 0
        self.beats += beat
        now = self.ambient.now()
        for surface in tuple(self.surfaces):
            if beat or surface.let.over(now):
                surface.ring()
            if surface.sending is not None and self.ticks - surface.sending > STALL:
                surface.stop()
        for channel in self.channels.values():
            channel.trim()

    # ── coming and going ──

    def must_have_room(self, session: SessionId | None) -> None:
        """`RateLimited` when too many are attached, to the node or to one session."""
        if self.over is not None:
            raise RateLimited("this node leaves; come back in a second", retry_after=1)
        if len(self.surfaces) >= self.settings.max_surfaces:
            raise RateLimited("too many surfaces are attached to this node; try again later", retry_after=30)
        channel = self.channels.get(session) if session is not None else None
        if channel is not None and len(channel.surfaces) >= self.settings.max_session_surfaces:
            raise RateLimited("too many surfaces are attached to this session; detach one", retry_after=30)

    async def enter(self, surface: Surface) -> None:
        """Count a surface in; when this returns, the feed is followed."""
        self.surfaces.add(surface)
        self._count()
        self._wanted.set()
        if self.over is None:
            await self._following.wait()

    def exit(self, surface: Surface) -> None:
        """Count it out."""
        self.surfaces.discard(surface)
        self.watchers.discard(surface)
        self.passes.give_back(surface.let)
        self._count()

    async def attach(self, surface: Surface, ask: "Ask") -> Channel:
        """The channel of the session that was asked for, with this surface on it. `detach` it, whatever happens."""
        channel = self.channels.get(ask.id)
        if channel is None or channel.ended is not None:
            channel = self.channels[ask.id] = Channel(ask.id, ask.services, self._gate)
        channel.surfaces.add(surface)
        try:
            await self.enter(surface)
            if channel.version is None:
                channel.stands((await ask.services.sessions.log.head(ask.id)).row.version)
            if channel.behind:
                self._read_on(channel)
        except NotFound:
            channel.end(GONE)
        return channel

    def detach(self, surface: Surface, session: SessionId) -> None:
        """Take a surface off its channel, which goes with the last one."""
        channel = self.channels.get(session)
        if channel is not None:
            channel.surfaces.discard(surface)
            if not channel.surfaces:
                del self.channels[session]
        self.exit(surface)

    def _count(self) -> None:
        self.measures.surfaces = len(self.surfaces)

    def leave_now(self) -> None:
        """Tell everybody that this node leaves."""
        self.over = self.over or OVER
        self._following.set()
        for surface in tuple(self.surfaces):
            surface.ring()

    async def leave(self) -> None:
        """Tell everybody that this node leaves, and let them have the time to hear it."""
        self.leave_now()
        for _ in range(100):
            if not self.surfaces:
                return
            await self.ambient.sleep(0.01)

    def admitted(self, ask: "Ask") -> Pass:
        """The pass of a request that was let in."""
        return self.passes.take(ask)
