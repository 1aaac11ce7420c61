"""Claims about what lies beside the log: cached states and checkpoints."""

from msgspec.structs import replace

from perdure.core.session.checkpoints import Trigger
from perdure.ports.store import Snapshot, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, said
from perdure.testing.contract.looking import BEYOND, grow, put


class Snapshots:
    """What a cached state promises. It may vanish at any time, so only the latest is asked for by name."""

    async def test_a_session_without_snapshots_has_none(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        assert await store.snapshot(made.session, BEYOND) is None
        assert await store.snapshot(make.create().session, BEYOND) is None

    async def test_a_snapshot_is_found_at_and_after_its_version(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made, *grow(make, made, 4)]
        await put(store, *log)
        await store.save_snapshot(made.session, log[2].snapshot)
        assert await store.snapshot(made.session, 2) is None
        assert await store.snapshot(made.session, 3) == log[2].snapshot
        assert await store.snapshot(made.session, 5) == log[2].snapshot

    async def test_the_latest_snapshot_wins_but_never_one_from_after(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made, *grow(make, made, 4)]
        await put(store, *log)
        await store.save_snapshot(made.session, log[1].snapshot)
        await store.save_snapshot(made.session, log[3].snapshot)
        assert await store.snapshot(made.session, BEYOND) == log[3].snapshot
        assert await store.snapshot(made.session, 3) in (None, log[1].snapshot)

    async def test_a_snapshot_can_come_with_its_commit(self, store: Store, make: Builder) -> None:
        made = make.create()
        second = make.append(made)
        await put(store, replace(made, commit=replace(made.commit, snapshot=made.snapshot)))
        assert await store.snapshot(made.session, 1) == made.snapshot
        await put(store, replace(second, commit=replace(second.commit, snapshot=second.snapshot)))
        assert await store.snapshot(made.session, BEYOND) == second.snapshot

    async def test_a_snapshot_saved_again_is_replaced(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await store.save_snapshot(made.session, Snapshot(1, b"broken", b"\0" * 32))
        await store.save_snapshot(made.session, made.snapshot)
        assert await store.snapshot(made.session, 1) == made.snapshot

    async def test_a_snapshot_of_a_session_that_is_gone_is_quietly_left_out(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create())
        await store.erase(made.session, ambient.now())
        await store.save_snapshot(made.session, made.snapshot)
        assert await store.snapshot(made.session, BEYOND) is None

    async def test_snapshots_are_dropped_from_a_version_on(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made, *grow(make, made, 4)]
        await put(store, *log)
        await store.save_snapshot(made.session, log[3].snapshot)
        await store.drop_snapshots(made.session, 5)
        assert await store.snapshot(made.session, BEYOND) == log[3].snapshot
        await store.drop_snapshots(made.session, 4)
        assert await store.snapshot(made.session, BEYOND) is None
        await store.drop_snapshots(make.create().session, 0)

    async def test_all_snapshots_are_told_oldest_first(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made, *grow(make, made, 4)]
        await put(store, *log)
        for item in (log[3], log[1], log[4]):
            await store.save_snapshot(made.session, item.snapshot)
        told = await store.snapshots(made.session)
        assert told[-1] == log[4].snapshot
        assert [item for item in (log[1].snapshot, log[3].snapshot, log[4].snapshot) if item in told] == list(told)
        assert await store.snapshots(make.create().session) == ()

    async def test_snapshots_of_one_session_are_not_those_of_another(self, store: Store, make: Builder) -> None:
        one, two = make.create(title="one"), make.create(title="two")
        await put(store, one, two)
        await store.save_snapshot(one.session, one.snapshot)
        await store.save_snapshot(two.session, two.snapshot)
        await store.drop_snapshots(one.session, 0)
        assert await store.snapshot(one.session, BEYOND) is None
        assert await store.snapshot(two.session, BEYOND) == two.snapshot


class Checkpoints:
    """What checkpoints promise."""

    async def test_a_checkpoint_comes_back_as_it_was_taken(self, store: Store, make: Builder) -> None:
        made = make.create(said("before"))
        marked = make.append(made, make.mark("here ä'\"\x00", metadata={"n": [1, None, b"\0"], "": {}}))
        await put(store, made, marked)
        (taken,) = marked.commit.checkpoints
        assert await store.checkpoints(made.session) == (taken,)
        assert await store.checkpoint(taken.id) == (made.session, taken)

    async def test_checkpoints_are_told_oldest_first(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made]
        for label in ("first", "second", "third"):
            log.append(make.append(log[-1], said(label), make.mark(label, Trigger.LIFECYCLE)))
        last = make.append(log[-1], make.mark("fourth"), said("between"), make.mark("fifth"))
        await put(store, *log, last)
        found = await store.checkpoints(made.session)
        assert [(item.label, item.seq) for item in found] == [
            ("first", 1),
            ("second", 2),
            ("third", 3),
            ("fourth", 4),
            ("fifth", 5),
        ]

    async def test_a_checkpoint_saved_again_is_replaced(self, store: Store, make: Builder) -> None:
        made = make.create()
        marked = make.append(made, make.mark("kept"))
        (taken,) = marked.commit.checkpoints
        changed = replace(taken, pinned=True, expires_at=None, payload=b"another", payload_sha=b"\1" * 32)
        await put(store, made, marked, make.append(marked, said("pinned"), checkpoints=(changed,)))
        assert await store.checkpoints(made.session) == (changed,)
        assert await store.checkpoint(taken.id) == (made.session, changed)

    async def test_a_rebuilt_checkpoint_takes_the_place_of_the_old_one(self, store: Store, make: Builder) -> None:
        made = make.create()
        marked = make.append(made, make.mark("first"), said("between"), make.mark("second"))
        await put(store, made, marked)
        first, second = marked.commit.checkpoints
        rebuilt = replace(first, full=True, base=None, payload=b"rebuilt", payload_sha=b"\1" * 32)
        feed, head = await store.changes(0, BEYOND), await store.head(made.session)
        await store.save_checkpoints(made.session, [rebuilt])
        assert await store.checkpoints(made.session) == (rebuilt, second)
        assert (await store.changes(0, BEYOND), await store.head(made.session)) == (feed, head)

    async def test_rebuilding_does_not_bring_a_checkpoint_back(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = make.create()
        marked = make.append(made, make.mark())
        (gone,) = marked.commit.checkpoints
        await put(store, made, marked, make.append(marked, dropped_checkpoints=(gone.id,)))
        await store.save_checkpoints(made.session, [gone])
        assert await store.checkpoint(gone.id) is None
        await store.erase(made.session, ambient.now())
        await store.save_checkpoints(made.session, [gone])
        assert await store.checkpoint(gone.id) is None

    async def test_a_dropped_checkpoint_is_gone(self, store: Store, make: Builder) -> None:
        made = make.create()
        first = make.append(made, make.mark("first"))
        second = make.append(first, make.mark("second"))
        (gone,), (kept,) = first.commit.checkpoints, second.commit.checkpoints
        await put(store, made, first, second, make.append(second, dropped_checkpoints=(gone.id,)))
        assert await store.checkpoint(gone.id) is None
        assert await store.checkpoints(made.session) == (kept,)

    async def test_dropping_a_checkpoint_that_is_not_there_is_harmless(self, store: Store, make: Builder) -> None:
        made = make.create()
        await put(store, made, make.append(made, dropped_checkpoints=("nowhere",)))
        assert await store.checkpoints(made.session) == ()

    async def test_a_session_drops_its_own_checkpoints_only(self, store: Store, make: Builder) -> None:
        made, other = make.create(), make.create()
        marked = make.append(made, make.mark())
        (taken,) = marked.commit.checkpoints
        await put(store, made, other, marked, make.append(other, dropped_checkpoints=(taken.id,)))
        assert await store.checkpoint(taken.id) == (made.session, taken)

    async def test_an_unknown_checkpoint_is_not_found(self, store: Store, make: Builder) -> None:
        await put(store, make.create())
        assert await store.checkpoint("nowhere") is None
        assert await store.checkpoints(make.create().session) == ()
