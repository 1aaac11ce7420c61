"""A row is a pure function of the state, and knows when it has not changed."""

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.session import state
from perdure.core.session.event import Payload
from perdure.core.session.lifecycle import Moved, Phase
from perdure.core.session.origin import BranchKind, Configured, Relocated, Renewed
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.core.session.turns import TurnFinished, TurnStarted
from perdure.projections.row import row_of, same_listing
from perdure.testing import Builder, FixedAmbient
from perdure.testing.building import said

AMBIENT = FixedAmbient()


@pytest.fixture
def make() -> Builder:
    return Builder(FixedAmbient())


def test_a_row_shows_what_the_session_was_created_with(make: Builder) -> None:
    given: dict[str, Any] = {
        "owner": "ada",
        "title": "t",
        "tags": ("a", "b"),
        "metadata": {"k": [1]},
        "account": "purse",
        "expires_at": 7,
    }
    made = make.create(**given)
    row = row_of(made.state, digest=made.digest, at=AMBIENT.now())
    assert {name: getattr(row, name) for name in given} == given
    assert (row.session, row.tenant, row.phase, row.schema_version) == (
        made.session,
        "tenant",
        "init",
        state.SCHEMA_VERSION,
    )
    assert (row.version, row.digest, row.turns, row.open_turn) == (1, made.digest, 0, None)
    assert (row.parent, row.branch_kind, row.branched_at) == (None, None, None)


def test_a_session_is_active_when_it_is_appended_to_and_created_once(make: Builder) -> None:
    made = make.create()
    row = row_of(made.state, digest=made.digest, at=AMBIENT.now() + 5)
    assert (row.created_at, row.active_at) == (AMBIENT.now(), AMBIENT.now() + 5)


def test_a_row_shows_the_turn_in_flight(make: Builder) -> None:
    opened = make.append(make.create(), TurnStarted(), TurnFinished(), TurnStarted())
    row = row_of(opened.state, digest=opened.digest, at=0)
    assert (row.turns, row.open_turn) == (2, 2)
    closed = make.append(opened, TurnFinished())
    row = row_of(closed.state, digest=closed.digest, at=0)
    assert (row.turns, row.open_turn) == (2, None)


def test_a_row_of_a_branch_shows_where_it_starts(make: Builder) -> None:
    parent = make.create(said("a"), said("b"))
    branch = make.branch(parent, version=2, kind=BranchKind.PRE_STEER)
    row = row_of(branch.state, digest=branch.digest, at=0)
    assert (row.parent, row.branch_kind, row.branched_at) == (parent.session, "pre_steer", 2)


@pytest.mark.parametrize(
    "payload", [said("x"), TurnStarted(), ScratchpadWritten(content="x")], ids=lambda payload: str(payload.kind)
)
def test_work_does_not_change_the_listing(make: Builder, payload: Payload) -> None:
    made = make.create(metadata={"k": 1})
    after = make.append(made, payload).state
    assert same_listing(made.state, after)


@pytest.mark.parametrize(
    "payload",
    [
        Configured(title="new"),
        Configured(tags=("new",)),
        Configured(metadata={"k": True}),
        Configured(metadata={"k": 1.0}),
        Configured(metadata={}),
        Renewed(expires_at=9),
        Relocated(node="n"),
        Moved(event="activate", source=Phase.INIT, to=Phase.ACTIVE),
    ],
    ids=repr,
)
def test_what_a_list_shows_changes_the_listing(make: Builder, payload: Payload) -> None:
    made = make.create(metadata={"k": 1}, title="old")
    after = make.append(made, payload).state
    assert not same_listing(made.state, after)


def test_saying_the_same_again_does_not_change_the_listing(make: Builder) -> None:
    made = make.create(title="same", metadata={"k": [1]})
    after = make.append(made, Configured(title="same", metadata={"k": [1]})).state
    assert same_listing(made.state, after)


def test_a_new_session_and_a_new_schema_change_the_listing(make: Builder) -> None:
    made = make.create()
    assert not same_listing(state.BLANK, made.state)
    assert not same_listing(made.state, replace(made.state, schema="2.0.0"))


def test_rows_with_the_same_listing_differ_only_in_version_digest_activity_and_turns(make: Builder) -> None:
    made = make.create(title="t", metadata={"k": 1})
    after = make.append(made, TurnStarted(), said("x"))
    assert same_listing(made.state, after.state)
    before, now = (row_of(item.state, digest=item.digest, at=item.version) for item in (made, after))
    changed = {name for name in before.__struct_fields__ if getattr(before, name) != getattr(now, name)}
    assert changed == {"version", "digest", "active_at", "turns", "open_turn"}
