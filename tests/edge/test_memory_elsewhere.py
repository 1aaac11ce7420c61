"""A space that is exported and imported elsewhere: the same memories, as they stood, whatever broke off in between."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure.core.errors import PerdureError
from perdure.core.memory.arriving import Batch, Others
from perdure.core.memory.lines import Line, together
from perdure.core.memory.parts import Memory, Status, vault
from perdure.edge.memory import MemorySpace
from perdure.edge.recollecting import LEFT_OUT, Bringing, documents, lines_of
from perdure.waiting import drive

TIMES = (None, 10**15, 10**15 + 5)
ENDS = (None, None, 2 * 10**15, 3 * 10**15)
small = st.integers(0, 5)
memories = st.fixed_dictionaries(
    {"content": st.builds("The box {} has value {}".format, st.integers(0, 1), st.integers(0, 2))},
    optional={
        "author": st.sampled_from(["ana", "ben"]),
        "subjects": st.sampled_from([["ana"], ["ben"], ["ana", "ben"]]),
        "metadata": st.sampled_from([{"customer": "acme"}, {"customer": "globex"}, {"room": 1}]),
        "valid_from": st.sampled_from(TIMES),
        "valid_to": st.sampled_from(ENDS),
        "source": st.sampled_from([{"kind": "user"}, {"kind": "tool"}]),
        "thread": st.sampled_from(["one", "two"]),
    },
)
deeds = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(memories, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["archive", "restore", "quarantine", "forget"]), small),
        st.tuples(st.just("update"), small, memories),
        st.tuples(st.just("supersede"), small, small, memories),
        st.tuples(st.just("consolidate")),
    ),
    min_size=1,
    max_size=10,
)


def lived(space: MemorySpace, done: Sequence[tuple[Any, ...]]) -> None:
    """Everything that can be done to memories, as far as it can."""
    for what, *which in done:
        there = [memory.id for memory in space.list(statuses=list(Status))]
        ids = [there[at % len(there)] for at in which if isinstance(at, int) and there]
        with suppress(PerdureError):
            if what == "add":
                space.add_many(which[0])
            elif what == "consolidate":
                space.consolidate()
            elif ids and what == "update":
                space.update(ids[0], content=which[1]["content"], valid_from=which[1].get("valid_from"))
            elif what == "supersede":
                space.add(**which[2], supersedes=dict.fromkeys(ids))
            elif ids:
                getattr(space, what)(ids[0])


def standing(memories: Sequence[Memory], *, trusted: bool) -> list[str]:
    """What memories say and how they stand, each with what it gave way to and what gave way to it, whatever their ids
    are: as an export has it.
    """
    known = {memory.id: memory for memory in memories if memory.status not in LEFT_OUT}

    def told(memory: Memory, seen: tuple[str, ...] = ()) -> list[Any]:
        newer, status = known.get(memory.superseded_by), memory.status
        if newer is None and status is Status.SUPERSEDED:
            newer = next((one for one in known.values() if memory.id in one.supersedes), None)
        if newer is None and status is Status.SUPERSEDED:
            status = Status.ARCHIVED
        said = [memory.content, memory.type, memory.author, memory.subjects, memory.metadata, memory.thread, status]
        said += [memory.importance, memory.began, memory.valid_to]
        said += [memory.source.kind, memory.trust] if trusted else []
        return [*said, told(newer, (*seen, memory.id)) if newer is not None and newer.id not in seen else None]

    found = []
    for memory in known.values():
        olds = [told(known[old]) for old in dict.fromkeys(memory.supersedes) if old in known]
        found.append(repr([told(memory), sorted(map(repr, olds))]))
    return sorted(found)


class Elsewhere:
    """Spaces to import into, of one store; some imports break off before a batch."""

    def __init__(self, db: perdure.Perdure) -> None:
        self.memories = db._behind._services.memories  # type: ignore[attr-defined]

    def bring(self, name: str, lines: Sequence[Line], *, most: int = 2, breaks: int = -1) -> int:
        """Import lines, as far as it gets; how many were kept."""
        kept = 0

        async def look() -> list[Memory]:
            return self.has(name)

        async def bring(batch: Batch, others: Others) -> bool:
            nonlocal kept
            if kept >= breaks >= 0:
                raise InterruptedError
            kept += 1
            return bool(await self.memories.bring(vault(name), batch, others))

        async def go() -> int:
            return (await Bringing(look, bring, self.memories.fresh_id, most=most).bring(lines)).kept

        try:
            return drive(go())
        except InterruptedError:
            return kept * most

    def has(self, name: str) -> list[Memory]:
        return [*drive(self.memories.shelves.look(vault(name))).shelf]


@settings(max_examples=40, deadline=None)
@given(deeds, st.booleans(), st.integers(1, 3))
def test_a_space_comes_out_elsewhere_as_it_went_in(done: Sequence[tuple[Any, ...]], trusted: bool, most: int) -> None:
    with perdure.open(":memory:", memory="none") as db:
        ana = db.memory("ana")
        lived(ana, done)
        elsewhere, lines = Elsewhere(db), lines_of(ana.export(), trusted=trusted)
        elsewhere.bring("whole", lines, most=most)
        whole = standing(elsewhere.has("whole"), trusted=trusted)
        assert whole == standing(elsewhere.has("ana"), trusted=trusted)
        for breaks in range(1, len(lines) // most + 1):
            name = f"broken {breaks}"
            elsewhere.bring(name, lines, most=most, breaks=breaks)
            elsewhere.bring(name, lines, most=most)
            assert standing(elsewhere.has(name), trusted=trusted) == whole
        again = lines_of(db.memory("whole").export(), trusted=trusted)
        for name, said in (("whole", lines), ("ana", lines), ("ana", again), ("whole", again)):
            assert elsewhere.bring(name, said) == 0
        for count, body in documents(lines, most=1):
            part = lines_of(body.splitlines(), trusted=trusted)
            assert len(part) == count
            elsewhere.bring("sent", part)
        assert standing(elsewhere.has("sent"), trusted=trusted) == whole


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.sampled_from("abcde"), "content": st.sampled_from(["one", "two", "three"])},
            optional={
                "status": st.sampled_from(["live", "superseded", "archived"]),
                "superseded_by": st.sampled_from("abcdef"),
                "supersedes": st.lists(st.sampled_from("abcdef"), max_size=3),
                "recorded_at": st.sampled_from([10**15, 10**15 + 1]),
                "valid_to": st.sampled_from([10**15 - 1, 10**15, 10**15 + 1]),
            },
        ),
        max_size=8,
    )
)
def test_whatever_lines_say_of_each_other_each_comes_once(told: list[dict[str, Any]]) -> None:
    lines = lines_of(told)
    with perdure.open(":memory:", memory="none") as db:
        elsewhere = Elsewhere(db)
        kept = elsewhere.bring("ana", lines)
        assert len({(one["id"], one["content"]) for one in told}) <= kept <= len(told)
        assert len(elsewhere.has("ana")) == kept
        assert elsewhere.bring("ana", lines) == 0
        known = {memory.id for memory in elsewhere.has("ana")}
        for memory in elsewhere.has("ana"):
            assert memory.status is not Status.SUPERSEDED or memory.superseded_by in known
    groups = together(lines)
    assert sorted(id(line) for group in groups for line in group) == sorted(map(id, lines))
