"""Claims about sessions with something due."""

from typing import Any

from msgspec.structs import replace

from perdure.core.session.ids import SessionId
from perdure.ports.store import Store
from perdure.testing.building import Builder, Made
from perdure.testing.contract.looking import put


def due(make: Builder, at: int | None, **options: Any) -> Made:
    """A session with something due at a time."""
    made = make.create(**options)
    return replace(made, commit=replace(made.commit, row=replace(made.commit.row, due_at=at)))


async def claimed(store: Store, now: int, until: int, limit: int = 100, tenant: str | None = None) -> list[SessionId]:
    return [row.session for row in await store.claim(tenant, now, until, limit)]


class Timers:
    """What claiming promises."""

    async def test_what_is_due_is_claimed_in_order(self, store: Store, make: Builder) -> None:
        late, early = await put(store, due(make, 30)), await put(store, due(make, 10))
        await put(store, due(make, 31))
        await put(store, due(make, None))
        assert await claimed(store, 30, 100) == [early.session, late.session]

    async def test_nobody_claims_what_another_has_until_its_time(self, store: Store, make: Builder) -> None:
        made = await put(store, due(make, 10))
        assert await claimed(store, 10, 50) == [made.session]
        assert await claimed(store, 49, 80) == []
        assert await claimed(store, 50, 80) == [made.session]

    async def test_a_claim_takes_no_more_than_asked(self, store: Store, make: Builder) -> None:
        made = [await put(store, due(make, at)) for at in (3, 1, 2)]
        assert await claimed(store, 9, 90, limit=2) == [made[1].session, made[2].session]
        assert await claimed(store, 9, 90, limit=2) == [made[0].session]

    async def test_a_claim_stays_with_its_tenant_if_asked(self, store: Store, make: Builder) -> None:
        mine = await put(store, due(make, 1))
        tenant = mine.commit.row.tenant
        assert await claimed(store, 9, 90, tenant=f"not {tenant}") == []
        assert await claimed(store, 9, 90, tenant=tenant) == [mine.session]

    async def test_a_session_is_armed_anew(self, store: Store, make: Builder) -> None:
        made = await put(store, due(make, 10))
        assert await store.arm(made.session, 20, expected=made.digest)
        assert await claimed(store, 19, 90) == []
        assert await claimed(store, 20, 90) == [made.session]
        assert await store.arm(made.session, None, expected=made.digest)
        assert await claimed(store, 1000, 2000) == []

    async def test_arming_what_is_not_there_does_nothing(self, store: Store, make: Builder) -> None:
        made = make.create()
        assert not await store.arm(made.session, 5, expected=made.digest)
        assert await claimed(store, 9, 90) == []

    async def test_a_timer_worked_out_from_an_older_log_is_not_set(self, store: Store, make: Builder) -> None:
        made = await put(store, due(make, 10))
        commit = make.append(made).commit
        await store.append([replace(commit, row=replace(commit.row, due_at=20), listing=True)])
        for late in (1000, None):
            assert not await store.arm(made.session, late, expected=made.digest)
        assert await claimed(store, 20, 90) == [made.session]
        assert not await store.arm(made.session, None, expected=made.digest)
        assert await claimed(store, 90, 100) == [made.session]

    async def test_an_append_that_changes_no_listing_leaves_the_timer(self, store: Store, make: Builder) -> None:
        made = await put(store, due(make, 10))
        after = make.append(made)
        await store.append([replace(after.commit, listing=False)])
        head = await store.head(made.session)
        assert head is not None
        assert head.row.due_at == 10

    async def test_an_append_that_changes_the_listing_sets_the_timer(self, store: Store, make: Builder) -> None:
        made = await put(store, due(make, 10))
        commit = make.append(made).commit
        await store.append([replace(commit, row=replace(commit.row, due_at=77), listing=True)])
        head = await store.head(made.session)
        assert head is not None
        assert head.row.due_at == 77
        assert await claimed(store, 76, 90) == []
