"""Clients that bring their own history: what they send is matched with the log, and only what is new is appended.

In mode `record` the model is asked with exactly what the client sent, and answers in its own bytes where both speak the
same wire form. The end of an answer is held back until the log has it: what a client has heard to its end is durable.
A client that goes away is no reason to stop: the answer is heard and kept.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec

from perdure.core.errors import NotFound, PerdureError, ProviderCut, Refused, TurnRefused
from perdure.core.session import commands as do
from perdure.core.session.asking import ModelAnswered, ModelAsked
from perdure.core.session.event import Draft, Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Phase
from perdure.core.session.state import State
from perdure.core.session.turns import CallStatus
from perdure.core.talk.folding import Folding
from perdure.core.talk.history import payloads_of
from perdure.core.talk.matching import Match, matched
from perdure.core.talk.parts import Answer, Ask, Result, Said
from perdure.core.talk.routes import Candidate
from perdure.core.talk.tokens import estimate_ask
from perdure.core.talk.turning import Diverging, calls_in
from perdure.ports.provider import Form, Sending
from perdure.services.billing import Bill, charged
from perdure.services.branches import Branches
from perdure.services.desk import Desk
from perdure.services.nodes import is_gone
from perdure.services.questions import Question
from perdure.services.requests import BranchRequest
from perdure.services.trails import Trails
from perdure.services.underway import Piecemeal, Underway, has_words
from perdure.steady import unbroken

FOLLOWED: Final = 64
"""How many branches of a session are looked at for the one that a client goes on with, the newest first."""
DIVERGED: Final = "diverged"
"""What a branch is called that a client's history made."""
BREATH: Final = 0.001
"""Seconds after an answer's first words in which whoever waits for them has the processor; what comes then, waits."""
GRACE: Final = 10.0
"""Seconds in which answers may come to their end when a server is stopped."""
FORGOTTEN: Final = 3_600_000_000
"""Microseconds after which nobody waits for an answer any more."""


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request, in its wire form and as it is understood."""

    form: Form
    ask: Ask
    body: dict[str, Any]
    headers: dict[str, str] = {}
    query: str = ""
    diverging: Diverging = "branch"
    continues: bool = False
    """Whether its messages go on from what its provider keeps, instead of being the whole history."""
    agent: str | None = None
    strategy: str = ""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request was written down, and what is asked."""

    session: SessionId
    question: Question
    content: bool
    """Whether the session has the conversation itself, or only what it costs."""
    underway: Underway
    branched: SessionId | None = None
    """The session it was branched from."""


