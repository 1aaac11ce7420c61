"""Kept answers: given again to the same ask within the same scope, bounded, and gone when they must be."""

import os
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from perdure.core.errors import Invalid
from perdure.core.talk.folding import folded, pieces_of
from perdure.core.talk.parts import Answer, Ask, Call, Foreign, Said, Text, Thought, Usage
from perdure.services.caching import SECOND, Caching, Hit, Scope, Stats

SCOPE = Scope(tenant="t", access="ann", provider="p")
OTHERS = [
    Scope(tenant="u", access="ann", provider="p"),
    Scope(tenant="t", access="bob", provider="p"),
    Scope(tenant="t", access="ann", provider="q"),
]
_replace = msgspec.structs.replace


class Clock:
    def __init__(self) -> None:
        self.at = 1_000 * SECOND

    def __call__(self) -> int:
        return self.at


def ask(text: str, *before: Said, **change: Any) -> Ask:
    return Ask(model="m", messages=(*before, Said(role="user", blocks=(Text(text=text),))), **change)


def answer(text: str, **change: Any) -> Answer:
    return Answer(id="a", model="m", blocks=(Text(text=text),), usage=Usage(input=3, output=5), **change)


def kept(**settings: Any) -> tuple[Caching, Clock]:
    clock = Clock()
    return Caching(clock, **settings), clock


def words(hit: Hit | None) -> str | None:
    block = hit.answer.blocks[0] if hit else None
    return block.text if isinstance(block, Text) else None


def test_the_same_ask_gets_the_same_answer() -> None:
    cache, clock = kept()
    assert cache.look(SCOPE, ask("Rome?")) is None
    assert cache.keep(SCOPE, ask("Rome?"), answer("Italy"))
    assert cache.look(SCOPE, ask("Rome?", stream=True)) == Hit(answer=answer("Italy"), kind="exact", at=clock())
    assert cache.look(SCOPE, ask("Oslo?")) is None


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("semantic", [False, True])
def test_nothing_is_seen_in_another_scope(other: Scope, semantic: bool) -> None:
    cache, _ = kept(threshold=0.01)
    cache.keep(SCOPE, ask("Rome?"), answer("Italy"), semantic=True)
    assert cache.look(other, ask("Rome?"), semantic=semantic) is None
    assert cache.stats(SCOPE.tenant).kept == 1


def test_a_hit_is_safe_from_whoever_had_it_before() -> None:
    cache, _ = kept()
    whole = _replace(answer("Italy"), extra={"chat": {"tier": "x"}})
    cache.keep(SCOPE, ask("Rome?"), whole)
    first = cache.look(SCOPE, ask("Rome?"))
    assert first is not None
    first.answer.extra["chat"]["tier"] = whole.extra["chat"]["tier"] = "spoilt"
    second = cache.look(SCOPE, ask("Rome?"))
    assert second is not None
    assert second.answer.extra == {"chat": {"tier": "x"}}


def test_a_hit_streams_as_the_answer_that_it_is() -> None:
    cache, _ = kept()
    whole = _replace(answer("Italy"), blocks=(Thought(text="hm", seal="s"), Text(text="Italy"), Text(text=".")))
    cache.keep(SCOPE, ask("Rome?"), whole)
    for _ in range(2):
        hit = cache.look(SCOPE, ask("Rome?"))
        assert hit is not None
        assert folded(pieces_of(hit.answer)) == whole


@pytest.mark.parametrize(
    "spoilt",
    [
        answer("Italy", stop="length"),
        answer("I cannot", stop="refused"),
        answer(" "),
        _replace(answer("x"), blocks=(Text(text="x"), Call(id="c", name="look"))),
        _replace(
            answer("x"), blocks=(Text(text="x"), Foreign(provider="anthropic", block={"type": "server_tool_use"}))
        ),
        _replace(answer("x"), extra={"odd": object()}),
    ],
)
def test_what_is_not_a_whole_answer_in_words_is_not_kept(spoilt: Answer) -> None:
    cache, _ = kept()
    assert not cache.keep(SCOPE, ask("Rome?"), spoilt)
    assert cache.look(SCOPE, ask("Rome?")) is None
    assert cache.stats("t").kept == 0


