"""What a checkpoint adds to its thread: the channel values that are new, of lists only what differs from the parent's.

Pure: given a view and the values, it says what to record and what to retract. Messages of the main graph become items
of the conversation; the list refers to them. The conversation shown is that of the checkpoint written last: messages
it does not have are retracted, and those of an abandoned line that it takes up again are recorded anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage

from perdure import errors
from perdure.adapters.parts.channels import BY, Ref, Said, Value, saids, stood
from perdure.adapters.parts.checkpoints import CHECKPOINT, GONE, KEPT, ROOT, Checkpoint, Past, Thread
from perdure.adapters.parts.langchain import foreign_id, foreign_span, message_of, payloads_of
from perdure.adapters.parts.snapshots import Codec, Snapshot
from perdure.adapters.parts.sound import sound
from perdure.events import Noted, Payload, native

_ROUTES: Final = ("branch:", "__")
"""How the names of channels begin that hold no state, only where a run goes next."""


def loaded(value: Value, codec: Codec, at: int = 0) -> Any:
    """The value itself. A message that was redacted or pruned is left out, and what others had taken back at a version.
    Of any other list nothing may be missing.
    """
    if value.parts is None:
        return None if value.typed is None else codec.load(value.typed)
    found: list[Any] = []
    total = 0
    for part, count in value.stretches():
        total += count
        if part.messages is not None:
            left = [stood(ref, at) for ref in part.messages[:count]]
            found += [read(ref, codec) for ref in left if ref is not None]
        elif part.typed is not None:
            found += codec.load(part.typed)[:count]
    if total != value.length and not (value.parts and all(part.messages is not None for part in value.parts)):
        raise errors.Damaged(
            "a list of this checkpoint begins with items that were redacted or pruned; go on from another checkpoint"
        )
    return found


def places(value: Value, at: int) -> list[int]:
    """Where the items of a list stand in the log, as `loaded` gives them; those that do not stand there, with the one
    before.
    """
    found: list[int] = []
    last = 0
    for part, count in value.stretches():
        refs = [None] * count if part.messages is None else [stood(ref, at) for ref in part.messages[:count]]
        for ref in refs:
            last = max(last, saids(ref)[0].first) if ref is not None else last
            if ref is not None or part.messages is None:
                found.append(last)
    return found


def read(ref: Ref, codec: Codec) -> BaseMessage:
    """The message of an item: LangGraph's own bytes, or a translation."""
    first = ref[0] if isinstance(ref, tuple) else ref
    if first.typed is not None:
        found: BaseMessage = codec.load(first.typed)
        return found
    group = saids(ref)
    return message_of([item for said in group for item in said.payloads], foreign_id(first.first, group[-1].last))


def carrier(channels: Sequence[str], checkpoint: Checkpoint | None) -> str | None:
    """The channel whose list is told what was said elsewhere since a checkpoint."""
    if checkpoint is None:
        return channels[0] if channels else None
    lists = {name for name, value in checkpoint.values.items() if value.parts is not None}
    return next((name for name in channels if name in lists), None)


class Plan:
    """What a put writes: ranges to retract first, then payloads; and what to remember of each list afterwards."""

    def __init__(self) -> None:
        self.retract: list[tuple[int, int]] = []
        self.payloads: list[Payload] = []
        self.lives: dict[str, Snapshot] = {}


