"""Requests: every refusal, what a memory becomes, and which memories a search may find."""

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from perdure.core.errors import Invalid, TooLarge
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import CLOCKS, Memory, MemoryType, Source, Status
from perdure.core.memory.requests import (
    CHOICES,
    MAX_CONTENT,
    MAX_METADATA,
    MAX_NAME,
    MAX_NAMES,
    MAX_QUERY,
    MAX_TOP,
    Changing,
    Keeping,
    Seeking,
    kept,
    must_change,
    must_keep,
    must_seek,
    sought,
)

NOW = 20_000 * DAY
HALF = "\ud800"
DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"a": DEEP}

BAD: list[tuple[dict[str, Any], type[Invalid]]] = [
    ({"content": ""}, Invalid),
    ({"content": " \n\t "}, Invalid),
    ({"content": HALF}, Invalid),
    ({"content": "x" * (MAX_CONTENT + 1)}, TooLarge),
    ({"importance": -0.1}, Invalid),
    ({"importance": 1.1}, Invalid),
    ({"importance": float("nan")}, Invalid),
    ({"importance": float("inf")}, Invalid),
    ({"metadata": {"a": object()}}, Invalid),
    ({"metadata": {"a": float("nan")}}, Invalid),
    ({"metadata": {"a": 2**70}}, Invalid),
    ({"metadata": {"a": HALF}}, Invalid),
    ({"metadata": {1: "a"}}, Invalid),
    ({"metadata": DEEP}, Invalid),
    ({"metadata": {"a": "x" * MAX_METADATA}}, TooLarge),
    ({"valid_from": 2, "valid_to": 2}, Invalid),
    ({"valid_from": 2, "valid_to": 1}, Invalid),
    ({"valid_from": 2**63}, Invalid),
    ({"valid_to": -(2**63)}, Invalid),
    ({"subjects": ("x" * (MAX_NAME + 1),)}, TooLarge),
    ({"subjects": ("x",) * (MAX_NAMES + 1)}, TooLarge),
    ({"subjects": (HALF,)}, Invalid),
]
KEEP_ALONE: list[tuple[dict[str, Any], type[Invalid]]] = [
    ({"author": "x" * (MAX_NAME + 1)}, TooLarge),
    ({"author": HALF}, Invalid),
    ({"thread": "x" * (MAX_NAME + 1)}, TooLarge),
    ({"supersedes": ("x",) * (MAX_NAMES + 1)}, TooLarge),
    ({"source": Source(uri=HALF)}, Invalid),
    ({"source": Source(session="x" * (MAX_NAME + 1))}, TooLarge),
    ({"source": Source(version=2**70)}, Invalid),
]


@pytest.mark.parametrize(("fields", "error"), [*BAD, *KEEP_ALONE])
def test_what_is_no_memory_is_refused(fields: dict[str, Any], error: type[Invalid]) -> None:
    with pytest.raises(error):
        must_keep(Keeping(**{"content": "tea"} | fields))


@pytest.mark.parametrize(("fields", "error"), [*BAD, ({}, Invalid), ({"reason": "why"}, Invalid)])
def test_what_would_make_no_memory_of_it_is_refused(fields: dict[str, Any], error: type[Invalid]) -> None:
    with pytest.raises(error):
        must_change(Changing(**fields))


@pytest.mark.parametrize(
    ("fields", "error"),
    [({"query": ""}, Invalid), ({"query": " "}, Invalid), ({"query": HALF}, Invalid),
     ({"query": "x" * (MAX_QUERY + 1)}, TooLarge), ({"top_k": 0}, Invalid), ({"top_k": -1}, Invalid),
     ({"top_k": MAX_TOP + 1}, Invalid), ({"min_importance": 2.0}, Invalid), ({"min_importance": float("nan")}, Invalid),
     ({"metadata": {"a": object()}}, Invalid), ({"at": 2**63}, Invalid), ({"known_at": -(2**63)}, Invalid)],
)  # fmt: skip
def test_what_is_no_search_is_refused(fields: dict[str, Any], error: type[Invalid]) -> None:
    with pytest.raises(error):
        must_seek(Seeking(**{"query": "tea"} | fields))


def test_everything_at_its_limit_is_taken() -> None:
    names = ("x" * MAX_NAME,) * MAX_NAMES
    must_keep(
        Keeping(content="x" * MAX_CONTENT, importance=1, metadata={"a": "x" * (MAX_METADATA - 8)}, subjects=names)
    )
    must_change(Changing(importance=0.0))
    must_seek(Seeking(query="x" * MAX_QUERY, top_k=MAX_TOP, min_importance=0.0))


