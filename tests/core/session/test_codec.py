"""The codec: one encoding per value, nothing else is read, nothing is lost, no user data is taken for a marker."""

import contextlib
import enum
import json
import math
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, TooDeep, TooLarge
from perdure.core.session.codec import decode, decoder, encode, encode_struct, from_json, to_json
from perdure.core.session.values import Limits, Ref, Value, same
from tests.core.session.plain_values import NAIVE, keys, values

# ── the format, spelled out a second time ─────────────────────────────────────────────────────────


def head(small: int | None, wide: dict[int, int], size: int) -> bytes:
    """The shortest head for a length: inside one byte, or a code and 1, 2 or 4 bytes."""
    if small is not None and size < (32 if small == 0xA0 else 16):
        return bytes([small | size])
    width = next(width for width in sorted(wide) if size < 256**width)
    return bytes([wide[width]]) + size.to_bytes(width, "big")


def extension(code: int, data: bytes) -> bytes:
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
    if len(data) in fixed:
        return bytes([fixed[len(data)]]) + struct.pack(">b", code) + data
    return head(None, {1: 0xC7, 2: 0xC8, 4: 0xC9}, len(data)) + struct.pack(">b", code) + data


def integer(value: int) -> bytes:
    if -32 <= value <= 127:
        return struct.pack(">b", value)
    codes = zip((1, 2, 4, 8), (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3), strict=True)
    for width, code in codes:
        try:
            return bytes([code]) + value.to_bytes(width, "big", signed=value < 0)
        except OverflowError:
            continue
    raise AssertionError


def timestamp(value: datetime) -> bytes:
    micros = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    seconds, nanos = micros // 10**6, micros % 10**6 * 1000
    if 0 <= seconds < 2**32 and nanos == 0:
        return extension(-1, struct.pack(">I", seconds))
    if 0 <= seconds < 2**34:
        return extension(-1, struct.pack(">Q", nanos << 34 | seconds))
    return extension(-1, struct.pack(">Iq", nanos, seconds))


