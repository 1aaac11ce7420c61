"""Paths of fields, and documents and patches without some of them."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access.fields import (
    changes_without,
    first_touch,
    may_write,
    meets,
    parsed,
    spelled,
    touched,
    within,
    without,
)
from perdure.core.errors import Invalid
from perdure.core.session.changes import apply, changes
from perdure.core.session.diff import diff

NAMES = st.sampled_from(["a", "b", "c", "0", "*", "x.y", "\\"])
DOCUMENTS = st.dictionaries(
    NAMES,
    st.recursive(
        st.integers(0, 3),
        lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
PATHS = st.lists(NAMES | st.none(), min_size=1, max_size=3).map(spelled)
HIDDEN = st.lists(PATHS, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("hidden", "left"),
    [
        (("vars.salary",), {"vars": {"staff": [{"pay": 1, "name": "x"}, {"pay": 2}], "x.y": 1, "*": 2}, "title": "t"}),
        (("vars.*",), {"vars": {}, "title": "t"}),
        (("vars",), {"title": "t"}),
        (("*",), {}),
        (("vars.staff.pay", "title"), {"vars": {"salary": 9, "staff": [{"name": "x"}, {}], "x.y": 1, "*": 2}}),
        (("vars.staff.*.pay", "title"), {"vars": {"salary": 9, "staff": [{"name": "x"}, {}], "x.y": 1, "*": 2}}),
        (("vars.staff.1.pay", "title"), {"vars": {"salary": 9, "staff": [{"name": "x"}, {}], "x.y": 1, "*": 2}}),
        (("vars.staff.*", "title"), {"vars": {"salary": 9, "staff": [], "x.y": 1, "*": 2}}),
        (("*.x\\.y", "vars.\\*", "title"), {"vars": {"salary": 9, "staff": [{"pay": 1, "name": "x"}, {"pay": 2}]}}),
    ],
)
def test_hidden_paths_are_taken_out(hidden: tuple[str, ...], left: dict[str, Any]) -> None:
    document = {"vars": {"salary": 9, "staff": [{"pay": 1, "name": "x"}, {"pay": 2}], "x.y": 1, "*": 2}, "title": "t"}
    before = deepcopy(document)
    assert without(document, hidden) == left
    assert document == before


def test_lists_tuples_and_sets_stay_what_they_are() -> None:
    assert without({"a": ({"b": 1}, 2), "s": {1, 2}}, ("a.b", "s.*")) == {"a": ({}, 2), "s": frozenset()}


def test_a_path_reaches_through_lists_in_lists() -> None:
    assert without({"a": [[{"b": 1, "c": 2}]]}, ("a.b",)) == {"a": [[{"c": 2}]]}


@given(DOCUMENTS)
def test_a_document_from_which_nothing_goes_is_given_back_itself(document: dict[str, Any]) -> None:
    assert without(document, ()) is document
    assert without(document, ("nowhere", "nowhere.*", "a.nowhere", "*.nowhere")) is document


@given(DOCUMENTS, HIDDEN)
def test_taking_out_twice_takes_out_no_more(document: dict[str, Any], hidden: tuple[str, ...]) -> None:
    once = without(document, hidden)
    assert without(once, hidden) is once


@given(DOCUMENTS, DOCUMENTS, HIDDEN)
def test_a_patch_without_the_hidden_leads_to_the_document_without_it(
    before: dict[str, Any], after: dict[str, Any], hidden: tuple[str, ...]
) -> None:
    """What is seen of a history folds to what is seen of the document."""
    patch = changes(diff(before, after))
    seen = changes_without(patch, hidden, root=())
    assert apply(without(before, hidden), seen) == without(after, hidden)
    assert leaks(seen, hidden) == []


def leaks(seen: list[Any], hidden: tuple[str, ...]) -> list[Any]:
    """Changes that still tell something hidden, found by carrying each out alone."""
    told = []
    for sign, path, *values in seen:
        document: Any = values[0] if values else None
        for name in reversed(path):
            document = {name: document} if isinstance(name, str) else [document]
        if sign != "-" and without(document, hidden) != document:
            told.append((sign, path))
    return told


def test_a_patch_is_filtered_as_it_is_stored() -> None:
    patch = [
        ["+", ["salary"], 10],
        ["=", ["salary", "net"], 7],
        ["-", ["salary"]],
        ["+", ["staff"], [{"pay": 1, "name": "x"}]],
        ["=", ["staff", 0, "pay"], 2],
        ["=", ["staff", 0], {"pay": 3, "name": "y"}],
        ["+", ["other"], 1],
        "nonsense",
        ["+"],
        ["+", "salary", 1],
    ]
    assert changes_without(patch, ("vars.salary", "vars.staff.pay")) == [
        ["+", ["staff"], [{"name": "x"}]],
        ["=", ["staff", 0], {"name": "y"}],
        ["+", ["other"], 1],
    ]
    assert changes_without(patch, ("vars",)) == []
    assert changes_without(patch, ()) is patch
    assert changes_without(patch, ("metadata.*",)) is patch


def test_old_values_are_filtered_like_new_ones() -> None:
    assert changes_without([["=", ["a"], {"b": 1}, {"b": 2, "c": 3}]], ("vars.a.b",)) == [["=", ["a"], {}, {"c": 3}]]


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_a_spelled_path_is_read_back(path: list[str]) -> None:
    assert parsed(spelled(path)) == tuple(path)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a" * 2000])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parsed(text)


@pytest.mark.parametrize(
    ("written", "barred", "free"),
    [
        ("vars.salary", "vars.salary", False),
        ("vars.salary.net", "vars.salary", False),
        ("vars", "vars.salary", False),
        ("vars.other", "vars.salary", True),
        ("vars.salaryman", "vars.salary", True),
        ("vars.other", "vars.*", False),
        ("vars.*", "vars.salary", False),
        ("vars.staff.0.pay", "vars.staff.pay", False),
        ("vars.staff.0", "vars.staff.pay", False),
        ("vars.staff.0.name", "vars.staff.pay", True),
        ("vars.staff.3.pay", "vars.staff.1.pay", False),
        ("metadata", "vars.*", True),
        ("", "vars.salary", False),
        ("a..b", "vars.salary", False),
    ],
)
def test_a_write_touches_a_field_at_it_in_it_and_around_it(written: str, barred: str, free: bool) -> None:
    assert may_write((written,), (barred,)) is free
    assert first_touch(("title", written), (barred,)) == (None if free else barred)


def test_many_positions_cost_no_more_than_their_number() -> None:
    assert not may_write((".".join(["0"] * 400),), (".".join(["*"] * 8),))
    assert within(".".join(["0"] * 400), (".".join(["*"] * 8),))


def test_without_barred_fields_anything_may_be_written() -> None:
    assert may_write(("vars", ""), ())


def test_the_paths_of_a_patch_are_spelled_for_the_decision() -> None:
    patch = [["+", ["staff", 0, "pay"], 1], ["-", ["x.y"]], ["=", ["x.y"], 2]]
    assert touched(patch) == ("vars.staff.0.pay", "vars.x\\.y")
    assert touched([["+"]]) == ("vars",)
    assert touched(None) == ("vars",)


@pytest.mark.parametrize(
    ("asked", "hidden"),
    [
        ("a", True),
        ("a.b", True),
        ("c", False),
        ("c.d", True),
        ("c.0.d", True),
        ("c.*", True),
        ("*", True),
        ("e", False),
    ],
)
def test_asking_for_a_hidden_field_or_a_part_of_it_is_known(asked: str, hidden: bool) -> None:
    assert within(asked, ("a", "c.d")) is hidden


@given(DOCUMENTS, PATHS)
def test_whatever_stands_under_a_hidden_path_is_within_it(document: dict[str, Any], path: str) -> None:
    """The two ways to ask agree: what is taken out of a document is what may not be asked for."""

    def places(value: Any, so_far: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
        inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
        return [so_far, *(place for name, item in inner for place in places(item, (*so_far, name)))]

    left = set(places(without(document, (path,)), ()))
    for place in places(document, ()):
        if place not in left:
            assert within(spelled(place), (path,))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"pay": 1}, True),
        ({"pay": {"sum": 1}}, True),
        ({"team": {"pay": None}}, True),
        ({"team": 5}, True),
        ({"team": None}, True),
        ({"team": {"name": 1}}, False),
        ({"city": {"pay": 1}}, False),
        ({}, False),
    ],
)
def test_a_merge_patch_meets_what_it_names_or_replaces(patch: Any, expected: bool) -> None:
    assert meets(patch, ("vars.pay", "vars.team.pay", "title")) is expected
    assert not meets(patch, ())
    assert meets(patch, ("vars",))
