"""The shelf: what each event makes of it, and that it is the same however the log is cut into pages."""

import itertools
from collections.abc import Iterable
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.shelf import DAYS, Changes, Shelf
from perdure.core.memory.tracing import Told, freed, meant, together, told_of
from perdure.core.memory.uses import LATE, SOON, Uses
from perdure.core.session.event import Payload
from perdure.core.session.memories import (
    MemoriesEmbedded,
    MemoriesUsed,
    MemoryChanged,
    MemoryKept,
    MemoryMoved,
    MemoryPlanned,
    MemoryProposed,
    MemoryReviewed,
    MemoryRun,
)
from perdure.core.session.redaction import Redacted


class Told_:  # noqa: N801 - an event, as far as a shelf looks at it
    """An event of a log in a test."""

    def __init__(self, version: int, data: Payload) -> None:
        self.version, self.data, self.at, self.digest = version, data, 1_000 * version, b"%d" % version


def events(payloads: Iterable[Payload], first: int = 1) -> list[Any]:
    return [Told_(first + number, payload) for number, payload in enumerate(payloads)]


def shelf_of(*payloads: Payload) -> Shelf:
    shelf = Shelf(embedder="e")
    shelf.take(events(payloads))
    return shelf


def kept(id: str, content: str = "tea", **fields: Any) -> MemoryKept:
    return MemoryKept(**{"id": id, "type": "fact", "content": content, "importance": 0.5} | fields)


def more(shelf: Shelf, *payloads: Payload) -> Changes:
    return shelf.take(events(payloads, shelf.version + 1))


def embedded(by: str = "e", beside: tuple[str, ...] = (), **vectors: bytes) -> MemoriesEmbedded:
    return MemoriesEmbedded(embedder=by, vectors=vectors, beside=beside)


def test_a_kept_memory_stands_on_the_shelf_with_its_vectors() -> None:
    shelf = shelf_of(embedded(a=b"v"), kept("a", session="s", version=3, source="user", trust="high"))
    memory = shelf.memories["a"]
    assert (memory.content, memory.status, memory.recorded_at, memory.version) == ("tea", Status.LIVE, 2_000, 2)
    assert (memory.source.kind, memory.source.session, memory.source.version) == ("user", "s", 3)
    assert shelf.vectors == {"a": b"v"}
    assert (shelf.version, shelf.digest, shelf.count(), len(shelf)) == (2, b"2", 1, 1)


def test_vectors_of_another_embedder_are_known_of_and_never_at_hand() -> None:
    shelf = shelf_of(embedded(a=b"v"), kept("a"), kept("b"))
    assert more(shelf, embedded("other", a=b"w", b=b"x")) == Changes()
    assert (shelf.vectors, shelf.has_vectors("a"), shelf.has_vectors("b")) == ({"a": b"v"}, True, False)
    assert more(shelf, Redacted(versions=(4,))) == Changes()
    assert (shelf.has_vectors("a"), shelf.versions_of("b")) == (True, (3,))


def test_vectors_go_with_any_memory_whose_words_went_in_and_their_own_memories_stay() -> None:
    shelf = shelf_of(kept("a"), embedded(b=b"v", beside=("a",)), kept("b"), embedded(c=b"w"), kept("c"))
    assert shelf.versions_of("a") == (1, 2)
    assert shelf.embedded_in([1, 2]) == {"a", "b"}
    assert more(shelf, Redacted(versions=(1, 2))) == Changes(came=("b",), gone=("a",))
    assert ([*shelf.memories], shelf.vectors) == (["b", "c"], {"c": b"w"})
    assert (shelf.has_vectors("b"), shelf.has_vectors("c")) == (False, True)


def test_a_memory_that_an_index_knows_otherwise_needs_other_vectors() -> None:
    shelf = shelf_of(embedded(a=b"v"), kept("a"))
    assert more(shelf, MemoryChanged(id="a", after={"author": "Ben"})).came == ("a",)
    assert (shelf.has_vectors("a"), shelf.vectors) == (False, {})
    assert more(shelf, embedded(a=b"w")).came == ("a",)
    assert (shelf.has_vectors("a"), shelf.vectors) == (True, {"a": b"w"})


