"""A store for journeys, in both colours, with a clock that stands still.

New stores are sealed, as a user's are; with PERDURE_TEST_SEAL=0 in the environment they are kept in the clear.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.compose import opening
from perdure.ports.ambient import Ambient
from perdure.ports.seal import CLEAR, Seal
from perdure.sealing.given import Given
from perdure.testing import FixedAmbient
from tests.journeys.both import opened

Opens = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["blocking", "async"])
def style(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def sealing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether new stores are sealed where a test does not say."""
    if os.environ.get("PERDURE_TEST_SEAL", "1") != "0":
        return
    asked = opening.seal_of

    def seal_of(store: str, mark: str | None, keys: Given, ambient: Ambient, *, read_only: bool = False) -> Seal:
        bare = mark is None and keys.sealed is None
        return CLEAR if bare else asked(store, mark, keys, ambient, read_only=read_only)

    monkeypatch.setattr(opening, "seal_of", seal_of)


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
