"""Children: sessions of their own that do a task for another one, side by side, and report to it when they are done.

The parent's log says first that a child will be, with everything it is begun with; then the child is made, has its
turn, and ends; then the parent's log says what came of it. Each of these steps can be taken again by anybody, and does
nothing the second time: so whoever finds a child whose process died carries it on from where it is.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from perdure.core.access.isolation import NESTED
from perdure.core.errors import (
    AlreadyExists,
    ConflictError,
    Invalid,
    NotFound,
    PerdureError,
    ProviderFailed,
    Refused,
    Terminal,
    TooLarge,
    TurnRefused,
    WorldError,
)
from perdure.core.session import caps, slices
from perdure.core.session import commands as do
from perdure.core.session.budget import LIMITS
from perdure.core.session.children import Spawned
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId, is_id
from perdure.core.session.lifecycle import TERMINAL, Phase
from perdure.core.session.origin import Config, Isolation
from perdure.core.session.state import State
from perdure.core.talk.children import (
    Child,
    SpawnRequest,
    children_in,
    conversation,
    narrowed,
    onward,
    opening,
    titled,
)
from perdure.core.talk.permitting import EXTRA
from perdure.core.talk.routes import AUTO
from perdure.core.talk.turning import TurnOutcome, TurnRequest
from perdure.services.accounts import account_of
from perdure.services.broods import Brood
from perdure.services.desk import Desk
from perdure.services.loading import Loaded
from perdure.services.nodes import is_gone
from perdure.services.running import LEASE, POLL
from perdure.services.sessions import Extra
from perdure.services.slices import Slices
from perdure.services.talking import Talking

ATTEMPTS: Final = 3
"""How often a child is begun anew whose turn a crash ended."""
LOOK: Final = 0.5
"""Seconds between two looks at a child that waits for a person, or works elsewhere."""
WATCH: Final = 2.0
"""Seconds between two looks at the parent of a child at work."""
_CUT_OFF: Final = ("shutdown", "crash")
"""Why a turn ended that nobody wanted to end."""


class Spawning:
    """What edges call."""

    def __init__(self, desk: Desk, talking: Talking) -> None:
        self._desk = desk
        self._talking = talking
        self._sessions = desk.sessions
        self._slices = Slices(desk.sessions)
        self._brood = Brood(desk.sessions)
        self._tasks: dict[SessionId, asyncio.Task[None]] = {}
        self._closing = False

    # ── beginning ──

    async def spawn(self, parent: SessionId, request: SpawnRequest, *, key: str | None = None) -> Child:
        """Begin a child, which works by itself from there. With a key, repeating the call gives the first one's child.

        `SpawnRefused` when the session is a child itself, `BudgetExhausted` when its slice cannot be had: then nothing
        is changed.
        """
        desk = self._desk
        state = (await self._sessions.loader.load(parent)).state
        model = request.model or desk.calling.models.cheap or desk.calling.models.default
        if model != AUTO:
            desk.calling.route(model)
        self._tools(state, request.tools)
        child = SessionId(self._sessions.fresh_id())
        wanted = _slice(request)
        reserve, moves = (None, ()) if wanted is None else slices.opening(parent, child, wanted, ())
        command = do.Spawn(
            child=child,
            task=request.task,
            context=request.context or "",
            model=model,
            max_tokens=request.max_tokens or 0,
            returns=request.return_format,
            tools=request.tools,
            strategy=request.strategy,
            agent=request.agent or state.origin.agent_id,
            node=desk.node,
            slice=reserve,
        )

        async def extra(loaded: Loaded) -> Extra:
            if wanted is None:
                await self._must_be_shared(loaded.state)
            else:
                slices.opening(parent, child, wanted, await self._slices.limited(loaded.state))
            return Extra(accounts=moves)

        asked = [msgspec.to_builtins(request)]
        outcome = await self._sessions.handle(parent, command, key=key, extra=extra, asked=asked)
        log, first, last = self._sessions.log, outcome.first - 1, outcome.version
        events = list(outcome.events) or await log.steadily(parent, lambda head: log.events(head, first, last))
        born = next(event for event in events if event.kind == Spawned.kind)
        found = await self._brood.told(parent, {str(born.target)}) if outcome.repeated else children_in((born,))
        if found[0].status == "running":
            await self._made(parent, born)
            self._carry(parent, born)
        return found[0]

    async def _must_be_shared(self, state: State) -> None:
        """`Invalid` when a session may spend less than its account has: a child could spend the rest."""
        store, loader = self._sessions.store, self._sessions.loader
        for limit, cap in caps.caps_of(state.config).items() if state.origin.account != state.session else ():
            whole = (await account_of(store, loader, state, limit)).cap
            if whole is None or cap < whole:
                told = f"this session may use less {limit} than its account has; give the child its part as max_cost"
                raise Invalid(told, session=state.session, limit=limit)

    def _tools(self, state: State, names: tuple[str, ...] | None) -> Any:
        """The rules for a child's tools: the parent's, for those it is given."""
        rules = state.config.extra.get(EXTRA)
        if names is None:
            return rules
        known, bare = self._desk.tooling, State()
        for name in names:
            if not known.knows(name, state):
                there = ", ".join(tool.name for tool in known.offers(state)) or "none"
                raise Invalid(f"there is no tool {name!r:.80} here to give to a child; there are {there}", tool=name)
        return narrowed(rules, {name: known.permission(bare, name, {}).do for name in names})

    async def _made(self, parent: SessionId, born: Event) -> None:
        """Make the child, unless it is there."""
        data, child = born.data, SessionId(born.target or "")
        if not isinstance(data, Spawned) or not data.task:
            return
        state = (await self._sessions.loader.load(parent)).state
        rules = self._tools(state, data.tools)
        command = do.Create(
            owner=state.origin.owner,
            title=titled(data.task),
            config=Config(
                model=data.model or None,
                criticality=state.config.criticality,
                extra={} if rules is None else {EXTRA: rules},
            ),
            isolation=Isolation(model=NESTED, task=child),
            account=slices.account_of(parent, child) if _is_sliced(state, child) else state.origin.account,
            agent_id=born.agent,
            activate=True,
            spawner=parent,
        )
        with suppress(AlreadyExists):
            await self._sessions.create(command, session=child)

    # ── carrying on ──

    def _carry(self, parent: SessionId, born: Event) -> None:
        child = SessionId(born.target or "")
        if child in self._tasks:
            return
        task = asyncio.create_task(self._carried(parent, child, born))
        self._tasks[child] = task
        task.add_done_callback(lambda _: self._tasks.pop(child, None))

    async def _carried(self, parent: SessionId, child: SessionId, born: Event) -> None:
        """A child to its end. What only time can mend is left for `recover`."""
        for _ in range(ATTEMPTS):
            try:
                await self._done(parent, child, born)
            except (TurnRefused, ConflictError):  # somebody else is at it
                await self._desk.ambient.sleep(LOOK)
                continue
            except PerdureError as error:
                if isinstance(error, ProviderFailed) or not isinstance(error, WorldError):
                    with suppress(WorldError, ConflictError):
                        await self._end(parent, child, None, f"{error.code}: {error.message}")
            return

    async def _done(self, parent: SessionId, child: SessionId, born: Event) -> None:
        data = born.data
        if not isinstance(data, Spawned) or not data.task:
            await self._end(parent, child, None, "what it was to do was redacted")
            return
        await self._made(parent, born)
        outcome = await self._worked(parent, child, born)
        if not self._closing:
            error = "" if outcome.status == "finished" else f"its turn was {outcome.status}: {outcome.reason}"
            await self._end(parent, child, outcome, error, full=data.returns == "full")

    async def _worked(self, parent: SessionId, child: SessionId, born: Event) -> TurnOutcome:
        """What came of the child's turn; one that a crash ended is begun anew."""
        data = born.data
        assert isinstance(data, Spawned)
        request, attempts = opening(data, key=f"spawned-{child}"), 0
        while True:
            outcome = await self._watched(parent, child, msgspec.structs.replace(request, agent=born.agent))
            outcome, attempts = await self._over(parent, child, outcome), attempts + 1
            cut_off = outcome.status == "interrupted" and outcome.reason in _CUT_OFF
            if not cut_off or self._closing or attempts >= ATTEMPTS:
                return outcome
            request = onward(data)

    async def _watched(self, parent: SessionId, child: SessionId, request: TurnRequest) -> TurnOutcome:
        """A turn of a child, which is stopped when nobody is left to report to."""
        turn = asyncio.ensure_future(self._talking.run(child, request))
        try:
            while not (await asyncio.wait({turn}, timeout=WATCH))[0]:
                if await self._is_over(parent):
                    await self._talking.interrupt(child, "its parent ended")
            return turn.result()
        finally:
            turn.cancel()

    async def _over(self, parent: SessionId, child: SessionId, outcome: TurnOutcome) -> TurnOutcome:
        """The turn when it waits for nobody any more, and the latest one by then."""
        while True:
            state = (await self._sessions.loader.load(child)).state
            if outcome.turn != state.turns.count:
                outcome = await self._talking.outcome(child, state.turns.count)
            if outcome.status not in ("parked", "tools", "open"):
                return outcome
            if state.phase in TERMINAL or await self._is_over(parent):
                raise Terminal(f"session {child} or its parent was ended", session=child, parent=parent)
            running = self._talking.runners.of(child)
            if running is None:
                await self._desk.ambient.sleep(LOOK)
            else:
                await running.done.wait()
            outcome = await self._talking.outcome(child, outcome.turn)

    async def _end(
        self, parent: SessionId, child: SessionId, outcome: TurnOutcome | None, error: str, *, full: bool = False
    ) -> None:
        """End the child, and tell its parent."""
        phase, spent = "erased", 0
        result: Any = None
        with suppress(NotFound):
            if full:
                log = self._sessions.log
                result = conversation(await log.steadily(child, lambda head: log.events(head, head.anchor_version)))
            elif outcome is not None:
                result = outcome.text
            with suppress(Refused):  # ended by somebody else, or a hook wants it kept
                await self._desk.lifecycle.move(child, "terminate" if error else "complete", error or "done")
            state = (await self._sessions.loader.load(child)).state
            spent, over = state.budget.spent, Phase.TERMINATED if error else Phase.COMPLETED
            phase = (state.phase if state.phase in TERMINAL else over).value
        told = do.FinishChild(child=child, phase=phase, result=result, error=error, spent=spent)
        with suppress(NotFound):  # the parent is gone
            await self._settled(parent, child)
            try:
                await self._sessions.handle(parent, told)
            except TooLarge:
                await self._sessions.handle(parent, msgspec.structs.replace(told, result=_cut(child, outcome)))

    async def _settled(self, parent: SessionId, child: SessionId) -> None:
        """Return what is left of the child's slice, if it had one."""
        if _is_sliced((await self._sessions.loader.load(parent)).state, child):
            await self._slices.close_slice(parent, child)

    # ── looking after ──

    async def recover(self, parent: SessionId) -> tuple[SessionId, ...]:
        """Carry on the children whose process died, and settle what they left; which ones are carried on."""
        state = (await self._sessions.loader.load(parent)).state
        for name in state.budget.open:
            if is_id(name) and name not in state.children.open and await self._is_over(SessionId(name)):
                with suppress(NotFound):  # a reservation of the application's that only looks like one
                    await self._slices.close_slice(parent, SessionId(name))
        left = {name for name in state.children.open if SessionId(name) not in self._tasks}
        found = list[SessionId]()
        for born in await self._brood.events(parent, left) if left else ():
            child = SessionId(born.target or "")
            if born.kind == Spawned.kind and child in left and not await self._lives(born):
                self._carry(parent, born)
                found.append(child)
        return tuple(found)

    async def _is_over(self, session: SessionId) -> bool:
        try:
            return (await self._sessions.loader.load(session)).state.phase in TERMINAL
        except NotFound:
            return True

    async def _lives(self, born: Event) -> bool:
        """Whether somebody may still be at work on a child. Where that cannot be known, it is for a while."""
        child, data = SessionId(born.target or ""), born.data
        node = data.node if isinstance(data, Spawned) else ""
        try:
            loaded = await self._sessions.loader.load(child)
        except NotFound:
            loaded = None
        if loaded is not None and (loaded.state.turns.open is not None or loaded.state.budget.asked):
            return await self._desk.leases.lives(child, loaded)
        if node == self._desk.node or is_gone(node):
            return False
        since = born.at if loaded is None else loaded.at
        return self._desk.ambient.now() - since < LEASE

    async def children(self, parent: SessionId) -> tuple[Child, ...]:
        """All that a session ever spawned, the first one first, as they stand."""
        state = (await self._sessions.loader.load(parent)).state
        if not state.children.open and not state.children.finished:
            return ()
        return tuple(await self._brood.told(parent, None))

    async def wait(
        self, parent: SessionId, children: Iterable[str] | None = None, patience: float | None = None
    ) -> tuple[Child, ...]:
        """These children, or all that are at work, when they have ended; after so many seconds, as they stand."""
        state = (await self._sessions.loader.load(parent)).state
        asked = dict.fromkeys(state.children.open if children is None else children)
        wanted = set(asked)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while wanted & state.children.open.keys():
                    await self.recover(parent)
                    await self._any_of(wanted)
                    state = (await self._sessions.loader.load(parent)).state
        found = await self._brood.told(parent, wanted)
        known = {child.session for child in found}
        if missing := tuple(child for child in asked if child not in known):  # in the caller's order, whoever they are
            raise NotFound(
                f"session {parent} spawned no {', '.join(missing)}; see its children", session=parent, children=missing
            )
        return tuple(found)

    async def _any_of(self, wanted: set[str]) -> None:
        """Until one of these may have ended."""
        tasks = [task for child, task in self._tasks.items() if child in wanted]
        if tasks:
            await asyncio.wait(tasks, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
        else:
            await self._desk.ambient.sleep(POLL)

    async def close(self) -> None:
        """Let go of the children; whoever comes next carries them on."""
        self._closing = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _slice(request: SpawnRequest) -> slices.Slice | None:
    """How much of its parent's budget a child gets for itself."""
    if request.max_cost is not None:
        return slices.Slice(cost=request.max_cost, tokens=request.tokens, rounds=request.rounds)
    if request.tokens is not None or request.rounds is not None:
        raise Invalid(
            f"tokens and rounds of a child go with max_cost; give all of {', '.join(LIMITS)} that are limited"
        )
    return None


def _is_sliced(parent: State, child: str) -> bool:
    """Whether a child has a slice, and it is open."""
    return child in parent.budget.open


def _cut(child: SessionId, outcome: TurnOutcome | None) -> list[dict[str, Any]]:
    """What is handed over of a conversation that is too large: its last answer, and where the rest is."""
    told = f"the conversation is too large to be handed over; read that of session {child}"
    answer = [] if outcome is None else [{"role": "assistant", "content": outcome.text}]
    return [{"role": "system", "content": told}, *answer]
