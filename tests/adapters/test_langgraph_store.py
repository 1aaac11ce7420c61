"""LangGraph's store on perdure: the answers of LangGraph's own stores, and what those do not promise."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import perdure
from perdure import errors
from perdure.adapters.langgraph_store import PerdureStore
from perdure.events import Noted
from perdure.testing import FixedAmbient
from perdure.testing.postgres import running

HOT = ("hot",)


@pytest.fixture(params=["memory", "clear", "sealed"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[perdure.Perdure]:
    path = ":memory:" if request.param == "memory" else str(tmp_path / "here.db")
    with perdure.open(path, seal=request.param == "sealed") as opened:
        yield opened


@pytest.fixture
def store(db: perdure.Perdure) -> PerdureStore:
    return PerdureStore(db)


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


def log_of(db: perdure.Perdure, *namespace: str) -> perdure.Session:
    return db.named("langgraph-store/" + ".".join(namespace))


# ── one item ──────────────────────────────────────────────────────────────────────────────────────


def test_what_was_put_is_there_for_every_store_on_the_same_file(store: PerdureStore, db: perdure.Perdure) -> None:
    store.put(("users", "ana"), "food", {"likes": ["tea", {"cake": None}], "n": 1.5})
    item = PerdureStore(db).get(("users", "ana"), "food")
    assert item is not None
    assert item.value == {"likes": ["tea", {"cake": None}], "n": 1.5}
    assert (item.namespace, item.key) == (("users", "ana"), "food")
    assert store.get(("users", "ana"), "drink") is None
    assert store.get(("users", "bo"), "food") is None


def test_an_update_keeps_when_the_item_was_made_also_after_its_first_version_is_gone() -> None:
    ambient = FixedAmbient()
    with perdure.open(":memory:", ambient=ambient) as db:
        store = PerdureStore(db)
        store.put(HOT, "a", {"n": 1})
        made = store.get(HOT, "a")
        ambient.advance(5)
        store.put(HOT, "a", {"n": 2})
        store.compact()
        found = PerdureStore(db).get(HOT, "a")
        assert made is not None
        assert found is not None
        assert found.created_at == made.created_at == made.updated_at
        assert (found.updated_at - found.created_at).total_seconds() == 5
        store.delete(HOT, "a")
        store.put(HOT, "a", {"n": 3})
        again = store.get(HOT, "a")
        assert again is not None
        assert again.created_at == found.updated_at


def test_a_value_that_was_handed_out_is_the_callers_own(store: PerdureStore) -> None:
    mine = {"tags": ["a"]}
    store.put(HOT, "a", mine)
    mine["tags"].append("b")
    found = store.get(HOT, "a")
    assert found is not None
    found.value["tags"].append("c")
    assert [item.value for item in store.search(HOT)] == [{"tags": ["a"]}]


def test_a_batch_reads_what_was_there_before_and_the_last_operation_on_a_key_counts(store: PerdureStore) -> None:
    store.put(HOT, "a", {"n": 0})
    answers = store.batch(
        [
            PutOp(HOT, "a", {"n": 1}),
            GetOp(HOT, "a"),
            PutOp(HOT, "b", {"n": 2}),
            PutOp(HOT, "a", None),
            PutOp(HOT, "b", {"n": 3}),
            SearchOp(HOT),
            ListNamespacesOp(),
        ]
    )
    assert answers[0] is answers[2] is answers[3] is answers[4] is None
    assert isinstance(answers[5], list)
    assert answers[1].value == {"n": 0}  # type: ignore[union-attr]
    assert keys(answers[5]) == ["a"]
    assert answers[6] == [HOT]
    assert [(item.key, item.value) for item in store.search(HOT)] == [("b", {"n": 3})]


def test_a_batch_is_one_append_in_each_namespace(store: PerdureStore, db: perdure.Perdure) -> None:
    store.put(HOT, "x", {})
    seen = log_of(db, "hot").version()
    store.batch([PutOp(HOT, str(n), {"n": n}) for n in range(50)] + [PutOp(HOT, "x", None)])
    events = log_of(db, "hot").events(after=seen)
    assert len(events) == 51
    assert len({event.at for event in events}) == 1
    assert len({event.id[:18] for event in events}) == 1


def test_a_batch_that_was_cut_short_is_completed_by_putting_it_again(
    store: PerdureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [PutOp((name,), key, {"n": 1}) for key in "xy" for name in "abc"]
    append = perdure.AsyncSession.append

    async def full(self: perdure.AsyncSession, *given: Any, **more: Any) -> Any:
        if self.id == store._db.named("langgraph-store/b").id:
            raise errors.WorldError("the disk is full")
        return await append(self, *given, **more)

    with monkeypatch.context() as during:
        during.setattr(perdure.AsyncSession, "append", full)
        with pytest.raises(errors.WorldError):
            store.batch(batch)
    assert sorted((item.namespace, item.key) for item in store.search(())) == [(("a",), "x"), (("a",), "y")]
    store.batch(batch)
    assert len(store.search(())) == 6


def test_deleting_what_is_not_there_writes_nothing(store: PerdureStore, db: perdure.Perdure) -> None:
    store.delete(HOT, "a")
    assert db.count() == 0
    store.put(HOT, "a", {})
    version = log_of(db, "hot").version()
    store.delete(HOT, "b")
    assert log_of(db, "hot").version() == version


def test_more_items_than_one_append_takes_are_written_all_the_same(store: PerdureStore) -> None:
    store.batch([PutOp(HOT, f"{n:05}", {"n": n}) for n in range(5000)])
    assert len(store.search(HOT, limit=6000)) == 5000


@pytest.mark.parametrize(
    "op",
    [
        PutOp(HOT, "a", ["not", "a", "dict"]),  # type: ignore[arg-type]
        PutOp(HOT, "a", {"when": object()}),
        PutOp(HOT, "a", {"n": float("nan")}),
        PutOp(HOT, "a", {}, ttl=0),
        PutOp(HOT, "a", {}, ttl=float("inf")),
        PutOp(HOT, "a", {}, index="text"),  # type: ignore[arg-type]
        SearchOp(HOT, {"n": {"$near": 1}}),
        SearchOp(HOT, {"n": {"$gt": 1, "other": 1}}),
        SearchOp(HOT, {"n": {"deep": [{"$in": [1]}]}}),
        SearchOp(HOT, {"n": {1: 1, "$gt": 0}}),
        SearchOp(HOT, [1]),  # type: ignore[arg-type]
        SearchOp(HOT, "n"),  # type: ignore[arg-type]
        SearchOp(HOT, query=5),  # type: ignore[arg-type]
        SearchOp(HOT, limit=None),  # type: ignore[arg-type]
        SearchOp(HOT, limit=2.5),  # type: ignore[arg-type]
        SearchOp(HOT, offset="1"),  # type: ignore[arg-type]
        ListNamespacesOp(max_depth="1"),  # type: ignore[arg-type]
        ListNamespacesOp(limit=None),  # type: ignore[arg-type]
        "an operation",
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(op: Any, db: perdure.Perdure) -> None:
    store = PerdureStore(db)
    with pytest.raises(errors.Invalid):
        store.batch([op])
    assert store.search(()) == []


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return {"v": value}


@pytest.mark.parametrize(
    "value",
    [
        {"n": float("nan")},
        {1: "a key that is no text"},
        {"text": "x" * (16 << 20)},
        {"many": [0] * 1_000_000},
        nested(64),
    ],
    ids=["nan", "key", "large", "many", "deep"],
)
def test_a_value_that_cannot_be_kept_keeps_its_whole_batch_out(value: Any) -> None:
    with perdure.open(":memory:") as db:
        store = PerdureStore(db)
        store.put(("first",), "a", {"n": 1})
        with pytest.raises(errors.Invalid):
            store.batch(
                [PutOp(("first",), "a", {"n": 2}), PutOp(("second",), "b", {"n": 2}), PutOp(("third",), "c", value)]
            )
        assert [(item.namespace, item.value) for item in store.search(())] == [(("first",), {"n": 1})]


@pytest.mark.parametrize(
    "value", [{"text": "x" * (15 << 20)}, {"many": [0] * 990_000}, nested(63)], ids=["large", "many", "deep"]
)
def test_a_value_is_as_large_as_an_event_takes(value: Any) -> None:
    with perdure.open(":memory:") as db:
        PerdureStore(db).put(HOT, "a", value)
        found = PerdureStore(db).get(HOT, "a")
        assert found is not None
        assert found.value == value


def test_a_match_by_anything_but_prefix_and_suffix_is_refused(store: PerdureStore) -> None:
    store.put(HOT, "a", {})
    with pytest.raises(errors.Invalid, match="prefix or suffix"):
        store.batch([ListNamespacesOp((MatchCondition("middle", ("a",)),))])  # type: ignore[arg-type]


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph",)])
def test_a_namespace_that_langgraph_refuses_is_refused(namespace: tuple[str, ...], store: PerdureStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "a", {})


def test_an_operation_cannot_reach_another_namespace_by_a_dot(store: PerdureStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a.b",), "a", {})])


def test_namespaces_of_any_length_stay_apart(store: PerdureStore) -> None:
    long = tuple(f"part {n} " + "x" * 90 for n in range(30))
    store.put(long, "a", {"n": 1})
    store.put((*long, "y"), "a", {"n": 2})
    assert [item.value["n"] for item in store.search((*long, "y"))] == [2]
    assert [item.value["n"] for item in store.search(long[:20])] == [2, 1]
    assert store.list_namespaces(prefix=long) == [long, (*long, "y")]


# ── searching ─────────────────────────────────────────────────────────────────────────────────────


def test_a_search_shows_the_newest_first_page_by_page() -> None:
    ambient = FixedAmbient()
    with perdure.open(":memory:", ambient=ambient) as db:
        store = PerdureStore(db)
        for n in range(6):
            store.put(("n", str(n % 2)), str(n), {"n": n})
            ambient.advance(1)
        store.put(("n", "0"), "0", {"n": 6})
        assert keys(store.search(("n",))) == ["0", "5", "4", "3", "2", "1"]
        assert keys(store.search(("n",), limit=2, offset=1)) == ["5", "4"]
        assert keys(store.search(("n", "1"), limit=2, offset=2)) == ["1"]


def test_texts_and_numbers_compare_each_in_their_order(store: PerdureStore) -> None:
    store.put(HOT, "a", {"day": "2026-01-02", "n": "10", "deep": {"n": 3}})
    store.put(HOT, "b", {"day": "2026-02-02", "n": 9, "deep": {"n": 4}})
    store.put(HOT, "c", {"day": None})
    assert keys(store.search(HOT, filter={"day": {"$gt": "2026-01-15"}})) == ["b"]
    assert keys(store.search(HOT, filter={"n": {"$gte": 10}})) == ["a"]
    assert keys(store.search(HOT, filter={"n": {"$lt": 100, "$ne": 9}})) == ["a"]
    assert keys(store.search(HOT, filter={"deep": {"n": {"$lte": 3}}})) == ["a"]
    assert keys(store.search(HOT, filter={"deep.n": 4})) == ["b"]


@pytest.mark.parametrize("wanted", [{1: 2}, {None: 1}, {"n": {1: 2}}, {"n": {None: 1}}, {("n",): 1}])
def test_a_filter_by_what_no_field_is_called_finds_nothing(wanted: Any, store: PerdureStore) -> None:
    store.put(HOT, "a", {"n": {"1": 2}})
    store.put(HOT, "b", {"n": 1})
    assert store.search(HOT, filter=wanted) == []


def test_without_an_embedder_a_query_ranks_by_words(store: PerdureStore) -> None:
    store.put(HOT, "long", {"text": "tea " + "and so many other words " * 5})
    store.put(HOT, "cake", {"text": "cake", "tea": "the name of a field says nothing"})
    store.put(HOT, "tea", {"notes": [{"of": "Green TEA"}]})
    store.put(HOT, "hidden", {"text": "tea tea tea"}, index=False)
    store.put(HOT, "partly", {"text": "tea tea tea", "title": "coffee"}, index=["title"])
    found = store.search(HOT, query="some tea")
    assert keys(found)[:2] == ["tea", "long"]
    assert sorted(keys(found)[2:]) == ["cake", "hidden", "partly"]
    assert found[0].score is not None
    assert found[1].score is not None
    assert found[0].score > found[1].score > 0
    assert [item.score for item in found[2:]] == [None, None, None]
    assert keys(store.search(HOT, query="COFFEE", limit=1)) == ["partly"]


def test_fields_say_which_words_are_searched_also_without_an_embedder(db: perdure.Perdure) -> None:
    store = PerdureStore(db, index={"fields": ["title"]})
    store.put(HOT, "a", {"title": "one", "text": "two two"})
    store.put(HOT, "b", {"title": "two"})
    assert [item.score is not None for item in store.search(HOT, query="two")] == [True, False]


class Counting:
    """An embedder that counts how often it is called: letters as directions."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Any) -> list[list[float]]:
        self.calls.append(list(texts))
        return [[float(text.count(letter)) for letter in "abcd"] for text in texts]


