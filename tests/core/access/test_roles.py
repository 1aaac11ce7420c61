"""Scopes, and the table as it is looked up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access.roles import (
    ACTIONS,
    GRANTABLE,
    GRANTED,
    TABLE,
    Action,
    Role,
    Thing,
    Verb,
    is_scope,
    narrowed,
    scoped,
)
from tests.core.access.asking import SCOPES


def test_an_action_is_written_as_its_verb_and_its_thing() -> None:
    assert str(Action(Verb.READ, Thing.TURNS)) == "read:turns"
    assert ACTIONS["read:turns"] == Action(Verb.READ, Thing.TURNS)
    assert len(ACTIONS) == len(Verb) * len(Thing)


@pytest.mark.parametrize("text", ["*", "read:*", "*:turns", "read:turns", "override:log"])
def test_scopes_have_one_star_at_most_in_each_place(text: str) -> None:
    assert is_scope(text)
    assert scoped((text,))


@pytest.mark.parametrize(
    "text", ["", ":", "read", "read:", ":turns", "*:*", "fly:turns", "read:moon", "read:turns:x", "READ:TURNS"]
)
def test_what_is_no_scope_is_good_for_nothing(text: str) -> None:
    assert not is_scope(text)
    assert scoped((text,)) == frozenset()


def test_a_star_is_good_for_every_thing_or_every_verb() -> None:
    assert scoped(("write:*",)) == {Action(Verb.WRITE, thing) for thing in Thing}
    assert scoped(("*:turns",)) == {Action(verb, Thing.TURNS) for verb in Verb}
    assert scoped(("*",)) == set(ACTIONS.values())
    assert scoped(()) == frozenset()


@given(SCOPES, SCOPES)
def test_narrowed_scopes_are_good_for_what_both_are_good_for(held: tuple[str, ...], asked: tuple[str, ...]) -> None:
    assert scoped(narrowed(held, asked)) == scoped(held) & scoped(asked)


def test_a_scope_that_is_held_whole_is_kept_as_it_was_written() -> None:
    held, asked = ("read:*", "write:turns"), ("read:*", "*:turns")
    assert narrowed(held, asked) == ("read:*", "list:turns", "read:turns", "write:turns")


def test_whoever_may_read_something_may_list_it_but_not_the_other_way_round() -> None:
    assert scoped(("read:*",)) == {Action(verb, thing) for thing in Thing for verb in (Verb.READ, Verb.LIST)}
    assert scoped(("list:turns",)) == {Action(Verb.LIST, Thing.TURNS)}


@given(st.frozensets(st.sampled_from(Role)))
def test_several_roles_allow_what_each_of_them_does(roles: frozenset[Role]) -> None:
    every = {Action(verb, thing) for role in roles for thing, verbs in TABLE[role].items() for verb in verbs}
    assert {action for action in GRANTED[roles] if action.verb is not Verb.OVERRIDE} == every
    assert every <= GRANTABLE
