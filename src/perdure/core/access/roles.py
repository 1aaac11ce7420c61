"""What each role may do, as one table, and the words in which access is spoken of.

A pair of verb and thing that is not in `TABLE` is allowed to nobody. The table says what a role may do where it counts;
where it counts, `isolation` says: an owner's role in their own sessions, an agent's and a viewer's in those they are
let into, an auditor's and an admin's in all of their tenant.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from functools import lru_cache
from itertools import chain, combinations
from typing import Final

from msgspec import Struct


class Role(Enum):
    """What a principal is to a tenant."""

    OWNER = "owner"
    AGENT = "agent"
    VIEWER = "viewer"
    AUDITOR = "auditor"
    ADMIN = "admin"

    __hash__ = object.__hash__  # members are single: an enum's own hash is slow, and every decision looks things up


class Verb(Enum):
    """What one may do to a thing. `OVERRIDE` is breaking the glass: reaching content without being let in."""

    LIST = "list"
    CREATE = "create"
    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    MOVE = "move"
    BRANCH = "branch"
    SHARE = "share"
    EXPORT = "export"
    ISSUE = "issue"
    OVERRIDE = "override"

    __hash__ = object.__hash__


class Thing(Enum):
    """What there is to reach: the parts of a session, then what belongs to the tenant."""

    SESSION = "session"
    TURNS = "turns"
    LOG = "log"
    STATE = "state"
    SCRATCHPAD = "scratchpad"
    CHECKPOINTS = "checkpoints"
    LIFECYCLE = "lifecycle"
    BUDGET = "budget"
    BLOBS = "blobs"
    MEMORY = "memory"
    METRICS = "metrics"
    TRACES = "traces"
    AUDIT = "audit"
    PRINCIPALS = "principals"
    KEYS = "keys"
    TOKENS = "tokens"
    POLICIES = "policies"
    WEBHOOKS = "webhooks"
    PEOPLE = "people"
    STORE = "store"

    __hash__ = object.__hash__


R, V, T = Role, Verb, Thing
_SEE: Final = frozenset({V.LIST, V.READ})
_KEEP: Final = _SEE | {V.CREATE, V.WRITE}
_RULE: Final = _KEEP | {V.DELETE}
Grants = Mapping[Thing, frozenset[Verb]]

TABLE: Final[Mapping[Role, Grants]] = {
    R.OWNER: {
        T.SESSION: _RULE | {V.BRANCH, V.SHARE, V.EXPORT},
        T.TURNS: _KEEP,
        T.LOG: _RULE | {V.EXPORT},
        T.STATE: _RULE,
        T.SCRATCHPAD: _RULE,
        T.CHECKPOINTS: _RULE | {V.BRANCH},
        T.LIFECYCLE: _SEE | {V.WRITE, V.MOVE},
        T.BUDGET: _SEE | {V.WRITE},
        T.BLOBS: _RULE,
        T.MEMORY: _RULE | {V.MOVE, V.SHARE, V.EXPORT},
        T.METRICS: _SEE,
        T.TRACES: _SEE,
        T.TOKENS: _SEE | {V.ISSUE, V.DELETE},
        T.STORE: frozenset({V.MOVE}),
    },
    R.AGENT: {
        T.SESSION: _SEE,
        T.TURNS: _KEEP,
        T.LOG: _KEEP,
        T.STATE: _KEEP,
        T.SCRATCHPAD: _KEEP,
        T.CHECKPOINTS: _KEEP,
        T.LIFECYCLE: _SEE,
        T.BUDGET: _SEE,
        T.BLOBS: _KEEP,
        T.MEMORY: _KEEP,
        T.METRICS: _SEE,
    },
    R.VIEWER: {
        T.SESSION: _SEE,
        T.TURNS: _SEE,
        T.MEMORY: _SEE,
        T.METRICS: _SEE,
    },
    R.AUDITOR: {
        T.TRACES: _SEE,
        T.AUDIT: _SEE | {V.EXPORT},
    },
    R.ADMIN: {
        T.SESSION: _SEE,  # without CONTENT: enough to know what to end or to move
        T.LIFECYCLE: _SEE | {V.WRITE, V.MOVE},
        T.MEMORY: frozenset({V.LIST, V.MOVE, V.ISSUE}),  # counts, quarantine and plans, no word of what is remembered
        T.METRICS: _SEE,
        T.PRINCIPALS: _RULE,
        T.KEYS: _RULE | {V.ISSUE},
        T.TOKENS: _SEE | {V.DELETE},  # taking back, never issuing: a token for another's session would be that other
        T.POLICIES: _RULE,
        T.WEBHOOKS: _RULE,
        T.PEOPLE: _SEE | {V.DELETE, V.EXPORT},
        T.STORE: _RULE | {V.MOVE, V.EXPORT},
    },
}
"""Role, thing, verbs."""

GLASS: Final[Grants] = {
    T.SESSION: _SEE | {V.WRITE},
    T.TURNS: _KEEP,
    T.LOG: _KEEP,
    T.STATE: _KEEP,
    T.SCRATCHPAD: _KEEP,
    T.CHECKPOINTS: _KEEP,
    T.BUDGET: _SEE | {V.WRITE},
    T.BLOBS: _KEEP,
    T.MEMORY: _SEE,
    T.TRACES: _SEE,
}
"""What an admin reaches besides by breaking the glass, which needs a reason and is told in the decision."""

CONTENT: Final = ("title", "tags", "metadata", "config", "vars", "scratchpad")
"""Fields that an admin does not see of a session without breaking the glass."""
CONTENT_THINGS: Final = frozenset(GLASS) - {T.BUDGET, T.TRACES}
"""Things made of what people and agents said and kept."""
WRITES: Final = frozenset(V) - _SEE - {V.EXPORT}
"""Verbs that leave something changed."""


class Action(Struct, frozen=True):
    """One verb on one thing; as a text, `read:turns`."""

    verb: Verb
    thing: Thing

    def __str__(self) -> str:
        return f"{self.verb.value}:{self.thing.value}"


ACTIONS: Final[Mapping[str, Action]] = {str(pair): pair for pair in (Action(verb, thing) for verb in V for thing in T)}
"""Every action by its text."""


class Actor(Struct, frozen=True, kw_only=True):
    """Who acts: a principal under one credential, or an agent acting for one."""

    tenant: str
    principal: str
    """An opaque id; what the audit log names."""
    name: str
    """What stands as owner of sessions and as actor of events."""
    kind: str = "person"
    """person, agent or service"""
    roles: frozenset[Role] = frozenset()
    scopes: tuple[str, ...] = ("*",)
    """Narrow what the roles allow, never widen it."""
    task: str | None = None
    agent: str | None = None
    """Which agent of a session it is, where that is not its name."""
    acting_for: str | None = None
    """The name of the person an agent acts for."""
    session: str | None = None
    """A session token opens this session and nothing else."""
    credential: str = ""


class Resource(Struct, frozen=True, kw_only=True):
    """What is acted upon: a session or a part of it, or with `session` None something of the tenant.

    One that is not there is asked for with `exists` False, so that its refusal is the one a foreign session gets.
    """

    tenant: str
    session: str | None = None
    owner: str = ""
    model: str = ""
    task: str | None = None
    users: tuple[str, ...] = ()
    agents: dict[str, str] = {}
    phase: str = ""
    tags: tuple[str, ...] = ()
    parent_owner: str = ""
    """Of a nested session: who owns the session that spawned it, and so this one."""
    parent_task: str | None = None
    exists: bool = True


class Context(Struct, frozen=True, kw_only=True):
    """The circumstances: when, from where, which fields are touched or asked for, and why the glass is broken."""

    at: int = 0
    address: str | None = None
    fields: tuple[str, ...] = ()
    override: str | None = None


class Reason(StrEnum):
    """Why a decision is what it is."""

    ROLE = "role"
    """Allowed by a role; refused: no role of the actor's can do this."""
    RULE = "rule"
    """Allowed or refused by a rule of the tenant."""
    OVERRIDE = "override"
    """Allowed because an admin broke the glass."""
    MISSING = "missing"
    """Another tenant's, or not there."""
    FOREIGN = "foreign"
    """The actor is not let into this session."""
    ISOLATION = "isolation"
    """The actor sees this session, but is not let in to do this."""
    SESSION = "session"
    """The token is for another session."""
    SCOPE = "scope"
    """The credential was not given for this."""
    FIELD = "field"
    """A field is touched or asked for that the actor may not write or see."""