def test_a_thread_has_its_memories_in_their_order() -> None:
    shelf = shelf_of(kept("a", thread="t"), kept("b", thread="t"), kept("c"), kept("d", thread="t"))
    assert shelf.threads == {"t": ["a", "b", "d"]}
    more(shelf, MemoryChanged(id="a", after={"thread": "u"}), MemoryMoved(id="b", status="archived"))
    assert shelf.threads == {"t": ["b", "d"], "u": ["a"]}
    more(shelf, Redacted(versions=(1, 5)))
    assert shelf.threads == {"t": ["b", "d"]}


def test_a_newer_memory_ends_the_one_it_supersedes_when_it_began_to_hold() -> None:
    shelf = shelf_of(kept("a"), kept("b", valid_to=1_500), kept("c", supersedes=("a", "b", "nobody"), valid_from=2_000))
    told = {id: (one.status, one.superseded_by, one.superseded_at, one.valid_to) for id, one in shelf.memories.items()}
    assert told == {
        "a": (Status.SUPERSEDED, "c", 3_000, 2_000),
        "b": (Status.SUPERSEDED, "c", 3_000, 1_500),
        "c": (Status.LIVE, "", 0, None),
    }
    assert (shelf.count(), shelf.count(Status.SUPERSEDED)) == (1, 2)


def test_a_memory_does_not_end_before_it_began_because_another_takes_its_place() -> None:
    shelf = shelf_of(kept("a", valid_from=900), kept("b"), kept("c", supersedes=("a", "b"), valid_from=700))
    assert [shelf.memories[id].valid_to for id in ("a", "b")] == [900, 2_000]
    assert not any(shelf.memories["a"].was_true(at) for at in (699, 700, 900, 5_000))
    more(shelf, kept("d", valid_from=9_000_000), MemoryMoved(id="d", status="superseded", by="c"))
    assert shelf.memories["d"].valid_to == 9_000_000


def test_what_is_over_itself_ends_what_it_supersedes_no_later() -> None:
    shelf = shelf_of(kept("a", valid_from=100), kept("b", supersedes=("a",), valid_to=1_500))
    assert (shelf.memories["a"].valid_to, shelf.memories["b"].was_true(1_499)) == (1_500, True)


def test_an_end_that_superseded_memories_had_of_their_own_stays_known() -> None:
    run = MemoryChanged(id="c", before={"valid_to": None}, after={"valid_to": 2_500}, run="r")
    shelf = shelf_of(kept("a", valid_to=500), kept("b"), kept("c"), kept("d", supersedes=("a", "b")), run)
    more(shelf, MemoryMoved(id="c", status="superseded", by="d", run="r"))
    assert dict(shelf.otherwise) == {"a": 500, "b": None, "c": None}
    more(shelf, MemoryMoved(id="a", status="live"))
    assert "a" not in shelf.otherwise


def test_what_is_not_live_is_not_superseded_again() -> None:
    shelf = shelf_of(kept("a"), kept("b", supersedes=("a",)), kept("c", supersedes=("a",)))
    assert shelf.memories["a"].superseded_by == "b"


def test_what_comes_back_is_as_it_was_before_it_was_superseded() -> None:
    shelf = shelf_of(kept("a", valid_to=9_000_000), kept("b", supersedes=("a",)))
    more(shelf, MemoryMoved(id="a", was="superseded", status="archived", by="b"))
    assert shelf.memories["a"].status is Status.ARCHIVED
    more(shelf, MemoryMoved(id="a", was="archived", status="live"))
    back = shelf.memories["a"]
    assert (back.status, back.superseded_by, back.superseded_at, back.valid_to) == (Status.LIVE, "", 0, 9_000_000)


def test_an_end_that_was_said_since_stays_when_it_comes_back() -> None:
    shelf = shelf_of(kept("a"), MemoryMoved(id="a", status="superseded", by="b"))
    assert shelf.memories["a"].valid_to == 2_000
    more(shelf, MemoryChanged(id="a", after={"valid_to": 7}), MemoryMoved(id="a", status="live"))
    assert shelf.memories["a"].valid_to == 7


def test_a_change_touches_only_what_may_change() -> None:
    shelf = shelf_of(kept("a"))
    after = {"type": "episode", "importance": 1.0, "subjects": ["Cleo"], "content": "coffee", "id": "b", "status": "x"}
    assert more(shelf, MemoryChanged(id="a", after=after)) == Changes()
    one = shelf.memories["a"]
    assert (one.type, one.importance, one.subjects, one.content, one.id) == ("episode", 1.0, ("Cleo",), "tea", "a")


