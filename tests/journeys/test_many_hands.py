"""Many hands on one store: threads, tasks, loops, forks and processes, and whoever watches them."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import perdure
from perdure import events as ev
from perdure.core.errors import KeyInFlight
from tests.journeys.conftest import Place

PATIENCE = 60.0
"""Seconds until a test that hangs is a test that fails."""


def said(content: Any = "hello") -> ev.Message:
    return ev.Message(role="user", content=content)


def texts(session: perdure.Session) -> list[Any]:
    return [message.content for turn in session.turns() for message in turn.messages]


@pytest.fixture
def path(place: Place) -> str:
    return place.at("store.db")


@pytest.fixture
def db(path: str) -> Iterator[perdure.Perdure]:
    with perdure.open(path) as opened:
        yield opened


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The outcomes of the same work on many threads, started together."""
    gate = threading.Barrier(count)

    def begin(number: int) -> Any:
        gate.wait(PATIENCE)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count), timeout=PATIENCE))


def in_process(script: str, *arguments: str) -> "subprocess.Popen[str]":
    """Another Python that runs a script with perdure imported."""
    begin = "import os, sys, perdure\nfrom perdure import events as ev\n"
    command = [sys.executable, "-c", begin + script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


# ── threads and tasks ─────────────────────────────────────────────────────────────────────────────


def test_threads_share_a_session_without_losing_a_word(db: perdure.Perdure) -> None:
    session = db.create()
    versions = at_once(8, lambda number: [session.append(said(f"{number}.{count}")) for count in range(10)])
    assert sorted(version for mine in versions for version in mine) == list(range(3, 83))
    assert len(set(texts(session))) == 80
    assert session.verify().ok


def test_threads_that_change_vars_at_once_all_succeed(db: perdure.Perdure) -> None:
    session = db.create(vars={"shared": 0})
    at_once(6, lambda number: [session.patch_vars(**{f"t{number}": count}) for count in range(8)])
    assert session.state().vars.document == {"shared": 0, **{f"t{number}": 7 for number in range(6)}}


def test_one_key_on_many_threads_appends_once(db: perdure.Perdure, path: str) -> None:
    session = db.create()
    with perdure.open(path) as other:
        handles = [session, other.session(session.id)]

        def pay(number: int) -> Any:
            try:
                return handles[number % 2].append(said("pay"), key="k")
            except KeyInFlight as refusal:
                return refusal

        outcomes = at_once(8, pay)
    assert {outcome for outcome in outcomes if isinstance(outcome, int)} == {3}
    assert texts(session) == ["pay"]


async def test_tasks_share_a_session_without_losing_a_word(path: str) -> None:
    async with await perdure.aopen(path) as db:
        session = await db.create()
        versions = await asyncio.gather(*[session.append(said(count)) for count in range(50)])
        assert sorted(versions) == list(range(3, 53))
        assert len(await session.events()) == 52


async def test_a_cancelled_task_leaves_the_session_usable(path: str) -> None:
    async with await perdure.aopen(path) as db:
        session = await db.create()
        tasks = [asyncio.create_task(session.append(said(count))) for count in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        version = await session.append(said("still here"))
        events = await session.events()
        assert [event.version for event in events] == list(range(1, version + 1))
        assert (await session.verify()).ok


async def test_tasks_and_threads_and_the_blocking_twin_work_on_one_store(path: str) -> None:
    async with await perdure.aopen(path) as db:
        session = await db.create()
        with perdure.open(path) as twin:
            other = twin.session(session.id)
            inside = [session.append(said(f"a{count}")) for count in range(10)]
            outside = [asyncio.to_thread(other.append, said(f"b{count}")) for count in range(10)]
            await asyncio.gather(*inside, *outside)
            assert len({str(text) for text in texts(other)}) == 20


def test_an_async_store_may_be_used_from_one_loop_after_another(path: str) -> None:
    db = asyncio.run(perdure.aopen(path))
    session = asyncio.run(db.create())
    for count in range(3):
        asyncio.run(session.append(said(count)))
    assert len(asyncio.run(session.events())) == 5
    asyncio.run(db.close())


async def test_blocking_calls_work_inside_a_running_loop(path: str) -> None:
    with perdure.open(path) as db, db.create().turn("in a notebook") as turn:
        turn.answer("yes")
        assert asyncio.get_running_loop().is_running()
    with perdure.open(path) as db:
        assert [row.turns for row in db.find().items] == [1]


# ── processes ─────────────────────────────────────────────────────────────────────────────────────

APPEND = """
with perdure.open(sys.argv[1]) as db:
    session = db.session(sys.argv[2])
    for count in range(15):
        session.append(ev.Message(role="user", content=f"{sys.argv[3]}.{count}"))
"""


def test_processes_share_a_session_without_losing_a_word(db: perdure.Perdure, path: str) -> None:
    session = db.create()
    others = [in_process(APPEND, path, session.id, str(number)) for number in range(3)]
    for count in range(15):
        session.append(said(f"here.{count}"))
    for other in others:
        finished(other)
    said_here = [text for text in texts(session) if text.startswith("here.")]
    assert said_here == [f"here.{count}" for count in range(15)]
    assert len(set(texts(session))) == 60
    assert session.verify().ok


SPEND = """
with perdure.open(sys.argv[1]) as db:
    session = db.session(sys.argv[2]).branch()
    spent = 0
    for count in range(10):
        try:
            session.reserve(f"r{count}", 7)
        except perdure.errors.BudgetExhausted:
            continue
        session.settle(f"r{count}", 5)
        spent += 5
    print(spent)
"""


def test_processes_never_spend_more_than_the_account_has(db: perdure.Perdure, path: str) -> None:
    session = db.create(config={"max_cost": 100})
    others = [in_process(SPEND, path, session.id) for _ in range(3)]
    spent = sum(int(finished(other)) for other in others)
    account = session.account()
    assert (account.spent, account.reserved, account.paused) == (spent, 0, False)
    assert 90 <= spent <= 100


DIE = """
db = perdure.open(sys.argv[1])
session = db.session(sys.argv[2])
turn = session.turn("half said").__enter__()
call = turn.ask("pay", call="c1")
turn.start(call, key="pay-once")
session.reserve("r", 40)
os._exit(0)
"""


def test_a_process_that_dies_leaves_its_turn_and_its_reservation_to_be_settled(db: perdure.Perdure, path: str) -> None:
    session = db.create(config={"max_cost": 100})
    finished(in_process(DIE, path, session.id))
    (recovered,) = db.recover()
    assert [(item.call, item.key, item.started) for item in recovered.unfinished] == [("c1", "pay-once", True)]
    assert session.account().reserved == 40
    session.settle("r", 40, estimated=True)
    assert session.account().spent == 40
    with session.turn("again"):
        pass


FORK = """
db = perdure.open(sys.argv[1])
session = db.session(sys.argv[2])
session.append(ev.Message(role="user", content="before"))
child = os.fork()
if child == 0:
    for count in range(5):
        session.append(ev.Message(role="user", content=f"child.{count}"))
    os._exit(0)
for count in range(5):
    session.append(ev.Message(role="user", content=f"parent.{count}"))
assert os.waitpid(child, 0)[1] == 0
assert len(session.turns()[0].messages) == 11
db.close()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system cannot fork")
def test_a_handle_survives_a_fork_on_both_sides(db: perdure.Perdure, path: str) -> None:
    session = db.create()
    finished(in_process(FORK, path, session.id))
    assert len(set(texts(session))) == 11
    assert session.verify().ok


# ── watching ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_watcher_sees_every_change_in_order(path: str) -> None:
    async with await perdure.aopen(path) as db, await perdure.aopen(path) as other:
        session = await db.create()

        async def watch(handle: perdure.AsyncPerdure) -> list[Any]:
            found = []
            async for change in handle.watch(after=0):
                found.append(change)
                if change.last == 12:
                    return found
            return found

        watchers = [asyncio.create_task(watch(handle)) for handle in (db, other)]
        for count in range(10):
            await (session if count % 2 else await other.session(session.id)).append(said(count))
        seen = await asyncio.wait_for(asyncio.gather(*watchers), PATIENCE)
        for changes in seen:
            assert [(change.first, change.last) for change in changes] == [(1, 2), *[(n, n) for n in range(3, 13)]]
            assert changes[0].kinds == ("created", "moved")
            assert [change.position for change in changes] == sorted({change.position for change in changes})


async def test_a_watcher_may_look_at_one_session_and_start_now(path: str) -> None:
    async with await perdure.aopen(path) as db:
        one, other = await db.create(), await db.create()
        await one.append(said("before"))
        changes = one.watch()
        first = asyncio.create_task(anext(changes))  # type: ignore[arg-type]
        while not first.done():
            await other.append(said("elsewhere"))
            await one.append(said("after"))
            await asyncio.sleep(0)
        change = await asyncio.wait_for(first, PATIENCE)
        assert change.session == one.id
        assert change.first >= 4
        await changes.aclose()  # type: ignore[attr-defined]


def test_a_blocking_watcher_waits_on_its_own_thread(db: perdure.Perdure, path: str) -> None:
    session, created = db.create(), db.position()
    with perdure.open(path) as other, ThreadPoolExecutor(2) as pool:
        watchers = [
            pool.submit(lambda handle=handle: next(iter(handle.watch(after=created, session=session.id))))
            for handle in (db, other)
        ]
        session.append(said())
        for watcher in watchers:
            change = watcher.result(PATIENCE)
            assert (change.session, change.first, change.kinds) == (session.id, 3, ("message",))


def test_a_watcher_sees_what_another_process_does(db: perdure.Perdure, path: str) -> None:
    session = db.create()
    changes = db.watch(after=db.position())
    other = in_process(APPEND, path, session.id, "there")
    assert [next(changes).first for _ in range(15)] == list(range(3, 18))
    finished(other)


def test_an_erased_session_is_told_as_erased(db: perdure.Perdure) -> None:
    session = db.create()
    session.append(said())
    session.erase()
    change = next(db.watch(after=0))
    assert (change.session, change.erased, change.last) == (session.id, True, 3)


def test_watching_ends_when_the_store_closes(path: str) -> None:
    db = perdure.open(path)
    db.create()
    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(lambda: list(db.watch(after=0)))
        while not watcher.running():
            pass
        db.close()
        assert len(watcher.result(PATIENCE)) <= 1
