"""Records: what is stored is what was hashed; redacting and cutting leave every digest as it was."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Damaged, Invalid, UnknownKind
from perdure.core.session import chain, ids, record
from perdure.core.session import commands as do
from perdure.core.session.codec import encode_struct
from perdure.core.session.event import Entry, Event
from perdure.core.session.record import Record
from perdure.core.session.turns import Message, TurnFinished, TurnStarted
from tests.core.session.logbook import RAW, Logbook
from tests.core.session.payloads import payloads

GENESIS = chain.genesis(RAW)


def conversation() -> Record:
    book = Logbook()
    book.begin()
    book.say(
        TurnStarted(), Message(role="user", content="hello"), Message(role="assistant", content="hi"), TurnFinished()
    )
    return book.records[1][0]


def read(found: Record, upto: int | None = None) -> list[Event]:
    return record.read(found, "tenant", GENESIS, upto)


def test_events_are_numbered_from_the_records_first_version() -> None:
    found = conversation()
    assert (found.first, found.last) == (3, 6)
    assert [event.version for event in read(found)] == [3, 4, 5, 6]
    assert all(ids.raw(one.id) < ids.raw(other.id) for one, other in pairwise(read(found)))
    assert read(found)[2].uid == ids.step(found.uid, 2)


def test_events_share_what_their_append_shares() -> None:
    events = read(conversation())
    assert len({id(event.shared) for event in events}) == 1
    assert {(event.actor, event.tenant, event.epoch, event.key) for event in events} == {("someone", "tenant", 0, None)}
    assert all(event.entry in conversation().entries for event in events)


def test_reading_up_to_a_version_gives_the_same_events_and_no_more() -> None:
    found = conversation()
    for upto in range(found.first - 1, found.last + 2):
        assert read(found, upto) == [event for event in read(found) if event.version <= upto]


def test_a_record_survives_being_stored() -> None:
    found = conversation()
    assert record.from_bytes(record.to_bytes(found)) == found


@given(st.lists(payloads, min_size=1, max_size=4), st.data())
def test_any_payload_survives_being_stored(drawn: list[Any], data: Any) -> None:
    entries = tuple(
        Entry(item.kind, item.kind_version, None, None, item.aim(), None, bytes(16), encode_struct(item))
        for item in drawn
    )
    found = Record(1, RAW, 1, bytes(16), 0, "someone", 0, None, entries)
    events = read(record.from_bytes(record.to_bytes(found)))
    assert [encode_struct(event.data) for event in events] == [encode_struct(item) for item in drawn]


@given(st.data())
def test_any_changed_byte_is_found(data: Any) -> None:
    stored = bytearray(record.to_bytes(conversation()))
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    digests = [event.digest for event in read(conversation())]
    try:
        changed = record.from_bytes(bytes(stored))
        found = read(changed)
    except (Damaged, UnknownKind):
        return
    assert (changed.first, [event.digest for event in found]) != (3, digests)


@given(st.binary(max_size=60))
def test_random_bytes_are_damaged(stored: bytes) -> None:
    with pytest.raises(Damaged):
        record.from_bytes(stored)


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"entries": ()}, {"origin": b"short"}, {"uid": bytes(17)}],
)
def test_a_record_of_another_shape_is_damaged(change: dict[str, Any]) -> None:
    stored = record.to_bytes(msgspec.structs.replace(conversation(), **change))
    with pytest.raises(Damaged, match="unknown shape"):
        record.from_bytes(stored)


def test_an_unknown_kind_is_named() -> None:
    entry = msgspec.structs.replace(conversation().entries[1], kind="telepathy")
    with pytest.raises(UnknownKind, match="telepathy") as refusal:
        read(msgspec.structs.replace(conversation(), entries=(entry,)))
    assert (refusal.value.kind, refusal.value.kind_version) == ("telepathy", 1)


@given(st.sets(st.integers(0, 9)))
def test_redacting_keeps_every_digest(versions: set[int]) -> None:
    found = conversation()
    blanked = record.redact(found, frozenset(versions))
    assert [event.digest for event in read(blanked)] == [event.digest for event in read(found)]
    assert [event.commitment for event in read(blanked)] == [event.commitment for event in read(found)]
    assert {event.version for event in read(blanked) if event.redacted} == versions & {3, 4, 5, 6}


def test_a_redacted_event_keeps_its_envelope_and_loses_its_content() -> None:
    found = record.redact(conversation(), frozenset({4}))
    blank, before = read(found)[1], read(conversation())[1]
    assert blank.data == Message()
    assert (blank.kind, blank.id, blank.at, blank.turn) == (before.kind, before.id, before.at, before.turn)
    assert b"hello" not in record.to_bytes(found)
    assert before.entry.blind is not None
    assert before.entry.blind not in record.to_bytes(found)


def test_redacting_twice_changes_nothing_more() -> None:
    once = record.redact(conversation(), frozenset({4}))
    assert record.redact(once, frozenset({4})) == once


def test_cutting_keeps_the_digests_of_what_is_left() -> None:
    found = conversation()
    for upto in range(found.first, found.last + 3):
        cut = record.cut(found, upto)
        assert cut.last == min(upto, found.last)
        assert read(cut) == read(found, upto)
    with pytest.raises(Invalid):
        record.cut(found, found.first - 1)


def test_a_branch_inside_an_append_sees_only_its_part() -> None:
    book = Logbook()
    book.begin()
    book.do(do.SetVars(document={"a": 1}))
    assert [event.version for event in read(record.cut(book.records[0][0], 1))] == [1]
