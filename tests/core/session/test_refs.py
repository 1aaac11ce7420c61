"""Which blobs content points to: every Ref to one is found, wherever it stands, and nothing else is taken for one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.core.errors import Invalid
from perdure.core.session import codec, record
from perdure.core.session.refs import SCHEME, blob_of, blob_ref, in_bytes, in_record
from perdure.core.session.turns import Message
from perdure.core.session.values import Ref
from perdure.testing import Builder, FixedAmbient
from perdure.testing.building import said
from tests.core.session.plain_values import values

SHA = bytes(range(32))
HASHES = st.binary(min_size=32, max_size=32)


def nested(ref: Any, path: list[int], beside: Any) -> Any:
    """The Ref at the end of a way through lists, maps and sets."""
    for step in path:
        ref = [[beside, ref], {"k": ref, "b": beside}, (ref,)][step]
    return ref


@given(st.lists(st.tuples(HASHES, st.lists(st.integers(0, 2), max_size=8)), max_size=5), values)
def test_every_ref_to_a_blob_is_found_and_no_other(placed: list[tuple[bytes, list[int]]], beside: Any) -> None:
    other = Ref(uri="s3://bucket/perdure:blob/", sha256=SHA)
    value = [other, beside, *(nested(blob_ref(sha), path, 1) for sha, path in placed)]
    found = in_bytes(codec.encode(value))
    assert found >= {sha for sha, _ in placed}
    assert found - {sha for sha, _ in placed} == in_bytes(codec.encode(beside))


def test_a_ref_in_a_set_is_found() -> None:
    assert in_bytes(codec.encode({"all": {blob_ref(SHA), 1}})) == {SHA}


@pytest.mark.parametrize("text", [SCHEME, blob_ref(SHA).uri, f"see {blob_ref(SHA).uri}!"])
def test_a_text_is_no_ref(text: str) -> None:
    assert in_bytes(codec.encode({"text": text, text: b"bytes " + text.encode()})) == frozenset()


@pytest.mark.parametrize("data", [b"", b"\xc1" + SCHEME.encode(), SCHEME.encode(), b"\xc7\xff\x03" + SCHEME.encode()])
def test_what_cannot_be_read_points_nowhere(data: bytes) -> None:
    assert in_bytes(data) == frozenset()


def test_a_record_tells_which_event_points_where() -> None:
    other = bytes(32)
    pointing = Message(role="user", content=[blob_ref(SHA), blob_ref(other), blob_ref(SHA)])
    made = Builder(FixedAmbient()).create(said("a"), pointing, said("b"), Message(role="user", content=blob_ref(SHA)))
    assert in_record(made.commit.record) == ((3, other), (3, SHA), (5, SHA))
    assert in_record(record.redact(made.commit.record, frozenset({3}))) == ((5, SHA),)


def test_what_stands_in_the_place_of_redacted_data_is_not_read() -> None:
    made = Builder(FixedAmbient()).create(Message(role="user", content=blob_ref(SHA)))
    first, second = made.commit.record.entries
    assert in_record(replace(made.commit.record, entries=(first, replace(second, blind=None)))) == ()


@given(HASHES)
def test_a_ref_and_its_uri_name_the_same_blob(sha: bytes) -> None:
    assert blob_of(blob_ref(sha)) == blob_of(blob_ref(sha).uri) == sha


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        b"perdure:blob/",
        "",
        SHA.hex(),
        blob_ref(SHA).uri[:-1],
        blob_ref(SHA).uri + "0",
        blob_ref(SHA).uri.upper(),
        blob_ref(SHA).uri[:-2] + "g0",
        blob_ref(SHA).uri[:-2] + " 0",
        Ref(uri=blob_ref(SHA).uri, sha256=bytes(32)),
        Ref(uri="s3://b/k", sha256=SHA),
    ],
)
def test_anything_else_names_no_blob(wrong: Any) -> None:
    with pytest.raises(Invalid, match="points to no blob"):
        blob_of(wrong)