class Decision(Struct, frozen=True):
    """Whether, why, and which fields stay hidden from this actor.

    `by` names the rule or the field that decided, for the audit log. A `concealed` refusal must look as if the thing
    were not there.
    """

    allowed: bool
    reason: Reason
    hidden: tuple[str, ...] = ()
    by: str = ""
    concealed: bool = False


# ── what the decision looks up ────────────────────────────────────────────────────────────────────

Granting = Mapping[Action, tuple[Role, ...]]
"""Which of the held roles allow an action, in the order of the table."""


def _granted(roles: frozenset[Role]) -> Granting:
    found: dict[Action, tuple[Role, ...]] = {}
    for role in Role:
        for thing, verbs in TABLE[role].items() if role in roles else ():
            for verb in verbs:
                found[Action(verb, thing)] = (*found.get(Action(verb, thing), ()), role)
    if Role.ADMIN in roles:
        found |= {Action(V.OVERRIDE, thing): (Role.ADMIN,) for thing in GLASS}
    return found


_SETS = chain.from_iterable(combinations(Role, count) for count in range(len(Role) + 1))
GRANTED: Final[Mapping[frozenset[Role], Granting]] = {frozenset(held): _granted(frozenset(held)) for held in _SETS}
"""For every set of roles, what it allows and by which of them."""
BREAKING: Final = {Action(verb, thing): Action(V.OVERRIDE, thing) for thing, verbs in GLASS.items() for verb in verbs}
"""What breaking the glass opens, and the action that a credential must be good for, too."""
GRANTABLE: Final = frozenset(pair for pair in GRANTED[frozenset(Role)] if pair.verb is not V.OVERRIDE)
"""What some role allows somewhere; no rule can allow more."""