class Planning:
    """Works out one put. `seen` is the version at which whoever puts read the parent as the latest, if they did."""

    def __init__(
        self,
        thread: Thread,
        codec: Codec,
        channels: Sequence[str],
        parent: Checkpoint | None,
        lives: Mapping[str, Snapshot],
        seen: int = 0,
    ) -> None:
        self.thread = thread
        self.codec = codec
        self.parent = parent
        self.speaks = frozenset(channels)
        self.plan = Plan()
        self._onward = thread.tips.get(ROOT) is parent
        self._seen = seen if self._onward else 0
        self._carrier = carrier(channels, parent) if self._seen else None
        self._lives = dict(lives)
        self.wanted: dict[int, Said] = {}
        self._compared: dict[str, int] = {}
        self._held: set[int] = set()

    def put(
        self, record: dict[str, Any], versions: dict[str, Any], new: dict[str, Any], values: dict[str, Any]
    ) -> Plan:
        """The plan for a checkpoint with these channel versions, of which some are new."""
        before = self.parent.values if self.parent is not None else {}
        stored = dict(new)
        for channel, version in versions.items():
            held = before.get(channel)
            known = held is not None and held.version == version
            if channel not in new and not known and (channel in values or held is not None):
                stored[channel] = version
        again = self._unsettled(values, stored)
        if again:
            stored |= {
                channel: versions[channel] for channel in self.speaks if channel in values and channel in versions
            }
        found = {channel: self._value(channel, version, values, again) for channel, version in stored.items()}
        if again:
            kept = [before[channel].refs() for channel in self.speaks - stored.keys() if channel in before]
            self.wanted |= {said.first: said for refs in kept for ref in refs for said in saids(ref)}
            self.plan.retract = self._surplus(self._carrier in stored)
        self.plan.payloads.append(Noted(by=BY, about=CHECKPOINT, data=record | {"values": found}))
        self.plan.lives = {channel: live for channel, live in self._lives.items() if channel in versions}
        return self.plan

    def _value(self, channel: str, version: Any, values: dict[str, Any], again: bool) -> dict[str, Any]:
        value = values.get(channel)
        if type(value) is not list:
            self._lives.pop(channel, None)
            if channel not in values:
                return {"v": version}
            kind, data = self.codec.dump(value)
            return {"v": version, "type": kind, "data": data}
        base, keep = self._shared(channel, value)
        live = self._lives.pop(channel, None) if keep else None
        live = Snapshot(value, self.codec) if live is None else live.followed(keep, value)
        self._lives[channel] = live
        if channel in self.speaks and live.speaks:
            keep, refs = self._rearranged(base, keep, value) if again else (keep, self._added(value[keep:]))
            parts: list[dict[str, Any]] = [{"messages": refs}] if refs else []
        else:
            kind, data = self.codec.dump(value[keep:])
            parts = [{"n": len(value) - keep, "type": kind, "data": data}] if len(value) > keep else []
        return {"v": version, "parts": parts} | ({"keep": keep} if keep else {})

    def _shared(self, channel: str, value: list[Any]) -> tuple[Value | None, int]:
        """The parent's list, and how much of it this one begins with."""
        base = self.parent.values.get(channel) if self.parent is not None else None
        if base is None or base.parts is None:
            return None, 0
        if channel not in self._compared:
            live = self._lives.get(channel)
            if live is None or len(live) != base.length:
                whole = loaded(base, self.codec)
                if len(whole) != base.length:  # something was redacted: it is not what it was
                    return base, 0
                live = self._lives[channel] = Snapshot(whole, self.codec)
            self._compared[channel] = live.shared(value)
        return base, self._compared[channel]

    # ── the conversation ──

    def _unsettled(self, values: dict[str, Any], stored: dict[str, Any]) -> bool:
        """Whether more changes in the conversation than messages at its end."""
        if not self.speaks:
            return False
        tip = self.thread.tips.get(ROOT)
        if tip is not self.parent:
            return True
        lists = [value for channel, value in (tip.values if tip else {}).items() if channel in self.speaks]
        if sum(value.weight for value in lists) != self.thread.tally:
            return True
        if self._carrier is not None and any(said.last <= self._seen for said in list(self.thread.unseen.values())):
            return True
        for channel in self.speaks & stored.keys():
            held = tip.values.get(channel) if tip else None
            value = values.get(channel)
            if held is None or held.empty:
                continue
            if held.parts is None or type(value) is not list or self._shared(channel, value)[1] != held.length:
                return True
        return False

    def _added(self, messages: Iterable[BaseMessage]) -> list[Any]:
        """Record messages at the end of the conversation; what was said elsewhere is there already."""
        return [self._foreign(message) or self._recorded(message) for message in messages]

    def _recorded(self, message: BaseMessage) -> int:
        kind, data = self.codec.dump(message)
        item = {"type": kind, "data": data} | ({"id": str(message.id)} if message.id else {})
        with sound(f"the id of a message, {message.id!a}"):
            str(message.id).encode()
        self.plan.payloads += native(BY, item, payloads_of(message))
        return 0

    def _foreign(self, message: BaseMessage) -> list[int] | None:
        span = foreign_span(message.id)
        heard = self.thread.between(*span) if span is not None else ()
        group = tuple(said for said in heard if said.typed is None and (said.standing or self._late(said)))
        same = group and Snapshot([read(group, self.codec)], self.codec).shared([message])
        return [group[0].first, group[-1].last] if same else None

    def _late(self, said: Said) -> bool:
        """Whether others took an item back when whoever puts had read it: it is referred to, and does not come back."""
        if self._seen:
            return said.last <= self._seen < said.gone
        return self._onward and said.gone > 0 and said.first in self._held

    def _rearranged(self, base: Value | None, keep: int, value: list[Any]) -> tuple[int, list[Any]]:
        """As `_added`, for a list that is no mere continuation of what is shown: items that stand in the right order
        stay, as do those that others took back meanwhile; the rest is recorded anew.
        """
        held = base.refs() if base is not None else []
        self._held = {said.first for ref in held for said in saids(ref)}
        items = self.thread.said.values()
        known = {said.id: said for said in items if said.id is not None and (said.standing or self._late(said))}
        refs: list[Any] = []
        last, broken = 0, False
        for index, message in enumerate(value):
            group = saids(held[index] if index < keep else self._known(message, known))
            stays = [said for said in group if said.standing]
            fits = not stays or (not broken and stays[0].first > last)
            if group and fits and all(said.standing or self._late(said) for said in group):
                last = stays[-1].last if stays else last
                self.wanted |= {said.first: said for said in stays}
                refs.append([group[0].first, group[-1].last] if group[0].typed is None else group[0].first)
            else:
                keep, broken = min(keep, index), True
                refs.append(self._recorded(message))
        return keep, refs[keep:]

    def _known(self, message: BaseMessage, known: dict[str, Said]) -> Ref | None:
        """The item that says just this, if there is one."""
        span = self._foreign(message)
        if span is not None:
            return tuple(self.thread.between(*span))
        found = known.get(message.id or "")
        same = found is not None and Snapshot([read(found, self.codec)], self.codec).shared([message])
        return found if same else None

    def _surplus(self, told: bool) -> list[tuple[int, int]]:
        """The stretches of the conversation that this checkpoint does not have, though it was `told` of them."""
        upto = self._seen if told else 0
        return ranges(self.thread, lambda said: (said.seen or said.last <= upto) and said.first not in self.wanted)


