"""Merge patches and operations make of a document what their standards say, or refuse and change nothing."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, Refused, TooDeep, TooLarge
from perdure.core.session.jsonpatch import MAX_OPERATIONS, merged, patched, pointed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text("ab/~", max_size=2), VALUES, max_size=4)


# The examples of RFC 7396, appendix A.
@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_does_what_its_standard_says(document: Any, patch: Any, expected: Any) -> None:
    assert merged(document, patch) == expected


# The examples of RFC 6902, appendix A, that succeed.
@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        (
            {"foo": ["bar", "baz"]},
            [{"op": "add", "path": "/foo/1", "value": "qux"}],
            {"foo": ["bar", "qux", "baz"]},
        ),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        ({"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"x": {}}}], {"foo": "bar", "child": {"x": {}}}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["a"]}], {"foo": ["bar", ["a"]]}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)
def test_operations_do_what_their_standard_says(document: Any, operations: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert patched(document, operations) == expected
    assert document == before


@pytest.mark.parametrize(
    "operations",
    [
        {},
        "add",
        [1],
        [{}],
        [{"op": "fly", "path": "/a"}],
        [{"op": ["add"], "path": "/a", "value": 1}],
        [{"op": "add", "path": "/a"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": 3, "value": 1}],
        [{"op": "add", "path": "/no/where", "value": 1}],
        [{"op": "add", "path": "/list/9", "value": 1}],
        [{"op": "add", "path": "/list/01", "value": 1}],
        [{"op": "add", "path": "/list/-1", "value": 1}],
        [{"op": "replace", "path": "/list/-", "value": 1}],
        [{"op": "remove", "path": "/nothing"}],
        [{"op": "remove", "path": ""}],
        [{"op": "replace", "path": "/nothing", "value": 1}],
        [{"op": "move", "from": "/map", "path": "/map/inside"}],
        [{"op": "copy", "from": "/nothing", "path": "/a"}],
        [{"op": "add", "path": "/text/a", "value": 1}],
    ],
)
def test_operations_that_do_not_fit_are_refused_and_change_nothing(operations: Any) -> None:
    document = {"list": [1, 2], "map": {"a": 1}, "text": "t"}
    with pytest.raises(Invalid):
        patched(document, operations)
    assert document == {"list": [1, 2], "map": {"a": 1}, "text": "t"}


def test_a_failed_test_refuses_the_whole_patch() -> None:
    with pytest.raises(Refused):
        patched({"a": 1}, [{"op": "add", "path": "/b", "value": 2}, {"op": "test", "path": "/a", "value": 1.0}])


def test_a_bottomless_merge_patch_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(TooDeep):
        merged({}, deep)


@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_patch_never_changes_what_it_is_given(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((document, patch))
    found = merged(document, patch)
    assert (document, patch) == before
    assert merged(found, patch) == found  # applying it again changes nothing


@given(DOCUMENTS, VALUES)
def test_whatever_is_no_patch_is_refused_and_nothing_else_is_raised(document: dict[str, Any], patch: Any) -> None:
    if patch != []:
        with pytest.raises((Invalid, Refused)):
            patched(document, patch)


def test_a_patch_has_so_many_operations_and_no_more() -> None:
    add = {"op": "add", "path": "/a/-", "value": 1}
    assert patched({"a": []}, [add] * MAX_OPERATIONS) == {"a": [1] * MAX_OPERATIONS}
    with pytest.raises(TooLarge):
        patched({"a": []}, [add] * (MAX_OPERATIONS + 1))


def test_a_copy_goes_its_own_way() -> None:
    document = {"a": {"list": [1]}}
    operations = [
        {"op": "add", "path": "/a/list/-", "value": 2},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/list/-", "value": 3},
        {"op": "add", "path": "/b/list/-", "value": 4},
    ]
    assert patched(document, operations) == {"a": {"list": [1, 2, 3]}, "b": {"list": [1, 2, 4]}}
    assert document == {"a": {"list": [1]}}


def test_a_document_cannot_be_doubled_over_and_over() -> None:
    with pytest.raises(TooLarge):
        patched({"a": ["x"]}, [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60)
    with pytest.raises(TooLarge):
        patched({"a": "x" * 1_000_000}, [{"op": "copy", "from": "/a", "path": f"/{n}"} for n in range(100)])


def test_a_value_that_was_put_stays_as_it_was_given() -> None:
    given: dict[str, Any] = {"inner": []}
    operations = [{"op": "add", "path": "/a", "value": given}, {"op": "add", "path": "/a/inner/-", "value": 1}]
    assert patched({}, operations) == {"a": {"inner": [1]}}
    assert given == {"inner": []}


def test_where_operations_point_is_told_of_whatever_can_be_read() -> None:
    operations = [{"op": "copy", "from": "/a~1b", "path": ""}, 7, {"op": "test", "path": 1}, {"from": "x"}]
    assert list(pointed(operations)) == [[], ["a/b"]]
    assert list(pointed({"path": "/a"})) == []