def is_scope(text: str) -> bool:
    """Whether a text is a scope: an action, or `*` in the place of its verb, its thing or both."""
    verb, _, thing = text.partition(":")
    return text == "*" or text in ACTIONS or (verb == "*" and thing in _THINGS) or (thing == "*" and verb in _VERBS)


_VERBS: Final = {verb.value for verb in V}
_THINGS: Final = {thing.value for thing in T}


@lru_cache(4096)
def scoped(scopes: tuple[str, ...]) -> frozenset[Action]:
    """The actions that scopes are good for, taken together; to read something is also to list it. What is no scope is
    good for nothing.
    """
    wanted = frozenset(scopes)
    found = frozenset(pair for pair in ACTIONS.values() if not wanted.isdisjoint(_spellings(pair.verb, pair.thing)))
    return found | {Action(V.LIST, pair.thing) for pair in found if pair.verb is V.READ}


def _spellings(verb: Verb, thing: Thing) -> tuple[str, ...]:
    """The scopes that are good for an action."""
    return "*", f"{verb.value}:{thing.value}", f"{verb.value}:*", f"*:{thing.value}"


def narrowed(held: Iterable[str], asked: Iterable[str]) -> tuple[str, ...]:
    """The scopes that are asked for, cut down to what those held are good for."""
    wanted, covered = tuple(asked), scoped(tuple(held))
    found: dict[str, None] = {}
    for scope in wanted:
        means = scoped((scope,))
        if means and means <= covered:
            found[scope] = None
        else:
            found |= dict.fromkeys(sorted(map(str, means & covered)))
    return tuple(found)
