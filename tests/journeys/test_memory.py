"""Anything that can be done to memories, in any order, beside a model that is too simple to be wrong.

Two nodes on one store take turns, so that what one of them has at hand is soon stale. After every step a third one,
which knows nothing yet, reads the log: it must know the same memories, in the same order, and find the same. In RAM, in
a file and on a server, each sealed and in the clear. PERDURE_LONG=1 looks at fifty times as many histories.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from typing import Any, ClassVar

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.compose.wiring import Services, embedded
from perdure.core.errors import Invalid, NotFound, QuotaReached
from perdure.core.memory.parts import Memory, MemoryType, Source, Status, vault
from perdure.core.memory.plans import PLANS
from perdure.core.memory.requests import Changing, Keeping, Seeking
from perdure.core.session.memories import MemoriesEmbedded
from perdure.indexes.ram import RamIndex
from perdure.sealing.given import Given
from perdure.services.memories import Memories
from perdure.services.shelves import Shelves
from perdure.testing import FixedAmbient
from perdure.waiting import drive
from tests.services.shelved import Hashing, WordIndex, everything, much, no_flags, remembering
from tests.stores.postgres_server import Databases

LONG = float(os.environ.get("PERDURE_LONG") or 0)
SPACE = vault("ana")
WORDS = ("tea", "rain", "pool", "Lisbon", "fee", "night")
chance = st.integers(0, 10_000)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
times = st.none() | st.integers(1_700_000_000, 1_800_000_000).map(lambda second: second * 1_000_000)
keepings = st.builds(
    Keeping,
    content=texts,
    memory_type=st.sampled_from(list(MemoryType)),
    importance=st.sampled_from([0.0, 0.25, 1.0]),
    metadata=st.dictionaries(st.sampled_from(["chain", "pool"]), st.integers(0, 3), max_size=2),
    author=st.sampled_from(["", "Ben"]),
    source=st.builds(Source, session=st.sampled_from(["", "s1", "s2"])),
    subjects=st.sampled_from([(), ("Cleo",)]),
    thread=st.sampled_from(["", "t"]),
    valid_from=times,
)
changings = st.builds(
    Changing,
    content=st.none() | texts,
    importance=st.none() | st.sampled_from([0.5, 0.75]),
    metadata=st.none() | st.just({"chain": 9}),
    valid_to=st.none() | st.just(1_900_000_000_000_000),
    reason=st.just("it changed"),
)


class Model(msgspec.Struct):
    """What ought to be remembered of a memory."""

    content: str
    importance: float
    metadata: dict[str, Any]
    session: str
    status: Status = Status.LIVE
    by: str = ""
    supersedes: tuple[str, ...] = ()
    found: int = 0


class Remembering(RuleBasedStateMachine):
    """Random work on the memories of a store in RAM. Others say where theirs are."""

    sealed: ClassVar[bool | None] = True
    by_words: ClassVar[bool] = True
    """Whether nothing is found that has no word in common with the query."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="perdure-")
        self.place = self.taken()
        self.ambient = self.surroundings()
        self.services: Services = embedded(self.place, ambient=self.ambient, keys=self.keys())
        self.embedder = Hashing()
        self.nodes = [self.node(), self.node()]
        self.turn_of = 0
        self.model: dict[str, Model] = {}
        self.plan = "unlimited"

    def taken(self) -> str:
        """Where a store lies that nobody has used yet."""
        return ":memory:"

    def keys(self) -> Given:
        """How it is sealed."""
        return Given(False) if not self.sealed else Given(True)

    def surroundings(self) -> FixedAmbient:
        """The clock and the chance of a history."""
        return FixedAmbient()

    def node(self) -> Memories:
        """One that has nothing at hand, with an index too simple to be wrong."""
        return remembering(self.services.sessions, self.services.erasure, embedder=self.embedder)

    @property
    def memories(self) -> Memories:
        """The nodes take turns."""
        self.turn_of += 1
        return self.nodes[self.turn_of % len(self.nodes)]

    def gives_way_later(self, memory: Memory) -> bool:
        """Whether what took its place is not so yet."""
        ends = memory.valid_to
        return memory.status is Status.SUPERSEDED and ends is not None and ends > self.ambient.now()

    def live(self) -> list[str]:
        return [id for id, one in self.model.items() if one.status is Status.LIVE]

    def kept(self, asked: tuple[Keeping, ...], made: tuple[Memory, ...]) -> None:
        for one, memory in zip(asked, made, strict=True):
            for old in one.supersedes:
                if self.model[old].status is Status.LIVE:
                    self.model[old].status, self.model[old].by = Status.SUPERSEDED, memory.id
            self.model[memory.id] = Model(
                content=one.content,
                importance=one.importance,
                metadata=one.metadata,
                session=one.source.session,
                supersedes=one.supersedes,
            )

    # ── what can be done ──

    @initialize(asked=st.lists(keepings, min_size=5, max_size=8).map(tuple))
    def begin(self, asked: tuple[Keeping, ...]) -> None:
        self.kept(asked, drive(self.memories.keep(SPACE, asked)))

    @rule(asked=st.lists(keepings, min_size=1, max_size=4).map(tuple), seconds=st.integers(0, 90_000))
    def keep(self, asked: tuple[Keeping, ...], seconds: int) -> None:
        self.ambient.advance(seconds)
        room = PLANS[self.plan].memories
        if room is not None and len(self.live()) + len(asked) > room:
            with pytest.raises(QuotaReached):
                drive(self.memories.keep(SPACE, asked))
            return
        self.kept(asked, drive(self.memories.keep(SPACE, asked)))

    @precondition(lambda self: self.live())
    @rule(asked=keepings, choices=st.lists(chance, min_size=1, max_size=3))
    def keep_instead(self, asked: Keeping, choices: list[int]) -> None:
        """What takes the place of others, as a consolidation would have it."""
        live = self.live()
        olds = tuple({live[choice % len(live)] for choice in choices})
        instead = msgspec.structs.replace(asked, supersedes=olds, source=Source(kind="consolidation"))
        self.kept((instead,), drive(self.memories.keep(SPACE, (instead,))))

    @rule(asked=keepings, repeated=st.booleans())
    def keep_under_a_key(self, asked: Keeping, repeated: bool) -> None:
        key = f"key {self.turn_of}"
        made = drive(self.memories.keep(SPACE, (asked,), key=key))
        self.kept((asked,), made)
        if repeated:
            assert drive(self.memories.keep(SPACE, (asked,), key=key)) == made

    @precondition(lambda self: self.model)
    @rule(choice=chance, asked=changings)
    def update(self, choice: int, asked: Changing) -> None:
        id = list(self.model)[choice % len(self.model)]
        one = self.model[id]
        if one.status is not Status.LIVE or asked == Changing(reason=asked.reason):
            with pytest.raises(Invalid):
                drive(self.memories.update(SPACE, id, asked))
            return
        made = drive(self.memories.update(SPACE, id, asked))
        importance = one.importance if asked.importance is None else asked.importance
        metadata = one.metadata if asked.metadata is None else asked.metadata
        if asked.content in (None, one.content):
            assert made.id == id
            one.importance, one.metadata = importance, metadata
        else:
            one.status, one.by = Status.SUPERSEDED, made.id
            self.model[made.id] = Model(
                content=made.content, importance=importance, metadata=metadata, session=one.session, supersedes=(id,)
            )
            assert made.content == asked.content

    @precondition(lambda self: self.model)
    @rule(choice=chance, status=st.sampled_from([Status.LIVE, Status.ARCHIVED, Status.QUARANTINED]))
    def move(self, choice: int, status: Status) -> None:
        id = list(self.model)[choice % len(self.model)]
        one = self.model[id]
        assert drive(self.memories.move(SPACE, [id], status, "because")) == (one.status is not status)
        away = one.status not in (Status.LIVE, Status.SUPERSEDED)
        one.status = Status.SUPERSEDED if status is Status.LIVE and away and one.by in self.model else status
        one.by = "" if one.status is Status.LIVE else one.by

    @precondition(lambda self: self.model)
    @rule(choices=st.lists(chance, min_size=1, max_size=3))
    def forget(self, choices: list[int]) -> None:
        wanted = {list(self.model)[choice % len(self.model)] for choice in choices}
        every = set(wanted)
        while more := {old for id in every for old in self.before(id)} - every:
            every |= more
        while more := {same for id in every for same in self.same(id)} - every:
            every |= more
        assert drive(self.memories.forget(SPACE, [*wanted, "nobody"])) == len(every)
        self.lose(every)

    def before(self, id: str) -> set[str]:
        """What a memory took the place of, unless that counts again."""
        olds = {old for old, one in self.model.items() if one.by == id or old in self.model[id].supersedes}
        return {old for old in olds if self.model[old].status is not Status.LIVE}

    def same(self, id: str) -> set[str]:
        """What took the place of a memory and has its words, and what else that took the place of and has them."""
        words = set(self.model[id].content.split())
        after = {newer for newer in self.model if id in self.before(newer)}
        said = {other for other, one in self.model.items() if words <= set(one.content.split())}
        after = {newer for newer in after if newer in said or self.consolidated(newer)}
        return after | {other for newer in after for other in self.before(newer) if other in said}

    @rule(session=st.sampled_from(["s1", "s2"]))
    def forget_source(self, session: str) -> None:
        meant = {id for id, one in self.model.items() if one.session == session}
        while more := {
            id
            for id, one in self.model.items()
            if id not in meant and one.session == "" and one.supersedes and not meant.isdisjoint(one.supersedes)
            if self.consolidated(id)
        }:
            meant |= more
        told = drive(self.memories.forgetting.forget_source(session))
        assert told == ({SPACE: len(meant)} if meant else {})
        for one in self.model.values():
            if one.status is Status.SUPERSEDED and one.by in meant:
                one.status, one.by = Status.LIVE, ""
        self.lose(meant)

    def consolidated(self, id: str) -> bool:
        return drive(self.nodes[0].get(SPACE, id)).source.kind == "consolidation"

    def lose(self, gone: set[str]) -> None:
        """The log has lost these; what they had superseded by their own word, nobody has superseded."""
        for id in gone:
            self.model.pop(id)
        for one in self.model.values():
            if one.status is Status.SUPERSEDED and one.by in gone:
                one.status, one.by = Status.LIVE, ""

    @rule(name=st.sampled_from(["free", "premium", "unlimited"]))
    def put_on_a_plan(self, name: str) -> None:
        drive(self.memories.plan(SPACE, name))
        self.plan = name

    @rule(query=texts, k=st.integers(1, 5))
    def search(self, query: str, k: int) -> None:
        try:
            found = drive(self.memories.search(SPACE, Seeking(query=query, top_k=k)))
        except QuotaReached:
            assert PLANS[self.plan].queries is not None
            return
        asked = set(query.split())
        for scored in found:
            one = self.model[scored.memory.id]
            assert one.status is Status.LIVE or (
                one.status is Status.SUPERSEDED and self.gives_way_later(scored.memory)
            )
            assert one.content == scored.memory.content
            assert not self.by_words or asked & set(one.content.split())
            one.found += 1

    @rule()
    def write_uses_down(self) -> None:
        for node in self.nodes:
            drive(node.close())
        for memory in drive(self.node().list(SPACE, statuses=list(Status), limit=1000)).items:
            assert memory.accesses == self.model[memory.id].found

    @precondition(lambda self: self.model)
    @rule()
    def embed_anew(self) -> None:
        """Another embedder's vectors come; they mean nothing here, and go when one of theirs is forgotten."""
        vectors = dict.fromkeys(self.model, b"other")
        payload = MemoriesEmbedded(embedder="another", vectors=vectors)
        drive(self.memories.shelves.write(SPACE, lambda _: [payload]))

    # ── what must be so ──

    @invariant()
    def a_node_that_knows_nothing_reads_the_same(self) -> None:
        cold = self.node()
        read = drive(cold.shelves.look(SPACE))
        for node in self.nodes:
            warm = drive(node.shelves.look(SPACE))
            assert everything(warm.shelf) == everything(read.shelf)
            assert len(warm.index) == len(read.index) == len(read.shelf)
            if isinstance(warm.index, WordIndex) and isinstance(read.index, WordIndex):
                assert warm.index.items == read.index.items
            for query in WORDS:
                assert warm.index.search(query, k=100) == read.index.search(query, k=100)

    @invariant()
    def what_is_remembered_is_what_the_model_says(self) -> None:
        shelf = drive(self.nodes[self.turn_of % 2].shelves.look(SPACE)).shelf
        assert [*shelf.memories] == [*self.model]
        for id, one in self.model.items():
            memory = shelf.memories[id]
            assert (memory.content, memory.importance, memory.status) == (one.content, one.importance, one.status)
            assert (memory.metadata, memory.source.session) == (one.metadata, one.session)
            if memory.status is Status.SUPERSEDED:
                assert memory.superseded_by == one.by
                assert memory.valid_to is not None
        assert shelf.count() == len(self.live())

    def teardown(self) -> None:
        try:
            head = self.nodes[0].shelves.session_of(SPACE)
            try:
                assert drive(self.services.verifying.verify(head)).ok
            except NotFound:
                assert not self.model
        finally:
            drive(self.services.store.close())
            shutil.rmtree(self.folder, ignore_errors=True)
            self.leave()

    def leave(self) -> None:
        """Nobody needs the place any more."""


