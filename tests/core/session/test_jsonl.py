"""A line holds what was hashed, and only a whole line is read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BadExport, TooLarge
from perdure.core.session import codec, jsonl, kinds, record
from perdure.core.session.event import Entry, Payload
from perdure.core.session.jsonl import Anchor, Footer, Header, Line, Part
from perdure.core.session.turns import Message, ToolFinished
from perdure.core.session.vars import VarsPatched
from perdure.testing import Builder, FixedAmbient
from tests.core.session import plain_values

NUMBER = 7
DIGEST = "ab" * 32
ID = "0192f0c4-7d1e-7abc-8def-0123456789ab"


def line_of(payload: Payload) -> tuple[Entry, bytes]:
    """An event with this payload, as it is stored and as it is written."""
    made = Builder(FixedAmbient()).create(payload)
    event = record.read(made.commit.record, made.state.tenant, made.start)[-1]
    return event.entry, jsonl.written(jsonl.event_line(event))


@given(plain_values.values, plain_values.documents)
def test_an_entry_comes_back_byte_for_byte(content: Any, metadata: dict[str, Any]) -> None:
    for payload in (
        Message(role="user", content=content, metadata=metadata),
        ToolFinished(call="c", result=content),
        VarsPatched(patch=[["+", ["a"], content]]),
    ):
        entry, text = line_of(payload)
        line = jsonl.read(text, NUMBER)
        assert isinstance(line, Line)
        assert line.raw is None
        assert jsonl.entry_of(line, NUMBER) == entry


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
def test_a_blank_of_every_kind_comes_back(kind: str) -> None:
    entry, text = line_of(kinds.BLANKS[kind])
    line = jsonl.read(text, NUMBER)
    assert isinstance(line, Line)
    assert jsonl.entry_of(line, NUMBER) == entry


def test_a_value_as_deep_as_the_codec_allows_comes_back() -> None:
    content: Any = "bottom"
    for _ in range(63):
        content = [content]
    entry, text = line_of(Message(role="user", content=content))
    line = jsonl.read(text, NUMBER)
    assert isinstance(line, Line)
    assert jsonl.entry_of(line, NUMBER) == entry


@given(st.binary(max_size=40))
def test_bytes_that_are_not_canonical_are_kept_as_they_are(data: bytes) -> None:
    shown = jsonl._data(data)
    if "raw" in shown:
        assert jsonl.from_base64(shown["raw"], NUMBER, "raw") == data
    else:
        assert codec.encode(codec.from_json(bytes(shown["data"]))) == data


def test_raw_bytes_are_read_back() -> None:
    _, text = line_of(Message(role="user"))
    document = codec.from_json(text) | {"raw": jsonl.base64(b"\xc1not ours")}
    del document["data"]
    line = jsonl.read(codec.to_json(document), NUMBER)
    assert isinstance(line, Line)
    assert jsonl.entry_of(line, NUMBER).data == b"\xc1not ours"


@pytest.mark.parametrize(
    "line",
    [
        Header(session=ID, tenant="t", version=3, digest=DIGEST),
        Header(
            session=ID,
            tenant="t",
            version=9,
            digest=DIGEST,
            anchor=Anchor(version=2, digest=DIGEST, state="gA==", sha=DIGEST),
            segments=(Part(origin=ID, upto=5, digest=DIGEST),),
        ),
        Footer(events=3, digest=DIGEST),
    ],
)
def test_header_and_footer_come_back(line: Header | Footer) -> None:
    assert jsonl.read(jsonl.written(line), NUMBER) == line


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_noise_is_refused_with_its_number(noise: bytes) -> None:
    with pytest.raises(BadExport) as refusal:
        jsonl.read(noise, NUMBER)
    assert refusal.value.line == NUMBER


@pytest.mark.parametrize(
    "text",
    [
        b'{"perdure":"session","format":2}',
        b'{"perdure":"session"}',
        b'{"perdure":"other"}',
        b'{"perdure":{"$bytes":""}}',
        b'{"perdure":"end","events":-1,"digest":""}',
        b'{"perdure":"end","events":true,"digest":""}',
        b'{"perdure":"end","events":1,"digest":"","more":1}',
        b'{"perdure":"end","events":1,"events":1,"digest":""}',
        b"null",
        b"{}",
        b"{" * 200,
        b"[" * 100_000,
    ],
)
def test_a_line_of_another_shape_is_refused(text: bytes) -> None:
    with pytest.raises(BadExport):
        jsonl.read(text, NUMBER)


@pytest.mark.parametrize("held", ["AA", "AAAA=", "AA=A", "AB==", " AAA", "é", "====", "AAAA\n"])
def test_base64_has_one_spelling(held: str) -> None:
    with pytest.raises(BadExport):
        jsonl.from_base64(held, NUMBER, "blind")


@pytest.mark.parametrize("held", ["", DIGEST[:-1], DIGEST.upper(), DIGEST[:-1] + "g", DIGEST + "ab", " " + DIGEST[1:]])
def test_a_digest_has_one_spelling(held: str) -> None:
    with pytest.raises(BadExport):
        jsonl.from_hex(held, NUMBER, "digest")


@pytest.mark.parametrize("held", ["", ID.upper(), ID.replace("-", ""), ID + "0", ID[:-1] + " ", ID[:-1] + "g"])
def test_an_id_has_one_spelling(held: str) -> None:
    with pytest.raises(BadExport):
        jsonl.from_id(held, NUMBER, "id")
    assert jsonl.from_id(ID, NUMBER, "id").hex() == ID.replace("-", "")


def test_a_line_that_could_not_be_read_back_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE", 100)
    with pytest.raises(TooLarge):
        line_of(Message(role="user", content="x"))
