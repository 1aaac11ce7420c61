"""Claims about runs of records: their bounds, their pages and the digest before them."""

import pytest

from perdure.ports.store import Run, Store, Stored
from perdure.testing.building import Builder, Made, said
from perdure.testing.contract.looking import BEYOND, grow, put, records_of, verify


async def log_of_ten(store: Store, make: Builder) -> list[Made]:
    """Five records with two events each: versions 1–2, 3–4 … 9–10."""
    made = make.create(said("first"))
    log = [made]
    for _ in range(4):
        made = make.append(made, said("a"), said("b"))
        log.append(made)
    await put(store, *log)
    return log


def firsts(run: Run) -> list[int]:
    """The first version of each record."""
    return [item.record.first for item in run.records]


class Reading:
    """What a run promises."""

    @pytest.mark.parametrize(
        ("after", "upto", "expected"),
        [
            (0, 10, [1, 3, 5, 7, 9]),
            (0, BEYOND, [1, 3, 5, 7, 9]),
            (2, 8, [3, 5, 7]),
            (8, 10, [9]),
            (0, 2, [1]),
            (10, BEYOND, []),
            (4, 4, []),
            (6, 3, []),
            (0, 0, []),
        ],
    )
    async def test_a_run_holds_the_records_between_its_bounds(
        self, store: Store, make: Builder, after: int, upto: int, expected: list[int]
    ) -> None:
        log = await log_of_ten(store, make)
        for newest in (False, True):
            run = await store.run(log[0].session, after=after, upto=upto, limit=100, newest=newest)
            assert firsts(run) == expected

    @pytest.mark.parametrize(
        ("after", "upto", "expected"),
        [(1, 10, [1, 3, 5, 7, 9]), (3, 7, [3, 5, 7]), (9, 10, [9]), (4, 5, [5]), (0, 1, [1])],
    )
    async def test_a_record_that_straddles_a_bound_is_included_whole(
        self, store: Store, make: Builder, after: int, upto: int, expected: list[int]
    ) -> None:
        log = await log_of_ten(store, make)
        for newest in (False, True):
            run = await store.run(log[0].session, after=after, upto=upto, limit=100, newest=newest)
            assert firsts(run) == expected
            assert all(len(item.record.entries) == 2 for item in run.records)

    async def test_a_limited_run_holds_the_oldest_records(self, store: Store, make: Builder) -> None:
        log = await log_of_ten(store, make)
        run = await store.run(log[0].session, after=2, upto=10, limit=2)
        assert firsts(run) == [3, 5]

    async def test_a_newest_run_holds_the_latest_records_oldest_first(self, store: Store, make: Builder) -> None:
        log = await log_of_ten(store, make)
        run = await store.run(log[0].session, after=0, upto=8, limit=2, newest=True)
        assert firsts(run) == [5, 7]

    async def test_paging_forwards_meets_every_record_once(self, store: Store, make: Builder) -> None:
        made = make.create()
        last = await put(store, made, *grow(make, made, 24))
        found: list[Stored] = []
        after = 0
        while page := (await store.run(made.session, after=after, upto=BEYOND, limit=7)).records:
            found += page
            after = page[-1].record.last
        assert [item.record.first for item in found] == list(range(1, 26))
        verify(found, last)

    async def test_paging_backwards_meets_every_record_once(self, store: Store, make: Builder) -> None:
        made = make.create()
        last = await put(store, made, *grow(make, made, 24))
        found: list[Stored] = []
        upto = last.version
        while page := (await store.run(made.session, after=0, upto=upto, limit=7, newest=True)).records:
            found = [*page, *found]
            upto = page[0].record.first - 1
        assert [item.record.first for item in found] == list(range(1, 26))
        verify(found, last)

    async def test_a_run_begins_after_the_digest_it_names(self, store: Store, make: Builder) -> None:
        log = await log_of_ten(store, make)
        session = log[0].session
        assert (await store.run(session, after=4, upto=10, limit=1)).before == log[1].digest
        assert (await store.run(session, after=5, upto=10, limit=1)).before == log[1].digest
        assert (await store.run(session, after=0, upto=10, limit=2, newest=True)).before == log[2].digest

    async def test_nothing_comes_before_the_first_record(self, store: Store, make: Builder) -> None:
        log = await log_of_ten(store, make)
        assert (await store.run(log[0].session, after=0, upto=10, limit=3)).before is None
        assert (await store.run(log[0].session, after=0, upto=10, limit=100, newest=True)).before is None

    async def test_an_empty_run_has_nothing_before_it(self, store: Store, make: Builder) -> None:
        log = await log_of_ten(store, make)
        for newest in (False, True):
            run = await store.run(log[0].session, after=10, upto=BEYOND, limit=5, newest=newest)
            assert run == Run(None, ())

    async def test_an_unknown_session_has_no_records(self, store: Store, make: Builder) -> None:
        await log_of_ten(store, make)
        assert await records_of(store, make.create()) == ()
