"""Sweeping: what is due is done, once, by whomever, whatever goes wrong beside it; and renewing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import apsw
import msgspec
import pytest

import perdure
from perdure import events as ev
from perdure.compose import compose
from perdure.core.errors import (
    BudgetExhausted,
    Invalid,
    NotFound,
    NotOwner,
    ReadOnly,
    RenewalRefused,
    StoreClosed,
    Suspended,
    Terminal,
)
from perdure.core.session.origin import Config, Timeouts
from perdure.core.session.timeouts import LATEST, SECOND
from perdure.edge.library import AsyncPerdure
from perdure.edge.session import AsyncSession
from perdure.edge.timing import timeouts_of
from perdure.ports.store import Store
from perdure.services.acting import Identity
from perdure.services.loading import SnapshotPolicy
from perdure.services.timeouts import BATCH, SweepReport
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient
from tests.services.conftest import open_store

LIMITS = {"idle": 60, "grace": 120, "expiry": 500}
NAN = float("nan")
YESTERYEAR = datetime(1969, 12, 31, tzinfo=UTC)


class Place:
    """One store and one clock, and as many handles on them as there are processes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ambient = FixedAmbient()
        self.db = self.handle()

    def handle(self, actor: str = "local", **timeouts: int) -> AsyncPerdure:
        limits = timeouts_of(timeouts) if timeouts else timeouts_of(None)
        identity = Identity(tenant="local", actor=actor)
        return AsyncPerdure(compose(self.store, self.ambient, identity, SnapshotPolicy(), None, limits))

    async def session(self, **fields: Any) -> AsyncSession:
        config = {"timeouts": LIMITS, **fields.pop("config", {})}
        return await self.db.create(config=config, **fields)

    async def sweep(self, seconds: float = 0, **options: Any) -> SweepReport:
        self.ambient.advance(seconds)
        return await self.db.sweep(**options)

    async def due_in(self, session: AsyncSession) -> float | None:
        due = (await session.info()).due_at
        return None if due is None else (due - self.ambient.now()) / SECOND


@pytest.fixture
async def place(engine: str, tmp_path: Path) -> AsyncIterator[Place]:
    store = open_store(engine, tmp_path)
    yield Place(store)
    await store.close()


def did(report: SweepReport) -> list[tuple[str, str]]:
    return [(item.did, item.reason) for item in report.done]


async def phase(session: AsyncSession) -> str:
    return (await session.info()).phase


# ── a life ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_is_suspended_ended_and_erased_each_in_its_time(place: Place) -> None:
    session = await place.session()
    assert did(await place.sweep(59.9)) == []
    assert did(await place.sweep(0.1)) == [("suspended", "idle")]
    assert did(await place.sweep(119)) == []
    assert did(await place.sweep(1)) == [("ended", "grace")]
    assert (await phase(session), (await session.state()).life.reason) == ("terminated", "grace")
    assert did(await place.sweep(499)) == []
    assert did(await place.sweep(1)) == [("erased", "expiry")]
    with pytest.raises(NotFound):
        await session.info()


async def test_talking_moves_the_time_out_and_the_timer_is_armed_anew(place: Place) -> None:
    session = await place.session()
    place.ambient.advance(50)
    await session.append(ev.Message(role="user", content="still here"))
    assert await place.due_in(session) == 10
    report = await place.sweep(10)
    assert (report.looked, report.rearmed, report.done) == (1, 1, ())
    assert await place.due_in(session) == 50
    assert did(await place.sweep(49)) == []
    assert did(await place.sweep(1)) == [("suspended", "idle")]


async def test_checkpoints_and_settings_move_nothing(place: Place) -> None:
    session = await place.session()
    for _ in range(5):
        place.ambient.advance(11)
        await session.checkpoint()
        await session.configure(metadata={"beat": place.ambient.now()})
        await session.patch_vars(beat=1)
    assert did(await place.sweep(5)) == [("suspended", "idle")]


async def test_an_absolute_limit_suspends_and_ends_at_once(place: Place) -> None:
    session = await place.db.create(config={"timeouts": {"absolute": 100, "grace": 1000}})
    await session.append(ev.TurnStarted())
    assert did(await place.sweep(100)) == [("suspended", "absolute"), ("ended", "absolute")]
    state = await session.state()
    assert (state.turns.interrupted, state.turns.open, state.phase.value) == (1, None, "terminated")
    with pytest.raises(Terminal):
        await session.append(ev.Message(role="user", content="too late"))


