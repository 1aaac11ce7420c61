"""The lifecycle as one table: which move leads where, what must hold first, what follows.

A move that is not in `TABLE` does not exist. Guards are pure questions to the facts; effects are names that the
services carry out. The diagram in docs/ARCHITECTURE.md is drawn from this table.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final

import msgspec

from perdure.core.errors import GuardFailed, MoveRefused, Suspended, Terminal
from perdure.core.session.event import Event, Payload


class Phase(Enum):
    """Where a session stands in its life."""

    INIT = "init"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    COMPLETED = "completed"
    TERMINATED = "terminated"
    ARCHIVED = "archived"


class Effect(Enum):
    """What a move brings with it, by name; the services know how."""

    CHECKPOINT = "checkpoint"
    INTERRUPT_TURN = "interrupt_turn"
    FLUSH_WORKING_MEMORY = "flush_working_memory"
    RELEASE_TOOLS = "release_tools"
    COMPENSATE = "compensate"
    SEAL = "seal"
    REHYDRATE = "rehydrate"
    MOVE_TO_COLD = "move_to_cold"


class MoveFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the guards need to know."""

    turn_open: bool = False
    vars_valid: bool = True
    unbound_tools: tuple[str, ...] = ()
    open_children: tuple[str, ...] = ()
    unmet_criteria: tuple[str, ...] = ()
    consistent: bool = True


Guard = Callable[[MoveFacts], str | None]
"""None when the move may go on, else the reason it may not."""


def ready(facts: MoveFacts) -> str | None:
    if not facts.vars_valid:
        return "its vars do not fit their schema; repair them with patch_vars first"
    if facts.unbound_tools:
        return f"required tools are not bound: {', '.join(facts.unbound_tools)}; bind them first"
    return None


def done(facts: MoveFacts) -> str | None:
    if facts.turn_open:
        return "a turn is open; finish or interrupt it first"
    if facts.open_children:
        return f"{len(facts.open_children)} children have not ended; wait for them or terminate them first"
    if facts.unmet_criteria:
        return f"exit criteria not met: {', '.join(facts.unmet_criteria)}; record them as met first"
    return None


def whole(facts: MoveFacts) -> str | None:
    return None if facts.consistent else "its state does not verify; run verify and repair it first"


def always(_: MoveFacts) -> str | None:
    return None


class Move(msgspec.Struct, frozen=True):
    """One row of the table."""

    source: Phase
    event: str
    to: Phase
    guard: Guard
    effects: tuple[Effect, ...]


_SLEEP = (Effect.INTERRUPT_TURN, Effect.CHECKPOINT, Effect.FLUSH_WORKING_MEMORY, Effect.RELEASE_TOOLS)
_END = (Effect.INTERRUPT_TURN, Effect.CHECKPOINT, Effect.COMPENSATE, Effect.RELEASE_TOOLS)
P = Phase
TABLE: Final = (
    Move(P.INIT, "activate", P.ACTIVE, ready, ()),
    Move(P.INIT, "terminate", P.TERMINATED, always, _END),
    Move(P.ACTIVE, "suspend", P.SUSPENDED, always, _SLEEP),
    Move(P.ACTIVE, "timeout", P.SUSPENDED, always, _SLEEP),
    Move(P.ACTIVE, "complete", P.COMPLETED, done, (Effect.CHECKPOINT, Effect.SEAL, Effect.RELEASE_TOOLS)),
    Move(P.ACTIVE, "terminate", P.TERMINATED, always, _END),
    Move(P.SUSPENDED, "resume", P.RESUMED, whole, (Effect.REHYDRATE,)),
    Move(P.SUSPENDED, "expire", P.TERMINATED, always, _END),
    Move(P.SUSPENDED, "terminate", P.TERMINATED, always, _END),
    Move(P.RESUMED, "reactivate", P.ACTIVE, whole, ()),
    Move(P.RESUMED, "terminate", P.TERMINATED, always, _END),
    Move(P.COMPLETED, "archive", P.ARCHIVED, always, (Effect.MOVE_TO_COLD,)),
    Move(P.TERMINATED, "archive", P.ARCHIVED, always, (Effect.MOVE_TO_COLD,)),
)
MOVES: Final[Mapping[tuple[Phase, str], Move]] = {(move.source, move.event): move for move in TABLE}
MOVE_NAMES: Final = tuple(sorted({move.event for move in TABLE}))
TERMINAL: Final = frozenset({P.COMPLETED, P.TERMINATED, P.ARCHIVED})