def test_an_index_hears_of_changes_to_what_it_knows_and_of_no_others() -> None:
    shelf = shelf_of(kept("a"))
    for after in ({"importance": 0.1}, {"metadata": {"x": 1}}, {"valid_to": 5}):
        assert more(shelf, MemoryChanged(id="a", after=after)).came == ()
    for after in ({"author": "Ben"}, {"thread": "t"}, {"valid_from": 5}):
        assert more(shelf, MemoryChanged(id="a", after=after)).came == ("a",)
    assert more(shelf, MemoryMoved(id="a", status="archived")).came == ()
    assert more(shelf, MemoriesEmbedded(embedder="e", vectors={"a": b"w", "gone": b"x"})).came == ("a",)


def test_events_about_nobody_do_no_harm() -> None:
    shelf = shelf_of(
        MemoryChanged(id="x", after={"importance": 1.0}),
        MemoryMoved(id="x", status="archived"),
        MemoriesUsed(counts={"x": (1, 1, 1)}),
        MemoryReviewed(id="x", accepted=True),
        Redacted(versions=(1, 2, 77)),
        MemoryKept(),
        MemoryRun(),
    )
    assert (len(shelf), shelf.proposals, shelf.runs, shelf.version) == (0, {}, {}, 7)


def test_uses_add_up_and_queries_are_known_by_day_however_late_they_come() -> None:
    shelf = shelf_of(kept("a"), MemoriesUsed(counts={"a": (2, 1, 0)}, queries={"20001": 3}, missing=1))
    more(shelf, MemoriesUsed(counts={"a": (1, 0, 4)}, queries={"20000": 5}), MemoriesUsed(queries={"20001": 1}))
    one = shelf.memories["a"]
    assert (one.accesses, one.cited, one.unused, shelf.missing) == (3, 1, 4, 1)
    assert shelf.queries == {"20001": 4, "20000": 5}
    more(shelf, *[MemoriesUsed(queries={str(20_001 + day): 1}) for day in range(1, 20)])
    assert sorted(shelf.queries) == [str(20_020 - day) for day in range(DAYS - 1, -1, -1)]


def test_runs_and_proposals_are_told_in_full() -> None:
    shelf = shelf_of(
        MemoryRun(id="r", phase="began", trigger="demand"),
        MemoryRun(id="r", phase="stepped", place="7", found={"merged": 2}),
        MemoryRun(id="r", phase="ended"),
        MemoryProposed(id="p", memory="m", content="tea", by="ben"),
        MemoryReviewed(id="p", accepted=True, memory="n", by="cleo", reason="sound"),
        MemoryPlanned(plan="free"),
    )
    run, proposal = shelf.runs["r"], shelf.proposals["p"]
    assert (run.phase, run.trigger, run.found, run.began_at, run.at) == ("ended", "demand", {"merged": 2}, 1_000, 3_000)
    assert (proposal.accepted, proposal.became, proposal.reviewed_by, proposal.proposed_at) == (
        True,
        "n",
        "cleo",
        4_000,
    )
    assert shelf.plan == "free"


def test_every_version_that_says_something_of_a_memory_is_known() -> None:
    shelf = shelf_of(
        kept("a"),
        kept("b"),
        MemoryChanged(id="a", after={"importance": 1.0}),
        MemoriesEmbedded(embedder="e", vectors={"a": b"1", "b": b"2"}),
        MemoryMoved(id="a", status="archived"),
        MemoryProposed(id="p", content="tea"),
        MemoryReviewed(id="p", reason="no"),
        MemoryChanged(id="gone", after={"metadata": {"name": "Ada"}}),
    )
    assert {id: shelf.versions_of(id) for id in ("a", "b", "p", "gone", "nobody")} == {
        "a": (1, 3, 4), "b": (2, 4), "p": (6, 7), "gone": (8,), "nobody": (),
    }  # fmt: skip


def test_why_a_memory_was_moved_is_said_of_it_also_when_it_is_gone() -> None:
    shelf = shelf_of(
        kept("a"),
        MemoryMoved(id="a", was="live", status="archived", reason="over"),
        MemoryMoved(id="gone", was="live", status="archived", reason="over"),
        MemoryMoved(),
    )
    assert {id: shelf.versions_of(id) for id in ("a", "gone", "")} == {"a": (1, 2), "gone": (3,), "": ()}
    assert more(shelf, Redacted(versions=(1, 2))) == Changes(gone=("a",))
    assert (len(shelf), shelf.versions_of("a")) == (0, ())
    assert more(shelf, Redacted(versions=(3,))) == Changes()
    assert shelf.versions_of("gone") == ()