def test_an_ask_that_wants_chance_gets_it_unless_asked_otherwise() -> None:
    cache, _ = kept()
    warm = ask("Rome?", temperature=0.7)
    assert not cache.keep(SCOPE, warm, answer("Italy"))
    assert cache.keep(SCOPE, warm, answer("Italy"), sampled=True)
    assert cache.look(SCOPE, warm) is None
    assert words(cache.look(SCOPE, warm, sampled=True)) == "Italy"
    assert cache.keep(SCOPE, ask("Rome?", temperature=0), answer("Italy"))


def test_an_ask_that_depends_on_what_is_elsewhere_is_passed_by() -> None:
    cache, _ = kept()
    follow = ask("Rome?", extra={"openai-responses": {"previous_response_id": "r"}})
    assert not cache.keep(SCOPE, follow, answer("Italy"))
    assert cache.look(SCOPE, follow) is None
    assert cache.stats("t") == Stats(bypassed=1)


def test_a_bypass_asks_nothing_and_is_counted() -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask("Rome?"), answer("Italy"))
    assert cache.look(SCOPE, ask("Rome?"), bypass=True) is None
    cache.keep(SCOPE, ask("Rome?"), answer("Lazio"))
    assert words(cache.look(SCOPE, ask("Rome?"))) == "Lazio"
    stats = cache.stats("t")
    assert (stats.bypassed, stats.exact, stats.kept, stats.entries) == (1, 1, 2, 1)


# ── time and room ──


@pytest.mark.parametrize(("ttl", "lives"), [(None, 60), (5, 5)])
@pytest.mark.parametrize("semantic", [False, True])
def test_an_answer_is_given_until_its_time_is_over(ttl: int | None, lives: int, semantic: bool) -> None:
    cache, clock = kept(ttl=60)
    cache.keep(SCOPE, ask("Where is Rome?"), answer("Italy"), ttl, semantic=True)
    again = ask("where is rome") if semantic else ask("Where is Rome?")
    clock.at += lives * SECOND - 1
    assert words(cache.look(SCOPE, again, semantic=semantic)) == "Italy"
    clock.at += 1
    assert cache.look(SCOPE, again, semantic=semantic) is None
    assert not cache.keep(SCOPE, ask("Where is Rome?"), answer("Italy"), 0)


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask("one"), answer("1"))
    small = cache.stats("t").bytes
    cache, _ = kept(max_bytes=3 * small)
    for text in ("one", "two", "three"):
        cache.keep(SCOPE, ask(text), answer("1"))
    cache.look(SCOPE, ask("one"))
    cache.keep(SCOPE, ask("four"), answer("1"))
    assert [bool(cache.look(SCOPE, ask(text))) for text in ("one", "two", "three", "four")] == [True, False, True, True]
    assert (cache.stats("t").evicted, cache.stats("t").bytes) == (1, 3 * small)
    assert not cache.keep(SCOPE, ask("big"), answer("x" * 4 * small))
    assert cache.stats("t").entries == 3


def test_one_tenant_that_makes_room_for_another_is_told_so() -> None:
    cache, _ = kept(max_bytes=1_000)
    cache.keep(SCOPE, ask("one"), answer("1"))
    cache.keep(OTHERS[0], ask("one"), answer("1"))
    mine, theirs = cache.stats("t"), cache.stats("u")
    assert (mine.entries, mine.bytes, mine.evicted) == (0, 0, 1)
    assert (theirs.entries, theirs.evicted) == (1, 0)


@pytest.mark.parametrize("settings", [{"max_bytes": -1}, {"ttl": -1}, {"threshold": 0}, {"threshold": 1.1}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="correct them"):
        kept(**settings)


# ── forgetting ──


def test_what_came_from_a_session_goes_with_it_and_nothing_else() -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask("one"), answer("1"), session="s1", semantic=True)
    cache.keep(SCOPE, ask("two"), answer("2"), session="s2")
    cache.keep(OTHERS[0], ask("one"), answer("1"), session="s1")
    assert cache.forget("t", session="s1") == 1
    assert cache.look(SCOPE, ask("one"), semantic=True) is None
    assert words(cache.look(SCOPE, ask("two"))) == "2"
    assert words(cache.look(OTHERS[0], ask("one"))) == "1"
    assert cache.stats("t").forgotten == 1


