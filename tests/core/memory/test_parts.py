"""Spaces and their logs: names that cannot be mistaken for each other, and times that a memory held."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from perdure.core.errors import Invalid
from perdure.core.memory.parts import (
    CLOCKS,
    LETHE,
    PREFIX,
    TRUST,
    Memory,
    MemoryType,
    Source,
    Space,
    Status,
    space_of,
    vault,
)
from perdure.core.session.ids import named

names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=128)
spaces = st.builds(vault, names) | st.builds(lambda name: Space("clade", name), names) | st.just(LETHE)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("vault", ""), ("clade", ""), ("lethe", "x"), ("attic", "x"), ("", ""), ("vault", "a/b"), ("vault", "a\n"),
     ("vault", "\x00"), ("vault", "x" * 129), ("vault", "\ud800"), ("vault", "\x7f")],
)  # fmt: skip
def test_what_is_no_space_is_refused(namespace: str, name: str) -> None:
    with pytest.raises(Invalid):
        Space(namespace, name)  # type: ignore[arg-type]  # that is the point


def test_a_space_is_spelled_with_its_namespace() -> None:
    assert [str(space) for space in (vault("ana"), Space("clade", "desk"), LETHE)] == [
        "vault/ana",
        "clade/desk",
        "lethe",
    ]
    assert vault("ana").log == "memory:vault:ana"
    assert LETHE.log == "memory:lethe"


@given(one=spaces, other=spaces)
def test_two_spaces_never_have_one_log(one: Space, other: Space) -> None:
    assert (one.log == other.log) is (one == other)
    assert one.log.startswith(PREFIX)


@given(space=spaces, tenant=names)
def test_a_log_leads_back_to_its_space_and_no_other_session_does(space: Space, tenant: str) -> None:
    session = named(tenant, space.log)
    assert space_of(tenant, session, str(space)) == space
    assert space_of(tenant + "x", session, str(space)) is None
    assert space_of(tenant, named(tenant, "a session of mine"), str(space)) is None


def test_titles_of_sessions_are_no_spaces() -> None:
    session = named("t", "memory:vault:ana")
    for title in ("", "vault", "vault/", "ana", "vault/ben", "attic/ana"):
        assert space_of("t", session, title) is None


def test_every_kind_of_source_has_its_trust() -> None:
    kinds = ("user", "agent", "tool", "document", "import", "consolidation", "promotion")
    assert {kind: TRUST[Source(kind=kind).kind] for kind in kinds} == {  # type: ignore[arg-type]
        "user": "high",
        "agent": "medium",
        "tool": "low",
        "document": "low",
        "import": "low",
        "consolidation": "medium",
        "promotion": "medium",
    }


def test_a_memory_holds_from_when_it_was_said_until_it_ends() -> None:
    memory = Memory(id="m", type=MemoryType.FACT, content="tea", recorded_at=10, valid_to=20)
    assert [memory.was_true(at) for at in (9, 10, 19, 20)] == [False, True, True, False]
    since = Memory(id="m", type=MemoryType.FACT, content="tea", recorded_at=10, valid_from=5)
    assert (since.since, [since.was_true(at) for at in (4, 5, 10**15)]) == (5, [False, True, True])


def test_what_had_ended_before_it_was_kept_began_nobody_knows_when() -> None:
    memory = Memory(id="m", type=MemoryType.FACT, content="tea", recorded_at=10, valid_to=5)
    assert [memory.was_true(at) for at in (-(10**15), 4, 5, 10)] == [True, True, False, False]
    since = Memory(id="m", type=MemoryType.FACT, content="tea", recorded_at=10, valid_from=3, valid_to=5)
    assert [since.was_true(at) for at in (2, 3, 4, 5)] == [False, True, True, False]


def test_a_memory_counts_while_it_is_so_and_until_what_takes_its_place_begins() -> None:
    def counts(at: int, **fields: Any) -> bool:
        return Memory(**{"id": "m", "type": MemoryType.FACT, "content": "tea", "recorded_at": 10} | fields).counts(at)

    later = 10 + 2 * CLOCKS
    assert [counts(at, valid_from=later) for at in (10, later - CLOCKS - 1, later - CLOCKS, later)] == [
        False,
        False,
        True,
        True,
    ]
    assert [counts(at, valid_to=later) for at in (10, later - 1, later)] == [True, True, False]
    old = {"status": Status.SUPERSEDED, "superseded_at": 20, "valid_to": later}
    assert [counts(at, **old) for at in (20, later - CLOCKS - 1, later - CLOCKS, later)] == [True, True, False, False]
    assert not counts(20, **old | {"valid_from": later}), "it was not so yet when another took its place"
    assert not counts(20, **old | {"status": Status.ARCHIVED})
    assert not counts(5, **old | {"valid_to": 20}), "its clock is ahead, and it gave way at once"
