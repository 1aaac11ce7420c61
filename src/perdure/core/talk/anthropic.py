"""Anthropic's Messages: requests, answers, streams and errors, read and written."""

from collections.abc import Iterable
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.anthropic_asks import ask_from, ask_to
from perdure.core.talk.anthropic_blocks import (
    PROVIDER,
    REASONS,
    STOPS,
    block_from,
    block_to,
    blocks_from,
    content_list,
    usage_from,
    usage_left,
    usage_to,
)
from perdure.core.talk.parts import (
    Answer,
    Began,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Failed,
    Foreign,
    Piece,
    Thought,
    Usage,
)
from perdure.core.talk.wire import (
    Held,
    fields,
    frame,
    left,
    listed,
    merged,
    missing,
    optional,
    rest,
    rest_in,
    whole,
    within,
    word,
    written,
)

__all__ = ["PING", "Reading", "Writing", "answer_from", "answer_to", "ask_from", "ask_to", "error_from", "error_to"]

PING: Final = frame({"type": "ping"}, "ping")
"""The frame that keeps a silent stream open."""

_ANSWER: Final = {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


# ── answers ──


def answer_from(document: object) -> Answer:
    """The answer in a message of the model. Raises Invalid, which says where, for anything else."""
    body = fields(document, "answer")
    if "content" not in body:
        raise missing("answer.content")
    extra = left(body, _ANSWER)
    usage = usage_left(body, "answer")
    if usage:
        extra["usage"] = usage
    reason = word(body, "stop_reason", "answer", "end_turn")
    if reason not in STOPS:
        extra["stop_reason"] = reason
    return Answer(
        id=word(body, "id", "answer"),
        model=word(body, "model", "answer"),
        blocks=blocks_from(listed(body["content"], "answer.content"), "answer.content"),
        stop=STOPS.get(reason, "end"),
        sequence=word(body, "stop_sequence", "answer", ""),
        usage=usage_from(optional(body, "usage", "answer"), "answer.usage"),
        extra={PROVIDER: extra},
    )


def answer_to(answer: Answer) -> dict[str, Any]:
    """The message that carries an answer."""
    body = {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content_list(answer.blocks, spoken=True),
        "stop_reason": REASONS[answer.stop],
        "stop_sequence": answer.sequence or None,
        "usage": usage_to(answer.usage),
    }
    return merged(body, answer.extra.get(PROVIDER, {}))


def error_to(status: int, type: str, message: str) -> dict[str, Any]:  # noqa: A002
    """An error as Anthropic tells it; without a type, the one that goes with the status."""
    named = type or _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": named, "message": message}}


def error_from(document: object) -> Failed:
    """What an error of Anthropic's says. Raises Invalid for anything else."""
    error = within(fields(document, "body"), "error", "body")
    return Failed(type=word(error, "type", "error", "api_error"), message=word(error, "message", "error", ""))


# ── streams ──


class Reading:
    """A stream of Anthropic's, read event by event. Blocks are counted anew, for a rest takes a number, too."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, tuple[int, dict[str, Any]]] = {}
        self._usage = Usage()
        self._done = False

    def feed(self, event: str, data: dict[str, Any]) -> list[Piece]:
        """The pieces in one event. Pings and events that are not known say nothing."""
        body = fields(data, "event")
        match body.get("type", event):
            case "message_start":
                message = within(body, "message", "event")
                self._usage = usage_from(optional(message, "usage", "message"), "message.usage")
                name, model = word(message, "id", "message"), word(message, "model", "message")
                return [Began(id=name, model=model, usage=self._usage)]
            case "content_block_start":
                return self._began(body)
            case "content_block_delta":
                return self._delta(body)
            case "content_block_stop":
                return self._ended(whole(body, "index", "event") or 0)
            case "message_delta":
                self._usage = usage_from(optional(body, "usage", "event"), "event.usage", self._usage)
                delta = optional(body, "delta", "event")
                self._done = True
                stop = STOPS.get(word(delta, "stop_reason", "delta", "end_turn"), "end")
                return [Ended(stop=stop, sequence=word(delta, "stop_sequence", "delta", ""), usage=self._usage)]
            case "error":
                self._done = True
                return [error_from(body)]
            case _:
                return []

    def end(self) -> list[Piece]:
        """What is to be said when nothing more comes: that it was cut off, if it was."""
        return [] if self._done else [Failed(type="interrupted", message="the stream ended before the answer did")]

    def _began(self, body: dict[str, Any]) -> list[Piece]:
        block, *beyond = block_from(within(body, "content_block", "event"), "content_block")
        kept = next((found for found in map(rest_in, beyond) if found is not None), {})
        number = self._number()
        self._open[whole(body, "index", "event") or 0] = (number, kept)
        return [BlockBegan(index=number, block=block)]

    def _delta(self, body: dict[str, Any]) -> list[Piece]:
        index = whole(body, "index", "event") or 0
        if index not in self._open:
            raise Invalid(f"event.index is {index}, and no such block is open; begin it first", where="event.index")
        number, kept = self._open[index]
        delta = within(body, "delta", "event")
        match word(delta, "type", "delta"):
            case "text_delta":
                return [Delta(index=number, text=word(delta, "text", "delta"))]
            case "input_json_delta":
                return [Delta(index=number, json=word(delta, "partial_json", "delta"))]
            case "thinking_delta":
                kept.pop("type", None)
                return [Delta(index=number, thought=word(delta, "thinking", "delta"))]
            case "signature_delta":
                return [Delta(index=number, seal=word(delta, "signature", "delta"))]
            case "citations_delta":
                kept["citations"] = [*(kept.get("citations") or []), delta.get("citation")]
        return []

    def _ended(self, index: int) -> list[Piece]:
        number, kept = self._open.pop(index, (-1, {}))
        if number < 0:
            return []
        ended: list[Piece] = [BlockEnded(index=number)]
        for block in rest(PROVIDER, kept):
            number = self._number()
            ended += [BlockBegan(index=number, block=block), BlockEnded(index=number)]
        return ended

    def _number(self) -> int:
        self._next += 1
        return self._next - 1


class Writing:
    """An answer written as a stream of Anthropic's, frame by frame. A block's last frame waits for the next piece: that
    may be its rest, and what it cites is said before the block ends.
    """

    def __init__(self) -> None:
        self._indexes: dict[int, int] = {}
        self._ending: list[bytes] = []
        self._last = -1

    def written(self, piece: Piece) -> list[bytes]:
        """The frames that say a piece; none for a block that Anthropic does not know."""
        ending, self._ending = self._ending, []
        if isinstance(piece, BlockEnded):
            if piece.index not in self._indexes:
                return ending
            self._last = piece.index
            stop = {"type": "content_block_stop", "index": self._indexes[piece.index]}
            self._ending = [frame(stop, "content_block_stop")]
            return ending
        kept = rest_in(piece.block) if isinstance(piece, BlockBegan) else None
        if ending and kept is not None:
            cited = kept.get("citations") if _is_mine(piece) else None
            listed = cited if isinstance(cited, list) else []
            deltas = [{"type": "citations_delta", "citation": citation} for citation in listed]
            return [*self._more(self._last, deltas), *ending]
        return [*ending, *self._written(piece)]

    def _written(self, piece: Piece) -> list[bytes]:
        match piece:
            case Began():
                empty = Answer(id=piece.id, model=piece.model, blocks=(), usage=piece.usage)
                message = {**answer_to(empty), "stop_reason": None}
                return [frame({"type": "message_start", "message": message}, "message_start")]
            case BlockBegan():
                return self._began(piece)
            case Delta():
                return self._more(piece.index, _deltas(piece))
            case BlockEnded():
                return []
            case Ended():
                delta = {"stop_reason": REASONS[piece.stop], "stop_sequence": piece.sequence or None}
                body = {"type": "message_delta", "delta": delta, "usage": usage_to(piece.usage)}
                return [frame(body, "message_delta"), frame({"type": "message_stop"}, "message_stop")]
            case Failed():
                return [frame(error_to(500, piece.type, piece.message), "error")]

    def _began(self, piece: BlockBegan) -> list[bytes]:
        block = piece.block
        if rest_in(block) is not None:
            return []
        more: list[dict[str, Any]] = []
        if isinstance(block, Thought) and (block.text or not block.seal):
            document: dict[str, Any] | None = {"type": "thinking", "thinking": "", "signature": ""}
            more = _deltas(Delta(index=0, thought=block.text, seal=block.seal))
        else:
            document = block_to(Held(block, {}, ""), spoken=True)
        if document is None:
            return []
        if isinstance(block, Call):
            told = bool(block.raw or block.arguments)
            document, more = {**document, "input": {}}, _deltas(Delta(index=0, json=written(block) if told else ""))
        elif document["type"] == "text":
            document, more = {**document, "text": ""}, _deltas(Delta(index=0, text=document["text"]))
        index = self._indexes[piece.index] = len(self._indexes)
        body = {"type": "content_block_start", "index": index, "content_block": document}
        return [frame(body, "content_block_start"), *self._more(piece.index, more)]

    def _more(self, index: int, deltas: Iterable[dict[str, Any]]) -> list[bytes]:
        if index not in self._indexes:
            return []
        body = {"type": "content_block_delta", "index": self._indexes[index]}
        return [frame({**body, "delta": delta}, "content_block_delta") for delta in deltas]


def _is_mine(piece: Piece) -> bool:
    return isinstance(piece, BlockBegan) and isinstance(piece.block, Foreign) and piece.block.provider == PROVIDER


def _deltas(piece: Delta) -> list[dict[str, Any]]:
    """What a delta says, each thing in its own words."""
    said = [
        ("text_delta", "text", piece.text),
        ("input_json_delta", "partial_json", piece.json),
        ("thinking_delta", "thinking", piece.thought),
        ("signature_delta", "signature", piece.seal),
    ]
    return [{"type": kind, key: value} for kind, key, value in said if value]