def test_texts_are_embedded_once_and_together(db: perdure.Perdure) -> None:
    embed = Counting()
    index: Any = {"dims": 4, "embed": embed, "fields": ["text", "more[*]"]}
    store = PerdureStore(db, index=index)
    store.batch(
        [
            PutOp(HOT, "one", {"text": "aab", "more": ["c", "cd"]}),
            PutOp(HOT, "two", {"text": "aab"}),
            PutOp(HOT, "two", {"text": "b"}),
            PutOp(HOT, "none", {"text": "aab"}, index=False),
            PutOp(HOT, "own", {"other": "dddd"}, index=["other"]),
        ]
    )
    assert embed.calls == [["aab", "c", "cd", "b", "dddd"]]
    again = PerdureStore(db, index=index)
    found = again.search(HOT, query="cd")
    assert embed.calls[1:] == [["cd"]]
    assert keys(found) == ["one", "own", "two", "none"]
    assert found[0].score == pytest.approx(1)
    assert found[1].score == pytest.approx(0.5**0.5)
    assert found[2].score == 0
    assert found[3].score is None


def test_what_was_put_before_there_was_an_embedder_follows_in_the_order_of_its_words(db: perdure.Perdure) -> None:
    PerdureStore(db).put(HOT, "old", {"text": "abba"})
    PerdureStore(db).put(HOT, "older", {"text": "quite something else"})
    store = PerdureStore(db, index={"dims": 4, "embed": Counting()})
    store.put(HOT, "new", {"text": "d"})
    assert [(item.key, item.score is None) for item in store.search(HOT, query="abba")] == [
        ("new", False),
        ("old", True),
        ("older", True),
    ]


