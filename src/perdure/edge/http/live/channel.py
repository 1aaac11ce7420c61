"""One session's channel: its newest events, read once, encoded once for each way of seeing them, shared by everybody.

A surface owns no queue, only the version it has got to. It takes what follows from here, or, when it fell behind what
is kept here, from the log. So nobody gets an event twice, past another or not at all, and one who does not keep up
costs nothing.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.edge.http.live.ending import End
from perdure.edge.http.live.surface import Surface
from perdure.edge.http.views import event_view
from perdure.edge.http.wire import EXACTLY, PLAINLY

if TYPE_CHECKING:
    from perdure.compose import Services
    from perdure.ports.store import Head

PIECE: Final = 64 * 1024
"""Bytes from which on nothing more is put into one batch."""
PAGE: Final = 256
"""Events read from the log at once."""
KEPT: Final = 512
"""Events kept for those who are a little behind."""
KEPT_BYTES: Final = 512 * 1024
"""And their bytes, as encoded; the newest event is kept whatever its size, until everybody has it."""
BATCHES: Final = 32
"""Batches kept for those who are at the same place."""
NOTES: Final = 256
"""Notes kept about who came, went and does what."""


class Flavour(NamedTuple):
    """A way of seeing events: how values are spelled, what is hidden, and whether as frames of a socket."""

    exact: bool
    hidden: tuple[str, ...]
    socket: bool


class Batch(NamedTuple):
    """What a surface sends next, and the version it has got to then. `pruned` is up to where the log was dropped."""

    frames: tuple[bytes, ...]
    upto: int
    events: int = 0
    pruned: int = 0


class Entry:
    """An event, and its frames as far as somebody wanted them."""

    __slots__ = ("event", "frames", "size")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.frames: dict[Flavour, bytes] = {}
        self.size = len(event.entry.data)

    def frame(self, flavour: Flavour) -> bytes:
        """The event as such surfaces get it."""
        found = self.frames.get(flavour)
        if found is None:
            found = self.frames[flavour] = frame(self.event, flavour)
            self.size += len(found)
        return found


def frame(event: Event, flavour: Flavour) -> bytes:
    """An event as it goes out: a message of a socket, or a server-sent event whose id is the version."""
    voice = EXACTLY if flavour.exact else PLAINLY
    shown = voice.encode(event_view(event, voice, flavour.hidden))
    if flavour.socket:
        return b'{"type":"event","event":%b}' % shown
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.version, event.kind.encode(), shown)


def batch(entries: Iterable[Entry], version: int, flavour: Flavour) -> Batch:
    """As many frames as make a piece, the version after them included."""
    frames: list[bytes] = []
    size = 0
    for entry in entries:
        found = entry.frame(flavour)
        frames.append(found)
        version = entry.event.version
        size += len(found)
        if size >= PIECE:
            break
    joined = tuple(frames) if flavour.socket else ((b"".join(frames),) if frames else ())
    return Batch(joined, version, len(frames))


class Note(NamedTuple):
    """Something about a surface that its fellows are told, and that is kept nowhere else."""

    number: int
    author: str
    frame: bytes


class Who(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A surface as the others see it."""

    surface: str
    kind: str
    name: str
    principal: str
    since: int
    state: msgspec.Raw | None = None


