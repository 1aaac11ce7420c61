"""Origin: who a session is stays as it began; title, tags, metadata and configuration follow the last word."""

from typing import Any

import pytest
from hypothesis import given
from msgspec import UNSET

from perdure.core.session.checkpoints import Adaptive, CheckpointPolicy
from perdure.core.session.codec import decoder, encode_struct
from perdure.core.session.origin import (
    SINGLE_LEVEL,
    BranchKind,
    Compaction,
    Config,
    Configured,
    Created,
    Isolation,
    Lineage,
    Origin,
    Relocated,
    Renewed,
    Template,
    Timeouts,
    evolve,
    override,
)
from perdure.core.session.turns import Message
from tests.core.session.logbook import NOON, event_of
from tests.core.session.payloads import structs

LINEAGE = Lineage(parent="p", version=7, digest=b"d", kind=BranchKind.CHECKPOINT)
FULL = Config(
    model="large",
    system_prompt="be brief",
    template=Template(name="trip", params={"to": "Lisbon"}),
    compaction=Compaction(),
    max_cost=5,
    timeouts=Timeouts(idle=60),
    checkpoints=CheckpointPolicy(periodic=60.0, adaptive=Adaptive()),
    extra={"a": [1]},
)


def test_a_session_is_what_it_was_created_as() -> None:
    created = Created(
        owner="ana",
        title="Lisbon",
        tags=("trip",),
        metadata={"a": 1},
        config=FULL,
        isolation=Isolation(model="user"),
        account="purse",
        agent_id="7",
        expires_at=NOON + 1,
    )
    assert evolve(Origin(), event_of(created)) == Origin(
        owner="ana",
        title="Lisbon",
        tags=("trip",),
        metadata={"a": 1},
        config=FULL,
        isolation=Isolation(model="user"),
        account="purse",
        agent_id="7",
        created_at=NOON,
        expires_at=NOON + 1,
    )


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        (Configured(), {}),
        (Configured(title=""), {"title": ""}),
        (Configured(tags=()), {"tags": ()}),
        (Configured(metadata={}), {"metadata": {}}),
        (Configured(config=Config()), {"config": Config()}),
        (Configured(title="b", tags=("x", "y")), {"title": "b", "tags": ("x", "y")}),
    ],
)
def test_configuring_changes_what_it_names_and_emptying_is_a_change(
    configured: Configured, expected: dict[str, Any]
) -> None:
    before = {"title": "a", "tags": ("x",), "metadata": {"a": 1}, "config": FULL}
    stored = decoder(Configured)(encode_struct(configured))
    part = evolve(Origin(owner="ana", **before), event_of(stored))  # type: ignore[arg-type]
    assert part == Origin(owner="ana", **before | expected)  # type: ignore[arg-type]


def test_what_is_not_configured_is_not_written() -> None:
    assert encode_struct(Configured()) == b"\x80"
    assert Configured().title is UNSET


def test_a_branch_inherits_the_configuration_and_replaces_what_it_overrides() -> None:
    parent = Origin(owner="ana", config=FULL, isolation=Isolation(model="user"), agent_id="7", created_at=1)
    chosen = Config(model="small", max_cost=None)
    created = Created(owner="bo", config=chosen, overrides=("max_cost", "model"), lineage=LINEAGE)
    part = evolve(parent, event_of(created))
    assert part.config is not None
    assert (part.config.model, part.config.max_cost, part.config.system_prompt) == ("small", None, "be brief")
    assert (part.owner, part.lineage, part.created_at) == ("bo", LINEAGE, NOON)
    assert (part.isolation, part.agent_id) == (Isolation(model="user"), "7")


def test_without_a_lineage_nothing_is_inherited() -> None:
    part = evolve(Origin(config=FULL), event_of(Created(config=Config(model="small"), overrides=("model",))))
    assert part.config == Config(model="small")


def test_overriding_without_a_base_starts_from_nothing() -> None:
    assert override(None, Config(model="small", max_cost=3), ("model",)) == Config(model="small")
    assert override(FULL, None, ("model",)) is FULL
    assert override(FULL, Config(model="small"), ()) is FULL
    assert override(FULL, Config(), ("colour", "model")) is not None


def test_all_but_checkpoint_branches_are_single_level() -> None:
    assert set(BranchKind) - SINGLE_LEVEL == {BranchKind.CHECKPOINT}


def test_renewing_and_moving_house_change_just_that() -> None:
    part = evolve(evolve(Origin(owner="ana"), event_of(Renewed(expires_at=9))), event_of(Relocated(node="n2")))
    assert part == Origin(owner="ana", expires_at=9, renewed_at=NOON, node="n2")


def test_other_events_leave_the_origin_alone() -> None:
    part = Origin(owner="ana")
    assert evolve(part, event_of(Message(role="user"))) is part


@given(structs(Config))
def test_a_configuration_has_one_encoding(config: Config) -> None:
    stored = encode_struct(config)
    assert encode_struct(decoder(Config)(stored)) == stored