def test_what_another_session_had_answered_anew_is_its_own() -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask("one"), answer("1"), session="s1")
    cache.keep(SCOPE, ask("one"), answer("uno"), session="s2")
    assert cache.forget("t", session="s1") == 0
    assert words(cache.look(SCOPE, ask("one"))) == "uno"
    assert cache.forget("t", session="s2") == 1


def test_a_boundary_a_tenant_or_everything_can_be_forgotten() -> None:
    cache, _ = kept()
    for scope in (SCOPE, *OTHERS):
        cache.keep(scope, ask("one"), answer("1"))
    assert cache.forget("t", access="bob") == 1
    assert cache.forget("t") == 2
    assert cache.stats("t").bytes == 0
    assert cache.forget() == 1


# ── questions that are alike ──

HISTORY = (Said(role="user", blocks=(Text(text="hello"),)), Said(role="assistant", blocks=(Text(text="hi"),)))
QUESTION = "What is the capital of France?"
ALIKE = "what is the capital of france, please"


def test_a_question_much_alike_is_answered_only_when_that_is_wanted_on_both_sides() -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask(QUESTION, *HISTORY), answer("Paris"))
    assert cache.look(SCOPE, ask(ALIKE, *HISTORY), semantic=True) is None
    cache.keep(SCOPE, ask(QUESTION, *HISTORY), answer("Paris"), semantic=True)
    assert cache.look(SCOPE, ask(ALIKE, *HISTORY)) is None
    hit = cache.look(SCOPE, ask(ALIKE, *HISTORY), semantic=True)
    assert hit is not None
    assert (hit.kind, words(hit)) == ("semantic", "Paris")
    assert 0.9 <= hit.likeness < 1
    exact = cache.look(SCOPE, ask(QUESTION, *HISTORY), semantic=True)
    assert exact is not None
    assert exact.kind == "exact"
    stats = cache.stats("t")
    assert (stats.exact, stats.semantic, stats.misses) == (1, 1, 2)


@pytest.mark.parametrize(
    "other",
    [
        ask(ALIKE),
        ask(ALIKE, *HISTORY, system=(Text(text="Be brief."),)),
        _replace(ask(ALIKE, *HISTORY), model="other"),
        ask(ALIKE, *HISTORY, max_tokens=5),
        ask("What is the capital of Spain?", *HISTORY),
        ask("What is the capital of France 2?", *HISTORY),
    ],
)
def test_another_history_another_setting_or_another_question_is_not_alike(other: Ask) -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask(QUESTION, *HISTORY), answer("Paris"), semantic=True)
    assert cache.look(SCOPE, other, semantic=True) is None


def test_the_most_alike_answers_and_one_whose_time_is_over_does_not() -> None:
    cache, clock = kept(threshold=0.3)
    cache.keep(SCOPE, ask("Where is the city of Rome?"), answer("near"), 5, semantic=True)
    cache.keep(SCOPE, ask("Where was the village of Rome?"), answer("far"), semantic=True)
    assert words(cache.look(SCOPE, ask("where is the city of rome"), semantic=True)) == "near"
    clock.at += 5 * SECOND
    assert words(cache.look(SCOPE, ask("where is the city of rome"), semantic=True)) == "far"


def test_an_embedding_of_ones_own_decides_what_is_alike() -> None:
    topics = {"fare": [1.0, 0.0], "price": [0.95, 0.1], "rain": [0.0, 1.0]}
    cache, _ = kept(embed=lambda text: next(topics[word] for word in text.split() if word in topics))
    cache.keep(SCOPE, ask("the fare"), answer("nine"), semantic=True)
    assert words(cache.look(SCOPE, ask("a price"), semantic=True)) == "nine"
    assert cache.look(SCOPE, ask("the rain"), semantic=True) is None


