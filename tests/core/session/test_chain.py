"""The chain's rules, pinned: a change to any of these bytes would break every stored session.

The vectors are the ones in docs/FORMAT.md. `packed` is MessagePack written a second time, from its specification, so
that the vectors rest on more than one library.
"""

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.session import chain, record
from perdure.core.session.codec import encode_struct
from perdure.core.session.event import Entry
from perdure.core.session.origin import Created
from perdure.core.session.record import Record
from perdure.core.session.turns import Message

SESSION = bytes.fromhex("01940c2e7d1e7abc8def0123456789ab")
BRANCH = bytes.fromhex("01940c2e7d1e7abc8def0123456789ac")
PARENT_DIGEST = bytes(range(32))
UID = bytes.fromhex("01940c2e7d1f7000800000000000000a")
BLIND, NEXT_BLIND = bytes(range(16)), bytes(range(16, 32))
AT = 1_767_268_800_000_000

HELLO = Message(role="user", content="hello")
HELLO_BYTES = "82a7636f6e74656e74a568656c6c6fa4726f6c65a475736572"
CREATED = Created(owner="ana", title="Lisbon trip")
CREATED_BYTES = "82a56f776e6572a3616e61a57469746c65ab4c6973626f6e2074726970"

COMMITMENT = "168dd02f9936d53ad06c27004f882eb12a7540fc0d06f0aa667e3381c1a2d399"
GENESIS = "e0481eb3767f05b85e5f86fff5fa68de6265a4ce1f41897e54c9630347775502"
BRANCH_GENESIS = "30c6e8359d8c6f45c029c3b933b1f9013c5267f65ae6081878b4ce8796f1eb45"
SPARE_HEADER = (
    "9ea56c6f63616cc41001940c2e7d1e7abc8def0123456789ab01c41001940c2e7d1f7000800000000000000aa76d65737361676501"
    "cf00064752550bf000a3616e61c0c0c0c000c0"
)
FULL_HEADER = (
    "9ea56c6f63616cc41001940c2e7d1e7abc8def0123456789abcd012cc41001940c2e7d1f7000800000000000000aad746f6f6c5f6669"
    "6e697368656402cf00064752550bf000a3616e61a573636f7574a36b6964a663616c6c2d310703a26b31"
)
RECORD = (
    "9901c41001940c2e7d1e7abc8def0123456789ab01c41001940c2e7d1f7000800000000000000acf00064752550bf000a3616e6100c0"
    "9298a76372656174656401c0c0c0c0c410000102030405060708090a0b0c0d0e0fc41d82a56f776e6572a3616e61a57469746c65ab4c"
    "6973626f6e207472697098a76d65737361676501c0c0c0c0c410101112131415161718191a1b1c1d1e1fc41982a7636f6e74656e74a5"
    "68656c6c6fa4726f6c65a475736572"
)
CHAIN = (
    (
        "2bbeed8a0f9e544ca529a814daa70796bbd8c32768228af83f9554b74abb35bb",
        "a06316f2184e50b4353d033a33dadddffbe91c2d2b299840b1dc498222aff488",
    ),
    (
        "83664307944d52aceb0dea5408fcb5072e896d837e18d85aec23bdf7c7b67607",
        "dbc96e7faa53bdfe414404033d58f0a621cf77d568c99755ae020f0ff1736640",
    ),
)

SPARE: dict[str, Any] = {
    "tenant": "local",
    "session": SESSION,
    "version": 1,
    "event_id": UID,
    "kind": "message",
    "kind_version": 1,
    "at": AT,
    "actor": "ana",
    "agent": None,
    "child_agent": None,
    "target": None,
    "turn": None,
    "epoch": 0,
    "key": None,
}
FULL = SPARE | {
    "version": 300,
    "kind": "tool_finished",
    "kind_version": 2,
    "agent": "scout",
    "child_agent": "kid",
    "target": "call-1",
    "turn": 7,
    "epoch": 3,
    "key": "k1",
}


def packed(value: Any) -> bytes:
    """MessagePack of what headers are made of, in its shortest forms."""
    match value:
        case None:
            return b"\xc0"
        case tuple() if len(value) < 16:
            return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
        case str() if len(value.encode()) < 32:
            return bytes([0xA0 | len(value.encode())]) + value.encode()
        case str() if len(value.encode()) < 256:
            return b"\xd9" + bytes([len(value.encode())]) + value.encode()
        case bytes() if len(value) < 256:
            return b"\xc4" + bytes([len(value)]) + value
        case int() if 0 <= value < 128:
            return bytes([value])
        case int() if value >= 0:
            width = next(width for width in (1, 2, 4, 8) if value < 1 << 8 * width)
            return {1: b"\xcc", 2: b"\xcd", 4: b"\xce", 8: b"\xcf"}[width] + value.to_bytes(width, "big")
        case _:
            raise NotImplementedError(value)