async def test_an_async_embedder_serves_async_callers(db: perdure.Perdure) -> None:
    async def embed(texts: Any) -> list[list[float]]:
        await asyncio.sleep(0)
        return Counting()(texts)

    store = PerdureStore(db, index={"dims": 4, "embed": embed})
    await store.aput(HOT, "a", {"text": "a"})
    await store.aput(HOT, "b", {"text": "d"})
    assert keys(await store.asearch(HOT, query="d")) == ["b", "a"]


def test_an_embedder_that_gives_something_else_is_named(db: perdure.Perdure) -> None:
    with pytest.raises(errors.Invalid, match="4 dimensions"):
        PerdureStore(db, index={"dims": 3, "embed": Counting()}).put(HOT, "a", {"text": "a"})
    with pytest.raises(errors.Invalid, match="0 vectors for 1 texts"):
        PerdureStore(db, index={"dims": 3, "embed": lambda texts: []}).put(HOT, "a", {"text": "a"})
    with pytest.raises(errors.Invalid, match="dims"):
        PerdureStore(db, index={"embed": Counting()})
    odd: list[Any] = [
        None,
        1,
        "abc",
        {"a": [1, 2, 3]},
        [None],
        ["123"],
        [b"123"],
        [1.0],
        [["a", "b", "c"]],
        [[None] * 3],
    ]
    for made in odd:
        store = PerdureStore(db, index={"dims": 3, "embed": lambda texts, made=made: made})
        with pytest.raises(errors.Invalid, match="embedder"):
            store.put(HOT, "a", {"text": "a"})
        with pytest.raises(errors.Invalid, match="embedder"):
            store.search(HOT, query="a")
    with pytest.raises(errors.Invalid, match="embedder"):
        PerdureStore(db, index={"dims": 3, "embed": lambda texts: ([1, 2, 3] for _ in texts)}).put(HOT, "a", {"t": "a"})
    assert PerdureStore(db).search(()) == []