def test_what_the_log_lost_is_off_the_shelf() -> None:
    shelf = shelf_of(embedded(a=b"v"), kept("a"), kept("b"), MemoryChanged(id="a", after={"importance": 1.0}))
    assert more(shelf, Redacted(versions=(1, 2, 4))) == Changes(gone=("a",))
    assert ([*shelf.memories], shelf.versions_of("a"), shelf.vectors, shelf.count()) == (["b"], (), {}, 1)


def test_a_memory_that_came_and_went_on_one_page_only_goes() -> None:
    shelf = Shelf()
    assert shelf.take(events([kept("a"), kept("b"), Redacted(versions=(1,))])) == Changes(came=("b",), gone=("a",))


def test_a_proposal_that_the_log_lost_is_gone() -> None:
    shelf = shelf_of(MemoryProposed(id="p", content="tea"), MemoryReviewed(id="p", reason="no"))
    assert more(shelf, Redacted(versions=(1, 2))) == Changes()
    assert (shelf.proposals, shelf.versions_of("p")) == ({}, ())


def test_where_others_stood_on_what_is_lost_the_log_must_be_read_anew() -> None:
    assert more(shelf_of(kept("a"), kept("b", supersedes=("a",))), Redacted(versions=(2,))).anew
    assert more(shelf_of(kept("a"), MemoryChanged(id="a", after={"importance": 1.0})), Redacted(versions=(2,))).anew
    assert more(shelf_of(MemoryProposed(id="p"), MemoryReviewed(id="p")), Redacted(versions=(2,))).anew
    assert not more(shelf_of(kept("a"), kept("b", supersedes=("a",))), Redacted(versions=(1, 2))).anew
    many = MemoriesEmbedded(embedder="e", vectors={"a": b"1", "b": b"2"})
    assert more(shelf_of(kept("a"), kept("b"), many), Redacted(versions=(1, 3))) == Changes(came=("b",), gone=("a",))
    assert more(shelf_of(kept("a"), kept("b"), many), Redacted(versions=(1, 2, 3))) == Changes(gone=("a", "b"))


def test_what_an_index_must_take_in_again_comes_last_on_every_page() -> None:
    again = MemoryChanged(id="a", after={"author": "Ben"})
    assert Shelf().take(events([kept("a"), kept("b"), again])).came == ("b", "a")


ids = st.sampled_from("abcd")
payloads = st.one_of(
    st.builds(kept, ids, st.sampled_from(["tea", "rain"]), supersedes=st.lists(ids, max_size=2).map(tuple)),
    st.builds(MemoryMoved, id=ids, status=st.sampled_from([status.value for status in Status]), by=ids),
    st.builds(MemoryChanged, id=ids, after=st.sampled_from([{"importance": 1.0}, {"author": "Ben"}, {"valid_to": 5}])),
    st.builds(MemoriesUsed, counts=st.dictionaries(ids, st.just((1, 0, 0)))),
    st.builds(MemoriesEmbedded, embedder=st.just("e"), vectors=st.dictionaries(ids, st.just(b"w"))),
)


@given(told=st.lists(payloads, max_size=25), cuts=st.sets(st.integers(0, 25)))
def test_a_shelf_is_the_same_however_its_log_is_paged(told: list[Payload], cuts: set[int]) -> None:
    whole, paged, log = Shelf(), Shelf(), events(told)
    whole.take(log)
    edges = sorted({0, len(log), *[cut for cut in cuts if cut < len(log)]})
    came: dict[str, None] = {}
    for start, end in itertools.pairwise(edges):
        changes = paged.take(log[start:end])
        came |= dict.fromkeys(changes.came)
    assert [*paged] == [*whole]
    assert came.keys() == whole.memories.keys()
    for status in Status:
        assert whole.count(status) == sum(memory.status is status for memory in whole) == paged.count(status)


# ── what goes together ──


def test_the_forms_that_a_memory_had_go_with_it() -> None:
    shelf = shelf_of(
        kept("a", "lives in Lisbon"),
        kept("b", "lives in Porto", supersedes=("a",)),
        kept("c", "lives in Braga", supersedes=("b",)),
        kept("d"),
    )
    assert together(shelf, ["c"]) == {"a", "b", "c"}
    assert together(shelf, ["b"]) == {"a", "b"}
    assert together(shelf, ["d", "nobody"]) == {"d", "nobody"}
    more(shelf, MemoryMoved(id="a", was="superseded", status="archived", by="b"))
    assert together(shelf, ["c"]) == {"a", "b", "c"}
    more(shelf, MemoryMoved(id="b", was="superseded", status="live"))
    assert together(shelf, ["c"]) == {"c"}


