"""Claims about finding sessions: every filter, their order and their pages."""

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Moved, Phase
from perdure.core.session.origin import Configured
from perdure.core.session.turns import TurnFinished, TurnStarted
from perdure.ports.store import Query, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, said
from perdure.testing.contract.looking import TENANT, names, put

HOSTILE = (
    "'",
    '"',
    "''",
    '"a"',
    "%",
    "_",
    "\\",
    "*",
    "x*",
    "^x",
    "a\x00b",
    "\x00",
    "NEAR(",
    "NEAR(a b)",
    "AND",
    "a OR b",
    "NOT x",
    "title:x",
    "{x}: y",
    "-x +y",
    "(",
    "?1",
    ":name",
    "' OR 1=1 --",
    '"; DROP TABLE session; --',
    "$.a[0]",
    "a\nb\tc",
    "a\U00010d00b",
    "x" * 1000,
)
"""What people and models type, and what engines mistake for syntax."""

ACTIVATED = Moved(event="activate", source=Phase.INIT, to=Phase.ACTIVE)


async def pages(store: Store, size: int, **conditions: Any) -> list[str]:
    """Everything that a query finds, page by page."""
    found: list[str] = []
    after: tuple[int, SessionId] | None = None
    while rows := await store.find(Query(tenant=TENANT, limit=size, after=after, **conditions)):
        found += [row.session for row in rows]
        last = rows[-1]
        after = (last.active_at if conditions.get("by_activity") else last.created_at, last.session)
    return found


