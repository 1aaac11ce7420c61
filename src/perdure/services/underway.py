"""Questions and answers on their way between clients and providers, past the log.

Invariant: nothing of a question reaches a provider before the log has it, and what it may cost; no client hears the end
of an answer before the log has that.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from perdure.core.errors import PerdureError
from perdure.core.talk.folding import Folding
from perdure.core.talk.parts import Delta
from perdure.core.talk.routes import Candidate, Route
from perdure.ports.provider import Frame, Sending
from perdure.services.calling import Answered, Begun, Calling


class Underway:
    """A question, made ready while the log is written."""

    def __init__(self, calling: Calling, route: Route, sending: Sending) -> None:
        self._gate = asyncio.Event()
        held = msgspec.structs.replace(sending, after=self._gate)
        self._task: asyncio.Task[Begun | Answered] = asyncio.create_task(_asked(calling, route, held))

    def send(self) -> None:
        """The log has it: let it go."""
        self._gate.set()

    def drop(self) -> None:
        """The log does not have it: nobody is asked."""
        self._task.cancel()

    async def begun(self) -> Begun:
        """The answer from its first frame on, to a question that wanted a stream. Raises what `Calling.begin` does."""
        found = await self._task
        assert isinstance(found, Begun)
        return found

    async def whole(self) -> Answered:
        """The whole answer, to a question that wanted it so. Raises what `Calling.whole` does."""
        found = await self._task
        assert isinstance(found, Answered)
        return found


async def _asked(calling: Calling, route: Route, sending: Sending) -> Begun | Answered:
    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, in which the log's writer is called: it works meanwhile
    return await (calling.begin(route, sending) if sending.ask.stream else calling.whole(route, sending))


class Piecemeal:
    """An answer on its way to the client: frames as they come, the last ones when the log has them."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.folding = Folding()
        self._held: list[Frame] = []
        self._queue: asyncio.Queue[Frame | PerdureError | None] = asyncio.Queue()

    def take(self, frame: Frame) -> None:
        """More of it. What comes with its end, or after it, is held back."""
        for piece in frame.pieces:
            self.folding.take(piece)
        if self.folding.ended:
            self._held.append(frame)
        else:
            self._queue.put_nowait(frame)

    def end(self) -> None:
        """The log has it: it may be heard to its end."""
        for frame in self._held:
            self._queue.put_nowait(frame)
        self._queue.put_nowait(None)

    def fail(self, error: PerdureError) -> None:
        """What broke it off."""
        self._queue.put_nowait(error)

    async def frames(self) -> AsyncIterator[Frame]:
        """All of it; what broke it off is raised."""
        while (item := await self._queue.get()) is not None:
            if isinstance(item, PerdureError):
                raise item
            yield item


def has_words(frame: Frame) -> bool:
    """Whether it says something."""
    return any(isinstance(piece, Delta) for piece in frame.pieces)
