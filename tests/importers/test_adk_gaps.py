"""A log beside its source: what is missing, and whether it can be filled in."""

from google.adk.events.event import Event as AdkEvent
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.parts.google_adk_events import drafts, spelled
from perdure.events import Event, Message, Payload, Redacted, Retracted
from perdure.importers.adk_gaps import FILLED, compared
from tests.adapters.test_google_adk import said
from tests.core.session.logbook import event_of

EVENTS = [said(text, id=text, timestamp=float(number)) for number, text in enumerate("abcdef")]
CHOSEN = st.sets(st.integers(0, 5)).map(lambda places: [EVENTS[place] for place in sorted(places)])


def log(*payloads: Payload, first: int = 1) -> list[Event]:
    return [event_of(payload, version) for version, payload in enumerate(payloads, first)]


def written(events: list[AdkEvent]) -> list[Payload]:
    return [draft.payload for event in events for draft in drafts(event, spelled(event))]


@given(CHOSEN, CHOSEN)
def test_a_log_can_be_filled_if_it_holds_nothing_that_the_source_does_not(
    here: list[AdkEvent], there: list[AdkEvent]
) -> None:
    found = compared(log(*written(here)), there)
    missing = [event.id for event in there if event not in here]
    assert found.missing == tuple(missing)
    assert found.held == len(here)
    assert here[: found.common] == there[: found.common]
    assert here[found.common : found.common + 1] != there[found.common : found.common + 1] or found.common == len(here)
    assert found.since == (found.common + 1 if found.common < len(here) else None)
    assert found.ordered == all(event in there for event in here)


def test_what_others_say_or_what_stands_in_another_order_is_not_filled_around() -> None:
    assert not compared(log(*written(EVENTS[:1]), Message(role="user", content="x")), EVENTS).ordered
    assert not compared(log(*written([EVENTS[1], EVENTS[0]])), EVENTS).ordered


def test_what_was_taken_back_counts_as_had_unless_a_filling_did_it() -> None:
    kept = written(EVENTS[:3])
    taken = compared(log(*kept, Retracted(first=2, upto=3)), EVENTS)
    assert (taken.held, taken.missing, taken.ordered) == (1, ("d", "e", "f"), False)
    filling = compared(log(*kept, Retracted(first=2, upto=3, reason=FILLED)), EVENTS)
    assert (filling.held, filling.missing, filling.ordered) == (1, ("b", "c", "d", "e", "f"), True)


def test_where_something_was_destroyed_nothing_is_filled_in() -> None:
    kept = written(EVENTS[:2])
    assert compared(log(*kept), EVENTS).ordered
    assert not compared(log(*kept, first=2), EVENTS).ordered
    assert not compared(log(*kept, Redacted(versions=(1,))), EVENTS).ordered


def test_an_event_that_was_kept_in_part_is_written_anew() -> None:
    part = EVENTS[1].model_copy(update={"content": None})
    found = compared(log(*written([EVENTS[0], part, EVENTS[2]])), EVENTS[:3])
    assert (found.common, found.since, found.missing, found.ordered) == (1, 2, (), True)


def test_a_result_that_is_missing_is_filled_in_behind_its_call() -> None:
    call = types.Part(function_call=types.FunctionCall(id="c1", name="price", args={}))
    result = types.Part(function_response=types.FunctionResponse(id="c1", name="price", response={"n": 6}))
    source = [
        EVENTS[0],
        AdkEvent(id="call", author="agent", content=types.Content(role="model", parts=[call])),
        AdkEvent(id="result", author="agent", content=types.Content(role="user", parts=[result])),
        EVENTS[1],
    ]
    found = compared(log(*written([source[0], source[1], source[3]])), source)
    assert (found.held, found.common, found.missing, found.ordered) == (3, 2, ("result",), True)
