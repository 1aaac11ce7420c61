"""`aopen` serves both spellings: awaited as a coroutine is, and entered as a block."""

import asyncio
import gc
import warnings
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from inspect import isawaitable
from pathlib import Path

import pytest

import perdure
from perdure import errors
from perdure.waiting import drive


async def _titles(db: perdure.AsyncPerdure) -> list[str]:
    return [row.title for row in (await db.find()).items]


def test_a_store_is_opened_and_closed_by_one_block(tmp_path: Path) -> None:
    async def main() -> None:
        async with perdure.aopen(tmp_path / "a.db", seal=False) as db:
            await db.create("one")
            assert await _titles(db) == ["one"]
        with pytest.raises(errors.PerdureError):
            await db.create("two")

    asyncio.run(main())


def test_the_older_spelling_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with await perdure.aopen(tmp_path / "a.db", seal=False) as db:
            await db.create("one")
        db = await perdure.aopen(tmp_path / "a.db", seal=False)
        assert await _titles(db) == ["one"]
        await db.close()

    asyncio.run(main())


def test_it_runs_wherever_a_coroutine_does() -> None:
    opening = perdure.aopen(":memory:")
    assert isinstance(opening, Coroutine)
    assert asyncio.iscoroutine(opening)
    assert isawaitable(opening)
    drive(asyncio.run(opening).close())
    drive(drive(perdure.aopen(":memory:")).close())

    async def main() -> None:
        first = await asyncio.create_task(perdure.aopen(":memory:"))
        others = await asyncio.gather(perdure.aopen(":memory:"), perdure.aopen(":memory:"))
        last = await asyncio.wait_for(perdure.aopen(":memory:"), 60)
        async with AsyncExitStack() as stack:
            entered = await stack.enter_async_context(perdure.aopen(":memory:"))
            assert await _titles(entered) == []
        for db in (first, *others, last):
            await db.close()

    asyncio.run(main(), debug=True)


def test_a_forgotten_await_still_warns() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        perdure.aopen(":memory:")
        gc.collect()
    assert [str(item.message) for item in told] == ["coroutine 'aopen' was never awaited"]


def test_one_that_is_closed_unopened_opens_nothing(tmp_path: Path) -> None:
    perdure.aopen(tmp_path / "never.db").close()
    assert not (tmp_path / "never.db").exists()


def test_what_is_thrown_into_it_comes_out() -> None:
    opening = perdure.aopen(":memory:")
    with pytest.raises(KeyError, match="stop"):
        opening.throw(KeyError("stop"))


def test_it_opens_one_store_and_no_second(tmp_path: Path) -> None:
    async def main() -> None:
        opening = perdure.aopen(tmp_path / "a.db", seal=False)
        await (await opening).close()
        with pytest.raises(RuntimeError, match="already awaited"):
            async with opening:
                pass

    asyncio.run(main())


def test_what_cannot_be_opened_is_told_on_entering(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(errors.PerdureError):
            async with perdure.aopen(tmp_path / "none.db", read_only=True):
                pass

    asyncio.run(main())


def test_what_is_raised_in_the_block_goes_on_and_the_store_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(KeyError):
            async with perdure.aopen(tmp_path / "a.db", seal=False) as db:
                raise KeyError("mine")
        with pytest.raises(errors.PerdureError):
            await db.find()

    asyncio.run(main())
