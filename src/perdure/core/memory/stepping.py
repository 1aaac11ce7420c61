"""Steps of a consolidation as events, decided on the memories as they stand; and what takes a run back exactly."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from perdure.core.memory.comparing import are_alike, may_replace, since
from perdure.core.memory.parts import Memory, MemoryType, Status, people
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.steps import Apart, Step
from perdure.core.session.event import Event, Payload
from perdure.core.session.memories import MemoryChanged, MemoryKept, MemoryMoved, MemoryRun

COUNTS: Final = ("accesses", "cited", "unused")
UNDONE: Final = "undone"
"""Why something is as it was before a run."""
_ALWAYS: Final = ("status", "superseded_by")
_NOBODY: Final[Mapping[str, Collection[str]]] = MappingProxyType({})


class Bench:
    """Memories as they are after the steps that were taken so far, of which nothing is written yet.

    What changes in one memory by all these steps is one event: of many that say the same, the one that stays is not
    written anew for each.
    """

    def __init__(
        self, memories: Mapping[str, Memory], run: str, now: int, about: Mapping[str, Collection[str]] = _NOBODY
    ) -> None:
        """`about` tells of whom memories are beside those they name themselves."""
        self._known = memories
        self._run = run
        self._now = now
        self._about = {id: frozenset(names) for id, names in about.items()}
        self._fresh: dict[str, Memory] = {}
        self._changed: dict[str, tuple[set[str], str]] = {}
        """Of each memory the fields that changed, and why."""
        self._moved: list[MemoryMoved] = []

    def __iter__(self) -> Iterator[Memory]:
        return (self._fresh.get(id, memory) for id, memory in self._known.items())

    def get(self, id: str) -> Memory | None:
        """One memory as it is now."""
        return self._fresh.get(id) or self._known.get(id)

    def take(self, step: Step) -> bool:
        """Take a step; False when it does not fit any more, because somebody else was there first."""
        memory = self.get(step.id)
        if memory is None or memory.status is not Status.LIVE:
            return False
        if step.phase == "rank":
            if step.importance is None or step.importance == memory.importance:
                return False
            self._change(memory, {"importance": step.importance}, step.reason)
            return True
        if step.phase == "prune":
            if memory.type is MemoryType.CONSTRAINT or memory.trust == "high":
                return False
            self._move(memory, Status.ARCHIVED, "", step.reason)
            return True
        by = self.get(step.by)
        if by is None or by.status is not Status.LIVE or memory.flags or by.flags:
            return False
        if not may_replace(by, memory) or not are_alike(by, memory) or self._are_of_others(by, memory):
            return False
        self._give_way(memory, by, step)
        return True

    def events(self) -> list[Payload]:
        """What is to be written of all that was taken: what changed, and then what moved."""
        return [*(self._told(id, fields, reason) for id, (fields, reason) in self._changed.items()), *self._moved]

    def _whom(self, memory: Memory) -> frozenset[str]:
        return people(memory.subjects) | self._about.get(memory.id, frozenset())

    def _are_of_others(self, one: Memory, other: Memory) -> bool:
        """Whether what one of them stands for is about somebody else than the other is."""
        whom, whose = self._whom(one), self._whom(other)
        return bool(whom and whose) and whom.isdisjoint(whose)

    def _give_way(self, memory: Memory, by: Memory, step: Step) -> None:
        alike = by.trust == memory.trust  # else it is trusted more: what is trusted less changes nothing of it
        if alike:
            self._about[by.id] = self._about.get(by.id, frozenset()) | self._whom(memory)
        carried: dict[str, Any] = {"supersedes": (*by.supersedes, memory.id)}
        if step.phase == "same":
            carried |= {name: getattr(by, name) + getattr(memory, name) for name in COUNTS if getattr(memory, name)}
            if alike and memory.importance > by.importance:
                carried["importance"] = memory.importance
        else:
            until = max(since(by), since(memory))
            if memory.valid_to is None or memory.valid_to > until:
                memory = self._change(memory, {"valid_to": until}, step.reason)
        self._change(by, carried, step.reason)
        self._move(memory, Status.SUPERSEDED, by.id, step.reason)

    def _change(self, memory: Memory, after: dict[str, Any], reason: str) -> Memory:
        self._changed.setdefault(memory.id, (set(), reason))[0].update(after)
        found = self._fresh[memory.id] = msgspec.structs.replace(memory, **after)
        return found

    def _told(self, id: str, fields: set[str], reason: str) -> MemoryChanged:
        names, both = sorted(fields), (self._known[id], self._fresh[id])
        before, after = (msgspec.to_builtins({name: getattr(memory, name) for name in names}) for memory in both)
        return MemoryChanged(id=id, before=before, after=after, reason=reason, run=self._run)

    def _move(self, memory: Memory, status: Status, by: str, reason: str) -> None:
        moved = msgspec.structs.replace(memory, status=status, superseded_by=by)
        if status is Status.SUPERSEDED and moved.valid_to is None:
            moved = msgspec.structs.replace(moved, valid_to=self._now)
        self._fresh[memory.id] = moved
        told = MemoryMoved(id=memory.id, was=memory.status, status=status, by=by, reason=reason, run=self._run)
        self._moved.append(told)


class Trace:
    """What a run did to each memory, told by the log: how it was before, which fields it touched, who came after."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.shelf = Shelf()
        self.before: dict[str, Memory] = {}
        self.did: list[Event] = []
        """What it did; of what was forgotten since, the bare event."""
        self._bare: list[Event] = []
        """Of the append that is read what nobody knows any more; its last event says whose it is."""
        self._touched: dict[str, set[str]] = {}
        self._left: dict[str, Memory] = {}
        self._added: dict[str, dict[str, int]] = {}
        self._others: dict[str, None] = {}

    def take(self, events: Iterable[Event]) -> None:
        """Read on."""
        for event in events:
            data = event.data
            ours = isinstance(data, MemoryKept | MemoryChanged | MemoryMoved) and data.run == self.run and data.id
            if not ours:
                self._note_bare(event, data)
                self.shelf.take((event,))
                continue
            id = data.id  # type: ignore[attr-defined]  # of the three kinds above
            self.did.append(event)
            had = self.shelf.memories.get(id)
            if had is not None:
                self.before.setdefault(id, had)
                self._note_others(id, had)
            self.shelf.take((event,))
            self._note(id, data, had)

    def _note_bare(self, event: Event, data: Payload) -> None:
        """Take up what the run decided of memories that were forgotten since: nothing is left but that it did."""
        if isinstance(data, MemoryMoved | MemoryChanged) and event.redacted:
            self._bare.append(event)
        elif isinstance(data, MemoryRun):
            if data.id == self.run:
                ranked = data.place.startswith("rank:")
                one = (bare for bare in self._bare if bare.shared.first == event.shared.first)
                self.did += (bare for bare in one if ranked or isinstance(bare.data, MemoryMoved))
            self._bare = []

    def _note(self, id: str, data: Payload, had: Memory | None) -> None:
        touched = self._touched.setdefault(id, set(_ALWAYS))
        now = self.shelf.memories.get(id)
        if now is None:
            return
        self._left[id] = now
        if isinstance(data, MemoryMoved) and had is not None and had.valid_to != now.valid_to:
            touched.add("valid_to")
        if isinstance(data, MemoryChanged):
            touched |= data.after.keys() - {*COUNTS}
            added = self._added.setdefault(id, dict.fromkeys(COUNTS, 0))
            for name in COUNTS:
                if name in data.after:
                    added[name] += int(data.after[name]) - int(data.before.get(name, 0))

    def _note_others(self, id: str, now: Memory) -> None:
        """Note who is neither as the run left it nor as it was before, which is in nobody's way: what a run had put in
        its place was forgotten, perhaps.
        """
        left, before = self._left.get(id), self.before.get(id)
        if left is None:
            return
        for name in self._touched[id]:
            value = getattr(now, name)
            if value != getattr(left, name) and (before is None or value != getattr(before, name)):
                self._others[id] = None

    def others(self) -> tuple[str, ...]:
        """Memories that somebody else changed since, in what the run had changed. Those forgotten are nobody's."""
        for id in self._left:
            now = self.shelf.memories.get(id)
            if now is not None:
                self._note_others(id, now)
        return tuple(self._others)

    def back(self) -> list[Payload]:
        """What restores every memory the run touched; what it kept itself is withdrawn. Nothing when that was done."""
        found: list[Payload] = []
        for id in reversed(self._left):
            now, before = self.shelf.memories.get(id), self.before.get(id)
            if now is None:
                continue
            if before is None:
                if now.status is not Status.WITHDRAWN:
                    moved = MemoryMoved(id=id, was=now.status, status=Status.WITHDRAWN, reason=UNDONE, run=self.run)
                    found.append(moved)
                continue
            found += self._restored(before, now)
        return found

    def _restored(self, before: Memory, now: Memory) -> list[Payload]:
        found: list[Payload] = []
        if (now.status, now.superseded_by) != (before.status, before.superseded_by):
            found.append(
                MemoryMoved(
                    id=now.id,
                    was=now.status,
                    status=before.status,
                    by=before.superseded_by,
                    reason=UNDONE,
                    run=self.run,
                )
            )
        touched = self._touched[now.id] - {*_ALWAYS}
        after = {name: getattr(before, name) for name in sorted(touched) if getattr(before, name) != getattr(now, name)}
        for name, added in self._added.get(now.id, {}).items():
            if added:
                after[name] = max(0, getattr(now, name) - added)
        if after:
            plain = [msgspec.to_builtins(one) for one in ({name: getattr(now, name) for name in after}, after)]
            found.append(MemoryChanged(id=now.id, before=plain[0], after=plain[1], reason=UNDONE, run=self.run))
        return found


