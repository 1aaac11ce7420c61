"""Statements that say the same are told from those that only look so."""

import pytest

from perdure.core.memory.comparing import is_whole, likeness, may_meet, may_repeat, may_replace, opposed, outdone
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, MemoryType
from perdure.core.memory.statements import read

ALIKE = [
    ("The user accepts at most 0.5% slippage", "Maximum slippage the user accepts is 0.5 percent"),
    ("Ana moved to Lisbon in March", "In March Ana moved to Lisbon"),
    ("Lisbon is Ana's home", "Ana's home is Lisbon"),
]
APART = [
    ("Ana beat Bruno at chess", "Bruno beat Ana at chess"),
    ("Swap ETH to USDC", "Swap USDC to ETH"),
    ("Transfer 7 went from Ana to Bruno", "Transfer 7 went from Bruno to Ana"),
    ("Ana likes coffee", "Ana does not like coffee"),
    ("Ana likes coffee", "Ana's sister likes coffee"),
    ("Ana likes coffee", "Ana likes coffee shops"),
    ("The APY of Aave is 5%", "The APY of Aave is 6%"),
    ("The fee is 0.3%", "The fee is 0.3% on Arbitrum"),
    ("You may withdraw on Fridays", "You must withdraw on Fridays"),
    ("Rebalance 60 to 40", "Rebalance 40 to 60"),
    ("Ana prefers window seats", "Ana prefers aisle seats"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_other_words_for_the_same_are_the_same(one: str, other: str) -> None:
    assert likeness(read(one), read(other)) == "same"
    assert likeness(read(other), read(one)) == "same"


@pytest.mark.parametrize(("one", "other"), APART)
def test_what_only_looks_the_same_is_not(one: str, other: str) -> None:
    assert likeness(read(one), read(other)) in ("apart", "doubtful")
    assert likeness(read(other), read(one)) in ("apart", "doubtful")


@pytest.mark.parametrize(
    "fuller",
    [
        "Ana likes coffee, especially in the morning",
        "Ana likes coffee (she said so twice)",
        "As a student already, Ana likes coffee",
    ],
)
def test_a_fuller_statement_says_what_the_other_says(fuller: str) -> None:
    assert likeness(read(fuller), read("Ana likes coffee")) == "fuller"
    assert likeness(read("Ana likes coffee"), read(fuller)) == "apart"


def test_what_is_denied_later_is_opposed() -> None:
    assert opposed(read("The user likes olives"), read("The user no longer likes olives"))
    assert opposed(read("Alerts are enabled"), read("Alerts are disabled"))
    assert not opposed(read("The user likes olives"), read("The user likes olives"))


def test_less_exact_is_not_another_value() -> None:
    assert outdone(read("Ana lives in Berlin"), read("Ana lives in Berlin Mitte"))
    assert not outdone(read("Ana lives in Berlin Mitte"), read("Ana lives in Berlin"))
    assert not outdone(read("Ana lives in Berlin"), read("Ana lives in a small house"))


def memory(id: str = "a", **fields: object) -> Memory:
    return Memory(id=id, content="x", **{"type": MemoryType.FACT, **fields})  # type: ignore[arg-type]


def test_different_speakers_kinds_and_metadata_keep_memories_apart() -> None:
    assert may_meet(memory(), memory("b", type=MemoryType.PREFERENCE))
    assert not may_meet(memory(), memory("b", type=MemoryType.CONSTRAINT))
    assert not may_meet(memory(author="Ana"), memory("b", author="Bruno"))
    assert not may_meet(memory(metadata={"chain": "base"}), memory("b", metadata={"chain": "arbitrum"}))
    assert may_meet(memory(metadata={"chain": "base"}), memory("b", metadata={"chain": "Base", "pool": "x"}))
    assert may_meet(memory(metadata={"seen": "2026-01-01"}), memory("b", metadata={"seen": "2026-02-01"}))
    assert not may_meet(memory(metadata={"assets": ["eth"]}), memory("b", metadata={"assets": ["btc"]}))


def test_what_happened_on_another_day_happened_again() -> None:
    one = memory(type=MemoryType.EPISODE, recorded_at=10 * DAY)
    assert may_repeat(one, memory("b", type=MemoryType.EPISODE, recorded_at=10 * DAY + 1))
    assert not may_repeat(one, memory("b", type=MemoryType.EPISODE, recorded_at=12 * DAY))


def test_nothing_gives_way_to_what_is_trusted_less() -> None:
    assert may_replace(memory("b", trust="high"), memory(trust="low"))
    assert not may_replace(memory("b", trust="low"), memory(trust="medium"))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("Every Thursday at 10 Eva has her weekly review", False),
        ("Eva runs every morning", False),
        ("Every file is kept", True),
        ("Every morning all files are kept", True),
        ("Eva never runs", True),
    ],
)
def test_how_often_something_is_so_leaves_nothing_out(text: str, whole: bool) -> None:
    assert is_whole(read(text)) is whole