def two_events() -> Record:
    entries = (
        Entry("created", 1, None, None, None, None, BLIND, encode_struct(CREATED)),
        Entry("message", 1, None, None, None, None, NEXT_BLIND, encode_struct(HELLO)),
    )
    return Record(1, SESSION, 1, UID, AT, "ana", 0, None, entries)


# ── golden vectors ────────────────────────────────────────────────────────────────────────────────


def test_the_commitment_is_the_hash_of_blind_and_canonical_data() -> None:
    assert encode_struct(HELLO).hex() == HELLO_BYTES
    assert chain.commitment(BLIND, bytes.fromhex(HELLO_BYTES)).hex() == COMMITMENT
    assert sha256(BLIND + bytes.fromhex(HELLO_BYTES)).hexdigest() == COMMITMENT


def test_digest_zero_comes_from_the_session_id() -> None:
    assert chain.genesis(SESSION).hex() == GENESIS
    assert sha256(b"perdure/1/genesis" + SESSION).hexdigest() == GENESIS


def test_digest_zero_of_a_branch_comes_from_its_parents_digest_as_well() -> None:
    assert chain.genesis(BRANCH, PARENT_DIGEST).hex() == BRANCH_GENESIS
    assert sha256(b"perdure/1/genesis" + BRANCH + PARENT_DIGEST).hexdigest() == BRANCH_GENESIS


@pytest.mark.parametrize(("fields", "expected"), [(SPARE, SPARE_HEADER), (FULL, FULL_HEADER)])
def test_a_header_is_an_array_of_fourteen_in_messagepack(fields: dict[str, Any], expected: str) -> None:
    assert chain.header_bytes(**fields).hex() == expected
    assert packed(tuple(fields.values())).hex() == expected


def test_a_record_of_two_events_has_these_bytes() -> None:
    assert encode_struct(CREATED).hex() == CREATED_BYTES
    assert record.to_bytes(two_events()).hex() == RECORD
    assert record.from_bytes(bytes.fromhex(RECORD)) == two_events()


def test_two_events_have_these_digests() -> None:
    read = record.read(two_events(), "local", chain.genesis(SESSION))
    assert [(event.commitment.hex(), event.digest.hex()) for event in read] == list(CHAIN)


def test_the_digests_follow_from_hashing_alone() -> None:
    previous = bytes.fromhex(GENESIS)
    for index, (data, blind) in enumerate(((CREATED_BYTES, BLIND), (HELLO_BYTES, NEXT_BLIND))):
        uid = (int.from_bytes(UID, "big") + index).to_bytes(16, "big")
        kind = ("created", "message")[index]
        header = packed(tuple((SPARE | {"version": index + 1, "event_id": uid, "kind": kind}).values()))
        committed = sha256(blind + bytes.fromhex(data)).digest()
        previous = sha256(b"perdure/1/event" + previous + header + committed).digest()
        assert (committed.hex(), previous.hex()) == CHAIN[index]


# ── what the chain notices ────────────────────────────────────────────────────────────────────────

OTHER = {
    "tenant": "other",
    "session": BRANCH,
    "version": 2,
    "event_id": BRANCH,
    "kind": "feedback",
    "kind_version": 2,
    "at": AT + 1,
    "actor": "bo",
    "agent": "",
    "child_agent": "",
    "target": "",
    "turn": 0,
    "epoch": 1,
    "key": "",
}


@pytest.mark.parametrize("field", SPARE)
def test_every_field_of_the_envelope_is_in_the_digest(field: str) -> None:
    before, after = chain.header_bytes(**SPARE), chain.header_bytes(**SPARE | {field: OTHER[field]})
    assert before != after
    assert chain.link(bytes(32), before, bytes(32)) != chain.link(bytes(32), after, bytes(32))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=64), st.binary(min_size=32, max_size=32), st.data())
def test_one_flipped_bit_changes_the_digest(previous: bytes, header: bytes, committed: bytes, data: Any) -> None:
    parts = [bytearray(previous), bytearray(header), bytearray(committed)]
    part = data.draw(st.sampled_from([part for part in parts if part]))
    part[data.draw(st.integers(0, len(part) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = chain.link(*map(bytes, parts))
    assert changed != chain.link(previous, header, committed)


def test_the_parents_digest_is_no_part_of_a_longer_id() -> None:
    assert chain.genesis(SESSION) != chain.genesis(SESSION, PARENT_DIGEST)
    assert chain.genesis(SESSION, PARENT_DIGEST) != chain.genesis(BRANCH, PARENT_DIGEST)
