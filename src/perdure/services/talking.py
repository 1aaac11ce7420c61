"""Turns with models: beginning them, following them wherever they run, stepping in, and closing what a crash left.

A turn that was begun runs by itself: whoever asked may go away, come back, and follow it from where they were, on any
node. At most one turn of a session runs at a time, and its lease in the store says where.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from hashlib import sha256
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid, KeyReused, NotFound, PerdureError, TurnRefused
from perdure.core.session import commands as do
from perdure.core.session.approval import parked
from perdure.core.session.event import Draft
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.core.session.steering import FollowedUp, Steered
from perdure.core.session.turns import CallStatus, OpenTurn
from perdure.core.talk.context import Context
from perdure.core.talk.routes import AUTO
from perdure.core.talk.turning import TurnBroke, TurnEnded, TurnOutcome, TurnRequest, is_last, line_of
from perdure.services.desk import Desk
from perdure.services.heeding import Heeding
from perdure.services.recalling import outcome_in
from perdure.services.reminding import reminded
from perdure.services.rounds import Turn
from perdure.services.running import POLL, How, Line, Running, Stopped, elsewhere
from perdure.services.sessions import Outcome
from perdure.steady import unbroken

log = logging.getLogger(__name__)
RESERVED: Final = frozenset({"crash", "shutdown"})
"""Reasons that only perdure gives."""
GATES: Final = 10_000
"""How many sessions' gates are kept before those that are open are forgotten."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is in the log. It runs here, or was begun by an earlier call with the same key."""

    turn: int
    running: Running | None = None


