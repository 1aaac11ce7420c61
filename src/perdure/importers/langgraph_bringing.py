"""How an import writes LangGraph's threads: through the saver, with the times of checkpoints beside what was said."""

from collections.abc import Iterable, Sequence
from typing import Any

from perdure import AsyncPerdure, AsyncSession, errors
from perdure.adapters.parts.following import Following
from perdure.adapters.parts.making import made
from perdure.adapters.parts.needing import Extra
from perdure.events import Noted, Payload
from perdure.importers.dating import beginning, dated, moment
from perdure.importers.fitting import refusals
from perdure.importers.langgraph_sources import Row, Written, unread
from perdure.importers.report import DAMAGED

with Extra("langgraph"):
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from perdure.adapters.langgraph import CHANNELS, PerdureSaver
    from perdure.adapters.parts.channels import BY
    from perdure.adapters.parts.checkpoints import WRITES, Thread
    from perdure.adapters.parts.deltas import Plan, Planning
    from perdure.adapters.parts.langgraph_configs import Bytes, Place, Told
    from perdure.adapters.parts.langgraph_upkeep import TAG, batches


class _Saver(PerdureSaver):
    """Says of each message when it was said: at the time of the first checkpoint that has it."""

    said_at: str | None = None

    async def _write(self, session: AsyncSession, upon: int | bytes, plan: Plan) -> None:
        plan.payloads = dated(plan.payloads, self.said_at)
        await _must_fit(plan.payloads)
        await super()._write(session, upon, plan)


class Bringing:
    """Threads on their way into a store."""

    def __init__(self, db: AsyncPerdure, serde: SerializerProtocol) -> None:
        self._db = db
        self._codec = Bytes(serde)
        self._saver = _Saver(db, serde=serde)
        self._following = Following(Thread)

    async def view(self, name: str) -> Thread | None:
        """A thread as it stands; None when there is none of this name."""
        return await self._following.present(self._db.named(name))

    async def bring(
        self, name: str, missing: Sequence[Row], rows: Sequence[Row], writes: Iterable[Written]
    ) -> dict[tuple[str, str], str]:
        """Write what is missing: pending writes first, so that a thread that looks whole is whole. Of checkpoints that
        cannot be written, why.
        """
        began = beginning(moment(row.checkpoint["ts"]) for row in rows)
        await made(self._db, name, tags=[TAG], metadata=began)  # or it is there, of an import before
        view = await self.view(name) or Thread()
        for batch in batches(noted(item) for item in writes if not _known(view, item)):
            await self._db.named(name).record(batch)
        versions = {(row.ns, row.id): row.checkpoint["channel_versions"] for row in rows}
        absent = {(row.ns, row.id) for row in missing}
        latest = latest_of(row for row in rows if (row.ns, row.id) not in absent)
        failed: dict[tuple[str, str], str] = {}
        for row in missing:
            before = versions.get((row.ns, row.parent or ""), {})
            new = {key: item for key, item in row.checkpoint["channel_versions"].items() if before.get(key) != item}
            try:
                await self._put(name, row, new, older=row.id < latest.get(row.ns, ""))
            except (errors.CallerError, *DAMAGED) as error:
                failed[row.ns, row.id] = unread(error)
                del versions[row.ns, row.id]  # so that those after it are written whole
        return failed

    async def _put(self, name: str, row: Row, new: dict[str, Any], *, older: bool) -> None:
        parent = {"checkpoint_id": Told(row.parent)} if row.parent else {}
        place: Any = {"configurable": {"thread_id": name, "checkpoint_ns": row.ns, **parent}}
        if older:
            await self._fill(Place(place), row, new)
        else:
            self._saver.said_at = moment(row.checkpoint["ts"])
            await self._saver.aput(place, row.checkpoint, row.metadata, new)  # type: ignore[arg-type]

    async def _fill(self, place: Place, row: Row, new: dict[str, Any]) -> None:
        """Write a checkpoint that could not be read before; the latest and the conversation stay as they are."""
        session = self._db.named(place.thread)
        view = await self._following.present(session) or Thread()
        record = place.record(row.parent or None, row.checkpoint, row.metadata, self._codec) | {"older": True}
        planning = Planning(view, self._codec, (), view.find(row.ns, row.parent) if row.parent else None, {})
        values = row.checkpoint["channel_values"]
        versions = row.checkpoint["channel_versions"]
        plan = planning.put(record, versions, new, values)
        Planning(Thread(), self._codec, CHANNELS, None, {}).put(record, versions, versions, values)  # or it is damaged
        await _must_fit(plan.payloads)
        for batch in batches(plan.payloads):
            await session.record(batch)


async def _must_fit(payloads: Sequence[Payload]) -> None:
    """`Invalid` if one of them does not fit, before any of them is written; one append alone says so itself."""
    if len(list(batches(payloads))) > 1:
        for refused in await refusals([payload] for payload in payloads):
            if refused is not None:
                raise errors.Invalid(refused)


def _known(view: Thread, item: Written) -> bool:
    """Whether a pending write is there as it was found."""
    found = view.writes.get((item.ns, item.id), {}).get((item.task, item.idx))
    return found is not None and (item.idx >= 0 or tuple(found.typed) == (item.kind, item.data))


def latest_of(rows: Iterable[Row]) -> dict[str, str]:
    """The last of these checkpoints, oldest first, in each namespace."""
    return {row.ns: row.id for row in rows}


def noted(item: Written) -> Noted:
    """A pending write as the saver notes it."""
    data: dict[str, Any] = {"id": item.id, "task": item.task}
    data |= ({"ns": item.ns} if item.ns else {}) | ({"path": item.path} if item.path else {})
    return Noted(by=BY, about=WRITES, data=data | {"writes": [[item.idx, item.channel, item.kind, item.data]]})
