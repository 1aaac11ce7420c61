"""OpenAI's Chat Completions: requests, answers, streams and errors, read and written.

A time of making is part of every answer here, and not of ours: whoever writes one says it.
"""

from typing import Any, Final

from perdure.core.talk.chat_asks import ask_from, ask_to
from perdure.core.talk.chat_parts import (
    PROVIDER,
    REASONS,
    STOPS,
    THINKING,
    assistant_from,
    assistant_to,
    usage_from,
    usage_left,
    usage_to,
)
from perdure.core.talk.parts import (
    NOTHING,
    Answer,
    Began,
    Block,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Failed,
    Foreign,
    Piece,
    Stop,
    Text,
    Thought,
)
from perdure.core.talk.wire import (
    fields,
    frame,
    left,
    listed,
    merged,
    missing,
    nearest,
    optional,
    rest,
    rest_in,
    whole,
    within,
    word,
    written,
)

__all__ = ["DONE", "Reading", "Writing", "answer_from", "answer_to", "ask_from", "ask_to", "error_from", "error_to"]

DONE: Final = b"data: [DONE]\n\n"
"""The frame that ends a stream."""

_ERRORS: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "server_overloaded"),
}


# ── answers ──


def answer_from(document: object) -> Answer:
    """The answer in a completion: its first choice. Raises Invalid, which says where, for anything else."""
    body = fields(document, "answer")
    if "choices" not in body:
        raise missing("answer.choices")
    choices = listed(body["choices"], "answer.choices")
    if not choices:
        raise missing("answer.choices[0]")
    where = "answer.choices[0]"
    choice = fields(choices[0], where)
    blocks = assistant_from(within(choice, "message", where), f"{where}.message", set())
    extra = left(body, {"id", "object", "model", "choices", "usage"})
    first = left(choice, {"index", "message", "finish_reason"})
    reason = word(choice, "finish_reason", where, "stop")
    stop = _stop(reason, blocks)
    if REASONS[stop] != reason:
        first["finish_reason"] = reason
    usage = usage_left(body, "answer")
    for key, value in (("choice", first), ("choices", choices[1:]), ("usage", usage)):
        if value:
            extra[key] = value
    return Answer(
        id=word(body, "id", "answer"),
        model=word(body, "model", "answer"),
        blocks=blocks,
        stop=stop,
        usage=usage_from(optional(body, "usage", "answer"), "answer.usage"),
        extra={PROVIDER: extra},
    )


def _stop(reason: str, blocks: tuple[Block, ...]) -> Stop:
    """Why it stopped, told from what was said where the reason does not tell it."""
    stop = STOPS.get(reason, "end")
    if stop == "end" and any((rest_in(block) or {}).get("type") == "refusal" for block in blocks):
        return "refused"
    return "tools" if stop == "end" and any(isinstance(block, Call) for block in blocks) else stop


def answer_to(answer: Answer, *, created: int = 0) -> dict[str, Any]:
    """The completion that carries an answer, made at `created` (seconds since 1970)."""
    extra: dict[str, Any] = answer.extra.get(PROVIDER, {})
    spoken = assistant_to(answer.blocks, joined=True) or {"role": "assistant", "content": None}
    message = {"refusal": None, **spoken}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": REASONS[answer.stop]}
    body = {
        "id": answer.id,
        "object": "chat.completion",
        "created": created,
        "model": answer.model,
        "choices": [merged(choice, extra.get("choice", {})), *extra.get("choices", [])],
        "usage": usage_to(answer.usage),
    }
    return merged(body, left(extra, {"choice", "choices"}))


def error_to(status: int, type: str, message: str) -> dict[str, Any]:  # noqa: A002
    """An error as OpenAI tells it; without a type, the one that goes with the status."""
    named, code = _ERRORS.get(status, ("invalid_request_error" if status < 500 else "server_error", None))
    return {"error": {"message": message, "type": type or named, "param": None, "code": code}}


def error_from(document: object) -> Failed:
    """What an error of OpenAI's says. Raises Invalid for anything else."""
    error = within(fields(document, "body"), "error", "body")
    kind = error.get("type") or error.get("code")
    return Failed(type=kind if isinstance(kind, str) else "server_error", message=word(error, "message", "error", ""))


# ── streams ──


