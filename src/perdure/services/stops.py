"""How a turn is stopped, by a person or by an error: charged, closed, or turned another way."""

from contextlib import suppress
from typing import Final

import msgspec

from perdure.core.errors import PerdureError
from perdure.core.session import commands as do
from perdure.core.session import turns
from perdure.core.session.event import Payload
from perdure.core.session.turns import CallStatus, Message, ToolFinished
from perdure.core.talk.parts import Text
from perdure.services.billing import charged
from perdure.services.running import Stopped
from perdure.services.steps import Steps

GO_ON: Final = (
    "what was said is kept: go on with send() without words "
    "(over HTTP POST …/messages without content, on the command line perdure talk SESSION --continue)"
)
"""What to do after a turn broke."""


class Stopping(Steps):
    """The end of a turn before its time."""

    async def _stopped(self, stopped: Stopped) -> None:
        """A steer is taken up and the turn goes on; anything else ends it."""
        if stopped.how == "steer":
            await self._steered(stopped)
            return
        settles, state = self._unheard(stopped.reason), self._state()
        if stopped.how == "rollback":
            if settles:
                await self._advance(self._noted(stopped.reason), turn=self.number, settles=settles)
            await self.desk.sessions.handle(self.session, do.RollBack(reason=stopped.reason))
            self.status = "rolled_back"
            return
        closed = turns.interrupt(state.turns, stopped.reason, self._words())
        drafts = [*self._noted(stopped.reason), *([closed] if closed is not None else [])]
        await self._advance(drafts, turn=self.number, settles=settles)
        self.status = "interrupted"

    async def _steered(self, stopped: Stopped) -> None:
        """What was under way is cut short; the words of those who step in follow it, and the turn goes on."""
        taken, self.running.steers = self.running.steers, []
        self.steers = self._state().steering.steers + len(taken)
        drafts, settles = self._partial(stopped), self._unheard(stopped.reason)
        if drafts or settles:
            await self._advance(drafts, turn=self.number, settles=settles)
        self._question, self._tools = None, []
        for item in taken:
            try:
                item.version.set_result(await item.append())
            except PerdureError as refusal:
                item.version.set_exception(refusal)
        self.steers = max(self.steers, self._state().steering.steers)

    async def correct(self) -> None:
        """Say what the question truly cost, where somebody closed it and could only guess."""
        question, answer = self._question, self._folding.answer()
        if question is None or not self._folding.ended:
            return
        cost, guessed = self.desk.pricing.cost(self._candidate or question.route.candidates[0], answer.usage)
        if not guessed:
            with suppress(PerdureError):
                await self.desk.sessions.handle(self.session, do.Correct(reservation=question.name, cost=cost))

    async def broke(self, error: PerdureError) -> None:
        """Close the turn that an error ended, charging what was used."""
        closed = turns.interrupt(self._state().turns, error.code, self._words())
        drafts = [*self._noted(error.code, error), *([closed] if closed is not None else [])]
        await self._advance(drafts, turn=self.number, settles=self._unheard(error.code, error))
        self.status = "interrupted"

    def advised(self, error: PerdureError) -> PerdureError:
        """The error with how to go on. A child is not gone on with: it ends, and its parent is told."""
        if self._state().origin.spawner is not None:
            return error
        told = type(error)(f"{error.message}; {GO_ON}", **error.fields)
        told.__cause__ = error
        return told

    def _unheard(self, reason: str, error: PerdureError | None = None) -> tuple[do.Settle, ...]:
        """What settles a question whose answer did not come to its end."""
        if self._question is None:
            return ()
        bill = charged(
            self.desk.pricing, self._candidate, self._question, self._folding.answer(), error=error or reason
        )
        self._counted(bill)
        return (bill.settle,)

    def _noted(self, reason: str, error: PerdureError | None = None) -> list[Payload]:
        """What is noted of a question whose answer did not come to its end."""
        question = self._question
        if question is None:
            return []
        bill = charged(self.desk.pricing, self._candidate, question, self._folding.answer(), error=error or reason)
        answer = msgspec.structs.replace(self._folding.answer(), usage=bill.usage)
        return [msgspec.structs.replace(self._answered(question, answer, bill), error=reason, stop="")]

    def _partial(self, stopped: Stopped) -> list[Payload]:
        """What the model had said when it was cut short, and what tools were stopped."""
        words = self._words()
        said = [Message(role="assistant", content=words, metadata={"interrupted": stopped.reason})] if words else []
        open = self._state().turns.open
        calls = {} if open is None else open.calls
        running = [call for call, item in calls.items() if item.status is CallStatus.STARTED]
        cancelled = [ToolFinished(call=call, error="cancelled: somebody stepped in") for call in running]
        return [*self._noted(stopped.reason), *said, *cancelled]

    def _words(self) -> str:
        if self._question is None:
            return ""
        blocks = self._folding.answer().blocks
        return "".join(block.text for block in blocks if isinstance(block, Text))
