"""Events are cut from bytes however these arrive, and no byte is lost."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.providers.events import Cutting, Event, TooLong

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def cut(chunks: list[bytes]) -> list[Event]:
    cutting = Cutting(1 << 20)
    found = [event for chunk in chunks for event in cutting.feed(chunk)]
    rest = cutting.rest()
    return [*found, *([rest] if rest else [])]


def chopped(data: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(cuts)]


@given(
    st.lists(
        st.tuples(st.text("ab:{ é", max_size=5), st.text("xy :é", min_size=1, max_size=8)), min_size=1, max_size=5
    ),
    ENDS,
    st.lists(st.integers(0, 10_000), max_size=12),
)
def test_wherever_a_stream_is_chopped_the_same_events_come_out(
    told: list[tuple[str, str]], end: bytes, places: list[int]
) -> None:
    stream = b"".join(b"event: %s%sdata: %s%s%s" % (name.encode(), end, data.encode(), end, end) for name, data in told)
    found = cut(chopped(stream, places))
    said = [event for event in found if event.data]
    assert [(event.name, event.data.decode()) for event in said] == told
    assert not any(event.torn for event in said)


@given(
    st.lists(st.binary(max_size=20) | st.sampled_from([b"\n\n", b"\r\n\r\n", b"data: x\n", b": c\n\n"]), max_size=20)
)
def test_the_bytes_of_all_events_are_the_stream(chunks: list[bytes]) -> None:
    joined = b"".join(event.raw for event in cut(chunks))
    assert joined.strip() == b"".join(chunks).strip()


def test_lines_of_data_are_joined_and_comments_say_nothing() -> None:
    stream = b"\xef\xbb\xbf: hello\n\nevent:x\ndata:1\ndata: 2\nid: 7\n\n"
    assert [(event.name, event.data) for event in cut([stream])] == [("", b""), ("x", b"1\n2")]


def test_what_has_no_end_is_torn() -> None:
    last = cut([b"data: 1\n\n", b"data: 2"])[-1]
    assert last == Event("", b"2", b"data: 2", torn=True)


def test_an_event_without_end_is_not_kept_for_ever() -> None:
    cutting = Cutting(100)
    for _ in range(8):
        assert list(cutting.feed(b"data: 123456")) == []
    with pytest.raises(TooLong):
        list(cutting.feed(b"data: 123456"))
