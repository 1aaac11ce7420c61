"""Waking a session in place: everything is found out and decided first, then written, in two steps.

Phases: restore the state, rehydrate the context, recompute the token budget, rebind the tools, load the layers of
memory, verify integrity; then SUSPENDED → RESUMED with everything found, then RESUMED → ACTIVE.

Invariants: what is refused leaves the session asleep, nothing half-written; a crash between the two steps leaves it
RESUMED, and waking again goes on from there; of several who wake it at once, one does.
"""

from typing import Any, Final

import msgspec

from perdure.core.errors import CheckpointIntegrity, MemoryUnavailable, MoveRefused, Tampered, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session import waking
from perdure.core.session.answers import layer_of
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Phase
from perdure.core.session.state import State
from perdure.core.session.tools import Tools
from perdure.core.session.turns import TurnInterrupted
from perdure.core.session.values import clone
from perdure.core.session.waking import Scope, Standing, WakePolicy
from perdure.core.session.woken import Check, Interrupted, Layers, SessionMemory, Woken
from perdure.ports.waking import MemoryLayers, ToolRegistry
from perdure.services.accounts import account_of
from perdure.services.footing import Foundations, Ground
from perdure.services.foreign import Late, asked, fault, its_own_fault
from perdure.services.lifecycle import Lifecycle
from perdure.services.rebinding import held, rebound
from perdure.services.rehydration import Rehydration
from perdure.services.sessions import Outcome, Sessions
from perdure.services.toolbox import Toolbox

ROUNDS: Final = 100
LOADED: Final = ("episodic", "semantic", "procedural")
_LAST: Final = do.MoveTo(event="reactivate")
"""The step an idempotency key is remembered with: a waking is done when the session is ACTIVE."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What waking will write, and the report of it as far as that is known."""

    command: do.Wake
    version: int
    report: Woken
    tools: Tools
    standing: Standing


