"""A commit is made on an event loop's own thread only where that holds nothing up."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from perdure.stores.sqlite.connection import WAL_PAGES, prepare
from perdure.stores.sqlite.haste import FIRST_REST, LONGEST_REST, QUICK, Haste
from perdure.stores.sqlite.writer import Transaction, Writer


def opened(path: Path) -> Writer:
    return Writer(str(path), lambda: None, prepare(str(path)))


def who(transaction: Transaction) -> str:
    """An operation that writes, and says on which thread."""
    transaction.execute("CREATE TABLE IF NOT EXISTS trial (filler BLOB)")
    transaction.execute("INSERT INTO trial VALUES (zeroblob(100))")
    return threading.current_thread().name


HERE = threading.main_thread().name


async def test_one_task_alone_needs_no_other_thread(tmp_path: Path) -> None:
    writer = opened(tmp_path / "a.db")
    try:
        for _ in range(5):
            assert await writer.submit(who, brief=True) == HERE
    finally:
        writer.close()


async def test_one_task_that_writes_on_and_on_lets_the_others_get_on(tmp_path: Path) -> None:
    writer, loop, turned = opened(tmp_path / "a.db"), asyncio.get_running_loop(), [0]

    def turn() -> None:
        turned[0] += 1
        loop.call_later(0, turn)

    try:
        loop.call_later(0, turn)
        for _ in range(90):
            await writer.submit(who, brief=True)
    finally:
        writer.close()
    assert turned[0] >= 9


async def test_several_tasks_are_served_by_the_writers_thread_while_the_loop_goes_on(tmp_path: Path) -> None:
    writer = opened(tmp_path / "a.db")
    try:
        found = await asyncio.gather(*(_asked(writer) for _ in range(4)))
    finally:
        writer.close()
    assert HERE not in found


async def test_what_may_take_long_is_never_done_on_the_loop(tmp_path: Path) -> None:
    writer = opened(tmp_path / "a.db")
    try:
        assert await writer.submit(who) != HERE
    finally:
        writer.close()


async def test_a_loop_does_not_wait_for_another_process(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writer, other = opened(path), apsw.Connection(str(path))
    try:
        await writer.submit(who, brief=True)
        other.execute("BEGIN IMMEDIATE")
        asked = asyncio.create_task(_asked(writer))
        for _ in range(50):
            await asyncio.sleep(0.002)  # with the loop held up, nobody would ever let go of the file
        assert not asked.done()
        other.execute("ROLLBACK")
        assert await asked != HERE
        for _ in range(500):  # the thread tells how it went a moment before it lets go
            if await writer.submit(who, brief=True) == HERE:
                break
            await asyncio.sleep(0.002)
        else:
            pytest.fail("the thread goes on committing for one who is alone")
    finally:
        other.close()
        writer.close()


async def test_a_long_log_is_folded_into_the_file_by_the_writers_thread(tmp_path: Path) -> None:
    writer = opened(tmp_path / "a.db")
    folded: list[str] = []
    attached = writer._connection
    assert attached is not None

    def noting(code: int, connection: apsw.Connection, name: str, pages: int) -> int:
        if pages >= WAL_PAGES and not writer._haste.on:
            folded.append(threading.current_thread().name)
        return code

    attached.set_wal_hook(lambda *seen: noting(writer._haste._grew(*seen), *seen))

    def large(transaction: Transaction) -> str:
        transaction.execute("INSERT INTO trial VALUES (zeroblob(1000000))")
        return threading.current_thread().name

    try:
        await writer.submit(who, brief=True)
        found = [await writer.submit(large, brief=True) for _ in range(60)]
    finally:
        writer.close()
    assert folded
    assert HERE not in folded
    assert {HERE, *folded} == set(found)


def test_a_slow_disk_is_left_alone_for_longer_and_longer() -> None:
    found = Haste()
    rests = []
    for _ in range(8):
        found.took(100 * QUICK)
        rests.append(_rested(found))
    assert rests == [min(FIRST_REST << number, LONGEST_REST) for number in range(8)]


def test_one_hiccup_is_no_slow_disk() -> None:
    found = Haste()
    for seconds in [QUICK / 4] * 20 + [QUICK * 4] + [QUICK / 4] * 20:
        found.took(seconds)
        assert found.may()


def test_what_was_slow_once_may_become_quick_again() -> None:
    found = Haste()
    for _ in range(8):
        found.took(100 * QUICK)
        _rested(found)
    for _ in range(LONGEST_REST):
        found.took(QUICK / 4)
    found.took(100 * QUICK)
    assert _rested(found) == FIRST_REST


def _rested(found: Haste) -> int:
    count = 0
    while not found.may():
        count += 1
    return count


async def _asked(writer: Writer) -> str:
    name: str = await writer.submit(who, brief=True)
    return name
