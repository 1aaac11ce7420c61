"""Destroying personal data and credentials in a session whose time is over.

Events whose content holds some are redacted; vars and scratchpads are written anew with what was found masked, in the
same append that destroys what they were made of. A crash in between leaves a session that can be scrubbed again.

A log may be shared. What a session that has not ended still shares is left to it: whoever of those that share it ends
last, and was asked to scrub, scrubs it. Redacting reaches every log that shares an event.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from perdure.core import scrub
from perdure.core.errors import GuardFailed, NotFound, VersionConflict
from perdure.core.session import codec
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.kinds import KINDS, blank
from perdure.core.session.lifecycle import TERMINAL
from perdure.core.session.scratchpad import Pad, ScratchpadWritten
from perdure.core.session.state import State
from perdure.core.session.values import STATE_LIMITS, same
from perdure.core.session.vars import VarsPatched
from perdure.ports.store import Head
from perdure.services.erasure import Erasure
from perdure.services.log import stretches
from perdure.services.sessions import Sessions

REASON: Final = "scrub"
ROUNDS: Final = 20
CHUNK: Final = 500
"""Events that one append destroys."""
_ENDED: Final = frozenset(phase.value for phase in TERMINAL)
_STATEFUL: Final = frozenset({VarsPatched.kind, ScratchpadWritten.kind})


class Scrubbed(msgspec.Struct, frozen=True, kw_only=True):
    """How many events held something, and what became of them: `shared` ones a living session needs, and `kept` ones
    carry structure the log stands on.
    """

    found: int = 0
    redacted: int = 0
    shared: int = 0
    kept: int = 0
    masked: int = 0


class Findings(msgspec.Struct):
    """What a look through a log brought: versions to redact by whose rows hold them, and what would be left."""

    head: Head
    bare: State
    doomed: dict[SessionId, list[int]] = {}
    stateful: set[int] = set()
    found: int = 0
    shared: int = 0
    kept: int = 0


class Scrubbing:
    """Looking for what must go, and making it go."""

    def __init__(self, sessions: Sessions, erasure: Erasure) -> None:
        self._sessions = sessions
        self._erasure = erasure

    async def scrub(self, session: SessionId, what: str) -> Scrubbed:
        """Destroy what of this sort the session holds; what was found, and what had to stay."""
        for _ in range(ROUNDS):
            try:
                return await self._scrub(session, what)
            except GuardFailed:  # somebody wrote meanwhile: look again
                continue
        raise VersionConflict(f"session {session} keeps changing; scrub it when it rests", session=session)

    async def _scrub(self, session: SessionId, what: str) -> Scrubbed:
        found = await self._sessions.log.steadily(session, lambda head: self._look(head, what))
        state = (await self._sessions.loader.load(session)).state
        mask = masking(state, found, what)
        own = found.doomed.pop(session, [])
        first = [version for version in own if version in found.stateful]
        rest = [version for version in own if version not in found.stateful]
        if mask is not None or first:
            await self._redact_masked(session, first, mask)
        for owner, versions in {session: rest, **found.doomed}.items():
            for chunk in _chunks(versions):
                await self._erasure.redact(owner, chunk, REASON)
        redacted = len(own) + sum(map(len, found.doomed.values()))
        changed = 0 if mask is None else len(mask.pads) + (not same(mask.document, state.vars.document))
        return Scrubbed(found=found.found, redacted=redacted, shared=found.shared, kept=found.kept, masked=changed)

    async def _redact_masked(self, session: SessionId, versions: list[int], mask: do.Mask | None) -> None:
        if versions:
            await self._erasure.redact(session, versions, REASON, mask=mask)
        else:
            await self._sessions.handle(session, do.Redact(versions=(), reason=REASON, mask=mask))

    async def _look(self, head: Head, what: str) -> Findings:
        """Read the whole log. The state is folded along, as it will be once what is found is gone."""
        found = Findings(head, states.BLANK)
        if head.anchor_digest is not None:
            found.bare = await self._sessions.loader.state_at(head.row.session, head.anchor_version)
        owners = [(item.upto, item.source, await self._needed(head, item.source)) for item in stretches(head)]
        async for page in self._sessions.log.pages(head, head.anchor_version):
            left = [self._judge(event, found, owners, what) for event in page]
            found.bare = states.fold(found.bare, left)
        return found

    def _judge(self, event: Event, found: Findings, owners: list[tuple[int, SessionId, int]], what: str) -> Event:
        """The event as it will be."""
        if event.redacted or not scrub.holds(codec.decode(event.entry.data, STATE_LIMITS), what):
            return event
        found.found += 1
        _, owner, needed = next(item for item in owners if event.version <= item[0])
        if not KINDS[event.kind].redactable or KINDS[event.kind].bound:
            found.kept += 1
            return event
        if event.version <= needed:
            found.shared += 1
            return event
        found.doomed.setdefault(owner, []).append(event.version)
        if event.kind in _STATEFUL:
            found.stateful.add(event.version)
        return Event(event.shared, event.entry, event.version, event.commitment, event.digest, blank(event.kind))

    async def _needed(self, head: Head, owner: SessionId) -> int:
        """Up to which version of these rows somebody else still needs what is there; all of it, if their owner does."""
        everything = head.row.version
        if owner != head.row.session:
            try:
                state = (await self._sessions.loader.load(owner)).state
            except NotFound:
                return everything
            if state.phase not in TERMINAL or state.config.scrub is None:
                return everything
        sharing = [
            item.upto
            for other in await self._sessions.store.dependents(owner)
            if other.row.session != head.row.session and other.row.phase not in _ENDED
            for item in other.segments
            if item.source == owner
        ]
        return max(sharing, default=0)


def masking(state: State, found: Findings, what: str) -> do.Mask | None:
    """What vars and scratchpads shall read like, if what is destroyed or what they hold makes that necessary."""
    document = scrub.masked(state.vars.document, what)
    pads = {}
    for agent, pad in state.scratchpads.pads.items():
        wanted = scrub.mask(pad.content, what)
        if wanted != found.bare.scratchpads.pads.get(agent, Pad()).content:
            pads[agent] = wanted
    if not pads and same(document, found.bare.vars.document):
        return None
    return do.Mask(version=found.head.row.version, bare=found.bare.vars.document, document=document, pads=pads)


def _chunks(versions: list[int]) -> Iterable[list[int]]:
    return (versions[place : place + CHUNK] for place in range(0, len(versions), CHUNK))
