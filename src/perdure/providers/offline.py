"""The built-in model as a provider: no key, no network, the same answer to the same ask."""

from collections.abc import AsyncGenerator, Iterable

from perdure.core.errors import Invalid
from perdure.core.talk.folding import folded
from perdure.core.talk.offline import MODEL, Offline, Step
from perdure.core.talk.parts import Failed, Piece
from perdure.core.talk.routes import Form, Upstream
from perdure.ports.provider import Frame, Sending, Whole
from perdure.providers.failing import Telling


class OfflineProvider:
    """The built-in model, with or without a script."""

    form: Form = ""

    def __init__(self, name: str = MODEL, steps: Iterable[Step] = ()) -> None:
        self.name = name
        self._model = Offline(steps)
        self._telling = Telling(Upstream(name=name, kind="offline"))

    async def stream(self, sending: Sending) -> AsyncGenerator[Frame, None]:
        """The answer, piece by piece."""
        if sending.after is not None:
            await sending.after.wait()
        for piece in self._pieces(sending):
            yield Frame((self._told(sending, piece),))

    async def whole(self, sending: Sending) -> Whole:
        """The answer at once."""
        if sending.after is not None:
            await sending.after.wait()
        return Whole(folded([self._told(sending, piece) for piece in self._pieces(sending)]))

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _pieces(self, sending: Sending) -> list[Piece]:
        try:
            return self._model.pieces(sending.ask)
        except Invalid as error:
            raise self._telling.unsendable(sending.ask.model, error) from error

    def _told(self, sending: Sending, piece: Piece) -> Piece:
        if isinstance(piece, Failed):
            raise self._telling.failed(sending.ask.model, piece)
        return piece
