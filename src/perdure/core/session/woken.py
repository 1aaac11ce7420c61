"""The report of a waking: what the session was restored from, and what was rebound, refreshed, loaded and degraded."""

from enum import Enum
from typing import Any, NoReturn

import msgspec

from perdure.core.errors import ToolUnbound
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Phase
from perdure.core.session.turns import Unfinished


class Footing(msgspec.Struct, frozen=True, kw_only=True):
    """What the state was restored from: checkpoint `seq`, made of the full one `full` and so many deltas, with so many
    events of the log replayed on top. Without a usable checkpoint `seq` is None, and the log spoke alone.

    `damaged` are the checkpoints that were passed over, which is a `fallback`; `rebuilt` those made anew from the log.
    """

    seq: int | None = None
    checkpoint: str | None = None
    version: int | None = None
    full: int | None = None
    deltas: int = 0
    replayed: int = 0
    damaged: tuple[int, ...] = ()
    rebuilt: tuple[int, ...] = ()
    snapshot_dropped: bool = False

    @property
    def fallback(self) -> bool:
        """Whether something older than the newest checkpoint had to do."""
        return bool(self.damaged)


class EvidenceOutcome(Enum):
    """What became of wanted evidence."""

    REUSED = "reused"
    RETRIEVED = "retrieved"
    FAILED = "failed"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Wanted evidence as it stands now: what was found, when it was fetched, and how fresh that is, from 0 to 1.

    What failed has no results: `reason` says why. `remark` tells what else went wrong on the way to it.
    """

    id: str
    query: str
    source: str
    required: bool
    outcome: EvidenceOutcome
    results: Any = None
    fetched_at: int | None = None
    freshness: float = 0.0
    reason: str = ""
    remark: str = ""


class TokenBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens the session may use, has used and has left; without a limit the first and the last are None."""

    limit: int | None
    consumed: int

    @property
    def left(self) -> int | None:
        """What remains."""
        return None if self.limit is None else self.limit - self.consumed


class ToolOutcome(Enum):
    """What became of a tool the session needs."""

    REBOUND = "rebound"
    SUBSTITUTED = "substituted"
    DEGRADED = "degraded"


class Uncallable(msgspec.Struct, frozen=True, kw_only=True):
    """Stands where the `call` of a tool would that cannot be called. It is false; calling it is a `ToolUnbound`."""

    tool: str
    why: str
    reason: str = ""

    def __bool__(self) -> bool:
        return False

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, and say why."""
        raise ToolUnbound(f"tool {self.tool} {self.why}", tool=self.tool, reason=self.reason)


class BoundTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool the session needs and what it is bound to. `call` is what the registry holds for it, None if nothing.

    A substituted one is bound to the tool `substitute`, whose version it has. A degraded one is bound to nothing: its
    `call` is false, and to call it is a `ToolUnbound` that says why.
    """

    name: str
    constraint: str
    required: bool
    outcome: ToolOutcome
    version: str | None = None
    substitute: str | None = None
    reason: str = ""
    call: Any = None


class SessionMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The layer that lives in the session's own state."""

    vars: dict[str, Any] = {}
    scratchpads: dict[str, str] = {}


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of memory: working is always reset, session is restored from the state, the rest is loaded.

    `failed` says of each layer that could not be loaded why; it is empty then.
    """

    working: tuple[Any, ...] = ()
    session: SessionMemory = SessionMemory()
    episodic: tuple[Any, ...] = ()
    semantic: tuple[Any, ...] = ()
    procedural: tuple[Any, ...] = ()
    failed: dict[str, str] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How much each layer holds."""
        return {
            "working": len(self.working),
            "session": len(self.session.vars) + len(self.session.scratchpads),
            "episodic": len(self.episodic),
            "semantic": len(self.semantic),
            "procedural": len(self.procedural),
        }


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One question to the session's integrity; when it is not ok, `what` is wrong. An excused one does not count."""

    name: str
    ok: bool
    what: str = ""
    excused: bool = False


class Interrupted(msgspec.Struct, frozen=True, kw_only=True):
    """The last turn, which ended before its time: why, by the event of which version, and the tools to retry."""

    turn: int | None
    version: int
    reason: str
    unfinished: tuple[Unfinished, ...] = ()


class Woken(msgspec.Struct, frozen=True, kw_only=True):
    """A session that goes on, and how it came to. `reserved` is money set aside before it fell asleep and not settled.

    When an earlier call with the same key had woken it, `repeated` is set and the report tells how it stands now.
    """

    session: SessionId
    version: int
    phase: Phase
    tokens: TokenBudget
    restored: Footing | None = None
    evidence: tuple[Evidence, ...] = ()
    tools: dict[str, BoundTool] = {}
    memory: Layers = Layers()
    checks: tuple[Check, ...] = ()
    interrupted: Interrupted | None = None
    reserved: dict[str, int] = {}
    repeated: bool = False

    @property
    def degraded(self) -> tuple[str, ...]:
        """Optional tools the session goes on without."""
        return tuple(name for name, tool in self.tools.items() if tool.outcome is ToolOutcome.DEGRADED)

    @property
    def substituted(self) -> dict[str, str]:
        """Tools that another one stands in for, and which."""
        return {name: tool.substitute for name, tool in self.tools.items() if tool.substitute is not None}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that is not as it was, in words."""
        found = [f"checkpoint {seq} was damaged" for seq in self.restored.damaged] if self.restored else []
        if self.restored is not None and self.restored.snapshot_dropped:
            found.append("a cached state was not what the log gives; it was dropped")
        for tool in self.tools.values():
            if tool.outcome is ToolOutcome.SUBSTITUTED:
                found.append(f"tool {tool.name} was substituted by {tool.substitute} {tool.version}")
            elif tool.outcome is ToolOutcome.DEGRADED:
                found.append(f"tool {tool.name} is not bound: {tool.reason}")
        lost = [item for item in self.evidence if item.outcome is EvidenceOutcome.FAILED]
        found += [f"evidence {item.id} could not be had again: {item.reason}" for item in lost]
        found += [f"evidence {item.id}: {item.remark}" for item in self.evidence if item.remark]
        found += [f"memory layer {name} could not be loaded: {why}" for name, why in self.memory.failed.items()]
        return (*found, *[f"check {check.name} was excused: {check.what}" for check in self.checks if not check.ok])
