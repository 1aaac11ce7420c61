"""Claims about sessions that come from elsewhere, whole."""

from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from perdure.core.errors import AlreadyExists, Tampered, VersionConflict
from perdure.ports.store import Head, Store, Stored
from perdure.testing.building import Builder, Made, said
from perdure.testing.contract.looking import BEYOND, everything, grow, names, put, records_of, verify


def head_of(made: Made) -> Head:
    """Where a session stands elsewhere after this commit."""
    own = tuple(replace(item, source=made.session) for item in made.segments)
    return Head(row=made.commit.row, segments=own)


def stored(log: Sequence[Made]) -> Iterator[Stored]:
    """The records of a log, to be read once."""
    return (Stored(made.commit.record, made.digest) for made in log)


class Bringing:
    """What taking in a session promises."""

    async def test_a_session_from_elsewhere_stands_and_reads_as_it_did_there(self, store: Store, make: Builder) -> None:
        made = make.create(said("word"), title="brought", tags=("t",), metadata={"k": [1]})
        log = [made, *grow(make, made, 5)]
        await store.bring(head_of(log[-1]), stored(log), None)
        assert await store.head(made.session) == head_of(log[-1])
        verify(await records_of(store, made), log[-1])
        assert await names(store, text="word", title="brought", tags=("t",), metadata={"k": [1]}) == [made.session]

    async def test_a_session_from_elsewhere_goes_on(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made, *grow(make, made, 2)]
        await store.bring(head_of(log[-1]), stored(log), None)
        last = await put(store, make.append(log[-1]))
        verify(await records_of(store, made), last)
        with pytest.raises(VersionConflict):
            await store.append([make.append(log[-1]).commit])

    async def test_a_session_is_not_brought_over_another(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(title="first"))
        rival = make.create(session=made.session, title="second")
        before = await everything(store, [made])
        with pytest.raises(AlreadyExists):
            await store.bring(head_of(rival), stored([rival]), rival.snapshot)
        assert await everything(store, [made]) == before

    async def test_the_feed_tells_of_each_record_that_was_brought(self, store: Store, make: Builder) -> None:
        before = await put(store, make.create())
        made = make.create()
        log = [made, *grow(make, made, 2)]
        watched = await store.position()
        await store.bring(head_of(log[-1]), stored(log), None)
        told = await store.changes(watched, BEYOND)
        assert [(change.session, change.first) for change in told] == [
            (made.session, 1),
            (made.session, 2),
            (made.session, 3),
        ]
        assert told[-1].position == await store.position()
        assert await store.append([make.append(before).commit]) > told[-1].position

    async def test_an_inherited_prefix_comes_along_untold(self, store: Store, make: Builder) -> None:
        parent = make.create(said("shared"))
        branch = make.branch(parent)
        log = [parent, branch, make.append(branch)]
        await store.bring(head_of(log[-1]), stored(log), None)
        assert await records_of(store, branch) == tuple(stored(log))
        assert [change.first for change in await store.changes(0, BEYOND)] == [3, 4]
        assert await store.head(parent.session) is None
        assert await store.dependents(branch.session) == ()

    async def test_an_anchor_comes_along_with_its_snapshot(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = grow(make, made, 3)
        head = replace(head_of(log[-1]), anchor_version=made.version, anchor_digest=made.digest)
        await store.bring(head, stored(log), made.snapshot)
        assert await store.head(made.session) == head
        await store.drop_snapshots(made.session, 0)
        assert await store.snapshot(made.session, BEYOND) == made.snapshot
        verify(await records_of(store, made), log[-1], made.digest)

    async def test_a_session_that_breaks_on_the_way_is_not_there_at_all(self, store: Store, make: Builder) -> None:
        made = make.create(said("word"), tags=("t",))
        log = [made, *grow(make, made, 5)]

        def breaking() -> Iterator[Stored]:
            yield from stored(log[:3])
            raise Tampered("the fourth record was changed on the way; fetch it again")

        before = await everything(store, [made])
        with pytest.raises(Tampered):
            await store.bring(head_of(log[-1]), breaking(), made.snapshot)
        assert await everything(store, [made]) == before
        assert await names(store, text="word") == await names(store, tags=("t",)) == []
        await store.bring(head_of(log[-1]), stored(log), None)
        verify(await records_of(store, made), log[-1])