class Moved(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The phase changed along one row of the table."""

    kind: ClassVar[str] = "moved"
    event: str = ""
    source: Phase | None = None
    to: Phase | None = None
    reason: str = ""


class CompensationRegistered(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Something to undo if the session is terminated."""

    kind: ClassVar[str] = "compensation_registered"
    callers: ClassVar[bool] = True
    name: str = ""
    arguments: dict[str, Any] = {}


class Compensated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A registered compensation was run, last registered first."""

    kind: ClassVar[str] = "compensated"
    name: str = ""
    index: int = 0
    error: str | None = None


class ExitCriterion(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A declared criterion is met or not met; an undeclared one becomes declared."""

    kind: ClassVar[str] = "exit_criterion"
    callers: ClassVar[bool] = True
    name: str = ""
    met: bool = False
    evidence: str = ""


class Compensation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One registered undo."""

    name: str
    arguments: dict[str, Any] = {}
    done: bool = False


class Noted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far one step of a clean-up has come: done, or failed for the first time at `at` and tried again since."""

    at: int = 0
    done: bool = False
    error: str | None = None


class Life(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps. `spent` is µs per finished stay in a phase.

    `cleanup` is what was noted of the clean-up in this stay, `heard_at` the last interaction outside of turns; it is
    kept only where the session's own configuration speaks of time-outs.
    """

    phase: Phase = Phase.INIT
    since: int = 0
    spent: dict[str, int] = {}
    suspensions: int = 0
    reason: str = ""
    compensations: tuple[Compensation, ...] = ()
    criteria: dict[str, bool] = {}
    cleanup: dict[str, Noted] = {}
    heard_at: int = 0


def allowed(phase: Phase) -> tuple[str, ...]:
    """The moves that exist from here."""
    return tuple(move.event for move in TABLE if move.source is phase)


def diagram() -> str:
    """The table as a Mermaid state diagram; docs/ARCHITECTURE.md shows exactly this."""
    lines = ["stateDiagram-v2", "    [*] --> init"]
    lines += [f"    {move.source.value} --> {move.to.value}: {move.event}" for move in TABLE]
    return "\n".join([*lines, "    archived --> [*]"])


def find_move(phase: Phase, event: str) -> Move:
    """The row for this move; `MoveRefused` names what is allowed instead."""
    move = MOVES.get((phase, event))
    if move is None:
        options = allowed(phase)
        hint = (
            f"allowed from here: {', '.join(options)}" if options else "nothing leads on from here; branch it instead"
        )
        raise MoveRefused(
            f"{event!r} is not a move from {phase.value}; {hint}", event=event, phase=phase.value, allowed=options
        )
    return move


def decide_move(part: Life, event: str, facts: MoveFacts, reason: str = "") -> Moved:
    """The move, if the table has it and its guard agrees."""
    move = find_move(part.phase, event)
    refusal = move.guard(facts)
    if refusal is not None:
        raise GuardFailed(f"cannot {event}: {refusal}", event=event, phase=part.phase.value, reason=refusal)
    return Moved(event=event, source=move.source, to=move.to, reason=reason)


def must_be_awake(part: Life, session: str) -> None:
    """Refuse work on a session that is not ACTIVE, and say which move would help."""
    if part.phase is Phase.ACTIVE:
        return
    if part.phase in TERMINAL:
        raise Terminal(
            f"session {session} is {part.phase.value}; branch it to go on", session=session, phase=part.phase.value
        )
    if part.phase is Phase.SUSPENDED:
        raise Suspended(f"session {session} is suspended; resume it first", session=session, since=part.since)
    step = "activate" if part.phase is Phase.INIT else "reactivate"
    raise Suspended(f"session {session} is {part.phase.value}; {step} it first", session=session, since=part.since)


def evolve(part: Life, event: Event) -> Life:
    """Fold one event into the life."""
    data = event.data
    match data:
        case Moved(to=Phase() as to):
            name = part.phase.value
            stay = max(0, event.at - part.since)
            if part.cleanup and to not in TERMINAL:  # it goes on: whatever ends it later cleans up anew
                part = msgspec.structs.replace(part, cleanup={})
            return msgspec.structs.replace(
                part,
                phase=to,
                since=event.at,
                spent={**part.spent, name: part.spent.get(name, 0) + stay},
                suspensions=part.suspensions + (to is Phase.SUSPENDED),
                reason=data.reason,
            )
        case CompensationRegistered():
            added = (*part.compensations, Compensation(data.name, data.arguments))
            return msgspec.structs.replace(part, compensations=added)
        case Compensated():
            done_one = tuple(
                msgspec.structs.replace(item, done=True) if index == data.index else item
                for index, item in enumerate(part.compensations)
            )
            return msgspec.structs.replace(part, compensations=done_one)
        case ExitCriterion():
            return msgspec.structs.replace(part, criteria={**part.criteria, data.name: data.met})
        case _:
            return part
