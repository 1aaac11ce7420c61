"""A surface: somebody who is attached here, where they have got to, and what wakes them."""

import asyncio

from perdure.edge.http.live.passes import Pass


class Surface:
    """What every kind of surface has. Its own task waits and sends; others only ring."""

    listens = False
    """Whether it is told who comes and goes."""

    def __init__(self, let: Pass, version: int) -> None:
        self.let = let
        self.version = version
        self.beat = 0
        self.left = False
        self.sending: int | None = None
        """The tick at which it began to send what it is still sending."""
        self.cut = False
        self.task: asyncio.Task[object] | None = None
        self._rung = False
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake it; again is once."""
        self._rung = True
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def wait(self) -> None:
        """Until it is rung."""
        if not self._rung:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        self._rung = False

    def leave(self, *_: object) -> None:
        """Its client is gone."""
        self.left = True
        self.ring()

    def stop(self) -> None:
        """Cut off one whose client takes nothing any more."""
        if self.task is not None and not self.cut:
            self.cut = True
            self.task.cancel()