class Gateway:
    """What the drop-in endpoints call."""

    def __init__(self, desk: Desk, branches: Branches) -> None:
        self._desk = desk
        self._sessions = desk.sessions
        self._branches = branches
        self._trails = Trails(desk.sessions)
        self._tasks: set[asyncio.Task[None]] = set()

    # ── before ──

    async def record(self, session: SessionId, incoming: Incoming, state: State) -> Recorded:
        """Write down what is new in a client's history, and reserve what the answer may cost. The session is as it was
        when its client was let in.
        """
        if state.budget.asked:
            state = await self._cleared(session)
        found = await self._matched(session, state, incoming)
        if state.budget.asked:  # its last question is not answered yet: two answers to one cannot both follow it
            found = msgspec.structs.replace(found, diverged=True)
        origin: SessionId | None = None
        if found.diverged:
            known = await self._followed(session, incoming) if incoming.diverging == "branch" else None
            origin = session
            session, found = known or (await self._branched(session, found, incoming), found)
            state = (await self._sessions.loader.load(session)).state
        _must_be_the_clients(found.suffix, state)
        spoken = [payload for said in found.suffix for payload in payloads_of(said)]
        question = self._question(incoming, state)
        underway = await self._posted(session, incoming, question, spoken, more=True)
        return Recorded(session=session, question=question, content=True, underway=underway, branched=origin)

    async def _matched(self, session: SessionId, state: State, incoming: Incoming) -> Match:
        """Where the client stands; who sends no history stands where the log does."""
        if incoming.continues:
            return Match(known=0, suffix=incoming.ask.messages, at=state.version, diverged=False)
        return matched(await self._trails.of(session, state), incoming.ask.messages)

    async def account(self, ledger: SessionId, incoming: Incoming) -> Recorded:
        """Reserve what an answer may cost in a session that keeps costs alone."""
        state = (await self._sessions.loader.load(ledger)).state
        await self._given_up(ledger, state)
        question = self._question(incoming, state)
        underway = await self._posted(ledger, incoming, question)
        return Recorded(session=ledger, question=question, content=False, underway=underway)

    async def _posted(
        self,
        session: SessionId,
        incoming: Incoming,
        question: Question,
        spoken: Sequence[Payload] = (),
        *,
        more: bool = False,
    ) -> Underway:
        """Write down what was said and what is asked; then it is asked."""
        underway = Underway(self._desk.calling, question.route, _sending(question, incoming))
        payloads = (*spoken, self._asked(question))
        try:
            await self._advance(session, incoming, payloads, more=more, question=question)
        except BaseException:
            underway.drop()
            raise
        underway.send()
        return underway

    async def _given_up(self, ledger: SessionId, state: State) -> None:
        """Close the requests in a ledger whose process is gone; those of others go on."""
        now, mine = self._desk.ambient.now(), self._desk.runners.asks
        dead = [
            name
            for name, item in state.budget.asked.items()
            if name not in mine and (is_gone(item.node) or now - item.since > FORGOTTEN)
        ]
        if dead:
            await self._sessions.handle(ledger, do.GiveUp(asks=tuple(dead), reason="crash"))

    async def _cleared(self, session: SessionId) -> State:
        """The session, with requests closed that a crash left open."""
        loaded = await self._sessions.loader.load(session)
        state = loaded.state
        if state.budget.asked and not await self._desk.leases.lives(session, loaded):
            await self._desk.lifecycle.recover(session, reason="crash")
            state = (await self._sessions.loader.load(session)).state
        return state

    async def _followed(self, session: SessionId, incoming: Incoming) -> tuple[SessionId, Match] | None:
        """The branch that such a history was given before, if it goes on from there: its client names it no other way
        than the session it departed from.
        """
        for row in (await self._branches.list(session))[:FOLLOWED]:
            if row.phase != Phase.ACTIVE.value or row.branch_kind is None:
                continue
            state = await self._cleared(row.session)
            if state.origin.lineage is None or state.origin.lineage.name != DIVERGED:
                continue
            found = await self._matched(row.session, state, incoming)
            if not found.diverged and not state.budget.asked:
                return row.session, found
        return None

    async def _branched(self, session: SessionId, found: Match, incoming: Incoming) -> SessionId:
        if incoming.diverging == "reject":
            told = (
                f"the client's history departs from the session's log after version {found.at}; send what the log has, "
                "or let it branch"
            )
            raise TurnRefused(told, session=session, version=found.at)
        first = await self._first(session)
        outcome = await self._branches.branch(session, max(found.at, first), BranchRequest(name=DIVERGED))
        return outcome.session

    async def _first(self, session: SessionId) -> int:
        """The first version that a branch can be made at."""
        head = await self._sessions.log.head(session)
        return max(1, head.anchor_version)

    def _question(self, incoming: Incoming, state: State) -> Question:
        route = self._desk.calling.route(incoming.ask.model)
        ask = msgspec.structs.replace(incoming.ask, model=route.candidates[0].model)
        money, tokens = self._desk.pricing.worst(ask, route, capped=state.origin.account is not None)
        name = self._sessions.fresh_id()
        return Question(name=name, ask=ask, route=route, money=money, tokens=tokens, estimate=estimate_ask(ask))

    def _asked(self, question: Question) -> ModelAsked:
        return msgspec.structs.replace(question.asked, node=self._desk.node)

    # ── the answer ──

    async def whole(self, recorded: Recorded, incoming: Incoming) -> tuple[Answer, bytes]:
        """The answer at once, in the log already; its own bytes if they can go on to the client."""
        began, folding = self._desk.ambient.now(), Folding()
        try:
            answered = await recorded.underway.whole()
        except (PerdureError, asyncio.CancelledError) as error:
            await unbroken(self._failed(recorded, incoming, None, folding, error, began))
            raise
        answer = answered.whole.answer
        await unbroken(self._took(recorded, incoming, answered.candidate, answer, began))
        return answer, answered.whole.raw if answered.candidate.form == incoming.form else b""

    async def streamed(self, recorded: Recorded, incoming: Incoming) -> Piecemeal:
        """The answer as it comes. It is heard to its end whether or not the client stays."""
        began = self._desk.ambient.now()
        try:
            begun = await recorded.underway.begun()
        except (PerdureError, asyncio.CancelledError) as error:
            await unbroken(self._failed(recorded, incoming, None, Folding(), error, began))
            raise
        piecemeal = Piecemeal(begun.candidate)
        piecemeal.take(await anext(begun.frames))  # it is there, and goes out with the head of the answer
        task = asyncio.create_task(self._relayed(recorded, incoming, begun.frames, piecemeal, began))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return piecemeal

    async def _relayed(
        self, recorded: Recorded, incoming: Incoming, frames: Any, piecemeal: Piecemeal, began: int
    ) -> None:
        folding, spoken = piecemeal.folding, False
        try:
            async with aclosing(frames):
                async for frame in frames:
                    piecemeal.take(frame)
                    if not spoken:  # more may be there already: the first words go out first
                        spoken = has_words(frame)
                        await self._desk.ambient.sleep(BREATH if spoken else 0)
            if not folding.ended:
                raise ProviderCut("the provider's answer broke off in the middle; ask again")
            await self._took(recorded, incoming, piecemeal.candidate, folding.answer(), began)
            piecemeal.end()
        except asyncio.CancelledError:
            await self._failed(recorded, incoming, piecemeal.candidate, folding, "shutdown", began)
            piecemeal.fail(ProviderCut("the server was stopped before the answer was whole; ask again"))
            raise
        except PerdureError as error:
            try:
                await self._failed(recorded, incoming, piecemeal.candidate, folding, error, began)
            finally:
                piecemeal.fail(error)

    # ── after ──

    async def _took(
        self, recorded: Recorded, incoming: Incoming, candidate: Candidate, answer: Answer, began: int
    ) -> None:
        question = recorded.question
        bill = charged(self._desk.pricing, candidate, question, answer, error=None)
        noted = self._noted(question, candidate, answer, bill, incoming, began)
        spoken = payloads_of(Said(role="assistant", blocks=answer.blocks)) if recorded.content else []
        more = bool(calls_in(answer))
        await self._advance(recorded.session, incoming, (noted, *spoken), more=more, settles=(bill.settle,))
        self._desk.contexts.learn(question.ask.model, question.estimate, answer.usage)

    async def _failed(
        self,
        recorded: Recorded,
        incoming: Incoming,
        candidate: Candidate | None,
        folding: Folding,
        error: BaseException | str,
        began: int,
    ) -> None:
        """Charge what was used; what had been said is kept, and the turn stays open for another try."""
        question = recorded.question
        why = error if isinstance(error, PerdureError | str) else "cancelled"
        bill = charged(self._desk.pricing, candidate, question, folding.answer(), error=why)
        used = msgspec.structs.replace(folding.answer(), usage=bill.usage)
        noted = self._noted(question, candidate or question.route.candidates[0], used, bill, incoming, began)
        noted = msgspec.structs.replace(noted, error=why if isinstance(why, str) else why.code, stop="")
        await self._advance(recorded.session, incoming, (noted,), more=True, settles=(bill.settle,))

    def _noted(
        self, question: Question, candidate: Candidate, answer: Answer, bill: Bill, incoming: Incoming, began: int
    ) -> ModelAnswered:
        used = answer.usage
        return ModelAnswered(
            ask=question.name,
            provider=candidate.provider,
            model=answer.model or candidate.model,
            stop=answer.stop,
            tokens_in=used.input,
            tokens_out=used.output,
            cache_read=used.cache_read,
            cache_write=used.cache_write,
            cost=bill.cost,
            estimated=bill.estimated,
            micros=max(0, self._desk.ambient.now() - began),
            strategy=incoming.strategy,
        )

    async def _advance(
        self,
        session: SessionId,
        incoming: Incoming,
        payloads: tuple[Payload, ...],
        *,
        more: bool = False,
        question: Question | None = None,
        settles: tuple[do.Settle, ...] = (),
    ) -> None:
        drafts = tuple(Draft(payload, agent=incoming.agent, target=payload.aim()) for payload in payloads)
        reserves = () if question is None else (question.reserve,)
        command = do.Advance(drafts=drafts, settles=settles, reserves=reserves, arranged=True, more=more)
        asks = self._desk.runners.asks
        if question is not None:
            asks.add(question.name)  # first: nobody is to take it for one that was left behind
        try:
            outcome = await self._sessions.handle(session, command)
        except PerdureError as refusal:
            asks.difference_update([question.name] if question is not None else ())
            if settles and isinstance(refusal, TurnRefused | NotFound | Refused):
                raise await self._too_late(session, settles) from refusal
            raise
        finally:
            asks.difference_update(settle.reservation for settle in settles)
        self._trails.grew(session, outcome.events)

    async def _too_late(self, session: SessionId, settles: tuple[do.Settle, ...]) -> TurnRefused:
        """Somebody closed the question meanwhile and could only guess what it cost: that is corrected."""
        for settle in settles:
            if not settle.estimated:
                with suppress(PerdureError):
                    await self._sessions.handle(session, do.Correct(reservation=settle.reservation, cost=settle.cost))
        told = "the session was suspended, ended or interrupted before the answer was whole; what it said was not kept"
        return TurnRefused(told, session=session)

    async def close(self) -> None:
        """Hear every answer to its end, if that is soon; the others are cut short and charged."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=GRACE)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)


def _sending(question: Question, incoming: Incoming) -> Sending:
    return Sending(
        ask=question.ask,
        form=incoming.form,
        body=incoming.body,
        headers=incoming.headers,
        query=incoming.query,
        key=question.name,
    )


def _must_be_the_clients(suffix: Sequence[Said], state: State) -> None:
    """Refuse results of tools that run here, or that a person must allow first."""
    calls = {} if state.turns.open is None else state.turns.open.calls
    for block in (block for said in suffix for block in said.blocks if isinstance(block, Result)):
        item = calls.get(block.call)
        if item is not None and item.status is not CallStatus.ASKED:
            raise TurnRefused(f"call {block.call!r} is not yours to answer: it runs here", call=block.call)
