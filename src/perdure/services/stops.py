"""How a turn is stopped, by a person or by an error: charged, closed, or turned another way."""

import msgspec

from perdure.core.errors import PerdureError
from perdure.core.session import commands as do
from perdure.core.session import turns
from perdure.core.session.event import Payload
from perdure.core.session.steering import Steered
from perdure.core.session.turns import CallStatus, Message, ToolFinished
from perdure.core.talk.parts import Text
from perdure.services.billing import charged
from perdure.services.running import Stopped
from perdure.services.steps import Steps


class Stopping(Steps):
    """The end of a turn before its time."""

    async def _stopped(self, stopped: Stopped) -> None:
        """A steer is taken up and the turn goes on; anything else ends it."""
        if stopped.reason == "steered":
            drafts = self._partial(stopped)
            steered = () if stopped.told else (Steered(text=stopped.text),)
            self.steers = self._state().steering.steers + len(steered)
            await self._advance((*drafts, *steered), turn=self.number, settles=self._unheard(stopped.reason))
            self._question, self.steers = None, max(self.steers, self._state().steering.steers)
            return
        settles, state = self._unheard(stopped.reason), self._state()
        if stopped.reason == "rolled_back":
            if settles:
                await self._advance(self._noted(stopped.reason), turn=self.number, settles=settles)
            await self.desk.sessions.handle(self.session, do.RollBack(reason=stopped.text))
            self.status = "rolled_back"
            return
        closed = turns.interrupt(state.turns, stopped.reason, self._words())
        drafts = [*self._noted(stopped.reason), *([closed] if closed is not None else [])]
        await self._advance(drafts, turn=self.number, settles=settles)
        self.status = "interrupted"

    async def broke(self, error: PerdureError) -> None:
        """Close the turn that an error ended, charging what was used."""
        closed = turns.interrupt(self._state().turns, error.code, self._words())
        drafts = [*self._noted(error.code, error), *([closed] if closed is not None else [])]
        await self._advance(drafts, turn=self.number, settles=self._unheard(error.code, error))
        self.status = "interrupted"

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