@pytest.mark.parametrize("wrong", [{"contents": "tea"}, {"content": 1}, {"content": "a", "memory_type": "dream"}])
def test_requests_of_another_shape_are_not_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Keeping)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Keeping, {"content": "tea", "memory_type": "dream"}),
        (Keeping, {"content": "tea", "trust": "dream"}),
        (Source, {"kind": "dream"}),
        (Changing, {"memory_type": "dream"}),
        (Seeking, {"query": "tea", "type_filter": ["dream"]}),
        (Seeking, {"query": "tea", "statuses": ["dream"]}),
    ],
)
def test_a_field_that_is_a_choice_takes_what_is_told_and_nothing_else(kind: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'dream'"):
        msgspec.convert(fields, kind)
    name, wrong = list(fields.items())[-1]
    for choice in CHOICES[name]:
        msgspec.convert({**fields, name: [choice] if isinstance(wrong, list) else choice}, kind)


def test_a_memory_is_trusted_as_its_source_or_less_but_never_more() -> None:
    def trust(kind: Any, asked: Any) -> str:
        one = Keeping(content="tea", source=Source(kind=kind), trust=asked)
        return kept(one, "m", agent="ana", writer="w").trust

    assert [trust("user", asked) for asked in (None, "low", "medium", "high")] == ["high", "low", "medium", "high"]
    assert [trust("tool", asked) for asked in (None, "low", "medium", "high")] == ["low"] * 4


def test_what_is_kept_says_all_that_was_given() -> None:
    source = Source(kind="user", session="s", version=7, checkpoint="c", uri="u")
    one = Keeping(content=" tea ", memory_type=MemoryType.PREFERENCE, importance=1, source=source, supersedes=("old",))
    made = kept(one, "m", agent="ana", writer="w", flags=("orders",))
    assert (made.content, made.type, made.importance, made.thread) == ("tea", "preference", 1.0, "s")
    assert (made.source, made.session, made.version, made.checkpoint, made.uri) == ("user", "s", 7, "c", "u")
    assert (made.agent, made.writer, made.flags, made.supersedes) == ("ana", "w", ("orders",), ("old",))


def memory(**fields: Any) -> Memory:
    return Memory(**{"id": "m", "type": MemoryType.FACT, "content": "tea", "recorded_at": NOW - 10} | fields)


def fits(one: Memory, **asked: Any) -> bool:
    return sought(Seeking(query="tea", **asked), NOW)(one)


def test_only_live_memories_are_found_unless_others_are_asked_for() -> None:
    for status in Status:
        assert fits(memory(status=status)) is (status is Status.LIVE)
        assert fits(memory(status=status), statuses=(status,))


def test_what_has_ended_is_not_found_and_what_is_to_end_is() -> None:
    assert not fits(memory(valid_to=NOW))
    assert fits(memory(valid_to=NOW + 1))


def test_what_was_true_at_a_time_is_found_though_it_is_superseded_by_now() -> None:
    old = memory(status=Status.SUPERSEDED, recorded_at=100, valid_to=200, superseded_at=200)
    new = memory(recorded_at=200)
    assert [fits(old, at=at) for at in (99, 100, 199, 200)] == [False, True, True, False]
    assert [fits(new, at=at) for at in (199, 200, NOW)] == [False, True, True]
    assert not fits(old)


def test_what_was_known_at_a_time_does_not_know_what_was_learned_later() -> None:
    """Written at 100, at 300 somebody learns that it was over since 150."""
    old = memory(status=Status.SUPERSEDED, recorded_at=100, valid_to=150, superseded_at=300)
    new = memory(recorded_at=300, valid_from=150)
    assert [fits(old, known_at=at) for at in (99, 100, 200, 299, 300)] == [False, True, True, True, False]
    assert [fits(new, known_at=at) for at in (299, 300)] == [False, True]
    assert [fits(old, known_at=200, at=at) for at in (120, 180)] == [True, True]
    assert [fits(old, known_at=400, at=at) for at in (120, 180)] == [True, False]
    assert [fits(new, known_at=400, at=at) for at in (120, 180)] == [False, True]


def test_types_sessions_and_importance_narrow_it_down() -> None:
    one = memory(source=Source(session="s"), importance=0.5, recorded_at=NOW)
    assert fits(one, type_filter=(MemoryType.FACT, MemoryType.EPISODE))
    assert not fits(one, type_filter=(MemoryType.EPISODE,))
    assert fits(one, sessions=("s", "t"))
    assert not fits(one, sessions=("t",))
    assert fits(one, min_importance=0.5)
    assert not fits(one, min_importance=0.51)


@pytest.mark.parametrize(
    ("has", "wanted", "same"),
    [("ETH", "eth", True), ("ETH", "BTC", False), (1, 1, True), (1, 2, False), (1, True, False), (True, True, True),
     (["ETH", "USDC"], "usdc", True), (["ETH"], ["BTC", "eth"], True), (["ETH"], ["BTC"], False), ([], "eth", False),
     (None, None, True), (1, "1", False), ({"a": 1}, {"a": 1}, True)],
)  # fmt: skip
def test_metadata_matches_field_by_field(has: Any, wanted: Any, same: bool) -> None:
    assert fits(memory(metadata={"a": has}), metadata={"a": wanted}) is same
    assert not fits(memory(metadata={"a": has, "b": 1}), metadata={"a": wanted, "b": 2})


def test_a_field_that_is_not_there_matches_nothing_but_none() -> None:
    assert not fits(memory(), metadata={"a": 1})


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(metadata=st.dictionaries(st.text(max_size=9), plain, max_size=4))
def test_metadata_is_taken_or_refused_and_nothing_else_happens(metadata: dict[str, Any]) -> None:
    try:
        must_keep(Keeping(content="tea", metadata=metadata))
    except Invalid:
        return
    assert fits(memory(metadata=metadata), metadata={name: value for name, value in metadata.items() if value != []})


def test_what_was_archived_is_found_at_a_time_when_it_was_true() -> None:
    put_away = memory(status=Status.ARCHIVED, recorded_at=100, valid_to=300)
    assert not fits(put_away)
    assert [fits(put_away, at=at) for at in (99, 100, 299, 300)] == [False, True, True, False]
    assert [fits(put_away, known_at=at) for at in (99, 100, 299, 300)] == [False, True, True, False]
    for status in (Status.QUARANTINED, Status.WITHDRAWN):
        assert not fits(memory(status=status, recorded_at=100), at=200)


LATER = NOW + DAY
NARROWED: tuple[dict[str, Any], ...] = ({}, {"type_filter": (MemoryType.FACT,)})
"""The short way that most searches take, and the long one."""


@pytest.mark.parametrize("narrowed", NARROWED)
def test_what_is_not_so_yet_is_not_found_until_then(narrowed: dict[str, Any]) -> None:
    plan = memory(valid_from=LATER)
    assert not fits(plan, **narrowed)
    assert [fits(plan, at=at, **narrowed) for at in (LATER - 1, LATER)] == [False, True]
    assert not fits(plan, known_at=NOW, **narrowed)


@pytest.mark.parametrize("narrowed", NARROWED)
def test_what_gives_way_later_is_found_until_then(narrowed: dict[str, Any]) -> None:
    old = memory(status=Status.SUPERSEDED, superseded_by="n", superseded_at=NOW - 5, valid_to=LATER)
    new = memory(id="n", recorded_at=NOW - 5, valid_from=LATER)
    assert (fits(old, **narrowed), fits(new, **narrowed)) == (True, False)
    for now in (NOW, LATER - CLOCKS - 1, LATER - CLOCKS, LATER - 1, LATER):
        seek = sought(Seeking(query="tea", **narrowed), now)
        assert seek(old) is not seek(new), "always one of them"
    assert [fits(old, at=at, **narrowed) for at in (LATER - 1, LATER)] == [True, False]
    assert not fits(old, statuses=(Status.ARCHIVED,), **narrowed)
    assert fits(old, statuses=(Status.SUPERSEDED,), **narrowed)


@pytest.mark.parametrize("narrowed", NARROWED)
def test_what_a_node_kept_whose_clock_is_ahead_is_found_and_what_gave_way_to_it_is_not(
    narrowed: dict[str, Any],
) -> None:
    for ahead in (1, CLOCKS, DAY):
        assert fits(memory(recorded_at=NOW + ahead), **narrowed)
        assert fits(memory(recorded_at=NOW + ahead, valid_from=NOW + ahead), **narrowed)
        gone = memory(status=Status.SUPERSEDED, superseded_at=NOW + ahead, valid_to=NOW + ahead)
        assert not fits(gone, **narrowed)
    assert fits(memory(valid_from=NOW + CLOCKS), **narrowed)


def test_an_end_of_its_own_was_known_before_another_took_its_place() -> None:
    """Written at 100 with an end at 150; superseded at 300."""
    old = memory(status=Status.SUPERSEDED, recorded_at=100, valid_to=150, superseded_at=300)

    def found(known_at: int, at: int, own: int | None) -> bool:
        return sought(Seeking(query="tea", known_at=known_at, at=at), NOW, {"m": own})(old)

    assert [found(200, at, 150) for at in (120, 149, 150, 180)] == [True, True, False, False]
    assert [found(200, at, 400) for at in (180, 399, 400)] == [True, True, False]
    assert [found(200, at, None) for at in (180, 400)] == [True, True]
    assert [found(300, at, 400) for at in (149, 150)] == [True, False]


def test_what_had_ended_before_it_was_kept_is_found_before_its_end() -> None:
    over = memory(recorded_at=NOW - 10, valid_to=NOW - DAY)
    assert not fits(over)
    assert [fits(over, at=at) for at in (0, NOW - DAY - 1, NOW - DAY, NOW - 10)] == [True, True, False, False]
    assert not fits(over, at=0, known_at=NOW - 11), "it was not kept yet"
