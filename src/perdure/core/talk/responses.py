"""OpenAI's Responses: requests, answers, streams and errors, read and written.

A time of making is part of every answer here, and not of ours: whoever writes one says it.
"""

from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.chat import error_from, error_to
from perdure.core.talk.parts import (
    Answer,
    Began,
    Block,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Failed,
    Piece,
    Stop,
    Text,
    Thought,
)
from perdure.core.talk.responses_asks import ask_from, ask_to
from perdure.core.talk.responses_items import PROVIDER, item_from, spoken_to, usage_from
from perdure.core.talk.responses_stream import Writing, response_to
from perdure.core.talk.wire import (
    fields,
    held,
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

__all__ = ["Reading", "Writing", "answer_from", "answer_to", "ask_from", "ask_to", "error_from", "error_to"]

_CUT_OFF: Final[dict[str, Stop]] = {"max_output_tokens": "length", "content_filter": "refused"}


def answer_from(document: object) -> Answer:
    """The answer in a response. Raises Invalid, which says where, for anything else, and for a failure."""
    body = fields(document, "answer")
    if body.get("status") == "failed" or body.get("error"):
        raise Invalid("answer.status is failed, so there is no answer; read its error", where="answer.status")
    if "output" not in body:
        raise missing("answer.output")
    blocks = _blocks(body["output"], "answer.output")
    stop = _stop(body, blocks)
    extra = left(body, {"id", "object", "model", "output", "usage"})
    usage = left(optional(body, "usage", "answer"), {"input_tokens", "output_tokens", "total_tokens"})
    if usage:
        extra["usage"] = usage
    return Answer(
        id=word(body, "id", "answer"),
        model=word(body, "model", "answer"),
        blocks=blocks,
        stop=stop,
        usage=usage_from(optional(body, "usage", "answer"), "answer.usage"),
        extra={PROVIDER: extra},
    )


def _blocks(value: object, where: str) -> tuple[Block, ...]:
    items = [fields(item, f"{where}[{at}]") for at, item in enumerate(listed(value, where))]
    return tuple(block for at, item in enumerate(items) for block in item_from(item, f"{where}[{at}]")[1])


def _stop(response: dict[str, Any], blocks: tuple[Block, ...]) -> Stop:
    if response.get("status") == "incomplete":
        reason = word(optional(response, "incomplete_details", "response"), "reason", "incomplete_details", "")
        return _CUT_OFF.get(reason, "paused")
    if any((rest_in(block) or {}).get("type") == "refusal" for block in blocks):
        return "refused"
    return "tools" if any(isinstance(block, Call) for block in blocks) else "end"


def answer_to(answer: Answer, *, created: int = 0) -> dict[str, Any]:
    """The response that carries an answer, made at `created` (seconds since 1970)."""
    marked = any(beyond.get("type") == "refusal" for _, beyond, _ in held(answer.blocks, PROVIDER)[1])
    stop: Stop = "end" if marked and answer.stop == "refused" else answer.stop
    output = spoken_to(answer.blocks, name=answer.id)
    body = response_to(answer.id, answer.model, output, created=created, stop=stop, usage=answer.usage)
    return merged(body, answer.extra.get(PROVIDER, {}))


class Reading:
    """A stream of Responses, read event by event. What an item has beyond its words comes when it is done."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[tuple[int, int], tuple[int, Block]] = {}
        self._told: set[int] = set()
        self._summaries: dict[int, int] = {}
        self._calls = self._refused = self._done = False

    def feed(self, event: str, data: dict[str, Any]) -> list[Piece]:
        """The pieces in one event. Events that are not known say nothing."""
        body = fields(data, "event")
        kind = word(body, "type", "event", event)
        match kind:
            case "response.created":
                response = within(body, "response", "event")
                return [Began(id=word(response, "id", "response"), model=word(response, "model", "response"))]
            case "response.output_item.added":
                return self._added(body)
            case "response.content_part.added":
                part = within(body, "part", "event")
                return self._begin(body, Text(text="")) if part.get("type") in ("output_text", "refusal") else []
            case "response.output_text.delta" | "response.refusal.delta":
                return self._more(body, "text")
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                return self._more(body, "json")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thinks(body)
            case "response.output_item.done":
                return self._item_done(body)
            case "response.completed" | "response.incomplete":
                self._done = True
                return [self._ended(within(body, "response", "event"))]
            case "response.failed":
                self._done = True
                error = optional(within(body, "response", "event"), "error", "response")
                code = word(error, "code", "error", "server_error")
                return [Failed(type=code, message=word(error, "message", "error", ""))]
            case "error":
                self._done = True
                inner = optional(body, "error", "event") or body
                code = word(inner, "code", "event", "server_error")
                return [Failed(type=code, message=word(inner, "message", "event", ""))]
            case _:
                return []

    def end(self) -> list[Piece]:
        """What is to be said when nothing more comes: that it was cut off, if it was."""
        return [] if self._done else [Failed(type="interrupted", message="the stream ended before the answer did")]

    def _ended(self, response: dict[str, Any]) -> Ended:
        stop = _stop(response, ())
        if stop == "end" and (self._refused or self._calls):
            stop = "refused" if self._refused else "tools"
        return Ended(stop=stop, usage=usage_from(optional(response, "usage", "response"), "response.usage"))

    def _added(self, body: dict[str, Any]) -> list[Piece]:
        item = within(body, "item", "event")
        match item.get("type"):
            case "function_call" | "custom_tool_call":
                self._calls = True
                return self._begin(body, Call(id=word(item, "call_id", "item"), name=word(item, "name", "item")))
            case "reasoning":
                return self._begin(body, Thought())
            case _:
                return []

    def _key(self, body: dict[str, Any]) -> tuple[int, int]:
        return whole(body, "output_index", "event") or 0, whole(body, "content_index", "event") or 0

    def _begin(self, body: dict[str, Any], block: Block) -> list[Piece]:
        number = self._number()
        self._open[self._key(body)] = (number, block)
        return [BlockBegan(index=number, block=block)]

    def _more(self, body: dict[str, Any], key: str) -> list[Piece]:
        found = self._open.get(self._key(body))
        if found is None:
            raise Invalid("event.output_index names nothing that began; begin it first", where="event.output_index")
        words = word(body, "delta", "event")
        self._told.add(found[0])
        return [Delta(index=found[0], **{key: words})] if words else []

    def _thinks(self, body: dict[str, Any]) -> list[Piece]:
        """More of a thought; between the parts of its summary stands an empty line, as in a whole answer."""
        body = {**body, "content_index": 0}
        at, part = self._key(body)[0], whole(body, "summary_index", "event") or 0
        apart = self._summaries.get(at, part) != part
        self._summaries[at] = part
        pieces = self._more(body, "thought")
        if not apart or not pieces:
            return pieces
        return [Delta(index=self._open[at, 0][0], thought="\n\n"), *pieces]

    def _item_done(self, body: dict[str, Any]) -> list[Piece]:
        """The item is told whole: what was not said before is said now, and what has no place is its rest."""
        at = whole(body, "output_index", "event") or 0
        mine = sorted(key for key in self._open if key[0] == at)
        opened = [self._open.pop(key)[0] for key in mine]
        pieces: list[Piece] = []
        for block, beyond, _ in held(item_from(within(body, "item", "event"), "item")[1], PROVIDER)[1]:
            self._refused = self._refused or beyond.get("type") == "refusal"
            if opened:
                number = opened.pop(0)
                pieces += self._untold(number, block)
            else:
                number = self._number()
                pieces.append(BlockBegan(index=number, block=block))
            pieces.append(BlockEnded(index=number))
            for kept in rest(PROVIDER, beyond):
                number = self._number()
                pieces += [BlockBegan(index=number, block=kept), BlockEnded(index=number)]
        return pieces + [BlockEnded(index=number) for number in opened]

    def _untold(self, number: int, block: Block) -> list[Piece]:
        seal = block.seal if isinstance(block, Thought) else ""
        sealed: list[Piece] = [Delta(index=number, seal=seal)] if seal else []
        if number in self._told:
            return sealed
        match block:
            case Text() if block.text:
                return [Delta(index=number, text=block.text)]
            case Call() if block.raw or block.arguments:
                return [Delta(index=number, json=written(block))]
            case Thought() if block.text:
                return [Delta(index=number, thought=block.text), *sealed]
            case _:
                return sealed

    def _number(self) -> int:
        self._next += 1
        return self._next - 1