def ranges(thread: Thread, leaves: Callable[[Said], bool]) -> list[tuple[int, int]]:
    """The stretches of versions in which everything that stands leaves the conversation."""
    found: list[tuple[int, int]] = []
    open = False
    for said in [item for item in list(thread.said.values()) if item.standing]:
        if not leaves(said):
            open = False
        elif open:
            found[-1] = (found[-1][0], said.last)
        else:
            found.append((said.first, said.last))
            open = True
    return found


# ── deleting ──


def farewell(thread: Thread, gone: Sequence[Checkpoint]) -> list[Payload]:
    """What to record when checkpoints are deleted: in full, the children that stood on them; then, which ones go."""
    lost = {(item.ns, item.id) for item in gone}
    found: list[Payload] = []
    for checkpoint in [item for space in thread.spaces.values() for item in space.values()]:
        orphan = checkpoint.parent is not None and (checkpoint.ns, checkpoint.parent) in lost
        if (checkpoint.ns, checkpoint.id) not in lost and orphan:
            data: dict[str, Any] = {"id": checkpoint.id, "values": spelled(checkpoint, None)}
            data |= {"ns": checkpoint.ns} if checkpoint.ns else {}
            past = {channel: history(thread, checkpoint, channel) for channel in _owing(checkpoint)}
            found.append(Noted(by=BY, about=KEPT, data=data | remembered(past)))
    found.append(Noted(by=BY, about=GONE, data={"checkpoints": [list(item) for item in sorted(lost)]}))
    return found


