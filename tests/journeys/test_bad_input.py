"""Whatever is handed in, the answer is one of perdure's own errors and the session is as it was."""

import io
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import perdure
from perdure import CheckpointPolicy, Config
from perdure import events as ev
from perdure.core.errors import Invalid, NotFound, PerdureError, TooDeep, TooLarge, TurnRefused
from perdure.core.session.kinds import KINDS
from perdure.core.session.state import to_bytes

Opens = Callable[..., Awaitable[Any]]
Act = Callable[[Any, Any], Awaitable[Any]]
NAN = float("nan")
LONE = "\ud800"
UNKNOWN = "0192f0c4-7d1e-7abc-8def-0123456789ab"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def said(content: Any = "hello") -> ev.Message:
    return ev.Message(role="user", content=content)


async def unharmed(opens: Opens, session: Any, version: int, stored: bytes) -> None:
    """The session reads as before, here and for whoever opens the store anew."""
    for handle in (session, await (await opens()).session(session.id)):
        assert await handle.version() == version
        assert len(await handle.events()) == version
        assert to_bytes(await handle.state()) == stored
        assert (await handle.verify()).ok


REFUSED: dict[str, tuple[Act, type[PerdureError]]] = {
    # values that are not plain data
    "a message of NaN": (lambda s, db: s.append(said(NAN)), Invalid),
    "a message of infinity": (lambda s, db: s.append(said([1, float("inf")])), Invalid),
    "a message with a lone surrogate": (lambda s, db: s.append(said({"a": LONE})), Invalid),
    "a message with a number too large": (lambda s, db: s.append(said(2**64)), Invalid),
    "a message with a key that is a number": (lambda s, db: s.append(said({1: 2})), Invalid),
    "a message of an object": (lambda s, db: s.append(said(object())), Invalid),
    "a message that holds itself": (lambda s, db: s.append(said(circle())), Invalid),
    "a message nested too deep": (lambda s, db: s.append(said(nested(65))), TooDeep),
    "a message nested beyond reason": (lambda s, db: s.append(said(nested(100_000))), TooDeep),
    "a message too large": (lambda s, db: s.append(said("x" * (17 << 20))), TooLarge),
    "too many events": (lambda s, db: s.append([said()] * 5000), TooLarge),
    "too many bytes": (lambda s, db: s.append([said(b"x" * (15 << 20))] * 5), TooLarge),
    "vars of NaN": (lambda s, db: s.set_vars({"a": NAN}), Invalid),
    "vars nested too deep": (lambda s, db: s.set_vars({"a": nested(61)}), TooDeep),
    "vars too large": (lambda s, db: s.set_vars({"a": "x" * (5 << 20)}), TooLarge),
    "vars with a long key": (lambda s, db: s.set_vars({"k" * 2000: 1}), TooLarge),
    "vars with a lone surrogate as a key": (lambda s, db: s.set_vars({LONE: 1}), Invalid),
    "vars that are a list": (lambda s, db: s.set_vars([1]), Invalid),
    "patched vars of an object": (lambda s, db: s.patch_vars(a=object()), Invalid),
    "metadata of NaN": (lambda s, db: s.configure(metadata={"a": NAN}), Invalid),
    "metadata that is a list": (lambda s, db: s.configure(metadata=[1]), Invalid),
    # events
    "nothing": (lambda s, db: s.append(None), Invalid),
    "no events": (lambda s, db: s.append([]), Invalid),
    "a text for an event": (lambda s, db: s.append("hello"), Invalid),
    "a dict for an event": (lambda s, db: s.append([{"kind": "message"}]), Invalid),
    "a draft of a dict": (lambda s, db: s.append(ev.Draft({"a": 1})), Invalid),  # type: ignore[arg-type]
    "a class for an event": (lambda s, db: s.append(ev.Message), Invalid),
    "a kind of perdure's own": (lambda s, db: s.append(KINDS["moved"]()), Invalid),
    "an agent that is a number": (lambda s, db: s.append(ev.Draft(said(), agent=5)), Invalid),  # type: ignore[arg-type]
    "an agent with a lone surrogate": (lambda s, db: s.append(ev.Draft(said(), agent=LONE)), Invalid),
    "a target of bytes": (lambda s, db: s.append(ev.Draft(said(), target=b"x")), Invalid),  # type: ignore[arg-type]
    "a result without its call": (lambda s, db: s.append(ev.ToolFinished(call="c")), TurnRefused),
    # keys and versions
    "a key that is a number": (lambda s, db: s.append(said(), key=5), Invalid),
    "an empty key": (lambda s, db: s.append(said(), key=""), Invalid),
    "a long key": (lambda s, db: s.append(said(), key="k" * 257), Invalid),
    "a key with a lone surrogate": (lambda s, db: s.append(said(), key=LONE), Invalid),
    "a version that is a text": (lambda s, db: s.append(said(), expected="2"), PerdureError),
    # texts
    "a title that is a number": (lambda s, db: s.configure(title=5), Invalid),
    "a long title": (lambda s, db: s.configure(title="x" * 1001), Invalid),
    "a title with a lone surrogate": (lambda s, db: s.configure(title=LONE), Invalid),
    "tags that are one text": (lambda s, db: s.configure(tags="abc"), Invalid),
    "tags that are numbers": (lambda s, db: s.configure(tags=[5]), Invalid),
    "a configuration of unknown fields": (lambda s, db: s.configure(config={"colour": "red"}), Invalid),
    "a configuration of wrong types": (lambda s, db: s.configure(config=Config(model=5)), Invalid),  # type: ignore[arg-type]
    "a scratchpad that is a number": (lambda s, db: s.write_scratchpad(5), Invalid),
    "a scratchpad too large": (lambda s, db: s.write_scratchpad("x" * ((1 << 20) + 1)), TooLarge),
    "a scratchpad of an agent that is a number": (lambda s, db: s.write_scratchpad("x", agent=5), Invalid),
    "a scratchpad of a lone surrogate": (lambda s, db: s.write_scratchpad(LONE), Invalid),
    "a reason that is a number": (lambda s, db: s.suspend(5), Invalid),
    "a move that does not exist": (lambda s, db: s.move("levitate"), PerdureError),
    "a move that is a list": (lambda s, db: s.move(["suspend"]), PerdureError),
    # numbers
    "a state at a text": (lambda s, db: s.state(at="2"), Invalid),
    "a state at a version to come": (lambda s, db: s.state(at=2**70), NotFound),
    "a state at no version": (lambda s, db: s.state(at=0), NotFound),
    "a state at true": (lambda s, db: s.state(at=True), Invalid),
    "events after a text": (lambda s, db: s.events(after="1"), Invalid),
    "events up to a float": (lambda s, db: s.events(upto=1.5), Invalid),
    "the last no turns": (lambda s, db: s.turns(last=0), Invalid),
    "the last turns by a text": (lambda s, db: s.turns(last="1"), Invalid),
    "a branch at a text": (lambda s, db: s.branch(at="1"), Invalid),
    "a branch at a version to come": (lambda s, db: s.branch(at=99), NotFound),
    "a branch of an unknown kind": (lambda s, db: s.branch(kind="whim"), Invalid),
    "a branch with a list for a title": (lambda s, db: s.branch(title=["x"]), Invalid),
    "a branch with unknown settings": (lambda s, db: s.branch(config={"colour": 1}), Invalid),
    "a branch with a list for settings": (lambda s, db: s.branch(config=[1]), Invalid),
    "a rewind by a text": (lambda s, db: s.rewind("1"), Invalid),
    "a rewind by nothing": (lambda s, db: s.rewind(0), Invalid),
    "an edit of no turn": (lambda s, db: s.edit(1, "x"), NotFound),
    "an edit of a text": (lambda s, db: s.edit("1", "x"), Invalid),
    "a redaction of a text": (lambda s, db: s.redact("1"), Invalid),
    "a redaction of None": (lambda s, db: s.redact(None), Invalid),
    "a redaction of a version to come": (lambda s, db: s.redact(2**70), NotFound),
    "a prune to a text": (lambda s, db: s.prune("1"), Invalid),
    "a prune beyond the end": (lambda s, db: s.prune(99), Invalid),
    # money
    "money that is a text": (lambda s, db: s.reserve("r", "5"), Invalid),
    "money that is NaN": (lambda s, db: s.reserve("r", NAN), Invalid),
    "money below zero": (lambda s, db: s.reserve("r", -1), Invalid),
    "a reservation without a name": (lambda s, db: s.reserve("", 1), Invalid),
    "a reservation named by a number": (lambda s, db: s.reserve(5, 1), Invalid),
    "settling what was not reserved": (lambda s, db: s.settle("r", 1), NotFound),
    # checkpoints
    "a label that is a number": (lambda s, db: s.checkpoint(5), Invalid),
    "a long label": (lambda s, db: s.checkpoint("x" * 201), Invalid),
    "a checkpoint with a list for metadata": (lambda s, db: s.checkpoint("x", [1]), Invalid),
    "a checkpoint with metadata of NaN": (lambda s, db: s.checkpoint("x", {"a": NAN}), Invalid),
    "an unknown checkpoint": (lambda s, db: s.restore("nope"), NotFound),
    "a checkpoint that is a number": (lambda s, db: s.pin(5), Invalid),
    "a checkpoint with a lone surrogate": (lambda s, db: s.drop_checkpoint(LONE), Invalid),
    "resuming from an unknown checkpoint": (lambda s, db: s.resume("nope"), NotFound),
    # other sessions
    "a merge with a text": (lambda s, db: s.merge("x"), Invalid),
    "a merge with itself": (lambda s, db: s.merge(s), Invalid),
    "a diff with a text": (lambda s, db: s.diff("x"), Invalid),
    "an unknown conflict": (lambda s, db: s.resolve("x", {}), NotFound),
    "an id that is none": (lambda s, db: db.session("nope"), Invalid),
    "an id that is a number": (lambda s, db: db.session(5), Invalid),
    "an unknown id": (lambda s, db: db.session(UNKNOWN), NotFound),
    "an account that is a number": (lambda s, db: db.account(5), Invalid),
    "an account with a lone surrogate": (lambda s, db: db.account(LONE), Invalid),
    # creating
    "a session with a number for a title": (lambda s, db: db.create(5), Invalid),
    "a session with an owner of None": (lambda s, db: db.create(owner=None), Invalid),
    "a session with a text for tags": (lambda s, db: db.create(tags="abc"), Invalid),
    "a session with a number for tags": (lambda s, db: db.create(tags=5), Invalid),
    "a session with a bad id": (lambda s, db: db.create(id="x"), Invalid),
    "a session with a bad configuration": (lambda s, db: db.create(config={"max_tokens": "many"}), Invalid),
    "a session with wrong settings": (lambda s, db: db.create(config=Config(max_tokens="x")), Invalid),  # type: ignore[arg-type]
    "a session with a list for settings": (lambda s, db: db.create(config=[1]), Invalid),
    "a session with a negative cap": (lambda s, db: db.create(config={"max_cost": -1}), Invalid),
    "a session with vars of a foreign class": (lambda s, db: db.create(vars=object()), Invalid),
    "a session with a number for isolation": (lambda s, db: db.create(isolation=5), Invalid),
    "a session with criteria of numbers": (lambda s, db: db.create(exit_criteria=[1]), Invalid),
    # finding
    "an unknown condition": (lambda s, db: db.find(colour="red"), Invalid),
    "an unknown condition to count by": (lambda s, db: db.count(colour="red"), Invalid),
    "an owner that is a number": (lambda s, db: db.find(owner=5), Invalid),
    "an owner with a lone surrogate": (lambda s, db: db.count(owner=LONE), Invalid),
    "a text with a lone surrogate": (lambda s, db: db.count(text=LONE), Invalid),
    "a phase that does not exist": (lambda s, db: db.find(phase="asleep"), Invalid),
    "a phase that is a number": (lambda s, db: db.find(phase=5), Invalid),
    "tags to find by that are one text": (lambda s, db: db.find(tags="ab"), Invalid),
    "metadata to find by of NaN": (lambda s, db: db.count(metadata={"a": NAN}), Invalid),
    "metadata to find by that is a list": (lambda s, db: db.find(metadata=[1]), Invalid),
    "a time that is a text": (lambda s, db: db.find(created_after="yesterday"), Invalid),
    "a time too far": (lambda s, db: db.count(created_after=2**70), Invalid),
    "a time beyond what a store compares": (lambda s, db: db.count(created_after=2**63), Invalid),
    "a time too far to archive by": (lambda s, db: db.archive_ended(2**70), Invalid),
    "a time too long ago to archive by": (lambda s, db: db.archive_ended(-(2**70)), Invalid),
    # content
    "a closed file": (lambda s, db: db.blobs.put(closed()), Invalid),
    "a file that cannot be read": (lambda s, db: db.blobs.put(unreadable()), Invalid),
    "a page of nothing": (lambda s, db: db.find(limit=0), Invalid),
    "a page of everything": (lambda s, db: db.find(limit=10**6), Invalid),
    "a page of true": (lambda s, db: db.find(limit=True), Invalid),
    "an order that does not exist": (lambda s, db: db.find(order="random"), Invalid),
    "a parent that is no id": (lambda s, db: db.find(parent="x"), Invalid),
    # moving in
    "an import of nothing": (lambda s, db: db.import_jsonl([]), Invalid),
    "an import of nonsense": (lambda s, db: db.import_jsonl(["{", "}"]), Invalid),
    "an import of a number": (lambda s, db: db.import_jsonl(5), Invalid),
}