class Filtering:
    """What the filters promise. Each finds exactly the one session that fits, among others that nearly do."""

    async def found(self, store: Store, **conditions: Any) -> list[str]:
        """The sessions that a query finds; counting them must come to the same."""
        found = await names(store, **conditions)
        assert await store.count(Query(tenant=TENANT, **conditions)) == len(found)
        return found

    async def test_a_found_row_is_the_row_of_the_head(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(title="t", tags=("a", "b"), metadata={"k": [1, {"d": None}]}))
        assert await store.find(Query(tenant=TENANT)) == (made.commit.row,)

    async def test_sessions_are_found_by_owner(self, store: Store, make: Builder) -> None:
        made = make.create(owner="ada")
        await put(store, made, make.create(owner="ada2"), make.create(owner="Ada"), make.create())
        assert await self.found(store, owner="ada") == [made.session]

    async def test_sessions_are_found_by_phase(self, store: Store, make: Builder) -> None:
        made = make.create(ACTIVATED)
        asleep = make.create(ACTIVATED, Moved(event="suspend", source=Phase.ACTIVE, to=Phase.SUSPENDED))
        await put(store, made, asleep, make.create())
        assert await self.found(store, phases=("active",)) == [made.session]
        assert set(await names(store, phases=("active", "suspended"))) == {made.session, asleep.session}

    async def test_sessions_are_found_by_all_of_their_tags(self, store: Store, make: Builder) -> None:
        made = make.create(tags=("red", "round"))
        other = make.create(tags=("red",))
        await put(store, made, other, make.create(tags=("redround",)), make.create(tags=("round",)))
        assert await self.found(store, tags=("round", "red")) == [made.session]
        assert set(await names(store, tags=("red",))) == {made.session, other.session}

    @pytest.mark.parametrize("value", [1, True, 1.0, "1", None, b"1", [1], [True], {"a": 1}, {}, "", 0, -0.0, 0.0])
    async def test_metadata_is_equal_only_when_type_and_value_are(
        self, store: Store, make: Builder, value: Any
    ) -> None:
        values: list[Any] = [1, True, 1.0, "1", None, b"1", [1], [True], {"a": 1}, {}, "", 0, -0.0, 0.0]
        sessions = {repr(item): make.create(metadata={"k": item}) for item in values}
        await put(store, *sessions.values(), make.create(), make.create(metadata={"other": value}))
        assert await self.found(store, metadata={"k": value}) == [sessions[repr(value)].session]

    async def test_nested_metadata_is_equal_whatever_the_order_of_its_keys(self, store: Store, make: Builder) -> None:
        made = make.create(metadata={"k": {"a": 1, "b": [2, {"c": 3, "d": 4}]}})
        await put(store, made, make.create(metadata={"k": {"a": 1}}))
        assert await self.found(store, metadata={"k": {"b": [2, {"d": 4, "c": 3}], "a": 1}}) == [made.session]

    async def test_all_asked_metadata_must_be_there(self, store: Store, make: Builder) -> None:
        made = make.create(metadata={"a": 1, "b": 2, "c": 3})
        await put(store, made, make.create(metadata={"a": 1}), make.create(metadata={"a": 1, "b": 3}))
        assert await self.found(store, metadata={"a": 1, "b": 2}) == [made.session]

    async def test_a_title_is_found_by_a_part_in_any_case(self, store: Store, make: Builder) -> None:
        made = make.create(title="The GREAT Ärger of Σίσυφος")
        await put(store, made, make.create(title="The small one"), make.create())
        for part in ("great", "GREAT ä", "RGER OF", "ärger", "ÄRGER", "σίσυ"):
            assert await self.found(store, title=part) == [made.session]

    async def test_sessions_are_found_by_parent(self, store: Store, make: Builder) -> None:
        parent = make.create()
        branch = make.branch(parent)
        await put(store, parent, branch, make.branch(branch))
        assert await self.found(store, parent=parent.session) == [branch.session]

    async def test_sessions_are_found_by_whether_a_turn_is_open(self, store: Store, make: Builder) -> None:
        opened = make.create(TurnStarted())
        closed = make.create(TurnStarted(), TurnFinished())
        await put(store, opened, closed)
        assert await self.found(store, open_turn=True) == [opened.session]
        assert await self.found(store, open_turn=False) == [closed.session]
        await put(store, make.append(opened, TurnFinished()))
        assert await names(store, open_turn=True) == []

    async def test_whether_a_turn_is_open_is_right_after_every_append(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        for payload in (said("a"), TurnStarted(), said("b"), said("c"), TurnFinished(), TurnStarted(), said("d")):
            following = make.append(made, payload)
            await store.append([replace(following.commit, expected_digest=made.digest)])
            made = following
            head = await store.head(made.session)
            assert head is not None
            assert head.row == made.commit.row
            assert await self.found(store, open_turn=made.commit.row.open_turn is not None) == [made.session]
            assert await names(store, open_turn=made.commit.row.open_turn is None) == []

    async def test_times_are_bounds_that_do_not_include_themselves(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        sessions = []
        for _ in range(3):
            sessions.append(await put(store, make.create()))
            ambient.advance(1)
        early, middle, late = (made.commit.row.created_at for made in sessions)
        for kind in ("created", "active"):
            assert await self.found(store, **{f"{kind}_after": middle}) == [sessions[2].session]
            assert await self.found(store, **{f"{kind}_before": middle}) == [sessions[0].session]
            assert await self.found(store, **{f"{kind}_after": early, f"{kind}_before": late}) == [sessions[1].session]
            assert await names(store, **{f"{kind}_after": late}) == []

    async def test_activity_is_the_time_of_the_last_append(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create())
        before = ambient.now()
        ambient.advance(1)
        await put(store, make.append(made))
        assert await self.found(store, active_after=before) == [made.session]
        assert await names(store, created_after=before) == []

    async def test_all_conditions_must_hold_together(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        fitting: dict[str, Any] = {"owner": "ada", "title": "one", "tags": ("t",), "metadata": {"k": 1}}
        made = make.create(ACTIVATED, said("word"), **fitting)
        nearly = [
            make.create(ACTIVATED, said("word"), **{**fitting, name: value})
            for name, value in {"owner": "eve", "title": "two", "tags": ("u",), "metadata": {"k": 2}}.items()
        ]
        silent, asleep = make.create(ACTIVATED, **fitting), make.create(said("word"), **fitting)
        await put(store, made, *nearly, silent, asleep)
        asked = {**fitting, "phases": ("active",), "text": "word", "open_turn": False}
        asked |= {"created_after": ambient.now() - 1, "active_before": ambient.now() + 1}
        assert await self.found(store, **asked) == [made.session]

    async def test_what_was_reconfigured_is_found_by_the_new_and_not_by_the_old(
        self, store: Store, make: Builder
    ) -> None:
        made = make.create(title="old", tags=("old",), metadata={"k": "old"})
        changed = Configured(title="new", tags=("new",), metadata={"k": "new"})
        await put(store, made, make.append(made, changed))
        for asked in ({"title": "old"}, {"tags": ("old",)}, {"metadata": {"k": "old"}}):
            assert await names(store, **asked) == []
        assert await self.found(store, title="new", tags=("new",), metadata={"k": "new"}) == [made.session]

    @pytest.mark.parametrize("text", HOSTILE)
    async def test_hostile_text_in_a_filter_means_itself(self, store: Store, make: Builder, text: str) -> None:
        made = make.create(
            owner=text, title=f"before {text} after", tags=(text,), metadata={text: "plain", "plain": text}
        )
        plain = make.create(owner="plain", title="plain", tags=("plain",), metadata={"plain": "plain"})
        await put(store, made, plain)
        assert await self.found(store, owner=text) == [made.session]
        assert await self.found(store, title=text) == [made.session]
        assert await self.found(store, tags=(text,)) == [made.session]
        assert await self.found(store, metadata={text: "plain"}) == [made.session]
        assert await self.found(store, metadata={"plain": text}) == [made.session]
        assert await names(store, phases=(text,)) == []

    @pytest.mark.parametrize("text", ["", "%", "' OR 1=1 --", "TENANT", "tenant ", "ten", "tenant\x00"])
    async def test_no_tenant_sees_another(self, store: Store, make: Builder, text: str) -> None:
        shared: dict[str, Any] = {"owner": "ada", "title": "same", "tags": ("t",), "metadata": {"k": 1}}
        mine, theirs = make.create(said("word"), **shared), make.create(said("word"), tenant="other", **shared)
        await put(store, mine, theirs)
        asked = {**shared, "text": "word"}
        assert await self.found(store, **asked) == [mine.session]
        assert await names(store, tenant="other", **asked) == [theirs.session]
        assert await names(store, tenant=text, **asked) == await names(store, tenant=text) == []
        assert await store.count(Query(tenant=text)) == 0


class Ordering:
    """What the order and the pages promise."""

    async def test_the_newest_session_comes_first(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        sessions = []
        for _ in range(4):
            sessions.append(await put(store, make.create()))
            ambient.advance(1)
        await put(store, make.append(sessions[0]))
        assert await names(store) == [made.session for made in reversed(sessions)]

    async def test_by_activity_the_last_used_session_comes_first(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        sessions = []
        for _ in range(3):
            sessions.append(await put(store, make.create()))
            ambient.advance(1)
        await put(store, make.append(sessions[1]))
        ambient.advance(1)
        await put(store, make.append(sessions[0]))
        expected = [sessions[0].session, sessions[1].session, sessions[2].session]
        assert await names(store, by_activity=True) == expected

    async def test_of_the_same_moment_the_greater_id_comes_first(self, store: Store, make: Builder) -> None:
        sessions = [make.create() for _ in range(10)]
        await put(store, *sessions)
        expected = sorted((made.session for made in sessions), reverse=True)
        assert await names(store) == await names(store, by_activity=True) == expected

    async def test_no_more_than_the_limit_is_found(self, store: Store, make: Builder) -> None:
        await put(store, *(make.create() for _ in range(5)))
        assert len(await names(store, limit=3)) == 3
        assert len(await names(store, limit=5)) == len(await names(store, limit=500)) == 5

    @pytest.mark.parametrize("by_activity", [False, True])
    @pytest.mark.parametrize("size", [1, 3, 4])
    async def test_pages_have_no_gaps_and_no_repeats(
        self, store: Store, make: Builder, ambient: FixedAmbient, size: int, by_activity: bool
    ) -> None:
        for _ in range(3):
            await put(store, *(make.create(tags=("t",)) for _ in range(4)), make.create())
            ambient.advance(1)
        whole = await names(store, by_activity=by_activity, limit=100, tags=("t",))
        assert len(whole) == 12
        assert await pages(store, size, by_activity=by_activity, tags=("t",)) == whole

    async def test_sessions_made_meanwhile_do_not_disturb_later_pages(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await put(store, *(make.create() for _ in range(6)))
        whole = await store.find(Query(tenant=TENANT))
        ambient.advance(1)
        await put(store, *(make.create() for _ in range(3)))
        third = whole[2]
        rest = await store.find(Query(tenant=TENANT, after=(third.created_at, third.session)))
        assert rest == whole[3:]

    async def test_a_cursor_need_not_name_a_session_that_is_still_there(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await put(store, *(make.create() for _ in range(6)))
        whole = await store.find(Query(tenant=TENANT))
        third = whole[2]
        await store.erase(third.session, ambient.now())
        rest = await store.find(Query(tenant=TENANT, after=(third.created_at, third.session)))
        assert rest == whole[3:]

    async def test_counting_knows_no_pages(self, store: Store, make: Builder) -> None:
        sessions = [make.create(tags=("t",)) for _ in range(5)]
        await put(store, *sessions, make.create())
        cursor = (0, sessions[0].session)
        assert await store.count(Query(tenant=TENANT, tags=("t",), limit=2, after=cursor)) == 5
        assert await store.count(Query(tenant=TENANT)) == 6
