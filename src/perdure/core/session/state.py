"""The state of a session: one typed document folded from its events, small however long the log.

`evolve` is total: any event folds into any state without failing, so a log that verifies always has a state.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import msgspec

from perdure.core.session import (
    agents,
    approval,
    asking,
    budget,
    checkpoints,
    children,
    cleanup,
    codec,
    lifecycle,
    links,
    origin,
    quality,
    scratchpad,
    steering,
    tools,
    turns,
    vars,
)
from perdure.core.session.agents import Agents
from perdure.core.session.budget import Budget
from perdure.core.session.checkpoints import Checkpoints
from perdure.core.session.children import Children
from perdure.core.session.event import Event, payloads_of
from perdure.core.session.lifecycle import Life, Phase
from perdure.core.session.links import Links
from perdure.core.session.origin import Config, Origin
from perdure.core.session.quality import Quality
from perdure.core.session.scratchpad import Scratchpads
from perdure.core.session.steering import Steering
from perdure.core.session.tools import Tools
from perdure.core.session.turns import Turns
from perdure.core.session.values import STATE_LIMITS
from perdure.core.session.vars import Vars

SCHEMA_VERSION: Final = "1.0.0"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a session but its history."""

    schema: str = SCHEMA_VERSION
    tenant: str = ""
    session: str = ""
    version: int = 0
    origin: Origin = Origin()
    life: Life = Life()
    turns: Turns = Turns()
    vars: Vars = Vars()
    scratchpads: Scratchpads = Scratchpads()
    budget: Budget = Budget()
    tools: Tools = Tools()
    checkpoints: Checkpoints = Checkpoints()
    children: Children = Children()
    agents: Agents = Agents()
    steering: Steering = Steering()
    links: Links = Links()
    quality: Quality = Quality()

    @property
    def phase(self) -> Phase:
        """Where the session stands."""
        return self.life.phase

    @property
    def config(self) -> Config:
        """What the session runs with."""
        return self.origin.config or _NO_CONFIG


_NO_CONFIG = origin.Config()
BLANK: Final = State()
_ASPECTS: Final[tuple[tuple[str, Any], ...]] = (
    ("origin", origin),
    ("life", lifecycle),
    ("life", cleanup),
    ("turns", turns),
    ("turns", approval),
    ("vars", vars),
    ("scratchpads", scratchpad),
    ("budget", budget),
    ("budget", asking),
    ("tools", tools),
    ("checkpoints", checkpoints),
    ("children", children),
    ("agents", agents),
    ("steering", steering),
    ("links", links),
    ("quality", quality),
)


def _steps() -> dict[str, tuple[str, Callable[[Any, Event], Any]]]:
    """Which part each kind folds into: the part of the module that defines it."""
    steps: dict[str, tuple[str, Callable[[Any, Event], Any]]] = {}
    for field, aspect in _ASPECTS:
        for item in payloads_of(aspect):
            steps[item.kind] = (field, aspect.evolve)
    return steps


_STEPS: Final = _steps()
_MUTATING: Final = frozenset(item.kind for _, aspect in _ASPECTS for item in payloads_of(aspect) if item.mutates)
_HEARD: Final = frozenset(
    {agents.RoomMessage.kind, steering.Steered.kind, steering.FollowedUp.kind, steering.Feedback.kind}
)
"""Interactions outside of turns; those inside, the turns keep themselves."""
_BACKGROUND: Final = frozenset({turns.ToolFinished.kind, quality.Retrieval.kind, children.ChildFinished.kind})
_COUNTED: Final = _MUTATING | _HEARD | _BACKGROUND


def evolve(state: State, event: Event) -> State:
    """The state after one more event."""
    return fold(state, (event,))


def fold(state: State, events: Iterable[Event]) -> State:
    """The state after all of these; each part is carried along and put back once."""
    changed: dict[str, Any] = {}
    version = state.version
    for event in events:
        kind, version = event.entry.kind, event.version
        found = _STEPS.get(kind)
        if kind == origin.Created.kind:
            state, changed = _begin(msgspec.structs.replace(state, **changed), event), {}
        elif found is not None:
            field, step = found
            part = changed.get(field)
            changed[field] = step(getattr(state, field) if part is None else part, event)
            if kind in _COUNTED:
                _count(state, changed, kind, event.at)
    return msgspec.structs.replace(state, version=version, **changed)


def _count(state: State, changed: dict[str, Any], kind: str, at: int) -> None:
    """Keep the rate of mutations, if the session's checkpoints adapt to it, and the time of the last interaction
    outside of turns, if its configuration speaks of time-outs.
    """
    config: Config | None = changed.get("origin", state.origin).config
    if config is None:
        return
    if kind in _MUTATING and config.checkpoints is not None and config.checkpoints.adaptive is not None:
        changed["checkpoints"] = checkpoints.count_mutation(changed.get("checkpoints", state.checkpoints), at)
    limits = config.timeouts
    if limits is not None and (kind in _HEARD or (limits.background and kind in _BACKGROUND)):
        changed["life"] = msgspec.structs.replace(changed.get("life", state.life), heard_at=at)


def _begin(state: State, event: Event) -> State:
    """A session starts: from nothing, or as a branch from the state of its prefix.

    A branch keeps context (turn count, scratchpads, tools, agents, wanted evidence) and, unless it is single-level,
    `vars`; it starts a life, a budget share, checkpoints and links of its own, and no turn is open in it.
    """
    data = event.data
    began = origin.evolve(state.origin, event)
    criteria = dict.fromkeys(getattr(data, "exit_criteria", ()), False)
    life = lifecycle.Life(since=event.at, criteria=criteria)
    identity: dict[str, Any] = {"tenant": event.tenant, "session": event.session, "version": event.version}
    if began.lineage is None:
        return State(**identity, origin=began, life=life)
    return State(
        **identity,
        origin=began,
        life=msgspec.structs.replace(life, criteria=state.life.criteria | criteria),
        turns=msgspec.structs.replace(state.turns, open=None),
        vars=vars.Vars() if began.lineage.kind in origin.SINGLE_LEVEL else state.vars,
        scratchpads=state.scratchpads,
        tools=state.tools,
        agents=state.agents,
        steering=state.steering,
        quality=quality.inherited(state.quality),
    )


def to_bytes(state: State) -> bytes:
    """The canonical bytes of a state; equal states have equal bytes."""
    return codec.encode_struct(state, STATE_LIMITS)


@cache
def _decoder() -> Callable[[bytes], State]:
    return codec.decoder(State, STATE_LIMITS)


def from_bytes(data: bytes) -> State:
    """The state behind canonical bytes, or `Invalid`."""
    return _decoder()(data)


def to_document(state: State) -> dict[str, Any]:
    """The state as plain data, for diffs and for people."""
    document: dict[str, Any] = codec.decode(to_bytes(state), STATE_LIMITS)
    return document


def document_bytes(document: dict[str, Any]) -> bytes:
    """The canonical bytes of a state given as plain data; the ones `to_bytes` gives."""
    return codec.encode(document, STATE_LIMITS)


def copy(state: State) -> State:
    """The same state, sharing no dict with this one: whoever changes it changes nothing else."""
    return from_bytes(to_bytes(state))
