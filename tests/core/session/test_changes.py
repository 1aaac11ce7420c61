"""Changes: they lead where a diff leads, say nothing of what was there before, and never fail."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.session.changes import apply, changes
from perdure.core.session.codec import encode
from perdure.core.session.diff import diff, to_document
from perdure.core.session.values import clone, same
from tests.core.session.plain_values import documents, similar_documents, values

drawn_documents = similar_documents | documents


@given(drawn_documents, drawn_documents)
def test_changes_lead_where_the_diff_leads(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert same(apply(a, changes(diff(a, b))), b)


@given(drawn_documents, drawn_documents)
def test_nothing_given_is_changed(a: dict[str, Any], b: dict[str, Any]) -> None:
    before = clone(a)
    written = changes(diff(a, b))
    stored = encode(written)
    apply(a, written)
    assert same(a, before)
    assert encode(written) == stored


@given(drawn_documents, drawn_documents)
def test_changes_are_never_longer_than_the_patch(a: dict[str, Any], b: dict[str, Any]) -> None:
    patch = diff(a, b)
    assert len(encode(changes(patch))) <= len(encode(to_document(patch)))


@given(drawn_documents, drawn_documents, drawn_documents)
def test_a_value_of_the_new_document_arrives_also_on_another_one(a: Any, b: Any, other: Any) -> None:
    found = apply(other, changes(diff(a, b)))
    for key, value in b.items():
        if key not in a:
            assert same(found[key], value)


signs = st.sampled_from(["+", "-", "=", "?", 1])
steps = st.sampled_from(["a", "b", 0, 1, -1, True, None, "zz"])
odd = st.lists(st.lists(st.one_of(signs, st.lists(steps, max_size=3), values), max_size=4) | values, max_size=5)


@given(similar_documents, odd)
def test_whatever_the_changes_say_a_document_comes_out(document: dict[str, Any], written: Any) -> None:
    assert type(apply(document, written)) is dict


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([["=", ["new"], 1]], {"a": {"b": 1}, "list": [1, 2], "new": 1}),
        ([["+", ["a"], 1]], {"a": 1, "list": [1, 2]}),
        ([["-", ["gone"]]], {"a": {"b": 1}, "list": [1, 2]}),
        ([["+", ["list", 9], 3]], {"a": {"b": 1}, "list": [1, 2, 3]}),
        ([["=", ["list", 9], 3], ["-", ["list", 9]]], {"a": {"b": 1}, "list": [1, 2]}),
        ([["=", ["list", 0, "x"], 3]], {"a": {"b": 1}, "list": [1, 2]}),
        ([["=", ["gone", "x"], 3]], {"a": {"b": 1}, "list": [1, 2]}),
        ([["=", ["list", "0"], 3], ["=", ["a", 0], 3]], {"a": {"b": 1}, "list": [1, 2]}),
        ([["=", [], {}]], {"a": {"b": 1}, "list": [1, 2]}),
        ([["-", ["list", 0]], ["+", ["list", 0], 7], ["=", ["a", "b"], 2]], {"a": {"b": 2}, "list": [7, 2]}),
    ],
)
def test_what_finds_no_place_is_left_out_and_what_does_is_put_there(written: Any, expected: Any) -> None:
    assert apply({"a": {"b": 1}, "list": [1, 2]}, written) == expected
