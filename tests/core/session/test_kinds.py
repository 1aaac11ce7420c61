"""The closed union: what a kind's bytes become, what is unknown, and how old versions are lifted."""

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Damaged, Invalid, UnknownKind
from perdure.core.session import codec, kinds
from perdure.core.session.codec import encode, encode_struct
from perdure.core.session.event import Payload
from perdure.core.session.kinds import KINDS, blank, decode, from_document
from perdure.core.session.turns import Message, TurnFinished
from tests.core.session.payloads import payloads

DESIGNED = """
    created configured moved renewed relocated turn_started message tool_bound tool_asked tool_started tool_finished
    turn_finished turn_interrupted turn_rolled_back vars_patched scratchpad_written checkpoint_taken checkpoint_pinned
    checkpoint_expired compacted reserved settled overrun spawned child_finished steered followed_up outcome_known
    linked shared merged conflict_found retrieval verification_result repair exit_criterion compensation_registered
    compensated cleaned cleanup_failed other_ended feedback redacted agent_joined agent_paused agent_resumed
    room_message delegation round noted retracted model_asked model_answered corrected taken_up approval_asked
    approval_given memory_kept memory_changed memory_moved memory_planned memory_proposed memory_reviewed memory_run
    memories_cited memories_embedded memories_extracted memories_recalled memories_used
""".split()


def test_the_union_is_closed() -> None:
    assert sorted(KINDS) == sorted(DESIGNED)


@given(payloads)
def test_every_payload_survives_its_bytes(payload: Payload) -> None:
    stored = encode_struct(payload)
    found = decode(payload.kind, payload.kind_version, stored)
    assert type(found) is type(payload)
    assert encode_struct(found) == stored


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_blank_is_the_payload_with_nothing_in_it(kind: str) -> None:
    assert blank(kind) == KINDS[kind]()
    assert encode_struct(blank(kind)) == b"\x80"
    assert decode(kind, 1, b"\x80") == blank(kind)


@pytest.mark.parametrize(("kind", "version"), [("telepathy", 1), ("message", 2), ("message", 99)])
def test_what_a_newer_perdure_wrote_is_unknown_and_named(kind: str, version: int) -> None:
    with pytest.raises(UnknownKind, match="upgrade it") as refusal:
        decode(kind, version, b"\x80")
    assert (refusal.value.kind, refusal.value.kind_version) == (kind, version)


def test_a_blank_of_an_unknown_kind_is_unknown_too() -> None:
    with pytest.raises(UnknownKind, match="telepathy"):
        blank("telepathy")


@pytest.mark.parametrize("stored", [b"", b"\xc1", b"\x90", b"\x81\xa4role\x05", b"\x81\xa4role\xa1\xff", b"\xc0"])
def test_bytes_that_do_not_fit_their_kind_are_damaged(stored: bytes) -> None:
    with pytest.raises(Damaged, match="message"):
        decode("message", 1, stored)


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=30))
def test_random_bytes_decode_or_are_damaged(kind: str, stored: bytes) -> None:
    try:
        assert type(decode(kind, 1, stored)) is KINDS[kind]
    except Damaged:
        return


def test_fields_of_a_newer_minor_are_passed_over() -> None:
    assert decode("message", 1, encode({"role": "user", "mood": "sunny"})) == Message(role="user")


# ── upcasters ─────────────────────────────────────────────────────────────────────────────────────


class Weather(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A kind that has been reshaped twice."""

    kind: ClassVar[str] = "weather"
    kind_version: ClassVar[int] = 3
    celsius: float = 0.0
    place: str = ""


LIFTS: dict[tuple[str, int], kinds.Upcaster] = {
    ("weather", 1): lambda old: {"fahrenheit": old["degrees"], "place": old["place"]},
    ("weather", 2): lambda old: {"celsius": (old["fahrenheit"] - 32) / 1.8, "place": old["place"]},
}


@pytest.fixture
def _weather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kinds.KINDS, "weather", Weather)
    monkeypatch.setitem(kinds._DECODERS, "weather", codec.decoder(Weather))


@pytest.mark.usefixtures("_weather")
@pytest.mark.parametrize(
    ("version", "document"),
    [
        (1, {"degrees": 212, "place": "Lisbon"}),
        (2, {"fahrenheit": 212, "place": "Lisbon"}),
        (3, {"celsius": 100.0, "place": "Lisbon"}),
    ],
)
def test_old_versions_are_lifted_step_by_step(version: int, document: dict[str, Any]) -> None:
    assert decode("weather", version, encode(document), LIFTS) == Weather(celsius=100.0, place="Lisbon")


@pytest.mark.usefixtures("_weather")
def test_a_version_nobody_can_lift_is_damaged() -> None:
    with pytest.raises(Damaged, match="weather"):
        decode("weather", 1, encode({"degrees": 1, "place": ""}), {("weather", 2): LIFTS["weather", 2]})


@pytest.mark.usefixtures("_weather")
@pytest.mark.parametrize("document", [{"place": "Lisbon"}, {"degrees": "warm", "place": "Lisbon"}, 5, ["degrees"]])
def test_old_data_that_does_not_lift_is_damaged(document: Any) -> None:
    with pytest.raises(Damaged, match="weather"):
        decode("weather", 1, encode(document), LIFTS)


@pytest.mark.usefixtures("_weather")
def test_a_version_after_todays_is_unknown_also_with_upcasters() -> None:
    with pytest.raises(UnknownKind):
        decode("weather", 4, b"\x80", LIFTS)


def test_every_registered_upcaster_lifts_a_kind_there_is() -> None:
    for kind, version in kinds.UPCASTERS:
        assert 1 <= version < KINDS[kind].kind_version
    for kind, cls in KINDS.items():
        assert all((kind, version) in kinds.UPCASTERS for version in range(1, cls.kind_version))


# ── documents ─────────────────────────────────────────────────────────────────────────────────────


def test_a_document_becomes_a_payload_field_by_field() -> None:
    assert from_document("message", {"role": "user", "content": [1]}) == Message(role="user", content=[1])
    assert from_document("turn_finished", {}) == TurnFinished()


@pytest.mark.parametrize(
    ("kind", "document", "words"),
    [
        ("message", {"roll": "user"}, "no field roll; it has role"),
        ("message", {"role": 5}, "role"),
        ("turn_finished", {"tokens_in": "many"}, "tokens_in"),
    ],
)
def test_a_document_that_does_not_fit_says_where(kind: str, document: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        from_document(kind, document)


def test_a_document_of_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UnknownKind, match=r"known are .*message"):
        from_document("telepathy", {})


def test_two_payloads_cannot_claim_one_kind() -> None:
    assert len({cls.kind for cls in KINDS.values()}) == len(KINDS)
    assert all(issubclass(cls, msgspec.Struct) for cls in KINDS.values())


@pytest.mark.usefixtures("_weather")
def test_lifting_takes_whatever_could_be_written() -> None:
    """A value may nest as deep as the codec lets it; the payload around it is one level more."""
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    lifted = decode("weather", 2, encode_struct(Old(fahrenheit=212, place="Lisbon", more=deep)), LIFTS)
    assert lifted == Weather(celsius=100.0, place="Lisbon")


class Old(msgspec.Struct):
    """What the second version of the kind may have held."""

    fahrenheit: float
    place: str
    more: Any