def reference(value: Any) -> bytes:
    """An encoder written from the rules alone."""
    match value:
        case None | False | True:
            return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
        case int():
            return integer(value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return head(0xA0, {1: 0xD9, 2: 0xDA, 4: 0xDB}, len(text)) + text
        case bytes():
            return head(None, {1: 0xC4, 2: 0xC5, 4: 0xC6}, len(value)) + value
        case datetime():
            return timestamp(value)
        case timedelta():
            return extension(1, struct.pack(">q", value // timedelta(microseconds=1)))
        case Ref():
            return extension(3, value.sha256 + value.uri.encode())
        case dict():
            pairs = sorted((key.encode(), key, item) for key, item in value.items())
            body = b"".join(reference(key) + reference(item) for _, key, item in pairs)
            return head(0x80, {2: 0xDE, 4: 0xDF}, len(value)) + body
        case set() | frozenset():
            return extension(2, head(0x90, {2: 0xDC, 4: 0xDD}, len(value)) + b"".join(sorted(map(reference, value))))
        case _:
            return head(0x90, {2: 0xDC, 4: 0xDD}, len(value)) + b"".join(map(reference, value))


@given(values)
@example([list(range(300)), "x" * 300, b"x" * 70_000, {str(i): i for i in range(20)}, set(range(40))])
@example({"é": 1, "z": 2, "\uffff": 3, "\U00010000": 4, "\ue000": 5})
@example(set(map(str, range(70_000))))
def test_the_encoding_is_what_the_rules_say(value: Any) -> None:
    assert encode(value) == reference(value)


GOLDEN: list[tuple[str, Any]] = [
    ("c0", None),
    ("c3", True),
    ("2a", 42),
    ("d0df", -33),
    ("cfffffffffffffffff", 2**64 - 1),
    ("d38000000000000000", -(2**63)),
    ("cb3ff0000000000000", 1.0),
    ("cb3fb999999999999a", 0.1),
    ("cb4341c37937e08000", 1e16),
    ("cb8000000000000000", -0.0),
    ("a3c3a97a", "éz"),
    ("c403000102", b"\x00\x01\x02"),
    ("d6ff65ba3780", datetime(2024, 1, 31, 12, 5, 20, tzinfo=UTC)),
    ("d7ff00000fa065ba3640", datetime(2024, 1, 31, 12, 0, 0, 1, tzinfo=UTC)),
    ("c70cff3b9ac618ffffffffffffffff", datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ("d70100000000004c4b40", timedelta(seconds=5)),
    ("d701ffffffffffffffff", timedelta(microseconds=-1)),
    ("c70d029301a161cb3ff8000000000000", {"a", 1, 1.5}),
    ("c72803" + bytes(range(32)).hex() + "73333a2f2f622f6b", Ref(uri="s3://b/k", sha256=bytes(range(32)))),
    (
        "85a1619201920280a17a01a2c3a9c0a3efbfbf01a4f090808002",
        {"z": 1, "a": [1, [2, {}]], "é": None, "\uffff": 1, "\U00010000": 2},
    ),
    (
        "83a4706169729301c3cb3ff0000000000000a474616773d40290a47768656ed6ff65ba3640",
        {"when": datetime(2024, 1, 31, 12, 0, tzinfo=UTC), "tags": frozenset(), "pair": (1, True, 1.0)},
    ),
]


@pytest.mark.parametrize(("data", "value"), GOLDEN)
def test_golden_vectors_hold(data: str, value: Any) -> None:
    assert encode(value).hex() == data
    assert same(decode(bytes.fromhex(data)), value)


# ── there and back ────────────────────────────────────────────────────────────────────────────────


@given(values)
def test_what_is_written_is_read(value: Any) -> None:
    assert same(decode(encode(value)), value)


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return [shuffled(item) for item in value] if isinstance(value, list | tuple) else value


@given(values)
def test_insertion_order_leaves_no_trace(value: Any) -> None:
    assert encode(shuffled(value)) == encode(value)
    assert to_json(shuffled(value)) == to_json(value)


def test_reading_gives_lists_and_frozensets() -> None:
    read = decode(encode({"pair": (1, 2), "tags": {("a", ("b",)), frozenset({1})}}))
    assert read == {"pair": [1, 2], "tags": frozenset({("a", ("b",)), frozenset({1})})}
    assert type(read["pair"]) is list
    assert type(read["tags"]) is frozenset


# ── what is not ours is refused ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "truncated"),
        ("9201", "truncated"),
        ("0102", "trailing"),
        ("c1", "opcode"),
        ("a1ff", "utf-8"),
        ("d4057f", "extension type 5"),
        ("82a16101a16102", "canonical"),  # a key twice
        ("82a16201a16101", "canonical"),  # keys out of order
        ("cc01", "canonical"),  # a long form of a small number
        ("d90161", "canonical"),  # a long form of a short text
        ("ca3f800000", "canonical"),  # a float in 32 bits
        ("cb7ff8000000000000", "NaN"),
        ("cb7ff0000000000000", "infinity"),
        ("8101c0", "keys are exact str"),
        ("81c40161c0", "keys are exact str"),
        ("8180c0", "decode"),  # a map as a key
        ("d4010a", "8 bytes"),
        ("d402c0", "array"),
        ("c703029202010a", "trailing"),
        ("c70302920201", "canonical"),  # a set out of order
        ("c70302920101", "twice"),
        ("c7020291" + "80", "a set holds a map"),
        ("c70303616263", "uri"),
        ("c72003" + "00" * 32, "uri"),
        ("c72103" + "00" * 32 + "ff", "utf-8"),
        ("d7ffffffffffffffffff", "nanoseconds"),
        ("d7ff00000004" + "00000000", "canonical"),  # a nanosecond
        ("ddffffffff", "truncated"),
        ("dfffffffff", "truncated"),
        ("c6ffffffff", "truncated"),
    ],
)
def test_foreign_bytes_are_refused_with_a_reason(data: str, why: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode(bytes.fromhex(data))
    assert why.lower() in str(caught.value).lower()


@given(st.binary(max_size=60))
def test_random_bytes_are_read_exactly_or_refused(data: bytes) -> None:
    try:
        value = decode(data)
    except Invalid:
        return
    assert encode(value) == data


@given(values, st.data())
def test_a_changed_byte_is_another_value_or_refused(value: Any, data: st.DataObject) -> None:
    raw = bytearray(encode(value))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = decode(bytes(raw))
    except Invalid:
        return
    assert not same(found, value)
    assert encode(found) == raw


@given(values, st.data())
def test_cut_bytes_are_refused(value: Any, data: st.DataObject) -> None:
    raw = encode(value)
    with pytest.raises(Invalid):
        decode(raw[: data.draw(st.integers(0, len(raw) - 1))])


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa0", b"\xdd\x00\x00\x00\x01"])
@pytest.mark.parametrize("levels", [65, 5_000, 200_000])
def test_deep_bytes_are_too_deep(opening: bytes, levels: int) -> None:
    with pytest.raises(Invalid) as caught:
        decode(opening * levels + b"\xc0")
    if levels == 65 and opening != b"\xdd\x00\x00\x00\x01":
        assert isinstance(caught.value, TooDeep)


def test_sets_nested_in_bytes_are_too_deep() -> None:
    data = b"\x01"
    for _ in range(2_000):
        inner = b"\x91" + data
        data = extension(2, inner)
    with pytest.raises(TooDeep):
        decode(data)


def test_size_is_limited_both_ways() -> None:
    tight = Limits(max_bytes=10)
    assert decode(encode("x" * 9, tight), tight) == "x" * 9
    with pytest.raises(TooLarge) as caught:
        encode("x" * 10, tight)
    assert (caught.value.size, caught.value.limit) == (11, 10)
    with pytest.raises(TooLarge):
        decode(encode("x" * 10), tight)
    with pytest.raises(TooLarge):
        to_json("x" * 10, limits=tight)
    with pytest.raises(TooLarge):
        from_json(b'"xxxxxxxxx"', tight)


@pytest.mark.parametrize("write", [encode, to_json])
@pytest.mark.parametrize("bad", [math.nan, math.inf, "\ud800", 2**64, NAIVE, object()])
def test_what_is_not_storable_is_never_written(write: Any, bad: Any) -> None:
    with pytest.raises(Invalid, match=r"at a\[0\]: "):
        write({"a": [bad], "b": {1}})


def test_a_deep_value_is_refused_when_the_interpreter_gives_out_first() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for write in (encode, to_json):
        with pytest.raises(TooDeep):
            write(deep, limits=Limits(max_depth=10**6))


# ── Structs ───────────────────────────────────────────────────────────────────────────────────────


class Mood(enum.Enum):
    CALM = "calm"


class Leaf(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = "leaf"
    data: Value = None


class Tree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str = "a title"
    big: int = 100_000
    small: int = 7
    ratio: float = 0.5
    mood: Mood = Mood.CALM
    tags: frozenset[str] = frozenset()
    seen: set[str] = set()
    wait: timedelta = timedelta(0)
    ref: Ref | None = None
    vars: dict[str, Any] = {}
    value: Value = None
    maybe: Any | msgspec.UnsetType = msgspec.UNSET
    leaf: Leaf = Leaf()
    leaves: tuple[Leaf, ...] = ()
    by_name: dict[str, Leaf] = {}
    when: datetime | None = None


class Simple(msgspec.Struct, frozen=True, tag="simple"):
    text: str
    numbers: tuple[int, ...]
    extra: Value = None


leaf_structs = st.builds(Leaf, name=st.sampled_from(["leaf", "x"]), data=values)
trees = st.builds(
    Tree,
    title=st.sampled_from(["a title", "x"]),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    tags=st.frozensets(st.text(max_size=3), max_size=3),
    seen=st.sets(st.text(max_size=3), max_size=3),
    wait=st.timedeltas(timedelta(0), timedelta(days=9)),
    ref=st.none() | st.just(Ref(uri="x", sha256=bytes(32))),
    vars=st.dictionaries(keys, values, max_size=3),
    value=values,
    maybe=values | st.just(msgspec.UNSET),
    leaf=leaf_structs,
    leaves=st.lists(leaf_structs, max_size=2).map(tuple),
    by_name=st.dictionaries(keys, leaf_structs, max_size=2),
)
read_tree = decoder(Tree)
read_simple = decoder(Simple)


@given(trees)
def test_a_struct_is_read_as_it_was_written(tree: Tree) -> None:
    data = encode_struct(tree)
    assert encode_struct(read_tree(data)) == data


@given(trees)
def test_a_struct_is_encoded_by_the_rules_for_values(tree: Tree) -> None:
    data = encode_struct(tree)
    assert encode(decode(data, Limits(max_depth=99)), Limits(max_depth=99)) == data


@given(values)
def test_a_value_in_a_struct_is_encoded_as_it_is_alone(value: Any) -> None:
    data = encode_struct(Simple("x", (1, 2), value))
    assert data == encode({"type": "simple", "text": "x", "numbers": [1, 2], "extra": value})
    assert same(read_simple(data).extra, value)


def test_equal_structs_have_equal_bytes_also_when_a_default_is_another_object() -> None:
    spelled = Tree(
        title="".join(["a ", "title"]),
        big=int("100000"),
        ratio=float("0.5"),
        tags=frozenset([]),
        seen=set(),
        wait=timedelta(seconds=0),
        leaf=Leaf(name="".join(["le", "af"])),
    )
    assert encode_struct(spelled) == encode_struct(Tree()) == b"\x80"
    assert read_tree(b"\x80") == Tree()


def test_a_look_alike_of_a_default_is_written() -> None:
    assert decode(encode_struct(Leaf(data=False))) == {"data": False}
    assert decode(encode_struct(Tree(ratio=0.25, small=8))) == {"ratio": 0.25, "small": 8}


def test_encoding_a_struct_leaves_it_alone() -> None:
    tree = Tree(value={"s": {1, 2}}, seen={"x"}, leaves=(Leaf(data={3}),))
    before = repr(tree)
    encode_struct(tree)
    assert repr(tree) == before


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (Tree(value={"a": [math.nan]}), "value.a[0]"),
        (Tree(vars={"a": math.inf}), "vars.a"),
        (Tree(ratio=math.nan), "ratio"),
        (Tree(leaf=Leaf(data=object())), "leaf.data"),
        (Tree(leaves=(Leaf(), Leaf(data=[NAIVE]))), "leaves[1].data[0]"),
        (Tree(by_name={"k": Leaf(data=2**70)}), "by_name.k.data"),
        (Tree(title="\ud800"), "title"),
        (Tree(leaf=Leaf(name="\ud800")), "leaf.name"),
        (Tree(small=2**64), "small"),
        (Tree(value="\ud800"), "value"),
        (Tree(when=NAIVE), "when"),
        (Simple("x", (1, 2**70)), "numbers[1]"),
        (Simple("x", (), Leaf()), "extra"),
    ],
)
def test_a_struct_that_is_not_storable_is_refused_with_the_path(bad: Any, path: str) -> None:
    with pytest.raises(Invalid) as caught:
        encode_struct(bad)
    assert caught.value.message.startswith(f"at {path}: ")


def test_a_struct_obeys_the_limits() -> None:
    with pytest.raises(TooLarge):
        encode_struct(Simple("x" * 100, ()), Limits(max_bytes=100))
    with pytest.raises(TooLarge):
        encode_struct(Leaf(data=[1, 2, 3]), Limits(max_items=3))
    with pytest.raises(TooDeep):
        encode_struct(Leaf(data=[[1]]), Limits(max_depth=1))
    with pytest.raises(TooLarge):
        decoder(Simple, Limits(max_bytes=5))(encode_struct(Simple("xxxxxx", ())))


@given(st.binary(max_size=40))
def test_a_typed_reader_fails_with_our_errors_alone(data: bytes) -> None:
    for read, kind in ((read_tree, Tree), (read_simple, Simple)):
        found: Any = None
        with contextlib.suppress(Invalid):
            found = read(data)
        assert type(found) in (kind, type(None))


def test_a_typed_reader_says_what_does_not_fit() -> None:
    with pytest.raises(Invalid, match="text"):
        read_simple(encode({"type": "simple", "text": 1, "numbers": []}))
    with pytest.raises(TooDeep):
        read_simple(b"\x81\xa5extra" + b"\x91" * 100_000)


def test_a_typed_reader_passes_over_fields_of_a_newer_version() -> None:
    assert read_simple(encode({"type": "simple", "text": "x", "numbers": [], "newer": {1}})) == Simple("x", ())


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────


@given(values)
def test_json_loses_nothing(value: Any) -> None:
    text = to_json(value)
    assert same(from_json(text), value)
    assert same(from_json(to_json(value, indent=2)), value)
    assert to_json(from_json(text)) == text


@given(values)
def test_json_is_json(value: Any) -> None:
    strict = json.JSONDecoder(parse_constant=_refused, object_pairs_hook=_each_name_once)
    assert same(from_json(json.dumps(strict.decode(to_json(value).decode())).encode()), value)


def _refused(word: str) -> None:
    pytest.fail(f"{word} is no JSON")


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


MARKERS = st.sampled_from(["$bytes", "$time", "$duration", "$set", "$ref", "$$set", "$"])
HOSTILE = st.recursive(
    st.sampled_from(["eA==", "2024-01-31T12:00:00Z", 5, "x" * 64, "0" * 64]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(MARKERS | st.sampled_from(["uri", "sha256"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(HOSTILE)
def test_user_data_is_never_taken_for_a_marker(value: Any) -> None:
    assert same(from_json(to_json(value)), value)
    assert type(from_json(to_json(value))) is type(value)


def test_json_looks_as_documented() -> None:
    value = {
        "$set": "mine",
        "data": b"\x00\xff",
        "for": timedelta(seconds=1),
        "ref": Ref(uri="s3://b/k", sha256=bytes(32)),
        "tags": {"b", "a"},
        "when": datetime(2024, 1, 31, 12, 0, 0, 1, tzinfo=UTC),
        "whole": [1, 1.0, 1e16, -0.0],
    }
    assert to_json(value).decode() == (
        '{"$$set":"mine","data":{"$bytes":"AP8="},"for":{"$duration":1000000},'
        '"ref":{"$ref":{"sha256":"' + "0" * 64 + '","uri":"s3://b/k"}},"tags":{"$set":["a","b"]},'
        '"when":{"$time":"2024-01-31T12:00:00.000001Z"},"whole":[1,1.0,1e16,-0.0]}'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nul",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e400",
        "18446744073709551616",
        "9" * 5000,
        '{"a":1,"a":2}',
        '{"$$a":1,"$$a":2}',
        '"\\ud800"',
        '{"$class":"os.system"}',
        '{"$bytes":"eA==","a":1}',
        '{"a":1,"$set":[]}',
        '{"$bytes":"eA"}',
        '{"$bytes":"e A=="}',
        '{"$bytes":"eB=="}',
        '{"$bytes":1}',
        '{"$bytes":"é"}',
        '{"$time":"2024-01-31"}',
        '{"$time":"2024-01-31T12:00:00"}',
        '{"$time":"2024-01-31T12:00:00.0000001Z"}',
        '{"$time":"2024-02-31T12:00:00Z"}',
        '{"$time":"9999-12-31T23:59:59-05:00"}',
        '{"$time":0}',
        '{"$duration":1.0}',
        '{"$duration":true}',
        '{"$duration":9223372036854775808}',
        '{"$set":{}}',
        '{"$set":[1,1]}',
        '{"$set":[1,true]}',
        '{"$set":[{}]}',
        '{"$ref":{"uri":"x"}}',
        '{"$ref":{"uri":"x","sha256":"00"}}',
        '{"$ref":{"uri":1,"sha256":"' + "0" * 64 + '"}}',
        '{"$ref":"x"}',
        "[" * 65 + "]" * 65,
        "[" * 100_000,
        "1 2",
    ],
)
def test_json_that_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        from_json(text.encode())


@pytest.mark.parametrize("data", [b"\xff", "1".encode("utf-16"), b"\xef\xbb\xbf1"])
def test_json_is_utf_8_without_a_mark(data: bytes) -> None:
    with pytest.raises(Invalid):
        from_json(data)


@given(st.text(alphabet='{}[]",:$0123456789.eE+-abntrufls\\ ', max_size=30))
def test_random_json_is_read_or_refused(text: str) -> None:
    try:
        value = from_json(text.encode())
    except Invalid:
        return
    assert same(from_json(to_json(value)), value)


def test_a_time_in_another_zone_is_the_same_moment() -> None:
    assert from_json(b'{"$time":"2024-01-31T14:00:00+02:00"}') == datetime(2024, 1, 31, 12, tzinfo=UTC)
    assert from_json(b'{"$time":"2024-01-31T12:00:00.5Z"}').microsecond == 500_000