class Reading:
    """A stream of completions, read chunk by chunk; `end` is to be called when it says `[DONE]`, or says no more."""

    def __init__(self) -> None:
        self._began = self._done = False
        self._next = 0
        self._speaking: tuple[str, int] | None = None
        self._calls: dict[int, tuple[int, str]] = {}
        self._refused = False
        self._reason = ""
        self._usage = NOTHING

    def feed(self, event: str, data: dict[str, Any]) -> list[Piece]:
        """The pieces in one chunk: of its first choice, the only one there is unless more were asked for."""
        chunk = fields(data, event or "chunk")
        if chunk.get("error"):
            self._done = True
            return [error_from(chunk)]
        pieces: list[Piece] = []
        if not self._began:
            self._began = True
            pieces.append(Began(id=word(chunk, "id", "chunk", ""), model=word(chunk, "model", "chunk", "")))
        if chunk.get("usage") is not None:
            self._usage = usage_from(optional(chunk, "usage", "chunk"), "chunk.usage")
        for at, item in enumerate(listed(chunk.get("choices") or [], "chunk.choices")):
            where = f"chunk.choices[{at}]"
            choice = fields(item, where)
            if not whole(choice, "index", where):
                pieces += self._said(optional(choice, "delta", where), f"{where}.delta")
                self._reason = word(choice, "finish_reason", where, self._reason)
        return pieces

    def end(self) -> list[Piece]:
        """What is to be said when nothing more comes: that the answer is whole, or that it was cut off."""
        if self._done:
            return []
        self._done = True
        if not self._reason:
            return [Failed(type="interrupted", message="the stream ended before the answer did")]
        pieces = self._silent()
        pieces += [BlockEnded(index=number) for number, _ in self._calls.values()]
        stop = STOPS.get(self._reason, "end")
        if stop == "end" and (self._refused or self._calls):
            stop = "refused" if self._refused else "tools"
        return [*pieces, Ended(stop=stop, usage=self._usage)]

    def _said(self, delta: dict[str, Any], where: str) -> list[Piece]:
        pieces: list[Piece] = []
        for key in (*THINKING, "content", "refusal"):
            words = word(delta, key, where, "")
            if words:
                kind = "reasoning" if key in THINKING else key
                pieces += self._speaks(kind)
                spoken = {"thought" if kind == "reasoning" else "text": words}
                pieces.append(Delta(index=self._next - 1 if self._speaking is None else self._speaking[1], **spoken))
        for at, item in enumerate(listed(delta.get("tool_calls") or [], f"{where}.tool_calls")):
            pieces += self._called(fields(item, f"{where}.tool_calls[{at}]"), f"{where}.tool_calls[{at}]")
        return pieces

    def _speaks(self, kind: str) -> list[Piece]:
        """Begin words of this kind, unless they are being said already."""
        if self._speaking is not None and self._speaking[0] == kind:
            return []
        pieces = self._silent()
        self._refused = self._refused or kind == "refusal"
        block: Block = Thought() if kind == "reasoning" else Text(text="")
        self._speaking = (kind, self._number())
        return [*pieces, BlockBegan(index=self._speaking[1], block=block)]

    def _silent(self) -> list[Piece]:
        """End the words that are being said."""
        if self._speaking is None:
            return []
        kind, number = self._speaking
        self._speaking = None
        pieces: list[Piece] = [BlockEnded(index=number)]
        for block in rest(PROVIDER, {"type": kind} if kind == "refusal" else {}):
            number = self._number()
            pieces += [BlockBegan(index=number, block=block), BlockEnded(index=number)]
        return pieces

    def _called(self, item: dict[str, Any], where: str) -> list[Piece]:
        """More of a call. Some servers give every call the same index: another id is another call."""
        call = word(item, "id", where, "")
        inner = optional(item, "function", where) or optional(item, "custom", where)
        name = word(inner, "name", where, "")
        text = word(inner, "arguments", where, "") or word(inner, "input", where, "")
        index = whole(item, "index", where)
        if index is None:
            index = len(self._calls) if call else len(self._calls) - 1
        pieces: list[Piece] = []
        known = self._calls.get(index)
        if known is not None and call and name and call != known[1]:
            self._calls[-1 - len(self._calls)] = known
            known = None
        if known is None:
            pieces = self._silent()
            known = self._calls[index] = (self._number(), call)
            pieces.append(BlockBegan(index=known[0], block=Call(id=call, name=name)))
        return [*pieces, Delta(index=known[0], json=text)] if text else pieces

    def _number(self) -> int:
        self._next += 1
        return self._next - 1


class Writing:
    """An answer written as a stream of completions, chunk by chunk."""

    def __init__(self, *, created: int = 0, include_usage: bool = False) -> None:
        self._head: dict[str, Any] = {"id": "", "object": "chat.completion.chunk", "created": created, "model": ""}
        self._include_usage = include_usage
        self._calls: dict[int, int] = {}

    def written(self, piece: Piece) -> list[bytes]:
        """The frames that say a piece; none for what has no words here. The last frame is `[DONE]`."""
        match piece:
            case Began():
                self._head = {**self._head, "id": piece.id, "model": piece.model}
                return [self._chunk({"role": "assistant", "content": "", "refusal": None})]
            case BlockBegan():
                return self._block(piece)
            case Delta():
                return self._delta(piece)
            case BlockEnded():
                return []
            case Ended():
                frames = [self._chunk({}, REASONS[piece.stop])]
                if self._include_usage:
                    frames.append(frame({**self._head, "choices": [], "usage": usage_to(piece.usage)}))
                return [*frames, DONE]
            case Failed():
                return [frame(error_to(500, piece.type, piece.message))]

    def _block(self, piece: BlockBegan) -> list[bytes]:
        block = piece.block
        if isinstance(block, Call):
            at = self._calls[piece.index] = len(self._calls)
            told = written(block) if block.raw or block.arguments else ""
            function = {"name": block.name, "arguments": told}
            return [
                self._chunk({"tool_calls": [{"index": at, "id": block.id, "type": "function", "function": function}]})
            ]
        if isinstance(block, Text | Thought):
            spoken = {"text": block.text} if isinstance(block, Text) else {"thought": block.text}
            return self._delta(Delta(index=piece.index, **spoken))
        if isinstance(block, Foreign) and rest_in(block) is None:
            words = nearest(block, spoken=True)
            return self._delta(Delta(index=piece.index, text=words.text)) if words is not None else []
        return []

    def _delta(self, piece: Delta) -> list[bytes]:
        frames = []
        if piece.thought:
            frames.append(self._chunk({THINKING[0]: piece.thought}))
        if piece.text:
            frames.append(self._chunk({"content": piece.text}))
        if piece.json and piece.index in self._calls:
            more = {"index": self._calls[piece.index], "function": {"arguments": piece.json}}
            frames.append(self._chunk({"tool_calls": [more]}))
        return frames

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self._include_usage else {}
        return frame({**self._head, "choices": [choice], **usage})
