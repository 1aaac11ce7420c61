"""Compaction before the window is full: old turns give way to a summary and to what must be preserved exactly.

The summary comes from whom the session's strategy names (see `summarising`), or from the turns' own words. Works under
asyncio alone.

Hooks `before_compact` are told what goes. One that answers False, or raises `HookRefused`, stops the compaction; a
text, texts, or documents under names are preserved too. One that raises anything else, or is late, is passed over and
noted in the log: the window must not overflow for somebody's mistake.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from perdure.core.errors import HookRefused, Invalid, NotFound, Refused, SessionIntegrity, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Compaction
from perdure.core.session.recording import Noted
from perdure.core.session.shown import told
from perdure.core.session.state import State
from perdure.core.session.turns import Compacted
from perdure.core.talk import compacting, preserving
from perdure.core.talk.compacting import Plan
from perdure.core.talk.content import json_text
from perdure.core.talk.history import takes_back
from perdure.core.talk.prices import Prices
from perdure.core.talk.profiles import Profile, profile_of
from perdure.core.talk.tokens import estimate
from perdure.ports.store import Head
from perdure.services.calling import Calling
from perdure.services.foreign import Late, asked
from perdure.services.sessions import Sessions
from perdure.services.summarising import STRATEGIES, Bill, Summarising

BEFORE: Final = "before_compact"
USUAL: Final = Compaction()
"""How a session is compacted that does not say."""
TIMEOUT: Final = 10.0
"""Seconds that a hook may take."""
ROUNDS: Final = 50
"""How often writing is tried again when the session goes on meanwhile."""


class Going(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is told: the versions up to `upto` go, which are so many turns, and this is preserved of them."""

    session: SessionId
    upto: int
    turns: int
    profile: str
    preserved: dict[str, Any]


Hook = Callable[[Going], Any]


