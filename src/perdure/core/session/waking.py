"""Waking, as far as it is deciding: how fresh evidence is, what is left to spend, what a tool is bound to, and whether
everything adds up. The service asks the world; here its answers become a plan or a typed refusal.

Invariant: a plan that is not refused leaves no required tool unbound, and refusing changes nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp, log
from typing import Any, Final

import msgspec

from perdure.core.errors import (
    InsufficientTokenBudget,
    Invalid,
    RequiredToolUnavailable,
    SessionIntegrity,
    ToolUnauthorized,
)
from perdure.core.session import tools as bindings
from perdure.core.session.budget import Account
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Phase, find_move
from perdure.core.session.origin import Isolation
from perdure.core.session.quality import Retrieval, Wanted
from perdure.core.session.shown import shown
from perdure.core.session.state import State
from perdure.core.session.timeouts import LONGEST
from perdure.core.session.tools import ToolBound, Tools
from perdure.core.session.woken import (
    BoundTool,
    Check,
    Evidence,
    EvidenceOutcome,
    TokenBudget,
    ToolOutcome,
    Uncallable,
)

SECOND: Final = 1_000_000
CHECKS: Final = ("chain", "state", "turn", "tools", "budget", "children")
EXCUSABLE: Final = ("budget", "children")
"""What lies beside the session's own log, and may be put right later."""
_FLAGS: Final = ("allow_fallback", "require_checkpoint", "record_evidence", "require_memory")


class WakePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How strict waking is, and how fresh evidence has to be. Times are seconds.

    - `allow_fallback`: go on from an older checkpoint, or from the log alone, when the newest is damaged.
    - `require_checkpoint`: do not go on from the log alone.
    - `max_tokens`: a limit besides the session's own; the smaller one counts. `min_tokens`: what must be left of it.
    - `threshold`: how fresh evidence must be, from 0 to 1. `half_lives` by kind of source, `half_life` for the others.
    - `deadline`: for one retrieval, or one layer of memory; None waits. `cache_ttl`: how long a retrieval is cached.
    - `record_evidence`: write what was retrieved to the log, so that it outlives this process.
    - `require_memory`: refuse when a layer cannot be loaded. `excuse`: integrity checks that may fail.
    """

    allow_fallback: bool = True
    require_checkpoint: bool = False
    max_tokens: int | None = None
    min_tokens: int = 1
    threshold: float = 0.5
    half_life: float = 3600.0
    half_lives: dict[str, float] = {}
    deadline: float | None = 10.0
    cache_ttl: float = 3600.0
    record_evidence: bool = True
    require_memory: bool = False
    excuse: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _FLAGS:
            if type(getattr(self, name)) is not bool:
                raise Invalid(f"{name} is True or False, not {shown(getattr(self, name))}")
        for name, count in (("max_tokens", self.max_tokens), ("min_tokens", self.min_tokens)):
            if (type(count) is not int or count < 0) and (name, count) != ("max_tokens", None):
                raise Invalid(f"{name} is a whole number of tokens, not {shown(count)}")
        if type(self.threshold) not in (int, float) or not 0 <= self.threshold <= 1:
            raise Invalid(f"threshold is a number from 0 to 1, not {shown(self.threshold)}")
        if type(self.half_lives) is not dict:
            raise Invalid(f"half_lives is a dict of seconds by kind of source, not {shown(self.half_lives)}")
        times = {"half_life": self.half_life, "cache_ttl": self.cache_ttl, **self.half_lives}
        for name, seconds in (times if self.deadline is None else {**times, "deadline": self.deadline}).items():
            if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST:
                raise Invalid(f"{shown(name)} is a number of seconds above zero, up to {LONGEST}, not {shown(seconds)}")
        if type(self.excuse) is not tuple or any(name not in EXCUSABLE for name in self.excuse):
            raise Invalid(f"excuse is a tuple of the checks {', '.join(EXCUSABLE)}, not {self.excuse!r:.80}")


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose session it is: what authorisation and memory are decided by."""

    tenant: str
    session: SessionId
    owner: str = ""
    actor: str = ""
    agent: str | None = None
    isolation: Isolation = Isolation()


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a registry offers it; `call` is whatever runs it, if the registry holds that."""

    name: str
    version: str
    call: Any = None


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool a session asks for."""

    name: str
    constraint: str = ""
    required: bool = False


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a retriever is asked: the query, the kind of source, for whom, and how many seconds it has."""

    id: str
    query: str
    source: str
    scope: Scope
    deadline: float | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence and when it was fetched, in microseconds."""

    results: Any
    fetched_at: int


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """What a registry said of one tool; `trouble` is what it did wrong, if anything. When it offered nothing,
    `versions` are those there are.
    """

    tool: Tool | None = None
    allowed: bool = False
    substitute: Tool | None = None
    substitute_allowed: bool = False
    trouble: str = ""
    versions: tuple[str, ...] = ()


