"""What a tool answers becomes blocks, of which no more is kept than may be."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure.core.errors import Invalid
from perdure.core.talk.content import blocks_of, stored
from perdure.core.talk.parts import Foreign, Media, Result, Text
from perdure.tools.outcome import MARK, MAX_BLOCKS, Content, Outcome, bounded, outcome_of

PNG = b"\x89PNG\r\n\x1a\nrest"
IMAGE = Media(media_type="image/png", data=PNG)
BLOCKS = st.one_of(
    st.builds(Text, text=st.text(max_size=600)),
    st.builds(Media, media_type=st.just("image/png"), data=st.binary(max_size=600)),
    st.builds(
        Foreign,
        provider=st.just("anthropic"),
        block=st.dictionaries(st.text(max_size=9), st.text(max_size=300), max_size=3),
    ),
)


class Fish(msgspec.Struct):
    name: str


@dataclass
class Net:
    fish: list[Fish]


class Boat(BaseModel):
    name: str


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (None, ()),
        ("", ()),
        ("words", (Text(text="words"),)),
        (PNG, (IMAGE,)),
        (b"RIFF....WEBPrest", (Media(media_type="image/webp", data=b"RIFF....WEBPrest"),)),
        (IMAGE, (IMAGE,)),
        ([Text(text="look"), IMAGE], (Text(text="look"), IMAGE)),
        ([], (Text(text="[]"),)),
        (0, (Text(text="0"),)),
        ({"b": 1, "a": [True, None]}, (Text(text='{"b":1,"a":[true,null]}'),)),
        (Net([Fish("cod")]), (Text(text='{"fish":[{"name":"cod"}]}'),)),
        ({"boat": Boat(name="Ana")}, (Text(text='{"boat":{"name":"Ana"}}'),)),
        (Result(call="c1", content=(IMAGE,)), (IMAGE,)),
    ],
)
def test_every_answer_becomes_blocks(answer: Any, content: tuple[Content, ...]) -> None:
    assert outcome_of(answer) == Outcome(content=content)


def test_a_result_that_failed_stays_failed() -> None:
    assert outcome_of(Result(call="c1", failed=True)).failed
    assert outcome_of(Outcome(failed=True)).failed


@pytest.mark.parametrize("answer", [b"what is this", object(), [object()], len])
def test_what_is_no_data_is_refused(answer: Any) -> None:
    with pytest.raises(Invalid, match="the tool answered"):
        outcome_of(answer)


def test_a_long_text_is_cut_and_says_so() -> None:
    (block,) = bounded([Text(text="é" * 5_000_000)], max_text=1000)
    assert isinstance(block, Text)
    assert block.text.endswith("\n[cut: the first 744 of 10000000 bytes]")
    assert block.text.startswith("é" * 372 + "\n")


def test_what_cannot_be_cut_is_left_out_and_says_so() -> None:
    found = bounded([Media(media_type="image/png", data=bytes(2000)), IMAGE, Text(text="more")], max_media=100)
    assert found == (Text(text="[left out: image/png of 2000 bytes; too large to keep]"), IMAGE, Text(text="more"))


def test_so_many_blocks_are_kept_and_no_more() -> None:
    found = bounded([IMAGE] * (MAX_BLOCKS + 7))
    assert len(found) == MAX_BLOCKS + 1
    assert found[-1] == Text(text="[left out: 7 more blocks]")


@given(st.lists(BLOCKS, max_size=12), st.integers(MARK, 2000), st.integers(0, 1000))
def test_what_is_bounded_fits_can_be_stored_and_says_what_is_missing(
    content: list[Content], max_text: int, max_media: int
) -> None:
    found = bounded(content, max_text, max_media)
    texts = sum(len(block.text.encode()) for block in found if isinstance(block, Text))
    foreign = sum(len(msgspec.json.encode(block.block)) for block in found if isinstance(block, Foreign))
    assert texts + foreign <= max_text
    assert sum(len(block.data) for block in found if isinstance(block, Media)) <= max_media
    assert msgspec.json.encode(stored(found))
    if found != tuple(content):
        marks = [block.text for block in found if isinstance(block, Text)]
        assert any("[cut: " in mark or "[left out: " in mark for mark in marks)
        assert blocks_of(stored(found))


@given(st.text(st.characters(), max_size=50))
def test_a_text_with_half_characters_gets_bytes(text: str) -> None:
    (block,) = bounded([Text(text=text + "\ud800")])
    assert isinstance(block, Text)
    assert block.text.encode()