# ── the answers of LangGraph's own store ──────────────────────────────────────────────────────────

labels = st.sampled_from(["a", "b", "c"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
scalars = st.sampled_from([None, True, False, 0, 1, 2, 2.5, "1", "x", ""])
values = st.dictionaries(
    st.sampled_from(["n", "m", "deep"]),
    scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["n", "m"]), scalars, max_size=2),
    max_size=3,
)
item_keys = st.sampled_from(["k1", "k2", "k3"])
conditions = st.dictionaries(
    st.sampled_from(["n", "m", "deep"]),
    scalars
    | st.lists(scalars, max_size=2)
    | st.dictionaries(st.sampled_from(["$eq", "$ne"]), scalars, min_size=1, max_size=2)
    | st.dictionaries(st.sampled_from(["n", "m"]), scalars, max_size=2),
    max_size=2,
)
paths = st.lists(st.sampled_from(["a", "b", "*"]), max_size=3).map(tuple)
operations = st.one_of(
    st.tuples(namespaces, item_keys, values | st.none()).map(lambda parts: PutOp(*parts)),
    st.tuples(namespaces, item_keys, values).map(lambda parts: PutOp(*parts)),
    st.tuples(namespaces, item_keys).map(lambda parts: GetOp(*parts)),
    st.tuples(st.lists(labels, max_size=3).map(tuple), conditions | st.none()).map(lambda p: SearchOp(*p, limit=1000)),
    st.builds(
        ListNamespacesOp,
        st.lists(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), paths), max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        st.integers(0, 4),
        st.integers(0, 2),
    ),
)


def plainly(answer: Any) -> Any:
    """An answer without times, and without the order that each store has of its own."""
    if isinstance(answer, list):
        if all(isinstance(item, tuple) for item in answer):
            return answer
        return sorted((item.namespace, item.key, spelled(item.value), item.score) for item in answer)
    return None if answer is None else (answer.namespace, answer.key, spelled(answer.value))


def spelled(value: Any) -> str:
    """A value in which 1, 1.0 and True differ, and the order of fields does not."""
    return json.dumps(value, sort_keys=True)


def swept(reference: InMemoryStore) -> None:
    """LangGraph's store in memory also lists namespaces that are empty, or were only asked for."""
    for namespace in [name for name, held in reference._data.items() if not held]:
        del reference._data[namespace]


@given(st.lists(st.lists(operations, max_size=6), max_size=6), st.data())
@settings(max_examples=150)
def test_random_batches_are_answered_as_by_the_store_in_memory(batches: list[list[Any]], data: st.DataObject) -> None:
    reference = InMemoryStore()
    with perdure.open(":memory:") as db:
        store = PerdureStore(db)
        for batch in batches:
            wanted = []
            for op in batch:  # one by one, since a namespace that is only asked for would be listed
                swept(reference)
                wanted += reference.batch([op]) if not isinstance(op, PutOp) else [None]
            reference.batch([op for op in batch if isinstance(op, PutOp)])
            assert list(map(plainly, store.batch(batch))) == list(map(plainly, wanted))
            what = data.draw(st.sampled_from(["go on", "compact", "reopen"]))
            if what == "compact":
                store.compact()
            elif what == "reopen":
                store = PerdureStore(db)
        swept(reference)
        for after in (store, PerdureStore(db)):
            assert plainly(after.search((), limit=1000)) == plainly(reference.search((), limit=1000))


