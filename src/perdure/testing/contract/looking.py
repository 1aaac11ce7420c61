"""How the claims look at a store: everything it shows of some sessions, its feed, and whether a log verifies."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any, Final

from perdure.core.session import chain, ids, record
from perdure.ports.store import Change, Commit, KeyUse, Query, Store, Stored
from perdure.testing.building import Builder, Made

TENANT: Final = "tenant"
BEYOND: Final = 1 << 40
"""A version, a position and a limit that no test reaches."""
PATIENCE: Final = 60
"""Seconds after which a watcher that hears nothing is given up, so that a broken store fails instead of hanging."""


async def put(store: Store, *made: Made) -> Made:
    """Append each in a commit of its own; the last one."""
    for item in made:
        await store.append([item.commit])
    return made[-1]


async def settle(store: Store, commits: Iterable[Commit]) -> list[int | BaseException]:
    """Append each on its own but all at once; what became of each."""
    return await all_of(store.append([commit]) for commit in commits)


async def all_of(work: Iterable[Awaitable[Any]]) -> list[Any]:
    """Run concurrently; results and errors in their order."""
    return await asyncio.gather(*work, return_exceptions=True)


async def records_of(store: Store, made: Made) -> tuple[Stored, ...]:
    """All of a session's own rows."""
    return (await store.run(made.session, after=0, upto=BEYOND, limit=BEYOND)).records


async def everything(
    store: Store, sessions: Iterable[Made], *, accounts: Iterable[str] = (), uses: Iterable[KeyUse] = ()
) -> dict[str, Any]:
    """All that a store shows of these sessions, to be compared with a later look."""
    shown: dict[str, Any] = {
        item.session: (
            await store.head(item.session),
            await records_of(store, item),
            await store.checkpoints(item.session),
            await store.snapshots(item.session),
            await store.dependents(item.session),
        )
        for item in sessions
    }
    shown["accounts"] = [await store.account(name) for name in accounts]
    shown["keys"] = [await store.remembered(use) for use in uses]
    shown["feed"] = await store.changes(0, BEYOND)
    shown["count"] = await store.count(Query(tenant=TENANT))
    return shown


async def names(store: Store, **conditions: Any) -> list[str]:
    """The sessions that a query finds, in its order."""
    return [row.session for row in await store.find(Query(**{"tenant": TENANT, **conditions}))]


def verify(stored: Iterable[Stored], made: Made, start: bytes | None = None) -> None:
    """Check a log of a session's own against the chain, from its beginning or from a digest on."""
    previous = chain.genesis(ids.raw(made.session)) if start is None else start
    for item in stored:
        previous = record.read(item.record, made.state.tenant, previous)[-1].digest
        assert previous == item.digest, "a stored digest is not the chain's value at its place"
    assert previous == made.digest, "the log does not end where the session stands"


def grow(make: Builder, made: Made, count: int) -> list[Made]:
    """The next `count` commits of a session, one message each."""
    grown = []
    for _ in range(count):
        made = make.append(made)
        grown.append(made)
    return grown


async def hear(watching: AsyncIterator[Change], count: int) -> list[Change]:
    """The next changes of a watcher."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(watching) for _ in range(count)]


async def hear_out(watching: AsyncIterator[Change]) -> list[Change]:
    """All changes of a watcher, until it ends."""
    async with asyncio.timeout(PATIENCE):
        return [change async for change in watching]


async def dismiss(watching: AsyncIterator[Change]) -> None:
    """Let a watcher go."""
    close = getattr(watching, "aclose", None)
    if close is not None:
        await close()
