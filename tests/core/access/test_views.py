"""States, events and conflicts as they are seen by somebody from whom fields are hidden."""

from typing import Any

import msgspec
import pytest

from perdure.core.access.views import of_conflicts, of_diff, of_event, of_state
from perdure.core.session import state as states
from perdure.core.session.agents import RoomMessage
from perdure.core.session.event import Payload
from perdure.core.session.kinds import KINDS
from perdure.core.session.links import ConflictFound, Links, PendingConflict
from perdure.core.session.origin import Config, Configured, Created, Origin
from perdure.core.session.scratchpad import Pad, Scratchpads, ScratchpadWritten
from perdure.core.session.state import State
from perdure.core.session.turns import Message
from perdure.core.session.vars import Vars, VarsPatched

SECRET = "tell nobody"
CONFLICT = {"path": ["vars", "pay"], "base": {}, "ours": {"value": SECRET}, "theirs": {"value": SECRET}}
PAD_CONFLICT = {"path": ["scratchpads", "critic"], "base": {}, "ours": {"value": SECRET}, "theirs": {}}
STATE = states.to_document(
    State(
        tenant="t",
        session="s",
        origin=Origin(
            owner="ann", title=SECRET, tags=(SECRET,), metadata={"a": SECRET}, config=Config(system_prompt=SECRET)
        ),
        vars=Vars(document={"pay": SECRET}),
        scratchpads=Scratchpads(pads={"": Pad(content=SECRET), "critic": Pad(content=SECRET)}),
        links=Links(
            conflicts={
                "c": PendingConflict(source="x", source_version=1, base_version=1, conflicts=(CONFLICT, PAD_CONFLICT))
            }
        ),
    )
)
ALL = ("title", "tags", "metadata.*", "config.system_prompt", "vars.pay", "scratchpad")


def times(value: Any) -> int:
    """How often the secret is told."""
    return repr(value).count(SECRET)


def test_a_state_is_seen_without_its_hidden_fields() -> None:
    assert times(STATE) == 10
    seen = of_state(STATE, ALL)
    assert times(seen) == 0
    assert (seen["tenant"], seen["origin"]["owner"], seen["vars"].get("document", {})) == ("t", "ann", {})
    assert of_state(STATE, ()) is STATE


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("title", 1),
        ("tags", 1),
        ("metadata", 1),
        ("metadata.a", 1),
        ("config", 1),
        ("vars.pay", 3),
        ("v\\ars.pay", 3),
        ("vars", 3),
        ("scratchpad", 3),
        ("scratchpad.critic", 2),
        ("*", 10),
        ("*.pay", 3),
        ("elsewhere", 0),
    ],
)
def test_each_field_is_hidden_wherever_a_state_has_it(path: str, gone: int) -> None:
    assert times(STATE) - times(of_state(STATE, (path,))) == gone


@pytest.mark.parametrize(
    "payload",
    [
        VarsPatched(patch=[["+", ["pay"], SECRET], ["+", ["open"], 1]]),
        VarsPatched(patch=[["+", [], {"pay": SECRET}]]),
        Created(owner="ann", title=SECRET, metadata={"a": SECRET}, config=Config(system_prompt=SECRET)),
        Configured(tags=(SECRET,), metadata={"a": SECRET}),
        ScratchpadWritten(content=SECRET, tokens=3),
        ConflictFound(id="c", conflicts=(CONFLICT, PAD_CONFLICT)),
    ],
)
def test_history_does_not_tell_what_the_state_hides(payload: Payload) -> None:
    data = msgspec.to_builtins(payload)
    assert times(data)
    assert times(of_event(payload.kind, data, ALL)) == 0
    assert of_event(payload.kind, data, ()) is data
    assert of_event(payload.kind, data, ("elsewhere",)) == data


def test_a_scratchpad_is_hidden_by_whose_it_is() -> None:
    data = msgspec.to_builtins(ScratchpadWritten(content=SECRET))
    assert of_event("scratchpad_written", data, ("scratchpad.critic",), agent="critic") == {}
    assert of_event("scratchpad_written", data, ("scratchpad.critic",), agent="writer") is data


def test_what_was_said_is_no_field() -> None:
    for payload in (Message(role="user", content="x", metadata={"a": 1}), RoomMessage(text="x")):
        data = msgspec.to_builtins(payload)
        assert of_event(payload.kind, data, ALL) is data


def test_a_conflict_loses_what_is_hidden_in_its_sides() -> None:
    whole = {"path": ["vars"], "base": {}, "ours": {"value": {"pay": SECRET, "x": 1}}, "theirs": {"value": {"x": 2}}}
    assert of_conflicts((whole,), ("vars.pay",)) == ({**whole, "ours": {"value": {"x": 1}}},)
    assert of_conflicts((whole,), ()) == (whole,)


def test_a_difference_between_sessions_is_filtered_by_the_names_of_fields() -> None:
    found = [["=", ["vars", "pay"], 1, 2], ["+", ["scratchpads", "critic"], SECRET], ["-", ["vars", "open"], 3]]
    assert of_diff(found, ("vars.pay", "scratchpad")) == [["-", ["vars", "open"], 3]]
    assert of_diff(found, ("scratchpad.writer",)) == found


FIELDS = {"created", "configured", "conflict_found", "scratchpad_written", "vars_patched"}


@pytest.mark.parametrize("kind", sorted(kind for kind, payload in KINDS.items() if payload.redactable))
def test_hidden_turns_hide_whatever_an_event_says(kind: str) -> None:
    data = dict.fromkeys(("content", "text", "summary", "comment", "note", "data", "result", "query", "name"), SECRET)
    for path in ("turns", "conversation", "turns.content", "*"):
        if kind not in FIELDS:
            assert times(of_event(kind, data, (path,))) == 0, path
    assert of_event(kind, data, ("vars.pay", "*.pay")) == data or kind in FIELDS
