"""What backup, restore and upgrade share: how far a copy of a store is proven, and what they need of the world."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from perdure.core.errors import AlreadyExists, Damaged, Invalid, KeyMissing, NotFound
from perdure.ports.ambient import Ambient
from perdure.ports.backup import Copies, Engine, Facts, Progress
from perdure.ports.store import Query
from perdure.services import dumping
from perdure.services import manifests as files
from perdure.services.manifests import Verified
from perdure.services.sessions import Sessions
from perdure.services.verifying import Verifying
from perdure.waiting import aside

PAGE: Final = 200
SHOWN: Final = 5
LEVELS: Final = ("full", "quick", "none")
_BESIDE: Final = ("-wal", "-shm", "-journal")

Stages = Callable[[str], Progress | None]
"""Asked for something to call while a stage of the work goes on."""


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """What proving a store found: how many sessions and events, how many sessions were not looked at because their log
    is in cold storage and none was named, and what is wrong.
    """

    sessions: int = 0
    events: int = 0
    cold: int = 0
    problems: tuple[str, ...] = ()

    def __add__(self, other: "Proven") -> "Proven":
        return Proven(
            sessions=self.sessions + other.sessions,
            events=self.events + other.events,
            cold=self.cold + other.cold,
            problems=self.problems + other.problems,
        )


class Wiring(msgspec.Struct, frozen=True):
    """What copies need to know of the world: engines by place, how a copy of a store is proven (with the keys of the
    original), the ids of a store's master keys, and how a store is opened once so that it has today's format.
    """

    engine_of: Callable[[str], Engine]
    prove: Callable[[str, str, Progress | None], Awaitable[Proven]]
    key_ids: Callable[[str], tuple[str, ...]]
    open_once: Callable[[str], Awaitable[None]]
    ambient: Ambient
    version: str


Reached = tuple[Verified, tuple[str, ...]]
"""How far something was proven, and why not further."""


def unseen(_: str) -> Progress | None:
    """Stages for when nobody watches."""
    return None


async def verified(wiring: Wiring, level: str, copy: str, original: str, facts: Facts, stages: Stages) -> Reached:
    """Prove a copy of a store as far as was asked for and as can be; `Damaged` when it is not whole."""
    if level == "none":
        return "none", ()
    if not files.is_server(copy) and await aside(lambda: dumping.is_portable(copy)):
        await aside(lambda: dumping.examine(copy, stages("reading back")))
        return "quick", ()
    engine = wiring.engine_of(copy)
    if isinstance(engine, Copies):
        await aside(engine.examine)
    return ("quick", ()) if level == "quick" else await chains(wiring, copy, original, facts, stages)


async def chains(wiring: Wiring, copy: str, original: str, facts: Facts, stages: Stages) -> Reached:
    """Prove the chain of every session in a copy, with the keys of the original."""
    if facts.format < wiring.engine_of(copy).latest:
        return "quick", (f"it has format {facts.format}: its chains are proven once it was upgraded",)
    try:
        found = await wiring.prove(copy, original, stages("verifying"))
    except KeyMissing as missing:
        return "quick", (f"its chains were not proven, since the keys are not here: {missing.message}",)
    if found.problems:
        place, said = wiring.engine_of(original).place, "; ".join(found.problems[:SHOWN])
        raise Damaged(
            f"{len(found.problems)} problems in {place}: {said}. See perdure sessions verify; to take it as it is, "
            "verify quick",
            problems=found.problems,
        )
    unproven = f"{found.cold} archived sessions were not proven; name their cold storage to have them read as well"
    return "full", (unproven,) if found.cold else ()


async def proven(sessions: Sessions, *, cold: bool, progress: Progress | None) -> Proven:
    """Check every byte of every session of a tenant; those in cold storage only if there is some."""
    verifying, store, tenant = Verifying(sessions), sessions.store, sessions.identity.tenant
    found, seen = Proven(), 0
    query = Query(tenant=tenant, limit=PAGE)
    total = await store.count(query)
    while rows := await store.find(query):
        for row in rows:
            seen += 1
            if progress is not None:
                progress(seen, max(seen, total))
            if row.cold is not None and not cold:
                found += Proven(cold=1)
                continue
            try:
                report = await verifying.verify(row.session)
            except NotFound:  # erased meanwhile
                continue
            problems = tuple(f"session {row.session}: {item.what}" for item in report.problems)
            found += Proven(sessions=1, events=report.events, problems=problems)
        query = msgspec.structs.replace(query, after=(rows[-1].created_at, rows[-1].session))
    return found


def check_level(verify: str) -> None:
    """Refuse a way to verify that there is not."""
    if verify not in LEVELS:
        raise Invalid(f"{verify!r:.40} is not a way to verify; use one of {', '.join(LEVELS)}", verify=verify)


def refuse_existing(target: str, overwrite: bool) -> None:
    """Refuse a place where something is, unless it may be replaced."""
    files.refuse_folder(target)
    if files.exists(target) and not overwrite:
        raise AlreadyExists(f"{target} exists already; choose another name, or allow it to be replaced", path=target)


def clear(partial: str, *, keep: bool = False) -> None:
    """Remove what an earlier try left: the file, unless it is to be kept, and what an engine leaves beside it."""
    with files.translated(partial):
        files.discard(*(partial + suffix for suffix in _BESIDE), *(() if keep else (partial,)))
