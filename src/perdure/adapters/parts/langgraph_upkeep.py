"""The threads of a store: found, made, pruned, copied and erased."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from perdure import AsyncPerdure, AsyncSession, errors
from perdure.adapters.parts.channels import BY
from perdure.adapters.parts.checkpoints import CHECKPOINT, DELETED, KEPT, LEFT, WRITES, Checkpoint, Thread, spoken
from perdure.adapters.parts.deltas import farewell, ranges, remembered, spelled
from perdure.adapters.parts.following import Following
from perdure.adapters.parts.making import made
from perdure.adapters.parts.snapshots import Codec
from perdure.events import Noted, Payload

TAG: Final = "langgraph"
_EVENTS: Final = 2000
_BYTES: Final = 4 << 20


class Upkeep:
    """What is done to threads as a whole."""

    def __init__(self, db: AsyncPerdure, following: Following[Thread]) -> None:
        self._db = db
        self._following = following

    async def threads(self, name: str | None = None) -> AsyncIterator[tuple[str, Thread]]:
        """A thread by its name, if it is there, or all threads."""
        if name is not None:
            view = await self._following.present(self._db.named(name))
            if view is not None:
                yield name, view
            return
        cursor = None
        while True:
            page = await self._db.find(tags=[TAG], limit=200, cursor=cursor)
            for row in page.items:
                view = await self._following.present(self._db.named(row.session))
                if view is not None:  # a branch has the name of what it branched from in its log; its own is its id
                    mine = view.name is not None and self._db.named(view.name).id == row.session
                    yield str(view.name if mine else row.session), view
            cursor = page.cursor
            if cursor is None:
                return

    async def seen(self, session: AsyncSession, thread: str, *, fresh: bool) -> tuple[Thread, int, int | bytes]:
        """As `opened`, and what to write upon: with a digest instead of a version, the view is as it was last seen, and
        whoever writes upon it is told when it is stale.
        """
        recent = None if fresh else self._following.recent(session.id)
        if recent is not None and recent[0].spaces:
            return recent
        view, version = await self.opened(session, thread)
        return view, version, version

    async def opened(self, session: AsyncSession, thread: str) -> tuple[Thread, int]:
        """The view of a thread and its version; the session is made if it is not there."""
        while True:
            found = await self._following.at(session)
            if found is not None and found[0].spaces:
                return found
            try:
                row = await session.info()
                if TAG in row.tags and found is not None:
                    return found
                if TAG not in row.tags:
                    await session.configure(tags=[*row.tags, TAG], expected=row.version)
            except errors.NotFound:
                await self.made(thread)
            except errors.VersionConflict:
                continue

    async def made(self, thread: str) -> None:
        """Make the session of a thread, unless somebody was first."""
        await made(self._db, thread, tags=[TAG])

    async def erase(self, thread: str) -> None:
        """Erase the session of a thread, if it is there."""
        session = self._db.named(thread)
        try:
            await session.erase()
        except errors.NotFound:
            pass
        self._following.forget(session.id)

    async def prune(self, threads: Sequence[str], strategy: str) -> None:
        """Delete all checkpoints of these threads, or all but the latest of each namespace."""
        if strategy not in ("keep_latest", "delete"):
            raise errors.Invalid(f"prune with the strategy keep_latest or delete, not {strategy!r}")
        for thread in threads:
            if strategy == "delete":
                await self._remove(self._db.named(thread), lambda _, __: True)
            else:
                await self._remove(self._db.named(thread), lambda view, item: view.tips.get(item.ns) is not item)

    async def delete_runs(self, runs: frozenset[str], codec: Codec) -> None:
        """Delete the checkpoints of these runs in all threads."""
        names = [name async for name, _ in self.threads()] if runs else []
        for name in names:
            await self._remove(
                self._db.named(name), lambda _, item: str(codec.load(item.metadata).get("run_id")) in runs
            )

    async def _remove(self, session: AsyncSession, goes: Callable[[Thread, Checkpoint], bool]) -> None:
        """Delete checkpoints, then destroy what nothing needs any more. One that is killed is finished by the next."""
        while True:
            found = await self._following.at(session)
            if found is None:
                return
            view, version = found
            held = [item for space in view.spaces.values() for item in space.values()]
            gone = [item for item in held if goes(view, item)]
            try:
                for batch in batches(farewell(view, gone) if gone else ()):
                    version = await session.record(batch, expected=version)
            except errors.VersionConflict:
                continue
            if await self._clean(session):
                return

    async def _clean(self, session: AsyncSession) -> bool:
        """Destroy what nothing needs; False if somebody wrote meanwhile."""
        found = await self._following.at(session)
        if found is None:
            return True
        view, version = found
        lost, events = view.waste()
        leaving = {said.first for said in lost}
        try:
            for first, upto in ranges(view, lambda said: said.first in leaving):
                version = await session.retract(first, upto, reason=DELETED, expected=version)
        except errors.VersionConflict:
            return False
        if events:
            await session.redact(sorted(events), reason=DELETED)
        return True

    # ── copying ──

    async def copy(self, source: str, target: str) -> None:
        """Copy checkpoints, writes and conversation to a thread that has none; `VersionConflict` if somebody else
        writes there meanwhile.
        """
        session = self._db.named(target)
        found = await self._following.at(self._db.named(source))
        if found is None or not (found[0].said or any(found[0].spaces.values())):
            return
        if session.id == self._db.named(source).id:  # everything is there
            return
        copy, version = await self.opened(session, target)
        if copy.said or any(copy.spaces.values()):
            raise errors.AlreadyExists(
                f"thread {target!r} has checkpoints or a conversation of its own; copy to another one, or delete it "
                "first",
                thread=target,
            )
        view = found[0]
        moved, version = await self._copy_said(self._db.named(source), view, session, version)
        for batch in batches(_copied(view, moved, target)):
            version = await session.record(batch, expected=version)

    async def _copy_said(
        self, source: AsyncSession, view: Thread, target: AsyncSession, version: int
    ) -> tuple[dict[int, int], int]:
        """Say everything again in another session, upon a version of it; where each event went, and the new version."""
        wanted = {said.first for said in view.referred()}
        items = [said for said in view.said.values() if said.standing or said.first in wanted]
        if not items:
            return {}, version
        events = {event.version: event for event in await source.events(items[0].first - 1, items[-1].last)}
        payloads = [spoken(events[place].data) for said in items for place in said.versions]
        for batch in batches(payload for payload in payloads if payload is not None):
            version = await target.record(batch, expected=version)
        found = await self._following.at(target)
        if found is None or found[1] != version:
            raise errors.VersionConflict(
                f"session {target.id} was written to while a thread was copied there; copy to another one, or "
                "delete it first",
                session=target.id,
            )
        copy = found[0]
        made = [place for said in copy.said.values() for place in said.versions]
        moved: dict[int, int] = dict(zip([place for said in items for place in said.versions], made, strict=True))
        left = {moved[said.first] for said in items if not said.standing and not said.gone}
        silent = left | {moved[said.first] for said in items if said.gone}
        for first, upto in ranges(copy, lambda said: said.first in left):
            version = await target.retract(first, upto, reason=LEFT, expected=version)
        for first, upto in ranges(copy, lambda said: said.first in silent - left):
            reason = "so in the thread it was copied from"
            version = await target.retract(first, upto, reason=reason, expected=version)
        return moved, version


def _copied(view: Thread, moved: dict[int, int], name: str) -> Iterator[Payload]:
    """A thread's checkpoints and writes as they were recorded, in the order of writing."""
    held = [item for space in view.spaces.values() for item in space.values()]
    for item in sorted(held, key=lambda item: item.events[0]):
        parent = view.find(item.ns, item.parent) if item.parent is not None else None
        place = {"id": item.id} | ({"ns": item.ns} if item.ns else {})
        data: dict[str, Any] = place | {"checkpoint": list(item.typed), "metadata": list(item.metadata)}
        data |= ({"parent": item.parent} if item.parent is not None else {}) | ({"older": True} if item.older else {})
        values = {"values": spelled(item, parent, moved)}
        past = remembered(item.history, moved)
        if past:
            yield Noted(by=BY, about=KEPT, data=place | values | past)
        yield Noted(by=BY, about=CHECKPOINT, data=data | values | {"thread": name})
    for (ns, id), writes in view.writes.items():
        for write in writes.values():
            data = {"id": id, "task": write.task, "writes": [[write.idx, write.channel, *write.typed]]}
            data |= ({"ns": ns} if ns else {}) | ({"path": write.path} if write.path else {})
            yield Noted(by=BY, about=WRITES, data=data)


def batches(payloads: Iterable[Payload]) -> Iterator[list[Payload]]:
    """Payloads in appends of a bearable size."""
    batch: list[Payload] = []
    size = 0
    for payload in payloads:
        weight = len(msgspec.msgpack.encode(payload))
        if batch and (len(batch) >= _EVENTS or size + weight > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(payload)
        size += weight
    if batch:
        yield batch