@given(
    st.lists(st.tuples(item_keys, st.integers(-3, 30)), min_size=1, max_size=8),
    st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
    st.integers(-3, 30) | st.floats(-3, 30) | st.integers(-3, 30).map(str),
)
def test_numbers_compare_as_in_the_store_in_memory(puts: list[tuple[str, int]], sign: str, bound: Any) -> None:
    reference = InMemoryStore()
    with perdure.open(":memory:") as db:
        store = PerdureStore(db)
        for each in (reference, store):
            each.batch([PutOp(HOT, key, {"n": n}) for key, n in puts])
        wanted = reference.search(HOT, filter={"n": {sign: bound}})
        assert plainly(store.search(HOT, filter={"n": {sign: bound}})) == plainly(wanted)


@given(
    st.lists(st.text("abcd", min_size=1, max_size=6), min_size=1, max_size=8, unique=True), st.text("abcd", min_size=1)
)
@settings(max_examples=50)
def test_vectors_score_as_in_the_store_in_memory(texts: list[str], query: str) -> None:
    index: Any = {"dims": 4, "embed": Counting(), "fields": ["text"]}
    reference = InMemoryStore(index=index)
    with perdure.open(":memory:") as db:
        store = PerdureStore(db, index=index)
        for each in (reference, store):
            each.batch([PutOp(("n", str(n % 2)), str(n), {"text": text}) for n, text in enumerate(texts)])
            each.put(("n", "0"), "unseen", {"text": "abcd"}, index=False)
        wanted = reference.search(("n",), query=query, limit=20)
        found = store.search(("n",), query=query, limit=20)
        scores = {item.key: item.score for item in wanted}
        assert {item.key: item.score for item in found} == {
            key: None if score is None else pytest.approx(score, abs=1e-6) for key, score in scores.items()
        }
        assert [item.score for item in found[:-1]] == sorted((item.score for item in found[:-1]), reverse=True)
        assert found[-1].key == "unseen"
        pages = [
            item.key for start in range(0, 20, 3) for item in store.search(("n",), query=query, limit=3, offset=start)
        ]
        assert pages == keys(found)


# ── time to live ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def ambient() -> FixedAmbient:
    return FixedAmbient()


@pytest.fixture
def timed(ambient: FixedAmbient) -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:", ambient=ambient) as opened:
        yield opened


def test_an_item_is_gone_when_its_time_is_over(timed: perdure.Perdure, ambient: FixedAmbient) -> None:
    store = PerdureStore(timed, ttl={"default_ttl": 2, "refresh_on_read": False})
    store.put(HOT, "short", {}, ttl=1)
    store.put(HOT, "usual", {})
    store.put(HOT, "ever", {}, ttl=None)
    ambient.advance(60)
    assert sorted(keys(store.search(HOT))) == ["ever", "usual"]
    assert store.get(HOT, "short") is None
    ambient.advance(60)
    assert keys(store.search(HOT)) == ["ever"]
    assert store.sweep_ttl() == 2
    assert store.sweep_ttl() == 0
    store.delete(HOT, "ever")
    assert store.list_namespaces() == []
    store.sweep_ttl()
    assert timed.count() == 0
    store.put(HOT, "again", {})
    assert keys(PerdureStore(timed).search(HOT)) == ["again"]


def test_reading_keeps_an_item_alive(timed: perdure.Perdure, ambient: FixedAmbient) -> None:
    store = PerdureStore(timed, ttl={"default_ttl": 1})
    for key in ("got", "found", "left", "peeked"):
        store.put((key,), key, {})
    for _ in range(3):
        ambient.advance(40)
        assert store.get(("got",), "got") is not None
        assert keys(store.search(("found",))) == ["found"]
        store.get(("peeked",), "peeked", refresh_ttl=False)
    assert PerdureStore(timed).list_namespaces() == [("found",), ("got",)]
    assert store.get(("left",), "left") is None
    ambient.advance(60)
    assert store.search(()) == []


def test_reading_again_and_again_writes_once_in_a_while(timed: perdure.Perdure, ambient: FixedAmbient) -> None:
    store = PerdureStore(timed, ttl={"default_ttl": 10})
    store.put(HOT, "a", {})
    version = log_of(timed, "hot").version()
    for _ in range(100):
        ambient.advance(0.1)
        store.get(HOT, "a")
    assert 5 <= log_of(timed, "hot").version() - version <= 10


def test_expired_items_are_shown_until_they_are_swept_if_asked_for(
    timed: perdure.Perdure, ambient: FixedAmbient
) -> None:
    store = PerdureStore(timed, ttl={"default_ttl": 1, "omit_expired": False, "refresh_on_read": False})
    store.put(HOT, "a", {})
    ambient.advance(61)
    assert store.get(HOT, "a") is not None
    assert store.list_namespaces() == [HOT]
    assert store.sweep_ttl() == 1
    assert store.get(HOT, "a") is None


def test_an_item_that_is_used_while_others_sweep_stays(timed: perdure.Perdure, ambient: FixedAmbient) -> None:
    store, other = (PerdureStore(timed, ttl={"default_ttl": 1}) for _ in range(2))
    store.put(HOT, "a", {})
    ambient.advance(59)
    other.get(HOT, "a")
    ambient.advance(2)
    assert store.sweep_ttl() == 0
    assert store.get(HOT, "a") is not None


