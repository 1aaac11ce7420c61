"""Signing the heads of a whole store, of all tenants: the store is only read, the vault is written to."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.ambient import Ids
from perdure.compose.opening import SERVER, open_cold, seal_of
from perdure.ports.ambient import Ambient
from perdure.ports.seal import Seal
from perdure.ports.store import Store
from perdure.sealing.given import AS_FOUND, Given
from perdure.waiting import aside

if TYPE_CHECKING:
    from perdure.ports.backup import Engine, Progress
    from perdure.services.heads import SignReport


async def sign_heads(
    engine: "Engine",
    place: str,
    ambient: Ambient,
    keys: Given = AS_FOUND,
    cold: str | os.PathLike[str] | None = None,
    *,
    accept: str | None = None,
    progress: "Progress | None" = None,
) -> "SignReport":
    """Vouch for every session of a store as it stands; with `accept`, whatever was signed before. One that is not of
    today's format is left alone.
    """
    from perdure.services.acting import Identity
    from perdure.services.cooling import CoolingStore
    from perdure.services.heads import HeadKeeper, SignReport
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.sessions import Sessions

    done = SignReport(sealed=False)
    if (await aside(engine.facts)).format < engine.latest:
        return done
    store = CoolingStore(_open(place, ambient, keys), open_cold(cold), ambient)
    try:
        for tenant in await aside(engine.tenants) or (Identity().tenant,):
            who = Identity(tenant=tenant, actor="sign")
            sessions = Sessions(store, ambient, Ids(ambient).fresh, who, SnapshotPolicy())
            done += await HeadKeeper(sessions).sign_all(accept=accept, progress=progress)
        return done
    finally:
        await store.close()


def _open(place: str, ambient: Ambient, keys: Given) -> Store:
    """A store to be read, under a seal that may write to its vault."""
    if place.startswith(SERVER):
        from perdure.stores.postgres import PostgresStore, look

        shown, found = look(place, ambient)
        served = seal_of(shown, found, keys, ambient, read_only=found is None)
        return _or_closed(served, lambda: PostgresStore(place, ambient, read_only=True, seal=served))
    from perdure.stores.sqlite import SqliteStore
    from perdure.stores.sqlite.connection import mark

    found = mark(os.path.abspath(place))
    seal = seal_of(place, found, keys, ambient, read_only=found is None)
    return _or_closed(seal, lambda: SqliteStore(place, ambient, read_only=True, seal=seal))


def _or_closed(seal: Seal, opened: Callable[[], Store]) -> Store:
    try:
        return opened()
    except BaseException:
        seal.close()
        raise
