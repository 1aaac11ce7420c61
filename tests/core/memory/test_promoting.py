"""The four gates: what passes each, and what each says to what does not."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, MemoryType, Source, Status
from perdure.core.memory.promoting import (
    AT_ONCE,
    GATES,
    LONGEST,
    PASS,
    Asking,
    judged,
    passes,
    pending,
    plain,
    proposing,
    sources_of,
    specific,
    uri_of,
)
from perdure.core.memory.shelf import Proposal
from perdure.core.session.memories import MemoryProposed, MemoryReviewed

NOW = 1_000 * DAY
GOOD = Asking(
    content="Never LP in pools with less than $100K TVL",
    sources=frozenset({"session:a", "session:b"}),
    expires=NOW + 90 * DAY,
)


def memory(content: str, id: str = "m1", **more: object) -> Memory:
    return Memory(id=id, type=MemoryType.FACT, content=content, **more)  # type: ignore[arg-type]


def but(**changes: object) -> Asking:
    return msgspec.structs.replace(GOOD, **changes)


def failing(asked: Asking, *there: Memory) -> list[str]:
    told = judged(asked, there, NOW)
    assert tuple(told) == GATES
    return [name for name, said in told.items() if said != PASS]


def test_what_is_new_evidenced_general_and_expiring_passes() -> None:
    assert judged(GOOD, [memory("Ana lives in Rome")], NOW) == dict.fromkeys(GATES, PASS)
    assert passes(judged(GOOD, [], NOW))


def test_what_the_target_says_already_is_not_new() -> None:
    there = memory("In pools with less than $100K TVL, never LP.", "m7")
    told = judged(GOOD, [there], NOW)
    assert not passes(told)
    assert told["new"] == "memory m7 says it already"


def test_what_the_target_has_quarantined_is_not_new() -> None:
    assert failing(GOOD, memory(GOOD.content, status=Status.QUARANTINED)) == ["new"]


@pytest.mark.parametrize("status", [Status.SUPERSEDED, Status.ARCHIVED, Status.WITHDRAWN])
def test_what_no_longer_counts_there_does_not_stand_in_the_way(status: Status) -> None:
    assert failing(GOOD, memory(GOOD.content, status=status)) == []


def test_other_numbers_are_new() -> None:
    assert failing(GOOD, memory("Never LP in pools with less than $500K TVL")) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sources": frozenset()}, ["evidenced"]),
        ({"sources": frozenset({"session:a"})}, ["evidenced"]),
        ({"sources": frozenset({"session:a"}), "evidence": ("",)}, ["evidenced"]),
        ({"sources": frozenset({"session:a"}), "evidence": ("https://example.org/report",)}, []),
        ({"sources": frozenset(), "confirmed": True}, []),
        ({"expires": None}, ["expiring"]),
        ({"expires": NOW}, ["expiring"]),
        ({"expires": NOW + LONGEST + 1}, ["expiring"]),
        ({"expires": NOW + LONGEST}, []),
        ({"subjects": ("ana",)}, ["general"]),
        ({"sources": frozenset(), "expires": None, "subjects": ("ana",)}, ["evidenced", "general", "expiring"]),
    ],
)
def test_each_gate_says_what_it_lacks(changes: dict[str, object], told: list[str]) -> None:
    assert failing(but(**changes)) == told


@pytest.mark.parametrize(
    "content",
    [
        "This file has the wrong header",
        "The branch was merged yesterday",
        "Today the pool pays 3%",
        "Session 0192f0c4-7d1e-7abc-8def-0123456789ab was slow",
        "I prefer tea",
        "My vault pays 3%",
        "She lives in Rome",
        "The notes are in ~/notes.md",
        "Write to ana@example.org for access",
        "As you said, the bridge is slow",
        "See line 42 for the reason",
        "The outage began 3 hours ago",
        "The answer above holds for all pools",
        "Maria Silva has diabetes",
        "John's salary is 90000 euros",
        "Bob was fired for theft",
        "Ben Carter is allergic to nuts",
        "Ana lives in Lisbon",
        "The user lives in Lisbon",
        "Dr. Weber knows all about it",
        "Ana’s younger sister teaches",
    ],
)
def test_what_only_some_would_understand_is_not_general(content: str) -> None:
    assert failing(but(content=content)) == ["general"]


@pytest.mark.parametrize(
    "content",
    [
        "Morpho's USDC vault has 2.3% base APY as of 2026-03-01",
        "We deploy on Tuesdays and Thursdays only",
        "Contract 0x6B175474E89094C44Da98b954EedeAC495271d0F is DAI",
        "Bridges take 20 minutes on Sundays",
        "Run the linter before every commit",
        "Python has no braces",
        "Berlin is a city of 3.7 million people",
        "Lisbon Airport is closed at night",
        "Uniswap charges 0.3 % on this chain",
        "Every team prefers short meetings",
        "Nuts may cause allergies",
        "The bridge was hit by a bug in version 2",
        "Nobody is allergic to caution",
    ],
)
def test_what_everybody_can_use_is_general(content: str) -> None:
    assert specific(content) == ""
    assert failing(but(content=content)) == []


def test_sources_are_sessions_documents_or_writers_and_each_counts_once() -> None:
    first = memory("Bridges are slow on Sundays", "a", source=Source(session="s1"), metadata={"sessions": ["s1", "s2"]})
    second = memory("bridges are slow on Sundays!", "b", source=Source(session="s3"), writer="ben")
    third = memory("Bridges are slow on Sundays", "c", source=Source(uri="https://example.org"))
    other = memory("Ana lives in Rome", "d", source=Source(session="s9"))
    gone = memory("Bridges are slow on Sundays", "e", source=Source(session="s8"), status=Status.QUARANTINED)
    assert sources_of(first) == {"session:s1", "session:s2"}
    found = sources_of(first, [second, third, other, gone])
    assert found == {"session:s1", "session:s2", "session:s3", "source:https://example.org"}
    assert sources_of(memory("x y", writer="ana")) == {"source:ana"}
    assert sources_of(memory("x y")) == frozenset()


def test_a_memory_waits_once_for_its_review() -> None:
    done = Proposal(id="p1", origin="vault/ana", memory="m1", accepted=False)
    open_one = Proposal(id="p2", origin="vault/ana", memory="m1")
    assert pending([done], "vault/ana", "m1") is None
    assert pending([done, open_one], "vault/ana", "m1") is open_one
    assert pending([open_one], "vault/ben", "m1") is None


def waiting_for(proposed: MemoryProposed, at: int = NOW) -> Proposal:
    return Proposal(**msgspec.structs.asdict(proposed), proposed_at=at, version=3)


def test_what_nobody_proposed_yet_is_proposed() -> None:
    proposed = MemoryProposed(id="p1", memory="m1", by="ana")
    assert proposing(proposed, None, NOW) == ("p1", [proposed])


def test_exactly_the_same_proposal_again_stays_the_one_there_is() -> None:
    first = MemoryProposed(id="p1", memory="m1", by="ana", evidence=("seen",), expires=NOW + 9 * DAY)
    waiting = waiting_for(first, NOW + AT_ONCE)
    again = msgspec.structs.replace(first, id="p2", by="ben")
    assert proposing(again, waiting, NOW + DAY) == ("p1", [])
    as_long = msgspec.structs.replace(again, expires=NOW + 10 * DAY)
    assert proposing(as_long, waiting, NOW + DAY) == ("p1", [])
    endless = msgspec.structs.replace(first, expires=None)
    assert proposing(endless, waiting_for(endless), NOW + DAY) == ("p1", [])


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence": ("seen twice",)},
        {"expires": None},
        {"expires": NOW + 12 * DAY},
        {"gates": {"new": "memory m7 says it already"}},
        {"importance": 0.9},
    ],
)
def test_what_is_proposed_another_way_takes_the_place_of_what_waits(changes: dict[str, object]) -> None:
    first = MemoryProposed(id="p1", memory="m1", by="ana", evidence=("seen",), expires=NOW + 9 * DAY)
    again = msgspec.structs.replace(first, id="p2", **changes)
    assert proposing(again, waiting_for(first), NOW + DAY) == ("p1", [msgspec.structs.replace(again, id="p1")])
    others = msgspec.structs.replace(again, by="ben")
    id, (gone, written) = proposing(others, waiting_for(first), NOW + DAY)
    assert (id, written) == ("p2", others)
    assert isinstance(gone, MemoryReviewed)
    assert (gone.id, gone.accepted, gone.by, gone.reason) == ("p1", False, "ben", "it was proposed anew, as p2")


def test_what_is_over_is_renewed_by_the_same_time_to_live() -> None:
    first = MemoryProposed(id="p1", memory="m1", by="ana", expires=NOW + DAY)
    again = msgspec.structs.replace(first, expires=NOW + 3 * DAY)
    assert proposing(again, waiting_for(first), NOW + 2 * DAY) == ("p1", [again])


def test_a_promoted_memory_says_where_it_comes_from() -> None:
    assert uri_of("vault/ana", "fact", "m1") == "perdure://memory/vault/fact/m1"
    assert plain({"sessions": ["s"], "steer": True, "tokens": ["ETH"]}) == {"tokens": ["ETH"]}


@given(st.text(max_size=200), st.integers(min_value=-(10**18), max_value=10**18))
def test_whatever_is_proposed_each_gate_answers(content: str, expires: int) -> None:
    told = judged(Asking(content=content, expires=expires), [memory(content or "x")], NOW)
    assert tuple(told) == GATES
    assert all(told.values())
