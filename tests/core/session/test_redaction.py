"""What may be redacted, and that folding goes on without it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import RedactionRefused
from perdure.core.session import chain, record
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.event import Event
from perdure.core.session.kinds import KINDS, blank
from perdure.core.session.redaction import Redacted, admit
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, TurnFinished, TurnStarted
from tests.core.session.logbook import RAW, Logbook, event_of

CONTENT = {
    "approval_asked", "approval_given", "spawned",
    "child_finished", "compacted", "conflict_found", "feedback", "followed_up", "message", "noted", "outcome_known",
    "memories_embedded", "memory_changed", "memory_kept", "memory_moved", "memory_proposed", "memory_reviewed",
    "retrieval",
    "room_message", "scratchpad_written", "steered", "tool_asked", "tool_finished", "turn_finished", "turn_interrupted",
    "turn_started", "vars_patched",
}  # fmt: skip


def test_exactly_what_carries_content_is_redactable() -> None:
    assert {kind for kind, cls in KINDS.items() if cls.redactable} == CONTENT


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_content_is_admitted_and_structure_is_not(kind: str) -> None:
    event = event_of(blank(kind), 7)
    if kind in CONTENT:
        admit(event)
        return
    with pytest.raises(RedactionRefused, match="erase the session") as refusal:
        admit(event)
    assert (refusal.value.version, refusal.value.kind) == (7, kind)


def book() -> Logbook:
    found = Logbook()
    found.begin()
    found.say(TurnStarted(), Message(role="user", content="one"), ToolAsked(call="c", name="x", arguments={"a": 1}))
    found.do(do.SetVars(document={"a": 1}))
    found.say(ToolFinished(call="c", result="two"), TurnFinished())
    found.do(do.WriteScratchpad(content="three", agent="scout"))
    found.do(do.SetVars(document={"a": 2, "b": [1]}))
    found.do(do.TakeCheckpoint(label="here"))
    return found


def read(found: Logbook, gone: frozenset[int]) -> list[Event]:
    events: list[Event] = []
    previous = chain.genesis(RAW)
    for item, digest in found.records:
        events += record.read(record.redact(item, gone), "tenant", previous)
        assert events[-1].digest == digest
        previous = digest
    return events


@given(st.sets(st.integers(1, 20)))
def test_any_redaction_keeps_the_chain_and_the_structure_of_the_state(wanted: set[int]) -> None:
    found = book()
    gone = frozenset(event.version for event in found.events if event.version in wanted and event.data.redactable)
    events = read(found, gone)
    assert [event.digest for event in events] == [event.digest for event in found.events]
    assert {event.version for event in events if event.redacted} == gone
    state = states.fold(states.BLANK, events)
    assert (state.version, state.phase, state.turns.count, state.turns.tools) == (
        found.state.version,
        found.state.phase,
        found.state.turns.count,
        found.state.turns.tools,
    )
    assert states.to_bytes(states.from_bytes(states.to_bytes(state))) == states.to_bytes(state)


def test_a_note_in_the_log_says_what_was_redacted_and_why() -> None:
    found = book()
    (event,) = found.do(do.Redact(versions=(4,), reason="asked to"))
    assert event.data == Redacted(versions=(4,), reason="asked to")
    assert found.state.version == event.version
