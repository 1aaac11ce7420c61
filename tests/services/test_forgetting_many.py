"""Forgetting many memories that were kept together reads what holds them once, not once for each."""

from typing import Any

import pytest

from perdure.core.memory.parts import Status, vault
from perdure.core.memory.requests import Keeping
from tests.services.shelved import remembering
from tests.services.world import World

ANA = vault("ana")


async def asked_to_forget(world: World, count: int, patch: pytest.MonkeyPatch) -> int:
    """How often the store was asked for a run of records while so many were forgotten."""
    memories = remembering(world.sessions, world.erasure)
    made = await memories.keep(ANA, [Keeping(content=f"tea {number}") for number in range(count + 1)])
    asked, run = 0, world.store.run

    async def counted(*args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return await run(*args, **more)

    with patch.context() as patched:
        patched.setattr(world.store, "run", counted)
        assert await memories.forget(ANA, [memory.id for memory in made[1:]]) == count
    left = await memories.list(ANA, statuses=[*Status])
    assert [memory.content for memory in left.items] == ["tea 0"]
    await memories.forget(ANA, [made[0].id])
    return asked


async def test_forgetting_more_of_one_batch_asks_no_more_of_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = await asked_to_forget(world, 2, monkeypatch)
    assert await asked_to_forget(world, 60, monkeypatch) <= few + 2
