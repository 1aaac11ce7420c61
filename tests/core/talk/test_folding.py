"""Pieces make an answer, and an answer makes pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk.folding import Folding, folded, pieces_of
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
    Media,
    Piece,
    Text,
    Thought,
    Usage,
)
from tests.core.talk.saying import CALL, OBJECTS, TEXT, WORDS, answers

THOUGHT = st.builds(Thought, text=WORDS | st.just(""), seal=WORDS | st.just(""))
FOREIGN = st.builds(Foreign, provider=st.just("anthropic"), block=OBJECTS)
EMPTY = st.just(Text(text="")) | st.just(Call(id="c", name="n"))


@given(answers(TEXT, CALL, THOUGHT, FOREIGN, EMPTY))
def test_an_answer_taken_apart_folds_back(answer: Answer) -> None:
    assert folded(pieces_of(answer)) == answer


@given(answers(TEXT, CALL, THOUGHT), st.data())
def test_how_finely_words_are_cut_makes_no_difference(answer: Answer, data: st.DataObject) -> None:
    fine: list[Piece] = []
    for piece in pieces_of(answer):
        if not isinstance(piece, Delta):
            fine.append(piece)
            continue
        for key in ("text", "json", "thought", "seal"):
            words = getattr(piece, key)
            cut = data.draw(st.integers(0, len(words)))
            fine += [Delta(index=piece.index, **{key: part}) for part in (words[:cut], words[cut:])]
    assert folded(fine) == answer


def test_a_stream_that_broke_off_leaves_what_was_said() -> None:
    folding = Folding()
    for piece in [
        Began(id="a", model="m", usage=Usage(input=3)),
        BlockBegan(index=0, block=Text(text="")),
        Delta(index=0, text="I was sa"),
        BlockBegan(index=1, block=Call(id="c", name="n")),
        Delta(index=1, json='{"half":'),
        Failed(type="overloaded_error"),
    ]:
        folding.take(piece)
    answer = folding.answer()
    assert answer.blocks == (Text(text="I was sa"), Call(id="c", name="n", raw='{"half":'))
    assert answer.usage == Usage(input=3), "what was known at the start, for nothing else was told"
    assert (folding.ended, folding.failed) == (False, Failed(type="overloaded_error"))


def test_the_tokens_told_last_count() -> None:
    began = Began(id="a", model="m", usage=Usage(input=3, output=1))
    assert folded([began, Ended(usage=Usage(input=3, output=9))]).usage == Usage(input=3, output=9)
    assert folded([began, Ended()]).usage == Usage(input=3, output=1)


def test_blocks_may_grow_side_by_side() -> None:
    pieces = [
        Began(id="a", model="m"),
        *(BlockBegan(index=at, block=Call(id=str(at), name="n")) for at in (0, 1)),
        *(Delta(index=at, json=part) for part in ('{"k"', f":{1}}}") for at in (1, 0)),
        *(BlockEnded(index=at) for at in (0, 1)),
        Ended(stop="tools"),
    ]
    assert folded(pieces).blocks == tuple(Call(id=str(at), name="n", arguments={"k": 1}) for at in (0, 1))


@pytest.mark.parametrize(
    "pieces",
    [
        [Delta(index=0, text="a")],
        [BlockBegan(index=0, block=Text(text="")), BlockBegan(index=0, block=Text(text=""))],
        [BlockBegan(index=0, block=Media(media_type="image/png", data=b"x")), Delta(index=0, text="a")],
    ],
)
def test_pieces_that_do_not_fit_are_refused(pieces: list[Piece]) -> None:
    with pytest.raises(Invalid) as caught:
        folded(pieces)
    assert caught.value.fields["index"] == 0