class Taken:
    """Reads which steps some runs took, and what each of them made one; and what a model was asked about in any."""

    def __init__(self, runs: set[str]) -> None:
        self._runs = runs
        self._steps: set[tuple[str, str]] = set()
        self._moved: list[MemoryMoved] = []
        """Moves of the append that is read; its last event says of which phase they are."""
        self._one: dict[tuple[str, str], set[str]] = {}
        """By run and memory, all that the run made one with it."""
        self._asked: set[tuple[str, str]] = set()

    def take(self, events: Iterable[Event]) -> None:
        """Read on."""
        for event in events:
            data = event.data
            if isinstance(data, MemoryRun):
                self._asked.update(data.apart)
                self._ran(data)
            elif isinstance(data, MemoryMoved | MemoryChanged) and data.run in self._runs and data.reason != UNDONE:
                if isinstance(data, MemoryMoved):
                    self._steps.add((data.id, data.by or "prune"))
                    self._moved.append(data)
                elif [*data.after] == ["importance"]:
                    self._steps.add((data.id, "rank"))

    def apart(self) -> Apart:
        """All that, for who plans."""
        merged: dict[str, list[set[str]]] = {}
        for (_, id), together in self._one.items():
            merged.setdefault(id, []).append(together)
        return Apart(frozenset(self._steps), merged, frozenset(self._asked))

    def _ran(self, run: MemoryRun) -> None:
        moved, self._moved = self._moved, []
        for one in moved if run.place.startswith("same:") else ():
            fewer, more = sorted((self._together(run.id, one.id), self._together(run.id, one.by)), key=len)
            if fewer is not more:
                more |= fewer
                self._one |= {(run.id, id): more for id in fewer}

    def _together(self, run: str, id: str) -> set[str]:
        return self._one.setdefault((run, id), {id})
