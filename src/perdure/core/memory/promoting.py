"""Whether everybody should know something: the four gates that a proposal passes, each with its reason where it fails.

- **new**: the space that it is proposed to does not say it already;
- **evidenced**: two independent sources said it, or a check or a person confirmed it, or evidence was given;
- **general**: it speaks of no one session, file, day or person;
- **expiring**: it is known when it must be looked at again.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from perdure.core import scrub
from perdure.core.errors import Invalid
from perdure.core.memory.gates import says_again
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, Space, Status
from perdure.core.memory.persons import SAID_OF_SOMEBODY
from perdure.core.memory.shelf import Proposal
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryProposed, MemoryReviewed

PASS: Final = "pass"
GATES: Final = ("new", "evidenced", "general", "expiring")
SOURCES: Final = 2
"""Independent sources that are evidence by themselves."""
LONGEST: Final = 5 * 365 * DAY
"""As long as something may be believed without being looked at again."""
AT_ONCE: Final = 1_000_000
"""Microseconds from being proposed to being written down, about: so much less time to live is still the same."""
SESSIONS: Final = "sessions"
"""Under this name a memory's metadata lists the sessions that said it, where several did."""

_SPECIFIC: Final = (
    ("an id", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b|\b0x[0-9a-f]{64}\b"),
    (
        "a place in one conversation",
        (
            r"\bthis (?:\w+ )?(?:file|session|conversation|chat|thread|branch|commit|page|document|message|task|"
            r"ticket|run|"
            r"one|line|function|folder|pull request|pr|screen|window|tab|turn|answer|draft|email)\b|"
            r"\b(?:the )?(?:above|below|aforementioned)\b|\b(?:earlier|previously) in (?:this|the)\b|\bas (?:i|"
            r"you|we) said\b|"
            r"\bline \d+\b|\b(?:my|your) (?:last|previous) (?:message|answer|question)\b"
        ),
    ),
    (
        "a day that passes",
        (
            r"\b(?:today|tonight|yesterday|tomorrow|right now|just now|at the moment|this (?:morning|afternoon|"
            r"evening|week|"
            r"month|year|quarter)|(?:last|next) (?:week|month|night|year|monday|tuesday|wednesday|thursday|friday|"
            r"saturday|"
            r"sunday))\b|\b\d+ (?:minutes?|hours?|days?) ago\b"
        ),
    ),
    ("a place on one machine", r"(?:^|[\s\"'(])(?:/(?:home|users|root|tmp|var/folders)/|[a-z]:\\|~/)\S"),
    ("somebody in particular", r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|myself|he|she|him|her|his|hers|the user)\b"),
)
_PATTERNS: Final = (
    *((told, re.compile(pattern, re.IGNORECASE)) for told, pattern in _SPECIFIC),
    ("somebody by name", SAID_OF_SOMEBODY),
)


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """What is proposed, as the gates see it. `sources` are those who said it; `confirmed` says that a check passed or
    a person approved of it.
    """

    content: str
    sources: frozenset[str] = frozenset()
    evidence: tuple[str, ...] = ()
    confirmed: bool = False
    subjects: tuple[str, ...] = ()
    expires: int | None = None


def judged(asked: Asking, there: Iterable[Memory], now: int) -> dict[str, str]:
    """What each gate says; `there` are those of the target's memories that may say the same."""
    return {
        "new": _new(asked, there),
        "evidenced": _evidenced(asked),
        "general": _general(asked),
        "expiring": _expiring(asked, now),
    }


def passes(gates: Mapping[str, str]) -> bool:
    """Whether all four let it pass."""
    return all(gates.get(name) == PASS for name in GATES)


def _new(asked: Asking, there: Iterable[Memory]) -> str:
    for memory in there:
        if memory.status is Status.LIVE and says_again(asked.content, memory.content):
            return f"memory {memory.id} says it already"
        if memory.status is Status.QUARANTINED and says_again(asked.content, memory.content):
            return f"memory {memory.id} says it, and is quarantined"
    return PASS


def _evidenced(asked: Asking) -> str:
    if asked.confirmed or any(one.strip() for one in asked.evidence):
        return PASS
    count = len(asked.sources)
    if count >= SOURCES:
        return PASS
    return f"{count or 'no'} source says it; it takes {SOURCES} independent ones, a passed check, feedback, or evidence"


def _general(asked: Asking) -> str:
    if asked.subjects:
        return "it is about a person"
    found = specific(asked.content)
    if found:
        return f"it speaks of {found}"
    if scrub.find(asked.content):
        return "it holds personal data or a credential"
    return PASS


def specific(content: str) -> str:
    """What a text speaks of that others would not know; empty when it is general."""
    return next((told for told, pattern in _PATTERNS if pattern.search(content)), "")


def _expiring(asked: Asking, now: int) -> str:
    if asked.expires is None:
        return "it has no time to live; say for how long it is to be believed (ttl, or --days)"
    if asked.expires <= now:
        return "its time is over already"
    return PASS if asked.expires - now <= LONGEST else f"it would live longer than {LONGEST // (365 * DAY)} years"


def sources_of(memory: Memory, others: Iterable[Memory] = ()) -> frozenset[str]:
    """Who said it, independently of each other: sessions, else documents, else writers; also those of other memories
    that say the same.
    """
    found = set[str]()
    for one in (memory, *others):
        if one is not memory and (one.status is not Status.LIVE or not says_again(one.content, memory.content)):
            continue
        listed = one.metadata.get(SESSIONS)
        named = {f"session:{each}" for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()
        source = one.source.session or one.source.uri or one.writer
        named |= {f"{'session' if one.source.session else 'source'}:{source}"} if source else set()
        found |= named
    return frozenset(found)


def pending(proposals: Iterable[Proposal], origin: str, memory: str) -> Proposal | None:
    """The proposal of a memory that nobody has reviewed yet."""
    return next(
        (one for one in proposals if one.accepted is None and (one.origin, one.memory) == (origin, memory)), None
    )


def proposing(proposed: MemoryProposed, waiting: Proposal | None, now: int) -> tuple[str, list[Payload]]:
    """The id that a proposal goes by, and what is written of it: nothing where exactly this waits already. What its
    proposer has waiting is replaced; what somebody else has gives way, so that nobody's words go by another's name.
    """
    if waiting is None:
        return proposed.id, [proposed]
    if _same(waiting, proposed, now):
        return waiting.id, []
    if waiting.by == proposed.by:
        return waiting.id, [msgspec.structs.replace(proposed, id=waiting.id)]
    told = f"it was proposed anew, as {proposed.id}"
    return proposed.id, [MemoryReviewed(id=waiting.id, accepted=False, by=proposed.by, reason=told), proposed]


def _same(waiting: Proposal, proposed: MemoryProposed, now: int) -> bool:
    names = (name for name in MemoryProposed.__struct_fields__ if name not in ("id", "by", "expires"))
    if any(getattr(waiting, name) != getattr(proposed, name) for name in names):
        return False
    if waiting.expires is None or proposed.expires is None or waiting.expires <= now:
        return waiting.expires == proposed.expires
    lives, lived = proposed.expires - now, waiting.expires - waiting.proposed_at
    return waiting.expires == proposed.expires or abs(lives - lived) <= AT_ONCE


def space_named(spelled: str) -> Space | None:
    """The space that is spelled `vault/ana`, `clade/desk` or `lethe`; None when it is none."""
    namespace, _, name = spelled.partition("/")
    try:
        return Space(namespace, name)  # type: ignore[arg-type]  # it looks
    except Invalid:
        return None


def uri_of(origin: str, kind: str, memory: str) -> str:
    """Where a promoted memory comes from."""
    return f"perdure://memory/{origin.partition('/')[0]}/{kind}/{memory}"


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what is only of use where the memory was learnt."""
    return {name: value for name, value in metadata.items() if name not in (SESSIONS, "steer")}