class Waking:
    """The protocol, and what it asks of the world. Each of the ports may be replaced."""

    def __init__(self, sessions: Sessions, lifecycle: Lifecycle) -> None:
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._foundations = Foundations(sessions)
        self.rehydration = Rehydration(sessions.ambient, sessions.log)
        self.toolbox = Toolbox()
        self.tools: ToolRegistry = self.toolbox
        self.memory: MemoryLayers | None = None
        self.policy = WakePolicy()

    async def wake(
        self,
        session: SessionId,
        policy: WakePolicy | None = None,
        *,
        expected: int | None = None,
        key: str | None = None,
    ) -> Woken:
        """Have a suspended session go on, and tell how. `WakeRefused` and its kinds say why it does not.

        `VersionConflict` when somebody else woke it meanwhile. With a key, a repeated call changes nothing.
        """
        chosen = self.policy if policy is None else policy
        if await self._sessions.repeated(session, key, _LAST) is not None:
            return await self._again(session, chosen)
        asleep = await self._state(session)
        if expected is not None and asleep.version != expected:
            raise _gone_on(asleep, "reload and decide again")
        waking.must_sleep(asleep)
        for _ in range(ROUNDS):
            plan = await self._plan(session, chosen)
            try:
                resumed = await self._lifecycle.carry_out(session, plan.command, expected=expected or plan.version)
            except (VersionConflict, MoveRefused):
                if expected is not None or (await self._state(session)).phase is not asleep.phase:
                    return await self._lost(session, key, chosen)
                continue
            return await self._reactivate(session, plan, resumed, key, chosen)
        raise _gone_on(await self._state(session), "it kept changing; try again")

    async def _state(self, session: SessionId) -> State:
        return (await self._sessions.loader.load(session)).state

    # ── deciding ──

    async def _plan(self, session: SessionId, policy: WakePolicy) -> Plan:
        """Every phase but the moves; what costs nothing is decided before others are asked."""
        ground = await self._ground(session, policy)
        state, scope = ground.state, waking.scope_of(ground.state, self._sessions.identity.who)
        tokens = waking.token_budget(state, policy)
        waking.must_suffice(state, tokens, policy)
        tools = await rebound(self.tools, state, scope)
        evidence = await self.rehydration.rehydrated(ground.head, state, scope, policy)
        memory = await self._layers(state, scope, policy)
        bound = waking.bound_events(tools.values())
        left, standing = waking.planned(state, bound), await self._standing(state)
        checks = waking.integrity(left, standing, policy.excuse)
        waking.must_add_up(session, checks)
        found = waking.retrievals(evidence, state.quality.wanted) if policy.record_evidence else ()
        report = Woken(
            session=session,
            version=state.version,
            phase=state.phase,
            tokens=tokens,
            restored=ground.footing,
            evidence=evidence,
            tools=tools,
            memory=memory,
            checks=checks,
            interrupted=ground.interrupted,
            reserved=dict(state.budget.open),
        )
        command = do.Wake(tools=bound, retrievals=found)
        return Plan(command=command, version=state.version, report=report, tools=left.tools, standing=standing)

    async def _ground(self, session: SessionId, policy: WakePolicy) -> Ground:
        try:
            return await self._foundations.ground(session, policy)
        except CheckpointIntegrity:
            raise
        except Tampered as damage:
            raise waking.breach(session, (Check(name="chain", ok=False, what=damage.message),)) from damage

    async def _standing(self, state: State) -> Standing:
        """What lies beside the log and has to agree with it: the account a session owns, and its open children."""
        owns = state.origin.account == state.session and state.config.max_cost is not None
        account = await account_of(self._sessions.store, self._sessions.loader, state) if owns else None
        here = set()
        for child in state.children.open:
            head = await self._sessions.store.head(SessionId(child))
            if head is not None and head.row.tenant == state.tenant:
                here.add(child)
        return Standing(account=account, children=frozenset(here))

    async def _layers(self, state: State, scope: Scope, policy: WakePolicy) -> Layers:
        """Memory as a session that wakes has it: working reset, session restored, the others loaded."""
        loaded: dict[str, tuple[Any, ...]] = {}
        failed: dict[str, str] = {}
        for name in LOADED:
            try:
                load = getattr(self.memory, name, None)
                answer = None if load is None else await asked(load, scope, seconds=policy.deadline)
                with its_own_fault():
                    loaded[name] = layer_of(answer)
            except Late:
                failed[name] = f"there was no answer within {policy.deadline:g} seconds"
            except Exception as error:  # a provider is foreign code: whatever it raises is its failure
                failed[name] = fault(error)
        if failed and policy.require_memory:
            why = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
            raise MemoryUnavailable(
                f"memory of session {state.session} could not be loaded ({why}); mend its provider and wake it again",
                session=state.session,
                layers=tuple(failed),
            )
        pads = {name: pad.content for name, pad in state.scratchpads.pads.items()}
        own = SessionMemory(vars=clone(state.vars.document), scratchpads=pads)
        return Layers(session=own, failed=failed, **loaded)

    # ── going on ──

    async def _reactivate(
        self, session: SessionId, plan: Plan, resumed: Outcome, key: str | None, policy: WakePolicy
    ) -> Woken:
        """RESUMED → ACTIVE, if the session still is as this waking left it and adds up."""
        for _ in range(ROUNDS):
            state = await self._state(session)
            if state.phase is not Phase.RESUMED or state.tools != plan.tools:
                return await self._lost(session, key, policy)
            checks = waking.integrity(state, plan.standing, policy.excuse)
            waking.must_add_up(session, checks)
            try:
                done = await self._lifecycle.carry_out(session, _LAST, expected=state.version, key=key)
            except (VersionConflict, MoveRefused):
                continue
            return msgspec.structs.replace(
                plan.report,
                version=done.version,
                phase=Phase.ACTIVE,
                checks=checks,
                interrupted=_closed(resumed) or plan.report.interrupted,
            )
        raise _gone_on(await self._state(session), "it kept changing; try again")

    async def _lost(self, session: SessionId, key: str | None, policy: WakePolicy) -> Woken:
        """Somebody else was first: the same report if the key says that it was this very request, else a conflict."""
        if await self._sessions.repeated(session, key, _LAST) is not None:
            return await self._again(session, policy)
        state = await self._state(session)
        alone = state.phase is Phase.SUSPENDED
        raise _gone_on(state, "reload and decide again" if alone else "somebody else is waking it: reload, and go on")

    async def _again(self, session: SessionId, policy: WakePolicy) -> Woken:
        """How a session stands that an earlier call with the same key has woken."""
        head, state = await self._sessions.log.head(session), await self._state(session)
        scope = waking.scope_of(state, self._sessions.identity.who)
        lenient = msgspec.structs.replace(policy, require_memory=False)
        return Woken(
            session=session,
            version=state.version,
            phase=state.phase,
            tokens=waking.token_budget(state, policy),
            evidence=await self.rehydration.recorded(head, state, policy),
            tools=await held(self.tools, state),
            memory=await self._layers(state, scope, lenient),
            reserved=dict(state.budget.open),
            repeated=True,
        )


def _closed(resumed: Outcome) -> Interrupted | None:
    """The turn that waking itself closed."""
    for event in resumed.events:
        if isinstance(event.data, TurnInterrupted):
            data = event.data
            return Interrupted(turn=event.turn, version=event.version, reason=data.reason, unfinished=data.unfinished)
    return None


def _gone_on(state: State, advice: str) -> VersionConflict:
    return VersionConflict(
        f"session {state.session} is {state.phase.value} at version {state.version}; {advice}",
        session=state.session,
        found=state.version,
        phase=state.phase.value,
    )