class Compacting:
    """Compacts sessions."""

    def __init__(self, sessions: Sessions, calling: Calling, prices: Prices, *, node: str = "") -> None:
        self._sessions = sessions
        self._summarising = Summarising(sessions, calling, prices, node)
        self._hooks: list[tuple[Hook, float | None]] = []
        self._busy: set[SessionId] = set()

    def hook(self, when: str, run: Hook, timeout: float | None = TIMEOUT) -> None:
        """Have `run`, plain or async, called before each compaction."""
        if when != BEFORE:
            raise Invalid(f"{when!r} is no moment of a compaction; use {BEFORE}", when=when)
        self._hooks.append((run, timeout))

    async def compact(
        self, session: SessionId, *, window: int, force: bool = False, tokens: int | None = None, apart: int = 0
    ) -> Compacted | None:
        """Compact the session if that is due, or with `force` if there is anything to sum up; None when nothing was
        done: there is nothing new, a hook said no, or somebody else was at it.

        `tokens` are those of the context; without them the conversation is counted, and `apart` added: what stands
        beside it.
        """
        if session in self._busy:
            return None
        known = self._sessions.loader.recent(session)
        rules = USUAL if known is None else known.state.config.compaction or USUAL
        if not force and known is not None and tokens is not None and not compacting.due(tokens, window, rules):
            return None
        self._busy.add(session)
        try:
            return await self._compact(session, window, force, tokens, apart)
        finally:
            self._busy.discard(session)

    async def _compact(
        self, session: SessionId, window: int, force: bool, tokens: int | None, apart: int
    ) -> Compacted | None:
        state, events = await self._read(session)
        rules = state.config.compaction or USUAL
        profile = profile_of(rules.preserve)
        if rules.strategy not in STRATEGIES:
            told_of = f"{rules.strategy!r} is no strategy of compaction; use one of {', '.join(STRATEGIES)}"
            raise Invalid(told_of, strategy=rules.strategy)
        if not force and not compacting.due(_tokens(events, apart) if tokens is None else tokens, window, rules):
            return None
        plan = compacting.chosen(events, state, rules, window=window, apart=apart)
        if plan is None:
            return None
        heard = await self._announced(session, state, plan, profile, window)
        if heard is None:
            return None
        added, notes = heard
        document = _preserved(state, plan, profile, window, added)
        room = compacting.summary_room(window)
        bill = await self._summarising.asked(session, state, plan, profile, rules, room)
        summary = (bill.summary if bill is not None else "") or compacting.extractive(plan, room)
        compacted = Compacted(upto=plan.upto, summary=summary, preserved=document)
        return await self._written(session, state, compacted, notes, bill)

    async def _read(self, session: SessionId) -> tuple[State, list[Event]]:
        """The session, and what was said since the last compaction that counts."""

        async def read(head: Head) -> tuple[State, list[Event]]:
            state = (await self._sessions.loader.load(session)).state
            if state.version != head.row.version:
                head = await self._sessions.log.head(session)
            start = max(state.turns.compacted_to, head.anchor_version)
            events = await self._sessions.log.events(head, start, state.version)
            last = compacting.latest(events)
            if start > head.anchor_version and (last is None or last[1].upto < state.turns.compacted_to):
                events = await self._sessions.log.events(head, head.anchor_version, state.version)
            return state, events

        return await self._sessions.log.steadily(session, read)

    # ── hooks ──

    async def _announced(
        self, session: SessionId, state: State, plan: Plan, profile: Profile, window: int
    ) -> tuple[preserving.Added, list[Payload]] | None:
        """What hooks add, and notes of those that failed; None when one says no."""
        added, notes = preserving.NOTHING, list[Payload]()
        for run, timeout in self._hooks:
            call = Going(
                session=session,
                upto=plan.upto,
                turns=len(plan.turns),
                profile=profile.name,
                preserved=_preserved(state, plan, profile, window, added),
            )
            try:
                answer = await asked(run, call, seconds=timeout)
                more = preserving.added_of(answer)
            except HookRefused:
                return None
            except Late:
                notes.append(_noted(f"a hook {BEFORE} took more than {timeout} seconds"))
                continue
            except Exception as error:  # the hook is foreign code: the compaction goes on without it
                notes.append(_noted(f"a hook {BEFORE} failed: {told(error)}"))
                continue
            if answer is False:
                return None
            added = preserving.Added(texts=added.texts + more.texts, documents=added.documents | more.documents)
        return added, notes

    # ── writing ──

    async def _written(
        self, session: SessionId, planned: State, compacted: Compacted, notes: list[Payload], bill: Bill | None
    ) -> Compacted | None:
        """Settle what was asked and write the compaction, in one append; only the former when it came too late."""
        for _ in range(ROUNDS):
            state = (await self._sessions.loader.load(session)).state
            since = list[Event]()
            if state.version != planned.version:
                head = await self._sessions.log.head(session)
                since = await self._sessions.log.events(head, planned.version, state.version)
            if state.turns.compacted_to >= compacted.upto or takes_back(since):
                break
            drafts = [*notes, *([bill.answered] if bill is not None else []), compacted]
            step = do.Advance(drafts=tuple(map(Draft, drafts)), settles=(bill.settle,) if bill is not None else ())
            try:
                outcome = await self._sessions.handle(session, step, expected=state.version)
            except VersionConflict:
                continue
            except (Refused, NotFound):
                if bill is None:
                    raise
                break
            return next((event.data for event in outcome.events if isinstance(event.data, Compacted)), compacted)
        if bill is not None:
            await self._summarising.settled(session, bill)
        return None


def _preserved(state: State, plan: Plan, profile: Profile, window: int, added: preserving.Added) -> dict[str, Any]:
    """What is preserved, proven to have every value of what goes; `SessionIntegrity` if it has not."""
    found = preserving.recognised(profile, plan.events, state)
    document = preserving.preserved(
        profile,
        plan.events,
        plan.preserved,
        state=state,
        found=found,
        gone=plan.gone,
        added=added,
        room=compacting.preserved_room(window),
    )
    read = msgspec.json.decode(json_text(document))
    lacking = preserving.missing(found, read)
    if lacking:
        raise SessionIntegrity(
            f"a compaction of session {state.session} would lose {len(lacking)} values; report this, and compact with "
            "another profile until then",
            session=state.session,
            lacking=len(lacking),
        )
    return document


def _tokens(events: list[Event], apart: int) -> int:
    """About what the conversation takes: the last compaction, and what was said since."""
    last = compacting.latest(events)
    if last is None:
        return apart + compacting.remaining(events, 0)
    stands = estimate(last[1].summary) + estimate(json_text(last[1].preserved))
    return apart + stands + compacting.remaining(events, last[1].upto)


def _noted(error: str) -> Noted:
    return Noted(by="perdure", about=BEFORE, data={"error": error[:500]})
