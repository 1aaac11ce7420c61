"""What was said is taken back or replaced in one append, and reading the end of a conversation passes over it."""

from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.events import Message, ToolAsked, ToolFinished
from perdure.services.log import Log


@pytest.fixture
def db() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:") as opened:
        yield opened


def said(session: perdure.Session, last: int | None = None) -> list[Any]:
    return [payload.content for item in session.conversation(last) for payload in item.payloads]  # type: ignore[union-attr]


def test_a_replacement_takes_back_and_records_in_one_append(db: perdure.Perdure) -> None:
    session = db.create()
    session.record([Message(role="user", content=word) for word in "abc"])
    first = session.conversation()[1].first
    position = db.position()
    session.record([Message(role="assistant", content="sum")], replacing=first)
    assert db.position() == position + 1
    assert said(session) == ["a", "sum"]


def test_a_stale_replacement_is_a_conflict_and_changes_nothing(db: perdure.Perdure) -> None:
    session = db.create()
    session.record([Message(role="user", content="a")])
    seen = session.version()
    session.record([Message(role="user", content="b")])
    with pytest.raises(errors.VersionConflict):
        session.record([Message(role="user", content="c")], replacing=1, expected=seen)
    with pytest.raises(errors.Invalid):
        session.record([Message(role="user", content="c")], replacing=session.version() + 1)
    assert said(session) == ["a", "b"]


def test_calls_that_were_replaced_are_not_awaited(db: perdure.Perdure) -> None:
    session = db.create()
    session.record([Message(role="user", content="a"), ToolAsked(call="1", name="f"), ToolAsked(call="2", name="g")])
    last = session.conversation(1)[0].first
    session.record([ToolFinished(call="1", result="x"), Message(role="assistant", content="b")], replacing=last)
    (turn,) = session.turns()
    assert (turn.status, [call.call for call in turn.calls]) == ("finished", ["1"])


def test_a_turn_that_began_with_words_keeps_them_when_its_answer_is_taken_back(db: perdure.Perdure) -> None:
    session = db.create()
    with session.turn("Which day?") as turn:
        turn.say("assistant", "Monday")
    session.retract(session.conversation(1)[0].first)
    assert said(session) == said(session, 9) == ["Which day?"]


def test_the_end_of_a_conversation_is_found_without_reading_what_was_taken_back(
    db: perdure.Perdure, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = db.create()
    session.record([Message(role="user", content="kept")])
    first = session.version() + 1
    for number in range(100):
        session.record([Message(role="user", content=str(number))])
    session.retract(first)
    session.record([Message(role="user", content="new")])
    read: list[int] = []
    newest = Log._newest

    async def counted(self: Log, *args: Any) -> Any:
        run = await newest(self, *args)
        read.append(len(run.records))
        return run

    monkeypatch.setattr(Log, "_newest", counted)
    assert said(session, 5) == ["kept", "new"]
    assert sum(read) < 20


def test_the_end_is_the_same_however_much_was_said_in_one_append(db: perdure.Perdure) -> None:
    session = db.create()
    words = [str(number) for number in range(700)]
    session.record([Message(role="user", content=word) for word in words[:600]])
    for word in words[600:]:
        session.record([Message(role="user", content=word)])
    branch = session.branch()
    branch.record([Message(role="user", content="more")])
    for last in (1, 7, 99, 100, 101, 650, 700, 900):
        assert said(session, last) == words[-last:]
        assert said(branch, last) == [*words, "more"][-last:]