@pytest.mark.parametrize("ttl", [None, 100.0])
def test_reading_prolongs_only_the_item_that_was_read(
    ttl: float | None, timed: perdure.Perdure, ambient: FixedAmbient, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = (PerdureStore(timed, ttl={"refresh_on_read": True}) for _ in range(2))
    reader.put(HOT, "a", {"n": 1}, ttl=1)
    ambient.advance(30)
    append = perdure.AsyncSession.append

    async def late(self: perdure.AsyncSession, *given: Any, **more: Any) -> Any:
        monkeypatch.setattr(perdure.AsyncSession, "append", append)
        await writer.aput(HOT, "a", {"n": 2}, ttl=ttl)
        return await append(self, *given, **more)

    monkeypatch.setattr(perdure.AsyncSession, "append", late)
    assert reader.get(HOT, "a").value == {"n": 1}  # type: ignore[union-attr]
    ambient.advance(80)
    assert PerdureStore(timed).sweep_ttl() == 0
    for store in (reader, writer, PerdureStore(timed)):
        assert store.get(HOT, "a", refresh_ttl=False).value == {"n": 2}  # type: ignore[union-attr]


def test_a_namespace_that_is_tidied_while_an_item_is_read_keeps_it_alive(
    timed: perdure.Perdure, ambient: FixedAmbient, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, other = (PerdureStore(timed, ttl={"refresh_on_read": True}) for _ in range(2))
    reader.put(HOT, "a", {}, ttl=1)
    reader.put(HOT, "b", {})
    reader.put(HOT, "b", {})
    ambient.advance(30)
    append = perdure.AsyncSession.append

    async def late(self: perdure.AsyncSession, *given: Any, **more: Any) -> Any:
        monkeypatch.setattr(perdure.AsyncSession, "append", append)
        await other.acompact()
        return await append(self, *given, **more)

    monkeypatch.setattr(perdure.AsyncSession, "append", late)
    reader.get(HOT, "a")
    ambient.advance(40)
    for store in (reader, other, PerdureStore(timed)):
        assert store.get(HOT, "a", refresh_ttl=False) is not None


def test_a_log_in_which_reading_named_no_item_is_read_without_harm(
    timed: perdure.Perdure, ambient: FixedAmbient
) -> None:
    """So touches were written once: what was made permanent meanwhile stays so, and nothing lives shorter."""
    store = PerdureStore(timed)
    for key, ttl in (("ever", None), ("short", 1.0), ("long", 100.0)):
        store.put(HOT, key, {}, ttl=ttl)
    later = timed.now() + 120_000_000
    expires = [[key, later] for key in ("ever", "short", "long")]
    log_of(timed, "hot").append(Noted(by="langgraph-store", about="touch", data={"expires": expires}))
    ambient.advance(90)
    assert sorted(keys(store.search(HOT, refresh_ttl=False))) == ["ever", "long", "short"]
    ambient.advance(40)
    assert sorted(keys(store.search(HOT, refresh_ttl=False))) == ["ever", "long"]
    assert store.sweep_ttl() == 1


def test_the_sweeper_sweeps_until_it_is_stopped(timed: perdure.Perdure, ambient: FixedAmbient) -> None:
    store = PerdureStore(timed, ttl={"default_ttl": 1, "omit_expired": False})
    store.put(HOT, "a", {})
    ambient.advance(61)
    looked = threading.Event()
    sweep = store.sweep_ttl

    def seen() -> int:
        found = sweep()
        looked.set()
        return found

    store.sweep_ttl = seen  # type: ignore[method-assign]
    future = store.start_ttl_sweeper(sweep_interval_minutes=0.0001)
    assert looked.wait(30)
    assert store.stop_ttl_sweeper(timeout=30)
    assert future.done()
    assert store.search(HOT, refresh_ttl=False) == []
    again = store.start_ttl_sweeper(sweep_interval_minutes=60)
    assert again.cancel()
    assert store.stop_ttl_sweeper(timeout=30)
    assert PerdureStore(timed).start_ttl_sweeper().done()


# ── what is gone ──────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_is_updated_for_ever_does_not_grow_the_log(store: PerdureStore, db: perdure.Perdure) -> None:
    store.batch([PutOp(HOT, f"cold {n}", {"n": n}) for n in range(20)])
    for n in range(400):
        store.put(HOT, "a", {"n": n, "text": "x" * 1000})
    assert len(log_of(db, "hot").events()) < 150
    for after in (store, PerdureStore(db)):
        found = after.get(HOT, "a")
        assert found is not None
        assert found.value["n"] == 399
        assert sorted(item.value["n"] for item in after.search(HOT, limit=50)) == [*range(20), 399]


def test_what_was_deleted_or_superseded_leaves_no_bytes_after_compaction(tmp_path: Path) -> None:
    path = tmp_path / "here.db"
    with perdure.open(str(path), seal=False) as db:
        store = PerdureStore(db, ttl={"default_ttl": 1})
        store.put(HOT, "a", {"text": "MARKER-superseded"})
        store.put(HOT, "a", {"text": "MARKER-standing"})
        store.put(HOT, "b", {"text": "MARKER-deleted"})
        store.delete(HOT, "b")
        store.put(("gone",), "b", {"text": "MARKER-last"})
        store.delete(("gone",), "b")
        store.compact()
        store.compact()
        assert keys(store.search(())) == ["a"]
        assert db.count() == 1
        assert db.verify().ok
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"MARKER-standing" in raw
    assert [word for word in (b"superseded", b"deleted", b"last") if b"MARKER-" + word in raw] == []


def test_a_session_that_somebody_branched_is_compacted_by_nobody_and_works(
    store: PerdureStore, db: perdure.Perdure
) -> None:
    store.put(HOT, "a", {"n": 0})
    log_of(db, "hot").branch()
    for n in range(100):
        store.put(HOT, "a", {"n": n, "text": "x" * 2000})
    assert [item.value["n"] for item in store.search(())] == [99]
    assert store.list_namespaces() == [HOT]


def test_a_namespace_erased_by_hand_is_empty_and_can_be_used_again(store: PerdureStore, db: perdure.Perdure) -> None:
    store.put(HOT, "a", {"n": 1})
    log_of(db, "hot").erase()
    assert store.search(()) == []
    store.put(HOT, "a", {"n": 2})
    assert [item.value["n"] for item in store.search(())] == [2]


def test_the_sessions_of_a_store_are_told_from_conversations(store: PerdureStore, db: perdure.Perdure) -> None:
    store.put(("users", "ana"), "a", {"text": "tea"})
    with db.create("talk").turn("hello") as turn:
        turn.answer("hi")
    assert [row.metadata["namespace"] for row in db.find(metadata={"by": "langgraph-store"}).items] == [
        ["users", "ana"]
    ]
    assert db.find(text="tea").items == ()
    assert log_of(db, "users", "ana").turns() == []


def test_no_timeout_of_the_deployment_ends_a_namespace(ambient: FixedAmbient) -> None:
    with perdure.open(":memory:", ambient=ambient, timeouts={"idle": 60, "absolute": 100, "expiry": 10}) as db:
        store = PerdureStore(db)
        store.put(HOT, "a", {})
        assert log_of(db, "hot").info().due_at is None
        ambient.advance(1e6)
        store.put(HOT, "b", {})
        assert sorted(keys(store.search(HOT))) == ["a", "b"]


def test_a_store_that_is_only_read_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "here.db")
    with perdure.open(path, seal=False) as db:
        PerdureStore(db, ttl={"default_ttl": 1}).put(HOT, "a", {"n": 1})
    ambient = FixedAmbient()
    with perdure.open(path, read_only=True, ambient=ambient) as db:
        store = PerdureStore(db)
        ambient.advance(30)
        assert keys(store.search(HOT)) == ["a"]
        with pytest.raises(errors.ReadOnly):
            store.put(HOT, "a", {"n": 2})


def test_nothing_of_a_sealed_store_lies_open(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "here.db"), seal=True) as db:
        store = PerdureStore(db, index={"dims": 4, "embed": Counting()})
        store.put(("MARKER", "space"), "MARKER-key", {"MARKER-field": "MARKER-value"})
        assert len(store.search(("MARKER",), query="MARKER", filter={"MARKER-field": "MARKER-value"})) == 1
    assert b"MARKER" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


