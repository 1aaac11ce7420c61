"""One turn with a model, round by round: ask, hear the answer, run what tools it wants, ask again.

Every step is an append before the next one is taken: what an answer may cost is reserved before the model is asked, and
what it did cost is settled in the append that has the answer. So a crash at any moment leaves a turn that can be closed
and charged; what was said to the log is never said twice.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, Final, Literal, TypeVar

import msgspec

from perdure.core.errors import LimitReached, ProviderCut
from perdure.core.session import turns
from perdure.core.session.approval import ApprovalAsked
from perdure.core.session.event import Payload
from perdure.core.session.state import State
from perdure.core.session.turns import ToolFinished, ToolStarted
from perdure.core.talk import history
from perdure.core.talk.content import stored
from perdure.core.talk.folding import Folding
from perdure.core.talk.parts import Answer, Call, Failed, Result
from perdure.core.talk.turning import (
    PieceCame,
    ToolRan,
    calls_in,
)
from perdure.ports.provider import Sending
from perdure.services.begins import Beginning
from perdure.services.billing import charged
from perdure.services.questions import Question
from perdure.services.reminding import reflect, uncited
from perdure.services.running import Stopped
from perdure.services.steps import told
from perdure.services.stops import Stopping
from perdure.steady import unbroken

T = TypeVar("T")
AT_ONCE: Final = 4
"""So many frames are told of at once, each by itself."""


class Turn(Beginning, Stopping):
    """A turn that this process carries on."""

    async def run(self) -> None:
        """All rounds, until the turn is over or waits for somebody."""
        self._deadline = asyncio.get_running_loop().time() + self.desk.settings.timeout
        while self.status == "open":
            try:
                if self._question is not None:
                    self._answer = await self._unless_stopped(self._heard(self._question))
                    await self._took(self._question, self._answer)
                if self._tools:
                    await self._unless_stopped(self._worked())
                if self._goes_on():
                    await self._ask_again()
            except Stopped as stopped:
                await self._stopped(stopped)

    def _goes_on(self) -> bool:
        """Whether the model is to be asked again."""
        return self.status == "open" and self._question is None

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what somebody may stop, within the turn's time."""
        running = self.running
        if running.stopping is not None:
            work.close()
            raise self._stop()
        task = asyncio.create_task(work)
        running.interruptible = task
        try:
            async with asyncio.timeout_at(self._deadline):
                return await task
        except TimeoutError as late:
            told = f"the turn took longer than {self.desk.settings.timeout:g} s; ask for less at a time"
            raise LimitReached(told, limit="time") from late
        except asyncio.CancelledError:
            if running.stopping is None:
                raise
            raise self._stop() from None
        finally:
            running.interruptible = None

    def _stop(self) -> Stopped:
        stopped, self.running.stopping = self.running.stopping, None
        assert stopped is not None
        return stopped

    async def _heard(self, question: Question) -> Answer:
        """The model's answer, told piece by piece."""
        self._folding, self._candidate = Folding(), question.route.candidates[0]
        self._asked_at = self.desk.ambient.now()
        self._rounds += 1
        sending = Sending(ask=question.ask, key=question.name)
        begun = await self.desk.calling.begin(question.route, sending)
        self._candidate = begun.candidate
        number = 0
        async with aclosing(begun.frames) as frames:
            async for frame in frames:
                for piece in frame.pieces:
                    self._folding.take(piece)
                    if not isinstance(piece, Failed):
                        self.running.tell(PieceCame(round=self._rounds, piece=piece))
                if (number := number + 1) <= AT_ONCE:  # more may be there already: the first words go out first
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        if not self._folding.ended:
            raise ProviderCut("the provider's answer broke off in the middle; ask again")
        return self._folding.answer()

    async def _took(self, question: Question, answer: Answer) -> None:
        """The append with the answer: what it cost, what it says, which tools begin."""
        state = self._state()
        answer, self.cited = uncited(answer, self.remembered)
        bill = charged(self.desk.pricing, self._candidate, question, answer, error=None)
        said = history.answered(answer, self._usage)
        started = self._permitted(state, calls_in(answer))
        if self._tools:
            await self.running.keep()  # first: whoever looks after a crash sees whose they were
        ends = any(isinstance(payload, turns.TurnFinished) for payload in said)
        drafts = (
            self._answered(question, answer, bill),
            *self.cited,
            *(self._taken_up(state) if ends else ()),
            *said,
            *started,
        )
        await self._advance(drafts, turn=self.number, settles=(bill.settle,))
        self._counted(bill)
        self.desk.contexts.learn(question.ask.model, question.estimate, answer.usage)
        self._question = None
        if ends:
            self.status = "finished"
            if self.request.cache != "off" and self._rounds == 1:
                self._cache(state, question, answer)
        elif not self._tools and answer.stop != "paused":
            self._waits()

    async def reflect(self) -> None:
        """Have what was shown of memory weighed by the answer, which a model gave just now."""
        if self.status == "finished" and not self._cached:
            await reflect(self.desk, self.remembered, self._answer, self.cited)

    def _cache(self, state: State, question: Question, answer: Answer) -> None:
        self.desk.caching.keep(
            self._scope(state, question),
            question.ask,
            answer,
            session=self.session,
            semantic=self._by_meaning(),
            sampled=True,
        )

    def _permitted(self, state: State, calls: tuple[Call, ...]) -> list[Payload]:
        """What is noted of each call at once: that it begins, that a person must allow it, or that it is denied. The
        tools that nobody here runs are the caller's.
        """
        found: list[Payload] = []
        for call in calls:
            if not self.desk.tooling.knows(call.name, state):
                continue
            permission = self.desk.tooling.permission(state, call.name, call.arguments)
            if permission.do == "allow":
                self._tools.append(call)
                found.append(ToolStarted(call=call.id, key=self._key(call.id)))
            elif permission.do == "ask":
                found.append(ApprovalAsked(call=call.id, reason=permission.reason))
            else:
                found.append(ToolFinished(call=call.id, error=f"not allowed: {permission.reason}"))
        return found

    async def _worked(self) -> None:
        """Run the tools side by side; each result is in the log as soon as it is there."""
        calls, self._tools = self._tools, []
        ended = await asyncio.gather(*map(self._ran, calls), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error
        self._waits()

    async def _ran(self, call: Call) -> None:
        self.running.tell(ToolRan(call=call.id, name=call.name, status="started"))
        within = self.desk.settings.tool_timeout
        result: Result = await self.desk.tooling.run(
            call,
            key=self._key(call.id),
            session=self.session,
            turn=self.number,
            deadline=within,
            state=self._state(),
        )
        payloads = history.payloads_of(told(msgspec.structs.replace(result, call=call.id)))
        await unbroken(self._advance(payloads, turn=self.number))
        status: Literal["finished", "failed"] = "failed" if result.failed else "finished"
        self.running.tell(ToolRan(call=call.id, name=call.name, status=status, content=stored(result.content)))

    async def _ask_again(self) -> None:
        """The next round's question."""
        if self._rounds >= self.desk.settings.max_rounds:
            told = f"the turn has had {self._rounds} answers and still wants tools; look at what it is doing"
            raise LimitReached(told, limit="rounds", rounds=self._rounds)
        question = await self._prepared((await self.desk.sessions.loader.load(self.session)).state, None)
        drafts = (*self._recalled(), self._noded(question.asked))
        await self._advance(drafts, turn=self.number, reserves=(question.reserve,))
        self._question = question
