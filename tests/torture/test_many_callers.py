"""Many threads, many tasks, cancelled tasks, interrupted calls, notebooks: one handle serves them all."""

import asyncio
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import perdure
from torture.process import ROOT, environment


def test_eight_threads_on_one_handle_lose_nothing(tmp_path: Path, turn: Any, names: Any) -> None:
    with perdure.open(tmp_path / "store.db") as db:
        session = db.create()
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for index in range(50):
                    session.append(turn(f"{number}.{index}"))
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = names(session.events())
        assert failures == []
        assert len(found) == 400
        for number in range(8):
            assert [name for name in found if name.startswith(f"{number}.")] == [f"{number}.{i}" for i in range(50)]
        assert session.verify().ok


async def test_sixty_four_tasks_on_one_handle_lose_nothing(tmp_path: Path, turn: Any, names: Any) -> None:
    async with await perdure.aopen(tmp_path / "store.db") as db:
        session = await db.create()

        async def work(number: int) -> None:
            for index in range(5):
                await session.append(turn(f"{number}.{index}"))

        await asyncio.gather(*(work(number) for number in range(64)))
        found = names(await session.events())
        assert len(found) == 320
        for number in range(64):
            assert [name for name in found if name.startswith(f"{number}.")] == [f"{number}.{i}" for i in range(5)]
        assert (await session.verify()).ok


async def test_cancelled_appends_land_once_or_not_and_break_no_later_one(tmp_path: Path, turn: Any, names: Any) -> None:
    rng = random.Random(1)
    async with await perdure.aopen(tmp_path / "store.db") as db:
        sessions = [await db.create() for _ in range(3)]
        cancelled = 0

        async def work(number: int) -> None:
            nonlocal cancelled
            session = sessions[number % 3]
            going = asyncio.ensure_future(session.append(turn(f"t{number}"), key=f"k{number}"))
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0)
            going.cancel()
            try:
                await going
            except asyncio.CancelledError:
                cancelled += 1
            await asyncio.wait_for(session.append(turn(f"t{number}"), key=f"k{number}"), 30)

        await asyncio.gather(*(work(number) for number in range(150)))
        assert cancelled > 20, "hardly any append was cancelled, so nothing was tested"
        for place, session in enumerate(sessions):
            found = names(await session.events())
            assert sorted(found) == sorted(f"t{number}" for number in range(150) if number % 3 == place)
            assert (await session.verify()).ok


async def test_the_blocking_library_works_inside_a_running_loop(tmp_path: Path, turn: Any, names: Any) -> None:
    path = tmp_path / "store.db"
    with perdure.open(path) as db:
        session = db.create()
        session.append(turn("blocking"))
        async with await perdure.aopen(path) as other:
            same = await other.session(session.id)
            await asyncio.gather(*(same.append(turn(f"task{n}")) for n in range(10)))
            session.append(turn("blocking again"))
            with session.turn("by hand", model="block") as block:
                block.answer("yes")
            await same.append(turn("last"))
        found = names(session.events())
    assert found[0] == "blocking"
    assert sorted(found[1:11]) == [f"task{n}" for n in range(10)]
    assert found[11:] == ["blocking again", "block", "last"]


INTERRUPTED = """
import random, signal, sys, threading, time
import perdure
from perdure import events as ev
def turn(name): return [ev.TurnStarted(model=name), ev.Message(role="user", content=name), ev.TurnFinished()]
rng, main = random.Random(1), threading.main_thread().ident
go, sent = threading.Semaphore(0), threading.Event()
def interrupt():
    while True:
        go.acquire()
        time.sleep(rng.uniform(0, 0.001))
        signal.pthread_kill(main, signal.SIGINT)
        sent.set()
threading.Thread(target=interrupt, daemon=True).start()
hits = 0
with perdure.open(sys.argv[1]) as db:
    session = db.create()
    for number in range(600):
        inside = True
        try:
            sent.clear()
            go.release()
            session.append(turn(f"t{number}"), key=f"k{number}")
            session.turns(last=2)
            inside = False
            sent.wait()
            time.sleep(0.0001)
        except KeyboardInterrupt:
            hits += inside
        sent.wait()
        session.append(turn(f"t{number}"), key=f"k{number}")
    found = [event.data.model for event in session.events() if event.kind == "turn_started"]
    assert found == [f"t{number}" for number in range(600)], len(found)
    assert session.verify().ok
assert hits > 50, f"only {hits} calls were interrupted"
"""


AMONG_OTHERS = """
import os, random, signal, sys, threading, time
import perdure
from perdure import errors
from perdure import events as ev
def note(name): return ev.Feedback(comment=name)
def strike(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, strike)
rng, acknowledged, stop, hits = random.Random(1), [], threading.Event(), 0
with perdure.open(sys.argv[1]) as db:
    session = db.create()
    def work(number):
        index = 0
        while not stop.is_set():
            index += 1
            acknowledged.append((session.append(note(f"{number}.{index}")), f"{number}.{index}"))
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(2)]
    for thread in threads: thread.start()
    for number in range(400):
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.00001, 0.004))
            acknowledged.append((session.append(note(f"main.{number}")), f"main.{number}"))
            session.info()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
        if number % 20 == 0:
            child = os.fork()
            if not child: os._exit(0)
            os.waitpid(child, 0)
    stop.set()
    for thread in threads: thread.join()
    found = {event.version: event.data.comment for event in session.events() if event.kind == "feedback"}
    assert len(set(found.values())) == len(found), "written twice"
    assert all(found.get(version) == name for version, name in acknowledged), "acknowledged but not there"
    assert session.verify().ok
assert hits > 50, f"only {hits} calls were interrupted"
"""


def test_an_interrupted_call_costs_the_other_threads_nothing(tmp_path: Path) -> None:
    """It may be committing for all of them: nothing is lost or doubled, and nobody waits in vain."""
    run_interrupted(AMONG_OTHERS, tmp_path, patience=60)


def test_an_interrupted_call_leaves_the_handle_usable(tmp_path: Path) -> None:
    """Stopping a cell in a notebook raises KeyboardInterrupt anywhere; the next cell must work."""
    run_interrupted(INTERRUPTED, tmp_path, patience=20)


def run_interrupted(script: str, folder: Path, patience: float) -> None:
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder / "store.db")]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        raise AssertionError("after an interrupted call the next one waits for ever") from None
    assert (done.returncode, done.stderr[-1500:]) == (0, "")
