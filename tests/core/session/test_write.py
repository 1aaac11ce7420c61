"""Writing: what is written is what will be read, and what is folded now is what will be folded again."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, TooDeep, TooLarge
from perdure.core.session import chain, codec, diff, ids, record
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.checkpoints import CheckpointPolicy, CheckpointTaken, Trigger
from perdure.core.session.event import Draft, Payload
from perdure.core.session.lifecycle import CompensationRegistered
from perdure.core.session.links import Linked, Relation
from perdure.core.session.origin import Config
from perdure.core.session.state import BLANK, to_bytes
from perdure.core.session.steering import Feedback
from perdure.core.session.turns import Message, TurnStarted
from perdure.core.session.write import MAX_BYTES, Base, Mark, Written, restore, take, write
from tests.core.session.logbook import NOON, RAW, Logbook, stamp
from tests.core.session.payloads import payloads

GENESIS = chain.genesis(RAW)


def written(*payloads: Payload, state: states.State = BLANK) -> Written:
    return write(state, GENESIS, [Draft(item) for item in payloads], stamp())


# ── the record ────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(payloads, min_size=1, max_size=6))
def test_what_is_written_is_what_is_read(drawn: list[Payload]) -> None:
    found = written(*drawn)
    stored = record.from_bytes(record.to_bytes(found.record))
    read = record.read(stored, "tenant", GENESIS)
    assert [event.digest for event in read] == [event.digest for event in found.events]
    assert read[-1].digest == found.digest
    assert [event.data for event in read] == [event.data for event in found.events]
    assert [codec.encode_struct(event.data) for event in found.events] == [entry.data for entry in stored.entries]


@given(st.lists(payloads, min_size=1, max_size=6))
def test_the_state_now_is_the_state_of_whoever_reads_the_log(drawn: list[Payload]) -> None:
    found = written(*drawn)
    stored = record.from_bytes(record.to_bytes(found.record))
    assert to_bytes(states.fold(BLANK, record.read(stored, "tenant", GENESIS))) == to_bytes(found.state)


def test_versions_ids_and_blinds_are_each_events_own() -> None:
    found = written(Message(role="user"), Message(role="user"), Message(role="user"))
    assert [event.version for event in found.events] == [1, 2, 3]
    assert [event.uid for event in found.events] == [ids.step(stamp().uid, index) for index in range(3)]
    assert len({event.commitment for event in found.events}) == 3
    assert {entry.blind for entry in found.record.entries} == {stamp().blinds[at : at + 16] for at in (0, 16, 32)}


def test_an_append_goes_on_where_the_state_stands() -> None:
    found = written(Message(role="user"), state=states.State(version=41))
    assert (found.record.first, found.record.last, found.state.version) == (42, 42, 42)


def test_what_the_caller_changes_afterwards_changes_nothing() -> None:
    book = Logbook()
    metadata: dict[str, Any] = {"list": [1]}
    extra: dict[str, Any] = {"deep": {"a": 1}}
    book.begin(metadata=metadata, config=Config(extra=extra))
    stored = to_bytes(book.state)
    metadata["list"].append(2)
    extra["deep"]["b"] = 2
    assert to_bytes(book.state) == stored
    assert to_bytes(states.fold(BLANK, book.events)) == stored


# ── what cannot be stored ─────────────────────────────────────────────────────────────────────────

WRONG: list[tuple[Any, str]] = [
    (Message(role=5), "role"),  # type: ignore[arg-type]
    (Message(role="user", metadata=[1]), "metadata"),  # type: ignore[arg-type]
    (Message(role="user", content=float("nan")), "NaN"),
    (Message(role="user", content=object()), "plain data"),
    (Message(role="user", content="\ud800"), "lone surrogate"),
    (Message(role="\ud800"), "lone surrogate"),
    (Message(role="user", content=2**64), "integer"),
    (Message(role="user", content={1: 2}), "key"),
    (Feedback(rating="five"), "rating"),  # type: ignore[arg-type]
    (Feedback(rating=2**64), "integer"),
    (Feedback(comment=None), "comment"),  # type: ignore[arg-type]
    (Linked(other="s", relation="friend"), "relation"),  # type: ignore[arg-type]
    (Linked(other="s", relation=Relation), "Enum|type"),  # type: ignore[arg-type]
    (TurnStarted(model=b"x"), "model"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("payload", "words"), WRONG)
def test_what_could_not_be_read_again_is_refused_by_name(payload: Payload, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        written(payload)


@pytest.mark.parametrize("name", ["agent", "child_agent", "target"])
@pytest.mark.parametrize("wrong", [5, b"x", "\ud800", "x" * 2000, ["a"]])
def test_an_envelope_that_could_not_be_read_again_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(Invalid):
        write(BLANK, GENESIS, [Draft(Message(role="user"), **{name: wrong})], stamp())


def test_a_value_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(65):
        deep = [deep]
    with pytest.raises(TooDeep):
        written(Message(role="user", content=deep))


def test_an_append_larger_than_any_store_reads_back_is_refused() -> None:
    large = Message(role="user", content=b"x" * (15 << 20))
    with pytest.raises(TooLarge, match="split it"):
        written(*[large] * 5)
    assert written(*[large] * 4).state.version == 4
    assert MAX_BYTES == 64 << 20


# ── checkpoints on the way ────────────────────────────────────────────────────────────────────────


def test_a_mark_becomes_a_checkpoint_of_the_state_reached_there() -> None:
    drafts = [Draft(Message(role="user")), Mark(id="c", trigger=Trigger.MANUAL, label="here"), Draft(Message(role="x"))]
    found = write(BLANK, GENESIS, drafts, stamp())
    (checkpoint,) = found.checkpoints
    assert (checkpoint.id, checkpoint.seq, checkpoint.version, checkpoint.label) == ("c", 1, 1, "here")
    assert checkpoint.payload == to_bytes(states.fold(BLANK, found.events[:1]))
    assert checkpoint.payload_sha == checkpoint.state_sha == sha256(checkpoint.payload).digest()
    taken = found.events[1].data
    assert isinstance(taken, CheckpointTaken)
    assert (taken.id, taken.state_version, taken.state_sha, taken.trigger) == (
        "c",
        1,
        checkpoint.state_sha,
        Trigger.MANUAL,
    )


def test_a_delta_holds_what_changed_and_says_on_what_it_stands() -> None:
    book = Logbook()
    book.begin(vars={"big": ["x" * 50] * 50})
    book.do(do.TakeCheckpoint())
    book.do(do.SetVars(document={**book.state.vars.document, "n": 1}))
    book.do(do.TakeCheckpoint())
    full, delta = book.checkpoints
    assert (full.full, full.base, delta.full, delta.base) == (True, None, False, 1)
    assert len(delta.payload) < len(full.payload) / 4
    assert sha256(codec.encode(restore(delta.payload, restore(full.payload, None)))).digest() == delta.state_sha


@given(
    st.integers(1, 4),
    st.lists(st.sampled_from(["say", "vars", "checkpoint", "checkpoint", "pad", "suspend"]), max_size=25),
)
def test_every_checkpoint_restores_the_state_of_its_version_byte_for_byte(full_every: int, drawn: list[str]) -> None:
    book = Logbook()
    book.begin(config=Config(checkpoints=CheckpointPolicy(full_every=full_every)))
    for count, step in enumerate(drawn):
        match step:
            case "say":
                book.say(Message(role="user", content=count))
            case "vars":
                book.do(do.SetVars(document={**book.state.vars.document, f"k{count % 3}": count}))
            case "pad":
                book.do(do.WriteScratchpad(content=str(count)))
            case "checkpoint":
                book.do(do.TakeCheckpoint(label=str(count)))
            case "suspend":
                for move in ("suspend", "resume", "reactivate"):
                    book.do(do.MoveTo(event=move))
    for item in book.checkpoints:
        whole = to_bytes(book.steps[item.version])
        assert codec.encode(book.document(item.seq)) == whole
        assert sha256(whole).digest() == item.state_sha
        restored = states.from_bytes(codec.encode(book.document(item.seq)))
        assert to_bytes(states.fold(restored, book.events[item.version :])) == to_bytes(book.state)


def test_a_checkpoint_keeps_metadata_and_expiry() -> None:
    mark = Mark(id="c", trigger=Trigger.MANUAL, metadata={"why": "before the storm"})
    found = take(BLANK, mark, NOON)
    assert (found.metadata, found.expires_at, found.pinned) == (
        {"why": "before the storm"},
        NOON + 86_400_000_000,
        False,
    )


def test_a_delta_that_does_not_fit_its_base_is_refused() -> None:
    base = Base(1, {"a": 1})
    patch = codec.encode(diff.to_document(diff.diff({"a": 1}, {"a": 2})))
    assert restore(patch, base.document) == {"a": 2}
    with pytest.raises(Invalid):
        restore(patch, {"a": 5})


def test_the_envelope_keeps_what_the_draft_says() -> None:
    draft = Draft(Message(role="user"), agent="scout", child_agent="kid", target="t", turn=3)
    found = write(BLANK, GENESIS, [draft], msgspec.structs.replace(stamp(), key="k", epoch=2))
    event = found.events[0]
    assert (event.agent, event.child_agent, event.target, event.turn) == ("scout", "kid", "t", 3)
    assert (event.key, event.epoch, event.at, event.actor) == ("k", 2, NOON, "someone")


def test_a_state_holds_whatever_its_events_could_hold() -> None:
    """A session whose state could not be written could neither be suspended nor ended."""
    deep: Any = 1
    for _ in range(64):
        deep = {"a": deep}
    book = Logbook()
    book.begin(metadata=deep, config=Config(extra=deep))
    for _ in range(3):
        book.say(CompensationRegistered(name="undo", arguments={"all": deep["a"], "of": b"x" * (6 << 20)}))
        book.do(do.TakeCheckpoint())
    for item in book.checkpoints:
        assert states.document_bytes(book.document(item.seq)) == to_bytes(book.steps[item.version])
    assert [item.full for item in book.checkpoints] == [True, False, False]
    book.do(do.MoveTo(event="suspend"))
    assert states.from_bytes(to_bytes(book.state)) == book.state
