"""Moving sessions along their lifecycle: hooks before and after, compensations on the way down, turns recovered."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.core.errors import HookRefused, Invalid
from perdure.core.session import commands as do
from perdure.core.session.decide import Facts, decide
from perdure.core.session.event import Draft
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import MOVE_NAMES, Moved, Phase
from perdure.core.session.shown import told
from perdure.core.session.turns import TurnInterrupted, Unfinished
from perdure.ports.store import Query
from perdure.services.foreign import its_own_fault
from perdure.services.sessions import Outcome, Sessions

Hook = Callable[[SessionId, Moved], Awaitable[None]]
Undo = Callable[[SessionId, dict[str, Any]], Awaitable[None]]
EVERY = "*"


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """A turn whose writer died, now closed: which tools to retry, under which keys."""

    session: SessionId
    turn: int | None
    version: int
    unfinished: tuple[Unfinished, ...]


class Lifecycle:
    """Moves with everything that belongs to them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._before: dict[str, list[Hook]] = {}
        self._after: dict[str, list[Hook]] = {}
        self._undo: dict[str, Undo] = {}

    def hook(self, when: str, move: str, hook: Hook) -> None:
        """Call `hook` before or after a move, or every move (`*`). One that raises before a move stops it."""
        if move != EVERY and move not in MOVE_NAMES:
            raise Invalid(f"{move!r} is not a move; use one of {', '.join(MOVE_NAMES)} or *", move=move)
        (self._before if when == "before" else self._after).setdefault(move, []).append(hook)

    def compensation(self, name: str, undo: Undo) -> None:
        """Say how to run compensations registered under a name."""
        self._undo[name] = undo

    async def move(
        self, session: SessionId, event: str, reason: str = "", *, expected: int | None = None, key: str | None = None
    ) -> Outcome:
        """Move along the table. Refused moves change nothing; hooks after a move see it done."""
        return await self.carry_out(session, do.MoveTo(event=event, reason=reason), expected=expected, key=key)

    async def carry_out(
        self,
        session: SessionId,
        command: do.MoveTo | do.Wake,
        *,
        expected: int | None = None,
        key: str | None = None,
    ) -> Outcome:
        """A move, alone or with what else its append says, and the hooks around it."""
        if (before := await self._sessions.repeated(session, key, command)) is not None:
            return before
        await self._announce(session, command)
        outcome = await self._sessions.handle(session, command, expected=expected, key=key)
        moved = next((item.data for item in reversed(outcome.events) if isinstance(item.data, Moved)), None)
        if moved is None:
            return outcome
        if moved.to is Phase.TERMINATED:
            await self.compensate(session)
        for hook in [*self._after.get(command.event, ()), *self._after.get(EVERY, ())]:
            await hook(session, moved)
        return outcome

    async def _announce(self, session: SessionId, command: do.MoveTo | do.Wake) -> None:
        """Ask the hooks before the move, but only about a move that would be made."""
        hooks = [*self._before.get(command.event, ()), *self._before.get(EVERY, ())]
        if not hooks:
            return
        loaded = await self._sessions.loader.load(session)
        decided = decide(loaded.state, command, Facts(at=self._sessions.ambient.now()))
        drafts = [item.payload for item in decided if isinstance(item, Draft)]
        moved = next((item for item in reversed(drafts) if isinstance(item, Moved)), None)
        for hook in hooks if moved is not None else ():
            try:
                await hook(session, moved)
            except Exception as refusal:  # the hook is foreign code: whatever it raises is its no
                raise HookRefused(
                    f"a hook before {command.event!r} said no: {told(refusal)}", event=command.event, session=session
                ) from refusal

    async def compensate(self, session: SessionId) -> tuple[str, ...]:
        """Run what is registered and not yet run, last first; the names that nobody here knows how to run.

        Each run is noted, so a crash in between repeats at most the one that was running.
        """
        state = (await self._sessions.loader.load(session)).state
        unknown: list[str] = []
        for index in range(len(state.life.compensations) - 1, -1, -1):
            item = state.life.compensations[index]
            if item.done:
                continue
            undo = self._undo.get(item.name)
            if undo is None:
                unknown.append(item.name)
                continue
            error = await _attempt(undo, session, item.arguments)
            note = do.NoteCompensation(index=index, name=item.name, error=error)
            await self._sessions.handle(session, note)
        return tuple(unknown)

    async def recover(self, session: SessionId, reason: str = "crash", text: str = "") -> Recovered | None:
        """Close the turn whose writer died; None when none is open."""
        outcome = await self._sessions.handle(session, do.Recover(reason=reason, text=text))
        for event in outcome.events:
            if isinstance(event.data, TurnInterrupted):
                return Recovered(
                    session=session, turn=event.turn, version=event.version, unfinished=event.data.unfinished
                )
        return None

    async def recover_all(self) -> list[Recovered]:
        """Close every open turn in the store. Call it when no other process is at work on it."""
        found: list[Recovered] = []
        query = Query(tenant=self._sessions.identity.tenant, open_turn=True, limit=500)
        while rows := await self._sessions.store.find(query):
            for row in rows:
                closed = await self.recover(row.session)
                found += [closed] if closed is not None else []
        return found


async def _attempt(undo: Undo, session: SessionId, arguments: dict[str, Any]) -> str | None:
    try:
        with its_own_fault(waits=True):
            await undo(session, arguments)
    except Exception as error:  # foreign code: the failure is noted in the log and the next one still runs
        return told(error)
    return None
