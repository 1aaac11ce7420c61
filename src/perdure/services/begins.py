"""How a turn begins, or goes on where it waited: its first append."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from perdure.core.errors import PromptTooLong, TurnRefused
from perdure.core.session.asking import ModelAnswered
from perdure.core.session.event import Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Compaction
from perdure.core.session.state import State
from perdure.core.session.turns import (
    CallStatus,
    OpenTurn,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnInterrupted,
    TurnStarted,
)
from perdure.core.talk import history
from perdure.core.talk.compacting import due
from perdure.core.talk.content import call_of
from perdure.core.talk.context import Context, user_last
from perdure.core.talk.parts import Ask, Call, Said, Tool, Usage
from perdure.core.talk.routes import AUTO, Route
from perdure.core.talk.routing import chosen
from perdure.core.talk.turning import TurnRequest
from perdure.services.caching import Hit
from perdure.services.questions import Question
from perdure.services.reminding import reminded, wanted
from perdure.services.sessions import Outcome
from perdure.services.steps import Steps, parked_in, told

CONVERSATION: Final = frozenset({"summary", "history", "user message", "this turn"})
"""The portions of a context that compacting can make smaller."""


class Beginning(Steps):
    """The first step of a turn."""

    async def open(self, state: State) -> Outcome:
        """The first append: what is said, or what came of the caller's tools, and the question that follows."""
        request, open = self.request, state.turns.open
        _must_wait_for(request, open)
        results = [draft for result in request.results for draft in history.payloads_of(told(result))]
        left = {} if open is None else {call: item for call, item in open.calls.items() if call not in _calls(results)}
        allowed = [call for call, item in left.items() if item.status is CallStatus.ALLOWED]
        if open is not None and left:
            return await self._continued(state, results, allowed)
        said = Said(role="user", blocks=request.blocks) if request.content is not None else None
        spoken = said or (Said(role="user", blocks=request.results) if request.results else None)
        if open is None and spoken is None:
            await self._must_have_more(state)
        question = await self._prepared(state, spoken)
        start: list[Payload] = [*results]
        if open is None:
            first = question.route.candidates[0].model
            start = [TurnStarted(role="user" if said else "", content=request.said if said else None, model=first)]
        hit = await self._looked_up(state, question)
        if hit is not None:
            return await self._from_cache(state, start, question, hit)
        self._question = question
        drafts = (*start, *self._recalled(), self._noded(question.asked))
        return await self._advance(drafts, turn=open.number if open else None, reserves=(question.reserve,))

    def _recalled(self) -> tuple[Payload, ...]:
        """What is noted of memory before the model is shown it, once."""
        if self.remembered is None or (event := self.remembered.event) is None:
            return ()
        self.remembered = msgspec.structs.replace(self.remembered, chosen=False, sought=False)
        return (event,)

    async def _must_have_more(self, state: State) -> None:
        """Refuse to go on when nothing was cut off, and nothing was said since the last answer."""
        if state.steering.waiting:
            return
        log = self.desk.sessions.log
        events = history.told(await log.steadily(self.session, lambda head: log.last_turns(head, 1)))
        spoken = history.history_of(events).messages
        cut_off = any(event.kind == TurnInterrupted.kind for event in events)
        if not cut_off and (not spoken or spoken[-1].role == "assistant"):
            raise TurnRefused("there is nothing to go on with: all that was said is answered; say something")

    async def _continued(self, state: State, results: Sequence[Payload], allowed: list[str]) -> Outcome:
        """Calls are left: those that a person has allowed are run now, the others go on waiting."""
        open = state.turns.open
        assert open is not None
        self._tools = await self._asked_before(state, allowed)
        started = [ToolStarted(call=call.id, key=self._key(call.id)) for call in self._tools]
        if not results and not started:
            self._begin(open.number, state.version)
            self.status = "parked" if parked_in(open.calls.values()) else "tools"
            return Outcome(session=self.session, first=state.version + 1, version=state.version)
        outcome = await self._advance((*results, *started), turn=open.number)
        if not self._tools:
            self._waits()
        else:
            await self.running.keep()
        return outcome

    async def _asked_before(self, state: State, calls: Iterable[str]) -> list[Call]:
        """These calls, as the log has them."""
        wanted, log = set(calls), self.desk.sessions.log
        open = state.turns.open
        if not wanted or open is None:
            return []
        events = await log.steadily(self.session, lambda head: log.events(head, open.version - 1))
        found = [event.data for event in events if event.kind == ToolAsked.kind and event.target in wanted]
        return [call_of(data.call, data.name, data.arguments) for data in found if isinstance(data, ToolAsked)]

    async def _from_cache(self, state: State, start: list[Payload], question: Question, hit: Hit) -> Outcome:
        """The whole turn in one append: nobody is asked."""
        candidate, answer = question.route.candidates[0], msgspec.structs.replace(hit.answer, usage=Usage())
        noted = ModelAnswered(
            ask=question.name, provider=candidate.provider, model=hit.answer.model, stop=answer.stop, cached=hit.kind
        )
        self._answer, self._cached, self._rounds = answer, hit.kind, 1
        answered = (*self._taken_up(state), *history.answered(answer))
        drafts = (*start, *self._recalled(), self._noded(question.asked), noted, *answered)
        outcome = await self._advance(drafts, turn=state.turns.open.number if state.turns.open else None)
        self.status = "finished"
        return outcome

    async def _prepared(self, state: State, said: Said | None) -> Question:
        """The question as things stand; a context that fills the window is compacted first."""
        desk, request = self.desk, self.request
        await desk.tooling.ready()
        route = desk.calling.route(self._model(state, said))
        limit = request.max_tokens or desk.settings.max_tokens
        room = desk.pricing.window(route, desk.settings.window) - limit
        model = route.candidates[0].model
        tools = (*desk.tooling.offers(state), *request.tools)
        if room <= 0:
            raise PromptTooLong(f"an answer of {limit} tokens fills the window of {model}; ask for a shorter one")
        context = await self._context(state, route, tools, room, said)
        if await self._compacted(state, context, room):
            state = (await desk.sessions.loader.load(self.session)).state
            context = await self._context(state, route, tools, room, said)
        if context.over:
            told = (
                f"{context.over} tokens too many for the window of {model}; say less, or take a model with a larger one"
            )
            raise PromptTooLong(told, over=context.over, window=room)
        ask = Ask(
            model=model,
            messages=user_last(context.messages),
            system=context.system,
            tools=context.tools,
            max_tokens=limit,
            temperature=request.temperature,
            top_p=request.top_p,
            stop=request.stop,
            stream=True,
            extra=request.extra,
        )
        money, tokens = desk.pricing.worst(ask, route, capped=state.origin.account is not None)
        self._follow_ups = state.steering.waiting
        name = desk.sessions.fresh_id()
        return Question(name=name, ask=ask, route=route, money=money, tokens=tokens, estimate=context.tokens)

    async def _context(
        self, state: State, route: Route, tools: tuple[Tool, ...], room: int, said: Said | None
    ) -> Context:
        """What to ask with, and what it shows of memory."""
        contexts, shown = self.desk.contexts, None
        if wanted(state) is not None:
            shown = await reminded(self.desk, self.session, state, route, self.request, said, before=self.remembered)
        self.remembered, model = shown, route.candidates[0].model
        return await contexts.of(self.session, state, model, tools, window=room, said=said, remembered=shown)

    async def _compacted(self, state: State, context: Context, room: int) -> bool:
        """Whether the session was compacted, because its context nears the window."""
        compaction = state.config.compaction or Compaction()
        if not context.left_out and not due(context.tokens, room, compaction):
            return False
        apart = sum(portion.tokens for portion in context.portions if portion.name not in CONVERSATION)
        compacted = await self.desk.compacting.compact(self.session, window=room, force=True, apart=apart)
        return compacted is not None

    def _model(self, state: State, said: Said | None) -> str | None:
        """The model to ask; `auto` is decided once for a turn, by how hard the question is."""
        named = self.request.model or state.config.model
        if named != AUTO:
            return named
        if not self._chosen:
            ask = Ask(
                model=AUTO,
                messages=() if said is None else (said,),
                tools=(*self.desk.tooling.offers(state), *self.request.tools),
                max_tokens=self.request.max_tokens or self.desk.settings.max_tokens,
            )
            self._chosen = chosen(ask, self.desk.options()).model
        return self._chosen

    async def _looked_up(self, state: State, question: Question) -> Hit | None:
        """An answer from the cache, if the request takes one and the session it comes from was not erased since, on
        whichever node.
        """
        if self.request.cache == "off":
            return None
        scope, caching = self._scope(state, question), self.desk.caching
        hit = caching.look(scope, question.ask, semantic=self._by_meaning(), sampled=True)
        if hit is None or hit.session is None:
            return hit
        head = await self.desk.sessions.store.head(SessionId(hit.session))
        if head is not None and head.row.created_at <= hit.at:
            return hit
        caching.forget(state.tenant, session=hit.session)
        return None


def _must_wait_for(request: TurnRequest, open: OpenTurn | None) -> None:
    """Refuse results that nobody waits for."""
    calls = {} if open is None else open.calls
    waiting = {call: item for call, item in calls.items() if item.status is CallStatus.ASKED}
    strange = [result.call for result in request.results if result.call not in waiting]
    if strange:
        there = f"waiting are {', '.join(waiting)}" if waiting else "no call waits for one"
        raise TurnRefused(f"{strange[0]!r} is no call that waits for a result; {there}", calls=tuple(strange))


def _calls(payloads: Iterable[Payload]) -> set[str]:
    return {payload.call for payload in payloads if isinstance(payload, ToolFinished)}
