"""What is settled about pairs of a space: the surest first, each memory once, and nothing that must be left alone."""

from typing import Any

import msgspec

from perdure.compose.weights import weights
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.settling import LONGEST, UNLIKELY, Beside, Reader

NOW = 1_000 * DAY
OLD, NEW = "Mira Sato drinks sparkling water every day.", "Mira Sato gave up sparkling water."


def memory(id: str, content: str, days: float = 1, **fields: Any) -> Memory:
    fields = {"type": MemoryType.FACT, "recorded_at": NOW - round(days * DAY), "version": round(1_000 - days), **fields}
    return Memory(id=id, content=content, **fields)


def others() -> list[Memory]:
    """Notes about somebody else, so that what is rare is rare."""
    people = ("Ruth Abel", "Omar Diaz", "Lena Ford", "Ivan Gray", "Nora Hill", "Juan Ines", "Kira Jung", "Paul Kern")
    said = ("plays chess on Mondays", "has visited Lisbon", "owns a kayak", "likes ramen", "met the design team in May")
    return [memory(f"o{n}", f"{who} {what}", 15) for n, (who, what) in enumerate((w, s) for w in people for s in said)]


def settled(*memories: Memory, since: int = -1) -> list[tuple[str, str, str]]:
    found = Beside([*others(), *memories], since).settled(weights())
    return [(pair.older, pair.newer, pair.verdict) for pair in found if pair.verdict != "doubtful"]


def test_a_change_in_other_words_is_settled() -> None:
    one = memory("a", OLD, 20)
    assert settled(one, memory("b", NEW)) == [("a", "b", "newer")]


def test_what_is_said_again_in_other_words_is_settled() -> None:
    one = memory("a", "The customer behind Project Velvet Harbor is Oakmont Bank.", 20)
    assert settled(one, memory("b", "Project Velvet Harbor is being done for Oakmont Bank.")) == [("a", "b", "same")]


def test_the_order_of_telling_does_not_matter_but_that_of_time_does() -> None:
    one, other = memory("a", OLD, 20), memory("b", NEW)
    assert settled(other, one) == settled(one, other) == [("a", "b", "newer")]


def test_several_things_that_hold_at_once_are_left_alone() -> None:
    assert settled(memory("a", "Mira Sato likes falafel.", 20), memory("b", "Mira Sato likes goulash.")) == []
    assert settled(memory("a", "Mira Sato has visited Oslo.", 20), memory("b", "Mira Sato has visited Rome.")) == []
    assert (
        settled(memory("a", "Mira Sato was out sick on 3 May.", 20), memory("b", "Mira Sato was out sick on 9 May."))
        == []
    )


def test_other_people_are_left_alone() -> None:
    assert settled(memory("a", "Mira Sato lives in Oslo.", 20), memory("b", "Mira Holm lives in Oslo.")) == []
    assert settled(memory("a", OLD, 20), memory("b", NEW.replace("Sato", "Holm"))) == []


def test_each_memory_is_in_one_pair_at_most_the_surest() -> None:
    eager = msgspec.structs.replace(weights(), signs={"=#": (3.0, 0.0)}, bias=(12.0, -12.0), trees=())
    said = [f"Mira Sato {verb} in Oslo" for verb in ("lives", "stays alone", "rents", "has a flat with 2 rooms")]
    said.append(f"{said[3]} and 2 cats")
    found = Beside([*others(), *(memory(f"a{n}", text, 20 - n) for n, text in enumerate(said))]).settled(eager)
    pairs = [(pair.older, pair.newer) for pair in found if pair.verdict == "same" and pair.older.startswith("a")]
    assert pairs[0] == ("a3", "a4")
    named = [id for pair in pairs for id in pair]
    assert len(named) == len({*named}) == 4
    doubtful = {pair.sure for pair in found if pair.verdict == "doubtful" and "a3" in (pair.older, pair.newer)}
    assert doubtful, "as sure as what is settled, of what is in another pair: somebody may know that it is of more"


def test_trees_see_how_a_pair_stands_beside_others() -> None:
    wary = msgspec.structs.replace(weights(), signs={}, bias=(2.0, -12.0), trees=(("odds-ahead", 1.0, -0.5, 2.0),))
    one, other = memory("a", "Mira Sato rents a flat in Oslo", 9), memory("b", "Mira Sato stays in a flat in Oslo", 8)
    third = memory("c", "Mira Sato found a flat in Oslo", 7)
    alone, rivals = (Beside([*others(), *some]).settled(wary) for some in ([one, other], [one, other, third]))
    assert [pair.verdict for pair in alone if pair.older == "a"] == ["same"]
    assert {pair.verdict for pair in rivals if pair.older == "a"} == {"doubtful"}


