"""Text for searching: what is speech, what is a word, and that splitting is stable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.session import kinds, record
from perdure.core.session.agents import RoomMessage
from perdure.core.session.event import Payload
from perdure.core.session.origin import Configured, Created
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.core.session.steering import FollowedUp, Steered
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, TurnInterrupted, TurnStarted
from perdure.projections.text import fold, text_of, text_of_record, words
from perdure.testing import Builder, FixedAmbient
from perdure.testing.building import said

TEXTS = st.text(max_size=40)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n", []),
        ("Hello, World!", ["hello", "world"]),
        ("x_y-z", ["x", "y", "z"]),
        ("don't", ["don", "t"]),
        ("v1.2 of 2026", ["v1", "2", "of", "2026"]),
        ("Straße ÄRGER", ["strasse", "ärger"]),
        ("cafe\u0301 ﬁne", ["café", "fine"]),
        ("東京 タワー", ["東京", "タワー"]),
        ('"NEAR(a b)" AND *', ["near", "a", "b", "and"]),
        ("a\x00b", ["a", "b"]),
        ("🙂", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_without_case(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(TEXTS)
def test_splitting_twice_changes_nothing(text: str) -> None:
    assert words(" ".join(words(text))) == words(text)


@given(TEXTS)
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(TEXTS)
def test_case_does_not_matter(text: str) -> None:
    assert words(text) == words(fold(text)) == words(text.casefold())


@given(st.lists(TEXTS, max_size=5))
def test_the_words_of_lines_are_the_words_of_each_line(texts: list[str]) -> None:
    assert words("\n".join(texts)) == [word for text in texts for word in words(text)]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (Message(role="user", content="hello"), "hello"),
        (Message(role="user", content=None), ""),
        (Message(role="user", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
        (Message(role="user", content=["a", {"text": "b"}]), "a\nb"),
        (
            Message(role="user", content=[{"type": "image", "source": {"data": "aGk=", "media_type": "image/png"}}]),
            "",
        ),
        (
            Message(
                role="user",
                content=[
                    {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "found"}]},
                    {"type": "tool_use", "id": "c", "name": "t", "input": {"q": "asked"}},
                ],
            ),
            "found\nasked",
        ),
        (Message(role="user", name="ada", content="x", metadata={"k": "hidden"}), "x"),
        (ToolAsked(call="c", name="t", arguments={"q": ["a", {"deep": "b"}], "n": 1, "e": ""}), "a\nb"),
        (ToolAsked(call="c", name="t", arguments='{"q": "raw"}'), '{"q": "raw"}'),
        (ToolFinished(call="c", result=[{"rows": ["a", b"bytes", None, True, 1.5]}]), "a"),
        pytest.param(ToolFinished(call="c", result=frozenset({"b", "a", 1})), "a\nb", id="a set, in order"),
        (ToolFinished(call="c", result="partly", error="broke"), "partly\nbroke"),
        (RoomMessage(sender="a", text="in the room", audience=("b",)), "in the room"),
        (Steered(text="stop"), "stop"),
        (FollowedUp(text="later"), "later"),
        (TurnInterrupted(reason="crash", text="half a sent"), "half a sent"),
        (Created(owner="ada", title="a title"), "a title"),
        (Configured(title="another"), "another"),
        (Configured(tags=("t",)), ""),
        (ScratchpadWritten(content="private"), ""),
        (TurnStarted(model="m"), ""),
    ],
    ids=repr,
)
def test_what_is_said_is_text_and_nothing_else_is(payload: Payload, expected: str) -> None:
    assert text_of(payload) == expected


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
def test_a_blank_event_of_any_kind_says_nothing(kind: str) -> None:
    assert text_of(kinds.blank(kind)) == ""


def test_a_record_says_what_its_events_say() -> None:
    made = Builder(FixedAmbient()).create(said("first"), ScratchpadWritten(content="no"), said("second"), title="t")
    assert text_of_record(made.commit.record) == "t\nfirst\nsecond"


def test_redacted_events_are_silent() -> None:
    made = Builder(FixedAmbient()).create(said("secret"), said("kept"))
    assert text_of_record(record.redact(made.commit.record, frozenset({2}))) == "kept"


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
def test_every_kind_that_says_something_is_searched(kind: str) -> None:
    """A kind added to `text_of` but forgotten by `text_of_record` would be said and never found."""
    fields = kinds.KINDS[kind].__struct_fields__
    filled = {name: "needle" for name in ("content", "arguments", "result", "text", "title") if name in fields}
    payload = kinds.KINDS[kind](**filled)
    made = Builder(FixedAmbient()).create()
    if "needle" in text_of(payload) and kind != "created":
        assert "needle" in text_of_record(Builder(FixedAmbient()).append(made, payload).commit.record)
