"""The index in RAM: the same answers however it was filled, and nothing that is not there."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import ProviderDown
from perdure.core.memory.scoring import NO_VECTORS, WEIGHTS
from perdure.indexes import ram
from perdure.indexes.ram import RamIndex
from perdure.ports.memory import UNMADE, Embedder, Item

TEXTS = [
    "We painted the boat blue last week.",
    "Which colour will the shed get?",
    "Green, like the garden gate.",
    "The doctor in Delft told me to swim more.",
    "My sister Nora bakes rye bread every Sunday.",
    "Did the ferry run yesterday?",
    "No, the storm kept it in Harlingen.",
    "I sold the old bicycle to a student.",
]


class Hashed:
    """An embedder whose vectors are sums of chance vectors, one for each word."""

    dimensions = 32

    def __init__(self, name: str = "hashed") -> None:
        self.name = name
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for at, text in enumerate(texts):
            for word in text.lower().split()[:50]:
                seed = int.from_bytes(sha256(word.encode()).digest()[:4], "little")
                rows[at] += np.random.default_rng(seed).normal(size=self.dimensions)
            rows[at] /= np.linalg.norm(rows[at]) or 1.0
        return rows


def moment(day: int) -> int:
    return int(datetime(2021, 4, 1, tzinfo=UTC).timestamp() + (day - 1) * 86_400) * 1_000_000


def items(count: int = len(TEXTS)) -> list[Item]:
    return [
        Item(
            id=f"m{at}",
            text=TEXTS[at % len(TEXTS)],
            author=("Ada", "Ben")[at % 2],
            at=moment(1 + at),
            thread=f"t{at // 4}",
        )
        for at in range(count)
    ]


def none() -> None:
    return None


KINDS = pytest.mark.parametrize("embedder", [none, Hashed], ids=["words", "vectors"])
Make = Callable[[], Embedder | None]


def filled(embedder: Embedder | None, given: Sequence[Item] | None = None) -> RamIndex:
    index = RamIndex(embedder)
    index.add(items() if given is None else given)
    return index


def answers(index: RamIndex, query: str, **how: Any) -> list[str]:
    return [found.id for found in index.search(query, **how)]


QUERIES = [
    "What colour did Ada paint the boat?",
    "when did the ferry run",
    "who bakes bread",
    "4 April 2021",
    "",
    "the",
]


@KINDS
def test_the_item_that_answers_comes_first(embedder: Make) -> None:
    index = filled(embedder())
    assert answers(index, "Who bakes bread?")[0] == "m4"
    assert answers(index, "Who painted the boat blue?")[0] == "m0"


@KINDS
def test_adding_at_once_or_one_by_one_is_the_same(embedder: Make) -> None:
    whole, single = filled(embedder()), RamIndex(embedder())
    for item in items():
        single.add([item])
    for query in QUERIES:
        assert whole.search(query) == single.search(query)


@KINDS
def test_an_index_made_from_kept_vectors_ranks_exactly_as_the_first(embedder: Make) -> None:
    first, second = RamIndex(embedder()), RamIndex(embedder())
    kept = first.add(items())
    assert second.add(items(), kept) == kept
    for query in QUERIES:
        assert first.search(query) == second.search(query)
        assert first.near(query) == second.near(query)


def test_kept_vectors_are_not_made_again_and_others_are() -> None:
    first, second = Hashed(), Hashed()
    kept = RamIndex(first).add(items())
    assert all(each[0] == 1 for each in kept)
    RamIndex(second).add(items(), kept)
    assert second.texts == 0
    half: list[bytes] = [each if at % 2 else b"" for at, each in enumerate(kept)]
    assert RamIndex(second).add(items(), half) == kept
    assert second.texts == len(kept)  # two for each that was missing
    other = Hashed("other")
    assert RamIndex(other).add(items(), kept) != kept
    assert other.texts == 2 * len(kept)


class Away(Hashed):
    """An embedder elsewhere: it knows how many numbers its vectors have once it has made some."""

    dimensions = 0
    away = False
    width = Hashed.dimensions

    def embed(self, texts: Sequence[str]) -> Any:
        if self.away:
            raise ProviderDown("the embedder is away")
        self.dimensions = self.width
        return super().embed(texts)


def away() -> Away:
    embedder = Away()
    embedder.away = True
    return embedder


def test_while_the_query_has_no_vector_words_alone_decide_and_that_is_told() -> None:
    embedder = Hashed()
    kept = filled(embedder).add(items())
    words, lacking = filled(None), RamIndex(away())
    lacking.add(items(), kept)
    for query in QUERIES:
        found = lacking.search(query, k=5)
        assert [(one.id, one.score, one.signals) for one in found] == [
            (one.id, one.score, one.signals) for one in words.search(query, k=5)
        ]
        assert {one.lacking for one in found} == {NO_VECTORS}
        assert lacking.near(query) == words.near(query)
    assert {one.lacking for one in words.search("boat")} == {""}


def test_kept_vectors_say_how_many_numbers_they_have_where_the_embedder_cannot() -> None:
    whole = filled(Hashed())
    kept = whole.add(items())
    for first in ([UNMADE] * 3 + kept[3:], [*kept[:3], *[UNMADE] * 5]):
        known, embedder = filled(Hashed(), []), away()
        index = RamIndex(embedder)
        for one in (known, index):
            assert one.add(items(), first) == first
        embedder.away = False
        for query in QUERIES:
            assert index.search(query) == known.search(query)
            assert index.near(query) == known.near(query)
        assert {one.lacking for one in index.search("boat")} == {""}


def test_vectors_that_come_later_are_taken_in_by_an_index_that_had_none() -> None:
    embedder = away()
    index = RamIndex(embedder)
    index.add(items(), [UNMADE] * len(TEXTS))
    assert answers(index, "Who bakes bread?")[0] == "m4"
    embedder.away = False
    assert "meaning" not in index.search("Who bakes bread?")[0].signals
    index.add(items(), kept := filled(Hashed()).add(items()))
    assert index.search("Who bakes bread?") == filled_with(Hashed(), kept).search("Who bakes bread?")


def filled_with(embedder: Embedder, kept: list[bytes]) -> RamIndex:
    index = RamIndex(embedder)
    index.add(items(), kept)
    return index


def test_what_cannot_be_made_is_told_to_who_keeps_and_borne_by_who_reads() -> None:
    index = RamIndex(away())
    with pytest.raises(ProviderDown):
        index.add(items())
    assert len(index) == 0
    others = filled(Hashed("other")).add(items())
    assert index.add(items(), others) == [UNMADE] * len(TEXTS)
    assert answers(index, "Who bakes bread?")[0] == "m4"


def test_an_embedder_whose_vectors_have_another_size_than_before_is_gone_without() -> None:
    class Wide(Away):
        width = 48

        def embed(self, texts: Sequence[str]) -> Any:
            rows = super().embed(texts)
            return np.hstack([rows, rows])[:, : self.width]

    index = filled_with(Wide(), filled(Hashed()).add(items()))
    index.add([Item(id="late", text="The ferry ran again.")])
    found = index.search("Who bakes bread?")
    assert (found[0].id, found[0].lacking) == ("m4", NO_VECTORS)
    assert answers(index, "the ferry ran again")[0] == "late"
    assert index.near("rye bread")[0][0] == "m4"


def test_without_an_embedder_nothing_is_kept() -> None:
    assert RamIndex().add(items(), [b"\x01something"] * len(TEXTS)) == [b""] * len(TEXTS)


@KINDS
def test_what_is_dropped_is_never_found(embedder: Make) -> None:
    index = filled(embedder())
    index.drop(["m4", "m0", "nobody"])
    assert len(index) == len(TEXTS) - 2
    for query in QUERIES:
        assert {"m4", "m0"}.isdisjoint(answers(index, query, k=100))
        assert {"m4", "m0"}.isdisjoint(id for id, _ in index.near(query, k=100))
    index.drop(f"m{at}" for at in range(len(TEXTS)))
    assert len(index) == 0
    assert index.search("boat") == index.near("boat") == []


def test_by_words_a_dropped_item_leaves_no_trace() -> None:
    index = filled(None)
    index.drop(["m2", "m5"])
    never = filled(None, [item for item in items() if item.id not in {"m2", "m5"}])
    for query in QUERIES:
        assert index.search(query) == never.search(query)


@KINDS
def test_an_item_that_is_there_is_replaced_in_its_place(embedder: Make) -> None:
    index = filled(embedder())
    index.add([Item(id="m4", text="A heron stood on the jetty.", author="Ada", at=moment(5), thread="t1")])
    assert len(index) == len(TEXTS)
    assert answers(index, "heron on the jetty")[0] == "m4"
    assert answers(index, "Who bakes bread?")[0] != "m4" or embedder is Hashed
    assert "around" in next(found for found in index.search("ferry", k=8) if found.id == "m4").signals


@KINDS
def test_a_sweep_changes_no_answer(embedder: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, swept = filled(embedder(), items(40)), filled(embedder(), items(40))
    gone = [f"m{at}" for at in range(40) if at % 3]
    kept.drop(gone)
    monkeypatch.setattr(ram, "_DEAD", 1)
    swept.drop(gone)
    assert swept.size < kept.size or embedder is Hashed
    later = [Item(id="late", text="The ferry ran again.", thread="t9"), Item(id="m0", text="Boats.", thread="t0")]
    assert kept.add(later) == swept.add(later)
    for query in QUERIES:
        before, after = kept.search(query, k=50), swept.search(query, k=50)
        assert [found.id for found in before] == [found.id for found in after]
        assert [found.score for found in before] == pytest.approx([found.score for found in after])


@KINDS
def test_among_is_asked_before_the_best_are_taken(embedder: Make) -> None:
    index = filled(embedder(), items(400))
    odd = answers(index, "Who bakes bread?", k=5, among=lambda id: id in {"m1", "m3", "m399"})
    assert sorted(odd) == ["m1", "m3", "m399"]
    assert answers(index, "Who bakes bread?", among=lambda _: False) == []


@KINDS
def test_a_prior_lifts_its_equals_but_not_everything(embedder: Make) -> None:
    twins = [Item(id=name, text="The key is under the mat.") for name in ("one", "two")]
    index = filled(embedder(), [*twins, Item(id="three", text="Nothing of the kind, this.")])
    assert answers(index, "Where is the key?")[:2] == ["one", "two"]
    lifted = index.search("Where is the key?", prior=lambda id: float(id != "one"))
    assert [found.id for found in lifted] == ["two", "one", "three"]
    assert lifted[0].signals["prior"] == WEIGHTS["prior"]


@KINDS
def test_equals_come_in_the_order_they_were_added(embedder: Make) -> None:
    index = filled(embedder(), [Item(id=f"x{at}", text="The same.") for at in (5, 3, 9, 1)])
    assert answers(index, "the same") == ["x5", "x3", "x9", "x1"]


@KINDS
def test_signals_add_up_to_the_score(embedder: Make) -> None:
    for found in filled(embedder()).search("When did Ada paint the boat in April 2021?"):
        assert found.score == pytest.approx(sum(found.signals.values()))
        assert set(found.signals) <= set(WEIGHTS)


@KINDS
@pytest.mark.parametrize(
    "text", ["", "the and of", "日本の猫", "🜁" * 50, "\x00\ud7ff", "word " * 200_000], ids=lambda t: t[:4]
)
def test_no_text_and_no_query_is_too_odd(embedder: Make, text: str) -> None:
    index = filled(embedder(), [*items(), Item(id="odd", text=text, author=text[:100], thread="t0")])
    assert len(index.search(text[:2_000], k=20)) == len(TEXTS) + 1
    assert len(index) == len(TEXTS) + 1
    index.near(text)


def test_words_of_other_scripts_are_found() -> None:
    index = filled(None, [*items(), Item(id="cat", text="日本 の 猫"), Item(id="house", text="дом и лес")])
    assert answers(index, "猫")[0] == "cat"
    assert answers(index, "дом")[0] == "house"


@KINDS
def test_nothing_is_found_where_nothing_is_or_nothing_is_wanted(embedder: Make) -> None:
    assert RamIndex(embedder()).search("boat") == []
    assert RamIndex(embedder()).add([]) == []
    assert filled(embedder()).search("boat", k=0) == filled(embedder()).near("boat", k=0) == []


def test_a_named_author_is_preferred() -> None:
    both = [Item(id=name, text="I like tea.", author=name) for name in ("Ada", "Ben", "Cy")]
    assert answers(filled(None, both), "Does Ben like tea?")[0] == "Ben"


def test_a_date_in_the_query_is_looked_for() -> None:
    days = [Item(id=f"d{day}", text="All quiet.", at=moment(day)) for day in range(1, 29)]
    index = filled(None, days)
    assert answers(index, "What happened on 17 April 2021?")[0] == "d17"
    assert answers(index, "What happened yesterday?", now=moment(10))[0] == "d9"


def test_the_answer_to_a_question_is_found_by_the_question() -> None:
    index = filled(None)
    assert "m2" in answers(index, "Which colour has the shed?", k=2)


def test_near_tells_likeness() -> None:
    for index in (filled(None), filled(Hashed())):
        close = index.near(TEXTS[3], k=3)
        assert close[0] == ("m3", pytest.approx(1.0, abs=0.01))
        assert all(likeness <= close[0][1] for _, likeness in close)


def test_what_is_dropped_is_not_in_the_vectors_of_what_follows() -> None:
    first, second = RamIndex(Hashed()), RamIndex(Hashed())
    first.add([Item(id="secret", text="swordfish", thread="t")])
    first.drop(["secret"])
    after = [Item(id="after", text="Hello there.", thread="t")]
    assert first.add(after) == second.add(after)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ad"), st.integers(0, 12), st.sampled_from(TEXTS)), max_size=40))
def test_after_any_history_exactly_what_is_there_is_found(history: list[tuple[str, int, str]]) -> None:
    index, there = RamIndex(Hashed()), set()
    for what, number, text in history:
        if what == "a":
            index.add([Item(id=f"i{number}", text=text, thread=f"t{number % 3}")])
            there.add(f"i{number}")
        else:
            index.drop([f"i{number}"])
            there.discard(f"i{number}")
    assert set(answers(index, "the boat", k=100)) == there
    assert {id for id, _ in index.near("the boat", k=100)} == there
    assert len(index) == len(there)


def test_threads_may_add_and_search_at_once() -> None:
    index = RamIndex(Hashed())
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for at in range(60):
                index.add([Item(id=f"{name}{at}", text=TEXTS[at % 8], thread=name)])
                index.search("boat and bread")
                if at % 7 == 0:
                    index.drop([f"{name}{at}"])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(index) == 3 * (60 - 9)


_WITHOUT_NUMPY = """
import importlib.abc, json, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numpy":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
from perdure.indexes.ram import RamIndex
from perdure.ports.memory import Item
given = json.load(sys.stdin)
index = RamIndex()
index.add([Item(**item) for item in given["items"]])
index.drop(given["drop"])
found = [[[f.id, f.score] for f in index.search(query, k=30)] for query in given["queries"]]
json.dump({"found": found, "near": index.near("the ferry"), "numpy": "numpy" in sys.modules}, sys.stdout)
"""


def test_without_numpy_words_rank_the_same() -> None:
    given = {
        "items": [{"id": i.id, "text": i.text, "author": i.author, "at": i.at, "thread": i.thread} for i in items(30)],
        "drop": ["m7", "m20"],
        "queries": QUERIES,
    }
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NUMPY], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    told = json.loads(ran.stdout)
    assert not told["numpy"]
    index = filled(None, items(30))
    index.drop(["m7", "m20"])
    for query, found in zip(QUERIES, told["found"], strict=True):
        here = index.search(query, k=30)
        assert [id for id, _ in found] == [each.id for each in here]
        assert [score for _, score in found] == pytest.approx([each.score for each in here])
    assert [tuple(pair) for pair in told["near"]] == index.near("the ferry")


def test_what_is_given_as_unmade_is_not_embedded_and_found_by_its_words() -> None:
    embedder = Hashed()
    index = RamIndex(embedder)
    assert index.add(items(), [UNMADE] * len(TEXTS)) == [UNMADE] * len(TEXTS)
    assert embedder.texts == 0
    assert answers(index, "Who bakes rye bread?")[0] == "m4"
    assert all("meaning" not in found.signals for found in index.search("Who bakes rye bread?"))


def test_vectors_count_for_those_that_have_them_and_not_against_the_others() -> None:
    made = RamIndex(Hashed()).add(items())
    half = RamIndex(Hashed())
    half.add(items(), [each if at % 2 else UNMADE for at, each in enumerate(made)])
    told = {found.id: found.signals for found in half.search("sold the old bicycle in Delft", k=len(TEXTS))}
    assert "meaning" in told["m7"]
    assert all("meaning" not in told[id] and "context" not in told[id] for id in ("m0", "m2", "m4", "m6"))
    half.add(items(), made)
    whole = filled(Hashed())
    for query in QUERIES[:3]:
        assert answers(half, query) == answers(whole, query)


def test_an_item_that_is_unmade_is_said_before_the_next() -> None:
    both = RamIndex(Hashed()).add(items())
    index = RamIndex(Hashed())
    given = [UNMADE if at < 2 else b"" for at in range(len(TEXTS))]
    assert index.add(items(), given)[2:] == both[2:]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 4))
def test_a_prior_counts_as_if_everybody_had_been_asked_for_it(priors: list[float], k: int) -> None:
    index = RamIndex(None)
    index.add([Item(id=str(at), text=f"the key is under mat {at % 3} and mat {at}") for at in range(len(priors))])
    everything = index.search("key under mat 1", k=len(priors), prior=lambda id: priors[int(id)])
    assert index.search("key under mat 1", k=k, prior=lambda id: priors[int(id)]) == everything[:k]