def closed() -> Any:
    file = io.BytesIO(b"content")
    file.close()
    return file


def unreadable() -> Any:
    return io.BufferedWriter(io.BytesIO())  # type: ignore[type-var]


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize("what", REFUSED)
async def test_bad_input_is_refused_by_name_and_changes_nothing(opens: Opens, what: str) -> None:
    db = await opens()
    session = await db.create("trip", vars={"a": 1})
    version, stored = await session.version(), to_bytes(await session.state())
    act, error = REFUSED[what]
    with pytest.raises(error) as refusal:
        await act(session, db)
    assert isinstance(refusal.value, PerdureError)
    assert refusal.value.message
    await unharmed(opens, session, version, stored)
    assert await db.count() == 1


# ── every field of every event ────────────────────────────────────────────────────────────────────

JUNK: list[Any] = [
    None, True, 5, -1, 2**70, 1.5, NAN, "x", LONE, b"x", [], [1], (1,), {}, {"a": 1}, {1: 1}, {"a": NAN}, object(), int,
]  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {
    "message": {"role": "user"},
    "tool_started": {"call": "c"},
    "tool_finished": {"call": "c"},
    "tool_asked": {"call": "d"},
    "tool_bound": {"name": "search"},
}
FIELDS = [
    (kind, field.name) for kind, cls in sorted(KINDS.items()) if cls.callers for field in msgspec.structs.fields(cls)
]


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_field_of_any_type_is_stored_readably_or_refused(kind: str, field: str) -> None:
    with perdure.open(":memory:") as db:
        session = db.create(config=Config(checkpoints=CheckpointPolicy(full_every=2)))
        session.append([ev.TurnStarted(), ev.ToolAsked(call="c", name="look")])
        for junk in JUNK:
            payload = KINDS[kind](**NEEDED.get(kind, {}) | {field: junk})
            trial = session.branch(at=2) if kind == "turn_started" else session
            before = trial.version()
            try:
                after = trial.append(payload)
            except PerdureError:
                assert trial.version() == before
                continue
            assert after > before
            assert trial.events()[-1].data == trial.events()[-1].data
            if trial.info().open_turn is None and kind != "turn_started":
                session.append([ev.TurnStarted(), ev.ToolAsked(call="c", name="look")])
            elif kind in {"tool_finished", "tool_asked"}:
                session.recover()
                session.append([ev.TurnStarted(), ev.ToolAsked(call="c", name="look")])
        session.checkpoint()
        session.suspend()
        assert session.verify().ok


@pytest.mark.parametrize("path", ["", "a\0b", "mysql://host/db", "redis://x"])
def test_what_is_no_path_to_a_store_is_refused(path: str) -> None:
    with pytest.raises(Invalid):
        perdure.open(path)


@pytest.mark.parametrize(
    "names", [{"tenant": ""}, {"actor": ""}, {"tenant": "x" * 300}, {"actor": 5}, {"tenant": LONE}]
)
def test_whoever_opens_a_store_has_a_name(names: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        perdure.open(":memory:", **names)


def test_every_error_reads_well_and_carries_its_facts() -> None:
    with perdure.open(":memory:") as db:
        session = db.create()
        with pytest.raises(PerdureError) as refusal:
            session.append(said(), expected=99)
    error = refusal.value
    assert (error.code, error.found, error.expected) == ("version_conflict", 2, 99)
    with pytest.raises(AttributeError, match="has no field 'colour'"):
        _ = error.colour
