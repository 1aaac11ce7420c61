"""A turn with a model: what is asked of it, what can be seen of it while it runs, and what comes of it.

All that can be seen is told in lines of JSON, in one order for everybody. A line's place is the number of bytes up to
its end, so whoever has read so far can go on from there, on any node.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec

from perdure.core.errors import Invalid
from perdure.core.talk.content import given_blocks, stored
from perdure.core.talk.parts import Answer, Block, Call, Delta, Piece, Result, Text, Tool, Usage

Busy: TypeAlias = Literal["reject", "enqueue", "interrupt", "rollback"]
Status: TypeAlias = Literal["finished", "tools", "parked", "interrupted", "rolled_back", "open"]
"""How a turn stands: it is over; it waits for results of the caller's tools, or for a person; it was stopped; it was
taken back; or it is still running.
"""
Diverging: TypeAlias = Literal["branch", "reject"]
"""What becomes of a client whose history departs from the log."""
Caching: TypeAlias = Literal["off", "exact", "semantic"]


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says to a session's model. Without `content` and `results` it goes on where it stopped.

    `results` are those of tools that the caller runs, which are offered as `tools`. `busy` says what becomes of a turn
    that is still running. `extra` are fields for the provider, by its wire form.
    """

    content: Any = None
    results: tuple[Result, ...] = ()
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    busy: Busy = "reject"
    cache: Caching = "off"
    agent: str | None = None
    strategy: str = ""
    key: str | None = None
    extra: dict[str, Any] = {}

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What is said, in blocks; `Invalid` for what only a model or a tool can say, and for what is no block."""
        blocks = given_blocks(self.content)
        if any(isinstance(block, Call | Result) for block in blocks):
            raise Invalid("content holds what a user says; give results of tools as results")
        return blocks

    @property
    def said(self) -> Any:
        """What is said, as the log keeps it."""
        return stored(self.blocks)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits: for the caller to run it, or for a person to allow it."""

    id: str
    name: str
    arguments: Any = None
    approval: bool = False


class TurnOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a turn. `content` has the last answer's blocks, `cost` is in micro-dollars."""

    session: str
    turn: int
    version: int
    status: Status
    content: tuple[Block, ...] = ()
    model: str = ""
    stop: str = ""
    usage: Usage = Usage()
    cost: int = 0
    estimated: bool = False
    rounds: int = 0
    waiting: tuple[Waiting, ...] = ()
    reason: str = ""
    cached: str = ""

    @property
    def text(self) -> str:
        """The words of the answer."""
        return "".join(block.text for block in self.content if isinstance(block, Text))


class TurnBegan(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="turn_began"):
    """The turn is in the log."""

    turn: int
    version: int
    model: str = ""


class PieceCame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="piece"):
    """More of an answer; `round` counts the answers of the turn."""

    round: int
    piece: Piece


class ToolRan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="tool"):
    """A tool begins, or ended."""

    call: str
    name: str
    status: Literal["started", "finished", "failed"]
    content: Any = None


class TurnEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="turn_ended"):
    """The turn is over, or waits for somebody."""

    outcome: TurnOutcome


class TurnBroke(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="turn_broke"):
    """The turn was interrupted; `code` and `detail` say why, as an error does."""

    turn: int
    code: str
    detail: str
    fields: dict[str, Any] = {}


TurnEvent: TypeAlias = TurnBegan | PieceCame | ToolRan | TurnEnded | TurnBroke
_READER: Final = msgspec.json.Decoder(TurnEvent)


def line_of(event: TurnEvent) -> bytes:
    """An event as a line."""
    return msgspec.json.encode(event) + b"\n"


def event_of(line: bytes) -> TurnEvent:
    """The event in a line."""
    found: TurnEvent = _READER.decode(line)
    return found


def is_last(event: TurnEvent) -> bool:
    """Whether nothing comes after it."""
    return isinstance(event, TurnEnded | TurnBroke)


def calls_in(answer: Answer) -> tuple[Call, ...]:
    """The tools that an answer wants run."""
    return tuple(block for block in answer.blocks if isinstance(block, Call))


def words_in(piece: Piece) -> str:
    """The words that a piece adds."""
    return piece.text if isinstance(piece, Delta) else ""


def together(first: Usage, second: Usage) -> Usage:
    """What two answers used."""
    return Usage(
        input=first.input + second.input,
        output=first.output + second.output,
        cache_read=first.cache_read + second.cache_read,
        cache_write=first.cache_write + second.cache_write,
    )


def place_of(text: str) -> tuple[int, int]:
    """The turn and offset in an id such as `3:512`."""
    turn, _, offset = text.partition(":")
    if not (turn.isascii() and turn.isdigit() and offset.isascii() and offset.isdigit() and len(text) < 40):
        raise Invalid("a place in a turn is its number and an offset, like 3:512; send the id of the last event")
    return int(turn), int(offset)
