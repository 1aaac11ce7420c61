"""What a model is asked with: a session's context, put together once and then grown event by event."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.memories import MemoriesRecalled, ShownMemory
from perdure.core.session.state import State
from perdure.core.session.steering import FollowedUp
from perdure.core.talk import tokens
from perdure.core.talk.context import Context, Fixed, Passing, Rendering, assembled, begun, fitted, grown, tokens_of
from perdure.core.talk.parts import Block, Result, Said, Tool, Usage
from perdure.core.talk.remembered import is_citable
from perdure.core.talk.templates import Template, chosen, rendered
from perdure.core.talk.tokens import Calibration
from perdure.core.talk.wire import texts
from perdure.services.pictures import Pictures, may_point
from perdure.services.sessions import Sessions

if TYPE_CHECKING:
    from perdure.services.remembering import Remembered

KEPT: Final = 512
"""How many sessions' contexts are kept at hand."""
MESSAGES: Final = 200_000
"""How many messages these may have together."""
Place = tuple[SessionId, int, str]
"""A session, when it was made, and a model: a session that was erased and made anew is another one."""


class Recalled(msgspec.Struct, frozen=True):
    """What the log says that a model is shown of memory: what stands since the last compaction, if it was chosen yet,
    and what was found for the turn that was the last to look.
    """

    standing: tuple[ShownMemory, ...] | None = None
    turn: int = 0
    found: tuple[ShownMemory, ...] = ()


class Known(msgspec.Struct, frozen=True):
    """A context as far as it has been put together, and the chain's digest there."""

    rendering: Rendering
    digest: bytes
    pictured: bool = False
    """Whether any message of it may hold more than words."""
    recalled: Recalled = Recalled()


