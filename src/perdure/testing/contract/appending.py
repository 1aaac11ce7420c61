"""Claims about appending: order, compare-and-set, atomicity over several sessions, rows that come back as given."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.errors import AlreadyExists, BudgetExhausted, Invalid, NotFound, VersionConflict
from perdure.core.session import record
from perdure.core.session.budget import AccountMove
from perdure.core.session.lifecycle import Moved, Phase
from perdure.core.session.origin import Configured
from perdure.core.session.turns import TurnFinished, TurnStarted
from perdure.core.session.values import same
from perdure.ports.store import Commit, KeyTaken, Query, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, Made, key_use, opens, said
from perdure.testing.contract.looking import PATIENCE, TENANT, all_of, everything, grow, put, records_of, settle, verify

CROWD = 64
RUSH = 600
"""More appends at once than any store commits together."""


class Appending:
    """What an append promises."""

    async def test_a_new_session_stands_where_its_append_left_it(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(title="first"))
        head = await store.head(made.session)
        assert head is not None
        assert head.row == made.commit.row
        assert (head.segments, head.anchor_version, head.anchor_digest) == ((), 0, None)

    async def test_a_session_that_was_never_created_has_no_head(self, store: Store, make: Builder) -> None:
        assert await store.head(make.create().session) is None

    async def test_appends_follow_one_another_without_gaps(self, store: Store, make: Builder) -> None:
        made = make.create()
        last = await put(store, made, *grow(make, made, 5))
        stored = await records_of(store, made)
        assert [item.record.first for item in stored] == [1, 2, 3, 4, 5, 6]
        verify(stored, last)

    async def test_a_record_comes_back_byte_for_byte(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(said("ä\x00\U0001f600"), said("x" * 100_000)))
        (stored,) = await records_of(store, made)
        assert record.to_bytes(stored.record) == record.to_bytes(made.commit.record)
        assert stored.digest == made.digest

    async def test_an_append_of_many_events_is_one_record(self, store: Store, make: Builder) -> None:
        made = make.create()
        many = make.append(made, *(said(str(number)) for number in range(1000)))
        await put(store, made, many)
        stored = await records_of(store, made)
        assert [(item.record.first, item.record.last) for item in stored] == [(1, 1), (2, 1001)]

    async def test_however_many_append_at_once_all_are_answered(self, store: Store, make: Builder) -> None:
        made = [make.create() for _ in range(RUSH)]
        async with asyncio.timeout(PATIENCE):
            told = await settle(store, [item.commit for item in made])
        assert len(set(told)) == RUSH
        assert {change.session for change in await store.changes(0, RUSH + 1)} == {item.session for item in made}

    async def test_a_stale_append_names_the_version_found(self, store: Store, make: Builder) -> None:
        made = make.create()
        await put(store, made, *grow(make, made, 3))
        with pytest.raises(VersionConflict) as refused:
            await store.append([make.append(made).commit])
        assert refused.value.found == 4

    async def test_a_stale_append_changes_nothing(self, store: Store, make: Builder) -> None:
        made = make.create()
        await put(store, made, make.append(made))
        before = await everything(store, [made])
        with pytest.raises(VersionConflict):
            await store.append([make.append(made, said("late")).commit])
        assert await everything(store, [made]) == before

    async def test_an_append_that_skips_a_version_is_refused(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        _, skipping = grow(make, made, 2)
        with pytest.raises(VersionConflict) as refused:
            await store.append([skipping.commit])
        assert refused.value.found == 1

    async def test_an_id_is_created_once(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(title="first"))
        before = await everything(store, [made])
        with pytest.raises(AlreadyExists):
            await store.append([make.create(session=made.session, title="second").commit])
        assert await everything(store, [made]) == before

    async def test_an_append_to_an_unknown_session_is_refused(self, store: Store, make: Builder) -> None:
        made = make.create()
        with pytest.raises(NotFound):
            await store.append([make.append(made).commit])
        assert await store.head(made.session) is None

    async def test_one_append_may_carry_several_sessions(self, store: Store, make: Builder) -> None:
        old = await put(store, make.create())
        following, fresh = make.append(old), make.create()
        await store.append([following.commit, fresh.commit])
        heads = [await store.head(item.session) for item in (following, fresh)]
        assert [head and head.row for head in heads] == [following.commit.row, fresh.commit.row]

    @pytest.mark.parametrize("place", [0, 1, 2])
    @pytest.mark.parametrize("flaw", ["stale", "taken id", "unknown", "over budget", "repeated key"])
    async def test_one_bad_commit_undoes_all_of_its_append(
        self, store: Store, make: Builder, flaw: str, place: int
    ) -> None:
        bad, error, old = await _flawed(store, make, flaw)
        good = [
            make.create(key=key_use("good"), accounts=opens("fresh", 5)),
            make.append(old, make.mark("good"), snapshot=old.snapshot),
        ]
        commits = [item.commit for item in good]
        commits.insert(place, bad)
        uses = [key_use("good"), key_use("flawed")]
        before = await everything(store, [old, *good], accounts=["fresh", "spent"], uses=uses)
        with pytest.raises(error):
            await store.append(commits)
        assert await everything(store, [old, *good], accounts=["fresh", "spent"], uses=uses) == before

    async def test_an_append_names_each_session_once(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        first, second = grow(make, made, 2)
        before = await everything(store, [made])
        with pytest.raises(Invalid):
            await store.append([first.commit, second.commit])
        assert await everything(store, [made]) == before

    async def test_an_append_without_commits_is_refused(self, store: Store) -> None:
        with pytest.raises(Invalid):
            await store.append([])

    async def test_of_many_appends_to_one_version_exactly_one_wins(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        rivals = [make.append(made, said(str(number))) for number in range(CROWD)]
        outcomes = await settle(store, (rival.commit for rival in rivals))
        won = [rival for rival, outcome in zip(rivals, outcomes, strict=True) if isinstance(outcome, int)]
        lost = [outcome for outcome in outcomes if not isinstance(outcome, int)]
        assert len(won) == 1
        assert [(type(error), getattr(error, "found", None)) for error in lost] == [(VersionConflict, 2)] * (CROWD - 1)
        verify(await records_of(store, made), won[0])

    async def test_many_appends_to_different_sessions_all_win(self, store: Store, make: Builder) -> None:
        sessions = [make.create() for _ in range(CROWD)]
        created = await settle(store, (item.commit for item in sessions))
        grown = [make.append(item) for item in sessions]
        appended = await settle(store, (item.commit for item in grown))
        assert all(isinstance(outcome, int) for outcome in created + appended)
        assert len(set(created + appended)) == 2 * CROWD
        for item in grown:
            verify(await records_of(store, item), item)

    async def test_of_many_creations_of_one_id_exactly_one_wins(self, store: Store, make: Builder) -> None:
        name = make.id()
        rivals = [make.create(session=name, title=str(number)) for number in range(CROWD)]
        outcomes = await settle(store, (rival.commit for rival in rivals))
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists"] * (CROWD - 1) + ["int"]

    async def test_nobody_sees_half_an_append(self, store: Store, make: Builder) -> None:
        sessions = [make.create() for _ in range(8)]
        looks = [store.count(Query(tenant=TENANT)) for _ in range(16)]
        work = [*looks[:8], store.append([item.commit for item in sessions]), *looks[8:]]
        seen = await all_of(work)
        assert {count for index, count in enumerate(seen) if index != 8} <= {0, 8}
        assert await store.count(Query(tenant=TENANT)) == 8

    async def test_the_row_follows_the_session(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        made = await put(store, make.create(title="old", tags=("a",), metadata={"n": 1}))
        ambient.advance(5)
        changed = make.append(
            made,
            Configured(title="new", tags=("b", "c"), metadata={"m": [1, {"k": None}]}),
            Moved(event="activate", source=Phase.INIT, to=Phase.ACTIVE),
        )
        assert changed.commit.listing
        await put(store, changed)
        head = await store.head(made.session)
        assert head is not None
        assert head.row == changed.commit.row
        assert (head.row.title, head.row.phase, head.row.active_at) == ("new", "active", ambient.now())

    async def test_an_unlisted_append_still_moves_version_digest_activity_and_turns(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create(title="kept", tags=("a",), metadata={"n": 1}))
        ambient.advance(5)
        opened = make.append(made, TurnStarted())
        assert not opened.commit.listing
        await put(store, opened)
        head = await store.head(made.session)
        assert head is not None
        assert head.row == opened.commit.row
        assert (head.row.turns, head.row.open_turn) == (1, 1)
        closed = await put(store, make.append(opened, TurnFinished()))
        head = await store.head(made.session)
        assert head is not None
        assert head.row == closed.commit.row
        assert (head.row.turns, head.row.open_turn) == (1, None)

    async def test_metadata_comes_back_type_for_type(self, store: Store, make: Builder) -> None:
        given: dict[str, Any] = {
            "none": None,
            "yes": True,
            "one": 1,
            "float": 1.0,
            "big": 2**64 - 1,
            "text": "\x00'\"%_\\ \U0001f600",
            "bytes": b"\x00\xff",
            "nested": {"list": [1, [2.5, {"deep": ""}]], "": {}},
            "$set": [1],
        }
        made = await put(store, make.create(metadata=given))
        head = await store.head(made.session)
        assert head is not None
        assert same(head.row.metadata, given)

    async def test_changing_an_answer_does_not_change_the_store(self, store: Store, make: Builder) -> None:
        given: dict[str, Any] = {"list": [1]}
        made = await put(store, make.create(metadata=given))
        given["list"].append("given")
        (row,) = await store.find(Query(tenant=TENANT))
        row.metadata["list"].append("found")
        head = await store.head(made.session)
        assert head is not None
        head.row.metadata["more"] = "headed"
        again = await store.head(made.session)
        assert again is not None
        assert again.row.metadata == {"list": [1]}


async def _flawed(store: Store, make: Builder, flaw: str) -> tuple[Commit, type[Exception], Made]:
    """A commit with a flaw, the error it must cause, and a session that good commits may continue."""
    old, other = make.create(key=key_use("flawed")), make.create(accounts=opens("spent", 10))
    await put(store, old, other)
    cases: dict[str, tuple[Commit, type[Exception]]] = {
        "stale": (replace(make.append(other).commit, expected=7), VersionConflict),
        "taken id": (make.create(session=other.session).commit, AlreadyExists),
        "unknown": (make.append(make.create()).commit, NotFound),
        "over budget": (
            make.append(other, accounts=(AccountMove(account="spent", reserve=11),)).commit,
            BudgetExhausted,
        ),
        "repeated key": (make.create(key=key_use("flawed")).commit, KeyTaken),
    }
    return *cases[flaw], old