class Channel:
    """What the surfaces of one session on this node share."""

    def __init__(self, session: SessionId, services: "Services", gate: asyncio.Semaphore) -> None:
        self.session = session
        self.surfaces: set[Surface] = set()
        self.roster: dict[str, Who] = {}
        self.version: int | None = None
        """Up to which version events were handed out; None until it is known where the session stands."""
        self.ended: End | None = None
        self.noted = 0
        self._services = services
        self._gate = gate
        self._told = 0
        self._ring: deque[Entry] = deque()
        self._batches: dict[tuple[int, Flavour], Batch] = {}
        self._reads: dict[tuple[int, Flavour], asyncio.Task[Batch]] = {}
        self._notes: deque[Note] = deque(maxlen=NOTES)

    # ── what comes in ──

    def stands(self, version: int) -> None:
        """Say where the session stands, when that is not known yet."""
        if self.version is None:
            self.version = version
            self._told = max(self._told, version)

    def told(self, upto: int) -> bool:
        """Take note that there are events up to a version; whether there is something to read."""
        self._told = max(self._told, upto)
        return self.behind

    @property
    def behind(self) -> bool:
        """Whether there is more in the log than was handed out."""
        return self.version is not None and self._told > self.version

    async def read_on(self) -> None:
        """Read the next page of what was told of, once, and hand it to everybody."""
        if self.version is None:
            return
        upto = min(self._told, self.version + PAGE)
        events, pruned = await self._events(self.version, upto)
        if pruned or not events:  # nothing to go on from: each surface finds out by itself
            self._ring.clear()
            self.version = max(upto, pruned)
        else:
            self._publish(events)
        self.ring()

    def _publish(self, events: list[Event]) -> None:
        self._ring.extend(map(Entry, events))
        self.version = events[-1].version
        self.trim()

    def trim(self) -> None:
        """Forget what everybody has, and of the rest what is too much."""
        ring = self._ring
        if not ring:
            return
        self._batches.clear()
        lowest = min((surface.version for surface in self.surfaces), default=self.version or 0)
        size = sum(entry.size for entry in ring)
        while ring and (ring[0].event.version <= lowest or (len(ring) > 1 and (size > KEPT_BYTES or len(ring) > KEPT))):
            size -= ring.popleft().size

    def ring(self) -> None:
        """Wake every surface."""
        for surface in self.surfaces:
            surface.ring()

    def end(self, why: End) -> None:
        """Tell every surface that this is over."""
        self.ended = self.ended or why
        self.ring()

    # ── what goes out ──

    def batch(self, version: int, flavour: Flavour) -> Batch | None:
        """What follows a version, as far as it is kept here; None when the log must be asked."""
        if self.version is None:
            return None
        missing = self.version - version
        if missing <= 0:
            return Batch((), version)
        if missing > len(self._ring):
            return None
        key = (version, flavour)
        found = self._batches.get(key)
        if found is None:
            if len(self._batches) >= BATCHES:
                self._batches.clear()
            following = islice(self._ring, len(self._ring) - missing, None)
            found = self._batches[key] = batch(following, version, flavour)
        return found

    async def read(self, version: int, flavour: Flavour) -> Batch:
        """What follows a version, from the log. Those who want the same at the same time read it once."""
        key = (version, flavour)
        reading = self._reads.get(key)
        if reading is None:
            reading = self._reads[key] = asyncio.create_task(self._read(version, flavour))
            reading.add_done_callback(lambda _: self._reads.pop(key, None))
        return await asyncio.shield(reading)

    async def _read(self, version: int, flavour: Flavour) -> Batch:
        async with self._gate:
            events, pruned = await self._events(version, version + PAGE)
        found = batch(map(Entry, events), max(version, pruned), flavour)
        return found._replace(pruned=pruned)

    async def _events(self, after: int, upto: int) -> tuple[list[Event], int]:
        """Events of the log, and up to where it was pruned if that is farther than `after`."""
        log = self._services.sessions.log

        async def look(head: "Head") -> tuple[list[Event], int]:
            anchor = head.anchor_version
            if anchor > after:
                return await log.events(head, anchor, max(upto, anchor + PAGE)), anchor
            return (await log.events(head, after, upto) if head.row.version > after else []), 0

        return await log.steadily(self.session, look)

    # ── who is here ──

    def note(self, author: str, said: bytes) -> None:
        """Tell the other surfaces something that is not kept."""
        self.noted += 1
        self._notes.append(Note(self.noted, author, said))
        for surface in self.surfaces:
            if surface.listens:
                surface.ring()

    def notes(self, after: int, me: str) -> list[bytes] | None:
        """Notes of others after a number; None when some of them are no longer kept."""
        if after >= self.noted:
            return []
        if self._notes[0].number > after + 1:
            return None
        return [note.frame for note in self._notes if note.number > after and note.author != me]
