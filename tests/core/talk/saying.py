"""Things to say, at random and by hand, and streams read back from their frames."""

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st

from perdure.core.talk import anthropic, chat, responses
from perdure.core.talk.parts import Answer, Block, Call, Piece, Said, Text, Thought, Usage

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
COUNTS = st.integers(0, 10_000)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
UNKNOWN = st.dictionaries(NAMES.map(lambda name: f"x_{name}"), VALUES, max_size=2)
USAGE = st.builds(Usage, input=COUNTS, output=COUNTS, cache_read=COUNTS, cache_write=COUNTS)
TEXT = st.builds(Text, text=WORDS)
CALL = st.builds(Call, id=NAMES, name=NAMES, arguments=OBJECTS) | st.builds(
    Call, id=NAMES, name=NAMES, raw=st.just("{")
)


def answers(*blocks: st.SearchStrategy[Block]) -> st.SearchStrategy[Answer]:
    """Answers of such blocks, that stopped for a reason every provider knows."""
    made = st.builds(Answer, id=NAMES, model=NAMES, blocks=st.lists(st.one_of(*blocks), max_size=4).map(tuple))
    return st.builds(
        lambda answer, usage, cut: msgspec.structs.replace(
            answer,
            usage=usage,
            stop="length" if cut else "tools" if any(isinstance(b, Call) for b in answer.blocks) else "end",
        ),
        made,
        USAGE,
        st.booleans(),
    )


def events(frames: Iterable[bytes]) -> list[tuple[str, Any]]:
    """Event and data of each frame, which must be one whole event each; `[DONE]` is a word, not data."""
    found = []
    for frame in frames:
        assert frame.endswith(b"\n\n")
        assert frame.count(b"\n\n") == 1
        lines = frame[:-2].decode().split("\n")
        event = lines.pop(0).removeprefix("event: ") if lines[0].startswith("event: ") else ""
        (line,) = lines
        assert line.startswith("data: ")
        data = line.removeprefix("data: ")
        found.append((event, data if data == "[DONE]" else msgspec.json.decode(data)))
    return found


def heard(
    reading: anthropic.Reading | chat.Reading | responses.Reading, told: Iterable[tuple[str, Any]]
) -> list[Piece]:
    """The pieces that a stream says, up to its end."""
    pieces: list[Piece] = []
    for event, data in told:
        if data != "[DONE]":
            pieces += reading.feed(event, data)
    return pieces + reading.end()


def common(blocks: Iterable[Block]) -> list[Block]:
    """Only what every provider understands."""
    return [block for block in blocks if isinstance(block, Text | Call | Thought)]


def said(role: Any, *blocks: Block) -> Said:
    return Said(role=role, blocks=blocks)
