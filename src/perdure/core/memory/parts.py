"""What a memory is, where it is kept, and where it comes from.

A **space** holds memories: the vault of one agent, a clade of siblings, or lethe, which is everybody's. A memory has
two times: when it was written down (`recorded_at`) and when it was true (`valid_from` to `valid_to`). What is no longer
true is superseded, not overwritten.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias, get_args
from unicodedata import normalize

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.ids import named

Namespace: TypeAlias = Literal["vault", "clade", "lethe"]
NAMESPACES: Final[tuple[Namespace, ...]] = get_args(Namespace)
PREFIX: Final = "memory:"
"""What the names of memory spaces' logs begin with: no session of anybody's may be called so."""
TAG: Final = "memory"
"""What the logs of memory spaces are tagged with."""
EVER: Final = -(1 << 62)
"""Microseconds: as far before 1970 as any time is."""
CLOCKS: Final = 5_000_000
"""Microseconds by which the clocks of nodes may differ: what begins as soon as that is so already."""
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\ud800-\udfff]{1,128}")


class MemoryType(StrEnum):
    """What kind of thing is remembered."""

    FACT = "fact"
    PREFERENCE = "preference"
    EPISODE = "episode"
    STRATEGY_OUTCOME = "strategy_outcome"
    CONSTRAINT = "constraint"


class Status(StrEnum):
    """Whether a memory counts. Only live ones are found unless others are asked for."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    QUARANTINED = "quarantined"
    WITHDRAWN = "withdrawn"
    """What a consolidation wrote that was undone."""


SourceKind: TypeAlias = Literal["user", "agent", "tool", "document", "import", "consolidation", "promotion"]
Trust: TypeAlias = Literal["high", "medium", "low"]
TRUST: Final[dict[str, Trust]] = {
    "user": "high",
    "agent": "medium",
    "tool": "low",
    "document": "low",
    "import": "low",
    "consolidation": "medium",
    "promotion": "medium",
}
"""How far what comes from a kind of source is trusted, unless the writer says less."""


class Space(msgspec.Struct, frozen=True):
    """Where memories are kept."""

    namespace: Namespace
    name: str = ""

    def __post_init__(self) -> None:
        if self.namespace not in NAMESPACES:
            raise Invalid(f"namespace is one of {', '.join(NAMESPACES)}, not {str(self.namespace)[:80]!r}")
        if self.namespace == "lethe":
            if self.name:
                raise Invalid("lethe is everybody's: it has no name; leave it out")
        elif not _NAME.fullmatch(self.name):
            raise Invalid(f"a {self.namespace} needs a name of 1 to 128 characters without / or control characters")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.name else self.namespace

    @property
    def log(self) -> str:
        """The name of the log it is kept in."""
        return f"{PREFIX}{self.namespace}:{self.name}" if self.name else f"{PREFIX}{self.namespace}"


def space_of(tenant: str, session: str, title: str) -> Space | None:
    """The space whose log a session is; None if it is somebody's own session."""
    namespace, _, name = title.partition("/")
    try:
        found = Space(namespace, name)  # type: ignore[arg-type]  # it looks
    except Invalid:
        return None
    return found if named(tenant, found.log) == session else None


def vault(agent: str) -> Space:
    """An agent's own."""
    return Space("vault", agent)


LETHE: Final = Space("lethe")


def person(name: str) -> str:
    """A name as people are known by it: the same in capitals or not, and however its letters are put together."""
    return normalize("NFC", normalize("NFD", name).casefold())


def people(names: Iterable[str]) -> frozenset[str]:
    """Several of them; nobody is called nothing."""
    return frozenset(person(name) for name in names if name)


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where a memory comes from: who or what said it, and the session, its version (the message) and checkpoint."""

    kind: SourceKind = "agent"
    session: str = ""
    version: int = 0
    checkpoint: str = ""
    uri: str = ""


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something remembered. `importance` is what its writer gave it; `composite` in `importance` ranks by more."""

    id: str
    type: MemoryType
    content: str
    importance: float = 0.5
    metadata: dict[str, Any] = {}
    author: str = ""
    """Who said it, in their own name; matched when a query names somebody."""
    agent: str = ""
    writer: str = ""
    """The principal that wrote it down."""
    source: Source = Source()
    trust: Trust = "medium"
    flags: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    """People it is about: it goes when one of them is erased."""
    thread: str = ""
    """Memories of one thread are each other's neighbours, in the order in which they were kept."""
    status: Status = Status.LIVE
    superseded_by: str = ""
    superseded_at: int = 0
    """When that was written down; what was known before did not know of it."""
    supersedes: tuple[str, ...] = ()
    recorded_at: int = 0
    valid_from: int | None = None
    valid_to: int | None = None
    accesses: int = 0
    cited: int = 0
    unused: int = 0
    run: str = ""
    version: int = 0
    """The version of its space's log that says it."""

    @property
    def since(self) -> int:
        """When it became true, or was kept if it does not say."""
        return self.recorded_at if self.valid_from is None else self.valid_from

    @property
    def began(self) -> int:
        """From when on it may be found: what had ended before it was kept, by its own word, began nobody knows when."""
        over = self.valid_from is None and self.valid_to is not None and self.valid_to < self.recorded_at
        return EVER if over else self.since

    def was_true(self, at: int) -> bool:
        """Whether it held at a time."""
        return self.began <= at and (self.valid_to is None or at < self.valid_to)

    def holds(self, now: int) -> bool:
        """Whether it is so now: neither over nor still to come. What began when it was kept is so, whatever the clock
        of the node that kept it.
        """
        return (self.valid_to is None or now < self.valid_to) and (
            self.valid_from is None or self.valid_from <= now + CLOCKS or self.valid_from <= self.recorded_at
        )

    def stays(self, now: int) -> bool:
        """Whether it is so until what took its place begins; what gives way at once does not end after that was
        written down.
        """
        return (
            self.status is Status.SUPERSEDED
            and self.valid_to is not None
            and self.valid_to > max(now + CLOCKS, self.superseded_at)
            and self.holds(now)
        )

    def counts(self, now: int) -> bool:
        """Whether it is one of those that tell how it is now."""
        return self.holds(now) if self.status is Status.LIVE else self.stays(now)
