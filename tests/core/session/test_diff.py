"""Structural diff: there and back, small where little changed, and never touching what it was given."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, TooDeep
from perdure.core.session.codec import decode, decoder, encode, encode_struct
from perdure.core.session.diff import (
    Add,
    Patch,
    Remove,
    Replace,
    apply,
    diff,
    from_document,
    invert,
    size,
    to_document,
)
from perdure.core.session.values import same
from tests.core.session.plain_values import similar, values

pairs = st.tuples(similar, similar) | st.tuples(values, values)
paths = st.lists(st.sampled_from(["a", "b", "c", 0, 1, -1, 7]), max_size=3).map(tuple)
ops = (
    st.builds(Add, path=paths, value=similar)
    | st.builds(Remove, path=paths, old=similar)
    | st.builds(Replace, path=paths, old=similar, new=similar)
)
patches = st.lists(ops, max_size=4).map(tuple)


@given(pairs)
def test_applying_a_diff_gives_the_other_value(pair: tuple[Any, Any]) -> None:
    a, b = pair
    assert same(apply(a, diff(a, b)), b)


@given(pairs)
def test_a_diff_can_be_undone(pair: tuple[Any, Any]) -> None:
    a, b = pair
    assert same(apply(b, invert(diff(a, b))), a)


@given(values)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert diff(value, value) == ()
    assert diff(value, copy.deepcopy(value)) == ()
    assert diff(decode(encode(value)), value) == ()


@given(pairs)
def test_a_diff_is_empty_only_between_the_same(pair: tuple[Any, Any]) -> None:
    a, b = pair
    assert (diff(a, b) == ()) == same(a, b)


@given(pairs)
def test_nothing_given_is_changed(pair: tuple[Any, Any]) -> None:
    a, b = pair
    before = encode([a, b])
    patch = diff(a, b)
    written = encode(to_document(patch))
    apply(a, patch)
    invert(patch)
    assert encode([a, b]) == before
    assert encode(to_document(patch)) == written


@given(pairs)
def test_order_of_insertion_leaves_no_trace_in_a_diff(pair: tuple[Any, Any]) -> None:
    a, b = pair
    again = (decode(encode(a)), decode(encode(b)))
    assert same(to_document(diff(a, b)), to_document(diff(*again)))


@given(pairs)
def test_a_patch_survives_as_plain_data(pair: tuple[Any, Any]) -> None:
    a, b = pair
    patch = diff(a, b)
    document = to_document(patch)
    assert size(patch) == len(encode(document))
    read = from_document(decode(encode(document)))
    assert same(to_document(read), document)
    assert same(apply(a, read), b)


@given(pairs)
def test_a_patch_in_a_struct_is_written_like_its_document(pair: tuple[Any, Any]) -> None:
    for op, document in zip(patch := diff(*pair), to_document(patch), strict=True):
        assert encode_struct(op) == encode(document)
        read = decoder(Add | Remove | Replace)(encode(document))
        assert same(to_document((read,)), [document])


@given(similar, patches)
def test_a_patch_fits_or_is_refused_with_its_path(value: Any, patch: Patch) -> None:
    before = encode(value)
    refused = None
    try:
        found = apply(value, patch)
        assert same(apply(found, invert(patch)), value)
    except Invalid as error:
        refused = error
    assert refused is None or refused.path in {op.path for op in patch}
    assert encode(value) == before


@pytest.mark.parametrize(
    ("value", "op"),
    [
        ({"a": 1}, Add(("a",), 2)),
        ({"a": 1}, Replace(("a",), 2, 3)),
        ({"a": 1}, Replace(("a",), True, 3)),
        ({"a": 1}, Replace(("a",), 1.0, 3)),
        ({"a": 1}, Remove(("a",), 2)),
        ({"a": 1}, Remove(("b",), 1)),
        ({"a": 1}, Remove((0,), 1)),
        ({"a": 1}, Add(("a", "b"), 1)),
        ({"a": {1}}, Add(("a", 0), 2)),
        ([1], Add((2,), 1)),
        ([1], Add((-1,), 1)),
        ([1], Remove((-1,), 1)),
        ([1], Remove((1,), 1)),
        ([1], Add(("0",), 1)),
        ("text", Add((0,), "t")),
        (1, Replace((), 2, 3)),
        (1, Remove((), 1)),
        (1, Add((), 1)),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, op: Any) -> None:
    with pytest.raises(Invalid, match="does not fit"):
        apply(value, (op,))


def test_operations_are_the_few_that_one_would_write() -> None:
    before = {"name": "x", "list": [1, 2, 3, 4], "gone": 1, "deep": {"a": {"b": 1, "c": 2}}}
    after = {"name": "y", "list": [1, 3, 4], "deep": {"a": {"b": 1, "c": True}}, "new": None}
    assert diff(before, after) == (
        Replace(("deep", "a", "c"), 2, True),
        Remove(("gone",), 1),
        Remove(("list", 1), 2),
        Replace(("name",), "x", "y"),
        Add(("new",), None),
    )


@pytest.mark.parametrize("at", [0, 500, 1000])
def test_inserting_in_a_long_list_costs_what_is_inserted(at: int) -> None:
    before = [{"id": i, "text": "x" * 50} for i in range(1000)]
    after = [*before[:at], {"id": -1}, {"id": -2}, *before[at:]]
    patch = diff(before, copy.deepcopy(after))
    assert patch == (Add((at,), {"id": -1}), Add((at + 1,), {"id": -2}))
    assert size(patch) < 40
    back = diff(after, before)
    assert [op.path for op in back] == [(at + 1,), (at,)]


def test_a_set_is_replaced_whole() -> None:
    assert diff({"s": {1, 2}}, {"s": frozenset({1})}) == (Replace(("s",), {1, 2}, frozenset({1})),)
    assert diff({"s": {1}}, {"s": {True}}) == (Replace(("s",), {1}, {True}),)


def test_what_two_documents_share_is_not_looked_into() -> None:
    class Untouchable(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError

        keys = __eq__ = __iter__ = items  # type: ignore[assignment]
        __hash__ = None  # type: ignore[assignment]

    shared = Untouchable(a=1)
    assert diff({"big": shared, "n": 1}, {"big": shared, "n": 2}) == (Replace(("n",), 1, 2),)


def test_a_written_patch_shares_nothing_with_the_values() -> None:
    after: dict[str, Any] = {"list": [1]}
    document = to_document(diff({}, after))
    after["list"].append(2)
    assert document == [["+", ["list"], [1]]]


def test_changing_a_result_leaves_the_input() -> None:
    before = {"a": {"b": [1]}, "c": {"d": 1}}
    after = apply(before, (Add(("a", "b", 1), 2),))
    after["a"]["b"].append(3)
    assert before == {"a": {"b": [1]}, "c": {"d": 1}}
    assert after["c"] is before["c"]


@pytest.mark.parametrize("document", [1, [1], [["?", [], 1]], [["+", [1.5], 1]], [["+", []]], [["+", [True], 1]], {}])
def test_what_is_no_patch_is_refused(document: Any) -> None:
    with pytest.raises(Invalid, match="not a patch"):
        from_document(document)


@pytest.mark.parametrize("unchecked", [{1: 2}, {1: 2, "a": 3}, {"a": 3, None: 1}])
def test_a_key_that_is_not_text_is_never_taken_for_a_position(unchecked: Any) -> None:
    for pair in (({}, unchecked), (unchecked, {}), ({"x": {}}, {"x": unchecked})):
        with pytest.raises(Invalid, match="not exactly str"):
            diff(*pair)


def test_unchecked_depths_are_refused() -> None:
    a: Any = 1
    b: Any = 2
    for _ in range(3_000):
        a, b = {"k": a}, {"k": b}
    with pytest.raises(TooDeep):
        diff(a, b)
    with pytest.raises(TooDeep):
        to_document((Add((), b),))
