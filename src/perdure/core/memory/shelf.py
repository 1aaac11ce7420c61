"""The memories of one space, as its log tells them: read once, then grown event by event.

A shelf is not stored: whoever reads the log makes the same one. What was redacted in the log is not on it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.plans import DEFAULT
from perdure.core.memory.retelling import Did
from perdure.core.memory.told import changed, memory_of, place, status_of, weight
from perdure.core.session.event import Event, Payload
from perdure.core.session.memories import (
    MemoriesEmbedded,
    MemoriesExtracted,
    MemoriesUsed,
    MemoryChanged,
    MemoryKept,
    MemoryMoved,
    MemoryPlanned,
    MemoryProposed,
    MemoryReviewed,
    MemoryRun,
)
from perdure.core.session.redaction import Redacted

DAYS: Final = 7
"""Days whose queries are still known."""


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A consolidation. `phase` is began, stepped, ended or undone; `found` counts what it did. `place` is how far it
    has got, or at its end who should have had a say and failed; `worker` is who is at it, or was. `would` is what a dry
    one would do, step by step.
    """

    id: str
    phase: str
    trigger: str = ""
    place: str = ""
    found: dict[str, int] = {}
    began_at: int = 0
    at: int = 0
    model: str = ""
    cost: int = 0
    worker: str = ""
    asks: bool = False
    lacking: str = ""
    would: tuple[Did, ...] = ()


class Proposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody would have everybody know, and what came of it."""

    id: str
    origin: str = ""
    memory: str = ""
    type: str = ""
    content: str = ""
    importance: float = 0.5
    metadata: dict[str, Any] = {}
    evidence: tuple[str, ...] = ()
    gates: dict[str, str] = {}
    expires: int | None = None
    by: str = ""
    session: str = ""
    subjects: tuple[str, ...] = ()
    proposed_at: int = 0
    version: int = 0
    accepted: bool | None = None
    became: str = ""
    reviewed_by: str = ""
    reason: str = ""
    reviewed_at: int = 0


class Changes(msgspec.Struct, frozen=True):
    """What an index must know of: memories that came, or whose words or vectors are others, and those that are gone.
    `anew` says that something was redacted on which others stood: only the log, read from its beginning, tells how they
    stand now.
    """

    came: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    anew: bool = False


class Shelf:
    """Everything remembered in one space, up to a version of its log."""

    def __init__(self, plan: str = DEFAULT, embedder: str = "") -> None:
        self.version = 0
        self.digest = b""
        self.plan = plan
        self.embedder = embedder
        """Whose vectors are at hand; those of others are known of."""
        self.memories: dict[str, Memory] = {}
        """By id, in the order in which they were kept."""
        self.vectors: dict[str, bytes] = {}
        """What the embedder made of them, as it came. Whoever has taken them may clear this."""
        self.threads: dict[str, list[str]] = {}
        """The memories of each thread, in their order."""
        self.runs: dict[str, Run] = {}
        self.proposals: dict[str, Proposal] = {}
        self.extracted: dict[str, int] = {}
        """Up to which version sessions were looked through for memories."""
        self.queries: dict[str, int] = {}
        self.missing = 0
        self.weight = 0
        """Bytes of what the memories say, about."""
        self._told: dict[int, str] = {}
        """Which memory, or proposal, a redactable event speaks of; those of which there are several, in one text."""
        self._embedders: dict[int, str] = {}
        """Whose vectors an event holds."""
        self._embedded: dict[str, dict[str, int]] = {}
        """For every embedder which event has a memory's vectors."""
        self._versions: dict[str, list[int]] = {}
        """The same the other way round."""
        self.replaced: set[tuple[str, str]] = set()
        """Memories and those they took the place of by their writer's own word, and not by a run's."""
        self.named: dict[str, dict[int, MemoryChanged]] = {}
        """Of memories that were said to be about others than before: the versions that say so."""
        self._until: dict[str, int | None] = {}
        """When memories that were superseded would have ended otherwise."""
        self._counts: dict[Status, int] = {}

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories.values())

    def __len__(self) -> int:
        return len(self.memories)

    def count(self, status: Status = Status.LIVE) -> int:
        """How many memories are so."""
        return self._counts.get(status, 0)

    @property
    def otherwise(self) -> Mapping[str, int | None]:
        """When memories that were superseded would have ended otherwise, for who asks what was known before."""
        return MappingProxyType(self._until)

    def has_vectors(self, id: str) -> bool:
        """Whether the log has what the embedder makes of a memory."""
        return id in self._embedded.get(self.embedder, ())

    def embedded_in(self, versions: Iterable[int]) -> set[str]:
        """The memories whose vectors these versions hold, and those whose words went into them."""
        return {id for version in versions if version in self._embedders for id in self._told[version].split()}

    def versions_of(self, id: str) -> tuple[int, ...]:
        """The versions of the log that have content of a memory or proposal, or vectors that its words went into, for
        who would have them redacted.
        """
        return tuple(self._versions.get(id, ()))

    def take(self, events: Sequence[Event]) -> Changes:
        """Grow by these; what that changes for an index."""
        came: dict[str, None] = {}
        gone: dict[str, None] = {}
        anew = False
        for event in events:
            data = event.data
            if type(data) is MemoryKept:  # most of a log: a shortcut for who reads it from its beginning
                if data.id:  # else it was redacted: nobody knows what it said
                    self._kept(event, data)
                    came[data.id] = None
                    gone.pop(data.id, None)
            elif isinstance(data, Redacted):
                anew |= self._lost(data.versions, came, gone)
            else:
                for id in self._took(event, data):
                    came.pop(id, None)  # it goes to the end, as in an index that had it already
                    came[id] = None
                    gone.pop(id, None)
        if events:
            self.version, self.digest = events[-1].version, events[-1].digest
        return Changes(tuple(came), tuple(gone), anew)

    def _tell(self, version: int, *ids: str) -> None:
        self._told[version] = " ".join(ids)
        for id in ids:
            self._versions.setdefault(id, []).append(version)

    def _took(self, event: Event, data: Payload) -> Iterator[str]:
        """Grow by one event; the memories that an index must take in."""
        match data:
            case MemoryChanged(id=id, after=after) if id:
                self._tell(event.version, id)
                before = self.memories.get(id)
                if before is not None:
                    if "subjects" in after:
                        self.named.setdefault(id, {})[event.version] = data
                    if "valid_to" in after and data.run and before.status is Status.LIVE:
                        self._until[id] = before.valid_to  # a run ends what it supersedes
                    elif "valid_to" in after:
                        self._until.pop(id, None)
                    self._put(changed(before, after))
                    if place(before) != place(self.memories[id]):
                        self._unembed(id)  # an index takes it in anew, with vectors that are made anew
                        yield id
            case MemoryMoved(id=id) if id:
                if data.reason:
                    self._tell(event.version, id)
                if id in self.memories:
                    self._moved(event, data)
            case MemoriesUsed():
                self._used(data)
            case MemoriesEmbedded(vectors=vectors) if vectors:
                self._embed(event.version, data)
                if data.embedder == self.embedder:
                    self.vectors |= vectors
                    yield from (id for id in vectors if id in self.memories)  # else it comes after them
            case MemoryRun(id=id) if id:
                run = self.runs.get(id)
                began = event.at if run is None else run.began_at
                fields = {name: value for name, value in msgspec.structs.asdict(data).items() if name != "apart"}
                if run is not None:
                    fields |= {"trigger": run.trigger, "found": data.found or run.found}
                self.runs[id] = Run(**fields, began_at=began, at=event.at)
            case MemoryProposed() | MemoryReviewed():
                self._proposed(event, data)
            case MemoriesExtracted(session=session, upto=upto):
                self.extracted[session] = max(upto, self.extracted.get(session, 0))
            case MemoryPlanned(plan=plan):
                self.plan = plan or DEFAULT
            case _:
                pass

    def _kept(self, event: Event, data: MemoryKept) -> None:
        self._tell(event.version, data.id)
        self._put(memory_of(event, data))
        for old in data.supersedes:
            self.replaced.add((data.id, old))
            before = self.memories.get(old)
            if before is not None and before.status is Status.LIVE:
                self._supersede(before, data.id, event.at, _beginning(event, data))

    def _supersede(self, memory: Memory, by: str, at: int, until: int) -> None:
        if memory.superseded_at and memory.superseded_by == by:  # it was put away since, and ended when it did
            return self._put(msgspec.structs.replace(memory, status=Status.SUPERSEDED))
        self._until.setdefault(memory.id, memory.valid_to)
        ended = max(until, memory.began)
        if memory.valid_to is not None:
            ended = min(memory.valid_to, ended)
        self._put(
            msgspec.structs.replace(
                memory, status=Status.SUPERSEDED, superseded_by=by, superseded_at=at, valid_to=ended
            )
        )
        return None

    def _moved(self, event: Event, data: MemoryMoved) -> None:
        memory, status = self.memories[data.id], status_of(data.status)
        if status is Status.SUPERSEDED:
            self._supersede(memory, data.by, event.at, event.at)
            if data.until is not None:
                self._put(msgspec.structs.replace(self.memories[data.id], valid_to=data.until))
        elif status is Status.LIVE:  # as if it had not been superseded
            until_then = self._until.pop(memory.id, memory.valid_to)
            self._put(
                msgspec.structs.replace(memory, status=status, superseded_by="", superseded_at=0, valid_to=until_then)
            )
        else:
            self._put(msgspec.structs.replace(memory, status=status, superseded_by=data.by))

    def _embed(self, version: int, data: MemoriesEmbedded) -> None:
        self._tell(version, *dict.fromkeys([*data.vectors, *data.beside]))
        self._embedders[version] = data.embedder
        self._embedded.setdefault(data.embedder, {}).update(dict.fromkeys(data.vectors, version))

    def _unembed(self, id: str) -> None:
        self.vectors.pop(id, None)
        for made in self._embedded.values():
            made.pop(id, None)

    def _put(self, memory: Memory) -> None:
        before = self.memories.get(memory.id)
        if before is not None:
            self._counts[before.status] -= 1
            self.weight -= weight(before)
        self.weight += weight(memory)
        if before is None or before.thread != memory.thread:
            self._leave(before)
            if memory.thread:
                self.threads.setdefault(memory.thread, []).append(memory.id)
        self._counts[memory.status] = self._counts.get(memory.status, 0) + 1
        self.memories[memory.id] = memory

    def _used(self, data: MemoriesUsed) -> None:
        for id, (found, cited, unused) in data.counts.items():
            memory = self.memories.get(id)
            if memory is not None:
                self.memories[id] = msgspec.structs.replace(
                    memory,
                    accesses=memory.accesses + found,
                    cited=memory.cited + cited,
                    unused=memory.unused + unused,
                )
        for day, asked in data.queries.items():
            self.queries[day] = self.queries.get(day, 0) + asked
        for day in sorted(self.queries, key=int)[:-DAYS]:  # nodes write them down late, so not only the last one counts
            del self.queries[day]
        self.missing += data.missing

    def _proposed(self, event: Event, data: MemoryProposed | MemoryReviewed) -> None:
        if not data.id:
            return
        self._tell(event.version, data.id)
        if isinstance(data, MemoryProposed):
            self.proposals[data.id] = Proposal(
                **msgspec.structs.asdict(data), proposed_at=event.at, version=event.version
            )
        elif data.id in self.proposals:
            self.proposals[data.id] = msgspec.structs.replace(
                self.proposals[data.id],
                accepted=data.accepted,
                became=data.memory,
                reviewed_by=data.by,
                reason=data.reason,
                reviewed_at=event.at,
            )

    def _lost(self, versions: Iterable[int], came: dict[str, None], gone: dict[str, None]) -> bool:
        """The log has lost what these versions said: so have we. Whether others stood on that."""
        told: dict[str, None] = {}
        anew = False
        for version in versions:
            ids = self._told.pop(version, "").split()
            embedder = self._embedders.pop(version, None)
            for id in ids:
                self._versions[id].remove(version)
                if not self._versions[id]:
                    del self._versions[id]
                if embedder is not None:
                    if self._embedded[embedder].get(id) == version:
                        del self._embedded[embedder][id]
                        if embedder == self.embedder:
                            self.vectors.pop(id, None)
                            if id in self.memories:
                                came[id] = None
                    continue
                memory, proposal = self.memories.get(id), self.proposals.get(id)
                if memory is not None and memory.version == version:
                    anew |= any(old in self.memories for old in memory.supersedes)
                    self._drop(memory)
                    came.pop(id, None)
                    gone[id] = None
                elif proposal is not None and proposal.version == version:
                    del self.proposals[id]
                else:
                    told[id] = None
        return anew or any(id in self.memories or id in self.proposals for id in told)

    def _drop(self, memory: Memory) -> None:
        del self.memories[memory.id]
        self.weight -= weight(memory)
        self._leave(memory)
        self._unembed(memory.id)
        self._until.pop(memory.id, None)
        self.named.pop(memory.id, None)
        self.replaced.difference_update((memory.id, old) for old in memory.supersedes)
        self._counts[memory.status] -= 1

    def _leave(self, memory: Memory | None) -> None:
        """It is no longer in its thread."""
        if memory is not None and memory.thread:
            self.threads[memory.thread].remove(memory.id)
            if not self.threads[memory.thread]:
                del self.threads[memory.thread]


def _beginning(event: Event, data: MemoryKept) -> int:
    """When what a memory supersedes gave way to it, at the latest."""
    if data.valid_from is not None:
        return data.valid_from
    return event.at if data.valid_to is None else min(event.at, data.valid_to)