def test_only_what_comes_into_question_is_measured() -> None:
    beside = Beside([*others(), memory("a", OLD, 20), memory("b", NEW)])
    likely = [pair for pair, _ in beside.measured(weights())]
    assert 0 < len(likely) < len(beside.pairs)
    assert all(pair.odds > UNLIKELY for pair in likely)


def test_only_pairs_with_something_new_are_looked_at() -> None:
    one, other = memory("a", OLD, 20), memory("b", NEW, 2)
    assert settled(one, other, since=NOW - 3 * DAY) == [("a", "b", "newer")]
    assert settled(one, other, since=NOW - DAY) == []


def test_what_must_be_left_to_rules_is_not_judged() -> None:
    text, later = OLD, NEW
    for fields in (
        {"status": Status.ARCHIVED},
        {"flags": ("instruction",)},
        {"type": MemoryType.EPISODE},
        {"type": MemoryType.CONSTRAINT},
        {"metadata": {"who": "x"}},
        {"author": "Bo"},
    ):
        assert settled(memory("a", text, 20, **fields), memory("b", later, metadata={"who": "y"})) == []
    assert settled(memory("a", text, 20), memory("b", later + " " + "It was hard. " * (LONGEST // 10))) == []


def test_of_other_languages_nothing_is_settled() -> None:
    one, other = "Mira Sato wohnt gern in Oslo", "Mira Sato wohnt nicht mehr gern in Oslo"
    assert settled(memory("a", one, 20), memory("b", other)) == []


def test_what_somebody_says_of_oneself_is_not_about_another() -> None:
    one, other = memory("a", "I smoke every day.", 20, agent="ana"), memory("b", "I quit smoking.", agent="bruno")
    assert settled(one, other) == []


def test_what_is_not_sure_enough_is_doubtful() -> None:
    told = weights()
    pair = memory("a", OLD, 20), memory("b", NEW)
    [settled] = [found for found in Beside([*others(), *pair]).settled(told) if found.newer == "b"]
    assert (settled.verdict, settled.sure >= told.sure[1]) == ("newer", True)
    stricter = msgspec.structs.replace(told, sure=(1.0, 1.0))
    [doubtful] = [found for found in Beside([*others(), *pair]).settled(stricter) if found.newer == "b"]
    assert (doubtful.verdict, doubtful.sure) == ("doubtful", settled.sure)


def reading(said: dict[tuple[str, str], tuple[float, float]]) -> Reader:
    """A reader that knows some pairs, and finds all others to be apart."""
    return lambda pairs: [said.get(pair, (-9.0, -9.0)) for pair in pairs]


def test_a_reader_is_heard_beside_what_is_counted() -> None:
    one, other = memory("a", OLD, 20), memory("b", NEW)
    beside = Beside([*others(), one, other])
    apart, newer = reading({}), reading({(OLD, NEW): (-2.0, 8.0)})
    assert [pair.verdict for pair in beside.settled(weights(), apart) if pair.verdict != "doubtful"] == []
    [found] = [pair for pair in beside.settled(weights(), newer) if pair.verdict != "doubtful"]
    assert (found.older, found.newer, found.verdict) == ("a", "b", "newer")


def test_what_rules_are_mistaken_about_is_told_by_whoever_reads() -> None:
    told = "A custom of the web team is a weekly bug hour.", "A custom of the web team is rotating the chair."
    one, other = memory("a", told[0], 20), memory("b", told[1])
    beside = Beside([*others(), one, other], ruled={("a", "b"): 1})
    verdicts = {pair.verdict for pair in beside.settled(weights(), reading({}))}
    assert verdicts == {"apart"}
    assert "apart" not in {pair.verdict for pair in beside.settled(weights(), reading({told: (-3.0, 9.0)}))}
    assert "apart" not in {pair.verdict for pair in beside.settled(weights())}  # among few, nobody else can tell


def test_what_is_near_is_laid_beside_each_other_whatever_words_it_shares() -> None:
    class Close:
        def __call__(self, one: int, other: int) -> tuple[float, float]:
            return 3.0, 3.0

        def nearest(self, numbers: Any, count: int) -> list[tuple[int, int]]:
            return [(0, 1), (1, 0)]

    beside = Beside([memory("a", "Lights out at ten for Ben", 9), memory("b", "Ben goes to bed at half past nine", 3)])
    beside.pairs.clear()
    assert beside.by(Close()).pairs == [(0, 1)]
    assert beside.pairs == []
