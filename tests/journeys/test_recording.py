"""Conversations that a framework carries on: recorded, read backwards, taken back."""

import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.core.session.ids import named
from perdure.events import Message, Noted, ToolAsked, ToolFinished, TurnFinished, TurnStarted, native

ASKED = ToolAsked(call="c1", name="search", arguments={"q": "Lisbon"}, metadata={"native": {"id": "fc_1"}})


@pytest.fixture(params=[":memory:", "here.db"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[perdure.Perdure]:
    path = request.param if request.param == ":memory:" else tmp_path / request.param
    with perdure.open(path) as opened:
        yield opened


def conversation(session: perdure.Session) -> list[str]:
    return [message.content for turn in session.turns() for message in turn.messages]


def test_what_is_recorded_reads_as_ordinary_turns(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    session.record([Message(role="user", content="Find a flight"), ASKED])
    session.record([ToolFinished(call="c1", result="TP 123", metadata={"native": {"id": "out"}})])
    session.record(Message(role="assistant", content="TP 123 it is"))
    session.record([Message(role="user", content="Book it"), Message(role="assistant", content="Done")])
    first, second = session.turns()
    assert (first.status, second.status) == ("finished", "finished")
    assert [call.result for call in first.calls] == ["TP 123"]
    assert conversation(session) == ["Find a flight", "TP 123 it is", "Book it", "Done"]
    assert session.verify().ok


def test_refusals_speak_of_the_name_that_was_given(db: perdure.Perdure) -> None:
    with pytest.raises(errors.NotFound, match="'nope'") as missing:
        db.named("nope").turns()
    assert missing.value.name == "nope"
    with pytest.raises(errors.NotFound, match="'nope'"):
        db.named("nope").record(Message(role="user", content="hello"))
    db.create(name="t")
    with pytest.raises(errors.AlreadyExists, match="'t'") as taken:
        db.create(name="t")
    assert (taken.value.name, taken.value.session) == ("t", db.named("t").id)


def test_a_name_is_kept_as_the_title_or_beside_another_one(db: perdure.Perdure) -> None:
    assert db.create(name="plain").info().title == "plain"
    titled = db.create("A title", name="titled", metadata={"n": 1}).info()
    assert (titled.title, titled.metadata) == ("A title", {"n": 1, "name": "titled"})
    other = "0192f0c4-7d1e-7abc-8def-0123456789ab"
    assert db.create(name=other).info().title == ""


def test_the_same_name_leads_to_the_same_session_and_an_id_to_itself(db: perdure.Perdure) -> None:
    made = db.create(name="trip")
    assert db.named("trip").id == made.id
    assert db.named(made.id).id == made.id
    assert db.named("other").id != made.id
    with pytest.raises(errors.AlreadyExists):
        db.create("again", name="trip")
    with pytest.raises(errors.NotFound):
        db.named("other").info()
    with pytest.raises(errors.Invalid):
        db.named("")
    with pytest.raises(errors.Invalid):
        db.create(name="trip", id=made.id)


def test_names_of_two_tenants_never_meet() -> None:
    assert named("a", "trip") != named("b", "trip")
    assert named("a", "bc") != named("ab", "c")


def test_retracted_words_leave_the_conversation_and_stay_in_the_log(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    session.record([Message(role="user", content="one"), Message(role="assistant", content="two")])
    version = session.record([Message(role="user", content="three"), Message(role="assistant", content="four")])
    before = session.branch()
    session.retract(version - 1, version, reason="popped")
    assert conversation(session) == ["one", "two", "three"]
    session.retract(version - 3)
    assert conversation(session) == ["one", "two"]
    assert [turn.number for turn in session.turns(last=1)] == [1]
    assert conversation(before) == ["one", "two", "three", "four"]
    assert [event.data.content for event in session.events() if event.kind == "message"][-1] == "four"
    assert session.verify().ok


def test_retracting_an_open_call_lets_the_turn_go_on(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    version = session.record([Message(role="user", content="one"), ASKED])
    session.retract(version)
    session.record(Message(role="assistant", content="no need"))
    (turn,) = session.turns()
    assert (turn.status, turn.calls) == ("finished", ())


def test_what_cannot_be_retracted_is_refused(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    for first, upto in ((0, 1), (3, 2), (1, 99)):
        with pytest.raises(errors.Invalid):
            session.retract(first, upto)
    assert session.version() == 2


def test_the_log_is_read_backwards_until_the_reader_has_enough(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    for number in range(10):
        session.record(Noted(by="here", about="count", data=number))
    pages = session.backwards(page=3)
    assert [event.data.data for event in next(pages)] == [9, 8, 7]
    assert [event.data.data for event in next(pages)] == [6, 5, 4]
    with pytest.raises(errors.Invalid):
        next(session.backwards(page=0))


def test_both_kinds_of_handle_share_a_store(db: perdure.Perdure) -> None:
    db.create(name="trip").record(Message(role="user", content="one"))
    assert perdure.drive(db.aio.named("trip").info()).title == "trip"
    assert db.aio.aio is db.aio


def test_an_item_of_several_events_reads_back_as_one_and_by_others_as_its_events(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    item = {"role": "assistant", "content": [{"text": "Let me look"}, {"call": "c1"}]}
    asked = ToolAsked(call="c1", name="search", arguments={})
    session.record([Message(role="user", content="Hi"), *native("here", item, [Message(role="assistant"), asked])])
    session.record(native("here", {"out": 1}, [ToolFinished(call="c1", result=1)]))
    first, second, third = session.conversation()
    assert (first.by, first.payloads[0].content) == ("", "Hi")
    assert (second.by, second.native, len(second.payloads)) == ("here", item, 2)
    assert (third.by, third.native) == ("here", {"out": 1})
    assert session.conversation(last=2) == [second, third]


def test_the_last_items_are_found_past_retracted_ones_and_pieces_are_never_torn(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    for number in range(40):
        pieces = [Message(role="assistant", content=f"{number}"), ToolAsked(call=f"c{number}", name="f")]
        session.record(native("here", number, pieces))
        session.record(native("here", -number, [ToolFinished(call=f"c{number}")]))
    whole = session.conversation()
    assert [item.native for item in whole] == [part for number in range(40) for part in (number, -number)]
    session.retract(whole[60].first, whole[79].last)
    for last in (1, 2, 3, 7, 60, 500):
        assert [item.native for item in session.conversation(last=last)] == [item.native for item in whole[:60]][-last:]


def test_words_of_turns_made_by_hand_are_items_too_and_rolled_back_ones_are_not(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    session.append([TurnStarted(role="user", content="Hi"), TurnFinished(content="Hello")])
    session.append(TurnStarted(role="user", content="Oops"))
    session.roll_back()
    assert [(item.payloads[0].role, item.payloads[0].content) for item in session.conversation()] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
    ]


def test_title_and_metadata_change_in_the_append_that_records(db: perdure.Perdure) -> None:
    session = db.create("old", name="trip", metadata={"a": 1})
    before = session.version()
    said = Message(role="user", content="Find a flight")
    after = session.record(said, title="new", metadata={"b": 2})
    assert [event.kind for event in session.events(before)] == ["turn_started", "message", "configured"]
    assert len({event.shared.first for event in session.events(before)}) == 1
    assert (session.info().title, session.info().metadata) == ("new", {"b": 2, "name": "trip"}), "the name stays"
    assert [row.session for row in db.find(metadata={"b": 2}).items] == [session.id]
    session.record(said, title="new", metadata={"b": 2})
    assert [event.kind for event in session.events(after)] == ["message"]
    with pytest.raises(errors.VersionConflict):
        session.record(said, metadata={}, expected=before)
    assert session.info().metadata == {"b": 2, "name": "trip"}


def test_what_is_retracted_leaves_in_the_append_that_takes_its_place(db: perdure.Perdure) -> None:
    session = db.create()
    for word in ("one", "two", "three", "four"):
        session.record([Message(role="user", content=word), Message(role="assistant", content=f"re {word}")])
    places = {item.payloads[0].content: item.first for item in session.conversation()}
    before = session.version()
    spans = [(places["one"], places["re one"]), (places["three"], places["re three"])]
    written = session.recorded([Message(role="user", content="five")], retracting=spans, reason="gone", expected=before)
    assert [event.kind for event in written][:2] == ["retracted", "retracted"]
    assert [event.version for event in written] == list(range(before + 1, session.version() + 1))
    assert conversation(session) == ["two", "re two", "four", "re four", "five"]
    with pytest.raises(errors.Invalid, match="retract versions"):
        session.recorded([Message(role="user", content="six")], retracting=[(1, session.version() + 1)])
    assert conversation(session)[-1] == "five"
    assert session.verify().ok


def test_a_call_that_is_retracted_lets_the_turn_go_on_in_the_same_append(db: perdure.Perdure) -> None:
    session = db.create()
    session.record([Message(role="user", content="look"), ASKED])
    place = session.conversation()[-1].first
    session.recorded([Message(role="assistant", content="no need")], retracting=[(place, place)])
    (turn,) = session.turns()
    assert [message.content for message in turn.messages] == ["look", "no need"]
    assert not turn.calls
    assert session.info().open_turn is None


async def test_a_reader_that_stops_early_leaves_nothing_to_be_closed_later(db: perdure.Perdure) -> None:
    session = await db.aio.create(name="s")
    for number in range(40):
        await session.record([Message(role="user", content=str(number))])
    left: list[Any] = []
    before = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=before.firstiter, finalizer=left.append)
    try:
        assert [item.payloads[0].content for item in await session.conversation(1)] == ["39"]
        assert len(await session.tail("nobody", 1)) == 0
        async with aclosing(session.backwards(1)) as pages:
            async for _ in pages:
                break
    finally:
        sys.set_asyncgen_hooks(*before)
    assert left == []