def spelled(checkpoint: Checkpoint, parent: Checkpoint | None, moved: dict[int, int] | None = None) -> dict[str, Any]:
    """The channel values of a checkpoint beside its parent's, or whole; messages at the places they were `moved` to."""
    found: dict[str, Any] = {}
    for channel, value in checkpoint.values.items():
        base = parent.values.get(channel) if parent is not None else None
        if base is not value:
            found[channel] = _spelled(value, base, moved)
    return found


def _spelled(value: Value, base: Value | None, moved: dict[int, int] | None) -> dict[str, Any]:
    if value.typed is not None:
        return {"v": value.version, "type": value.typed[0], "data": value.typed[1]}
    if value.parts is None:
        return {"v": value.version}
    beside = base is not None and value.base is base
    parts: list[dict[str, Any]] = []
    for part, count in [(part, part.count) for part in value.parts] if beside else value.stretches():
        if part.typed is not None:
            parts.append({"n": count, "type": part.typed[0], "data": part.typed[1]})
        elif parts and "messages" in parts[-1]:
            parts[-1]["messages"] += _places(part.messages or (), count, moved)
        else:
            parts.append({"messages": _places(part.messages or (), count, moved)})
    return {"v": value.version, "parts": parts} | ({"keep": value.keep} if beside else {})


def _places(refs: Sequence[Ref | None], count: int, moved: dict[int, int] | None) -> list[Any]:
    found: list[Any] = []
    for ref in refs[:count]:
        group = saids(ref)
        if group:
            first, last = (version if moved is None else moved[version] for version in (group[0].first, group[-1].last))
            found.append([first, last] if group[0].typed is None else first)
    return found


def _owing(checkpoint: Checkpoint) -> list[str]:
    """The channels whose value may rest on the writes of ancestors."""
    return [name for name, value in checkpoint.values.items() if value.empty and not name.startswith(_ROUTES)]


def remembered(past: dict[str, Past], moved: dict[int, int] | None = None) -> dict[str, Any]:
    """What channels owe to ancestors that are gone, spelled."""
    found: dict[str, Any] = {}
    for channel, item in past.items():
        if item.writes or item.seed is not None:
            seed = {} if item.seed is None else {"seed": _spelled(item.seed, None, moved)}
            found[channel] = {"writes": item.writes} | seed
    return {"history": found} if found else {}


def history(thread: Thread, checkpoint: Checkpoint, channel: str) -> Past:
    """What a channel owes to the ancestors of a checkpoint: the value of the nearest one that stored it, and every
    write since.
    """
    steps: list[list[list[Any]]] = []
    seed: Value | None = None
    last = checkpoint
    for ancestor in thread.ancestors(checkpoint):
        last = ancestor
        mine = [write for write in thread.pending(ancestor) if write.channel == channel]
        steps.append([[write.task, channel, *write.typed] for write in mine])
        value = ancestor.values.get(channel)
        if value is not None and not value.empty:
            seed = value
            break
    else:
        past = last.history.get(channel)
        if past is not None:
            seed = past.seed
            steps.append(past.writes)
    return Past(seed, [write for step in reversed(steps) for write in step])
