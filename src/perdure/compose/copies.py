"""What backup, restore and upgrade need of the world."""

import os
from typing import TYPE_CHECKING

from perdure.ambient import Ids, RealAmbient
from perdure.compose.opening import SERVER, VOLATILE, keys_of, open_cold, open_store, seal_of
from perdure.compose.signing import sign_heads
from perdure.core.errors import Invalid, Refused
from perdure.ports.ambient import Ambient
from perdure.ports.store import Store
from perdure.sealing.given import AS_FOUND, Given, place_text

if TYPE_CHECKING:
    from perdure.ports.backup import Engine
    from perdure.sealing.rotation import Progress
    from perdure.services.copies import Wiring


def engine_of(place: str) -> "Engine":
    """The engine of the store at a path or URL, for copies of the whole."""
    place_text(place, "a store is the path of a file, or a URL of PostgreSQL")
    if place.startswith(SERVER):
        try:
            from perdure.stores.postgres.backup import PostgresEngine
        except ImportError as missing:
            raise Invalid("a store in PostgreSQL needs psycopg; install perdure[postgres]") from missing

        return PostgresEngine(place)
    if place == VOLATILE or "://" in place:
        raise Refused(f"{place} cannot be backed up; export its sessions instead", store=place)
    from perdure.stores.sqlite.backup import SqliteEngine

    return SqliteEngine(place)


def scratch_of(place: str) -> "Engine":
    """An engine that makes a file of any stream, for a proof."""
    from perdure.stores.scratch import ScratchEngine

    return ScratchEngine(place)


def copying(
    version: str, keys: Given = AS_FOUND, cold: str | os.PathLike[str] | None = None, ambient: Ambient | None = None
) -> "Wiring":
    """What backup, restore and upgrade need of the world, with these keys and this cold storage."""
    from perdure.core.errors import KeyMissing, NotAStore
    from perdure.sealing.opening import key_places
    from perdure.services.acting import Identity
    from perdure.services.cooling import CoolingStore
    from perdure.services.copies import Held, Proven, Wiring, proven
    from perdure.services.heads import SignReport
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.sessions import Sessions

    chance = ambient or RealAmbient()

    async def prove(copy: str, original: str, progress: "Progress | None") -> Proven:
        archive = open_cold(cold)
        store = CoolingStore(open_copy(copy, original, chance, keys), archive, chance)
        try:
            found = Proven()
            for tenant in engine_of(copy).tenants():
                who = Identity(tenant=tenant, actor="verify")
                sessions = Sessions(store, chance, Ids(chance).fresh, who, SnapshotPolicy())
                found += await proven(sessions, cold=archive is not None, progress=progress)
            return found
        finally:
            await store.close()

    def held(path: str) -> Held | None:
        try:
            found = keys_of(path, keys, chance)
        except (KeyMissing, NotAStore):
            return None
        try:
            ids = tuple(item.id for item in found.show() if item.current or item.salts)
            return Held(ids=ids, vault=found.vault.place, copied=found.copies_vault)
        finally:
            found.close()

    async def open_once(path: str) -> None:
        await open_store(path, chance, keys=keys).close()

    async def sign(place: str, accept: str | None, progress: "Progress | None") -> SignReport:
        return await sign_heads(engine_of(place), place, chance, keys, cold, accept=accept, progress=progress)

    return Wiring(
        engine_of, scratch_of, prove, held, open_once, lambda store: key_places(store, keys), sign, chance, version
    )


def open_copy(copy: str, original: str, ambient: Ambient, keys: Given) -> Store:
    """A copy of a store, to be read with the keys of the original."""
    if copy.startswith(SERVER):
        return open_store(copy, ambient, read_only=True, keys=keys)
    from perdure.stores.sqlite import SqliteStore
    from perdure.stores.sqlite.connection import mark

    named = engine_of(original).place if original.startswith(SERVER) else original  # an address may hold a password
    seal = seal_of(named, mark(copy), keys, ambient, read_only=True)
    try:
        return SqliteStore(copy, ambient, read_only=True, seal=seal)
    except BaseException:
        seal.close()
        raise
