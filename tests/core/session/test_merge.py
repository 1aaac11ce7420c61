"""Three-way merge: both changes arrive, conflicts are found, and swapping the sides changes nothing that matters."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, MergeConflict, TooDeep
from perdure.core.session.codec import decoder, encode, encode_struct
from perdure.core.session.diff import diff
from perdure.core.session.merge import (
    ABSENT,
    Conflict,
    Escalate,
    LastWriterWins,
    Merged,
    Policy,
    Priority,
    Use,
    merge,
    resolve,
)
from perdure.core.session.values import same
from tests.core.session.plain_values import similar_documents, values

documents = similar_documents
policies: st.SearchStrategy[Policy] = st.sampled_from(
    [LastWriterWins(1, 2), LastWriterWins(2, 1), LastWriterWins(1, 1), Priority("ours"), Priority("theirs"), Escalate()]
)


@given(values, policies)
def test_merging_a_value_with_itself_changes_nothing(x: Any, policy: Policy) -> None:
    merged = merge(x, x, x, policy)
    assert same(merged.final(), x)


@given(documents, documents, policies)
def test_a_side_that_changed_nothing_yields(base: Any, changed: Any, policy: Policy) -> None:
    for merged in (merge(base, changed, base, policy), merge(base, base, changed, policy)):
        assert same(merged.value, changed)
        assert merged.conflicts == merged.overridden == ()


@given(documents, documents, policies)
def test_the_same_change_on_both_sides_is_one_change(base: Any, x: Any, policy: Policy) -> None:
    merged = merge(base, x, x, policy)
    assert same(merged.value, x)
    assert merged.conflicts == merged.overridden == ()


def mirrored(conflict: Conflict) -> Conflict:
    return Conflict(path=conflict.path, base=conflict.base, ours=conflict.theirs, theirs=conflict.ours)


def appended(base: Any, ours: Any, theirs: Any) -> bool:
    """Whether both sides appended to some list: the one case in which the order of the sides shows."""
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return not same(ours, theirs)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        before = base if isinstance(base, dict) else {}
        return any(appended(before.get(key), ours[key], theirs[key]) for key in ours.keys() & theirs.keys())
    return False


@given(documents, documents, documents, st.sampled_from([(1, 2), (2, 1), (3, 3)]))
def test_swapping_the_sides_changes_nothing(base: Any, ours: Any, theirs: Any, at: tuple[int, int]) -> None:
    if appended(base, ours, theirs):
        return
    latest = merge(base, ours, theirs, LastWriterWins(*at))
    swapped = merge(base, theirs, ours, LastWriterWins(at[1], at[0]))
    assert same(latest.value, swapped.value)
    one, other = merge(base, ours, theirs, Escalate()), merge(base, theirs, ours, Escalate())
    assert same(one.value, other.value)
    assert [encode_struct(conflict) for conflict in one.conflicts] == [
        encode_struct(mirrored(conflict)) for conflict in other.conflicts
    ]


@given(documents, documents, documents)
def test_without_conflicts_both_changes_arrive(base: Any, ours: Any, theirs: Any) -> None:
    merged = merge(base, ours, theirs, Escalate())
    if merged.conflicts:
        return
    for side in (ours, theirs):
        for key in base.keys() | side.keys():
            value, was, now = (doc.get(key, ABSENT) for doc in (side, base, merged.value))
            scalar = not isinstance(value, dict | list | tuple | frozenset)
            if scalar and (value is ABSENT) != (was is ABSENT):
                assert (now is ABSENT) == (value is ABSENT)
            elif scalar and value is not ABSENT and not same(value, was):
                assert same(now, value)


@given(documents, documents, documents)
def test_policies_differ_only_where_there_is_a_conflict(base: Any, ours: Any, theirs: Any) -> None:
    escalated = merge(base, ours, theirs, Escalate())
    for policy in (Priority("ours"), Priority("theirs"), LastWriterWins(1, 2)):
        merged = merge(base, ours, theirs, policy)
        assert [c.path for c in merged.overridden] == [c.path for c in escalated.conflicts]
        assert merged.conflicts == ()
        places = {c.path for c in escalated.conflicts}
        for op in diff(escalated.value, merged.value):
            assert any(op.path[: len(place)] == place for place in places)


@given(documents, documents, documents)
def test_choosing_a_side_everywhere_is_giving_it_priority(base: Any, ours: Any, theirs: Any) -> None:
    escalated = merge(base, ours, theirs, Escalate())
    for side in ("ours", "theirs"):
        resolved = resolve(escalated, {conflict.path: side for conflict in escalated.conflicts})
        assert same(resolved.final(), merge(base, ours, theirs, Priority(side)).final())


@given(documents, documents, documents, policies)
def test_merging_changes_nothing_given(base: Any, ours: Any, theirs: Any, policy: Policy) -> None:
    before = encode([base, ours, theirs])
    merged = merge(base, ours, theirs, policy)
    resolve(merged, {conflict.path: Use(0) for conflict in merged.conflicts})
    assert encode([base, ours, theirs]) == before


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        ({}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"b": 2}, {"a": 1}, {}),
        ({"m": {"x": 1, "y": 1}}, {"m": {"x": 2, "y": 1}}, {"m": {"x": 1, "y": 2}}, {"m": {"x": 2, "y": 2}}),
        ({}, {"m": {"x": 1}}, {"m": {"y": 2}}, {"m": {"x": 1, "y": 2}}),
        ({"s": {1, 2, 3}}, {"s": {1, 2, 4}}, {"s": {2, 3, 5}}, {"s": {2, 4, 5}}),
        ({}, {"s": {1}}, {"s": {2}}, {"s": {1, 2}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": (1, 3)}, {"l": [1, 2, 3]}),
        ({"l": []}, {"l": [2]}, {"l": [3]}, {"l": [2, 3]}),
        ({"l": [1, 2]}, {"l": [2]}, {"l": [1, 2]}, {"l": [2]}),
        ({"a": None}, {}, {"a": None}, {}),
        ({}, {"a": None}, {}, {"a": None}),
    ],
)
def test_changes_apart_from_each_other_merge(base: Any, ours: Any, theirs: Any, expected: Any) -> None:
    assert same(merge(base, ours, theirs, Escalate()).final(), expected)


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (1, 2, 3),
        (1, 1.0, True),
        (None, 1, ABSENT),
        (ABSENT, 1, 2),
        (ABSENT, [1], [2]),
        ([1, 2], [1], [1, 2, 3]),
        ([1], [2], [3]),
        ({"x": 1}, {"x": 2}, ABSENT),
        (1, {"x": 1}, {"y": 1}),
        (frozenset(), {1}, {True}),
        ([], [1], {1}),
    ],
)
def test_changes_against_each_other_conflict(base: Any, ours: Any, theirs: Any) -> None:
    sides = [{"k": {"v": side} if side is not ABSENT else {}, "other": 1} for side in (base, ours, theirs)]
    merged = merge(sides[0], sides[1], sides[2], Escalate())
    (conflict,) = merged.conflicts
    assert conflict.path == ("k", "v")
    assert (conflict.base, conflict.ours, conflict.theirs) == (base, ours, theirs)
    assert same(merged.value, sides[0])
    with pytest.raises(MergeConflict) as caught:
        merged.final()
    assert caught.value.paths == ["k.v"]
    for choice, side in (("ours", 1), ("theirs", 2), ("base", 0)):
        assert same(resolve(merged, {("k", "v"): choice}).final(), sides[side])  # type: ignore[dict-item]
    assert resolve(merged, {("k", "v"): Use("ours")}).final() == {"k": {"v": "ours"}, "other": 1}
    assert resolve(merged, {("k", "v"): Use(ABSENT)}).final() == {"k": {}, "other": 1}
    assert same(merge(sides[0], sides[1], sides[2], Priority("ours")).final(), sides[1])
    assert same(merge(sides[0], sides[1], sides[2], LastWriterWins(5, 6)).final(), sides[2])
    assert merge(sides[0], sides[1], sides[2], Priority("ours")).overridden == merged.conflicts


def test_a_tie_is_decided_by_the_bytes() -> None:
    for ours, theirs in (("a", "b"), ("b", "a")):
        assert merge("x", ours, theirs, LastWriterWins(7, 7)).final() == "b"
    assert merge({"k": 1}, {}, {"k": 2}, LastWriterWins(7, 7)).final() == {"k": 2}


def test_conflicts_can_be_settled_one_at_a_time() -> None:
    merged = merge({"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 3, "b": 3}, Escalate())
    half = resolve(merged, {("a",): "theirs"})
    assert [conflict.path for conflict in half.conflicts] == [("b",)]
    assert half.value == {"a": 3, "b": 1}
    assert resolve(half, {("b",): Use([1])}).final() == {"a": 3, "b": [1]}
    with pytest.raises(Invalid, match="nothing waits"):
        resolve(half, {("a",): "ours"})


def test_a_conflict_can_be_settled_in_a_value_that_has_moved_on() -> None:
    conflict = Conflict(path=("a", "b"), base=1, ours=2, theirs=ABSENT)
    assert resolve(Merged({"x": 1}, (conflict,)), {("a", "b"): "ours"}).final() == {"x": 1, "a": {"b": 2}}
    assert resolve(Merged({"x": 1}, (conflict,)), {("a", "b"): "theirs"}).final() == {"x": 1}
    assert resolve(Merged({"a": {"c": 1}}, (conflict,)), {("a", "b"): "theirs"}).final() == {"a": {"c": 1}}
    for moved in ({"a": 7}, [], None):
        with pytest.raises(Invalid, match="no map any more"):
            resolve(Merged(moved, (conflict,)), {("a", "b"): "ours"})


def test_a_conflict_at_the_top_can_be_settled() -> None:
    merged = merge(1, 2, 3, Escalate())
    assert resolve(merged, {(): "theirs"}).final() == 3


@given(documents, documents, documents)
def test_a_merge_can_be_stored_and_settled_later(base: Any, ours: Any, theirs: Any) -> None:
    merged = merge(base, ours, theirs, Escalate())
    read = decoder(Merged)(encode_struct(merged))
    assert encode_struct(read) == encode_struct(merged)
    choices = {conflict.path: "theirs" for conflict in merged.conflicts}
    assert same(resolve(read, choices).value, resolve(merged, choices).value)


def test_policies_are_a_closed_union_that_can_be_stored() -> None:
    read = decoder(Policy)
    for policy in (LastWriterWins(1, 2), Priority("ours"), Escalate()):
        assert read(encode_struct(policy)) == policy
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "dice"}, Policy)


def test_unchecked_depths_are_refused() -> None:
    sides: list[Any] = [1, 2, 3]
    for _ in range(3_000):
        sides = [{"k": side} for side in sides]
    with pytest.raises(TooDeep):
        merge(sides[0], sides[1], sides[2], Escalate())