async def test_a_working_window_opens_anew_on_resuming(place: Place) -> None:
    session = await place.db.create(config={"timeouts": {"max_active": 100}})
    for _ in range(9):
        place.ambient.advance(10)
        await session.append(ev.Message(role="user", content="busy"))
    assert did(await place.sweep(10)) == [("suspended", "max_active")]
    place.ambient.advance(10_000)
    await session.resume()
    assert did(await place.sweep(99)) == []
    assert did(await place.sweep(1)) == [("suspended", "max_active")]


async def test_sessions_that_never_began_or_hang_in_resuming_are_covered(place: Place) -> None:
    await place.session(activate=False)
    stuck = await place.session()
    await stuck.suspend()
    await stuck.move("resume")
    assert did(await place.sweep(180)) == [("ended", "grace"), ("ended", "grace")]


async def test_all_is_off_unless_asked_for(place: Place) -> None:
    session = await place.db.create()
    branch = await session.branch()
    assert await place.due_in(session) is None
    assert await place.due_in(branch) is None
    assert (await place.sweep(10**9)).looked == 0


async def test_a_branch_inherits_time_outs_and_starts_its_own_time(place: Place) -> None:
    parent = await place.session()
    await parent.append(ev.Message(role="user", content="x"))
    place.ambient.advance(30)
    branch = await parent.branch(at=3)
    own = await parent.branch(config={"timeouts": {"idle": 7}})
    assert (await place.sweep(1.5)).rearmed == 1
    assert await place.due_in(branch) == 58.5
    assert await place.due_in(own) == 5.5
    assert [item.session for item in (await place.sweep(5.5)).done] == [own.id]


async def test_an_imported_session_is_timed_too(place: Place) -> None:
    session = await place.session()
    lines = await session.export()
    await session.erase()
    again = await place.db.import_jsonl(lines)
    assert await place.due_in(again) == 60


async def test_a_verified_session_may_have_any_timer(place: Place) -> None:
    session = await place.session()
    head = await place.store.head(session.id)
    assert head is not None
    for due in (7, None):
        assert await place.store.arm(session.id, due, expected=head.row.digest)
        assert (await session.verify()).ok


# ── defaults ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_deployment_has_defaults(place: Place) -> None:
    deployment = place.handle(idle=30)
    plain = await deployment.create()
    own = await deployment.create(config={"timeouts": {"idle": 90}})
    free = await deployment.create(config={"timeouts": {"idle": 0}})
    assert [await place.due_in(each) for each in (plain, own, free)] == [30, 90, None]
    place.ambient.advance(30)
    assert [item.session for item in (await deployment.sweep()).done] == [plain.id]


async def test_changed_defaults_take_hold_once_everything_is_armed_anew(place: Place) -> None:
    sessions = [await place.db.create() for _ in range(5)]
    deployment = place.handle(idle=30)
    assert await deployment.rearm() == 5
    assert await deployment.rearm() == 0
    place.ambient.advance(30)
    assert (await deployment.sweep()).count("suspended") == 5
    assert [await phase(session) for session in sessions] == ["suspended"] * 5


WRONG = [{"idel": 5}, {"idle": -1}, {"idle": 1.5}, {"idle": "5"}, {"idle": True}, {"idle": NAN}, {5: 5}, 5, "idle"]


@pytest.mark.parametrize("wrong", WRONG)
def test_defaults_are_checked_at_the_door(wrong: Any) -> None:
    with pytest.raises(Invalid):
        perdure.open(":memory:", timeouts=wrong)


@pytest.mark.parametrize("wrong", WRONG)
async def test_so_are_the_time_outs_of_a_session(place: Place, wrong: Any) -> None:
    session = await place.db.create()
    for refused in (
        lambda: place.db.create(config={"timeouts": wrong}),
        lambda: place.db.create(config=Config(timeouts=wrong)),
        lambda: session.configure(config={"timeouts": wrong}),
        lambda: session.branch(config={"timeouts": wrong}),
    ):
        with pytest.raises(Invalid):
            await refused()
    assert (await session.state()).config.timeouts is None


