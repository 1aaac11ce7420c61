"""What happens to memories: kept, changed, moved, used, consolidated, proposed. What is forgotten is redacted.

These are the events of a memory space, which is a log like any other. Nothing of them folds into the session's state:
`perdure.core.memory.shelf` makes of them what is remembered. Only perdure writes them.
"""

from typing import Any, ClassVar

import msgspec

from perdure.core.session.event import Payload


class MemoryKept(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A memory, with where it comes from. `run` is the consolidation that wrote it, `supersedes` are those it takes the
    place of. Its vectors stand in an event of their own, so that they can be redacted without it.
    """

    kind: ClassVar[str] = "memory_kept"
    redactable: ClassVar[bool] = True
    id: str = ""
    type: str = ""
    content: str = ""
    importance: float = 0.0
    metadata: dict[str, Any] = {}
    author: str = ""
    agent: str = ""
    writer: str = ""
    source: str = ""
    session: str = ""
    version: int = 0
    checkpoint: str = ""
    uri: str = ""
    trust: str = ""
    flags: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    thread: str = ""
    status: str = ""
    valid_from: int | None = None
    valid_to: int | None = None
    supersedes: tuple[str, ...] = ()
    run: str = ""

    def aim(self) -> str | None:
        return self.id or None


class MemoryChanged(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of a memory other than its content. `before` and `after` have the same names, so that it can be undone."""

    kind: ClassVar[str] = "memory_changed"
    redactable: ClassVar[bool] = True
    id: str = ""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    reason: str = ""
    run: str = ""

    def aim(self) -> str | None:
        return self.id or None


class MemoryMoved(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A memory's status is another one: archived, quarantined, superseded `by` another, withdrawn, or live again.
    `until` is when what is superseded ended, if that is known. The `reason` is content, and goes with the memory.
    """

    kind: ClassVar[str] = "memory_moved"
    redactable: ClassVar[bool] = True
    bound: ClassVar[bool] = True
    id: str = ""
    was: str = ""
    status: str = ""
    by: str = ""
    until: int | None = None
    reason: str = ""
    run: str = ""

    def aim(self) -> str | None:
        return self.id or None


class MemoriesUsed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What was counted since the last of these: for each memory how often it was found, cited, and shown for nothing;
    queries by day (days since 1970); and answers that nothing remembered supports.
    """

    kind: ClassVar[str] = "memories_used"
    counts: dict[str, tuple[int, int, int]] = {}
    queries: dict[str, int] = {}
    missing: int = 0


class MemoriesEmbedded(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What an embedder makes of memories: the vectors by id. `beside` are other memories whose words went into them, as
    what was said before: when one of these is forgotten, so are the vectors.
    """

    kind: ClassVar[str] = "memories_embedded"
    redactable: ClassVar[bool] = True
    embedder: str = ""
    vectors: dict[str, bytes] = {}
    beside: tuple[str, ...] = ()


class MemoryRun(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A consolidation begins, gets on, ends or is undone (`phase`). `place` is how far it has got, at its end what was
    `lacking`: who should have had a say and failed. `worker` is who is at it, `asks` whether it holds back what is not
    certain, to ask about it, `apart` the pairs that somebody was asked about and that are left as they are.
    """

    kind: ClassVar[str] = "memory_run"
    id: str = ""
    phase: str = ""
    trigger: str = ""
    place: str = ""
    found: dict[str, int] = {}
    model: str = ""
    cost: int = 0
    worker: str = ""
    asks: bool = False
    lacking: str = ""
    apart: tuple[tuple[str, str], ...] = ()

    def aim(self) -> str | None:
        return self.id or None


class MemoriesExtracted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What a session said up to a version was looked through for memories. `found` counts what came of it."""

    kind: ClassVar[str] = "memories_extracted"
    session: str = ""
    upto: int = 0
    found: dict[str, int] = {}
    model: str = ""
    cost: int = 0

    def aim(self) -> str | None:
        return self.session or None


class MemoryProposed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A memory is proposed to this space, with what the gates said of it. `origin` is the space it comes from."""

    kind: ClassVar[str] = "memory_proposed"
    redactable: ClassVar[bool] = True
    id: str = ""
    origin: str = ""
    memory: str = ""
    type: str = ""
    content: str = ""
    importance: float = 0.0
    metadata: dict[str, Any] = {}
    evidence: tuple[str, ...] = ()
    gates: dict[str, str] = {}
    expires: int | None = None
    by: str = ""
    session: str = ""
    subjects: tuple[str, ...] = ()

    def aim(self) -> str | None:
        return self.id or None


class MemoryReviewed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A proposal was accepted, as the memory named, or rejected."""

    kind: ClassVar[str] = "memory_reviewed"
    redactable: ClassVar[bool] = True
    id: str = ""
    accepted: bool = False
    memory: str = ""
    by: str = ""
    reason: str = ""

    def aim(self) -> str | None:
        return self.id or None


class MemoryPlanned(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The space is on another plan."""

    kind: ClassVar[str] = "memory_planned"
    plan: str = ""
    by: str = ""


class ShownMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that a model is shown, and what is said of it; its words stay where they are kept."""

    id: str = ""
    space: str = ""
    type: str = ""
    importance: float = 0.0
    age: str = ""


class MemoriesRecalled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What a session's model is shown of memory from here on: `standing` until the next compaction, if it was `chosen`
    here, and `found` for this turn. This stands in the log of the session, not of a space.
    """

    kind: ClassVar[str] = "memories_recalled"
    chosen: bool = False
    standing: tuple[ShownMemory, ...] = ()
    found: tuple[ShownMemory, ...] = ()


class CitedMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that an answer cites, and where in the answer's words it does."""

    id: str = ""
    space: str = ""
    start: int = 0
    end: int = 0


class MemoriesCited(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What the answer in this append cites, as its provider said."""

    kind: ClassVar[str] = "memories_cited"
    cited: tuple[CitedMemory, ...] = ()
