"""Anything that can be done to sessions, in any order, beside a model that is too simple to be wrong.

Two handles on one store take turns, so whatever one of them has cached is soon stale; the store is closed and opened
again; snapshots are taken every three events. After every step the session that was touched is compared with the model,
at the end all of them are, at every version. In RAM, in a file and on a server, each sealed and in the clear.

PERDURE_LONG=1 looks at fifty times as many histories, each twice as long; PERDURE_LONG=0.2 at a fifth of those.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import perdure
from perdure import Adaptive, CallerError, CheckpointPolicy, Config, ConflictError, SnapshotPolicy
from perdure import events as ev
from perdure.core.errors import AlreadyExists, PruneRefused
from perdure.core.session.kinds import KINDS
from perdure.core.session.state import to_bytes
from perdure.testing import FixedAmbient
from tests.core.session.plain_values import similar_documents
from tests.journeys.histories import History, examine, hand_over, states_of
from tests.stores.postgres_server import Databases

LONG = float(os.environ.get("PERDURE_LONG") or 0)
DAY = 86_400.0
chance = st.integers(0, 10_000)
policies = st.sampled_from(
    [
        None,
        CheckpointPolicy(full_every=3),
        CheckpointPolicy(full_every=4, on_kinds=("message",)),
        CheckpointPolicy(full_every=3, pre_mutation=True),
        CheckpointPolicy(adaptive=Adaptive(base=10, least=1, most=60), full_every=5),
        CheckpointPolicy(periodic=20, ttl=None),
    ]
)


class MixedHistories(RuleBasedStateMachine):
    """Random work on a store in a file. Others say where theirs are and whether another handle sees the same."""

    sealed = True
    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="perdure-")
        self.places = {"here": self.place("here"), "there": self.place("there")}
        self.ambient = self.surroundings()
        self.living: dict[str, History] = {}
        self.elsewhere: dict[str, History] = {}
        self.exports: dict[str, tuple[list[bytes], History]] = {}
        self.handles = [self._open("here") for _ in range(2 if self.shared else 1)]
        self.other = self._open("there")
        self.turn_of = 0

    def place(self, name: str) -> str:
        """Where a store lies that nobody has used yet."""
        return os.path.join(self.folder, f"{name}.db")

    def surroundings(self) -> FixedAmbient:
        """The clock and the chance of a history."""
        return FixedAmbient()

    def leave(self) -> None:
        """Nobody needs the places any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _open(self, name: str) -> perdure.Perdure:
        snapshots = SnapshotPolicy(events=3)
        return perdure.open(self.places[name], ambient=self.ambient, snapshots=snapshots, seal=self.sealed)

    # ── picking, doing, comparing ──

    @property
    def db(self) -> perdure.Perdure:
        """The handles take turns."""
        self.turn_of += 1
        return self.handles[self.turn_of % len(self.handles)]

    def pick(self, choice: int) -> tuple[perdure.Session, History]:
        """One of the living, by age: ids come from chance, which is not always the same."""
        name = list(self.living)[choice % len(self.living)]
        return self.db.session(name), self.living[name]

    def attempt(self, session: perdure.Session, history: History, act: Callable[[], Any]) -> Any:
        """Do something to a session; if it is refused nothing may have changed. Either way compare."""
        before = history.version
        try:
            done = act()
        except (CallerError, ConflictError):
            assert session.version() == before
            done = None
        self.catch_up(session, history)
        return done

    def catch_up(self, session: perdure.Session, history: History) -> None:
        history.see(session.events(after=history.version))
        middle = (history.anchor + history.version + 1) // 2
        examine(history, session, self.ambient.now(), versions=[max(middle, history.anchor, 1), history.version])

    def take_over(self, made: perdure.Session, history: History) -> None:
        """A new session is there."""
        self.living[made.id] = history
        self.catch_up(made, history)

    # ── ordinary work ──

    @initialize(policy=policies, document=st.none() | similar_documents)
    def begin(self, policy: CheckpointPolicy | None, document: dict[str, Any] | None) -> None:
        self.create(policy, document)

    @rule(policy=policies, document=st.none() | similar_documents)
    def another(self, policy: CheckpointPolicy | None, document: dict[str, Any] | None) -> None:
        self.create(policy, document)

    def create(self, policy: CheckpointPolicy | None, document: dict[str, Any] | None) -> None:
        if len(self.living) < 8:
            made = self.db.create("a session", config=Config(checkpoints=policy), vars=document, tags=["x"])
            self.take_over(made, History([]))

    @rule(choice=chance, text=st.text(max_size=5), whole=st.booleans(), tool=st.booleans())
    def turn(self, choice: int, text: str, whole: bool, tool: bool) -> None:
        session, history = self.pick(choice)
        call = f"call-{history.version}"
        events: list[Any] = [ev.TurnStarted(), ev.Message(role="user", content=text)]
        if tool:
            asked = ev.ToolAsked(call=call, name="look", arguments={"for": text})
            events += [asked, ev.ToolStarted(call=call, key="k"), ev.ToolFinished(call=call, result=[text])]
        events += [ev.Message(role="assistant", content={"re": text}), ev.TurnFinished(tokens_in=3, tokens_out=4)]
        for append in [events] if whole else [[event] for event in events]:
            self.attempt(session, history, lambda append=append: session.append(append))

    @rule(choice=chance, step=st.sampled_from(["start", "ask", "finish", "end", "roll back", "recover"]))
    def turn_step(self, choice: int, step: str) -> None:
        session, history = self.pick(choice)
        acts: dict[str, Callable[[], Any]] = {
            "start": lambda: session.append([ev.TurnStarted(), ev.Message(role="user", content="go")]),
            "ask": lambda: session.append(ev.ToolAsked(call="c", name="look")),
            "finish": lambda: session.append(ev.ToolFinished(call="c", error="none")),
            "end": lambda: session.append(ev.TurnFinished()),
            "roll back": lambda: session.roll_back("oops"),
            "recover": session.recover,
        }
        self.attempt(session, history, acts[step])

    @rule(choice=chance, document=similar_documents)
    def set_vars(self, choice: int, document: dict[str, Any]) -> None:
        session, history = self.pick(choice)
        self.attempt(session, history, lambda: session.set_vars(document))

    @rule(choice=chance, content=st.text(max_size=8), agent=st.sampled_from([None, "scout"]))
    def write_scratchpad(self, choice: int, content: str, agent: str | None) -> None:
        session, history = self.pick(choice)
        self.attempt(session, history, lambda: session.write_scratchpad(content, agent=agent))

    @rule(choice=chance, title=st.text(max_size=3), metadata=similar_documents)
    def configure(self, choice: int, title: str, metadata: dict[str, Any]) -> None:
        session, history = self.pick(choice)
        self.attempt(session, history, lambda: session.configure(title=title, metadata=metadata))

    @rule(choice=chance, move=st.sampled_from(["suspend", "resume", "resume", "resume", "complete", "terminate"]))
    def move(self, choice: int, move: str) -> None:
        session, history = self.pick(choice)
        self.attempt(session, history, getattr(session, move))

    @rule(seconds=st.sampled_from([0.001, 1.0, 30.0, DAY]))
    def wait(self, seconds: float) -> None:
        self.ambient.advance(seconds)

    # ── checkpoints ──

    @rule(choice=chance, label=st.sampled_from(["", "here"]))
    def checkpoint(self, choice: int, label: str) -> None:
        session, history = self.pick(choice)
        self.attempt(session, history, lambda: session.checkpoint(label))

    @precondition(lambda self: any(history.checkpoints for history in self.living.values()))
    @rule(choice=chance, which=chance, act=st.sampled_from(["pin", "unpin", "drop_checkpoint"]))
    def keep_or_drop(self, choice: int, which: int, act: str) -> None:
        owners = [name for name, history in self.living.items() if history.checkpoints]
        name = owners[choice % len(owners)]
        session, history = self.db.session(name), self.living[name]
        checkpoint = list(history.checkpoints)[which % len(history.checkpoints)]
        self.attempt(session, history, lambda: getattr(session, act)(checkpoint))

    @rule()
    def expire(self) -> None:
        self.db.expire_checkpoints()
        for name, history in self.living.items():
            self.catch_up(self.db.session(name), history)

    # ── branches ──

    @rule(choice=chance, where=chance, kind=st.sampled_from(["checkpoint", "checkpoint", "sim", "pre_steer", "dream"]))
    def branch(self, choice: int, where: int, kind: str) -> None:
        session, history = self.pick(choice)
        least = max(1, history.anchor)
        at = least + where % (history.version - least + 1)
        if len(self.living) < 8:
            made = self.attempt(session, history, lambda: session.branch(at=at, kind=kind))
            if made is not None:
                self.take_over(made, history.branch(at))

    @rule(choice=chance, turns=st.integers(1, 2), edits=st.booleans())
    def rewind(self, choice: int, turns: int, edits: bool) -> None:
        session, history = self.pick(choice)
        count = session.info().turns
        if len(self.living) < 8:
            edit = lambda: session.edit(max(1, count - turns + 1), "in other words")  # noqa: E731
            made = self.attempt(session, history, edit if edits else lambda: session.rewind(turns))
            if made is not None:
                at = made.info().branched_at
                assert at is not None
                self.take_over(made, history.branch(at))

    @rule(choice=chance, policy=st.sampled_from(["escalate", "last_writer_wins", "ours", "theirs"]), other=chance)
    def merge(self, choice: int, policy: str, other: int) -> None:
        session, history = self.pick(choice)
        source, _ = self.pick(other)
        report = self.attempt(session, history, lambda: session.merge(source, policy, summary="both"))
        if report is not None and report.conflict_id is not None:
            history.pending[report.conflict_id] = report.conflicts

    @precondition(lambda self: any(history.pending for history in self.living.values()))
    @rule(choice=chance, side=st.sampled_from(["ours", "theirs", "base", 7]))
    def resolve(self, choice: int, side: Any) -> None:
        owners = [name for name, history in self.living.items() if history.pending]
        name = owners[choice % len(owners)]
        session, history = self.db.session(name), self.living[name]
        pending = session.state().links.conflicts
        for conflict in list(history.pending):
            paths = [spelled(item["path"]) for item in pending[conflict].conflicts] if conflict in pending else []
            if self.attempt(session, history, lambda c=conflict, p=paths: session.resolve(c, dict.fromkeys(p, side))):
                del history.pending[conflict]

    # ── taking away, moving ──

    @rule(choice=chance, which=chance, more=st.booleans())
    def redact(self, choice: int, which: int, more: bool) -> None:
        session, history = self.pick(choice)
        own = [
            version
            for version in range(history.anchor + 1, history.version + 1)
            if history.fact(version).rows == session.id and KINDS[history.fact(version).kind].redactable
        ]
        if own:
            wanted = {own[which % len(own)], own[-1]} if more else {own[which % len(own)]}
            before = history.version
            session.redact(wanted, "asked for")
            assert session.version() > before
            for version in wanted:
                history.fact(version).redacted = True
            for name, sharing in self.living.items():
                self.catch_up(self.db.session(name), sharing)

    @rule(choice=chance, where=chance)
    def prune(self, choice: int, where: int) -> None:
        session, history = self.pick(choice)
        upto = history.anchor + 1 + where % max(1, history.version - history.anchor)
        folded = states_of(history, session.events())
        try:
            real = session.prune(upto)
        except (CallerError, PruneRefused):
            pass
        else:
            history.prune(real, folded[real])
        self.catch_up(session, history)

    @rule(choice=chance)
    def erase(self, choice: int) -> None:
        session, _ = self.pick(choice)
        if len(self.living) > 1:
            session.erase()
            del self.living[session.id]
            hand_over(session.id, self.living)
            for name, history in self.living.items():
                self.catch_up(self.db.session(name), history)

    @rule(choice=chance)
    def export(self, choice: int) -> None:
        session, history = self.pick(choice)
        lines = session.export()
        self.exports[session.id] = (lines, history.copy(session.id))
        if session.id in self.elsewhere:
            self.other.session(session.id).erase()
        made = self.other.import_jsonl(lines)
        assert made.id == session.id
        self.elsewhere[made.id] = history.copy(made.id)
        examine(self.elsewhere[made.id], made, self.ambient.now(), versions=[history.version])

    @precondition(lambda self: self.exports)
    @rule(choice=chance)
    def import_back(self, choice: int) -> None:
        name = list(self.exports)[choice % len(self.exports)]
        lines, history = self.exports[name]
        if name not in self.living and len(self.living) < 8:
            made = self.db.import_jsonl(lines)
            self.take_over(made, history.copy(made.id))
        elif name in self.living and history.version == self.living[name].version:
            self.db.import_jsonl(lines)
            self.catch_up(self.db.session(name), self.living[name])
        elif name in self.living:
            try:
                self.db.import_jsonl(lines)
            except AlreadyExists:
                self.catch_up(self.db.session(name), self.living[name])

    @rule()
    def reopen(self) -> None:
        if self.shared:
            self.handles.pop(0).close()
            self.handles.append(self._open("here"))

    # ── the end ──

    def teardown(self) -> None:
        try:
            for db in self.handles:
                self._examine_all(db, self.living)
            self._examine_all(self.other, self.elsewhere)
        finally:
            for db in (*self.handles, self.other):
                db.close()
            self.leave()

    def _examine_all(self, db: perdure.Perdure, expected: dict[str, History]) -> None:
        assert {row.session for row in db.find(limit=100).items} == set(expected)
        assert db.count() == len(expected)
        for name, history in expected.items():
            session = db.session(name)
            examine(history, session, self.ambient.now())
            report = session.verify()
            assert report.ok, report.problems
            row = session.info()
            state = session.state()
            assert (row.version, row.digest) == (history.version, history.facts[-1].digest)
            assert (row.phase, row.title, row.turns) == (state.phase.value, state.origin.title, state.turns.count)
            assert to_bytes(state)


