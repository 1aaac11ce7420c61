"""Conversations carried on elsewhere: written down as they come, taken back when they are."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from perdure.core.errors import VersionConflict
from perdure.core.session import commands as do
from perdure.core.session import vars as variables
from perdure.core.session.ids import SessionId
from perdure.core.session.turns import ToolAsked
from perdure.ports.store import Commit
from perdure.services.loading import Loaded, stale
from perdure.services.sessions import RETRIES, Extra, Outcome, Sessions

NO_OTHERS: Final[Mapping[SessionId, dict[str, Any]]] = MappingProxyType({})


class Recording:
    """Writes what a framework hands over."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def record(
        self,
        session: SessionId,
        command: do.Record,
        *,
        expected: int | bytes | None,
        key: str | None,
        others: Mapping[SessionId, dict[str, Any]] = NO_OTHERS,
    ) -> Outcome:
        """Append the drafts, with turns opened and closed around them; fields of other sessions' vars change in the
        same append.
        """
        if command.replacing is not None:
            _, calls = await self._asked(session, command.replacing, None)
            command = msgspec.structs.replace(command, calls=calls)
        if command.retracted:
            found = [(item, (await self._asked(session, item.first, item.upto))[1]) for item in command.retracted]
            retracted = tuple(msgspec.structs.replace(item, calls=calls) for item, calls in found)
            command = msgspec.structs.replace(command, retracted=retracted)
        if not others:
            return await self._sessions.handle(session, command, expected=expected, key=key)

        async def carry(_: Loaded) -> Extra:
            found = [await self._patched(other, changes) for other, changes in sorted(others.items())]
            return Extra(others=tuple(commit for commit in found if commit is not None))

        for _ in range(RETRIES):
            try:
                return await self._sessions.handle(session, command, expected=expected, key=key, extra=carry)
            except VersionConflict:  # one of the others went on meanwhile, or this one did
                if stale(await self._sessions.loader.load(session), expected):
                    raise
        raise VersionConflict(f"the sessions changed along with {session} keep changing; try again", session=session)

    async def _patched(self, session: SessionId, fields: dict[str, Any]) -> Commit | None:
        """The change of some fields of a session's vars; None when they are so already."""
        while True:
            state = (await self._sessions.loader.load(session)).state
            document = {**state.vars.document, **fields}
            if variables.change(state.vars, document) is None:
                return None
            commit = await self._sessions.prepared(session, do.SetVars(document=document))
            if commit.expected == state.version:  # else somebody changed fields in between: start from those
                return commit

    async def retract(
        self, session: SessionId, first: int, upto: int | None, reason: str, *, expected: int | None, key: str | None
    ) -> Outcome:
        """Take versions out of the conversation, to the end unless told how far."""
        last, calls = await self._asked(session, first, upto)
        command = do.Retract(first=first, upto=last, calls=calls, reason=reason)
        return await self._sessions.handle(session, command, expected=expected, key=key)

    async def _asked(self, session: SessionId, first: int, upto: int | None) -> tuple[int, tuple[str, ...]]:
        """The last of the versions that are taken out, and the calls of the open turn that were asked there."""
        state = (await self._sessions.loader.load(session)).state
        last = state.version if upto is None else upto
        open = state.turns.open
        if open is None or not open.calls or first <= open.version:
            return last, ()
        log = self._sessions.log
        events = await log.steadily(session, lambda head: log.events(head, first - 1, last))
        return last, tuple(event.target or "" for event in events if event.kind == ToolAsked.kind)