def test_the_nearest_is_found_among_many() -> None:
    cache, _ = kept(max_bytes=1 << 30)
    letters = "abcdefghij"
    for first in letters:
        for second in letters:
            for third in letters:
                name = f"{first * 3}{second * 3}{third * 3}"
                cache.keep(SCOPE, ask(f"How do I get the report of {name}?"), answer(name), semantic=True)
    found = cache.look(SCOPE, ask("how do i get the report of cccdddeee"), semantic=True)
    assert words(found) == "cccdddeee"


# ── many at once ──


class Story(RuleBasedStateMachine):
    """Whatever is done, what is held adds up, and only what was kept last for an ask is given."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.cache = Caching(self.clock, max_bytes=5_000, ttl=10)
        self.last: dict[tuple[Scope, str], tuple[str, int]] = {}
        self.number = 0

    @rule(scope=st.sampled_from([SCOPE, *OTHERS]), text=st.sampled_from("abc"), size=st.integers(1, 3_000))
    def keep(self, scope: Scope, text: str, size: int) -> None:
        self.number += 1
        said = f"{self.number} " + "x" * size
        if self.cache.keep(scope, ask(text), answer(said), session=text, semantic=True):
            self.last[scope, text] = said, self.clock.at + 10 * SECOND

    @rule(scope=st.sampled_from([SCOPE, *OTHERS]), text=st.sampled_from("abc"))
    def look(self, scope: Scope, text: str) -> None:
        found = words(self.cache.look(scope, ask(text)))
        said, until = self.last.get((scope, text), ("", 0))
        assert found is None or (found == said and self.clock.at < until)

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds: int) -> None:
        self.clock.at += seconds * SECOND

    @rule(tenant=st.sampled_from([None, "t", "u"]), session=st.sampled_from([None, *"abc"]))
    def forget(self, tenant: str | None, session: str | None) -> None:
        self.cache.forget(tenant, session=session)
        for scope, text in list(self.last):
            if tenant in (None, scope.tenant) and session in (None, text):
                del self.last[scope, text]

    @invariant()
    def what_is_held_adds_up(self) -> None:
        stats = [self.cache.stats(tenant) for tenant in ("t", "u")]
        assert 0 <= sum(item.bytes for item in stats) <= 5_000
        for item in stats:
            assert (item.entries == 0) is (item.bytes == 0)
            assert item.entries <= item.kept - item.evicted - item.forgotten


TestStory = Story.TestCase


def test_threads_at_once_lose_no_count() -> None:
    cache, _ = kept(max_bytes=20_000)

    def work(name: str) -> None:
        for number in range(100):
            cache.keep(SCOPE, ask(f"{name} {number}"), answer("x" * (number + 1)), session=name, semantic=True)
            cache.look(SCOPE, ask(f"{name} {number}"), semantic=True)
            cache.forget("t", session=name if number % 10 == 0 else "none")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = cache.stats("t")
    assert stats.kept == 400
    assert stats.exact + stats.semantic + stats.misses == 400
    assert stats.entries == stats.kept - stats.evicted - stats.forgotten
    assert cache.forget() == stats.entries
    assert cache.stats("t").bytes == 0


def in_child(what: Callable[[], bool]) -> bool:
    """Whether it holds in a child of this process."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if what() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_begins_with_nothing_even_while_somebody_looks() -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask("one"), answer("1"))
    with cache._lock:  # as another thread would hold it
        assert in_child(lambda: cache.look(SCOPE, ask("one")) is None and cache.keep(SCOPE, ask("one"), answer("1")))
    assert words(cache.look(SCOPE, ask("one"))) == "1"


@given(st.text(max_size=30))
def test_no_question_breaks_the_cache(text: str) -> None:
    cache, _ = kept()
    cache.keep(SCOPE, ask(text), answer("x"), semantic=True)
    cache.look(SCOPE, ask(text), semantic=True)
    assert cache.stats("t").entries <= 1
