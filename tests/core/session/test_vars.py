"""`vars`: a document changed by patches, of which any may have lost its content."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, TooDeep, TooLarge
from perdure.core.session.codec import encode
from perdure.core.session.turns import Message
from perdure.core.session.values import DOCUMENT_LIMITS, same
from perdure.core.session.vars import Vars, VarsPatched, change, evolve
from tests.core.session.logbook import event_of
from tests.core.session.payloads import structs
from tests.core.session.plain_values import documents, similar_documents, values


def changed(part: Vars, document: dict[str, Any], **schema: str) -> Vars:
    found = change(part, document, **schema)
    return part if found is None else evolve(part, event_of(found))


@given(st.lists(similar_documents | documents, max_size=6))
def test_each_patch_leads_to_the_document_it_was_made_for(drawn: list[dict[str, Any]]) -> None:
    part = Vars()
    for document in drawn:
        part = changed(part, document)
        assert same(part.document, document)


@given(similar_documents)
def test_the_same_document_changes_nothing(document: dict[str, Any]) -> None:
    part = changed(Vars(), document)
    assert change(part, document) is None


def test_one_one_point_nought_and_true_are_different() -> None:
    part = changed(Vars(), {"a": 1})
    assert change(part, {"a": 1.0}) is not None
    assert change(part, {"a": True}) is not None


def test_a_patch_costs_what_changed_not_what_is_there() -> None:
    part = changed(Vars(), {"big": ["x" * 100] * 100, "n": 1})
    found = change(part, {**part.document, "n": 2})
    assert found is not None
    assert len(encode(found.patch)) < 50


def test_schema_and_version_stay_until_they_are_changed() -> None:
    part = changed(Vars(), {"a": 1}, schema="Trip", version="1.0.0")
    assert (part.schema, part.schema_version) == ("Trip", "1.0.0")
    part = changed(part, {"a": 2})
    assert (part.schema, part.schema_version) == ("Trip", "1.0.0")
    part = changed(part, {"a": 2}, version="1.1.0")
    assert (part.document, part.schema, part.schema_version) == ({"a": 2}, "Trip", "1.1.0")


def test_a_document_shares_nothing_with_what_was_handed_in() -> None:
    given_document: dict[str, Any] = {"list": [1], "map": {"a": 1}}
    part = changed(Vars(), given_document)
    given_document["list"].append(2)
    given_document["map"]["b"] = 2
    assert part.document == {"list": [1], "map": {"a": 1}}


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


def nested(depth: int, inner: Any = 1) -> Any:
    for _ in range(depth):
        inner = {"a": inner}
    return inner


def test_a_document_deeper_than_a_state_can_hold_is_refused_also_when_it_grew_step_by_step() -> None:
    part = changed(Vars(), nested(40))
    with pytest.raises(TooDeep):
        change(part, nested(39, {"a": nested(39)}))


def test_a_document_larger_than_a_state_can_hold_is_refused() -> None:
    half = "x" * (DOCUMENT_LIMITS.max_bytes // 2)
    part = changed(Vars(), {"a": half})
    with pytest.raises(TooLarge):
        change(part, {"a": half, "b": half})


@pytest.mark.parametrize("wrong", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, {1: 2}, {"a": 2**64}])
def test_what_is_not_plain_data_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid):
        change(Vars(), wrong)


# ── folding what lost its content ─────────────────────────────────────────────────────────────────


@given(st.lists(similar_documents, min_size=1, max_size=6), st.data())
def test_a_redacted_patch_never_stops_the_later_ones(drawn: list[dict[str, Any]], data: Any) -> None:
    part, patches = Vars(), []
    for document in drawn:
        found = change(part, document)
        if found is not None:
            patches.append(found)
            part = evolve(part, event_of(found))
    gone = data.draw(st.sets(st.integers(0, 5)))
    again = Vars()
    for index, patch in enumerate(patches):
        redacted = index in gone
        again = evolve(again, event_of(VarsPatched() if redacted else patch, redacted=redacted))
    if not gone & set(range(len(patches))):
        assert same(again.document, part.document)


def test_what_was_written_after_a_redacted_value_is_still_there() -> None:
    part, patches = Vars(), []
    for document in ({"name": "secret", "n": 1}, {"name": "public", "n": 1}, {"name": "public", "n": 2}):
        found = change(part, document)
        assert found is not None
        patches.append(found)
        part = evolve(part, event_of(found))
    again = Vars()
    for patch in (VarsPatched(), *patches[1:]):
        again = evolve(again, event_of(patch))
    assert again.document == {"name": "public", "n": 2}


def test_a_patch_does_not_repeat_what_it_replaces() -> None:
    """Redacting an event destroys its content for good only if no later event says it again."""
    part = changed(Vars(), {"name": "secret", "more": {"deep": "secret"}, "list": ["secret", "x"]})
    found = change(part, {"name": "public", "list": ["x"]})
    assert found is not None
    assert b"secret" not in encode(found.patch)


@given(structs(VarsPatched), similar_documents)
def test_folding_takes_any_patch_whatever_it_says(payload: VarsPatched, document: dict[str, Any]) -> None:
    part = evolve(Vars(document=document), event_of(payload))
    assert type(part.document) is dict


@given(st.lists(st.lists(values, max_size=4) | values, max_size=4), similar_documents)
def test_folding_takes_what_only_looks_like_a_patch(patch: Any, document: dict[str, Any]) -> None:
    part = evolve(Vars(document=document), event_of(VarsPatched(patch=patch)))
    assert type(part.document) is dict


def test_other_events_leave_the_document_alone() -> None:
    part = Vars(document={"a": 1})
    assert evolve(part, event_of(Message(role="user"))) is part