async def test_whoever_misspells_a_time_out_is_told_which_there_are(place: Place) -> None:
    allowed = "idle, absolute, max_active, grace, expiry, background"
    with pytest.raises(Invalid, match=f"no time-out 'idel'; there are {allowed}") as refusal:
        await place.db.create(config={"timeouts": {"idel": 3}})
    assert ", ".join(refusal.value.allowed) == allowed
    with pytest.raises(Invalid, match=f"no time-out 'idel'; there are {allowed}"):
        perdure.open(":memory:", timeouts={"idel": 3})


def test_a_time_out_that_a_newer_version_wrote_is_read_over() -> None:
    written = msgspec.msgpack.encode({"idle": 60, "lunch": 5})
    assert msgspec.msgpack.decode(written, type=Timeouts) == Timeouts(idle=60)


# ── several sweepers, and what goes wrong ─────────────────────────────────────────────────────────


async def test_sweepers_share_the_work_and_none_does_it_twice(place: Place) -> None:
    many = 3 * BATCH
    for _ in range(many):
        await place.session()
    place.ambient.advance(60)
    reports = await asyncio.gather(*(place.handle().sweep() for _ in range(5)))
    seen = Counter(item.session for report in reports for item in report.done)
    assert (len(seen), set(seen.values())) == (many, {1})
    assert sum(report.looked for report in reports) == many


async def test_what_a_dead_sweeper_had_claimed_comes_up_again_after_its_lease(place: Place) -> None:
    session = await place.session()
    place.ambient.advance(60)
    at = place.ambient.now()
    assert len(await place.store.claim("local", at, at + 300 * SECOND, 10)) == 1
    assert did(await place.sweep(299)) == []
    assert did(await place.sweep(1)) == [("suspended", "idle")]
    assert await phase(session) == "suspended"


async def test_a_sweep_keeps_to_its_limit_and_says_that_there_is_more(place: Place) -> None:
    for _ in range(5):
        await place.session()
    report = await place.sweep(60, limit=2)
    assert (report.looked, report.more) == (2, True)
    report = await place.sweep(limit=100)
    assert (report.looked, report.more) == (3, False)


async def test_the_longest_waiting_are_swept_first(place: Place) -> None:
    late = await place.session(config={"timeouts": {"idle": 50}})
    early = await place.session(config={"timeouts": {"idle": 40}})
    report = await place.sweep(60)
    assert [item.session for item in report.done] == [early.id, late.id]


