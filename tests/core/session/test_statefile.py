"""State files: what goes in comes out, and no changed byte goes unnoticed."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Damaged, Invalid, PerdureError, Tampered, TooDeep, TooLarge
from perdure.core.session.codec import decode, encode, from_json, to_json
from perdure.core.session.statefile import FORMAT, Form, unwrap, wrap
from perdure.core.session.values import Limits, same
from tests.core.session.plain_values import documents

forms: st.SearchStrategy[Form] = st.sampled_from(["msgpack", "json"])
AT = 1_706_702_400_000_001
SAMPLE: dict[str, Any] = {"a": [1, 2.0, {"x"}], "$b": b"\x00"}


@given(documents, forms, st.integers(0, 2**53), st.integers(0, 2**53))
def test_what_is_wrapped_is_unwrapped(document: Any, form: Form, version: int, at: int) -> None:
    found = unwrap(wrap(document, "1.2.3", version, at, form))
    assert same(found.document, document)
    assert (found.schema_version, found.state_version, found.serialized_at) == ("1.2.3", version, at)
    assert found.payload == encode(document)
    assert found.checksum == sha256(found.payload).digest()


@given(documents)
def test_a_document_has_one_checksum_in_every_form(document: Any) -> None:
    binary, text = (unwrap(wrap(document, "1.0.0", 1, AT, form)) for form in ("msgpack", "json"))
    assert binary.checksum == text.checksum


@given(documents, forms, st.data())
def test_a_changed_byte_never_gives_another_state(document: Any, form: Form, data: st.DataObject) -> None:
    raw = bytearray(wrap(document, "1.2.3", 7, AT, form))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = unwrap(bytes(raw))
    except PerdureError:
        return
    # A JSON text has spellings that mean the same; a MessagePack one has none.
    assert form == "json"
    assert found == unwrap(wrap(document, "1.2.3", 7, AT, form))


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_every_bit_of_a_sample_is_guarded(form: Form) -> None:
    whole = wrap(SAMPLE, "1.2.3", 7, AT, form)
    unwrap(whole)
    for index in range(len(whole)):
        for bit in range(8):
            raw = bytearray(whole)
            raw[index] ^= 1 << bit
            try:
                found = unwrap(bytes(raw))
            except (Invalid, Tampered):
                continue
            assert form == "json"
            assert same(found.document, SAMPLE)


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_a_cut_file_is_damaged(form: Form) -> None:
    whole = wrap(SAMPLE, "1.2.3", 7, AT, form)
    for end in range(1, len(whole)):
        with pytest.raises(Damaged):
            unwrap(whole[:end])


@given(st.binary(max_size=50))
def test_random_bytes_fail_with_our_errors_alone(data: bytes) -> None:
    with pytest.raises((Damaged, Invalid)):
        unwrap(data)


def test_json_may_be_indented_on_the_way() -> None:
    text = wrap(SAMPLE, "1.2.3", 7, AT, "json")
    pretty = json.dumps(json.loads(text), indent=4).encode()
    assert same(unwrap(b"\n " + pretty).document, SAMPLE)


def test_json_is_readable() -> None:
    fields = json.loads(wrap({"name": "x"}, "1.2.3", 7, AT, "json"))
    assert fields["payload"] == {"name": "x"}
    assert fields["type"] == "perdure.state"
    assert fields["checksum"] == sha256(encode({"name": "x"})).hexdigest()


def rewritten(form: Form, **changes: Any) -> bytes:
    whole = wrap(SAMPLE, "1.2.3", 7, AT, form)
    fields: dict[str, Any] = decode(whole) if form == "msgpack" else from_json(whole)
    fields = {name: item for name, item in (fields | changes).items() if item is not ...}
    return encode(fields) if form == "msgpack" else to_json(fields)


@pytest.mark.parametrize("form", ["msgpack", "json"])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"type": "perdure.bundle"}, Invalid),
        ({"type": ...}, Invalid),
        ({"format": FORMAT + 1}, Invalid),
        ({"format": ...}, Invalid),
        ({"state_version": 8}, Tampered),
        ({"serialized_at": 0}, Tampered),
        ({"schema_version": "1.2.4"}, Tampered),
        ({"schema_version": "one"}, Damaged),
        ({"schema_version": 1}, Damaged),
        ({"state_version": "8"}, Damaged),
        ({"state_version": True}, Damaged),
        ({"state_version": ...}, Damaged),
        ({"payload": ...}, Damaged),
        ({"payload": None}, Tampered),
        ({"checksum": ...}, Damaged),
        ({"checksum": 5}, Damaged),
        ({"digest": ...}, Damaged),
        ({"extra": 1}, Damaged),
    ],
)
def test_a_rewritten_file_is_refused(form: Form, changes: Any, error: type[Exception]) -> None:
    with pytest.raises((error, Damaged) if error is Tampered else error):
        unwrap(rewritten(form, **changes))


def test_a_payload_that_matches_but_is_no_document_is_damaged() -> None:
    checksum = sha256(b"\xc1").digest()
    header = {
        "type": "perdure.state",
        "format": FORMAT,
        "schema_version": "1.0.0",
        "state_version": 1,
        "serialized_at": 1,
        "checksum": checksum,
    }
    data = encode(header | {"digest": sha256(encode(header)).digest(), "payload": b"\xc1"})
    with pytest.raises(Damaged, match="payload cannot be read"):
        unwrap(data)


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_limits_hold_on_both_ways(form: Form) -> None:
    tight = Limits(max_bytes=20, max_depth=2)
    assert unwrap(wrap({"a": [1]}, "1.0.0", 1, AT, form, tight), tight).document == {"a": [1]}
    with pytest.raises(TooLarge):
        wrap({"a": "x" * 20}, "1.0.0", 1, AT, form, tight)
    with pytest.raises(TooLarge):
        unwrap(wrap({"a": "x" * 20}, "1.0.0", 1, AT, form), tight)
    with pytest.raises(TooDeep):
        unwrap(wrap({"a": [[1]]}, "1.0.0", 1, AT, form), tight)


@pytest.mark.parametrize(("version", "state"), [("1", 1), ("1.0.0", "1"), ("1.0.0", 1.0), ("1.0.0", True)])
def test_a_wrong_version_is_refused(version: str, state: Any) -> None:
    with pytest.raises(Invalid):
        wrap({}, version, state, AT)
