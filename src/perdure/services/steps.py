"""A turn's steps: what is asked, what is written down of it, and what it has come to so far."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from perdure.core.session import commands as do
from perdure.core.session import turns
from perdure.core.session.asking import ModelAnswered, ModelAsked
from perdure.core.session.event import Draft, Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.core.session.steering import TakenUp
from perdure.core.session.turns import CallStatus
from perdure.core.talk.content import without_rests
from perdure.core.talk.fingerprints import Scope
from perdure.core.talk.folding import Folding
from perdure.core.talk.parts import Answer, Call, Result, Said, Usage
from perdure.core.talk.routes import Candidate
from perdure.core.talk.turning import (
    Status,
    TurnBegan,
    TurnOutcome,
    TurnRequest,
    Waiting,
    calls_in,
    together,
)
from perdure.services.billing import Bill
from perdure.services.desk import Desk
from perdure.services.questions import Question
from perdure.services.running import Running
from perdure.services.sessions import Outcome

if TYPE_CHECKING:
    from perdure.services.remembering import Remembered


class Steps:
    """What every step of a turn has in common: its append, its name, its bill."""

    def __init__(self, desk: Desk, session: SessionId, request: TurnRequest) -> None:
        self.desk = desk
        self.session = session
        self.request = request
        self.number = 0
        self.version = 0
        self.steers = 0
        """How many steers the session had when this turn last took them up."""
        self.running: Running
        self.status: Status = "open"
        self._question: Question | None = None
        self._candidate: Candidate | None = None
        self._folding = Folding()
        self._asked_at = 0
        self._deadline = 0.0
        self._rounds = 0
        self._usage = Usage()
        self._cost = 0
        self._estimated = False
        self._answer: Answer | None = None
        self._cached = ""
        self._tools: list[Call] = []
        self._follow_ups: tuple[int, ...] = ()
        self._chosen = ""
        self.remembered: Remembered | None = None
        """What the model is shown of memory in this turn."""
        self.cited: list[Payload] = []
        self._last: State

    async def _advance(
        self,
        payloads: Iterable[Payload],
        *,
        turn: int | None,
        settles: tuple[do.Settle, ...] = (),
        reserves: tuple[do.Reserve, ...] = (),
    ) -> Outcome:
        drafts = tuple(Draft(payload, agent=self.request.agent, target=payload.aim()) for payload in payloads)
        command = do.Advance(drafts=drafts, turn=turn, settles=settles, reserves=reserves)
        first = not self.number
        asked = [msgspec.to_builtins(msgspec.structs.replace(self.request, key=None))] if first else None
        key = self.request.key if first else None
        outcome = await self.desk.sessions.handle(self.session, command, key=key, asked=asked)
        if first and not outcome.repeated:
            self._begin(turn or outcome.events[0].turn or 0, outcome.first)
        self.version = outcome.version
        loaded = self.desk.sessions.loader.recent(self.session)
        self._last = (loaded or await self.desk.sessions.loader.load(self.session)).state
        self.desk.contexts.grew(self.session, self._last.origin.created_at, outcome.events)
        return outcome

    def _begin(self, number: int, version: int) -> None:
        self.number, self.version = number, version
        self.running = Running(self.desk.sessions.store, self.desk.ambient, self.session, number, self.desk.node)
        model = self._question.ask.model if self._question else ""
        self.running.tell(TurnBegan(turn=number, version=version, model=model))

    def _state(self) -> State:
        """The session as this process last saw it: after its own last append at least."""
        loaded = self.desk.sessions.loader.recent(self.session)
        return self._last if loaded is None else loaded.state  # so many others may have been busy since

    def _waits(self) -> None:
        """Calls are left that somebody else must answer."""
        open = self._state().turns.open
        waiting = () if open is None else tuple(open.calls.values())
        if waiting:
            self.status = "parked" if parked_in(waiting) else "tools"

    def _noded(self, asked: ModelAsked) -> ModelAsked:
        return msgspec.structs.replace(asked, node=self.desk.node)

    def _scope(self, state: State, question: Question) -> Scope:
        """Who may be given the same answer: whoever the session belongs to, for the same task, from the same model."""
        isolation = state.origin.isolation
        task = "" if isolation is None or isolation.task is None else isolation.task
        access = msgspec.json.encode([state.origin.owner, task]).decode()
        return Scope(tenant=state.tenant, access=access, provider=question.route.candidates[0].provider)

    def _by_meaning(self) -> bool:
        """Whether the answer to a question that is alike may be given: not where memories stand beside the question,
        for those that the other answer was made with may be forgotten by now.
        """
        shown = self.remembered
        return self.request.cache == "semantic" and (shown is None or not shown.found)

    def _taken_up(self, state: State) -> tuple[Payload, ...]:
        due = tuple(version for version in self._follow_ups if version in state.steering.waiting)
        return (TakenUp(versions=due),) if due else ()

    def _key(self, call: str) -> str:
        """What makes running a call twice harmless: the same for the same call, whoever runs it."""
        return f"{self.session}:{call}"

    def _answered(self, question: Question, answer: Answer, bill: Bill) -> ModelAnswered:
        candidate, used = self._candidate or question.route.candidates[0], answer.usage
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
            micros=max(0, self.desk.ambient.now() - self._asked_at),
            strategy=self.request.strategy,
        )

    def _counted(self, bill: Bill) -> None:
        self._usage = together(self._usage, bill.usage)
        self._cost += bill.cost
        self._estimated = self._estimated or bill.estimated

    def outcome(self) -> TurnOutcome:
        """What has come of the turn."""
        answer, open = self._answer, self._state().turns.open
        mine = open is not None and open.number == self.number
        return TurnOutcome(
            session=self.session,
            turn=self.number,
            version=self.version,
            status=self.status,
            content=without_rests(answer.blocks) if answer is not None else (),
            model=answer.model if answer is not None else "",
            stop=answer.stop if answer is not None else "",
            usage=self._usage,
            cost=self._cost,
            estimated=self._estimated,
            rounds=self._rounds,
            waiting=_waiting(open.calls, answer) if mine and open is not None else (),
            cached=self._cached,
        )


def told(result: Result) -> Said:
    """A result as what the user's side says."""
    return Said(role="user", blocks=(result,))


def parked_in(calls: Iterable[turns.OpenCall]) -> bool:
    return any(item.status is CallStatus.PARKED for item in calls)


def _waiting(calls: dict[str, turns.OpenCall], answer: Answer | None) -> tuple[Waiting, ...]:
    known = {call.id: call for call in (calls_in(answer) if answer is not None else ())}
    return tuple(
        Waiting(
            id=call,
            name=item.name,
            arguments=(known[call].raw or known[call].arguments) if call in known else None,
            approval=item.status is CallStatus.PARKED,
        )
        for call, item in calls.items()
    )