async def test_progress_is_told(place: Place) -> None:
    for _ in range(3):
        await place.session()
    told: list[tuple[int, int]] = []
    await place.sweep(60, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == [1, 2, 3]
    assert all(done <= total for done, total in told)


async def test_a_sweep_may_be_asked_what_it_would_do_later(place: Place) -> None:
    session = await place.session()
    later = place.ambient.now() + 61 * SECOND
    assert did(await place.db.sweep(now=later)) == [("suspended", "idle")]
    assert await phase(session) == "suspended"


async def test_other_tenants_are_left_alone(place: Place) -> None:
    session = await place.session()
    identity = Identity(tenant="other", actor="local")
    other = AsyncPerdure(compose(place.store, place.ambient, identity, SnapshotPolicy()))
    place.ambient.advance(60)
    assert (await other.sweep()).looked == 0
    assert await phase(session) == "active"


async def test_a_session_that_cannot_be_swept_waits_and_does_not_stop_the_others(place: Place) -> None:
    poisoned = await place.session(owner="poison")
    others = [await place.session() for _ in range(3)]

    async def refuse(session: AsyncSession, _: object) -> None:
        if (await session.info()).owner == "poison":
            raise RuntimeError("not now, ana@example.org")

    place.db.before("timeout", refuse)
    report = await place.sweep(60)
    assert report.count("suspended") == 3
    (waiting,) = [item for item in report.done if item.did == "waiting"]
    assert waiting.session == poisoned.id
    assert "not now, [email]" in (waiting.error or "")
    assert [await phase(each) for each in others] == ["suspended"] * 3
    assert (await place.sweep(59)).looked == 0
    assert (await place.sweep(1)).count("waiting") == 1


async def test_the_longer_it_goes_wrong_the_later_it_is_tried_again(place: Place) -> None:
    session = await place.session()
    place.db.before("timeout", failing)
    await place.sweep(60)
    pauses = []
    for _ in range(9):
        pause = await place.due_in(session) or 0
        pauses.append(pause)
        await place.sweep(pause)
    assert pauses == [60, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def failing(*_: object) -> None:
    raise OSError("down")


async def test_an_after_hook_that_raises_stops_only_its_own_session(place: Place) -> None:
    sessions = [await place.session() for _ in range(3)]
    place.db.after("timeout", failing)
    report = await place.sweep(60)
    assert report.count("waiting") == 3
    assert [await phase(each) for each in sessions] == ["suspended"] * 3


async def test_a_session_erased_or_revived_meanwhile_is_left_in_peace(place: Place) -> None:
    gone, back = await place.session(), await place.session()
    place.ambient.advance(60)

    async def meddle(session: AsyncSession, _: object) -> None:
        if session.id == gone.id:
            await session.erase()
        else:
            await place.handle().session(back.id)
            await session.append(ev.Message(role="user", content="here I am"))

    place.db.before("timeout", meddle)
    assert (await place.db.sweep()).done == ()
    assert await phase(back) == "active"
    assert await place.due_in(back) == 60


async def test_what_concerns_the_whole_store_ends_the_sweep(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    ambient = FixedAmbient()
    store = SqliteStore(path, ambient)
    place = Place(store)
    await place.session()
    place.ambient.advance(60)
    place.db.before("timeout", lambda *_: place.store.close())
    with pytest.raises(StoreClosed):
        await place.db.sweep()
    read_only = Place(SqliteStore(path, ambient, read_only=True))
    with pytest.raises(ReadOnly):
        await read_only.db.sweep()
    await read_only.store.close()


async def test_an_append_that_sets_the_timer_is_never_overwritten_by_a_sweeper_that_looked_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweeper sees a sleeping session for which nothing is due; before it says so, the session is resumed."""
    session = await place.db.create(config={"timeouts": {"idle": 60}})
    await session.suspend()
    head = await place.store.head(session.id)
    assert head is not None
    assert await place.store.arm(session.id, place.ambient.now(), expected=head.row.digest)
    timekeeper, inner = place.db._services.timeouts, place.store.arm
    meddled = []

    async def arm(name: Any, due: int | None, *, expected: bytes) -> bool:
        if not meddled:
            meddled.append(due)
            await (await place.handle().session(session.id)).resume()
        return await inner(name, due, expected=expected)

    monkeypatch.setattr(timekeeper, "_store", Meddler(place.store, arm))
    report = await place.db.sweep()
    assert (meddled, report.rearmed) == ([None], 0)
    assert await place.due_in(session) == 60


async def test_a_sweeper_that_fails_does_not_put_off_what_somebody_set_meanwhile(place: Place) -> None:
    session = await place.session()
    await session.suspend()

    async def renew_and_fail(held: AsyncSession, _: object) -> None:
        await (await place.handle().session(held.id)).renew(30)
        raise OSError("down")

    place.db.cleanup("promote", renew_and_fail)
    assert (await place.sweep(120)).count("waiting") == 1
    assert await place.due_in(session) == 30


async def test_a_hook_that_writes_and_fails_is_not_called_again_at_once(place: Place) -> None:
    session = await place.session()

    async def note_and_fail(held: AsyncSession, _: object) -> None:
        await (await place.handle().session(held.id)).configure(title="overdue")
        raise OSError("down")

    place.db.before("timeout", note_and_fail)
    assert (await place.sweep(60)).looked == 1
    assert await place.due_in(session) == 60


class Meddler:
    """A store in whose `arm` somebody else has a hand."""

    def __init__(self, store: Store, arm: Callable[..., Any]) -> None:
        self._store, self.arm = store, arm

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_damaged_session_waits_for_somebody_to_mend_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    place = Place(SqliteStore(str(path), FixedAmbient()))
    broken, whole = await place.session(), await place.session()
    await place.store.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE record SET body = x'00' WHERE session = 1")
    connection.close()
    again = Place(SqliteStore(str(path), FixedAmbient()))
    again.ambient.advance(60)
    report = await again.db.sweep()
    assert [(item.session, item.did) for item in report.done] == [(broken.id, "waiting"), (whole.id, "suspended")]
    await again.store.close()


async def test_compensations_run_when_time_ends_a_session_and_a_dead_sweepers_are_finished(place: Place) -> None:
    sessions = [await place.session(), await place.session()]
    for session in sessions:
        await session.append(ev.CompensationRegistered(name="undo", arguments={"n": 1}))
    undone: list[str] = []
    await place.sweep(60)
    assert (await place.sweep(120)).count("ended") == 2  # nobody here knows how to undo
    assert [await phase(each) for each in sessions] == ["terminated"] * 2
    report = await place.sweep()
    assert report.looked == 0
    place.db.compensation("undo", lambda session, _: undone.append(session.id))
    report = await place.sweep(300)
    assert report.count("compensated") == 2
    assert sorted(undone) == sorted(each.id for each in sessions)
    assert (await place.sweep(60)).looked == 0


# ── in blocking programs, and over and over ───────────────────────────────────────────────────────


def test_blocking_programs_sweep_too(tmp_path: Path) -> None:
    ambient = FixedAmbient()
    with perdure.open(tmp_path / "x.db", ambient=ambient, seal=False, timeouts={"idle": 60}) as db:
        session = db.create()
        ambient.advance(60)
        assert db.sweep().count("suspended") == 1
        assert session.info().phase == "suspended"
        assert db.rearm() == 0


def test_a_sweeper_sweeps_over_and_over() -> None:
    ambient = FixedAmbient()
    with perdure.open(":memory:", ambient=ambient) as db:
        db.create(config={"timeouts": LIMITS})
        deeds = []
        for report in db.sweeper(30):
            deeds.append((ambient.now(), did(report)))
            if len(deeds) == 24:
                break
    begun = deeds[0][0]
    assert [((at - begun) // SECOND, done) for at, done in deeds if done] == [
        (60, [("suspended", "idle")]),
        (180, [("ended", "grace")]),
        (690, [("erased", "expiry")]),
    ]


async def test_an_async_sweeper_sweeps_over_and_over(place: Place) -> None:
    await place.session()
    reports = 0
    async for report in place.db.sweeper(60):
        reports += 1
        if report.done:
            break
    assert reports == 2


@pytest.mark.parametrize(
    "options",
    [
        {"limit": 0},
        {"limit": "5"},
        {"lease": 0},
        {"lease": "x"},
        {"lease": NAN},
        {"give_up": -1},
        {"give_up": True},
        {"now": "x"},
        {"now": -1},
        {"now": True},
        {"now": 1 << 63},
        {"progress": 5},
    ],
)
async def test_sweep_refuses_nonsense(place: Place, options: Any) -> None:
    with pytest.raises(Invalid):
        await place.db.sweep(**options)


@pytest.mark.parametrize("interval", [0, -1, NAN, True, float("inf"), 9e9, "60"])
async def test_a_sweeper_refuses_to_wait_for_nonsense(place: Place, interval: Any) -> None:
    with pytest.raises(Invalid, match="interval"):
        await anext(place.db.sweeper(interval))


# ── renewing ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_renewed_session_lives_until_the_new_moment(place: Place) -> None:
    session = await place.db.create(config={"timeouts": {"absolute": 1000}})
    granted = await session.renew(100)
    assert granted == place.ambient.now() + 100 * SECOND
    assert await place.due_in(session) == 100
    assert await session.renew(until=place.ambient.now() + 5000 * SECOND) == place.ambient.now() + 1000 * SECOND
    assert did(await place.sweep(999)) == []
    assert did(await place.sweep(1)) == [("suspended", "absolute"), ("ended", "absolute")]


async def test_renewing_is_refused_with_a_reason(place: Place) -> None:
    session = await place.db.create(owner="ana", config={"timeouts": {"absolute": 100}, "max_cost": 10})
    with pytest.raises(NotOwner):
        await session.renew(10)
    own = await place.handle("ana").session(session.id)
    await own.renew(10)
    await own.reserve("r", 10)
    with pytest.raises(BudgetExhausted):
        await own.renew(10)
    await own.settle("r", 0)
    place.ambient.advance(100)
    with pytest.raises(RenewalRefused):
        await own.renew(10)
    for wrong in ({}, {"ttl": 5, "until": 7}, {"ttl": 0}, {"ttl": "x"}, {"until": "x"}):
        with pytest.raises(Invalid):
            await own.renew(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"until": value} for value in ((1 << 63) - 1, 1 << 63, -1, True, 1.5, NAN, LATEST, YESTERYEAR)],
        *[{"ttl": value} for value in (-1, True, NAN, float("inf"), 1e11, timedelta.max, timedelta(seconds=-1))],
    ],
)
async def test_a_time_that_nobody_lives_to_see_is_none(place: Place, wrong: Any) -> None:
    session = await place.db.create()
    with pytest.raises(Invalid):
        await session.renew(**wrong)
    with pytest.raises(Invalid):
        await place.db._services.timeouts.renew(session.id, **wrong)
    assert (await session.state()).origin.expires_at is None


async def test_the_last_moment_there_is_can_be_shown(place: Place) -> None:
    session = await place.db.create()
    granted = await session.renew(until=LATEST - 1)
    assert datetime.fromtimestamp(granted // SECOND, UTC).year == 9998
    assert granted == (await session.state()).origin.expires_at == LATEST - 1


async def test_renewing_a_sleeping_session_in_the_last_moment_saves_it(place: Place) -> None:
    """The sweeper has begun to clean up when the owner asks for more time."""
    session = await place.session()
    await place.sweep(60)
    place.db.cleanup("analytics", lambda held, _: held.renew(1000))
    report = await place.sweep(120)
    assert did(report) == []
    assert await phase(session) == "suspended"
    assert await place.due_in(session) == 1000
    with pytest.raises(Suspended):
        await session.append(ev.Message(role="user", content="x"))


# ── what a sweep costs ────────────────────────────────────────────────────────────────────────────

COPY = """
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?)
INSERT INTO session (session_id, tenant, owner_id, title, lifecycle_phase, schema_version, state_version, digest,
    created_at, last_active_at, activity, expires_at, turns, metadata, due_at)
SELECT randomblob(16), tenant, owner_id, title, lifecycle_phase, schema_version, state_version, digest,
    created_at, last_active_at, activity, expires_at, turns, metadata,
    CASE n % 2 WHEN 0 THEN due_at + 1000000000000 + n END
FROM session, number WHERE no = 1
"""
DUE = 100


def filled(path: Path, count: int) -> None:
    """A store with as many sessions, of which a hundred will be due."""
    place = Place(SqliteStore(str(path), FixedAmbient()))

    async def make() -> None:
        for _ in range(DUE):
            await place.session()
        await place.store.close()

    asyncio.run(make())
    connection = apsw.Connection(str(path))
    connection.execute(COPY, (count - DUE,))
    connection.close()


class Meter:
    """Counts the statements that SQLite runs on every connection, and their steps."""

    def __init__(self) -> None:
        self.statements = self.steps = self.scanned = 0

    def __enter__(self) -> Self:
        apsw.connection_hooks.append(self._install)
        return self

    def __exit__(self, *_: object) -> None:
        apsw.connection_hooks.remove(self._install)

    def _install(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)

    def _count(self, event: dict[str, Any]) -> None:
        self.statements += 1
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        self.scanned += event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]


def cost(path: Path) -> Meter:
    """What SQLite does in a sweep that suspends the hundred."""
    with Meter() as meter:
        place = Place(SqliteStore(str(path), FixedAmbient()))

        async def sweep() -> None:
            meter.statements = meter.steps = meter.scanned = 0
            report = await place.sweep(60)
            assert (report.looked, report.count("suspended")) == (DUE, DUE)
            assert (await place.sweep()).looked == 0

        asyncio.run(sweep())
        after = (meter.statements, meter.steps, meter.scanned)
        asyncio.run(place.store.close())
        meter.statements, meter.steps, meter.scanned = after
    return meter


@pytest.mark.slow
def test_a_sweep_costs_the_number_of_due_sessions_not_of_sessions(tmp_path: Path) -> None:
    """10⁵ sessions, 100 due: what SQLite does is what it does with 10³, give or take a fifth."""
    filled(tmp_path / "few.db", 1_000)
    filled(tmp_path / "many.db", 100_000)
    few, many = cost(tmp_path / "few.db"), cost(tmp_path / "many.db")
    print(f"statements {few.statements} and {many.statements}, steps {few.steps} and {many.steps}")
    assert many.scanned == few.scanned
    assert many.statements <= few.statements * 1.2
    assert few.steps * 0.8 <= many.steps <= few.steps * 1.2


async def test_due_sessions_are_found_by_their_index(tmp_path: Path) -> None:
    from perdure.stores.sqlite.sql import QUERIES

    store = SqliteStore(str(tmp_path / "x.db"), FixedAmbient())
    await store.close()
    connection = apsw.Connection(str(tmp_path / "x.db"))
    plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES['due']}", (1, "local", 10)))
    connection.close()
    assert "session_due" in plan
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


def test_limits_are_plain_data() -> None:
    assert timeouts_of({"idle": 5}).idle == 5
    assert timeouts_of(Timeouts(idle=5)) == Timeouts(idle=5)