class ClearRemembering(Remembering):
    """The same in the clear."""

    sealed = False


class RealRemembering(ClearRemembering):
    """The same with the index that everybody has, without vectors; it has more to go by than words."""

    by_words = False

    def node(self) -> Memories:
        shelves = Shelves(self.services.sessions, lambda: None, RamIndex, much())
        return Memories(shelves, self.services.erasure, no_flags)


class FileRemembering(Remembering):
    """The same in a file."""

    def taken(self) -> str:
        return os.path.join(self.folder, "store.db")

    def keys(self) -> Given:
        return Given(False) if not self.sealed else Given(True, f"{self.folder}/master", f"{self.folder}/vault")


class ClearFileRemembering(FileRemembering):
    """The same in the clear."""

    sealed = False


class PostgresRemembering(Remembering):
    """The same on a server."""

    databases: ClassVar[Databases]
    told: ClassVar[Iterator[int]] = count()

    def taken(self) -> str:
        return self.databases.take(sealed=bool(self.sealed))

    def keys(self) -> Given:
        return Given(False) if not self.sealed else Given(True, *self.databases.keys.values())

    def surroundings(self) -> FixedAmbient:
        return FixedAmbient(seed=b"memory %d" % next(self.told))

    def leave(self) -> None:
        self.databases.give_back(self.place, sealed=bool(self.sealed))


class ClearPostgresRemembering(PostgresRemembering):
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


class TestInRam(Remembering.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(15, 25)


class TestInClearRam(ClearRemembering.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(60, 30)


class TestWithTheRealIndex(RealRemembering.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(30, 30)


class TestInAFile(FileRemembering.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(8, 20)


class TestInAClearFile(ClearFileRemembering.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(8, 20)


@pytest.fixture
def on_server(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresRemembering, "databases", databases, raising=False)


@pytest.mark.slow
@pytest.mark.usefixtures("on_server")
class TestOnAServer(PostgresRemembering.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(5, 20)


@pytest.mark.slow
@pytest.mark.usefixtures("on_server")
class TestOnAClearServer(ClearPostgresRemembering.TestCase):  # type: ignore[name-defined,misc]
    settings = at_most(5, 20)
