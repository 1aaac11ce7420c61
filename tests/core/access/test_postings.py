"""What is posted to webhooks: to whom, in what words, in what order, and for how long."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access import postings
from perdure.core.access.book import Hook
from perdure.core.access.postings import BLANK, DELAYS, Delivery, Entry, Failure, Happened, Leased, Passed, Settled
from perdure.core.errors import Invalid
from perdure.core.session.lifecycle import MOVE_NAMES

DONE = Happened(tenant="acme", session="s1", move="complete", version=7, at=100, before="active", after="completed")


def hook(id: str = "whk_1", *events: str, tenant: str = "acme", created_at: int = 0) -> Hook:
    return Hook(id=id, tenant=tenant, url="https://a.example", secret=b"s" * 16, events=events, created_at=created_at)


def delivery(id: str, hook: str = "whk_1", session: str = "s1", due: int = 0, failures: int = 0) -> Delivery:
    facts = {"tenant": "acme", "move": "suspend", "version": 1, "at": 1}
    return Delivery(id=id, hook=hook, session=session, due=due, failures=failures, **facts)


def test_every_move_has_a_word_for_it() -> None:
    assert set(postings.TYPES) == {*MOVE_NAMES, "erased"} == set(postings.EVENTS)
    assert len(set(postings.TYPES.values())) == len(postings.TYPES)


def test_those_are_told_who_want_it_are_of_the_tenant_and_were_there() -> None:
    hooks = [
        hook("all"),
        hook("star", "*"),
        hook("this", "suspend", "complete"),
        hook("other", "suspend"),
        hook("theirs", tenant="evil"),
        hook("then", created_at=100),
        hook("late", created_at=101),
    ]
    assert [each.hook for each in postings.wanted(hooks, DONE)] == ["all", "star", "this", "then"]


def test_a_delivery_says_what_happened_and_nothing_else() -> None:
    (found,) = postings.wanted([hook()], DONE)
    assert json.loads(postings.body(found)) == {
        "id": found.id,
        "type": "session.completed",
        "session_id": "s1",
        "tenant": "acme",
        "move": "complete",
        "phase_before": "active",
        "phase_after": "completed",
        "version": 7,
        "at": 100,
    }


def test_an_id_follows_from_what_is_told_and_to_whom() -> None:
    same = {postings.delivery_id("whk_1", DONE) for _ in range(2)}
    others = {
        postings.delivery_id("whk_2", DONE),
        *(
            postings.delivery_id("whk_1", msgspec.structs.replace(DONE, **change))
            for change in ({"session": "s2"}, {"version": 8}, {"at": 101}, {"move": "erased"})
        ),
    }
    assert len(same) == 1
    assert len(same | others) == 6
    assert all("." not in id for id in same | others), "a signature is over id.timestamp.body"


def test_no_event_named_is_every_event_and_an_unknown_one_is_a_mistake() -> None:
    assert postings.must_be_events(()) == ("*",)
    assert postings.must_be_events(("complete", "erased", "complete")) == ("complete", "erased")
    with pytest.raises(Invalid, match="there is no event 'completed'; there are activate"):
        postings.must_be_events(("completed",))


def folded(*entries: Entry) -> postings.Postbook:
    book = BLANK
    for entry in entries:
        book = postings.fold(book, entry)
    return book


def test_sessions_are_told_in_order_and_one_that_fails_holds_up_only_itself() -> None:
    waits = (delivery("a1"), delivery("a2"), delivery("b1", session="s2"), delivery("c1", hook="whk_2"))
    book = folded(Passed(position=9, waiting=waits))
    assert {id: [each.id for each in found] for id, found in postings.due(book, 0, 8).items()} == {
        "whk_1": ["a1", "b1"], "whk_2": ["c1"],
    }  # fmt: skip
    book = postings.fold(book, Settled(hook="whk_1", at=5, failed=(Failure(id="a1", problem="no", due=50),)))
    assert [each.id for each in postings.due(book, 49, 8)["whk_1"]] == ["b1"]
    book = postings.fold(book, Settled(hook="whk_1", at=50, taken=("a1",)))
    assert [each.id for each in postings.due(book, 50, 1)["whk_1"]] == ["a2"]
    assert postings.fares(book, "whk_1") == (
        postings.Standing(succeeded_at=50, failed_at=5, problem="no"), 2,
    )  # fmt: skip


def test_a_delivery_is_given_up_after_about_a_day() -> None:
    book, now, tries = folded(Passed(position=1, waiting=(delivery("a"),))), 0, 0
    while book.waiting:
        found = book.waiting["a"]
        now = max(now, found.due)
        book = postings.fold(book, Settled(hook="whk_1", at=now, failed=(postings.failed(found, "x\n" * 999, now),)))
        tries += 1
    assert tries == len(DELAYS) + 1
    assert 23 * 3600 <= now / 1e6 <= 25 * 3600
    standing, waiting = postings.fares(book, "whk_1")
    assert (standing.given_up, waiting, standing.problem) == (1, 0, "x?" * 100)


def test_delays_grow() -> None:
    assert list(DELAYS) == sorted(DELAYS)


def test_who_has_the_most_waiting_loses_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MOST", 4)
    before = folded(
        Passed(position=1, waiting=(delivery("q1", "quiet"), *(delivery(f"l{n}", "loud") for n in range(3))))
    )
    entry = Passed(position=2, waiting=(delivery("l3", "loud"), delivery("q2", "quiet")))
    assert [each.id for each in postings.crowded_out(before, entry)] == ["l0", "l1"]
    book = postings.fold(before, entry)
    assert list(book.waiting) == ["q1", "l2", "l3", "q2"]
    assert book.standings["loud"].given_up == 2
    assert "quiet" not in book.standings


def test_what_a_webhook_left_behind_goes_with_it() -> None:
    book = folded(
        Passed(position=1, waiting=(delivery("a"), delivery("b", hook="kept"))),
        Settled(hook="done", at=1, taken=("x",)),
    )
    for entry in postings.orphaned(book, {"kept"}, 2):
        book = postings.fold(book, entry)
    assert list(book.waiting) == ["b"]
    assert not book.standings
    assert postings.orphaned(book, {"kept"}, 2) == ()


def test_a_lease_keeps_others_away_until_it_is_over() -> None:
    lease = postings.LEASE * postings.SECOND
    assert postings.free(BLANK, "one", 0)
    book = folded(*postings.leased(BLANK, "one", 0))
    assert postings.free(book, "one", lease - 1)
    assert not postings.free(book, "two", lease - 1)
    assert postings.free(book, "two", lease)
    assert postings.leased(book, "one", lease // 2 - 1) == ()
    assert postings.leased(book, "one", lease // 2) == (Leased(node="one", until=lease // 2 + lease),)


IDS = st.sampled_from([f"d{number}" for number in range(6)])
HOOKS = st.sampled_from(["whk_1", "whk_2"])
DELIVERIES = st.builds(delivery, IDS, HOOKS, st.sampled_from(["s1", "s2"]), st.integers(0, 9))
ENTRIES = st.one_of(
    st.builds(
        Passed,
        position=st.integers(0, 99),
        waiting=st.lists(DELIVERIES, max_size=3).map(tuple),
        seen=st.dictionaries(IDS, st.just("acme"), max_size=2),
    ),
    st.builds(Leased, node=st.sampled_from("ab"), until=st.integers(0, 99)),
    st.builds(
        Settled,
        hook=HOOKS,
        at=st.integers(0, 99),
        taken=st.lists(IDS, max_size=2).map(tuple),
        failed=st.lists(st.builds(Failure, id=IDS, problem=st.just("no"), due=st.none() | st.integers(0, 99))).map(
            tuple
        ),
        gone=st.booleans(),
    ),
)


@given(st.lists(ENTRIES), st.lists(ENTRIES))
def test_a_sum_stands_for_all_before_it(before: list[Entry], after: list[Entry]) -> None:
    book = folded(*before)
    data = msgspec.to_builtins(postings.summed(book, 0))
    summed = postings.fold(folded(Leased(node="x", until=1)), msgspec.convert(data, Entry))
    assert summed == book
    assert list(summed.waiting) == list(book.waiting)
    for entry in after:
        book, summed = postings.fold(book, entry), postings.fold(summed, entry)
    assert summed == book
    assert book.position is None or book.position >= max(
        (e.position for e in before if isinstance(e, Passed)), default=0
    )
