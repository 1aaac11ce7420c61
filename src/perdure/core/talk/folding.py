"""Pieces of a stream folded into the answer that they make, and an answer taken apart into pieces."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from perdure.core.errors import Invalid
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
    Media,
    Piece,
    Result,
    Stop,
    Text,
    Thought,
)
from perdure.core.talk.wire import arguments, rest_in, written


class Folding:
    """What was said so far. An answer can be had at any time: of a stream that broke off, as much as there was."""

    def __init__(self) -> None:
        self._id = self._model = self._sequence = ""
        self._stop: Stop = "end"
        self._usage = NOTHING
        self._blocks: dict[int, Block] = {}
        self._json: dict[int, list[str]] = {}
        self.ended = False
        self.failed: Failed | None = None

    def take(self, piece: Piece) -> None:
        """One more piece. Raises Invalid for more of a block that never began."""
        match piece:
            case Began():
                self._id, self._model, self._usage = piece.id, piece.model, piece.usage
            case BlockBegan():
                if piece.index in self._blocks:
                    raise Invalid(f"block {piece.index} began twice; give each its own index", index=piece.index)
                self._blocks[piece.index] = piece.block
            case Delta():
                self._more(piece)
            case BlockEnded():
                self._whole(piece.index)
            case Ended():
                self.ended = True
                self._stop, self._sequence = piece.stop, piece.sequence
                if piece.usage != NOTHING:
                    self._usage = piece.usage
            case Failed():
                self.failed = piece

    def answer(self) -> Answer:
        """The answer as it stands."""
        for index in list(self._json):
            self._whole(index)
        return Answer(
            id=self._id,
            model=self._model,
            blocks=tuple(self._blocks[index] for index in sorted(self._blocks)),
            stop=self._stop,
            sequence=self._sequence,
            usage=self._usage,
        )

    def _more(self, piece: Delta) -> None:
        block = self._blocks.get(piece.index)
        match block:
            case None:
                raise Invalid(f"block {piece.index} never began; begin it first", index=piece.index)
            case Text():
                self._blocks[piece.index] = msgspec.structs.replace(block, text=block.text + piece.text)
            case Thought():
                self._blocks[piece.index] = msgspec.structs.replace(
                    block, text=block.text + piece.thought, seal=block.seal + piece.seal
                )
            case Call() | Foreign():
                if piece.json:
                    self._json.setdefault(piece.index, []).append(piece.json)
                if piece.text and isinstance(block, Foreign):
                    self._blocks[piece.index] = _longer(block, "text", piece.text)
            case Media() | Result():
                raise Invalid(f"block {piece.index} comes whole; send no more of it", index=piece.index)

    def _whole(self, index: int) -> None:
        """Make arguments of the fragments of a call."""
        text = "".join(self._json.pop(index, ()))
        block = self._blocks.get(index)
        if text and isinstance(block, Call):
            told = written(block) if block.raw else ""
            made = arguments(block.id, block.name, told + text)
            self._blocks[index] = msgspec.structs.replace(block, arguments=made.arguments, raw=made.raw)
        elif text and isinstance(block, Foreign):
            made = arguments("", "", text)
            told_input: Any = made.raw or made.arguments
            self._blocks[index] = msgspec.structs.replace(block, block={**block.block, "input": told_input})


def _longer(block: Foreign, key: str, text: str) -> Foreign:
    said = block.block.get(key)
    return msgspec.structs.replace(block, block={**block.block, key: (said if isinstance(said, str) else "") + text})


def folded(pieces: Iterable[Piece]) -> Answer:
    """The answer that pieces make."""
    folding = Folding()
    for piece in pieces:
        folding.take(piece)
    return folding.answer()


def pieces_of(answer: Answer) -> Iterator[Piece]:
    """The pieces that make an answer, as if it had been streamed; its `extra` has no place in them."""
    yield Began(id=answer.id, model=answer.model, usage=answer.usage)
    for index, block in enumerate(answer.blocks):
        after = answer.blocks[index + 1] if index + 1 < len(answer.blocks) else None
        yield from _taken_apart(index, block, rest_in(after) or {})
        yield BlockEnded(index=index)
    yield Ended(stop=answer.stop, sequence=answer.sequence, usage=answer.usage)


def _taken_apart(index: int, block: Block, beyond: dict[str, Any]) -> Iterator[Piece]:
    match block:
        case Text() if block.text:
            yield BlockBegan(index=index, block=msgspec.structs.replace(block, text=""))
            yield Delta(index=index, text=block.text)
        case Call() if block.raw or block.arguments:
            yield BlockBegan(index=index, block=msgspec.structs.replace(block, arguments={}, raw=""))
            yield Delta(index=index, json=written(block))
        case Thought() if block.text or beyond.get("type") == "thinking":
            yield BlockBegan(index=index, block=msgspec.structs.replace(block, text="", seal=""))
            if block.text:
                yield Delta(index=index, thought=block.text)
            if block.seal:
                yield Delta(index=index, seal=block.seal)
        case _:
            yield BlockBegan(index=index, block=block)
