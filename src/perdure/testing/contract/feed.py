"""Claims about the change feed, about watching it, and about the end of a store."""

import asyncio
from typing import Any

import pytest

from perdure.core.errors import StoreClosed, VersionConflict
from perdure.ports.store import Change, Head, Query, Snapshot, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, key_use, said
from perdure.testing.contract.looking import (
    BEYOND,
    TENANT,
    all_of,
    dismiss,
    grow,
    hear,
    hear_out,
    put,
    settle,
)


class Feeding:
    """What the change feed promises."""

    async def test_nothing_has_changed_in_a_fresh_store(self, store: Store) -> None:
        assert await store.changes(0, BEYOND) == ()
        assert await store.changes(await store.position(), BEYOND) == ()

    async def test_an_append_is_told_as_one_change(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        made = await put(store, make.create())
        ambient.advance(1)
        position = await store.append([make.append(made, said("a"), said("b")).commit])
        (change,) = await store.changes(position - 1, BEYOND)
        assert (change.position, change.session, change.first, change.last) == (position, made.session, 2, 3)
        assert (change.at, set(change.kinds), change.erased) == (ambient.now(), {"message"}, False)

    async def test_an_append_answers_with_the_latest_position(self, store: Store, make: Builder) -> None:
        for count in (1, 3, 2):
            answered = await store.append([make.create().commit for _ in range(count)])
            assert answered == await store.position()
            assert (await store.changes(0, BEYOND))[-1].position == answered

    async def test_an_append_with_a_checkpoint_answers_with_the_latest_position(
        self, store: Store, make: Builder
    ) -> None:
        made = await put(store, make.create(), make.create())
        answered = await store.append([make.append(made, make.mark()).commit])
        assert answered == await store.position()

    async def test_changes_are_told_in_commit_order(self, store: Store, make: Builder) -> None:
        one, two = make.create(), make.create()
        log = [one, two, *grow(make, one, 2), *grow(make, two, 1)]
        await put(store, *log)
        told = await store.changes(0, BEYOND)
        expected = [(made.session, made.commit.record.first) for made in log]
        assert [(change.session, change.first) for change in told] == expected
        positions = [change.position for change in told]
        assert positions == sorted(set(positions))

    async def test_each_commit_of_an_append_has_a_position_of_its_own(self, store: Store, make: Builder) -> None:
        sessions = [make.create() for _ in range(3)]
        await store.append([made.commit for made in sessions])
        told = await store.changes(0, BEYOND)
        assert [change.session for change in told] == [made.session for made in sessions]
        assert len({change.position for change in told}) == 3

    async def test_concurrent_appends_share_no_position(self, store: Store, make: Builder) -> None:
        outcomes = await settle(store, (make.create().commit for _ in range(32)))
        told = await store.changes(0, BEYOND)
        assert sorted(outcome for outcome in outcomes if isinstance(outcome, int)) == [
            change.position for change in told
        ]

    async def test_a_refused_append_is_not_told(self, store: Store, make: Builder) -> None:
        made = make.create()
        last = await put(store, made, make.append(made))
        before = await store.changes(0, BEYOND)
        with pytest.raises(VersionConflict):
            await store.append([make.create().commit, make.append(made).commit])
        assert await store.changes(0, BEYOND) == before
        position = await store.append([make.append(last).commit])
        assert [change.position for change in await store.changes(before[-1].position, BEYOND)] == [position]

    async def test_paging_the_feed_meets_every_change_once(self, store: Store, make: Builder) -> None:
        made = make.create()
        await put(store, made, *grow(make, made, 9))
        found: list[Change] = []
        after = 0
        while page := await store.changes(after, 3):
            assert len(page) <= 3
            found += page
            after = page[-1].position
        assert tuple(found) == await store.changes(0, BEYOND)
        assert [change.first for change in found] == list(range(1, 11))

    async def test_an_erasure_is_told_and_takes_a_position(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create())
        before = await store.position()
        ambient.advance(1)
        await store.erase(made.session, ambient.now())
        (change,) = await store.changes(before, BEYOND)
        assert change.position == await store.position() > before
        assert (change.session, change.erased, change.at) == (made.session, True, ambient.now())

    async def test_of_an_erased_session_the_feed_tells_only_the_erasure(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made, kept = make.create(), make.create()
        await put(store, made, kept, make.append(made))
        await store.erase(made.session, ambient.now())
        told = [(change.session, change.erased) for change in await store.changes(0, BEYOND)]
        assert told == [(kept.session, False), (made.session, True)]

    async def test_positions_never_fall_or_repeat_after_erasures(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        seen = [await store.position()]
        for _ in range(3):
            made = make.create()
            seen.append(await store.append([made.commit]))
            await store.erase(made.session, ambient.now())
            seen.append(await store.position())
        assert seen == sorted(set(seen))
        told = [change.position for change in await store.changes(seen[0], BEYOND)]
        assert told == sorted(set(told))

    async def test_paging_the_feed_meets_every_erasure_once(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        expected = []
        for _ in range(4):
            kept, gone = make.create(), make.create()
            await put(store, kept, gone)
            await store.erase(gone.session, ambient.now())
            expected += [(kept.session, False), (gone.session, True)]
        found: list[Change] = []
        after = 0
        while page := await store.changes(after, 2):
            found += page
            after = page[-1].position
        told = [(change.session, change.erased) for change in found]
        assert [item for item in told if item in expected] == expected

    async def test_a_refused_erasure_is_not_told(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        await put(store, make.create())
        before = await store.changes(0, BEYOND)
        await store.erase(make.create().session, ambient.now())
        assert await store.changes(0, BEYOND) == before


class Watching:
    """What a watcher promises."""

    async def test_a_watcher_hears_what_was_before_and_what_comes_after(self, store: Store, make: Builder) -> None:
        made = make.create()
        early, late = grow(make, made, 2), make.create()
        await put(store, made, early[0])
        watching = store.watch(0)
        heard = await hear(watching, 2)
        waiting = asyncio.ensure_future(hear(watching, 2))
        await put(store, early[1], late)
        heard += await waiting
        await dismiss(watching)
        assert tuple(heard) == await store.changes(0, BEYOND)

    async def test_a_watcher_begins_after_its_position(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        watching = store.watch(await store.position())
        last = await put(store, make.append(made))
        (change,) = await hear(watching, 1)
        await dismiss(watching)
        assert (change.session, change.first) == (last.session, 2)

    async def test_every_watcher_hears_everything_in_order(self, store: Store, make: Builder) -> None:
        watchers = [store.watch(0) for _ in range(5)]
        waiting = [asyncio.ensure_future(hear(watching, 12)) for watching in watchers]
        sessions = [make.create() for _ in range(4)]
        await settle(store, (made.commit for made in sessions))
        for _ in range(2):
            sessions = [make.append(made) for made in sessions]
            await settle(store, (made.commit for made in sessions))
        told = await store.changes(0, BEYOND)
        for heard in await all_of(waiting):
            assert tuple(heard) == told
        for watching in watchers:
            await dismiss(watching)

    async def test_a_watcher_hears_of_erasures(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        made = await put(store, make.create())
        watching = store.watch(await store.position())
        await store.erase(made.session, ambient.now())
        (change,) = await hear(watching, 1)
        await dismiss(watching)
        assert (change.session, change.erased) == (made.session, True)

    async def test_a_watcher_that_leaves_disturbs_nobody(self, store: Store, make: Builder) -> None:
        staying, leaving = store.watch(0), store.watch(0)
        gone = asyncio.ensure_future(hear(leaving, 1))
        waiting = asyncio.ensure_future(hear(staying, 1))
        await asyncio.wait([gone], timeout=0)
        gone.cancel()
        made = await put(store, make.create())
        assert [change.session for change in await waiting] == [made.session]
        await all_of([gone])
        await dismiss(staying)
        await dismiss(leaving)

    async def test_watchers_end_when_the_store_closes(self, store: Store, make: Builder) -> None:
        await put(store, make.create())
        watchers = [store.watch(await store.position()) for _ in range(3)]
        waiting = [asyncio.ensure_future(hear_out(watching)) for watching in watchers]
        await asyncio.wait(waiting, timeout=0)
        await store.close()
        assert await all_of(waiting) == [[], [], []]


class Closing:
    """What the end of a store promises."""

    @pytest.mark.parametrize(
        "asked",
        [
            "account",
            "adopt",
            "append",
            "bring",
            "changes",
            "checkpoint",
            "checkpoints",
            "count",
            "dependents",
            "drop_snapshots",
            "erase",
            "find",
            "head",
            "inspect",
            "position",
            "prune",
            "remembered",
            "repoint",
            "run",
            "save_checkpoints",
            "save_snapshot",
            "snapshot",
            "snapshots",
        ],
    )
    async def test_a_closed_store_says_that_it_is_closed(self, store: Store, make: Builder, asked: str) -> None:
        made = await put(store, make.create())
        arguments: dict[str, tuple[Any, ...]] = {
            "account": ("purse",),
            "adopt": (made.session, []),
            "append": ([make.append(made).commit],),
            "bring": (Head(row=made.commit.row, segments=()), [], None),
            "changes": (0, 1),
            "checkpoint": ("c",),
            "count": (Query(tenant=TENANT),),
            "drop_snapshots": (made.session, 0),
            "erase": (made.session, 0),
            "find": (Query(tenant=TENANT),),
            "inspect": (),
            "position": (),
            "prune": (made.session, 1, b"", Snapshot(1, b"", b"")),
            "remembered": (key_use("k"),),
            "repoint": (made.session, ()),
            "save_checkpoints": (made.session, []),
            "save_snapshot": (made.session, made.snapshot),
            "snapshot": (made.session, 1),
        }
        options = {"after": 0, "upto": 1, "limit": 1} if asked == "run" else {}
        await store.close()
        with pytest.raises(StoreClosed):
            await getattr(store, asked)(*arguments.get(asked, (made.session,)), **options)

    async def test_closing_twice_is_harmless(self, store: Store) -> None:
        await store.close()
        await store.close()
        with pytest.raises(StoreClosed):
            await store.position()

    async def test_a_store_tells_facts_about_itself(self, store: Store, make: Builder) -> None:
        await put(store, make.create())
        facts = await store.inspect()
        assert isinstance(facts["engine"], str)