class Talking:
    """What edges call."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sessions = desk.sessions
        self.runners = desk.runners
        self._gates: dict[SessionId, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ── turns ──

    async def run(self, session: SessionId, request: TurnRequest) -> TurnOutcome:
        """A turn from its beginning to its end, or to where it waits for somebody."""
        begun = await self.begin(session, request)
        if begun.running is None:
            return await self.outcome(session, begun.turn)
        await begun.running.done.wait()
        if begun.running.error is not None:
            raise begun.running.error
        return begun.running.outcome or await self.outcome(session, begun.turn)

    async def begin(self, session: SessionId, request: TurnRequest) -> Begun:
        """Begin a turn, or go on with the one that waits; it runs by itself from there."""
        if (running := self._same(session, request)) is not None:
            return Begun(turn=running.turn, running=running)
        await self._make_way(session, request)
        async with self._gate(session):
            state = await self._cleared(session, request)
            turn = Turn(self._desk, session, request)
            turn.steers = state.steering.steers
            # From its first append on it is carried on, also if whoever asked goes away in this very moment.
            outcome = await unbroken(self._opened(turn, state))
        if outcome.repeated:
            return await self._again(session, request, outcome.first)
        return Begun(turn=turn.number, running=turn.running)

    async def _opened(self, turn: Turn, state: State) -> Outcome:
        """Begin the turn and have it carried on."""
        outcome = await turn.open(state)
        if outcome.repeated:
            return outcome
        running = turn.running
        running.request = turn.request
        self.runners.add(running)
        running.watch = Heeding(running, turn).look
        running.task = self._beside(self._carried(turn))
        return outcome

    def _beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that goes on by itself, and is awaited in the end."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _gate(self, session: SessionId) -> asyncio.Lock:
        """One turn of a session begins at a time."""
        if len(self._gates) > GATES:
            self._gates = {name: gate for name, gate in self._gates.items() if gate.locked()}
        return self._gates.setdefault(session, asyncio.Lock())

    def _same(self, session: SessionId, request: TurnRequest) -> Running | None:
        """The running turn, if the same call began it; `KeyReused` when its key was used for another one."""
        running = self.runners.of(session)
        if running is None or running.request is None or request.key is None or running.request.key != request.key:
            return None
        if running.request != request:
            raise KeyReused(f"key {request.key!r} was used for another request; choose a fresh key", key=request.key)
        return running

    async def _again(self, session: SessionId, request: TurnRequest, version: int) -> Begun:
        """What an earlier call with the same key began; a turn that a crash ended goes on in another one."""
        log = self._sessions.log
        events = await log.steadily(session, lambda head: log.events(head, version - 1, version))
        number = events[0].turn or 0
        outcome = await self.outcome(session, number)
        if outcome.status != "interrupted" or outcome.reason != "crash":
            return Begun(turn=number)
        key = sha256(f"again {request.key}".encode()).hexdigest()
        goes_on = msgspec.structs.replace(request, content=None, results=(), key=key)
        return await self.begin(session, goes_on)

    async def _carried(self, turn: Turn) -> None:
        """The turn to its end, whatever happens to it."""
        running = turn.running
        try:
            await turn.run()
            stopped = turn.status in ("interrupted", "rolled_back")  # of those the log alone tells all
            running.outcome = await self.outcome(running.session, running.turn) if stopped else turn.outcome()
            running.tell(TurnEnded(outcome=running.outcome))
            if turn.remembered is not None:
                self._beside(turn.reflect())
        except PerdureError as error:
            await self._broke(turn, error)
        except Exception as bug:  # the last door of a turn: whatever it was, the turn is closed and said to be
            log.exception("a turn broke")
            await self._broke(turn, PerdureError("something went wrong here; the log of the process says what"))
            running.error = bug
        except asyncio.CancelledError:
            running.tell(TurnBroke(turn=turn.number, code="turn_interrupted", detail="the server was stopped"))
            raise
        finally:
            if running.outcome is None and running.error is None:  # closing it failed, too
                running.error = PerdureError("the turn broke; the log of the process says why")
                running.tell(TurnBroke(turn=turn.number, code=running.error.code, detail=running.error.message))
            self.runners.remove(running)
            await running.finish()

    async def _broke(self, turn: Turn, error: PerdureError) -> None:
        """Close a turn that an error ended. When somebody else has closed it meanwhile, there is nothing to close."""
        running = turn.running
        try:
            await turn.broke(error)
        except TurnRefused:
            await turn.correct()
            error = TurnRefused(f"turn {turn.number} was ended by somebody else; see the log", turn=turn.number)
        except PerdureError as worse:
            error = worse
        else:
            error = turn.advised(error)
        running.error = error
        running.tell(TurnBroke(turn=turn.number, code=error.code, detail=error.message, fields=_plain(error)))

    # ── two at once ──

    async def _make_way(self, session: SessionId, request: TurnRequest) -> None:
        """Have a turn that runs here refused, stopped or awaited, as the request says."""
        running = self.runners.of(session)
        if running is None or request.busy == "enqueue":
            return
        if request.busy == "reject":
            raise _busy(running.turn)
        how: How = "rollback" if request.busy == "rollback" else "interrupt"
        running.stop(Stopped(how, "another turn" if how == "rollback" else "interrupted"))
        await running.done.wait()

    async def _cleared(self, session: SessionId, request: TurnRequest) -> State:
        """The session with no other turn running in it."""
        waited = 0.0
        while True:
            if (running := self.runners.of(session)) is not None:
                if request.busy == "reject":
                    raise _busy(running.turn)
                await self._queued(running)
            loaded = await self._sessions.loader.load(session)
            open = loaded.state.turns.open
            if open is None or self._waits(session, loaded.state):
                return await self._settled(session, loaded.state, request)
            if await self._goes_on(session, loaded.state, request):
                return loaded.state
            if not await self._desk.leases.lives(session, loaded):
                await self._desk.lifecycle.recover(session, reason="crash")
                continue
            if request.busy == "reject":
                raise _busy(open.number)
            if request.busy in ("interrupt", "rollback"):
                await self._ended(session, request)
                continue
            if waited > self._desk.settings.queue_timeout:
                raise _busy(open.number)
            await self._desk.ambient.sleep(POLL)
            waited += POLL

    async def _queued(self, running: Running) -> None:
        try:
            async with asyncio.timeout(self._desk.settings.queue_timeout):
                await running.done.wait()
        except TimeoutError as late:
            raise _busy(running.turn) from late

    async def _settled(self, session: SessionId, state: State, request: TurnRequest) -> State:
        """A turn that waits for somebody is gone on with, unless something new is said."""
        open = state.turns.open
        if open is None or request.content is None:
            return state
        if request.busy == "reject" or request.results:
            raise _waited_for(session, open)
        await self._ended(session, request)
        return (await self._sessions.loader.load(session)).state

    async def _ended(self, session: SessionId, request: TurnRequest) -> None:
        if request.busy == "rollback":
            await self._sessions.handle(session, do.RollBack(reason="another turn"))
        else:
            await self._desk.lifecycle.recover(session, reason="interrupted")

    def _waits(self, session: SessionId, state: State) -> bool:
        """Whether the open turn waits for somebody outside: it asks no model and runs no tool, and calls are left."""
        open = state.turns.open
        if open is None or state.budget.asked or self.runners.of(session) is not None:
            return False
        return bool(open.calls) and not any(item.status is CallStatus.STARTED for item in open.calls.values())

    async def _goes_on(self, session: SessionId, state: State, request: TurnRequest) -> bool:
        """Whether the request goes on with an open turn that has all it waited for and that nobody carries on."""
        open = state.turns.open
        if open is None or open.calls or state.budget.asked or request.content is not None:
            return False
        return not await self._desk.leases.held(session, open.number)

    # ── following ──

    async def follow(self, session: SessionId, turn: int, after: int = 0) -> AsyncIterator[Line]:
        """A turn's lines from a place on, wherever it runs or ran. What is over is told by its end alone."""
        running = self.runners.of(session)
        if running is not None and running.turn == turn:
            async for line in running.follow(after):
                yield line
            return
        place = after
        while True:
            async for line in elsewhere(self._sessions.store, self._desk.ambient, session, turn, place):
                place = line.place
                yield line
                if is_last(line.event):
                    return
            outcome = await self.outcome(session, turn)
            if outcome.status != "open":
                break
            await self._desk.ambient.sleep(POLL)
        event: TurnEnded | TurnBroke = TurnEnded(outcome=outcome)
        if outcome.status == "interrupted":
            told = f"turn {turn} was interrupted ({outcome.reason}); say something, or nothing, to go on"
            event = TurnBroke(turn=turn, code="turn_interrupted", detail=told, fields={"reason": outcome.reason})
        data = line_of(event)
        yield Line(place + len(data), event, data)

    async def outcome(self, session: SessionId, turn: int) -> TurnOutcome:
        """What came of a turn, as the log tells it; one whose process died is closed first."""
        loaded = await self._sessions.loader.load(session)
        state, open = loaded.state, loaded.state.turns.open
        if not 1 <= turn <= state.turns.count:
            raise NotFound(f"session {session} has no turn {turn}; it has {state.turns.count}", turn=turn)
        stuck = open is not None and open.number == turn and not self._waits(session, state)
        if stuck and not await self._desk.leases.lives(session, loaded):
            await self._desk.lifecycle.recover(session, reason="crash")
            state = (await self._sessions.loader.load(session)).state
        log = self._sessions.log
        events = await log.steadily(session, lambda head: log.last_turns(head, state.turns.count - turn + 1))
        mine = [event for event in events if event.turn == turn]
        return outcome_in(session, turn, mine, state)

    # ── stepping in ──

    async def steer(self, session: SessionId, text: str, *, agent: str | None = None, key: str | None = None) -> int:
        """Change what the session is doing right now: what runs is cut short, and the words are before the model at
        once. Without a running turn they are in the next one. The version they got.
        """
        command = do.Append(drafts=(Draft(Steered(text=text), agent=agent),))
        if (before := await self._sessions.repeated(session, key, command)) is not None:
            return before.version

        async def append() -> int:
            return (await self._sessions.handle(session, command, key=key)).version

        running = self.runners.of(session)
        taken = None if running is None else await running.steer(append)
        return await append() if taken is None else taken

    async def follow_up(
        self, session: SessionId, text: str, *, agent: str | None = None, key: str | None = None
    ) -> int:
        """Have something considered in the next turn. The version it got."""
        drafts = (Draft(FollowedUp(text=text), agent=agent),)
        return (await self._sessions.handle(session, do.Append(drafts=drafts), key=key)).version

    async def approve(
        self, session: SessionId, call: str, *, allowed: bool, note: str = "", key: str | None = None
    ) -> Begun:
        """Answer for a call that waits for a person; the turn goes on when it was the last."""
        command = do.Approve(call=call, allowed=allowed, note=note)
        await self._sessions.handle(session, command, key=key)
        if (running := self.runners.of(session)) is not None:
            return Begun(turn=running.turn, running=running)
        state = (await self._sessions.loader.load(session)).state
        open = state.turns.open
        if open is None:
            return Begun(turn=state.turns.count)
        if parked(open) or any(item.status is CallStatus.ASKED for item in open.calls.values()):
            return Begun(turn=open.number)
        return await self.begin(session, TurnRequest())

    async def interrupt(self, session: SessionId, reason: str = "interrupted") -> bool:
        """Stop the turn in flight, here or elsewhere; whether there was one."""
        if reason in RESERVED:
            raise Invalid(f"{reason!r} is what perdure itself says of a turn; give another reason", reason=reason)
        running = self.runners.of(session)
        if running is not None:
            running.stop(Stopped("interrupt", reason))
            await running.done.wait()
            return True
        return await self._desk.lifecycle.recover(session, reason=reason) is not None

    async def context(self, session: SessionId, request: TurnRequest) -> Context:
        """What the model would be asked with now."""
        from perdure.core.talk.parts import Said

        state = (await self._sessions.loader.load(session)).state
        desk = self._desk
        named = request.model or state.config.model
        route = desk.calling.route(None if named == AUTO else named)
        room = desk.pricing.window(route, desk.settings.window) - (request.max_tokens or desk.settings.max_tokens)
        tools = (*desk.tooling.offers(state), *request.tools)
        said = Said(role="user", blocks=request.blocks) if request.content is not None else None
        model = route.candidates[0].model
        shown = await reminded(desk, session, state, route, request, said, metered=False)
        return await desk.contexts.of(session, state, model, tools, window=room, said=said, remembered=shown)

    async def close(self) -> None:
        """Stop every turn that runs here, in good order."""
        for running in self.runners.all():
            running.stop(Stopped("shutdown", "shutdown"))
        while self._tasks:  # a turn that ends leaves its memories to be weighed
            await asyncio.wait(self._tasks)


def _busy(turn: int) -> TurnRefused:
    told = f"turn {turn} is still running; wait for it, or say what becomes of it: enqueue, interrupt or rollback"
    return TurnRefused(told, turn=turn, retry_after=1)


def _waited_for(session: SessionId, open: OpenTurn) -> TurnRefused:
    """What is said to whoever speaks while a turn waits: for whom, and how it goes on."""
    calls = ", ".join(parked(open) or open.calls)
    if parked(open):
        told = (
            f"turn {open.number} waits for a person to allow {calls}; see session.approvals() or "
            f"`perdure approvals {session}` and answer there, or interrupt it"
        )
    elif any(item.status is CallStatus.ALLOWED for item in open.calls.values()):
        told = (
            f"turn {open.number} has leave to run {calls}, and goes on with send() without words where its tools are; "
            "do that, or interrupt it"
        )
    else:
        told = f"turn {open.number} waits for {calls}; send the results, or interrupt it"
    return TurnRefused(told, turn=open.number, waiting=tuple(open.calls))


def _plain(error: PerdureError) -> dict[str, object]:
    return {name: value for name, value in error.fields.items() if isinstance(value, str | int | float | bool)}
