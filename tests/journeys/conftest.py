"""A store for journeys, in both colours, with a clock that stands still."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import FixedAmbient
from tests.journeys.both import opened

Opens = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["blocking", "async"])
def style(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def ambient() -> FixedAmbient:
    return FixedAmbient()


@pytest.fixture
async def opens(style: str, tmp_path: Path, ambient: FixedAmbient) -> AsyncIterator[Opens]:
    """Opens the store again and again; each handle has caches of its own."""
    handles: list[Any] = []

    async def another(name: str = "here.db", **settings: Any) -> Any:
        path = name if name == ":memory:" else tmp_path / name
        handles.append(await opened(style, path, **{"ambient": ambient} | settings))
        return handles[-1]

    yield another
    for handle in handles:
        await handle.close()


@pytest.fixture
async def db(opens: Opens) -> Any:
    return await opens()
