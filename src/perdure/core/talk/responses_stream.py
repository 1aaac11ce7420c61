"""Answers written as a stream of OpenAI's Responses: every event numbered, every item told when it begins and ends."""

from typing import Any, Final

from perdure.core.talk.parts import (
    NOTHING,
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
    Usage,
)
from perdure.core.talk.responses_items import PROVIDER, call_to, thought_to, usage_to
from perdure.core.talk.wire import frame, nearest, rest_in, written

_CUT_OFF: Final[dict[Stop, str]] = {
    "length": "max_output_tokens",
    "window": "max_output_tokens",
    "refused": "content_filter",
}


def response_to(
    name: str, model: str, output: list[dict[str, Any]], *, created: int, stop: Stop | None, usage: Usage = NOTHING
) -> dict[str, Any]:
    """A response as it stands: in progress as long as there is no reason why it stopped."""
    reason = None if stop is None else _CUT_OFF.get(stop)
    ended = "completed" if reason is None else "incomplete"
    return {
        "id": name,
        "object": "response",
        "created_at": created,
        "status": "in_progress" if stop is None else ended,
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None if stop is None else usage_to(usage),
    }


class _Item:
    """An item that is being written: the last that was told of it, and the words so far."""

    def __init__(self, at: int, block: Block, document: dict[str, Any]) -> None:
        self.at = at
        self.block = block
        self.document = document
        self.words = ""
        self.place = {"item_id": document.get("id", ""), "output_index": at}


class Writing:
    """An answer written as a stream of Responses, event by event."""

    def __init__(self, *, created: int = 0) -> None:
        self._created = created
        self._began = Began(id="", model="")
        self._sequence = 0
        self._items: dict[int, _Item] = {}

    def written(self, piece: Piece) -> list[bytes]:
        """The frames that say a piece; none for a block that Responses do not know."""
        match piece:
            case Began():
                self._began = piece
                response = self._response(None)
                return [self._event(kind, response=response) for kind in ("response.created", "response.in_progress")]
            case BlockBegan():
                return self._block(piece)
            case Delta():
                item = self._items.get(piece.index)
                return [] if item is None else self._delta(item, piece.text or piece.json or piece.thought)
            case BlockEnded():
                item = self._items.get(piece.index)
                return [] if item is None else self._ended(item)
            case Ended():
                response = self._response(piece.stop, piece.usage)
                return [self._event(f"response.{response['status']}", response=response)]
            case Failed():
                error = {"code": piece.type, "message": piece.message}
                response = {**self._response(None), "status": "failed", "error": error}
                return [self._event("response.failed", response=response)]

    def _event(self, kind: str, **body: Any) -> bytes:
        self._sequence += 1
        return frame({"type": kind, **body, "sequence_number": self._sequence - 1}, kind)

    def _response(self, stop: Stop | None, usage: Usage = NOTHING) -> dict[str, Any]:
        output = [item.document for item in self._items.values()]
        name, model = self._began.id, self._began.model
        return response_to(name, model, output, created=self._created, stop=stop, usage=usage)

    def _block(self, piece: BlockBegan) -> list[bytes]:
        block = piece.block
        known = ""
        if isinstance(block, Foreign) and block.provider != PROVIDER:
            near = nearest(block, spoken=True) if rest_in(block) is None else None
            if near is None:
                return []
            block = near
        at = len(self._items)
        ids = f"{self._began.id}_{at}"
        match block:
            case Text():
                known = block.text
                head = {"id": f"msg_{ids}", "type": "message", "status": "in_progress", "role": "assistant"}
                document: dict[str, Any] = {**head, "content": []}
            case Call():
                known = written(block) if block.raw or block.arguments else ""
                named = {**call_to(block, {}), "arguments": ""}
                document = {"id": f"fc_{ids}", "status": "in_progress", **named}
            case Thought():
                known = block.text
                document = {"id": f"rs_{ids}", "type": "reasoning", "summary": []}
            case Foreign() if rest_in(block) is None:
                document = block.block
            case _:
                return []
        item = self._items[piece.index] = _Item(at, block, document)
        frames = [self._event("response.output_item.added", output_index=at, item=document)]
        if isinstance(block, Text):
            part = {"type": "output_text", "text": "", "annotations": []}
            frames.append(self._event("response.content_part.added", **item.place, content_index=0, part=part))
        elif isinstance(block, Thought):
            part = {"type": "summary_text", "text": ""}
            frames.append(
                self._event("response.reasoning_summary_part.added", **item.place, summary_index=0, part=part)
            )
        return frames + self._delta(item, known)

    def _delta(self, item: _Item, words: str) -> list[bytes]:
        if not words:
            return []
        item.words += words
        match item.block:
            case Text():
                where = {**item.place, "content_index": 0}
                return [self._event("response.output_text.delta", **where, delta=words, logprobs=[])]
            case Call():
                return [self._event("response.function_call_arguments.delta", **item.place, delta=words)]
            case Thought():
                return [
                    self._event("response.reasoning_summary_text.delta", **item.place, summary_index=0, delta=words)
                ]
            case _:
                return []

    def _ended(self, item: _Item) -> list[bytes]:
        frames: list[bytes] = []
        match item.block:
            case Text():
                where = {**item.place, "content_index": 0}
                part = {"type": "output_text", "text": item.words, "annotations": []}
                frames.append(self._event("response.output_text.done", **where, text=item.words, logprobs=[]))
                frames.append(self._event("response.content_part.done", **where, part=part))
                item.document = {**item.document, "status": "completed", "content": [part]}
            case Call():
                text = item.words or "{}"
                frames.append(self._event("response.function_call_arguments.done", **item.place, arguments=text))
                item.document = {**item.document, "status": "completed", "arguments": text}
            case Thought():
                where = {**item.place, "summary_index": 0}
                part = {"type": "summary_text", "text": item.words}
                frames.append(self._event("response.reasoning_summary_text.done", **where, text=item.words))
                frames.append(self._event("response.reasoning_summary_part.done", **where, part=part))
                whole = thought_to(Thought(text=item.words), sealed=False)
                item.document = {**item.document, **whole}
        return [*frames, self._event("response.output_item.done", output_index=item.at, item=item.document)]
