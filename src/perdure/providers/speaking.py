"""What the three wire forms have in common: a request is built, its answer read, whole or event by event.

The last frame of a stream, and only that, has an `Ended` in it; a stream that ends otherwise raises.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar, Final, Protocol

import msgspec

from perdure.core.errors import Invalid, PerdureError, ProviderCut, ProviderFailed, ProviderGarbled
from perdure.core.talk.parts import Answer, Ask, Ended, Failed, Piece
from perdure.core.talk.routes import Form, Upstream
from perdure.ports.provider import Frame, Sending, Whole
from perdure.providers.events import Event
from perdure.providers.failing import Telling, said
from perdure.providers.http import LINGER, Line, Post

_QUERY: Final = re.compile(r"[\w%&=.~+,:-]*", re.ASCII)
_LONE: Final = "it has half a character in it (a lone surrogate), or is nested too deep; correct it"


class Reading(Protocol):
    """A stream of one wire form, read event by event."""

    def feed(self, event: str, data: dict[str, Any]) -> list[Piece]:
        """The pieces in one event."""
        ...

    def end(self) -> list[Piece]:
        """What is to be said when nothing more comes."""
        ...


class Speaking:
    """A provider that speaks a wire form over HTTP. What differs between the forms is left to each of them."""

    form: Form
    passed: ClassVar[frozenset[str]] = frozenset()
    """Headers of the client's that the provider may see."""

    def __init__(self, upstream: Upstream) -> None:
        self.name = upstream.name
        self._upstream = upstream
        self._telling = Telling(upstream)
        self._line = Line(upstream, self._telling)

    # ── what each form says for itself ──

    def _path(self) -> str:
        raise NotImplementedError

    def _key(self) -> dict[str, str]:
        """The headers by which the provider knows us."""
        raise NotImplementedError

    def _written(self, ask: Ask) -> dict[str, Any]:
        """The request that carries an ask."""
        raise NotImplementedError

    def _answer(self, document: object) -> Answer:
        raise NotImplementedError

    def _reading(self) -> Reading:
        raise NotImplementedError

    def _shaped(self, body: dict[str, Any], *, stream: bool) -> dict[str, Any]:
        """The request as it is sent: for a stream, or for a whole answer."""
        return {
            **{key: value for key, value in body.items() if key != "stream"},
            **({"stream": True} if stream else {}),
        }

    def _last(self, event: Event, document: object) -> bool:
        """Whether an event says that no more will come."""
        raise NotImplementedError

    def _hides(self, sending: Sending) -> bool:
        """Whether the client is to be spared what only we have asked for."""
        return False

    def _hidden(self, document: object) -> bool:
        """Whether an event is such."""
        return False

    # ── the port ──

    async def whole(self, sending: Sending) -> Whole:
        """The answer at once."""
        body = await self._line.whole(self._post(sending, stream=False))
        model = sending.ask.model
        try:
            document = msgspec.json.decode(body)
            if isinstance(document, dict) and document.get("error"):
                raise self._telling.failed(model, *said(document))
            answer = self._answer(document)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._telling.error(ProviderGarbled, model, f"its answer is no JSON: {error}") from error
        except Invalid as error:
            raise self._telling.error(ProviderGarbled, model, error.message) from error
        return Whole(answer, body if sending.form == self.form else b"")

    async def stream(self, sending: Sending) -> AsyncGenerator[Frame, None]:
        """The answer as it comes."""
        folding = _Framing(relayed=sending.form == self.form)
        hides = self._hides(sending)
        reading = self._reading()
        async with aclosing(self._line.events(self._post(sending, stream=True))) as events:
            try:
                async for event in events:
                    document = self._document(sending, event)
                    pieces = self._pieces(sending, reading, event, document)
                    last = self._last(event, document)
                    if last:
                        pieces += self._told(sending, reading.end())
                    folding.take(pieces, b"" if hides and self._hidden(document) else event.raw)
                    if last:
                        break
                    if (frame := folding.ready()) is not None:
                        yield frame
                else:
                    folding.take(self._told(sending, reading.end()), b"")
            except ProviderFailed:
                if not folding.ended:
                    raise
            yield folding.rest()
            await _drained(events)

    async def close(self) -> None:
        """Let go of connections."""
        await self._line.close()

    # ── asking ──

    def _post(self, sending: Sending, *, stream: bool) -> Post:
        ask = sending.ask
        try:
            if sending.body is not None and sending.form == self.form:
                body = {**sending.body, "model": ask.model}
            else:
                body = self._written(msgspec.structs.replace(ask, stream=stream))
            data = msgspec.json.encode(self._shaped(body, stream=stream))
        except Invalid as error:
            raise self._telling.unsendable(ask.model, error) from error
        except (UnicodeEncodeError, RecursionError, TypeError) as error:
            raise self._telling.unsendable(ask.model, Invalid(_LONE)) from error
        query = f"?{sending.query}" if sending.query and _QUERY.fullmatch(sending.query) else ""
        headers = self._headers(sending, stream=stream)
        return Post(path=self._path() + query, headers=headers, body=data, model=ask.model, after=sending.after)

    def _headers(self, sending: Sending, *, stream: bool) -> dict[str, str]:
        """Ours, the client's that may pass, and the operator's; the later ones count."""
        kind = "text/event-stream" if stream else "application/json"
        headers = {"content-type": "application/json", "accept": kind, **self._key()}
        for name, value in sending.headers.items():
            if name.lower() in self.passed and value.isprintable():
                headers[name.lower()] = value
        if sending.key and sending.key.isprintable():
            headers["idempotency-key"] = sending.key
        return headers | {name.lower(): value for name, value in self._upstream.headers.items()}

    # ── reading ──

    def _document(self, sending: Sending, event: Event) -> object:
        if not event.data or event.data == b"[DONE]":
            return None
        try:
            return msgspec.json.decode(event.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            kind = ProviderCut if event.torn else ProviderGarbled
            why = "the stream ended within an event" if event.torn else f"an event is no JSON: {error}"
            raise self._telling.error(kind, sending.ask.model, why) from error

    def _pieces(self, sending: Sending, reading: Reading, event: Event, document: Any) -> list[Piece]:
        if document is None:
            return []
        try:
            return self._told(sending, reading.feed(event.name, document), document)
        except Invalid as error:
            raise self._telling.error(ProviderGarbled, sending.ask.model, error.message) from error

    def _told(self, sending: Sending, pieces: list[Piece], document: object = None) -> list[Piece]:
        """The pieces, unless one of them tells of a failure."""
        for piece in pieces:
            if isinstance(piece, Failed):
                raise self._telling.failed(sending.ask.model, piece, said(document)[1])
        return pieces


class _Framing:
    """Pieces and bytes that make up frames. What comes before the first piece, or with the end, goes with it."""

    def __init__(self, *, relayed: bool) -> None:
        self._relayed = relayed
        self._begun = False
        self._pieces: list[Piece] = []
        self._raw = b""
        self.ended = False

    def take(self, pieces: list[Piece], raw: bytes) -> None:
        """More of the stream. Of several ends the last one counts."""
        if any(isinstance(piece, Ended) for piece in pieces):
            self._pieces = [piece for piece in self._pieces if not isinstance(piece, Ended)]
            self.ended = True
        self._pieces += pieces
        if self._relayed:
            self._raw += raw

    def ready(self) -> Frame | None:
        """A frame, if there is something to tell and it is not the end."""
        if self.ended or not (self._pieces or (self._begun and self._raw)):
            return None
        self._begun = True
        return self.rest()

    def rest(self) -> Frame:
        """All that was not told yet."""
        frame = Frame(tuple(self._pieces), self._raw)
        self._pieces, self._raw = [], b""
        return frame


async def _drained(events: AsyncGenerator[Event, None]) -> None:
    """Read what is left of a stream that has said all: most often its end, after which the connection serves again."""
    try:
        async with asyncio.timeout(LINGER):
            async for _ in events:
                pass
    except (TimeoutError, PerdureError):
        pass
