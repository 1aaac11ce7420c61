"""Documents that somebody spoiled: whatever stands where, it is understood or refused, and never breaks the reader."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk import anthropic, chat, responses
from tests.core.talk import test_anthropic, test_chat, test_responses
from tests.core.talk.saying import VALUES, heard

SPOILT = VALUES | st.sampled_from([{}, [], "", -1, 1.5, {"type": "text"}, [{"type": "tool_use"}], ["a"], [None]])
GOLDEN = [
    pytest.param(provider, golden, id=provider.__name__)
    for provider, golden in ((anthropic, test_anthropic), (chat, test_chat), (responses, test_responses))
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*path, key)
        yield from places(below, (*path, key))


def spoilt(document: Any, data: st.DataObject) -> Any:
    """The document with another value in one place, or with nothing there."""
    document = copy.deepcopy(document)
    *path, last = data.draw(st.sampled_from(list(places(document))))
    inner = document
    for step in path:
        inner = inner[step]
    if data.draw(st.booleans()):
        inner[last] = data.draw(SPOILT)
    else:
        del inner[last]
    return document


def read(reader: Callable[[Any], Any], document: Any) -> Any:
    """What the reader makes of a document, or None if it refuses and says where."""
    try:
        return reader(document)
    except Invalid as error:
        refused = error
    assert refused.fields["where"] in refused.message
    return None


@pytest.mark.parametrize(("provider", "golden"), GOLDEN)
@given(data=st.data())
def test_a_spoilt_request_is_read_or_refused(provider: Any, golden: Any, data: st.DataObject) -> None:
    ask = read(provider.ask_from, spoilt(golden.ASK, data))
    if ask is None:
        return
    body = provider.ask_to(ask)
    assert provider.ask_to(provider.ask_from(body)) == body, "what was read once is read the same again"
    for other in (anthropic, chat, responses):
        try:
            other.ask_to(ask)
        except Invalid:
            pass  # a sound, or a file that is elsewhere


@pytest.mark.parametrize(("provider", "golden"), GOLDEN)
@given(data=st.data())
def test_a_spoilt_answer_is_read_or_refused(provider: Any, golden: Any, data: st.DataObject) -> None:
    answer = read(provider.answer_from, spoilt(golden.ANSWER, data))
    if answer is None:
        return
    for other in (anthropic, chat, responses):
        other.answer_to(answer)


@pytest.mark.parametrize(("provider", "golden"), GOLDEN)
@given(data=st.data())
def test_a_spoilt_stream_is_read_or_refused(provider: Any, golden: Any, data: st.DataObject) -> None:
    told = [list(pair) for pair in golden.STREAM if pair[1] != "[DONE]"]
    at = data.draw(st.integers(0, len(told) - 1))
    told[at][1] = spoilt(told[at][1], data)
    pieces = read(lambda stream: heard(provider.Reading(), stream), told)
    if pieces is None:
        return
    for writing in (anthropic.Writing(), chat.Writing(), responses.Writing()):
        assert all(isinstance(frame, bytes) for piece in pieces for frame in writing.written(piece))