# ── many hands ────────────────────────────────────────────────────────────────────────────────────

WRITER = """
import sys, warnings
import perdure
from perdure.adapters.langgraph_store import PerdureStore
with perdure.open(sys.argv[1]) as db:
    store = PerdureStore(db)
    for n in range(150):
        store.put(("shared",), f"{sys.argv[2]}-{n}", {"n": n})
        store.put(("shared",), "both", {"by": sys.argv[2], "n": n, "text": "x" * 3000})
        if n % 3 == 0:
            store.delete(("shared",), f"{sys.argv[2]}-{n}")
"""


def test_two_processes_write_one_namespace_and_nothing_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "here.db")
    with perdure.open(path, seal=False) as db:
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, name]) for name in ("one", "two")]
        store = PerdureStore(db)
        while any(writer.poll() is None for writer in writers):
            store.search(("shared",))
        assert [writer.wait() for writer in writers] == [0, 0]
        wanted = {f"{name}-{n}" for name in ("one", "two") for n in range(150) if n % 3} | {"both"}
        for after in (store, PerdureStore(db)):
            assert set(keys(after.search(("shared",), limit=1000))) == wanted
        assert len(log_of(db, "shared").events()) < 600
        assert db.verify().ok


def test_threads_share_a_store(store: PerdureStore) -> None:
    failed: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for n in range(20):
                store.put(HOT, f"{name}-{n}", {"n": n, "text": "x" * 300})
                store.put(HOT, "all", {"n": n, "text": "x" * 5000})
                store.search(HOT, query="x", limit=3)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(store.search(HOT, limit=1000)) == 81


