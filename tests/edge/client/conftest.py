"""Stores for the contract of the library, at a server: the same fixtures that journeys ask for, over HTTP.

Every test has a tenant of its own at a server that all of them share; a second store is the same tenant's at a second
server. Whoever is named as the actor comes in by a key of their own.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

import perdure
from tests.edge.client.served import Served, served
from tests.journeys.both import Awaited

Opens = Callable[..., Awaitable[Any]]
OWNER = "ana"
"""Who comes in where a journey does not say: the one most sessions of journeys belong to."""
_numbers = count(1)


class Servers:
    """Servers by the names of stores, each started when it is first asked for."""

    def __init__(self, folders: pytest.TempPathFactory, stack: ExitStack) -> None:
        self._folders = folders
        self._stack = stack
        self._running: dict[bool, Served] = {}

    def at(self, name: str) -> Served:
        """The server whose store goes by this name: the first, or the one that is elsewhere."""
        first = name == "here.db"
        if first not in self._running:
            self._running[first] = self._stack.enter_context(served(self._folders.mktemp("served")))
        return self._running[first]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of a file of tests: none outlives it, so that forks elsewhere meet none."""
    with ExitStack() as stack:
        yield Servers(tmp_path_factory, stack)


@pytest.fixture
def server(servers: Servers) -> Served:
    return servers.at("here.db")


@pytest.fixture
def tenant() -> str:
    return f"tenant-{next(_numbers)}"


@pytest.fixture(params=["blocking", "async"])
def style(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def opens(style: str, servers: Servers, tenant: str) -> AsyncIterator[Opens]:
    """Connects again and again."""
    handles: list[Any] = []

    async def another(name: str = "here.db", **settings: Any) -> Any:
        whose = f"{tenant}-{settings['tenant']}" if "tenant" in settings else tenant
        place = servers.at(name)
        key = place.key_for(whose, settings.get("actor", OWNER))
        if style == "async":
            handles.append(await perdure.aconnect(place.url, key))
        else:
            handles.append(Awaited(perdure.connect(place.url, key)))
        return handles[-1]

    yield another
    for handle in handles:
        await handle.close()


@pytest.fixture
async def db(opens: Opens) -> Any:
    return await opens()
