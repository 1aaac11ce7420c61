"""The name a session goes by stays told, whatever it is called later."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.session import commands as do
from perdure.core.session.decide import Facts, decide
from perdure.core.session.event import Draft
from perdure.core.session.ids import SessionId, named
from perdure.core.session.lifecycle import Life, Phase
from perdure.core.session.naming import name_of
from perdure.core.session.origin import Configured, Origin
from perdure.core.session.state import State

TRIP = named("local", "trip")
texts = st.sampled_from(["", "trip", "Lisbon", "other"])
documents = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 2), max_size=2)


def standing(title: str, metadata: dict[str, Any], session: SessionId = TRIP) -> State:
    origin = Origin(title=title, metadata=metadata)
    return State(tenant="local", session=session, version=3, origin=origin, life=Life(phase=Phase.ACTIVE))


def configured(state: State, **changes: Any) -> State:
    decided = decide(state, do.Configure(**changes), Facts(at=1))
    for item in decided:
        assert isinstance(item, Draft)
        assert isinstance(item.payload, Configured)
        told = msgspec.to_builtins(item.payload)
        fields = {name: told[name] for name in ("title", "metadata") if name in told}
        state = msgspec.structs.replace(state, origin=msgspec.structs.replace(state.origin, **fields))
    return state


def name(state: State) -> str | None:
    return name_of(state.tenant, SessionId(state.session), state.origin.title, state.origin.metadata)


@given(st.lists(st.fixed_dictionaries({}, optional={"title": texts, "metadata": documents}), max_size=4))
def test_a_name_outlasts_every_change_of_title_and_metadata(changes: list[dict[str, Any]]) -> None:
    state = standing("trip", {})
    for change in changes:
        state = configured(state, **change)
        assert name(state) == "trip"
        assert {**state.origin.metadata, **change.get("metadata", {})} == state.origin.metadata


@given(texts, documents, st.fixed_dictionaries({}, optional={"title": texts, "metadata": documents}))
def test_a_session_without_a_name_gets_none(title: str, metadata: dict[str, Any], change: dict[str, Any]) -> None:
    session = SessionId("0192f0c4-7d1e-7abc-8def-0123456789ab")
    state = configured(standing(title, metadata, session), **change)
    assert name(state) is None
    assert (state.origin.title, state.origin.metadata) == (
        change.get("title", title),
        change.get("metadata", metadata),
    )


def test_the_name_a_title_tells_is_not_told_twice() -> None:
    assert configured(standing("trip", {}), metadata={"a": 1}).origin.metadata == {"a": 1}


def test_what_callers_mean_by_name_is_theirs() -> None:
    state = configured(standing("trip", {}), title="Lisbon", metadata={"name": "Ana"})
    assert state.origin.metadata == {"name": "Ana"}


@pytest.mark.parametrize("spelled", [str(TRIP), TRIP.replace("-", "").upper()])
def test_an_id_is_no_name(spelled: str) -> None:
    assert name_of("local", TRIP, spelled, {}) is None
