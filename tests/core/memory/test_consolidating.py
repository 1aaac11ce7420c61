"""What a consolidation plans: the right steps, and none that it must not take."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.consolidating import FAR, fitting, judged, planned
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.settling import Settled
from perdure.core.memory.stepping import Bench
from perdure.core.memory.steps import PHASES, Apart, Doubt, Phase, Step
from perdure.core.session.memories import MemoryChanged, MemoryMoved

NOW = 1_000 * DAY


def memory(id: str, content: str, days: float = 1, **fields: Any) -> Memory:
    """A memory that is so many days old."""
    version = round(1_000 - days)
    fields = {"type": MemoryType.FACT, "recorded_at": NOW - round(days * DAY), "version": version, **fields}
    return Memory(id=id, content=content, **fields)


def steps(phase: Phase, *memories: Memory, **options: Any) -> list[tuple[str, str]]:
    return [(step.id, step.by) for step in planned(phase, memories, NOW, **options).steps]


# ── newer ──


def test_a_later_value_outdoes_each_earlier_one_in_turn() -> None:
    told = [
        memory("a", "Vault APY: 2.3%", 9),
        memory("b", "The APY of the vault is 3.1%", 5),
        memory("c", "Vault APY: 2.3%", 1),
    ]
    assert steps("newer", *told) == [("a", "b"), ("b", "c")]
    assert steps("newer", *reversed(told)) == [("a", "b"), ("b", "c")]


def test_what_was_true_later_counts_and_not_what_was_written_down_later() -> None:
    old = memory("old", "Ana lives in Berlin", 1, valid_from=NOW - 300 * DAY)
    new = memory("new", "Ana lives in Lisbon", 5, valid_from=NOW - 100 * DAY)
    assert steps("newer", old, new) == [("old", "new")]


def test_what_is_trusted_less_outdoes_nothing() -> None:
    said = memory("said", "Vault APY: 2.3%", 9, trust="high")
    assert steps("newer", said, memory("tool", "Vault APY: 9.9%", 1, trust="low")) == []
    assert steps("newer", said, memory("again", "Vault APY: 9.9%", 1, trust="high")) == [("said", "again")]


def test_flagged_memories_neither_outdo_nor_merge() -> None:
    told = memory("a", "Vault APY: 2.3%", 9), memory("b", "Vault APY: 9.9%", 1, flags=("instruction",))
    assert steps("newer", *told) == []
    assert steps("same", memory("a", "Ana likes tea"), memory("b", "Ana likes tea", flags=("instruction",))) == []


def test_episodes_do_not_outdo_each_other() -> None:
    kind = MemoryType.EPISODE
    assert steps("newer", memory("a", "The price is 5%", 9, type=kind), memory("b", "The price is 6%", type=kind)) == []


# ── same ──


def test_of_those_that_say_the_same_the_most_trusted_then_most_important_then_newest_stays() -> None:
    text = "Ana likes long walks"
    plain, heavy, sure = memory("p", text), memory("h", text, importance=0.9), memory("s", text, trust="high")
    assert steps("same", plain, heavy, sure) == [("h", "s"), ("p", "s")]
    assert steps("same", plain, heavy) == [("p", "h")]
    assert steps("same", memory("old", text, 5), memory("new", text, 1)) == [("old", "new")]


def test_the_fuller_one_stays_unless_it_is_trusted_less() -> None:
    short, full = memory("s", "Ana likes coffee", importance=0.9), memory("f", "Ana likes coffee, mostly at noon")
    assert steps("same", short, full) == [("s", "f")]
    doubtful = memory("f", "Ana likes coffee, mostly at noon", trust="low")
    assert steps("same", short, doubtful) == []


def test_two_agents_that_speak_of_themselves_do_not_say_the_same() -> None:
    text = "I prefer short answers"
    assert steps("same", memory("a", text, agent="ana"), memory("b", text, agent="bruno")) == []
    assert steps("same", memory("a", text, 2, agent="ana"), memory("b", text, 1, agent="ana")) == [("a", "b")]


def test_what_is_not_live_is_left_alone_in_every_phase() -> None:
    for status in Status:
        if status is not Status.LIVE:
            one = memory("a", "Vault APY: 2.3%", 400, status=status, importance=0.0, valid_to=1, cited=9)
            for phase in PHASES:
                assert steps(phase, one, memory("b", "Vault APY: 2.3%"), memory("c", "Cats purr softly")) == []


UNLIKE = [
    ("Ana's blood type is O+", "Ana's blood type is O-"),
    ("The clock offset is 5 hours", "The clock offset is -5 hours"),
    ("Never trade when the load is > 5", "Never trade when the load is < 5"),
    ("Ana writes C++ at work", "Ana writes C# at work"),
    ("Ana likes \U0001f355 a lot", "Ana likes \U0001f363 a lot"),
    ("The dose of it is 5 mg", "The dose of it is .5 mg"),
    ("The service needs Python 3.10", "The service needs Python 3.1"),
    ("The postcode of Ana is 02134", "The postcode of Ana is 2134"),
    (f"The serial number is {'7' * 33}1", f"The serial number is {'7' * 33}2"),
    ("Use tabs, not spaces", "Use spaces, not tabs"),
    ("Ana likes dogs, not cats", "Ana likes cats, not dogs"),
    ("Ana has 2 sons and 3 daughters", "Ana has 3 sons and 2 daughters"),
    ("Only Ana can deploy", "Ana can only deploy"),
]


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_what_one_sign_makes_another_thing_is_not_merged(one: str, other: str) -> None:
    assert steps("same", memory("a", one, 2), memory("b", other, 1)) == []


def test_point_five_is_a_half() -> None:
    assert steps("same", memory("a", "The dose is 0.5 mg", 2), memory("b", "The dose is .5 mg", 1)) == [("a", "b")]


def test_what_one_has_quit_others_have_not() -> None:
    assert steps("newer", memory("a", "Ben's father loves smoking", 2), memory("b", "I quit smoking", 1)) == []
    known = memory("a", "Ben is vegetarian", 3), memory("b", "The user is vegetarian", 2)
    assert steps("newer", *known, memory("c", "Stopped being vegetarian", 1)) == [("b", "c")]


def test_what_has_no_words_is_denied_by_nothing() -> None:
    assert steps("newer", memory("a", "\U0001f44d", 2), memory("b", "No.", 1)) == []


def test_doubtful_pairs_are_told() -> None:
    one, other = memory("a", "The garden gate squeaks loudly", 2), memory("b", "The garden gate creaks loudly", 1)
    found = planned("same", [one, other], NOW)
    assert (found.steps, found.doubts) == ((), (Doubt("a", "b"),))
    unsettled = planned("same", [one, memory("c", "Tea is green")], NOW, settled=[Settled("a", "c", "doubtful", 0.5)])
    assert (unsettled.steps, unsettled.doubts) == ((), (Doubt("a", "c"),))


def test_what_is_settled_is_done_after_what_rules_decide_and_within_them() -> None:
    one, other = memory("a", "The gate squeaks", 2), memory("b", "The gate is quiet since it was oiled", 1)
    newer, same = Settled("a", "b", "newer", 0.97), Settled("a", "b", "same", 0.97)
    assert steps("newer", one, other, settled=[newer]) == [("a", "b")]
    assert steps("same", one, other, settled=[newer]) == steps("newer", one, other, settled=[same]) == []
    assert steps("same", one, other, settled=[same]) == [("a", "b")]
    assert steps("newer", memory("a", "The gate squeaks", 2, trust="high"), other, settled=[newer]) == []
    assert steps("newer", one, other, settled=[newer], apart=Apart(frozenset({("a", "b")}))) == []
    assert steps("newer", other, settled=[newer]) == []
    ruled = memory("c", "The gate squeaks", 0.5)
    assert steps("same", one, other, ruled, settled=[same]) == [("a", "c")]


def test_what_is_settled_but_not_for_certain_is_asked_about_the_least_certain_first() -> None:
    texts = ("The gate squeaks", "The gate is quiet since it was oiled", "Tea is green", "Tea leaves have a green hue")
    known = [memory(id, text, 4 - n) for n, (id, text) in enumerate(zip("abcd", texts, strict=True))]
    settled = [Settled("a", "b", "newer", 0.8), Settled("c", "d", "same", 0.7), Settled("b", "d", "doubtful", 0.25)]
    assert planned("newer", known, NOW, settled=settled, certain=0.9).steps == ()
    found = planned("same", known, NOW, settled=settled, certain=0.9)
    assert found.steps == ()
    assert [(doubt.older, doubt.newer) for doubt in found.doubts] == [("c", "d"), ("b", "d"), ("a", "b")]
    by_id = {each.id: each for each in known}
    otherwise = [judged(doubt, "", by_id) for doubt in found.doubts]
    assert otherwise == [doubt.otherwise for doubt in found.doubts]
    assert [step and (step.phase, step.id, step.by) for step in otherwise] == [
        ("same", "c", "d"),
        None,
        ("newer", "a", "b"),
    ]
    assert [judged(doubt, "apart", by_id) for doubt in found.doubts] == [None] * 3
    assert steps("newer", *known, settled=settled, certain=0.75) == [("a", "b")]
    assert steps("same", *known, settled=settled, certain=0.75) == []
    assert steps("newer", *known, settled=settled) == [("a", "b")]
    assert steps("same", *known, settled=settled) == [("c", "d")]


def test_nobody_is_asked_about_what_was_compared_before() -> None:
    one, other = memory("a", "The garden gate squeaks loudly", 3), memory("b", "The garden gate creaks loudly", 2)
    third = memory("c", "The garden gate groans loudly", 1)
    asked = planned("same", [one, other, third], NOW, since=other.recorded_at).doubts
    assert {(doubt.older, doubt.newer) for doubt in asked} == {("a", "c"), ("b", "c")}


def test_a_judgement_is_bound_by_the_rules() -> None:
    known = {"a": memory("a", "x", 2, trust="high"), "b": memory("b", "y", 1, trust="low")}
    assert judged(Doubt("a", "b"), "newer", known) is None
    merged = judged(Doubt("a", "b"), "same", known)
    assert merged is not None
    assert (merged.id, merged.by) == ("b", "a")
    fuller = {"a": memory("a", "Ana likes green tea", 2), "b": memory("b", "Ana likes tea", 1)}
    repeated = {"a": memory("a", "Ana likes tea", 2), "b": memory("b", "Ana is fond of a cup of tea", 1)}
    steps = [judged(Doubt("a", "b"), "same", each) for each in (fuller, repeated)]
    assert [step and (step.id, step.by) for step in steps] == [("b", "a"), ("a", "b")]
    assert judged(Doubt("a", "b"), "apart", known) is None
    assert judged(Doubt("a", "gone"), "same", known) is None


def test_what_was_taken_back_is_not_planned_again() -> None:
    told = memory("a", "Ana likes tea a lot", 2), memory("b", "Ana likes tea a lot", 1)
    assert steps("same", *told, apart=Apart(frozenset({("a", "b")}))) == []
    assert steps("prune", memory("a", "x", valid_to=1), apart=Apart(frozenset({("a", "prune")}))) == []


def test_what_a_run_made_one_and_somebody_took_apart_is_not_made_one_again_whichever_would_stay() -> None:
    told = memory("a", "Ana likes tea a lot", 2), memory("b", "Ana likes tea a lot", 1)
    once = {"a": [{"a", "b", "c"}], "b": [{"a", "b", "c"}]}
    assert steps("same", *told) == [("a", "b")]
    assert steps("same", *told, apart=Apart(merged=once)) == []
    assert steps("same", *told, apart=Apart(merged={"a": [{"a", "c"}], "b": [{"b", "c"}]})) == [("a", "b")]
    doubtful = Settled("a", "b", "doubtful", 0.5)
    gates = memory("a", "The gate squeaks", 2), memory("b", "The gate is quiet since it was oiled", 1)
    assert planned("same", gates, NOW, settled=[doubtful]).doubts == (Doubt("a", "b"),)
    assert planned("same", gates, NOW, settled=[doubtful], apart=Apart(merged=once)).doubts == ()
    assert planned("same", gates, NOW, settled=[doubtful], apart=Apart(frozenset({("b", "a")}))).doubts == ()


# ── rank and prune ──


def test_use_moves_importance_a_little_and_the_same_use_no_further() -> None:
    cited = memory("a", "x", importance=0.3, cited=8)
    assert fitting(cited) == 0.5
    assert fitting(memory("a", "x", importance=0.9, cited=8)) == 0.9
    assert fitting(memory("a", "x", importance=0.5, unused=10)) == 0.3
    assert fitting(memory("a", "x", importance=0.5, unused=10, trust="high")) == 0.5
    assert fitting(memory("a", "x", importance=0.5, accesses=3)) == 0.5


counts = st.integers(0, 100)


@given(st.floats(0, 1), counts, counts, counts)
def test_importance_stays_within_bounds_and_comes_to_rest(given_: float, found: int, cited: int, unused: int) -> None:
    one = memory("a", "x", importance=given_, accesses=found, cited=cited, unused=unused)
    seen = [given_]
    for _ in range(12):
        value = fitting(memory("a", "x", importance=seen[-1], accesses=found, cited=cited, unused=unused))
        assert 0 <= value <= 1
        assert abs(value - seen[-1]) <= FAR + 1e-4
        seen.append(value)
    assert abs(seen[-1] - seen[-2]) < 1e-3
    assert one.importance == given_


def test_what_is_over_or_old_and_useless_is_archived_and_nothing_else() -> None:
    told = [
        memory("over", "x", valid_to=NOW - 1),
        memory("useless", "x", 90, importance=0.1),
        memory("used", "x", 90, importance=0.1, accesses=1),
        memory("heavy", "x", 900, importance=0.3),
        memory("young", "x", 5, importance=0.0),
        memory("rule", "x", 900, importance=0.0, type=MemoryType.CONSTRAINT),
        memory("rule over", "x", 900, valid_to=NOW - 1, type=MemoryType.CONSTRAINT),
        memory("sure", "x", 900, importance=0.0, trust="high"),
    ]
    assert [id for id, _ in steps("prune", *told)] == ["over", "useless"]


# ── taking steps ──


def test_a_merge_carries_what_is_known_of_the_one_that_goes() -> None:
    goes = memory("a", "x", accesses=3, cited=2, unused=1, importance=0.8, subjects=("ana", "bo"))
    stays = memory("b", "x", accesses=1, importance=0.5, subjects=("bo",))
    bench = Bench({"a": goes, "b": stays}, "run", NOW)
    assert bench.take(Step(phase="same", id="a", by="b"))
    changed, moved = bench.events()
    assert isinstance(changed, MemoryChanged)
    assert isinstance(moved, MemoryMoved)
    assert changed.after == {
        "supersedes": ("a",), "accesses": 4, "cited": 2, "unused": 1, "importance": 0.8,
    }  # fmt: skip
    assert changed.before.keys() == changed.after.keys()
    assert (moved.id, moved.status, moved.by, moved.run) == ("a", "superseded", "b", "run")
    assert not bench.take(Step(phase="same", id="a", by="b"))


def test_of_what_is_trusted_less_nothing_is_carried_but_how_often_it_was_of_use() -> None:
    goes = memory("a", "x", accesses=3, importance=1.0, subjects=("mallory",), trust="low")
    bench = Bench({"a": goes, "b": memory("b", "x", importance=0.4, trust="high")}, "run", NOW)
    assert bench.take(Step(phase="same", id="a", by="b"))
    changed, _ = bench.events()
    assert isinstance(changed, MemoryChanged)
    assert changed.after == {"supersedes": ("a",), "accesses": 3}


def test_what_stands_for_what_is_said_of_one_takes_the_place_of_nothing_that_is_said_of_another() -> None:
    known = {
        "a": memory("a", "x", 9, subjects=("Ana",)),
        "b": memory("b", "x", 5, subjects=("Bo",)),
        "c": memory("c", "x", 1),
    }
    bench = Bench(known, "run", NOW)
    assert bench.take(Step(phase="same", id="a", by="c"))
    assert not bench.take(Step(phase="same", id="b", by="c"))
    assert not Bench(known, "run", NOW, {"c": {"ana"}}).take(Step(phase="same", id="b", by="c"))
    assert Bench(known, "run", NOW, {"c": {"bo"}}).take(Step(phase="same", id="b", by="c"))


def test_of_many_that_say_the_same_the_one_that_stays_is_written_once() -> None:
    known = {str(number): memory(str(number), "x", cited=1) for number in range(9)}
    bench = Bench(known, "run", NOW)
    assert all(bench.take(Step(phase="same", id=str(number), by="8")) for number in range(8))
    changed, *moved = bench.events()
    assert isinstance(changed, MemoryChanged)
    assert (changed.before, changed.after) == (
        {"supersedes": (), "cited": 1},
        {"supersedes": tuple("01234567"), "cited": 9},
    )
    assert [(one.id, one.by) for one in moved if isinstance(one, MemoryMoved)] == [(id, "8") for id in "01234567"]


def test_one_that_stays_and_then_gives_way_itself_is_told_whole() -> None:
    known = {"a": memory("a", "x", 9), "b": memory("b", "x", 5), "c": memory("c", "y", 1)}
    bench = Bench(known, "run", NOW)
    assert bench.take(Step(phase="same", id="a", by="b"))
    assert bench.take(Step(phase="newer", id="b", by="c"))
    changes = {one.id: one.after for one in bench.events() if isinstance(one, MemoryChanged)}
    assert changes == {"b": {"supersedes": ("a",), "valid_to": NOW - DAY}, "c": {"supersedes": ("b",)}}
    assert [one.id for one in bench.events() if isinstance(one, MemoryMoved)] == ["a", "b"]


def test_an_update_ends_the_older_one_when_the_newer_began() -> None:
    bench = Bench({"a": memory("a", "x", 9), "b": memory("b", "y", 1, valid_from=NOW - 5 * DAY)}, "run", NOW)
    assert bench.take(Step(phase="newer", id="a", by="b"))
    ended, _, _ = bench.events()
    assert isinstance(ended, MemoryChanged)
    assert ended.after == {"valid_to": NOW - 5 * DAY}


def test_a_step_that_does_not_fit_any_more_is_not_taken() -> None:
    known = {"a": memory("a", "x"), "b": memory("b", "x", status=Status.ARCHIVED), "c": memory("c", "x", trust="low")}
    bench = Bench(known, "run", NOW)
    assert not bench.take(Step(phase="same", id="a", by="b"))
    assert not bench.take(Step(phase="same", id="a", by="c"))
    assert not bench.take(Step(phase="same", id="a", by="gone"))
    assert not bench.take(Step(phase="prune", id="gone"))
    assert bench.events() == []
    known["d"] = memory("d", "x", type=MemoryType.CONSTRAINT)
    assert not Bench(known, "run", NOW).take(Step(phase="prune", id="d"))


WORDS = st.sampled_from("Ana Bruno lives in Berlin Lisbon APY of is 5% 6% not likes tea moved to from".split())
MEMORIES = st.lists(
    st.tuples(st.lists(WORDS, min_size=1, max_size=6), st.integers(0, 400), st.sampled_from(["low", "medium", "high"])),
    max_size=12,
)


@given(MEMORIES)
def test_planning_again_after_all_steps_plans_nothing_and_trust_is_never_lost(told: list[Any]) -> None:
    known = {
        str(number): memory(str(number), " ".join(words), days, trust=trust, importance=0.1)
        for number, (words, days, trust) in enumerate(told)
    }
    bench = Bench(known, "run", NOW)
    for _ in range(len(known) + 1):
        for phase in PHASES:
            for step in planned(phase, [*bench], NOW).steps:
                bench.take(step)
    for phase in PHASES:
        assert planned(phase, [*bench], NOW).steps == ()
    levels = ["low", "medium", "high"]
    for one in bench:
        by = bench.get(one.superseded_by)
        assert by is None or levels.index(by.trust) >= levels.index(one.trust)
        assert one.trust != "high" or one.status is not Status.ARCHIVED
