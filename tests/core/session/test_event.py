"""Envelopes and payloads: defaults that fold as blanks, targets that outlive redaction."""

import msgspec
import pytest

from perdure.core.session import agents, children, links, turns
from perdure.core.session.event import Draft, Payload, draft, payloads_of
from perdure.core.session.kinds import KINDS
from tests.core.session.logbook import NOON, RAW, SESSION, event_of

SINGLETONS = (None, False, 0, "", b"", (), msgspec.UNSET)


def test_an_event_reads_as_one_flat_thing() -> None:
    event = event_of(turns.Message(role="user"), 7, agent="scout", child_agent="kid", target="x", turn=3)
    assert (event.tenant, event.session, event.version, event.at) == ("tenant", SESSION, 7, NOON)
    assert (event.kind, event.kind_version, event.actor, event.epoch, event.key) == ("message", 1, "someone", 0, None)
    assert (event.agent, event.child_agent, event.target, event.turn) == ("scout", "kid", "x", 3)
    assert event.uid == bytes(16)
    assert event.shared.origin == RAW
    assert not event.redacted
    assert event_of(turns.Message(), redacted=True).redacted


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_field_has_a_default_so_that_a_redacted_event_folds(kind: str) -> None:
    cls = KINDS[kind]
    assert cls() == cls()
    for field in msgspec.structs.fields(cls):
        assert not field.required
        given = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()  # type: ignore[operator]
        assert given in ({}, *SINGLETONS), f"{kind}.{field.name} is not left out by identity"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_kinds_say_what_may_be_done_with_them(kind: str) -> None:
    cls = KINDS[kind]
    assert cls.kind == kind
    assert cls.kind_version >= 1
    assert isinstance(cls.redactable, bool)
    assert isinstance(cls.callers, bool)
    assert isinstance(cls.mutates, bool)
    assert cls.__struct_config__.frozen
    assert cls.__struct_config__.omit_defaults


@pytest.mark.parametrize(
    ("payload", "target"),
    [
        (turns.ToolAsked(call="c1"), "c1"),
        (turns.ToolStarted(call="c1"), "c1"),
        (turns.ToolFinished(call="c1"), "c1"),
        (turns.ToolFinished(), None),
        (turns.Message(role="user"), None),
        (agents.Delegation(to="scout"), "scout"),
        (links.Linked(other="s"), "s"),
        (links.ConflictFound(id="k"), "k"),
        (children.Spawned(child="s"), "s"),
        (children.ChildFinished(child="s"), "s"),
    ],
)
def test_a_payload_says_what_it_is_aimed_at(payload: Payload, target: str | None) -> None:
    assert draft(payload, turn=2) == Draft(payload, target=target, turn=2)


def test_an_aspect_lists_the_payloads_it_defines_and_no_borrowed_ones() -> None:
    found = payloads_of(turns)
    assert turns.Message in found
    assert Payload not in found
    assert all(item.__module__ == turns.__name__ for item in found)
