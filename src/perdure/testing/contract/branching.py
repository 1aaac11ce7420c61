"""Claims about shared prefixes: segments, who depends on whom, and giving a branch its own copy."""

import pytest
from msgspec.structs import replace

from perdure.core.errors import NotFound
from perdure.core.session import record
from perdure.core.session.origin import BranchKind
from perdure.ports.store import Segment, Store, Stored
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, Made, said
from perdure.testing.contract.looking import BEYOND, everything, grow, put, records_of


async def shared_by(store: Store, branch: Made) -> list[Stored]:
    """The prefix that a branch shares, as the copies it would adopt."""
    found: list[Stored] = []
    after = 0
    for item in branch.segments:
        run = await store.run(item.source, after=after, upto=item.upto, limit=BEYOND)
        found += [
            stored if stored.record.last <= item.upto else Stored(record.cut(stored.record, item.upto), item.digest)
            for stored in run.records
        ]
        after = item.upto
    return found


async def set_free(store: Store, branch: Made) -> tuple[Segment, ...]:
    """Give a branch its own copy of all that it shares."""
    await store.adopt(branch.session, await shared_by(store, branch))
    own = tuple(replace(item, source=branch.session) for item in branch.segments)
    await store.repoint(branch.session, own)
    return own


class Branching:
    """What sharing a log promises."""

    async def test_a_branch_tells_where_its_log_comes_from(self, store: Store, make: Builder) -> None:
        parent = make.create(said("shared"))
        branch = make.branch(parent, kind=BranchKind.SIM)
        await put(store, parent, branch)
        head = await store.head(branch.session)
        assert head is not None
        assert head.segments == (Segment(source=parent.session, origin=parent.session, upto=2, digest=parent.digest),)
        assert (head.row.parent, head.row.branch_kind, head.row.branched_at) == (parent.session, "sim", 2)
        assert head.row == branch.commit.row

    async def test_a_branch_shares_its_prefix_without_copying_it(self, store: Store, make: Builder) -> None:
        parent = make.create(said("shared"))
        branch = make.branch(parent)
        last = await put(store, parent, branch, make.append(branch))
        assert [item.record.first for item in await records_of(store, branch)] == [3, 4]
        head = await store.head(branch.session)
        assert head is not None
        assert (head.row.version, head.segments) == (last.version, branch.segments)

    async def test_a_branch_may_begin_inside_a_record(self, store: Store, make: Builder) -> None:
        parent = make.create(said("a"), said("b"), said("c"))
        branch = make.branch(parent, version=2)
        await put(store, parent, branch)
        copies = await shared_by(store, branch)
        assert [(item.record.first, item.record.last) for item in copies] == [(1, 2)]
        assert [item.record.first for item in await records_of(store, branch)] == [3]

    async def test_a_branch_of_a_branch_has_a_segment_for_each(self, store: Store, make: Builder) -> None:
        first = make.create()
        second = make.branch(first)
        third = make.branch(second)
        await put(store, first, second, third)
        head = await store.head(third.session)
        assert head is not None
        assert [(item.source, item.upto) for item in head.segments] == [(first.session, 1), (second.session, 2)]

    async def test_a_branch_can_be_made_together_with_its_parent(self, store: Store, make: Builder) -> None:
        parent = make.create()
        branch = make.branch(parent)
        await store.append([parent.commit, branch.commit])
        assert [head.row.session for head in await store.dependents(parent.session)] == [branch.session]

    async def test_a_branch_of_a_pruned_log_inherits_its_anchor(self, store: Store, make: Builder) -> None:
        parent = make.create()
        second = make.append(parent)
        await put(store, parent, second)
        await store.prune(parent.session, 1, parent.digest, parent.snapshot)
        branch = make.branch(second, anchor=(1, parent.digest), snapshot=parent.snapshot)
        await put(store, branch)
        head = await store.head(branch.session)
        assert head is not None
        assert (head.anchor_version, head.anchor_digest) == (1, parent.digest)
        assert head.segments == branch.segments
        await store.drop_snapshots(branch.session, 0)
        assert await store.snapshot(branch.session, BEYOND) == parent.snapshot

    async def test_a_branch_from_a_session_that_is_gone_is_refused(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        parent = await put(store, make.create())
        branch = make.branch(parent)
        await store.erase(parent.session, ambient.now())
        with pytest.raises(NotFound):
            await store.append([branch.commit])
        assert await store.head(branch.session) is None

    async def test_all_who_share_a_log_depend_on_it(self, store: Store, make: Builder) -> None:
        first = make.create()
        second, sibling = make.branch(first), make.branch(first)
        third = make.branch(second)
        await put(store, first, second, sibling, third, make.create())
        expected: list[tuple[Made, set[str]]] = [
            (first, {second.session, sibling.session, third.session}),
            (second, {third.session}),
            (third, set()),
        ]
        for made, names in expected:
            heads = await store.dependents(made.session)
            assert {head.row.session for head in heads} == names
            assert len(heads) == len(names)

    async def test_a_dependent_is_told_with_its_whole_head(self, store: Store, make: Builder) -> None:
        parent = make.create()
        branch = make.branch(parent)
        await put(store, parent, branch)
        assert await store.dependents(parent.session) == (await store.head(branch.session),)

    async def test_nobody_depends_on_an_unknown_session(self, store: Store, make: Builder) -> None:
        await put(store, make.create())
        assert await store.dependents(make.create().session) == ()

    async def test_an_adopted_prefix_lies_before_the_own_records(self, store: Store, make: Builder) -> None:
        parent = make.create(said("a"))
        grown = grow(make, parent, 2)
        branch = make.branch(grown[-1])
        await put(store, parent, *grown, branch, make.append(branch))
        copies = await shared_by(store, branch)
        own = await records_of(store, branch)
        await store.adopt(branch.session, copies)
        assert await records_of(store, branch) == (*copies, *own)
        run = await store.run(branch.session, after=2, upto=3, limit=1)
        assert (run.before, run.records) == (parent.digest, (copies[1],))

    async def test_adopting_again_changes_nothing(self, store: Store, make: Builder) -> None:
        parent = make.create(said("a"))
        branch = make.branch(parent)
        await put(store, parent, branch)
        copies = await shared_by(store, branch)
        await store.adopt(branch.session, copies)
        before = await everything(store, [parent, branch])
        await store.adopt(branch.session, copies)
        assert await everything(store, [parent, branch]) == before

    async def test_adopting_again_does_not_bring_back_what_was_redacted(self, store: Store, make: Builder) -> None:
        parent = make.create(said("secret"))
        branch = make.branch(parent)
        await put(store, parent, branch)
        copies = await shared_by(store, branch)
        await store.adopt(branch.session, copies)
        blanked = record.redact(copies[0].record, frozenset({2}))
        await put(store, make.append(branch, rewrites=(blanked,)))
        await store.adopt(branch.session, copies)
        assert (await records_of(store, branch))[0].record == blanked

    async def test_adopting_moves_no_version_and_tells_no_change(self, store: Store, make: Builder) -> None:
        parent = make.create(said("a"))
        branch = make.branch(parent)
        await put(store, parent, branch)
        head, feed = await store.head(branch.session), await store.changes(0, BEYOND)
        await store.adopt(branch.session, await shared_by(store, branch))
        assert await store.head(branch.session) == head
        assert await store.changes(0, BEYOND) == feed

    async def test_positions_grow_on_after_an_adoption(self, store: Store, make: Builder) -> None:
        parent = make.create(said("a"))
        branch = make.branch(parent)
        await put(store, parent, branch)
        before = (await store.changes(0, BEYOND))[-1].position
        await store.adopt(branch.session, await shared_by(store, branch))
        position = await store.append([make.append(branch).commit])
        assert position > before
        assert [change.position for change in await store.changes(before, BEYOND)] == [position]

    async def test_a_repointed_branch_no_longer_depends(self, store: Store, make: Builder) -> None:
        parent = make.create(said("a"))
        branch = make.branch(parent)
        await put(store, parent, branch)
        own = await set_free(store, branch)
        head = await store.head(branch.session)
        assert head is not None
        assert head.segments == own
        assert await store.dependents(parent.session) == ()

    async def test_a_session_does_not_depend_on_itself(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        parent = make.create(said("a"))
        branch = make.branch(parent)
        await put(store, parent, branch)
        await set_free(store, branch)
        assert await store.dependents(branch.session) == ()
        assert await store.erase(branch.session, ambient.now())

    async def test_a_branch_set_free_outlives_its_parent(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        parent = make.create(said("a"), said("b"), said("c"))
        branch = make.branch(parent, version=3)
        await put(store, parent, branch)
        await set_free(store, branch)
        before = await records_of(store, branch)
        assert await store.erase(parent.session, ambient.now())
        assert await records_of(store, branch) == before
        assert [(item.record.first, item.record.last) for item in before] == [(1, 3), (4, 4)]
        await put(store, make.append(branch))
