"""Blocks as the log keeps them."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.session import codec
from perdure.core.session.refs import blob_ref
from perdure.core.session.values import Ref
from perdure.core.talk.content import blocks_of, given_blocks, result_blocks, stored, words_of
from perdure.core.talk.parts import Call, Foreign, Media, Result, Text, Thought
from perdure.core.talk.wire import held, rest, rest_in

TEXT = st.text(min_size=1, max_size=5).filter(lambda text: text.isprintable())
DOCUMENTS = st.dictionaries(TEXT, st.integers(0, 9) | TEXT, max_size=3)
SHOWN = st.one_of(
    st.builds(lambda text: Text(text=text), TEXT),
    st.builds(
        lambda data, name: Media(media_type="image/png", data=data, name=name), st.binary(min_size=1), st.text("ab")
    ),
    st.builds(lambda url: Media(media_type="application/pdf", url=url), TEXT),
    st.builds(lambda block: Foreign(provider="anthropic", block=block), DOCUMENTS),
)
BLOCKS = st.one_of(
    SHOWN,
    st.builds(lambda id, name, given: Call(id=id, name=name, arguments=given), TEXT, TEXT, DOCUMENTS),
    st.builds(lambda id, raw: Call(id=id, name="look", raw=raw), TEXT, TEXT),
    st.builds(
        lambda call, content, bad: Result(call=call, content=tuple(content), failed=bad),
        TEXT,
        st.lists(SHOWN, max_size=2),
        st.booleans(),
    ),
    st.builds(lambda text, seal: Thought(text=text, seal=seal), st.text("ab"), st.text("ab")),
)


@given(st.lists(BLOCKS, max_size=4))
def test_blocks_come_back_from_the_log_as_they_were(blocks: list[Any]) -> None:
    kept = codec.decode(codec.encode(stored(blocks)))
    assert blocks_of(kept) == tuple(blocks)


def test_plain_words_are_kept_as_a_text_and_nothing_as_none() -> None:
    assert stored([Text(text="hello", cached=True), Text(text="")]) == "hello"
    assert stored([Text(text="")]) is None


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "audio", "id": 7},
        {"type": ["text"]},
        {"type": "text"},
        5,
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "é"}},
    ],
)
def test_what_has_another_spelling_is_read_as_its_json(odd: Any) -> None:
    (block,) = blocks_of([odd])
    assert isinstance(block, Text)
    assert block.text[0] in "{5"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"type": "text", "text": "x", "rows": 2}, '{"rows":2,"text":"x","type":"text"}'),
        ([], "[]"),
        ([{"type": "row", "n": 1}], '[{"n":1,"type":"row"}]'),
        ([{"type": ["x"]}], '[{"type":["x"]}]'),
        (False, "false"),
        ("as it is", "as it is"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
    ],
)
def test_a_result_that_is_data_is_shown_whole(result: Any, words: str) -> None:
    assert words_of(Result(call="c", content=result_blocks(result))) == words


def test_a_rest_has_no_words_and_leaves_no_gap_among_those_of_others() -> None:
    (left,) = rest("anthropic", {"citations": None})
    assert words_of(left) == ""
    content = (Text(text="one"), left, Text(text="two"), left)
    assert words_of(Result(call="c", content=content)) == "one\ntwo"


@pytest.mark.parametrize("kept", [5, "x", [1], None])
def test_what_only_looks_like_a_rest_is_a_block_like_any_other(kept: Any) -> None:
    (block,) = blocks_of([{"type": "foreign", "provider": "anthropic", "block": {"rest": kept}}])
    assert rest_in(block) is None
    assert words_of(block)
    assert held([Text(text="x"), block], "anthropic")[1][1].block == block


DIGEST = bytes(range(32))
BLOB = blob_ref(DIGEST)
IN_JSON = {"uri": BLOB.uri, "sha256": DIGEST.hex()}


@pytest.mark.parametrize(
    "source",
    [
        BLOB,
        IN_JSON,
        {"uri": BLOB.uri},
        {"uri": BLOB.uri, "sha256": b64encode(DIGEST).decode()},
        {"$ref": IN_JSON},
        {"type": "url", "url": BLOB.uri},
    ],
)
@pytest.mark.parametrize("kind", ["image", "document"])
def test_media_in_a_blob_is_kept_as_its_ref_however_it_is_said(kind: str, source: Any) -> None:
    blocks = given_blocks([{"type": kind, "source": source, "title": "cat"}])
    assert blocks == (Media(media_type=f"{kind}/*", url=BLOB.uri, name="cat"),)
    kept = codec.decode(codec.encode(stored(blocks)))
    assert kept == [{"type": kind, "source": BLOB, "title": "cat"}]
    assert blocks_of(kept) == blocks
    assert result_blocks(kept) == blocks


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "input_text", "text": "hi"}, Text(text="hi")),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            Media(media_type="image/png", data=b"\0\0\0"),
        ),
        ({"type": "image_url", "image_url": "https://a/cat"}, Media(media_type="image/*", url="https://a/cat")),
        (
            {"type": "input_image", "image_url": "data:image/gif;base64,AAAA"},
            Media(media_type="image/gif", data=b"\0\0\0"),
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
            Media(media_type="application/pdf", data=b"\0\0\0", name="a.pdf"),
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            Media(media_type="application/pdf", data=b"\0\0\0", name="a.pdf"),
        ),
    ],
)
def test_parts_as_openai_spells_them_are_understood(part: dict[str, Any], block: Any) -> None:
    assert given_blocks([part]) == blocks_of([part]) == (block,)


def test_a_document_may_be_a_text() -> None:
    part = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}, "title": "notes"}
    found = (Media(media_type="text/plain", data="é".encode(), name="notes"),)
    assert given_blocks([part]) == found
    assert blocks_of(stored(found)) == found


def test_what_such_a_part_has_beyond_is_its_rest() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://a/cat", "detail": "low"}}
    _, left = given_blocks([part])
    assert rest_in(left) == {"image_url": {"detail": "low"}}


@pytest.mark.parametrize(
    "odd",
    [
        5,
        [5],
        True,
        [None],
        BLOB,
        {"text": "x"},
        {"type": "text"},
        {"type": "hologram"},
        {"type": ["text"]},
        {"type": "image", "source": Ref(uri="https://a/cat", sha256=DIGEST)},
        {"type": "image", "source": IN_JSON | {"sha256": "00"}},
        {"type": "image", "source": {"uri": "perdure:blob/12"}},
        {"type": "image_url", "image_url": 5},
        {"type": "input_file", "file_id": "f"},
        {"type": "foreign"},
    ],
)
def test_what_a_caller_says_and_is_no_block_is_refused_with_the_kinds_there_are(odd: Any) -> None:
    with pytest.raises(Invalid, match=r"text, image, document, .*input_file"):
        given_blocks(odd)
    assert blocks_of(odd)


def test_a_caller_may_say_texts_and_every_kind_of_block() -> None:
    foreign = {"type": "foreign", "provider": "anthropic", "block": {"type": "search_result"}}
    assert len(given_blocks(["hi", {"type": "text", "text": "x"}, foreign])) == 3
    assert given_blocks("hi") == (Text(text="hi"),)
    assert given_blocks(None) == given_blocks([]) == given_blocks("") == ()
