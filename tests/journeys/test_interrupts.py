"""Ctrl-C wherever Python may raise it, and cancelled turns: what others wait for is never lost and never doubled.

Python raises an interrupt where a function begins, after a call and when a loop comes round. A tracer counts these
points within perdure's own code and raises at the n-th, for every n: no luck and no clock is involved.
"""

import asyncio
import dis
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

import apsw
import pytest

import perdure
from perdure import errors, forking
from perdure import events as ev
from perdure.stores.sqlite.connection import connect
from perdure.stores.sqlite.readers import Readers
from perdure.stores.sqlite.writer import Job, Transaction, Writer
from perdure.waiting import Lane, Ticket, drive

# An interrupt may come before a coroutine's first step; that is no mistake of ours.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
PATIENCE = 10
SOURCE = str(Path(perdure.__file__).parent)
WAITS = ("waiting.py", "forking.py", "leading.py", "writer.py", "readers.py", "blocking.py")
CHECKED = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}


def interrupted(work: Callable[[], Any], point: int, within: tuple[str, ...] = ("",)) -> bool:
    """Run work and interrupt it at a point within some modules; False when it ended before it got there."""
    passed, struck = 0, False

    def strike() -> None:
        nonlocal passed, struck
        passed += 1
        if passed == point:
            struck = True
            sys.settrace(None)
            raise KeyboardInterrupt

    def entered(frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        ours = name.startswith(SOURCE) or name in within
        if event != "call" or struck or not ours or not name.endswith(within):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        previous = ""
        if frame.f_lasti < 0:  # not where a generator goes on: raised from here, nothing in it could handle it
            strike()

        def stepped(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal previous
            if event == "opcode" and not struck:
                checked = previous in CHECKED
                previous = dis.opname[frame.f_code.co_code[frame.f_lasti]]
                if checked:
                    strike()
            if event == "exception":  # a call that raises is no point: what handles it is entered at once
                previous = ""
            return stepped

        return stepped

    sys.settrace(entered)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return struck


def soon(work: Callable[[], Any]) -> Any:
    """What the work returns; a failure instead of a hang if it waits for ever."""
    got: list[Any] = []
    thread = Thread(target=lambda: got.append(work()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it waits for ever"
    return got[0]


def inserting(word: str) -> Callable[[Transaction], str]:
    def operation(transaction: Transaction) -> str:
        transaction.execute("INSERT INTO words VALUES (?)", (word,))
        return word

    return operation


async def written(writer: Writer, word: str) -> str:
    result: str = await writer.submit(inserting(word), guarded=True)
    return result


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "words.db")
    connection = connect(path, writable=True)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("CREATE TABLE words (word)")
    connection.close()
    return path


def words(path: str) -> list[str]:
    connection: Any = apsw.Connection(path)
    return [word for (word,) in connection.execute("SELECT word FROM words")]


def test_an_interrupted_leader_neither_loses_nor_doubles_what_others_write(file: str) -> None:
    rung = []
    writer = Writer(file, lambda: rung.append(1), None)
    point = 0
    others: list[str] = []
    while True:
        point += 1
        tickets = {f"{point}.{n}": Ticket[Any]() for n in range(3)}
        for word, ticket in tickets.items():
            writer._queue.append(Job(inserting(word), ticket, True))
        own = written(writer, f"own{point}")
        struck = interrupted(lambda: drive(own), point, WAITS)  # noqa: B023
        assert soon(lambda: drive(written(writer, f"after{point}"))) == f"after{point}"  # noqa: B023
        others += tickets
        assert [ticket.done and ticket.result() for ticket in tickets.values()] == list(tickets)
        if not struck:
            break
    found = words(file)
    writer.close()
    assert point > 50, "hardly any point was tried"
    assert [word for word in found if "." in word] == others
    assert [word for word in found if word.startswith("after")] == [f"after{n}" for n in range(1, point + 1)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_engine_knows_whether_an_interrupted_commit_was_made(file: str, when: str) -> None:
    connection = connect(file, writable=True)

    class Interrupting:
        """The connection, with an interrupt just before or just after its commit."""

        struck = False

        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def cursor(self) -> Any:
            return self

        def execute(self, query: str, *args: Any) -> Any:
            strike = query == "COMMIT" and not self.struck
            self.struck = self.struck or strike
            if strike and when == "before":
                raise KeyboardInterrupt
            result = connection.execute(query, *args)
            if strike:
                raise KeyboardInterrupt
            return result

    writer = Writer(file, lambda: None, Interrupting())  # type: ignore[arg-type]  # a stand-in
    other = Ticket[Any]()
    writer._queue.append(Job(inserting("other"), other, False))
    with pytest.raises(KeyboardInterrupt):
        drive(written(writer, "own"))
    assert other.done == (when == "after")
    drive(written(writer, "later"))
    assert other.result() == "other"
    assert words(file) == (["other", "own", "later"] if when == "after" else ["other", "later"])
    writer.close()


def test_an_interrupt_while_another_one_is_seen_to_silences_nobody(file: str) -> None:
    """The second one strikes where the leader tells the writer's thread that there is work left."""
    point, struck = 0, True

    async def task(word: str) -> str:
        return await asyncio.wait_for(written(writer, word), PATIENCE)

    async def broken() -> None:
        first = iter([KeyboardInterrupt])

        def interrupting(_: Transaction) -> None:
            for interrupt in first:
                raise interrupt

        await writer.submit(interrupting)

    writer = Writer(file, lambda: None, None)
    while struck:
        point += 1
        asyncio.run(task(f"before{point}"))
        struck = interrupted(lambda: drive(broken()), point, (*WAITS, threading.__file__))
        assert soon(lambda: asyncio.run(task(f"after{point}"))) == f"after{point}"  # noqa: B023
        assert soon(lambda: drive(written(writer, f"then{point}"))) == f"then{point}"  # noqa: B023
    soon(writer.close)
    assert words(file) == [f"{when}{n}" for n in range(1, point + 1) for when in ("before", "after", "then")]
    assert point > 20, "hardly any point was tried"


def test_a_lane_is_passed_on_whenever_its_holder_is_interrupted() -> None:
    point, struck = 0, True
    while struck:
        point += 1
        lane, behind = Lane(), Ticket[None]()

        async def work() -> None:
            async with lane:  # noqa: B023
                lane._queue.append(behind)  # noqa: B023

        struck = interrupted(lambda: drive(work()), point)
        assert lane.idle or behind.done
        assert list(lane._queue) in ([], [behind])
    assert point > 5


def test_whoever_is_interrupted_while_waiting_for_a_lane_leaves_no_gap_in_its_queue() -> None:
    point, struck = 0, True
    while struck:
        point += 1
        lane, first, behind = Lane(), Ticket[None](), Ticket[None]()
        lane._queue.append(first)

        class Waited(Ticket[None]):
            """The one in front leaves, and another one comes, just as the wait begins."""

            def wait(self, timeout: float = -1) -> bool:
                lane._queue.append(behind)  # noqa: B023
                lane.leave(first)  # noqa: B023
                return super().wait(PATIENCE)

        async def work() -> None:
            async with lane:  # noqa: B023
                pass

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("perdure.waiting.Ticket", Waited)
            struck = interrupted(lambda: drive(work()), point)
        lane.leave(first)
        assert list(lane._queue) in ([], [behind])
        assert behind.done == (behind in lane._queue)
    assert point > 10


def test_interrupted_questions_hold_up_no_fork(file: str) -> None:
    readers = Readers(file)
    point = 0
    while interrupted(lambda: drive(readers.ask(lambda asks: asks.execute("SELECT 1").fetchall())), point := point + 1):
        soon(readers.pause)
        readers.go_on()
    assert point > 10
    readers.close()


def test_an_interrupted_look_at_a_head_leaves_no_lock(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with perdure.open(file) as db, perdure.open(file) as other:
        session = db.create("looked at")
        elsewhere = other.session(session.id)
        point, struck = 0, True
        while struck:
            point += 1
            session.info()
            elsewhere.append(ev.Feedback(comment="somebody else"))  # so that the next look finds the file changed
            struck = interrupted(session.info, point)
            soon(session.info)
        assert point > 20


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_around_a_fork_stops_nobody(tmp_path: Path, when: str) -> None:
    with perdure.open(tmp_path / "store.db") as db:
        session = db.create("x")
        first = session.append(ev.Feedback(comment="here"))
        point, struck = 0, True
        while struck:
            point += 1
            if when == "before":
                struck = interrupted(forking._before, point)
                forking._in_parent()
            else:
                forking._before()
                struck = interrupted(forking._in_parent, point)
            assert soon(lambda: session.append(ev.Feedback(comment="still here"))) == first + point
        assert point > (20 if when == "before" else 5), "hardly any point was tried"


def test_a_handle_is_usable_wherever_a_call_was_interrupted(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "store.db") as db:
        session = db.create("interrupted")
        done = 0
        for point in range(1, 10_000):
            key = f"k{point}"
            struck = interrupted(lambda: session.append(ev.Feedback(comment=key), key=key), point)  # noqa: B023
            soon(lambda: session.append(ev.Feedback(comment=key), key=key))  # noqa: B023
            done += 1
            if not struck:
                break
        comments = [event.data.comment for event in session.events() if isinstance(event.data, ev.Feedback)]
        assert comments == [f"k{n}" for n in range(1, done + 1)]
        assert done > 50, "hardly any point was tried"
        assert session.verify().ok
        if hasattr(os, "fork"):
            child = os.fork()
            if not child:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0


async def test_a_turn_cancelled_at_any_moment_is_not_left_open(tmp_path: Path) -> None:
    async with await perdure.aopen(tmp_path / "store.db") as db:
        cancelled = 0
        for moment in range(60):
            session = await db.create("x")

            async def talk() -> None:
                async with session.turn("question") as turn:  # noqa: B023
                    await turn.answer("answer")

            task = asyncio.ensure_future(talk())
            for _ in range(moment):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait((task,), timeout=PATIENCE)
            assert done, "a cancelled turn never ended"
            cancelled += task.cancelled()
            assert (await session.info()).open_turn is None
            async with session.turn("next") as turn:
                await turn.answer("fine")
        assert cancelled > 3


@pytest.mark.parametrize("step", ["entering", "leaving"])
async def test_a_turn_cancelled_while_its_append_is_held_up_is_closed_afterwards(tmp_path: Path, step: str) -> None:
    async with await perdure.aopen(tmp_path / "store.db") as db:
        session = await db.create("x")
        inside, go = asyncio.Event(), asyncio.Event()

        async def talk() -> None:
            async with session.turn("question"):
                inside.set()
                await go.wait()

        lane = db._services.sessions.lane(session.id)
        task = asyncio.ensure_future(talk())
        if step == "leaving":
            await asyncio.wait_for(inside.wait(), PATIENCE)
        async with lane:
            go.set()
            for _ in range(5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        assert (await session.info()).open_turn is None


async def test_a_turn_that_is_refused_leaves_the_open_one_alone(tmp_path: Path) -> None:
    async with await perdure.aopen(tmp_path / "store.db") as db:
        session = await db.create("x")
        async with session.turn("first") as turn:
            with pytest.raises(errors.TurnRefused):
                async with session.turn("second"):
                    raise AssertionError("not reached")
            await turn.answer("still open")
