"""What a store should hold, kept apart from it in plain lists: the model that mixed histories are compared with."""

from typing import Any

import perdure
from perdure.core.session import state as states
from perdure.core.session.checkpoints import CheckpointExpired, CheckpointPinned, CheckpointTaken
from perdure.core.session.event import Event
from perdure.core.session.kinds import blank
from perdure.core.session.state import BLANK, State, to_bytes


class Fact:
    """One event as it was first seen. Sessions that share a stretch of a log share its facts; `rows` is the session in
    whose rows they lie: the one that wrote them, or one that took copies over.
    """

    def __init__(self, event: Event) -> None:
        self.kind = event.kind
        self.owner = event.session
        self.rows: str = event.session
        self.digest = event.digest
        self.data = event.entry.data
        self.envelope = (event.id, event.at, event.actor, event.agent, event.child_agent, event.target, event.turn)
        self.redacted = event.redacted

    def copy(self, rows: str) -> "Fact":
        """The same, in the rows of a session that has its own copy."""
        made = Fact.__new__(Fact)
        made.__dict__.update(self.__dict__)
        made.rows = rows
        return made


class Kept:
    """A checkpoint that should be there."""

    def __init__(self, taken: CheckpointTaken) -> None:
        self.version = taken.state_version
        self.expires_at = taken.expires_at
        self.pinned = False

    def usable(self, now: int) -> bool:
        return self.pinned or self.expires_at is None or self.expires_at > now


class History:
    """A living session: its facts after the anchor, and the checkpoints it should have."""

    def __init__(self, facts: list[Fact], anchor: int = 0, start: bytes | None = None) -> None:
        self.facts = facts
        self.anchor = anchor
        self.start = start
        self.checkpoints: dict[str, Kept] = {}
        self.pending: dict[str, Any] = {}

    @property
    def version(self) -> int:
        return self.anchor + len(self.facts)

    def fact(self, version: int) -> Fact:
        return self.facts[version - self.anchor - 1]

    def beginning(self) -> State:
        return BLANK if self.start is None else states.from_bytes(self.start)

    def branch(self, at: int) -> "History":
        """What a branch at this version starts from."""
        return History(self.facts[: at - self.anchor], self.anchor, self.start)

    def copy(self, rows: str) -> "History":
        """What a store it is imported into holds of it: the log in its own rows, but no checkpoints."""
        return History([fact.copy(rows) for fact in self.facts], self.anchor, self.start)

    def see(self, events: list[Event]) -> None:
        """Take over new events."""
        for event in events:
            assert event.version == self.version + 1
            self.facts.append(Fact(event))
            match event.data:
                case CheckpointTaken() as taken:
                    self.checkpoints[taken.id] = Kept(taken)
                case CheckpointPinned() as pinned if pinned.id in self.checkpoints:
                    self.checkpoints[pinned.id].pinned = pinned.pinned
                case CheckpointExpired() as expired:
                    for name in expired.ids:
                        self.checkpoints.pop(name, None)
                case _:
                    pass

    def prune(self, upto: int, start: bytes) -> None:
        self.facts = self.facts[upto - self.anchor :]
        self.anchor, self.start = upto, start


def hand_over(erased: str, living: dict[str, History]) -> None:
    """When a session is erased, a log that needs its rows has copies of them in the rows it goes on in."""
    copies: dict[tuple[str, int], Fact] = {}
    for history in living.values():
        leaning = [index for index, fact in enumerate(history.facts) if fact.rows == erased]
        if not leaning:
            continue
        heir = history.facts[leaning[-1] + 1].rows
        for index in leaning:
            place = (heir, history.anchor + index + 1)
            history.facts[index] = copies.setdefault(place, history.facts[index].copy(heir))


def compare_events(history: History, events: list[Event]) -> None:
    """Every event is what it was when it was first seen, but for redactions."""
    assert [event.version for event in events] == list(range(history.anchor + 1, history.version + 1))
    for fact, event in zip(history.facts, events, strict=True):
        found = Fact(event)
        assert (found.kind, found.owner, found.digest, found.envelope) == (
            fact.kind,
            fact.owner,
            fact.digest,
            fact.envelope,
        )
        assert event.redacted is fact.redacted
        if fact.redacted:
            assert event.data == blank(fact.kind)
        else:
            assert found.data == fact.data


def states_of(history: History, events: list[Event]) -> dict[int, bytes]:
    """The state after every version, folded from nothing but the events."""
    state = history.beginning()
    found = {history.anchor: to_bytes(state)} if history.anchor else {}
    for event in events:
        state = states.evolve(state, event)
        found[event.version] = to_bytes(state)
    return found


def examine(history: History, session: perdure.Session, now: int, *, versions: list[int] | None = None) -> None:
    """Compare a session with its history: events, the states at some or all versions, every usable checkpoint."""
    events = session.events()
    compare_events(history, events)
    folded = states_of(history, events)
    assert to_bytes(session.state()) == folded[history.version]
    for version in sorted(folded) if versions is None else versions:
        assert to_bytes(session.state(at=version)) == folded[version]
    usable = {name: kept for name, kept in history.checkpoints.items() if kept.usable(now)}
    assert {item.id: item.version for item in session.checkpoints()} == {
        name: kept.version for name, kept in usable.items()
    }
    for name, kept in usable.items():
        restored = session.restore(name)
        assert not restored.rebuilt
        assert to_bytes(restored.state) == folded[kept.version]
        later = [event for event in events if event.version > kept.version]
        assert to_bytes(states.fold(restored.state, later)) == folded[history.version]
