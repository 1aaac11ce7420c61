"""The value model: what is storable, what is refused, and how the refusal speaks."""

import enum
import math
from collections import OrderedDict
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, TooDeep, TooLarge
from perdure.core.session.codec import encode
from perdure.core.session.values import (
    DEFAULT_LIMITS,
    DURATION_MAX,
    UNSURE,
    Limits,
    Ref,
    check,
    clone,
    exact,
    locate,
    path_text,
    same,
    survey,
)
from tests.core.session.plain_values import NAIVE, boxes_of, elements, leaves, sets, similar, values


class Color(str, enum.Enum):  # noqa: UP042 - the older spelling is the one that hides a str
    RED = "red"


class Name(str):
    __slots__ = ()


class Level(enum.IntEnum):
    HIGH = 1


refused: list[Any] = [
    (math.nan, "NaN is not storable; use null or a string"),
    (math.inf, "an infinity is not storable"),
    (-math.inf, "an infinity is not storable"),
    (2**64, "outside"),
    (-(2**63) - 1, "outside"),
    ("\ud800", "lone surrogate"),
    (Color.RED, "exactly str"),
    (Name("x"), "exactly str"),
    (Level.HIGH, "exactly int"),
    (OrderedDict(), "exactly dict"),
    (NAIVE, "without a time zone"),
    (datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2))), "not in UTC"),
    (DURATION_MAX + timedelta(microseconds=1), "int64 microseconds"),
    (bytearray(b"x"), "pass bytes"),
    (object(), "not plain data"),
    (1j, "not plain data"),
]


@given(values)
def test_a_value_passes(value: Any) -> None:
    check(value)
    assert survey(value) != UNSURE
    locate(value)


@pytest.mark.parametrize(("bad", "message"), refused)
def test_what_is_not_storable_is_refused_with_its_path(bad: Any, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        check({"vars": {"items": [0, 1, 2, {"price": bad}]}})
    assert caught.value.message.startswith("at vars.items[3].price: ")
    assert message in caught.value.message
    assert caught.value.path == ("vars", "items", 3, "price")
    with pytest.raises(Invalid, match="at the top: "):
        check(bad)


@given(st.recursive(leaves | sets | st.sampled_from([bad for bad, _ in refused]), boxes_of, max_leaves=8))
def test_the_fast_pass_never_approves_what_the_definition_refuses(value: Any) -> None:
    try:
        locate(value)
        storable = True
    except Invalid:
        storable = False
    try:
        check(value)
        assert storable
    except Invalid:
        assert not storable


@pytest.mark.parametrize("key", [1, None, b"a", Color.RED, Name("x"), ("a",), True])
def test_a_key_that_is_not_exactly_text_is_refused(key: Any) -> None:
    with pytest.raises(Invalid, match="keys are exact str"):
        check({"a": {key: 1}})


def test_a_key_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(Invalid, match="lone surrogate"):
        check({"\udfff": 1})


@pytest.mark.parametrize(
    ("key", "fits"), [("k" * 1024, True), ("k" * 1025, False), ("é" * 512, True), ("é" * 513, False)]
)
def test_a_key_is_measured_in_bytes(key: str, fits: bool) -> None:
    if fits:
        check({key: 1})
        return
    with pytest.raises(TooLarge) as caught:
        check({key: 1})
    assert caught.value.limit == 1024


def nested(levels: int, wrap: Any = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [lambda x: [x], lambda x: {"k": x}, lambda x: (x,), lambda x: frozenset([x])],
    ids=["list", "dict", "tuple", "set"],
)
def test_depth_is_limited_exactly(wrap: Any) -> None:
    check(nested(64, wrap))
    with pytest.raises(TooDeep) as caught:
        check(nested(65, wrap))
    assert caught.value.limit == 64
    check(nested(3, wrap), Limits(max_depth=3))
    with pytest.raises(TooDeep):
        check(nested(4, wrap), Limits(max_depth=3))


def test_something_that_holds_itself_is_too_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TooDeep):
        check(loop)


def test_something_that_holds_itself_often_ends_at_the_item_limit() -> None:
    loop: dict[str, Any] = {}
    loop.update(a=loop, b=loop, c=loop)
    with pytest.raises((TooDeep, TooLarge)):
        check(loop, Limits(max_items=10_000))


@pytest.mark.parametrize("value", [[0] * 9, {str(i): i for i in range(9)}, [[0] * 4, [0] * 3], set(range(9))])
def test_items_are_limited_exactly(value: Any) -> None:
    check(value, Limits(max_items=10))
    with pytest.raises(TooLarge) as caught:
        check(value, Limits(max_items=9))
    assert caught.value.limit == 9


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("UTC"), timezone(timedelta(0), "zulu")])
def test_any_spelling_of_utc_is_utc(zone: Any) -> None:
    moment = datetime(2024, 1, 1, tzinfo=zone)
    check(moment)
    assert encode(moment) == encode(datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("uri", "digest"), [("", bytes(32)), ("x", bytes(31)), ("x", "0" * 32), ("\ud800", bytes(32)), (1, bytes(32))]
)
def test_a_ref_is_whole_or_not_at_all(uri: Any, digest: Any) -> None:
    with pytest.raises(Invalid):
        Ref(uri=uri, sha256=digest)


def test_a_message_never_repeats_the_data() -> None:
    with pytest.raises(Invalid) as caught:
        check({"password": Name("hunter2")})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "the top"),
        (("vars", "items", 3, "price"), "vars.items[3].price"),
        (("unit price",), "['unit price']"),
        ((0, "a", ""), "[0].a['']"),
    ],
)
def test_a_path_reads_like_code(path: Any, text: str) -> None:
    assert path_text(path) == text


@given(values, values)
def test_same_means_the_same_bytes(a: Any, b: Any) -> None:
    assert same(a, b) == (encode(a) == encode(b))
    assert same(a, clone(a))


@given(similar, similar)
def test_same_means_the_same_bytes_also_for_look_alikes(a: Any, b: Any) -> None:
    assert same(a, b) == (encode(a) == encode(b))


@pytest.mark.parametrize(
    ("a", "b"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ({1}, {True}), ([1], [True]), (b"", "")]
)
def test_look_alikes_are_not_the_same(a: Any, b: Any) -> None:
    assert not same(a, b)
    assert not same({"k": [a]}, {"k": [b]})


@pytest.mark.parametrize(("a", "b"), [([1], (1,)), ({1, 2}, frozenset({2, 1})), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_one_kind_is_the_same_in_either_type(a: Any, b: Any) -> None:
    assert same(a, b)


@given(elements, elements)
def test_exact_stands_for_an_element(a: Any, b: Any) -> None:
    assert (exact(a) == exact(b)) == (encode(a) == encode(b))


@given(values)
def test_changing_a_clone_leaves_the_original(value: Any) -> None:
    before = encode(value)
    copy = clone(value)
    stack = [copy]
    while stack:
        box = stack.pop()
        if isinstance(box, dict):
            stack += box.values()
            box.clear()
        elif isinstance(box, list):
            stack += box
            box.clear()
    assert encode(value) == before


def test_the_limits_are_the_documented_ones() -> None:
    assert Limits(max_bytes=16 * 2**20, max_depth=64, max_items=1_000_000, max_key=1024) == DEFAULT_LIMITS