def test_what_says_the_same_goes_too_whichever_of_them_is_named() -> None:
    shelf = shelf_of(
        kept("a", "Likes green tea"),
        kept("b", "likes green tea."),
        kept("c", "Likes trains"),
        kept("d", "She likes green tea and trains", supersedes=("a", "b", "c")),
    )
    assert together(shelf, ["d"]) == {"a", "b", "c", "d"}
    assert together(shelf, ["a"]) == {"a", "b", "d"}
    assert together(shelf, ["c"]) == {"c", "d"}
    (back,) = freed(shelf, {"a", "b", "d"}, "forgotten")
    assert isinstance(back, MemoryMoved)
    assert (back.id, back.status) == ("c", "live")


def test_what_was_made_of_it_goes_too_whatever_its_words() -> None:
    made = kept("m", "Hot drinks are welcome", supersedes=("a", "b"), source="consolidation")
    shelf = shelf_of(kept("a", "Likes tea"), kept("b", "Likes cocoa"), made)
    assert together(shelf, ["a"]) == {"a", "m"}


def of_session(name: str) -> Any:
    return lambda told: told.session == name


def test_what_consolidation_made_of_it_goes_too_and_what_only_that_superseded_comes_back() -> None:
    merged = kept("m", supersedes=("a", "b"), source="consolidation")
    shelf = shelf_of(kept("a", session="s"), kept("b", session="t"), merged, kept("own", supersedes=("b",)))
    gone = meant(shelf, of_session("s"), set())
    assert gone == {"a", "m"}
    (back,) = freed(shelf, gone, "erased")
    assert isinstance(back, MemoryMoved)
    assert (back.id, back.was, back.status) == ("b", "superseded", "live")


def test_what_was_proposed_and_promoted_of_it_goes_too() -> None:
    lethe = shelf_of(
        MemoryProposed(id="p", memory="a", content="tea"),
        kept("n", source="promotion"),
        MemoryReviewed(id="p", accepted=True, memory="n"),
        MemoryProposed(id="q", content="rain", session="s"),
        kept("other"),
    )
    assert meant(lethe, of_session("s"), {"a"}) == {"p", "n", "q"}
    assert meant(lethe, of_session("nobody's"), set()) == set()


def test_people_are_those_who_wrote_it_said_it_and_whom_it_is_about() -> None:
    shelf = shelf_of(kept("a", writer="w", author="Ben", subjects=("Cleo",), agent="ana", uri="u", session="s"))
    told = told_of(shelf.memories["a"])
    assert told == Told(session="s", people=frozenset({"w", "Ben", "Cleo", "ana"}), uri="u", writer="w")
    proposed = shelf_of(MemoryProposed(id="p", by="Ben", subjects=("Cleo",))).proposals["p"]
    assert told_of(proposed).people == {"Ben", "Cleo"}


# ── counting ──


def test_what_was_written_down_counts_no_more_and_what_came_meanwhile_does() -> None:
    uses = Uses()
    assert not uses
    assert uses.told() == []
    uses.note("a", found=2)
    uses.note("b", cited=1)
    uses.ask("1")
    uses.missing = 2
    told = uses.told()
    uses.note("a", found=1)
    uses.ask("1")
    uses.ask("2")
    uses.wrote(told)
    assert (uses.counts, uses.queries, uses.missing) == ({"a": [1, 0, 0]}, {"1": 1, "2": 1}, 0)
    uses.wrote(uses.told())
    assert not uses


def test_uses_are_due_when_there_are_many_or_the_first_is_old() -> None:
    uses = Uses()
    assert not uses.due(10**18)
    uses.note("a", found=1)
    assert not uses.due(5)
    assert not uses.due(5 + LATE)
    assert uses.due(6 + LATE)
    uses.wrote(uses.told())
    uses.note("a", found=SOON)
    assert uses.due(6 + LATE)


def test_a_shelf_iterates_over_memories_in_the_order_they_were_kept() -> None:
    shelf = shelf_of(kept("b"), kept("a"), MemoryMoved(id="b", status="archived"), kept("c"))
    assert [memory.id for memory in shelf] == ["b", "a", "c"]
    assert all(isinstance(memory, Memory) for memory in shelf)
