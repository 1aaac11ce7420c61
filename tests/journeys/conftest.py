"""Stores for journeys: files and servers, sealed and in the clear, in both colours, with a clock that stands still.

A journey that asks for `place` is made in a file, on a server in the clear and on a sealed one. One that asks for
`opens` or `db`, which have a colour, is made in a file in both, and either blocking on a server in the clear or async
on a sealed one, as its name will have it; with PERDURE_LONG in the environment everywhere in both. One that asks for
`tmp_path` itself looks at files, and is made on files.

New files are sealed, as a user's are; with PERDURE_TEST_SEAL=0 in the environment they are kept in the clear.
"""

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from perdure.compose import opening
from perdure.ports.ambient import Ambient
from perdure.ports.seal import CLEAR, Seal
from perdure.sealing.given import Given
from perdure.stores.postgres import PostgresStore
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient
from tests.journeys.both import opened
from tests.stores.postgres_server import Databases, Server, databases, running

__all__ = ["databases"]

Opens = Callable[..., Awaitable[Any]]
FILE, SERVER, SEALED = "file", "server", "sealed server"
STYLES = ("blocking", "async")
USUAL = [("blocking", FILE), ("async", FILE)]
BY_TURNS = [("blocking", SERVER), ("async", SEALED)]
REFUSED_EARLY = ("test_bad_input",)
"""What comes in is refused before any store sees it: elsewhere than in files only where there is time for it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Where, and in which colours, a journey is made."""
    wanted = metafunc.fixturenames
    if "place" not in wanted:
        return
    thorough = bool(os.environ.get("PERDURE_LONG"))
    early = metafunc.module.__name__.endswith(REFUSED_EARLY) and not thorough
    on_files = early or "tmp_path" in inspect.signature(metafunc.function).parameters
    places = [FILE] if on_files else [FILE, SERVER, SEALED]
    if "style" not in wanted:
        metafunc.parametrize("place", places, indirect=True)
        return
    every = [(style, place) for place in places for style in STYLES]
    turn = BY_TURNS[crc32(metafunc.function.__name__.encode()) % len(BY_TURNS)]
    chosen = every if thorough or on_files else [*USUAL, turn]
    metafunc.parametrize(("style", "place"), chosen, indirect=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of all journeys. None of them cuts its power, so it need not wait for the disk."""
    with running("-c max_connections=200 -c shared_buffers=32MB -c log_min_messages=warning -c fsync=off") as server:
        yield server


class Place:
    """Where a journey's stores lie; `engine` is the class of them."""

    engine: type[SqliteStore] | type[PostgresStore] = SqliteStore

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def at(self, name: str) -> str:
        """The path or the address of a store by this name: the same again for the same name."""
        return str(self._folder / name)

    def leave(self) -> None:
        """The journey is over."""


class OnServer(Place):
    """A database for each store."""

    engine = PostgresStore

    def __init__(self, databases: Databases, *, sealed: bool) -> None:
        self._databases = databases
        self._sealed = sealed
        self._taken: dict[str, str] = {}

    def at(self, name: str) -> str:
        if name not in self._taken:
            self._taken[name] = self._databases.take(sealed=self._sealed)
        return self._taken[name]

    def leave(self) -> None:
        for address in self._taken.values():
            self._databases.give_back(address, sealed=self._sealed)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where the stores of this journey lie."""
    if request.param == FILE:
        found = Place(tmp_path)
    else:
        databases: Databases = request.getfixturevalue("databases")  # so that a server starts only where one is needed
        found = OnServer(databases, sealed=request.param == SEALED)
        for name, value in databases.keys.items() if request.param == SEALED else ():
            monkeypatch.setenv(name, value)
    yield found
    found.leave()


@pytest.fixture
def style(request: pytest.FixtureRequest) -> str:
    """The colour of a journey."""
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
def ambient(request: pytest.FixtureRequest) -> FixedAmbient:
    """The clock and the chance of this journey. Each has its own: those on a sealed server share a vault."""
    return FixedAmbient(seed=request.node.nodeid.encode())


@pytest.fixture
async def opens(style: str, place: Place, ambient: FixedAmbient) -> AsyncIterator[Opens]:
    """Opens the store again and again; each handle has caches of its own."""
    handles: list[Any] = []

    async def another(name: str = "here.db", **settings: Any) -> Any:
        path = name if name == ":memory:" else place.at(name)
        handles.append(await opened(style, path, **{"ambient": ambient} | settings))
        return handles[-1]

    yield another
    for handle in handles:
        await handle.close()


@pytest.fixture
async def db(opens: Opens) -> Any:
    return await opens()
