"""What backup, restore and upgrade share: how far a copy of a store is proven, and what they need of the world.

Invariant: `full` means that every chain, snapshot and checkpoint that can be read was read and proven. Where a copy
cannot be read as it lies (a stream, an older format), it is replayed into a scratch store and proven there.
"""

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from perdure.core.errors import AlreadyExists, Damaged, Invalid, KeyMissing, NotFound
from perdure.core.session.ids import SessionId
from perdure.ports.ambient import Ambient
from perdure.ports.backup import Copies, Engine, Facts, Progress
from perdure.ports.store import Query
from perdure.sealing.files import holds_keys
from perdure.services import dumping
from perdure.services import manifests as files
from perdure.services.disk import translated
from perdure.services.heads import SignReport
from perdure.services.manifests import Verified
from perdure.services.proving import shredded
from perdure.services.sessions import Sessions
from perdure.services.verifying import Verifying
from perdure.waiting import aside

PAGE: Final = 200
SHOWN: Final = 5
LEVELS: Final = ("full", "quick", "none")
SCRATCH: Final = ".scratch"
RAM: Final = ":memory:"
_BESIDE: Final = ("-wal", "-shm", "-journal")

Stages = Callable[[str], Progress | None]
"""Asked for something to call while a stage of the work goes on."""


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """What proving a store found: how many sessions and events, how many sessions were not looked at because their log
    is in cold storage and none was named, what is wrong; the sessions whose keys are gone, and the branches that share
    their beginning with one of those.
    """

    sessions: int = 0
    events: int = 0
    cold: int = 0
    problems: tuple[str, ...] = ()
    erased: tuple[SessionId, ...] = ()
    bereft: tuple[SessionId, ...] = ()

    def __add__(self, other: "Proven") -> "Proven":
        return Proven(
            sessions=self.sessions + other.sessions,
            events=self.events + other.events,
            cold=self.cold + other.cold,
            problems=self.problems + other.problems,
            erased=self.erased + other.erased,
            bereft=self.bereft + other.bereft,
        )


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a store: the ids of the master keys that it takes, where its vault is, and whether that is a file
    that perdure can copy.
    """

    ids: tuple[str, ...]
    vault: str
    copied: bool


class Wiring(msgspec.Struct, frozen=True):
    """What copies need to know of the world: engines by place, engines that make a scratch store of any stream, how a
    copy of a store is proven (with the keys of the original), what there is of a store's keys (None: they are not
    here), and how a store is opened once so that it has today's format.
    """

    engine_of: Callable[[str], Engine]
    scratch_of: Callable[[str], Engine]
    prove: Callable[[str, str, Progress | None], Awaitable[Proven]]
    keys: Callable[[str], Held | None]
    open_once: Callable[[str], Awaitable[None]]
    key_places: Callable[[str], tuple[str, ...]]
    """The paths of a store's key file and vault, whether they are there or not."""
    sign: Callable[[str, str | None, Progress | None], Coroutine[Any, Any, SignReport]]
    """Signs the heads of a store; with a reason, also those that go back."""
    ambient: Ambient
    version: str


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a store: where it lies, where the keys to it are looked for (beside the original, unless they are
    named), where a scratch store may be made of it, and for messages: what it is, since when sessions may have been
    erased, and what to do when it is damaged.
    """

    path: str
    original: str
    scratch: str
    named: str
    since: str
    advice: str


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """How far something was proven, and why not further; sessions that can be read no more, or not all of them."""

    verified: Verified
    remarks: tuple[str, ...] = ()
    erased: tuple[SessionId, ...] = ()
    bereft: tuple[SessionId, ...] = ()


def living(place: str, path: str, original: str) -> Copy:
    """A copy of the store at a place, or the store itself, to be proven."""
    return Copy(
        path=path,
        original=original,
        scratch=path + SCRATCH,
        named=place,
        since="after the backup that this store came from",
        advice=f"See perdure sessions verify --store {place}",
    )


def unseen(_: str) -> Progress | None:
    """Stages for when nobody watches."""
    return None


async def verified(wiring: Wiring, level: str, copy: Copy, facts: Facts, stages: Stages) -> Reached:
    """Prove a copy of a store as far as was asked for and as can be; `Damaged` when it is not whole."""
    if level == "none":
        return Reached(verified="none")
    if not files.is_server(copy.path) and await aside(lambda: dumping.is_portable(copy.path)):
        return await _streamed(wiring, level, copy, stages)
    engine = wiring.engine_of(copy.path)
    if isinstance(engine, Copies):
        await aside(engine.examine)
    if level == "quick":
        return Reached(verified="quick")
    return await chains(wiring, copy, facts, stages)


async def _streamed(wiring: Wiring, level: str, copy: Copy, stages: Stages) -> Reached:
    """Prove a stream: its frames, or all that is in it once it was made a store."""
    if level == "quick":
        await aside(lambda: dumping.examine(copy.path, stages("reading back")))
        return Reached(verified="quick")
    with _scratch(wiring, copy) as engine:
        await aside(lambda: dumping.load(engine, copy.path, stages("reading back")))
        return await _proven(wiring, engine.place, copy, stages)


async def chains(wiring: Wiring, copy: Copy, facts: Facts, stages: Stages) -> Reached:
    """Prove the chain of every session in a copy, with the keys of the original."""
    source = wiring.engine_of(copy.path)
    if facts.format >= source.latest:
        return await _proven(wiring, copy.path, copy, stages)
    with _scratch(wiring, copy) as engine:  # of an older format: it is read as today's
        await aside(lambda: _replay(source, engine))
        return await _proven(wiring, engine.place, copy, stages)


@contextmanager
def _scratch(wiring: Wiring, copy: Copy) -> Iterator[Engine]:
    clear(copy.scratch)
    try:
        yield wiring.scratch_of(copy.scratch)
    finally:
        clear(copy.scratch)


def _replay(source: Engine, target: Engine) -> None:
    with source.dump() as dump:
        target.load(dump.facts, dump.tables, dump.rows())


async def _proven(wiring: Wiring, place: str, copy: Copy, stages: Stages) -> Reached:
    try:
        found = await wiring.prove(place, copy.original, stages("verifying"))
    except KeyMissing as missing:
        said = f"its chains were not proven, since the keys are not here: {missing.message}"
        return Reached(verified="quick", remarks=(said,))
    if found.problems:
        said = "; ".join(found.problems[:SHOWN])
        count = f"{len(found.problems)} problem{'s' if len(found.problems) > 1 else ''}"
        raise Damaged(
            f"{count} in {copy.named}: {said}. {copy.advice}; to take it as it is, verify quick",
            problems=found.problems,
        )
    unproven = f"{found.cold} archived sessions were not proven; name their cold storage to have them read as well"
    return Reached(
        verified="full",
        remarks=(*_gone(found, copy), *((unproven,) if found.cold else ())),
        erased=found.erased,
        bereft=found.bereft,
    )


def _gone(found: Proven, copy: Copy) -> tuple[str, ...]:
    """A remark on what cannot be read since its key was destroyed."""
    said = []
    if found.erased:
        said.append(f"sessions unreadable because they were erased {copy.since}: {_listed(found.erased)}")
    if found.bereft:
        said.append(
            f"branches unreadable up to where they left a session that was erased {copy.since}: {_listed(found.bereft)}"
        )
    doubt = "if nobody erased them, the vault is older than the store: name the newest one"
    return ("; ".join((*said, doubt)),) if said else ()


def _listed(sessions: tuple[SessionId, ...]) -> str:
    more = len(sessions) - SHOWN
    return ", ".join(sessions[:SHOWN]) + (f" and {more} more" if more > 0 else "")


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
            else:
                found += await _looked_at(verifying, sessions, row.session)
        query = msgspec.structs.replace(query, after=(rows[-1].created_at, rows[-1].session))
    return found


async def _looked_at(verifying: Verifying, sessions: Sessions, session: SessionId) -> Proven:
    try:
        report = await verifying.verify(session)
    except NotFound:  # erased meanwhile
        return Proven()
    if not report.ok and await shredded(sessions.store, session):
        return Proven(sessions=1, erased=(session,))
    problems = tuple(f"session {session}: {item.what}" for item in report.problems if item.place != "key")
    bereft = (session,) if not report.ok and not problems else ()
    return Proven(sessions=1, events=report.events, problems=problems, bereft=bereft)


def check_level(verify: str) -> None:
    """Refuse a way to verify that there is not."""
    if verify not in LEVELS:
        raise Invalid(f"{verify!r:.40} is not a way to verify; use one of {', '.join(LEVELS)}", verify=verify)


def refuse_existing(target: str, overwrite: bool) -> None:
    """Refuse a place where something is, unless it may be replaced."""
    files.refuse_folder(target)
    if files.exists(target) and not overwrite:
        raise AlreadyExists(
            f"{target} exists already; choose another name, or replace it with overwrite=True", path=target
        )


def refuse_odd(wiring: Wiring, target: str, store: str) -> None:
    """Refuse a place for a file, before anything is made, that has no folder or cannot be named, or that keys lie at:
    those of the store that is copied or comes to be, or any others.
    """
    if os.path.basename(target) == RAM:
        raise Invalid(f"{RAM} is in RAM, and a copy is a file; give the path of one", path=target)
    try:
        target.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{target!a} is not UTF-8; choose another path", path=ascii(target)) from None
    files.refuse_folder(target)
    if holds_keys(target):
        raise Invalid(f"{target} holds the keys of a store; choose another path, nothing was changed", path=target)
    if os.path.realpath(target) in map(os.path.realpath, wiring.key_places(store)):
        raise Invalid(f"{target} is named as the place of the key or the vault; choose another path", path=target)


def clear(partial: str, *, keep: bool = False) -> None:
    """Remove what an earlier try left: the file, unless it is to be kept, what an engine leaves beside it, and what it
    was proven in.
    """
    scratch = partial + SCRATCH
    with translated(partial):
        files.discard(*(name + suffix for name in (partial, scratch) for suffix in _BESIDE), scratch)
        files.discard(*(() if keep else (partial,)))
