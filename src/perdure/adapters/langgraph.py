"""LangGraph's checkpointer: a thread is a session of its name, and everything is in that session's log.

>>> import perdure
>>> from perdure.adapters.langgraph import PerdureSaver
>>> with perdure.open(":memory:") as db:
...     saver = PerdureSaver(db)
...     saver.get_tuple({"configurable": {"thread_id": "trip"}}) is None
True

One `put` is one durable append: the new messages as ordinary turns, then what differs from the parent checkpoint.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from perdure import AsyncPerdure, AsyncSession, Perdure, drive, errors
from perdure.adapters.parts.following import Following
from perdure.adapters.parts.needing import Extra, store_of
from perdure.adapters.parts.recent import Recent
from perdure.events import Noted

with Extra("langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.base import Checkpoint as LangGraphCheckpoint
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from perdure.adapters.parts.channels import BY
    from perdure.adapters.parts.checkpoints import LEFT, ROOT, WRITES, Checkpoint, Thread
    from perdure.adapters.parts.deltas import Plan, Planning, carrier, history, loaded, places, read
    from perdure.adapters.parts.langchain import going_on
    from perdure.adapters.parts.langgraph_configs import Bytes, Place, Told
    from perdure.adapters.parts.langgraph_upkeep import Upkeep, batches
    from perdure.adapters.parts.snapshots import Snapshot

CHANNELS: Final = ("messages",)
START: Final = "00000000-0000-6000-8000-000000000000"
"""The id of the checkpoint a thread begins with that was talked in elsewhere. It is made up, and never stored."""
_KNOWN: Final = 4096
_LIVES: Final = 512
"""Of so many namespaces it is remembered what the lists of their latest checkpoint looked like."""
Listing = list[tuple[Thread, Checkpoint, Place]]


class PerdureSaver(BaseCheckpointSaver[Any]):
    """Keeps LangGraph's checkpoints in a perdure store, from blocking and async graphs alike.

    Messages of the main graph in `channels` are also turns of the session. The serializer is LangGraph's own with its
    strict allowlist and without pickle, unless another one is given.
    """

    def __init__(
        self,
        db: Perdure | AsyncPerdure,
        *,
        serde: SerializerProtocol | None = None,
        channels: Collection[str] = CHANNELS,
    ) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._codec = Bytes(self.serde)
        self._db = store_of(db, "PerdureSaver")
        self._channels = tuple(channels)
        self._following = Following(Thread)
        self._upkeep = Upkeep(self._db, self._following)
        self._puts: Recent[tuple[str, str, str], None] = Recent(_KNOWN)
        self._lives: Recent[tuple[str, str], tuple[Checkpoint, dict[str, Snapshot]]] = Recent(_LIVES)
        self._vacant: Recent[str, int] = Recent(_KNOWN)

    @property
    def _bytes(self) -> Bytes:
        if self._codec.serde is not self.serde:
            self._codec = Bytes(self.serde)
        return self._codec

    # ── reading ──

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the latest; with the latest of the main graph, what was said elsewhere since."""
        place = Place(config)
        session = self._db.named(place.thread)
        view, version = await self._following.at(session) or (Thread(), 0)
        latest = place.id is None
        found = view.find(place.ns, place.id)
        if found is not None:
            return self._tuple(view, found, place, version if latest else 0)
        if place.ns != ROOT or place.id not in (None, START):
            return None
        if view.unseen and not view.tips.get(ROOT):
            return self._begun(view, place, version)
        self._vacant.keep(session.id, self._vacant.get(session.id, 0) + latest)
        return None

    def _tuple(self, view: Thread, found: Checkpoint, place: Place, latest: int = 0) -> CheckpointTuple:
        """A checkpoint as it was put; as the `latest` at a version of the log, also what others did up to there."""
        codec = self._bytes
        checkpoint: LangGraphCheckpoint = codec.load(found.typed)
        held = {name: found.values.get(name) for name in checkpoint["channel_versions"]}
        lists = {name: value for name, value in held.items() if value is not None and not value.empty}
        values = {name: loaded(value, codec, latest) for name, value in lists.items()}
        channel = carrier(self._channels, found) if latest and found.ns == ROOT and view.unseen else None
        if channel in values:
            others = [(group[0].first, read(group, codec)) for group in view.elsewhere(latest)]
            values[channel] = going_on(values[channel], places(lists[channel], latest), others)
        return CheckpointTuple(
            config=place.config(Told(found.id, latest)),
            checkpoint={**checkpoint, "channel_values": values},
            metadata=codec.load(found.metadata),
            parent_config=None if found.parent is None else place.config(Told(found.parent)),
            pending_writes=[(write.task, write.channel, codec.load(write.typed)) for write in view.pending(found)],
        )

    def _begun(self, view: Thread, place: Place, version: int) -> CheckpointTuple:
        """What a thread begins with that was talked in elsewhere."""
        messages = going_on((), (), [(0, read(group, self._bytes)) for group in view.elsewhere(version)])
        channel = self._channels[0] if self._channels else CHANNELS[0]
        checkpoint = LangGraphCheckpoint(
            v=4,
            id=START,
            ts="1970-01-01T00:00:00+00:00",
            channel_values={channel: messages},
            channel_versions={channel: 1},
            versions_seen={},
            updated_channels=None,
        )
        metadata = CheckpointMetadata(source="update", step=-2, parents={})
        return CheckpointTuple(place.config(Told(START, version)), checkpoint, metadata, None, [])

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints newest first, of one thread or all. A filter holds values that the metadata must equal."""
        for item in self._chosen(await self._all(config, before), filter, limit):
            yield item

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """As `alist`, for blocking callers."""
        yield from self._chosen(drive(self._all(config, before)), filter, limit)

    async def _all(self, config: RunnableConfig | None, before: RunnableConfig | None) -> Listing:
        bound = None if before is None else Place({"configurable": {"thread_id": "-", **before["configurable"]}}).id
        asked = config.get("configurable", {}) if config is not None else {}
        found: Listing = []
        async for thread, view in self._upkeep.threads(None if config is None else Place(config).thread):
            spaces = view.spaces.copy()
            for ns in [asked["checkpoint_ns"]] if asked.get("checkpoint_ns") is not None else spaces:
                place = Place({"configurable": {"thread_id": thread, "checkpoint_ns": ns}})
                held = [*spaces.get(ns, {}).values()]
                found += [(view, item, place) for item in held if asked.get("checkpoint_id") in (None, "", item.id)]
        found = [item for item in found if bound is None or item[1].id < bound]
        return sorted(found, key=lambda item: item[1].id, reverse=True)

    def _chosen(self, items: Listing, wanted: dict[str, Any] | None, limit: int | None) -> Iterator[CheckpointTuple]:
        for name, value in (wanted or {}).items():
            if isinstance(value, dict) and any(str(key).startswith("$") for key in value):
                raise errors.Invalid(f"metadata is compared by equality; {name!r} asks for {sorted(value)[0]!r}")
        left = limit
        for view, item, place in items:
            if left is not None and left <= 0:
                return
            metadata = self._bytes.load(item.metadata) if wanted else {}
            if all(metadata.get(name) == value for name, value in (wanted or {}).items()):
                left = None if left is None else left - 1
                yield self._tuple(view, item, place)

    # ── writing ──

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: LangGraphCheckpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. `VersionConflict` if its parent was the latest and somebody else wrote meanwhile."""
        place, codec = Place(config), self._bytes
        session = self._db.named(place.thread)
        parent = None if place.id in (None, START) else str(place.id)
        record = place.record(parent, checkpoint, get_checkpoint_metadata(config, metadata), codec)
        first = self._first(session.id, place, metadata)
        fresh = False
        while True:
            view, version, upon = await self._upkeep.seen(session, place.thread, fresh=fresh)
            refusal = self._refusal(session.id, view, place, record["id"], first)
            if refusal is not None:
                if fresh:
                    raise refusal
                fresh = True
                continue
            above = view.find(place.ns, parent) if parent is not None else None
            speaks = self._channels if place.ns == ROOT else ()
            seen = place.id.latest if isinstance(place.id, Told) else 0
            planning = Planning(view, codec, speaks, above, self._recalled(session.id, above), seen)
            named = {} if view.name is not None else {"thread": place.thread}
            plan = planning.put(
                record | named, checkpoint["channel_versions"], dict(new_versions), checkpoint["channel_values"]
            )
            try:
                await self._write(session, upon, plan)
            except errors.VersionConflict:
                fresh = True
                continue
            self._puts.keep((session.id, place.ns, record["id"]), None)
            made = await self._made(session, view, place.ns, record["id"], version)
            if made is not None:
                self._lives.keep((session.id, place.ns), (made, plan.lives))
            return place.config(Told(record["id"]))

    async def _write(self, session: AsyncSession, upon: int | bytes, plan: Plan) -> None:
        leaving = plan.retract
        for batch in batches(plan.payloads):
            events = await session.recorded(batch, retracting=leaving, reason=LEFT, expected=upon)
            self._following.take(session.id, events)
            upon, leaving = events[-1].digest, []

    def _first(self, session: str, place: Place, metadata: CheckpointMetadata) -> bool:
        """Whether this is to be the first checkpoint of a thread that was read as empty."""
        if place.id is not None or place.ns != ROOT or metadata.get("source") == "fork":
            return False
        waiting = self._vacant.pop(session, 0)
        if waiting > 1:
            self._vacant[session] = waiting - 1
        return waiting > 0

    def _refusal(self, session: str, view: Thread, place: Place, id: str, first: bool) -> errors.VersionConflict | None:
        """Why a checkpoint may not be put: somebody else wrote after its parent was read as the latest."""
        tip = view.tips.get(place.ns)
        if isinstance(place.id, Told):
            bound = place.id.latest > 0
        else:
            bound = first if place.id is None else (session, place.ns, place.id) in self._puts
        expected = None if place.id in (None, START) else place.id
        if not bound or tip is None or tip.id in (expected, id):
            return None
        if expected is not None and expected not in view.spaces.get(place.ns, {}):
            return None
        return errors.VersionConflict(
            f"thread {place.thread!r} has gone on meanwhile: checkpoint {tip.id} was written after {expected} was read "
            "as the latest. Nothing of it is lost; run again to go on from it, or name a checkpoint_id to begin a new "
            "line",
            thread=place.thread,
            expected=expected,
            found=tip.id,
        )

    async def _made(self, session: AsyncSession, view: Thread, ns: str, id: str, after: int) -> Checkpoint | None:
        """The checkpoint that was put just now, as the view has it."""
        made = view.find(ns, id)
        if made is None or made.events[0] <= after:  # something else was written with it: the view reads that first
            now = await self._following.present(session)
            made = now.find(ns, id) if now is not None else None
        return made

    def _recalled(self, session: str, parent: Checkpoint | None) -> Mapping[str, Snapshot]:
        """What the parent's lists looked like when they were put, if it was put last and here."""
        found = self._lives.get((session, parent.ns)) if parent is not None else None
        return found[1] if found is not None and found[0] is parent else {}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote. What it wrote before under the same number stays, special writes are replaced."""
        place, codec = Place(config), self._bytes
        if place.id is None:
            raise errors.Invalid("the config names no checkpoint; writes belong to one")
        spelled = [
            [WRITES_IDX_MAP.get(name, index), str(name), *codec.dump(value)]
            for index, (name, value) in enumerate(writes)
        ]
        data: dict[str, Any] = {"id": str(place.id), "task": str(task_id), "writes": spelled}
        data |= {"ns": place.ns} if place.ns else {}
        data |= {"path": str(task_path)} if task_path else {}
        session = self._db.named(place.thread)
        while True:
            try:
                events = await session.recorded(Noted(by=BY, about=WRITES, data=data))
                self._following.take(session.id, events)
            except errors.NotFound:
                await self._upkeep.made(place.thread)
            else:
                return

    # ── taking away, copying ──

    async def adelete_thread(self, thread_id: str) -> None:
        """Erase the thread's session, whoever wrote in it."""
        await self._upkeep.erase(str(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs in every thread; what remains stays whole."""
        await self._upkeep.delete_runs(frozenset(map(str, run_ids)), self._bytes)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread's checkpoints, writes and conversation to a thread that has none."""
        await self._upkeep.copy(str(source_thread_id), str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints (`delete`) or all but the latest of each namespace (`keep_latest`)."""
        await self._upkeep.prune([str(thread) for thread in thread_ids], strategy)

    # ── channels that store changes only ──

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What the ancestors of a checkpoint wrote to channels since each was last stored whole."""
        place, codec = Place(config), self._bytes
        view = await self._following.present(self._db.named(place.thread)) if channels else None
        target = view.find(place.ns, place.id) if view is not None else None
        found: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            found[channel] = {"writes": []}
            if view is None or target is None:
                continue
            past = history(view, target, channel)
            found[channel]["writes"] = [
                (task, name, codec.load((kind, data))) for task, name, kind, data in past.writes
            ]
            if past.seed is not None:
                found[channel]["seed"] = loaded(past.seed, codec)
        return found

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version after this one. Other savers' text versions are continued as texts."""
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}.{0:016}"
        return 1 if current is None else int(current) + 1

    # ── for blocking callers ──

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `aget_tuple`."""
        return drive(self.aget_tuple(config))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: LangGraphCheckpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `aput`."""
        return drive(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `aput_writes`."""
        drive(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """As `adelete_thread`."""
        drive(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `adelete_for_runs`."""
        drive(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `acopy_thread`."""
        drive(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `aprune`."""
        drive(self.aprune(thread_ids, strategy=strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `aget_delta_channel_history`."""
        return drive(self.aget_delta_channel_history(config=config, channels=channels))
