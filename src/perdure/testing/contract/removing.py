"""Claims about what goes: erasing a session, pruning its past, rewriting a record that was redacted."""

import contextlib

import pytest
from msgspec.structs import replace

from perdure.core.errors import BranchRefused, Invalid, NotFound, PruneRefused, VersionConflict
from perdure.core.session import record
from perdure.core.session.write import Checkpoint
from perdure.ports.store import Query, Snapshot, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, Made, key_use, said
from perdure.testing.contract.looking import BEYOND, TENANT, everything, grow, names, put, records_of, verify


async def pruned(store: Store, make: Builder) -> tuple[list[Made], Made]:
    """A session of six versions, pruned at the third; its whole log, and the commit it was pruned behind."""
    made = make.create(title="pruned")
    log = [made, *grow(make, made, 5)]
    await put(store, *log)
    anchor = log[2]
    await store.prune(made.session, anchor.version, anchor.digest, anchor.snapshot)
    return log, anchor


class Erasing:
    """What erasing promises."""

    async def test_erasing_a_session_that_is_not_there_says_so(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        assert await store.erase(make.create().session, ambient.now()) is False

    async def test_nothing_of_an_erased_session_is_left(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = make.create(said("secret"), title="secret")
        marked = make.append(made, make.mark("there"), key=key_use("k", session=made.session))
        await put(store, made, marked)
        await store.save_snapshot(made.session, marked.snapshot)
        assert await store.erase(made.session, ambient.now()) is True
        assert await store.head(made.session) is None
        assert await records_of(store, made) == ()
        assert await store.snapshot(made.session, BEYOND) is None
        assert await store.checkpoints(made.session) == ()
        assert await store.checkpoint(marked.commit.checkpoints[0].id) is None
        assert await store.remembered(key_use("k", session=made.session)) is None
        assert await names(store) == await names(store, text="secret") == await names(store, title="secret") == []
        assert await store.count(Query(tenant=TENANT)) == 0
        assert await store.erase(made.session, ambient.now()) is False

    async def test_erasing_leaves_the_neighbours_alone(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = make.create(said("same words"), tags=("same",))
        other = make.create(said("same words"), tags=("same",), key=key_use("k"))
        marked = make.append(other, make.mark())
        await put(store, made, other, marked)
        await store.save_snapshot(other.session, other.snapshot)
        before = await everything(store, [other], uses=[key_use("k")])
        await store.erase(made.session, ambient.now())
        after = await everything(store, [other], uses=[key_use("k")])
        assert after[other.session] == before[other.session]
        assert after["keys"] == before["keys"]
        assert await names(store, text="same words", tags=("same",)) == [other.session]

    async def test_what_has_gone_on_is_not_erased_by_whoever_expects_it_as_it_was(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = make.create(said("first"))
        await put(store, made)
        await put(store, after := make.append(made, said("second")))
        before = await everything(store, [after])
        with pytest.raises(VersionConflict):
            await store.erase(made.session, ambient.now(), expected=made.digest)
        assert await everything(store, [after]) == before
        assert await store.erase(made.session, ambient.now(), expected=after.digest)
        assert await store.head(made.session) is None

    async def test_erasing_is_refused_while_a_branch_shares_the_log(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        parent = make.create(said("shared"))
        branch = make.branch(parent)
        await put(store, parent, branch)
        before = await everything(store, [parent, branch])
        with pytest.raises(BranchRefused):
            await store.erase(parent.session, ambient.now())
        assert await everything(store, [parent, branch]) == before

    async def test_a_parent_can_be_erased_once_its_branches_are_gone(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        parent = make.create()
        branch = make.branch(parent)
        await put(store, parent, branch)
        assert await store.erase(branch.session, ambient.now())
        assert await store.erase(parent.session, ambient.now())

    async def test_an_id_used_anew_inherits_nothing(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        old = make.create(said("old"), tags=("old",))
        await put(store, old, make.append(old, make.mark()))
        await store.save_snapshot(old.session, old.snapshot)
        await store.erase(old.session, ambient.now())
        fresh = await put(store, make.create(session=old.session))
        head = await store.head(old.session)
        assert head is not None
        assert head.row == fresh.commit.row
        assert len(await records_of(store, fresh)) == 1
        assert await store.snapshot(old.session, BEYOND) is None
        assert await store.checkpoints(old.session) == ()
        assert await names(store, text="old") == await names(store, tags=("old",)) == []

    async def test_an_append_to_an_erased_session_is_refused(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create())
        await store.erase(made.session, ambient.now())
        with pytest.raises(NotFound):
            await store.append([make.append(made).commit])


class Pruning:
    """What pruning promises."""

    async def test_pruned_records_are_gone_and_the_rest_verifies(self, store: Store, make: Builder) -> None:
        log, anchor = await pruned(store, make)
        stored = await records_of(store, log[0])
        assert [item.record.first for item in stored] == [4, 5, 6]
        verify(stored, log[-1], anchor.digest)

    async def test_a_pruned_session_shows_its_anchor(self, store: Store, make: Builder) -> None:
        log, anchor = await pruned(store, make)
        head = await store.head(log[0].session)
        assert head is not None
        assert (head.anchor_version, head.anchor_digest) == (anchor.version, anchor.digest)
        assert head.row == log[-1].commit.row

    async def test_a_record_that_reaches_past_the_anchor_stays_whole(self, store: Store, make: Builder) -> None:
        made = make.create()
        second = make.append(made, said("a"), said("b"), said("c"))
        await put(store, made, second, make.append(second))
        _, digest = second.at(3)
        await store.prune(made.session, 3, digest, made.snapshot)
        stored = await records_of(store, made)
        assert [(item.record.first, item.record.last) for item in stored] == [(2, 4), (5, 5)]

    async def test_cached_states_from_before_an_anchor_are_gone(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made, *grow(make, made, 3)]
        await put(store, *log)
        for item in log:
            await store.save_snapshot(made.session, item.snapshot)
        await store.prune(made.session, 2, log[1].digest, log[1].snapshot)
        assert await store.snapshot(made.session, 1) is None
        assert (await store.snapshots(made.session))[0] == log[1].snapshot

    async def test_a_pruned_session_goes_on(self, store: Store, make: Builder) -> None:
        log, anchor = await pruned(store, make)
        last = await put(store, make.append(log[-1]))
        stored = await records_of(store, last)
        assert (stored[0].record.first, stored[-1].record.last) == (anchor.version + 1, last.version)
        verify(stored, last, anchor.digest)

    async def test_the_snapshot_behind_an_anchor_is_never_dropped(self, store: Store, make: Builder) -> None:
        log, anchor = await pruned(store, make)
        await store.save_snapshot(log[0].session, log[4].snapshot)
        await store.drop_snapshots(log[0].session, 0)
        assert await store.snapshot(log[0].session, BEYOND) == anchor.snapshot

    async def test_the_snapshot_behind_an_anchor_outlives_newer_ones(self, store: Store, make: Builder) -> None:
        log, anchor = await pruned(store, make)
        grown = grow(make, log[-1], 40)
        await put(store, *grown)
        for made in grown:
            await store.save_snapshot(made.session, made.snapshot)
        assert await store.snapshot(log[0].session, anchor.version + 1) == anchor.snapshot

    async def test_an_anchor_keeps_its_snapshot_however_many_newer_ones_there_are(
        self, store: Store, make: Builder
    ) -> None:
        made = make.create()
        log = [made, *grow(make, made, 40)]
        await put(store, *log)
        for item in log[2:]:
            await store.save_snapshot(made.session, item.snapshot)
        await store.prune(made.session, 2, log[1].digest, log[1].snapshot)
        assert await store.snapshot(made.session, 2) == log[1].snapshot

    async def test_the_latest_record_is_never_pruned(self, store: Store, make: Builder) -> None:
        made = make.create()
        last = await put(store, made, *grow(make, made, 2))
        with contextlib.suppress(Invalid):  # a store may also refuse to prune all of a log
            await store.prune(made.session, last.version, last.digest, last.snapshot)
        assert (await records_of(store, made))[-1].record == last.commit.record

    async def test_pruning_is_refused_while_a_branch_shares_the_log(self, store: Store, make: Builder) -> None:
        parent = make.create()
        second = make.append(parent)
        branch = make.branch(second)
        await put(store, parent, second, branch)
        before = await everything(store, [parent, branch])
        with pytest.raises(PruneRefused):
            await store.prune(parent.session, 1, parent.digest, parent.snapshot)
        assert await everything(store, [parent, branch]) == before

    async def test_a_pruned_branch_no_longer_depends(self, store: Store, make: Builder) -> None:
        parent = make.create()
        branch = make.branch(parent)
        await put(store, parent, branch, make.append(branch))
        await store.prune(branch.session, branch.version, branch.digest, branch.snapshot)
        assert await store.dependents(parent.session) == ()

    async def test_pruned_text_is_no_longer_found(self, store: Store, make: Builder) -> None:
        made = make.create(said("ancient"))
        second = make.append(made, said("recent"))
        await put(store, made, second)
        assert await names(store, text="ancient") == [made.session]
        await store.prune(made.session, made.version, made.digest, made.snapshot)
        assert await names(store, text="ancient") == []
        assert await names(store, text="recent") == [made.session]

    async def test_pruning_an_unknown_session_is_refused(self, store: Store, make: Builder) -> None:
        with pytest.raises(NotFound):
            await store.prune(make.create().session, 1, b"\0" * 32, Snapshot(1, b"", b""))


class Rewriting:
    """What a rewrite promises: the content is gone, the chain does not notice."""

    async def test_a_rewritten_record_keeps_its_place_and_its_digest(self, store: Store, make: Builder) -> None:
        made = make.create(said("secret"))
        second = make.append(made, said("kept"))
        blanked = record.redact(made.commit.record, frozenset({2}))
        last = make.append(second, said("redacted"), rewrites=(blanked,))
        await put(store, made, second, last)
        stored = await records_of(store, made)
        assert [item.record for item in stored] == [blanked, second.commit.record, last.commit.record]
        assert [item.digest for item in stored] == [made.digest, second.digest, last.digest]
        verify(stored, last)

    async def test_rewritten_text_is_no_longer_found(self, store: Store, make: Builder) -> None:
        made = make.create(said("secret"), said("kept"))
        await put(store, made)
        assert await names(store, text="secret") == [made.session]
        blanked = record.redact(made.commit.record, frozenset({2}))
        await put(store, make.append(made, said("redacted"), rewrites=(blanked,)))
        assert await names(store, text="secret") == []
        assert await names(store, text="kept") == [made.session]

    async def test_a_rewrite_forgets_every_cached_state_that_may_hold_the_content(
        self, store: Store, make: Builder
    ) -> None:
        made = make.create()
        log = [made, *grow(make, made, 3)]
        branch = make.branch(log[2])
        last = log[-1]
        await put(store, *log, branch)
        for item in (*log, branch):
            await store.save_snapshot(item.session, item.snapshot)
        blanked = record.redact(log[1].commit.record, frozenset({2}))
        fresh = make.append(last, said("redacted"), rewrites=(blanked,), snapshot=Snapshot(4, b"fresh", b"\1" * 32))
        await put(store, fresh)
        kept = await store.snapshots(made.session)
        assert [item for item in kept if item.version > 1] == [fresh.commit.snapshot]
        assert await store.snapshots(branch.session) == ()

    async def test_a_rewrite_blanks_every_checkpoint_that_may_hold_the_content(
        self, store: Store, make: Builder
    ) -> None:
        made = make.create()
        early = make.append(made, make.mark("early"))
        secret = make.append(early, said("secret"))
        late = make.append(secret, make.mark("late"))
        branch = make.branch(late)
        inherited = make.append(branch, make.mark("inherited"))
        await put(store, made, early, secret, late, branch, inherited)
        blanked = record.redact(secret.commit.record, frozenset({secret.version}))
        await put(store, make.append(late, said("redacted"), rewrites=(blanked,)))
        found = [*await store.checkpoints(made.session), *await store.checkpoints(branch.session)]
        given = [item.commit.checkpoints[0] for item in (early, late, inherited)]
        assert found == [given[0], *map(_blank, given[1:])]

    async def test_a_rewrite_leaves_strangers_alone(self, store: Store, make: Builder) -> None:
        made, stranger = make.create(said("secret")), make.create()
        marked = make.append(stranger, make.mark())
        await put(store, made, stranger, marked)
        await store.save_snapshot(stranger.session, marked.snapshot)
        before = (await everything(store, [stranger]))[stranger.session]
        blanked = record.redact(made.commit.record, frozenset({2}))
        await put(store, make.append(made, rewrites=(blanked,)))
        assert (await everything(store, [stranger]))[stranger.session] == before

    async def test_rewriting_what_is_not_there_is_refused(self, store: Store, make: Builder) -> None:
        made = make.create(said("a"))
        astray = replace(made.commit.record, first=2)
        await put(store, made)
        await store.save_snapshot(made.session, made.snapshot)
        before = await everything(store, [made])
        with pytest.raises(NotFound):
            await store.append([make.append(made, rewrites=(astray,)).commit])
        assert await everything(store, [made]) == before


def _blank(checkpoint: Checkpoint) -> Checkpoint:
    """What is left of a checkpoint until it is rebuilt."""
    return replace(checkpoint, full=True, base=None, payload=b"", payload_sha=b"", state_sha=b"")
