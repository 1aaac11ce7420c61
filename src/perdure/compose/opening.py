"""Which store is behind a path, sealed with which keys, and which cold storage behind a place."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perdure.ambient import RealAmbient
from perdure.core.errors import Invalid, NotAStore, Refused
from perdure.core.tiers import Tier
from perdure.ports.ambient import Ambient
from perdure.ports.cold import Cold
from perdure.ports.seal import CLEAR, Seal
from perdure.ports.store import Store
from perdure.sealing.given import AS_FOUND, Given, path_text, place_text
from perdure.waiting import drive

if TYPE_CHECKING:
    from perdure.sealing.keys import Checked, Keys
    from perdure.sealing.rotation import Progress

VOLATILE = ":memory:"
SERVER = ("postgresql://", "postgres://")
PathGiven = str | os.PathLike[str]
StoreGiven = PathGiven | Mapping[str, PathGiven]
"""One place, or one for each tier."""


def open_store(
    path: StoreGiven, ambient: Ambient, *, read_only: bool = False, keys: Given = AS_FOUND, hasty: bool = True
) -> Store:
    """The store behind a path: a SQLite file, a PostgreSQL database for its URL, RAM for `:memory:`; or one over
    several, for a path of each tier. An event loop that serves many should not stand still while a file is written, not
    even shortly: then do not be `hasty`.
    """
    if isinstance(path, Mapping):
        return open_tiers(path, ambient, read_only=read_only, keys=keys, hasty=hasty)
    spelled = place_text(path, "a store is the path of a file, or a URL of PostgreSQL")
    if spelled.startswith(SERVER):
        return open_server(spelled, ambient, read_only=read_only, keys=keys)
    if "://" in spelled:
        raise Invalid(f"{spelled.split('://')[0]}:// is not a store this version knows; give the path of a file")
    if spelled == VOLATILE:
        from perdure.stores.volatile import VolatileStore

        return VolatileStore(volatile_seal(keys, ambient))
    from perdure.stores.sqlite import SqliteStore
    from perdure.stores.sqlite.connection import absent

    def find(mark: str | None) -> Seal:
        return seal_of(spelled, mark, keys, ambient, read_only=read_only)

    # A new store gets its keys before its file; of an old one the mark says what it needs.
    seal = find(None) if absent(spelled) else find
    return SqliteStore(spelled, ambient, read_only=read_only, seal=seal, hasty=hasty)


def open_tiers(
    places: Mapping[str, PathGiven],
    ambient: Ambient,
    *,
    read_only: bool = False,
    keys: Given = AS_FOUND,
    hasty: bool = True,
) -> Store:
    """One store over a store for each tier: `{"L0": ":memory:", "L1": "agent.db", "L2": "postgresql://…"}`."""
    from perdure.stores.tiered import TieredStore

    names = [tier.value for tier in Tier]
    if not places or not set(places) <= set(names):
        raise Invalid(f"name the path of each tier, of {', '.join(names)}; not {sorted(map(str, places))}")
    for name, place in places.items():
        spelled = place_text(place, f"tier {name} is the path of a file, or a URL of PostgreSQL")
        if Tier(name).rank > _most(spelled).rank:
            raise Invalid(f"{spelled} is not durable enough for tier {name}; give a better one")
    _must_differ(places)
    opened: dict[Tier, Store] = {}
    try:
        for name, place in places.items():
            opened[Tier(name)] = open_store(place, ambient, read_only=read_only, keys=keys, hasty=hasty)
        return TieredStore(opened, ambient)
    except BaseException:
        for store in opened.values():
            drive(store.close())
        raise


def _must_differ(places: Mapping[str, PathGiven]) -> None:
    """Refuse one place for two tiers, however it is spelled: every session of it would be there twice."""
    seen: dict[str, str] = {}
    for name, place in places.items():
        spelled = os.fspath(place)
        real = spelled if spelled.startswith(SERVER) or spelled == VOLATILE else os.path.realpath(spelled)
        if seen.setdefault(real, name) != name:
            raise Invalid(f"tiers {seen[real]} and {name} are the same place; give each one of its own", place=spelled)


def _most(place: str) -> Tier:
    """The most durable tier a place can be; whether a server has standbys, its operator knows."""
    if place == VOLATILE:
        return Tier.L0
    return Tier.L3 if place.startswith(SERVER) else Tier.L1


def open_server(address: str, ambient: Ambient, *, read_only: bool = False, keys: Given = AS_FOUND) -> Store:
    """The store in a PostgreSQL database."""
    shown, mark = _looked_at(address, ambient)
    seal = seal_of(shown, mark, keys, ambient, read_only=read_only)
    try:
        from perdure.stores.postgres import PostgresStore

        return PostgresStore(address, ambient, read_only=read_only, seal=seal)
    except BaseException:
        seal.close()
        raise


def seal_of(store: str, mark: str | None, keys: Given, ambient: Ambient, *, read_only: bool = False) -> Seal:
    """The seal of a store with this mark (None: there is no store yet, "": it is not sealed). A new one is sealed
    unless the caller says no.
    """
    if keys.seal is False:
        if mark:
            raise Refused(f"{store} is sealed and stays so; open it without seal=False", store=store)
        return CLEAR
    if mark == "":
        if keys.sealed:
            raise Refused(
                f"{store} is not sealed, and sealing cannot be added to what is written; open it without seal, key and "
                "vault, or export its sessions and import them into a new store",
                store=store,
            )
        return CLEAR
    if mark is None and read_only:
        return CLEAR  # there is nothing to read, as the store will say
    from perdure.sealing.opening import keyring

    return keyring(store, keys, ambient, mark=mark, read_only=read_only)


def volatile_seal(keys: Given, ambient: Ambient) -> Seal:
    """The seal of a store in RAM: none, unless the caller wants one."""
    if not keys.sealed:
        return CLEAR
    from perdure.sealing.opening import volatile_keyring

    return volatile_keyring(keys, ambient)


def keys_of(path: str | os.PathLike[str], keys: Given = AS_FOUND, ambient: Ambient | None = None) -> "Keys":
    """The master keys and the vault of a sealed store; `Refused` when it is not sealed."""
    from perdure.sealing.opening import keys_of

    chance = ambient or RealAmbient()
    shown, mark = _looked_at(place_text(path, "a store is the path of a file, or a URL of PostgreSQL"), chance)
    if mark is None:
        raise NotAStore(f"there is no store at {shown}; check where it is", store=shown)
    if not mark:
        raise Refused(f"{shown} is not sealed; it has no keys", store=shown)
    return keys_of(shown, keys, chance, mark=mark)


def _looked_at(place: str, ambient: Ambient) -> tuple[str, str | None]:
    """A store's place as it may be shown, and its mark."""
    if not place.startswith(SERVER):
        from perdure.stores.sqlite.connection import mark

        return place, mark(os.path.abspath(place))
    try:
        from perdure.stores.postgres import look
    except ImportError as missing:
        raise Invalid("a store in PostgreSQL needs psycopg; install perdure[postgres]") from missing
    return look(place, ambient)


async def check_keys(
    path: str | os.PathLike[str], keys: Given = AS_FOUND, progress: "Progress | None" = None
) -> "Checked":
    """Whether every session of a store can be opened with its keys."""
    ambient = RealAmbient()
    store = open_store(path, ambient, read_only=True, keys=keys)
    try:
        found = keys_of(path, keys, ambient)
        try:
            return await found.check(store, progress)
        finally:
            found.close()
    finally:
        await store.close()


def open_cold(place: str | os.PathLike[str] | None) -> Cold | None:
    """Cold storage at a place: a folder, or `s3://bucket/prefix`."""
    if place is None:
        return None
    spelled = path_text(place, "cold storage is a folder, or s3://bucket/prefix")
    if spelled.startswith("s3://"):
        place_text(spelled, "cold storage is s3://bucket/prefix")
        from perdure.cold.s3 import S3Cold

        return S3Cold(spelled)
    if "://" in spelled:
        raise Invalid(f"{spelled.split('://')[0]}:// is not cold storage; name a folder, or s3://bucket/prefix")
    from perdure.cold.folder import FolderCold

    return FolderCold(spelled)
