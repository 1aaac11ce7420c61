"""Shelves and where they stand: one session for each namespace, found by its metadata, written, tidied and swept.

A session of this kind is told from a conversation by its metadata: `by` says whose it is, `namespace` what it holds,
and `langgraph-store/1`, `langgraph-store/2` … how it begins.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any, Final

import msgspec

from perdure import AsyncPerdure, AsyncSession, errors
from perdure.adapters.parts import shelves
from perdure.adapters.parts.following import Following
from perdure.adapters.parts.shelves import BY, Kept, Shelf
from perdure.events import Noted

Namespace = tuple[str, ...]
Lookup = Callable[[str], Kept | None]
Compose = Callable[[Lookup], list[Noted]]

VIEWS: Final = 10_000
"""How many namespaces are kept in memory; those used last."""
DEPTHS: Final = 8
"""How many parts of a prefix are looked up; the rest is compared."""
ATTEMPTS: Final = 10
PAGE: Final = 1000
MAX_NAME: Final = 500
_NEVER: Final = dict.fromkeys(("idle", "absolute", "max_active", "grace", "expiry"), 0)


class Changes(msgspec.Struct):
    """What a batch changes in one namespace: items put, None for those deleted, and those that live longer."""

    written: dict[str, Kept | None] = {}
    touched: dict[str, Kept] = {}

    def put(self, key: str, kept: Kept | None) -> None:
        """The last operation on a key counts, and its place."""
        self.written.pop(key, None)
        self.written[key] = kept

    def notes(self, lookup: Lookup) -> list[Noted]:
        """What is to be written, given the items that are there."""
        gone = [key for key, kept in self.written.items() if kept is None and lookup(key) is not None]
        later = [kept for kept in self.touched.values() if self._stands(kept, lookup(kept.key))]
        notes = [shelves.touched(later)] if later else []
        notes += [shelves.deleted(gone)] if gone else []
        for key, kept in self.written.items():
            if kept is not None:
                before = lookup(key)
                first = kept.created if before is None or before.expired(kept.updated) else before.created
                notes.append(msgspec.structs.replace(kept, created=first).note())
        return notes

    def _stands(self, read: Kept, now: Kept | None) -> bool:
        """Whether the item that was read is there still, and will be."""
        return read.key not in self.written and now is not None and now.same(read.updated, read.ttl)


class Shelving:
    """The shelves of one store. Written for blocking and async callers alike."""

    def __init__(self, db: AsyncPerdure) -> None:
        self._db = db
        self._known: Following[Shelf] = Following(Shelf, kept=VIEWS)

    def _session(self, namespace: Namespace) -> AsyncSession:
        return self._db.named(_name(namespace))

    async def shelf(self, namespace: Namespace) -> Shelf | None:
        """What a namespace holds; None when nothing was ever put there."""
        return await self._known.present(self._session(namespace))

    async def under(self, prefix: Namespace = ()) -> list[tuple[Namespace, Shelf]]:
        """The namespaces that begin so, with what they hold."""
        found: list[tuple[Namespace, Shelf]] = []
        sought = prefix[:DEPTHS]
        wanted = {f"{BY}/{len(sought)}": _spelled(sought)} if sought else {"by": BY}
        cursor: str | None = None
        while True:
            page = await self._db.find(metadata=wanted, limit=PAGE, cursor=cursor)
            for row in page.items:
                namespace = _namespace(row.metadata)
                session = self._session(namespace)
                if namespace[: len(prefix)] != prefix or row.session != session.id:  # a branch has the same metadata
                    continue
                shelf = self._known.standing(session.id, row.created_at, row.version)
                if shelf is None:
                    shelf = await self._known.present(session)
                if shelf is not None:
                    found.append((namespace, shelf))
            if page.cursor is None:
                return found
            cursor = page.cursor

    async def write(self, namespace: Namespace, compose: Compose) -> None:
        """Write what `compose` makes of the items it looks up; the session is made when it is not there."""
        session = self._session(namespace)
        for _ in range(ATTEMPTS):
            shelf = await self._known.present(session)
            notes = compose(_nothing if shelf is None else shelf.get)
            try:
                if notes and shelf is None:
                    await self._create(namespace)
                for portion in shelves.portions(notes):
                    await session.append(portion)
            except errors.NotFound:  # erased meanwhile: begin it anew
                continue
            if shelf is not None and shelf.due():
                await self._tidy(session)
            return
        raise errors.VersionConflict(f"namespace {namespace} keeps being erased; try again", namespace=namespace)

    async def _create(self, namespace: Namespace) -> None:
        depths = range(1, min(len(namespace), DEPTHS) + 1)
        labels = {f"{BY}/{depth}": _spelled(namespace[:depth]) for depth in depths}
        try:
            await self._db.create(
                f"LangGraph store: {_spelled(namespace)}"[:200],
                name=_name(namespace),
                metadata={"by": BY, "namespace": list(namespace), **labels},
                config={"timeouts": dict(_NEVER)},
            )
        except errors.AlreadyExists:
            return

    async def compact(self) -> None:
        """Destroy what was superseded, deleted or has expired, everywhere and now."""
        await self.sweep()
        for namespace, shelf in await self.under():
            session = self._session(namespace)
            if shelf.dead:
                await self._tidy(session, force=True)
            elif shelf.tidied:
                try:
                    await session.prune(shelf.tidied)  # whoever tidied it may not have come so far
                except errors.Invalid:
                    continue

    async def sweep(self) -> int:
        """Delete what has expired; how many items that were."""
        return sum([await self._sweep(self._session(namespace)) for namespace, _ in await self.under()])

    async def _sweep(self, session: AsyncSession) -> int:
        for _ in range(ATTEMPTS):
            found = await self._known.at(session)
            if found is None:
                return 0
            shelf, version = found
            now = self._db.now()
            over = [kept.key for kept in shelf.held() if kept.expired(now)]
            try:
                if over:
                    await session.append(shelves.deleted(over), expected=version)
            except errors.VersionConflict:  # used meanwhile, perhaps one of these
                continue
            except errors.NotFound:
                return 0
            await self._tidy(session)
            return len(over)
        return 0

    async def _tidy(self, session: AsyncSession, *, force: bool = False) -> None:
        """State what the old part of a log holds again, at its end, and prune that part, if more than half of the log
        is dead; one that holds nothing is erased. Whoever is disturbed too often leaves it for the next time; `force`
        is for those who insist.
        """
        boundary, disturbed = 0, 0
        while disturbed < ATTEMPTS:
            found = await self._known.at(session)
            if found is None or not (force or found[0].due(0)):
                return
            shelf, version = found
            boundary = boundary or version
            stated = shelf.stated(boundary)
            notes = chain((kept.note() for kept in stated), [shelves.tidied(boundary)])
            try:
                if not shelf.held():
                    await session.erase(expected=version)
                    return
                portion = next(shelves.portions(notes))
                await session.append(portion, expected=version)
                if len(portion) > len(stated):
                    await session.prune(boundary)
                    return
            except errors.VersionConflict:
                disturbed += 1
            except (errors.Invalid, errors.NotFound):  # somebody else pruned further, or erased it
                return
            except errors.PruneRefused:  # a branch or a checkpoint of the session needs what is old
                if force:
                    raise
                return
        if force:
            raise errors.VersionConflict(f"session {session.id} keeps changing; try again", session=session.id)


def literal(path: Sequence[str]) -> Namespace:
    """The parts of a path before its first wildcard."""
    return tuple(path[: path.index("*")]) if "*" in path else tuple(path)


def fits(namespace: Namespace, kind: str, path: Sequence[str]) -> bool:
    """Whether a namespace begins (`prefix`) or ends (`suffix`) like a path, in which `*` stands for any one part."""
    if kind not in ("prefix", "suffix"):
        raise errors.Invalid(f"namespaces match by prefix or suffix, not {kind!r:.80}", match_type=kind)
    if len(path) > len(namespace):
        return False
    start = 0 if kind == "prefix" else len(namespace) - len(path)
    return all(part in ("*", own) for part, own in zip(path, namespace[start:], strict=False))


def _nothing(_: str) -> None:
    """What is found where nothing is."""


def _spelled(namespace: Namespace) -> str:
    """No part of a namespace has a dot, so that nothing else is spelled alike."""
    return ".".join(namespace)


def _name(namespace: Namespace) -> str:
    spelled = _spelled(namespace)
    if len(spelled) > MAX_NAME:
        spelled = f"/{sha256(spelled.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return f"{BY}/{spelled}"


def _namespace(metadata: dict[str, Any]) -> Namespace:
    return tuple(metadata.get("namespace", ()))