def test_an_item_is_never_missing_while_it_is_updated(store: PerdureStore) -> None:
    store.put(HOT, "a", {"n": 1})
    shelf = perdure.drive(store._shelving.shelf(HOT))
    assert shelf is not None
    seen: list[Any] = []

    class Peeking(dict[str, Any]):
        """Has somebody look while an item is replaced."""

        def pop(self, key: str, *rest: Any) -> Any:
            found = super().pop(key, *rest)
            reader.start()
            reader.join(0.2)
            return found

    reader = threading.Thread(target=lambda: seen.append(shelf.get("a")))
    shelf._items = Peeking(shelf._items)
    store.put(HOT, "a", {"n": 2})
    assert store.get(HOT, "a") is not None
    reader.join()
    assert [kept.value for kept in seen] == [{"n": 2}]


PRUNER = """
import sys
import perdure
from perdure import errors, events
with perdure.open(sys.argv[1]) as db:
    session = db.named("shared")
    for _ in range(150):
        version = session.append([events.Noted(by="here", data=1)] * 20)
        try:
            session.prune(version - 20)
        except errors.Invalid:
            pass
"""


def test_processes_that_prune_one_session_do_not_take_each_other_for_damage(tmp_path: Path) -> None:
    path = str(tmp_path / "here.db")
    with perdure.open(path, seal=False) as db:
        db.create(name="shared")
        pruners = [subprocess.Popen([sys.executable, "-c", PRUNER, path]) for _ in range(3)]
        assert [pruner.wait() for pruner in pruners] == [0, 0, 0]
        assert db.verify().ok


async def test_tasks_share_a_store_on_one_loop(tmp_path: Path) -> None:
    async with await perdure.aopen(str(tmp_path / "here.db"), seal=True) as db:
        store = PerdureStore(db)
        await asyncio.gather(*(store.aput(("n", str(n % 3)), str(n), {"n": n}) for n in range(60)))
        assert len(await store.asearch(("n",), limit=100)) == 60
        assert await store.alist_namespaces(suffix=("2",)) == [("n", "2")]
        await store.adelete(("n", "0"), "0")
        await store.acompact()
        assert await store.aget(("n", "0"), "0") is None
        assert await store.asweep_ttl() == 0


@pytest.mark.parametrize("seal", [False, True])
def test_it_works_on_postgresql(seal: bool, server: Any, tmp_path: Path) -> None:
    places = {"key": tmp_path / "key", "vault": tmp_path / "vault"} if seal else {}
    with perdure.open(server.database(), seal=seal, **places) as db:
        store = PerdureStore(db, index={"dims": 4, "embed": Counting(), "fields": ["text"]})
        store.batch([PutOp(("users", str(n % 3)), str(n), {"n": n, "text": "abcd"[n % 4]}) for n in range(30)])
        for n in range(200):
            store.put(("users", "0"), "a", {"n": n, "text": "a", "more": "x" * 2000})
        store.delete(("users", "1"), "1")
        store.compact()

        async def at_once() -> None:
            await asyncio.gather(*(store.aput(("many",), str(n), {"n": n}) for n in range(30)))

        asyncio.run(at_once())
        assert len(store.search(("many",), limit=50)) == 30
        fresh = PerdureStore(db, index={"dims": 4, "embed": Counting(), "fields": ["text"]})
        assert fresh.list_namespaces(prefix=("users",)) == [("users", "0"), ("users", "1"), ("users", "2")]
        assert fresh.search(("users",), query="d", limit=1, filter={"n": {"$gt": 20}})[0].value["text"] == "d"
        assert sorted(item.value["n"] for item in fresh.search(("users", "1"), limit=50)) == [*range(4, 30, 3)]
        assert len(log_of(db, "users", "0").events()) < 50
        assert db.verify().ok


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with running() as found:
        yield found


# ── inside a graph ────────────────────────────────────────────────────────────────────────────────


class State(TypedDict):
    user: str
    said: str
    remembered: list[str]


def graph(store: BaseStore) -> Any:
    """A graph that remembers what each user said, across runs."""

    def remember(state: State, *, store: BaseStore) -> dict[str, Any]:
        namespace = ("memories", state["user"])
        found = store.search(namespace, query=state["said"], limit=2)
        store.put(namespace, f"m{len(store.search(namespace, limit=100))}", {"text": state["said"]})
        return {"remembered": [item.value["text"] for item in found]}

    async def recall(state: State, *, store: BaseStore) -> dict[str, Any]:
        items = await store.asearch(("memories", state["user"]), limit=100)
        return {"remembered": [*state["remembered"], str(len(items))]}

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_node("recall", recall)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "recall")
    builder.add_edge("recall", END)
    return builder.compile(store=store)


async def test_a_graph_remembers_across_runs_and_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "here.db")
    runs = [
        ("ana", "I like green tea", ["1"]),
        ("bo", "I like coffee", ["1"]),
        ("ana", "My cat is called Tea Leaf", ["I like green tea", "2"]),
        ("ana", "what is my cat called", ["My cat is called Tea Leaf", "I like green tea", "3"]),
    ]
    for user, said, wanted in runs:
        async with await perdure.aopen(path, seal=True) as db:
            answer = await graph(PerdureStore(db)).ainvoke({"user": user, "said": said, "remembered": []})
            assert answer["remembered"] == wanted
