"""Claims about sessions whose log lies in cold storage."""

import pytest

from perdure.core.errors import Damaged, NotFound, VersionConflict
from perdure.ports.store import Run, Store, Stored
from perdure.testing.building import Builder, Made, said
from perdure.testing.contract.looking import BEYOND, everything, grow, names, put, records_of, verify


async def written(store: Store, make: Builder) -> list[Made]:
    """A session of a few records."""
    made = await put(store, make.create(said("needle"), title="old", tags=("t",)))
    return [made, *[await put(store, later) for later in grow(make, made, 3)]]


async def freeze(store: Store, log: list[Made]) -> list[Stored]:
    """Put a session into cold storage; its records."""
    kept = await records_of(store, log[0])
    await store.freeze(log[0].session, "cold://1", expected=log[-1].digest)
    return list(kept)


class Cold:
    """What freezing and thawing promise."""

    async def test_a_frozen_session_keeps_its_row_and_nothing_else(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        await freeze(store, log)
        head = await store.head(log[0].session)
        assert head is not None
        assert (head.row.cold, head.row.version, head.row.digest) == ("cold://1", log[-1].version, log[-1].digest)
        assert await store.run(log[0].session, after=0, upto=BEYOND, limit=9) == Run(None, ())
        assert await store.snapshots(log[0].session) == ()
        assert await store.checkpoints(log[0].session) == ()
        assert await names(store, title="old", tags=("t",)) == [log[0].session]
        assert await names(store, text="needle") == []

    async def test_a_thawed_session_reads_as_before(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        kept = await freeze(store, log)
        await store.thaw(log[0].session, iter(kept))
        verify(await records_of(store, log[0]), log[-1])
        head = await store.head(log[0].session)
        assert head is not None
        assert head.row.cold is None
        assert await names(store, text="needle") == [log[0].session]

    async def test_a_session_that_moved_on_is_not_frozen(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        before = await everything(store, log[:1])
        with pytest.raises(VersionConflict):
            await store.freeze(log[0].session, "cold://1", expected=log[0].digest)
        assert await everything(store, log[:1]) == before

    async def test_a_session_that_is_pruned_otherwise_is_not_frozen(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        await store.prune(log[0].session, log[1].version, log[1].digest, log[1].snapshot)
        with pytest.raises(VersionConflict):
            await store.freeze(log[0].session, "cold://1", expected=log[-1].digest)
        await store.freeze(log[0].session, "cold://1", expected=log[-1].digest, anchor=log[1].version)
        assert await store.snapshots(log[0].session) == ()

    async def test_what_is_wrapped_is_unwrapped_with_the_same_words(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        wrapped = (await store.wrapping(made.session)).wrap("bundle", 7, b"bound", b"content")
        assert (await store.wrapping(made.session)).unwrap("bundle", 7, b"bound", wrapped) == b"content"

    async def test_what_was_never_wrapped_is_refused(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        with pytest.raises(Damaged):
            (await store.wrapping(made.session)).unwrap("bundle", 7, b"bound", b"\xffcontent")

    async def test_nothing_is_wrapped_for_a_session_that_is_not_there(self, store: Store, make: Builder) -> None:
        made = make.create()
        with pytest.raises(NotFound):
            await store.wrapping(made.session)

    async def test_what_is_not_there_is_neither_frozen_nor_thawed(self, store: Store, make: Builder) -> None:
        made = make.create()
        with pytest.raises(NotFound):
            await store.freeze(made.session, "cold://1", expected=made.digest)
        with pytest.raises(NotFound):
            await store.thaw(made.session, ())

    async def test_thawing_what_is_not_frozen_does_nothing(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        before = await everything(store, log[:1])
        await store.thaw(log[0].session, await records_of(store, log[0]))
        assert await everything(store, log[:1]) == before

    async def test_a_session_that_lies_elsewhere_is_not_thawed(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        kept = await freeze(store, log)
        await store.thaw(log[0].session, iter(kept), expected="cold://2")
        head = await store.head(log[0].session)
        assert head is not None
        assert head.row.cold == "cold://1"
        assert await records_of(store, log[0]) == ()
        await store.thaw(log[0].session, iter(kept), expected="cold://1")
        verify(await records_of(store, log[0]), log[-1])

    async def test_positions_keep_growing_past_a_freeze(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        before = await store.position()
        kept = await freeze(store, log)
        assert await store.position() >= before
        other = await put(store, make.create())
        told = await store.changes(before, BEYOND)
        assert [change.session for change in told] == [other.session]
        await store.thaw(log[0].session, iter(kept))
        assert [change.session for change in await store.changes(before, BEYOND)] == [other.session]

    async def test_a_frozen_session_is_erased_like_any(self, store: Store, make: Builder) -> None:
        log = await written(store, make)
        await freeze(store, log)
        assert await store.erase(log[0].session, 5)
        assert await store.head(log[0].session) is None