def scope_of(state: State, actor: str) -> Scope:
    """Whose session this is."""
    origin = state.origin
    return Scope(
        tenant=state.tenant,
        session=SessionId(state.session),
        owner=origin.owner,
        actor=actor,
        agent=origin.agent_id,
        isolation=origin.isolation or Isolation(),
    )


def must_sleep(state: State) -> None:
    """Refuse to wake what is not asleep, naming the moves there are. RESUMED is a waking that a crash cut short."""
    if state.phase is not Phase.RESUMED:
        find_move(state.phase, "resume")


# ── evidence ──


def freshness(age: int, half_life: float) -> float:
    """exp(-ln 2 · age / half_life): 1 when fetched now, a half after each half-life. `age` in µs, the other seconds."""
    return exp(-log(2) * (max(0, age) / SECOND) / half_life)


def freshness_of(found: Found, source: str, now: int, policy: WakePolicy) -> float:
    """How fresh evidence from this kind of source is now."""
    return freshness(now - found.fetched_at, policy.half_lives.get(source, policy.half_life))


def fresh_enough(found: Iterable[Found | None], source: str, now: int, policy: WakePolicy) -> Found | None:
    """The freshest of these, if it may be used again."""
    known = [item for item in found if item is not None]
    latest = max(known, key=lambda item: item.fetched_at, default=None)
    if latest is None or freshness_of(latest, source, now, policy) < policy.threshold:
        return None
    return latest


def retrievals(evidence: Iterable[Evidence], wanted: Mapping[str, Wanted]) -> tuple[Retrieval, ...]:
    """The events that keep what was found, but for what the log holds already."""
    return tuple(
        retrieval_of(item.id, wanted[item.id], Found(results=item.results, fetched_at=item.fetched_at or 0))
        for item in evidence
        if item.outcome is EvidenceOutcome.RETRIEVED
        or (item.outcome is EvidenceOutcome.REUSED and wanted[item.id].answered != item.fetched_at)
    )


def retrieval_of(name: str, wanted: Wanted, found: Found) -> Retrieval:
    """The event that keeps evidence."""
    return Retrieval(
        id=name,
        query=wanted.query,
        source=wanted.source,
        results=found.results,
        keep=True,
        required=wanted.required,
        fetched_at=found.fetched_at,
    )


# ── tokens ──


def token_budget(state: State, policy: WakePolicy) -> TokenBudget:
    """What the session may still use of its tokens, by its own limit and the policy's."""
    limits = [limit for limit in (state.config.max_tokens, policy.max_tokens) if limit is not None]
    return TokenBudget(limit=min(limits, default=None), consumed=state.turns.tokens_in + state.turns.tokens_out)


def must_suffice(state: State, budget: TokenBudget, policy: WakePolicy) -> None:
    """`InsufficientTokenBudget` when too little is left to go on."""
    if budget.left is not None and budget.left < policy.min_tokens:
        raise InsufficientTokenBudget(
            f"session {state.session} has {budget.left} tokens left and needs {policy.min_tokens} to go on; raise its "
            "max_tokens with configure, or compact it into a branch",
            session=state.session,
            left=budget.left,
            needed=policy.min_tokens,
            limit=budget.limit,
            consumed=budget.consumed,
        )


# ── tools ──