class Contexts:
    """Contexts of sessions, cached while nobody takes anything back."""

    def __init__(
        self, sessions: Sessions, pictures: Pictures, prefix: str = "", templates: Iterable[Template] = ()
    ) -> None:
        self._sessions = sessions
        self._pictures = pictures
        self._prefix = prefix
        self._templates = tuple(templates)
        self._kept: OrderedDict[Place, Known] = OrderedDict()
        self._places: dict[SessionId, set[Place]] = {}
        self._messages = 0
        self._calibrations: dict[str, Calibration] = {}

    async def of(
        self,
        session: SessionId,
        state: State,
        model: str,
        tools: tuple[Tool, ...],
        *,
        window: int | None,
        said: Said | None = None,
        remembered: "Remembered | None" = None,
    ) -> Context:
        """The context for the session's next request; `said` is what will be in the log by then, `remembered` what is
        shown of memory.
        """
        rendering = await self.rendering(session, state, model, tools, remembered)
        if said is not None:
            rendering = self._with(rendering, said, model)
        if rendering.fixed.cites and not all(map(is_citable, rendering.messages)):
            plain = msgspec.structs.replace(rendering.fixed, cites=False)
            rendering = fitted(rendering, plain, self._count(model))
        passing = await self._passing(session, state)
        if remembered is not None:
            passing = msgspec.structs.replace(passing, memories=remembered.passing, notes=remembered.notes)
        found = assembled(rendering, passing, self._count(model), window)
        known = self._kept.get((session, state.origin.created_at, model))
        if known is not None and not known.pictured and (said is None or not may_point(said)):
            return found
        return msgspec.structs.replace(found, messages=await self._pictures.fetched(session, found.messages))

    async def rendering(
        self,
        session: SessionId,
        state: State,
        model: str,
        tools: tuple[Tool, ...],
        remembered: "Remembered | None" = None,
    ) -> Rendering:
        """The session as far as it is in the log."""
        fixed = Fixed(prefix=self._prefix, template=self._spoken(state), tools=tools)
        if remembered is not None:
            fixed = msgspec.structs.replace(fixed, memories=remembered.fixed, cites=remembered.cites)
        known = await self._caught_up(session, state, model)
        rendering = fitted(known.rendering, fixed, self._count(model))
        if rendering is not known.rendering:
            known = msgspec.structs.replace(known, rendering=rendering)
            self._keep((session, state.origin.created_at, model), known)
        return rendering

    async def recalled(self, session: SessionId, state: State, model: str) -> Recalled:
        """What the log says that the model is shown of memory."""
        return (await self._caught_up(session, state, model)).recalled

    async def last_words(self, session: SessionId, state: State, model: str) -> str:
        """What the user said last."""
        messages = (await self._caught_up(session, state, model)).rendering.messages
        asked = (said for said in reversed(messages) if said.role == "user")
        return next((words for said in asked if (words := texts(said.blocks))), "")

    async def _caught_up(self, session: SessionId, state: State, model: str) -> Known:
        place = (session, state.origin.created_at, model)
        known = self._kept.get(place)
        found = await self._grown(session, state, known, model) if known is not None else None
        found = found or await self._begun(session, state, model)
        self._keep(place, found)
        return found

    async def _grown(self, session: SessionId, state: State, known: Known, model: str) -> Known | None:
        """What is known, with what has come since; None when it is not what the log goes on from."""
        log, after, upto = self._sessions.log, known.rendering.history.version, state.version
        if not 0 < after <= upto:
            return None
        recent = self._sessions.loader.recent(session)
        if after == upto and recent is not None and recent.digest == known.digest:
            return known
        fresh = await log.steadily(session, lambda head: log.events(head, max(after - 1, head.anchor_version), upto))
        if not fresh or fresh[0].version != after or fresh[0].digest != known.digest:
            return None
        rendering = grown(known.rendering, fresh[1:], self._count(model)) if len(fresh) > 1 else known.rendering
        return None if rendering is None else _followed(known, rendering, fresh[1:], fresh[-1].digest)

    async def _begun(self, session: SessionId, state: State, model: str) -> Known:
        log, after, upto = self._sessions.log, state.turns.compacted_to, state.version
        events = await log.steadily(session, lambda head: log.events(head, max(after, head.anchor_version), upto))
        rendering = begun(Fixed(), events, self._count(model))
        recalled = _recalled(Recalled(), events, rendering.history.since)
        pictured = any(map(may_point, rendering.messages))
        return Known(rendering, events[-1].digest if events else b"", pictured, recalled)

    def grew(self, session: SessionId, created_at: int, events: Sequence[Event]) -> None:
        """Take note of what this process has just appended, so that it need not be read again."""
        for place in [*self._places.get(session, ())] if events else ():
            known = self._kept[place]
            if place[1] == created_at and known.rendering.history.version == events[0].version - 1:
                rendering = grown(known.rendering, events, self._count(place[2]))
                if rendering is None:
                    self._drop(place)
                else:
                    self._keep(place, _followed(known, rendering, events, events[-1].digest))

    def _keep(self, place: Place, known: Known) -> None:
        self._drop(place)
        self._kept[place] = known
        self._places.setdefault(place[0], set()).add(place)
        self._messages += len(known.rendering.messages)
        while len(self._kept) > 1 and (len(self._kept) > KEPT or self._messages > MESSAGES):
            self._drop(next(iter(self._kept)))

    def _drop(self, place: Place) -> None:
        gone = self._kept.pop(place, None)
        if gone is not None:
            self._messages -= len(gone.rendering.messages)
            self._places[place[0]].discard(place)
            if not self._places[place[0]]:
                del self._places[place[0]]

    def forget(self, session: SessionId | None) -> None:
        """Drop what is kept of a session, or of all."""
        self._pictures.forget(session)
        for place in [place for place in self._kept if session in (None, place[0])]:
            self._drop(place)

    def learn(self, model: str, estimated: int, usage: Usage) -> None:
        """Take note of how many tokens a provider counted."""
        known = self._calibrations.get(model) or Calibration(model=model)
        self._calibrations[model] = tokens.learned(known, estimated, tokens.sent(usage))

    def _count(self, model: str) -> Callable[[str], int]:
        known = self._calibrations.get(model)
        return tokens.estimate if known is None or not known.seen else partial(tokens.count, calibration=known)

    def _spoken(self, state: State) -> str:
        """What the session is configured to say first: its own prompt, else its template."""
        config = state.config
        if config.system_prompt is not None:
            return config.system_prompt
        if config.template is None:
            return ""
        template = chosen(self._templates, config.template.name, config.template.version)
        return rendered(template, config.template.params)

    async def _passing(self, session: SessionId, state: State) -> Passing:
        pad = state.scratchpads.pads.get("")
        due = [await self._follow_up(session, version) for version in state.steering.waiting]
        return Passing(scratchpad="" if pad is None else pad.content, follow_ups=tuple(text for text in due if text))

    async def _follow_up(self, session: SessionId, version: int) -> str:
        log = self._sessions.log
        events = await log.steadily(session, lambda head: log.events(head, version - 1, version))
        data = events[0].data if events else None
        return data.text if isinstance(data, FollowedUp) else ""

    def _with(self, rendering: Rendering, said: Said, model: str) -> Rendering:
        """The rendering as it will be once this is said."""
        messages, sums = rendering.messages, rendering.sums
        if messages and messages[-1].role == said.role:
            blocks = _joined(messages[-1], said, rendering.history.pending)
            joined = msgspec.structs.replace(messages[-1], blocks=blocks)
            messages, sums = (*messages[:-1], joined), sums[:-1]
        else:
            messages = (*messages, said)
        total = sums[-1] + tokens_of(messages[-1], self._count(model))
        history = rendering.history
        ends = history.ends if len(history.ends) == len(messages) else (*history.ends, history.version + 1)
        return msgspec.structs.replace(
            rendering,
            messages=messages,
            sums=(*sums, total),
            history=msgspec.structs.replace(history, ends=ends),
        )


def _joined(last: Said, said: Said, pending: dict[str, str]) -> tuple[Block, ...]:
    """What is said behind what there is: a result stands for the failed one that its call was closed with, before any
    words, under the id that the call has here.
    """
    found = [msgspec.structs.replace(item, call=pending.get(item.call, item.call)) for item in _results(said)]
    closed = {item.call for item in found}
    before = [item for item in _results(last) if item.call not in closed]
    words = [block for message in (last, said) for block in message.blocks if not isinstance(block, Result)]
    return (*before, *found, *words)


def _results(said: Said) -> list[Result]:
    return [block for block in said.blocks if isinstance(block, Result)]


def _followed(known: Known, rendering: Rendering, events: Iterable[Event], digest: bytes) -> Known:
    """What is known after some more was said; only that is looked at."""
    fresh = rendering.messages[max(0, rendering.history.kept - 1) :]
    recalled = _recalled(known.recalled, events, rendering.history.since)
    return Known(rendering, digest, known.pictured or any(map(may_point, fresh)), recalled)


def _recalled(before: Recalled, events: Iterable[Event], since: int) -> Recalled:
    """What is shown of memory after these; what was chosen before the last compaction stands no more."""
    for event in events:
        data = event.data
        if isinstance(data, MemoriesRecalled) and event.version > since:
            standing = data.standing if data.chosen else before.standing
            before = Recalled(standing, event.turn or 0, data.found)
    return before
