"""Answers in a client's wire form: relayed as they came, written anew from pieces, or made of a whole turn.

A turn may take several rounds, with tools in between that run here. Its client hears one answer: the words of all
rounds one after the other, and of the tools those that it has to run itself.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from perdure.core.errors import PerdureError, TurnRefused
from perdure.core.talk import anthropic, chat, responses
from perdure.core.talk.folding import pieces_of
from perdure.core.talk.parts import (
    Answer,
    Ask,
    Began,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Failed,
    Piece,
    Stop,
)
from perdure.core.talk.routes import Form
from perdure.core.talk.turning import PieceCame, TurnBroke, TurnEnded, TurnEvent, TurnOutcome
from perdure.edge.http import shaping
from perdure.edge.http.logs import facts
from perdure.ports.provider import Frame

log: Final = logging.getLogger("perdure.gateway")
SECOND: Final = 1_000_000
Knows = Callable[[str], bool]
"""Whether a tool runs here."""


class Writing(Protocol):
    """A stream of one wire form, written piece by piece."""

    def written(self, piece: Piece) -> list[bytes]:
        """The frames that say a piece."""
        ...


def read(form: Form, body: dict[str, Any]) -> Ask:
    """What a request in a wire form asks; `Invalid` says where it is none."""
    match form:
        case "anthropic":
            return anthropic.ask_from(body)
        case "openai-chat":
            return chat.ask_from(body)
        case _:
            return responses.ask_from(body)


def document(form: Form, answer: Answer, now: int) -> bytes:
    """A whole answer in a wire form, made now (microseconds)."""
    match form:
        case "anthropic":
            return msgspec.json.encode(anthropic.answer_to(answer))
        case "openai-chat":
            return msgspec.json.encode(chat.answer_to(answer, created=now // SECOND))
        case _:
            return msgspec.json.encode(responses.answer_to(answer, created=now // SECOND))


def writing(form: Form, body: dict[str, Any], now: int) -> Writing:
    """What writes a stream in a wire form, as its request wants it."""
    match form:
        case "anthropic":
            return anthropic.Writing()
        case "openai-chat":
            wanted = body.get("stream_options")
            told = isinstance(wanted, dict) and wanted.get("include_usage") is True
            return chat.Writing(created=now // SECOND, include_usage=told)
        case _:
            return responses.Writing(created=now // SECOND)


async def relayed(form: Form, frames: AsyncIterator[Frame]) -> AsyncGenerator[bytes, None]:
    """A stream in the bytes that it came in; what breaks it off is told as its form does."""
    try:
        async for frame in frames:
            if frame.raw:
                yield frame.raw
    except PerdureError as error:
        log.warning("an answer broke off", extra=facts(error))
        yield shaping.broken(form, error)


async def rewritten(form: Form, writer: Writing, pieces: AsyncIterator[Piece]) -> AsyncGenerator[bytes, None]:
    """A stream written anew; what breaks it off is told as its form does."""
    try:
        async for piece in pieces:
            if frames := writer.written(piece):
                yield b"".join(frames)
    except PerdureError as error:
        log.warning("an answer broke off", extra=facts(error))
        shape = shaping.shaped(form, error)
        if form == "openai-responses":
            failed = Failed(type=shape.code or error.code, message=shape.message)
            yield b"".join(writer.written(failed))
        else:
            yield shaping.broken(form, error)


async def pieces_in(frames: AsyncIterator[Frame]) -> AsyncGenerator[Piece, None]:
    """What frames say."""
    async for frame in frames:
        for piece in frame.pieces:
            yield piece


async def begun(pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[Piece, None]:
    """The same pieces, the first of which is there already: what fails before it is raised here and now."""
    first = await anext(pieces)

    async def rest() -> AsyncGenerator[Piece, None]:
        yield first
        async for piece in pieces:
            yield piece

    return rest()


# ── turns ──


async def told(events: AsyncIterator[TurnEvent], knows: Knows) -> AsyncGenerator[Piece, None]:
    """A turn as one answer. Raises what broke it."""
    joining = _Joining(knows)
    async for event in events:
        match event:
            case PieceCame():
                for piece in joining.took(event.round, event.piece):
                    yield piece
            case TurnEnded():
                for piece in joining.ended(event.outcome):
                    yield piece
            case TurnBroke():
                raise shaping.known(event.code, event.detail, event.fields)
            case _:
                pass


class _Joining:
    """The rounds of a turn joined into one answer."""

    def __init__(self, knows: Knows) -> None:
        self._knows = knows
        self._began = False
        self._numbers: dict[tuple[int, int], int] = {}
        self._open: dict[int, None] = {}

    def took(self, nth: int, piece: Piece) -> Iterable[Piece]:
        """What a piece adds to the one answer."""
        match piece:
            case Began():
                yield from self._closed()
                if not self._began:
                    self._began = True
                    yield piece
            case BlockBegan(block=Call(name=name)) if self._knows(name):
                return
            case BlockBegan():
                number = self._numbers[nth, piece.index] = len(self._numbers)
                self._open[number] = None
                yield msgspec.structs.replace(piece, index=number)
            case Delta() | BlockEnded():
                found = self._numbers.get((nth, piece.index))
                if found is not None:
                    if isinstance(piece, BlockEnded):
                        self._open.pop(found, None)
                    yield msgspec.structs.replace(piece, index=found)
            case _:
                return

    def _closed(self) -> Iterable[Piece]:
        """The ends of blocks that were cut short."""
        for number in self._open:
            yield BlockEnded(index=number)
        self._open = {}

    def ended(self, outcome: TurnOutcome) -> Iterable[Piece]:
        """The end, or all of it when none of it was told before."""
        if outcome.status in ("interrupted", "rolled_back"):
            raise TurnRefused(
                f"turn {outcome.turn} was {outcome.status.replace('_', ' ')}; say something, or nothing, to go on",
                turn=outcome.turn,
            )
        if not self._began:
            blocks = tuple(
                block for block in outcome.content if not (isinstance(block, Call) and self._knows(block.name))
            )
            name = f"turn_{outcome.session}_{outcome.turn}"
            whole = Answer(id=name, model=outcome.model, blocks=blocks, stop=_stop(outcome), usage=outcome.usage)
            yield from pieces_of(whole)
            return
        yield from self._closed()
        yield Ended(stop=_stop(outcome), usage=outcome.usage)


def _stop(outcome: TurnOutcome) -> Stop:
    match outcome.status:
        case "tools":
            return "tools"
        case "parked":
            return "paused"
        case _:
            stop: Stop = outcome.stop or "end"  # type: ignore[assignment]
            return stop