def rebind(session: str, spec: ToolSpec, lookup: Lookup) -> BoundTool:
    """What a tool is bound to from now on. A required one that cannot be is a typed error, an optional one degrades."""
    offer, allowed = (lookup.tool, lookup.allowed) if lookup.tool else (lookup.substitute, lookup.substitute_allowed)
    trouble = f" ({lookup.trouble})" if lookup.trouble else ""
    wanted = f"{spec.name} {spec.constraint}".strip()
    if offer is None:
        only = f", only {', '.join(lookup.versions)}" if lookup.versions else ""
        if spec.required:
            raise RequiredToolUnavailable(
                f"tool {wanted} is not there{only}{trouble}, and nothing substitutes for it; register it in the "
                "program that wakes the session",
                session=session,
                tool=spec.name,
                constraint=spec.constraint,
                versions=lookup.versions,
            )
        none = "no version of it that will do is there" if only else "no version of it is there"
        return _bound(spec, ToolOutcome.DEGRADED, reason=f"{none}{only}{trouble}")
    if not allowed:
        if spec.required:
            raise ToolUnauthorized(
                f"session {session} may not use tool {offer.name} {offer.version}{trouble}; have it allowed, or wake "
                "the session as somebody who may",
                session=session,
                tool=spec.name,
                offered=offer.name,
                version=offer.version,
            )
        return _bound(spec, ToolOutcome.DEGRADED, reason=f"{offer.name} {offer.version} is not allowed here{trouble}")
    if lookup.tool is not None:
        return _bound(spec, ToolOutcome.REBOUND, offer)
    return _bound(spec, ToolOutcome.SUBSTITUTED, offer, reason=f"{wanted} is not there{trouble}")


def _bound(spec: ToolSpec, outcome: ToolOutcome, offer: Tool | None = None, reason: str = "") -> BoundTool:
    return BoundTool(
        name=spec.name,
        constraint=spec.constraint,
        required=spec.required,
        outcome=outcome,
        version=None if offer is None else offer.version,
        substitute=offer.name if offer is not None and outcome is ToolOutcome.SUBSTITUTED else None,
        reason=reason,
        call=degraded(spec.name, reason) if offer is None else offer.call,
    )


def degraded(name: str, reason: str) -> Uncallable:
    """What stands in the place of a tool that the session goes on without."""
    return Uncallable(tool=name, why=f"was degraded when the session woke ({reason}); go on without it", reason=reason)


def bound_events(tools: Iterable[BoundTool]) -> tuple[ToolBound, ...]:
    """The events that say so."""
    return tuple(
        ToolBound(
            name=tool.name,
            constraint=tool.constraint,
            required=tool.required,
            version=tool.version,
            substitute=tool.substitute,
            reason=tool.reason,
        )
        for tool in tools
    )


def planned(state: State, events: Iterable[ToolBound]) -> State:
    """The state as waking will leave it, as far as integrity is concerned: the turn closed, the tools bound."""
    held = {item.name: bindings.binding_of(item) for item in events}
    return msgspec.structs.replace(
        state,
        turns=msgspec.structs.replace(state.turns, open=None),
        tools=Tools(bindings={**state.tools.bindings, **held}),
    )


# ── integrity ──


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What integrity needs to know of the world: what is wrong with the chain's tail or the kept state, if anything,
    the account a session owns, and which of its open children are there.
    """

    chain: str = ""
    state: str = ""
    account: Account | None = None
    children: frozenset[str] = frozenset()


def integrity(state: State, standing: Standing, excuse: Collection[str] = ()) -> tuple[Check, ...]:
    """Every check, in order; none of them raises."""
    unbound = bindings.unbound(state.tools)
    missing = sorted(set(state.children.open) - standing.children)
    wrong = {
        "chain": standing.chain,
        "state": standing.state,
        "turn": "" if state.turns.open is None else f"turn {state.turns.open.number} is open",
        "tools": f"required tools are not bound: {', '.join(unbound)}" if unbound else "",
        "budget": _money(state, standing.account),
        "children": f"children that are not here: {', '.join(missing)}" if missing else "",
    }
    return tuple(Check(name=name, ok=not wrong[name], what=wrong[name], excused=name in excuse) for name in CHECKS)


def _money(state: State, account: Account | None) -> str:
    """An account has to know at least what its owner has spent and set aside."""
    held = sum(state.budget.open.values())
    if account is None or (account.spent >= state.budget.spent and account.reserved >= held):
        return ""
    return (
        f"the account knows of {account.spent} spent and {account.reserved} reserved, the session of "
        f"{state.budget.spent} and {held}"
    )


def must_add_up(session: str, checks: Sequence[Check]) -> None:
    """`SessionIntegrity`, naming every check that failed and is not excused."""
    failed = [check for check in checks if not (check.ok or check.excused)]
    if failed:
        raise breach(session, failed)


def breach(session: str, failed: Sequence[Check]) -> SessionIntegrity:
    """The error that names these checks."""
    told = "; ".join(f"{check.name}: {check.what}" for check in failed)
    names = tuple(check.name for check in failed)
    excusable = " or excuse that" if set(names) <= set(EXCUSABLE) else ""
    return SessionIntegrity(
        f"session {session} does not add up ({told}); run verify, and restore a backup{excusable}",
        session=session,
        failures=names,
        found=told,
    )
