"""Turns that run in this process: what each has told so far, who follows it, and how it is stopped.

What a running turn tells is kept in the store every quarter of a second or two kilobytes, outside the session's chain:
another node serves what is kept and follows. The same write renews the turn's lease, so that a turn whose process died
is known to be over.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Literal, TypeAlias

import msgspec

from perdure.core.errors import NotFound, WorldError
from perdure.core.session.ids import SessionId
from perdure.core.talk.turning import (
    PieceCame,
    TurnEvent,
    TurnOutcome,
    TurnRequest,
    event_of,
    is_last,
    line_of,
    words_in,
)
from perdure.ports.ambient import Ambient
from perdure.ports.store import Store

KEEP_AFTER: Final = 0.25
"""Seconds after which what was told is kept."""
KEEP_BYTES: Final = 2048
LEASE: Final = 5_000_000
"""Microseconds for which a turn's process is believed to live after it last said so."""
BEAT: Final = 1.5
"""Seconds after which a silent turn says that it lives."""
POLL: Final = 0.1
"""Seconds between two looks at a turn that runs elsewhere."""


How: TypeAlias = Literal["steer", "interrupt", "rollback", "shutdown"]
_STRENGTH: Final = {"steer": 0, "interrupt": 1, "rollback": 1, "shutdown": 2}


class Stopped(Exception):
    """Somebody wants the turn stopped: to go on otherwise, to end, to be taken back, or because the process ends. The
    reason is what the log is told.
    """

    def __init__(self, how: How, reason: str) -> None:
        super().__init__(how)
        self.how = how
        self.reason = reason


class Steer(msgspec.Struct, frozen=True):
    """Words of somebody who steps in: what writes them down, and who waits for the version they get; None when the turn
    was over before it could take them up.
    """

    append: Callable[[], Awaitable[int]]
    version: "asyncio.Future[int | None]"


class Line(msgspec.Struct, frozen=True):
    """One line of a turn, and the place behind it."""

    place: int
    event: TurnEvent
    data: bytes


class Running:
    """One turn in flight."""

    def __init__(self, store: Store, ambient: Ambient, session: SessionId, turn: int, node: str) -> None:
        self.session = session
        self.turn = turn
        self.request: TurnRequest | None = None
        self.outcome: TurnOutcome | None = None
        self.error: Exception | None = None
        self.stopping: Stopped | None = None
        self.steers: list[Steer] = []
        self.interruptible: asyncio.Task[object] | None = None
        self.task: asyncio.Task[None] | None = None
        self.done = asyncio.Event()
        self.watch: Callable[[], Awaitable[None]] | None = None
        self._store = store
        self._ambient = ambient
        self._node = node
        self._lines: list[Line] = []
        self._size = 0
        self._kept = self._told = 0
        self._leased = False
        self._words = 0
        self._news = asyncio.Event()
        self._due = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep())

    def tell(self, event: TurnEvent) -> None:
        """Let everybody who follows know."""
        data = line_of(event)
        self._size += len(data)
        self._lines.append(Line(self._size, event, data))
        if isinstance(event, PieceCame):
            self._words += len(words_in(event.piece))
            if self._words >= KEEP_BYTES:
                self._due.set()
        news, self._news = self._news, asyncio.Event()
        news.set()

    def stop(self, stopped: Stopped) -> None:
        """Have what the turn is doing cancelled; the turn itself decides what becomes of it."""
        if self.stopping is None or _STRENGTH[stopped.how] > _STRENGTH[self.stopping.how]:
            self.stopping = stopped
        if self.interruptible is not None:
            self.interruptible.cancel()

    async def steer(self, append: Callable[[], Awaitable[int]]) -> int | None:
        """Have the turn cut short and gone on with after these words; the version they got, None when it was over."""
        if self.done.is_set():
            return None
        item = Steer(append, asyncio.get_running_loop().create_future())
        self.steers.append(item)
        self.stop(Stopped("steer", "steered"))
        return await item.version

    async def follow(self, after: int = 0) -> AsyncIterator[Line]:
        """The turn's lines from a place on, until its end."""
        number = 0
        while True:
            news = self._news
            while number < len(self._lines):
                line = self._lines[number]
                number += 1
                if line.place > after:
                    yield line
                if is_last(line.event):
                    return
            if self.done.is_set() and number >= len(self._lines):
                return
            await news.wait()

    async def finish(self) -> None:
        """Nothing more comes; what was kept may go."""
        self.done.set()
        for item in self.steers:
            if not item.version.done():
                item.version.set_result(None)
        self._news.set()
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        if self._leased:
            await self._store.let_go(self.session, self.turn)

    async def _keep(self) -> None:
        """Keep what is told, and say that the turn lives. A store that does not take it has the turn itself to tell."""
        silent = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEP_AFTER):
                    await self._due.wait()
            silent += KEEP_AFTER
            if self._size > self._kept or silent >= BEAT:
                silent = 0.0
                with contextlib.suppress(WorldError):
                    await self.keep()
            if self.watch is not None:
                with contextlib.suppress(WorldError):
                    await self.watch()

    async def keep(self) -> None:
        """Keep what was told so far, and renew the lease."""
        self._due.clear()
        count, upto = len(self._lines), self._size
        data = b"".join(line.data for line in self._lines[self._told : count])
        until = self._ambient.now() + LEASE
        await self._store.keep(self.session, self.turn, node=self._node, until=until, offset=self._kept, data=data)
        self._words, self._told, self._kept, self._leased = 0, count, upto, True


async def elsewhere(store: Store, ambient: Ambient, session: SessionId, turn: int, after: int) -> AsyncIterator[Line]:
    """The lines of a turn that runs on another node, for as long as that lives; they end without a last line when it
    died, or when the turn is over and only the log knows of it.
    """
    rest, place = b"", None
    while True:
        kept = await store.kept(session, turn, after if place is None else place)
        if kept is None:
            return
        for offset, data in kept.pieces:
            start = offset if place is None else place
            fresh = data if offset >= start else data[start - offset :]
            place = max(start, offset) + len(fresh)
            rest += fresh
            *lines, rest = rest.split(b"\n")
            behind = place - len(rest)
            for number, line in enumerate(lines):
                end = behind - sum(len(later) + 1 for later in lines[number + 1 :])
                if end > after:
                    yield Line(end, event_of(line), line + b"\n")
        if kept.until < ambient.now():
            return
        await ambient.sleep(POLL)


class Runners:
    """All turns that run in this process, by session."""

    def __init__(self) -> None:
        self._running: dict[SessionId, Running] = {}
        self.asks: set[str] = set()
        """Requests of this process that no turn of its own has open."""

    def of(self, session: SessionId) -> Running | None:
        """The session's running turn, if there is one here."""
        return self._running.get(session)

    def add(self, running: Running) -> None:
        """Take note of one that begins."""
        self._running[running.session] = running

    def remove(self, running: Running) -> None:
        """It is over."""
        if self._running.get(running.session) is running:
            del self._running[running.session]

    def all(self) -> tuple[Running, ...]:
        """Every one."""
        return tuple(self._running.values())

    def must(self, session: SessionId) -> Running:
        """The session's running turn; `NotFound` when none runs here."""
        found = self.of(session)
        if found is None:
            raise NotFound(f"no turn of session {session} is running; begin one", session=session)
        return found
