"""LangGraph's checkpointer: a thread is a session of its name, and everything is in that session's log.

>>> import perdure
>>> from perdure.adapters.langgraph import PerdureSaver
>>> with perdure.open(":memory:") as db:
...     saver = PerdureSaver(db)
...     saver.get_tuple({"configurable": {"thread_id": "trip"}}) is None
True

One `put` is one durable append: the new messages as ordinary turns, then what differs from the parent checkpoint.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

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

from perdure import AsyncPerdure, AsyncSession, Perdure, drive, errors
from perdure.adapters.parts.channels import BY
from perdure.adapters.parts.checkpoints import ROOT, WRITES, Checkpoint, Thread
from perdure.adapters.parts.deltas import Plan, Planning, Snapshot, history, loaded, read
from perdure.adapters.parts.following import Following
from perdure.adapters.parts.langgraph_configs import Bytes, Place, Told
from perdure.adapters.parts.langgraph_upkeep import Upkeep, batches
from perdure.events import Noted

CHANNELS: Final = ("messages",)
START: Final = "00000000-0000-6000-8000-000000000000"
"""The id of the checkpoint a thread begins with that was talked in elsewhere. It is made up, and never stored."""
_KNOWN: Final = 4096
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
        self._db = db.aio
        self._channels = tuple(channels)
        self._following = Following(Thread)
        self._upkeep = Upkeep(self._db, self._following)
        self._puts: OrderedDict[tuple[str, str, str], dict[str, Snapshot]] = OrderedDict()
        self._vacant: OrderedDict[str, int] = OrderedDict()

    @property
    def _bytes(self) -> Bytes:
        return Bytes(self.serde)

    # ── reading ──

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the latest; with the latest of the main graph, what was said elsewhere since."""
        place = Place(config)
        session = self._db.named(place.thread)
        view = await self._following.present(session)
        latest = place.id is None
        found = view.find(place.ns, place.id) if view is not None else None
        if view is not None and found is not None:
            return self._tuple(view, found, place, latest=latest)
        if place.ns != ROOT or place.id not in (None, START):
            return None
        if view is not None and view.unseen and not view.tips.get(ROOT):
            return self._begun(view, place)
        self._vacant[session.id] = self._vacant.pop(session.id, 0) + latest
        _trim(self._vacant)
        return None

    def _tuple(self, view: Thread, found: Checkpoint, place: Place, *, latest: bool = False) -> CheckpointTuple:
        codec = self._bytes
        checkpoint: LangGraphCheckpoint = codec.load(found.typed)
        held = {name: found.values.get(name) for name in checkpoint["channel_versions"]}
        values = {name: loaded(value, codec) for name, value in held.items() if value is not None and not value.empty}
        if latest and found.ns == ROOT and view.unseen:
            channel = next((name for name in self._channels if type(values.get(name)) is list), None)
            if channel is not None:
                values[channel] = values[channel] + [read(group, codec) for group in view.elsewhere()]
        return CheckpointTuple(
            config=place.config(Told(found.id, latest)),
            checkpoint={**checkpoint, "channel_values": values},
            metadata=codec.load(found.metadata),
            parent_config=None if found.parent is None else place.config(Told(found.parent)),
            pending_writes=[(write.task, write.channel, codec.load(write.typed)) for write in view.pending(found)],
        )

    def _begun(self, view: Thread, place: Place) -> CheckpointTuple:
        """What a thread begins with that was talked in elsewhere."""
        messages = [read(group, self._bytes) for group in view.elsewhere()]
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
        return CheckpointTuple(place.config(Told(START, True)), checkpoint, metadata, None, [])

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
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        record: dict[str, Any] = {
            "id": str(checkpoint["id"]),
            "checkpoint": list(codec.dump(rest)),
            "metadata": list(codec.dump(get_checkpoint_metadata(config, metadata))),
        }
        record |= {"ns": place.ns} if place.ns else {}
        parent = None if place.id in (None, START) else str(place.id)
        record |= {} if parent is None else {"parent": parent}
        first = self._first(session.id, place, metadata)
        while True:
            view, version = await self._upkeep.opened(session, place.thread)
            self._admit(session.id, view, place, record["id"], first)
            planning = Planning(view, codec, self._channels, place.ns, parent)
            self._recall(session.id, planning.parent)
            named = {} if view.name is not None else {"thread": place.thread}
            plan = planning.put(
                record | named, checkpoint["channel_versions"], dict(new_versions), checkpoint["channel_values"]
            )
            try:
                await self._write(session, version, plan)
            except errors.VersionConflict:
                continue
            self._puts[session.id, place.ns, record["id"]] = plan.lives(codec)
            _trim(self._puts)
            return place.config(Told(record["id"]))

    async def _write(self, session: AsyncSession, version: int, plan: Plan) -> None:
        for first, upto in plan.retract:
            version = await session.retract(first, upto, reason="LangGraph went on without it", expected=version)
        for batch in batches(plan.payloads):
            events = await session.recorded(batch, expected=version)
            self._following.take(session.id, events)
            version = events[-1].version

    def _first(self, session: str, place: Place, metadata: CheckpointMetadata) -> bool:
        """Whether this is to be the first checkpoint of a thread that was read as empty."""
        if place.id is not None or place.ns != ROOT or metadata.get("source") == "fork":
            return False
        waiting = self._vacant.pop(session, 0)
        if waiting > 1:
            self._vacant[session] = waiting - 1
        return waiting > 0

    def _admit(self, session: str, view: Thread, place: Place, id: str, first: bool) -> None:
        """Refuse to leave behind what somebody else wrote after the parent was read as the latest."""
        tip = view.tips.get(place.ns)
        if isinstance(place.id, Told):
            bound = place.id.latest
        else:
            bound = first if place.id is None else (session, place.ns, place.id) in self._puts
        expected = None if place.id in (None, START) else place.id
        if not bound or tip is None or tip.id in (expected, id):
            return
        if expected is not None and expected not in view.spaces.get(place.ns, {}):
            return
        raise errors.VersionConflict(
            f"thread {place.thread!r} has gone on meanwhile: checkpoint {tip.id} was written after {expected} was read "
            "as the latest. Nothing of it is lost; run again to go on from it, or name a checkpoint_id to begin a new "
            "line",
            thread=place.thread,
            expected=expected,
            found=tip.id,
        )

    def _recall(self, session: str, parent: Checkpoint | None) -> None:
        """Give the parent's lists the snapshots taken when they were put."""
        if parent is None or not self._puts.get((session, parent.ns, parent.id)):
            return
        lives = self._puts[session, parent.ns, parent.id]
        self._puts[session, parent.ns, parent.id] = {}
        for channel, live in lives.items():
            value = parent.values.get(channel)
            if value is not None and value.length == len(live):
                value.live = live

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


def _trim(known: OrderedDict[Any, Any]) -> None:
    while len(known) > _KNOWN:
        known.popitem(last=False)