def spelled(path: list[Any]) -> str:
    """A conflict's path as `resolve` wants it."""
    from perdure.core.session.values import path_text

    return path_text(tuple(path))


class ClearHistories(MixedHistories):
    """The same in the clear."""

    sealed = False


class VolatileHistories(MixedHistories):
    """The same in RAM, where every handle has a store of its own."""

    shared = False

    def place(self, name: str) -> str:
        return ":memory:"


class ClearVolatileHistories(VolatileHistories):
    """The same in the clear."""

    sealed = False


class PostgresHistories(MixedHistories):
    """The same on a server."""

    databases: ClassVar[Databases]
    told: ClassVar[Iterator[int]] = count()

    def place(self, name: str) -> str:
        return self.databases.take(sealed=self.sealed)

    def surroundings(self) -> FixedAmbient:
        """Another for each history: they share a vault, which keeps every salt that was drawn."""
        return FixedAmbient(seed=str(next(self.told)).encode())

    def leave(self) -> None:
        super().leave()
        for address in self.places.values():
            self.databases.give_back(address, sealed=self.sealed)


class ClearPostgresHistories(PostgresHistories):
    """The same in the clear."""

    sealed = False


def at_most(examples: int, steps: int) -> settings:
    return settings(
        max_examples=round(examples * 50 * LONG) if LONG else examples,
        stateful_step_count=steps * (2 if LONG else 1),
        derandomize=not LONG,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class TestInAFile(MixedHistories.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(35, 40)


class TestInAClearFile(ClearHistories.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(20, 40)


class TestInMemory(VolatileHistories.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(40, 40)


class TestInClearMemory(ClearVolatileHistories.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(80, 40)


@pytest.fixture
def on_a_server(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases for the histories, and the keys of the sealed ones."""
    monkeypatch.setattr(PostgresHistories, "databases", databases, raising=False)
    for name, value in databases.keys.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("on_a_server")
class TestOnAServer(PostgresHistories.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(6, 40)


@pytest.mark.usefixtures("on_a_server")
class TestOnAClearServer(ClearPostgresHistories.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(6, 40)
