"""What may be asked of a session. Commands are imperatives; deciding turns them into events or refuses."""

from typing import Any, ClassVar

import msgspec

from perdure.core.session.checkpoints import Trigger
from perdure.core.session.event import Draft
from perdure.core.session.origin import Config, Isolation, Lineage
from perdure.core.session.quality import Retrieval
from perdure.core.session.tools import ToolBound


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Root of the closed union."""


class Create(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Begin a session, or a branch when there is a lineage."""

    owner: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    config: Config | None = None
    overrides: tuple[str, ...] = ()
    isolation: Isolation | None = None
    account: str | None = None
    lineage: Lineage | None = None
    exit_criteria: tuple[str, ...] = ()
    agent_id: str | None = None
    expires_at: int | None = None
    vars: dict[str, Any] | None = None
    schema: str = ""
    schema_version: str = ""
    activate: bool = False
    spawner: str | None = None


class Append(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Write events of the caller's own."""

    drafts: tuple[Draft, ...]


class Remember(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Write what was decided about memories. What there is to decide, `perdure.core.memory` decides."""

    drafts: tuple[Draft, ...]


class Retract(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Take what these versions say out of the conversation; `calls` are those asked there."""

    first: int
    upto: int
    calls: tuple[str, ...] = ()
    reason: str = ""


class Record(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Write what something else carried on, with turns opened and closed around it; `more` of the turn follows. Title
    and metadata change along with it if they are given. It stands in place of what was said from version `replacing`
    on; `calls` are those asked there. What is `retracted` leaves the conversation with it. `vars` are top-level fields
    of the application's document that change with it.
    """

    drafts: tuple[Draft, ...]
    more: bool = False
    replacing: int | None = None
    calls: tuple[str, ...] = ()
    retracted: tuple[Retract, ...] = ()
    title: str | None = None
    metadata: dict[str, Any] | None = None
    vars: dict[str, Any] = {}


class Configure(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Change title, tags, metadata, configuration or isolation; what is None stays. `fields` names those of `config`
    that change, None all of them.
    """

    title: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None
    config: Config | None = None
    fields: tuple[str, ...] | None = None
    isolation: Isolation | None = None


class MoveTo(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Move along the lifecycle table."""

    event: str
    reason: str = ""


class Wake(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Resume a suspended session, or go on resuming it, with what was found out about its tools and its evidence."""

    event: ClassVar[str] = "resume"
    tools: tuple[ToolBound, ...] = ()
    retrievals: tuple[Retrieval, ...] = ()


class SetVars(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Make this the application's document."""

    document: dict[str, Any]
    schema: str = ""
    schema_version: str = ""


class WriteScratchpad(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Replace a scratchpad's content."""

    content: str
    agent: str | None = None


class Reserve(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Set money aside."""

    reservation: str
    amount: int
    purpose: str = ""
    tokens: int = 0
    rounds: int = 0


class Settle(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Say what it really cost."""

    reservation: str
    cost: int
    estimated: bool = False
    tokens: int = 0
    rounds: int = 0


class Correct(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Say what something cost that was settled by an estimate."""

    reservation: str
    cost: int


class Advance(Command, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a turn that perdure carries on: what the last answer cost, what was said and done, what the next one
    may cost. It belongs to `turn`, and is refused when that is over. With `arranged`, turns are opened and closed
    around the drafts as around a framework's; `more` of the turn follows.
    """

    drafts: tuple[Draft, ...] = ()
    turn: int | None = None
    settles: tuple[Settle, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    arranged: bool = False
    more: bool = False


class GiveUp(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Close requests to models whose answer nobody will hear."""

    asks: tuple[str, ...]
    reason: str = ""


class Approve(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Allow or deny a call that waits for a person."""

    call: str
    allowed: bool
    note: str = ""


class TakeCheckpoint(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Make the present state one that can be resumed from."""

    label: str = ""
    metadata: dict[str, Any] = {}
    trigger: Trigger = Trigger.MANUAL


class PinCheckpoint(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Keep a checkpoint for as long as the session lives, or no longer."""

    id: str
    pinned: bool


class ExpireCheckpoints(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Make these ids unusable."""

    ids: tuple[str, ...]


class Recover(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Close the turn whose writer died."""

    reason: str = "crash"
    text: str = ""


class RollBack(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Drop the open turn from the conversation."""

    reason: str = ""


class MergeIn(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Take over another session's vars and scratchpads; the outcome was merged beforehand."""

    source: str
    source_version: int
    base_version: int
    policy: str
    document: dict[str, Any]
    pads: dict[str, str]
    conflicts: tuple[dict[str, Any], ...] = ()
    conflict_id: str = ""
    settles: str | None = None
    summary: str | None = None


class Mask(msgspec.Struct, frozen=True, kw_only=True):
    """What vars and scratchpads shall read like once content was destroyed: `bare` is what that leaves of vars. Made
    from the state at `version`, and good for no other.
    """

    version: int
    bare: dict[str, Any] = {}
    document: dict[str, Any] = {}
    pads: dict[str, str] = {}


class Redact(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Note that these versions lost their content, and write what is left of vars and scratchpads anew."""

    versions: tuple[int, ...]
    reason: str = ""
    mask: Mask | None = None


class Renew(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Let the session live longer."""

    expires_at: int


class CleanUp(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Do a step of the clean-up that the core knows, or note one that was done, failed or was given up, in the stay
    that began at `since`.
    """

    step: str
    since: int
    hook: str = ""
    error: str | None = None
    failed: bool = False
    counts: dict[str, int] = {}


class Spawn(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Have a child begun for a task, with a slice of the budget if there is a reservation for one. `node` is whoever
    carries it on.
    """

    child: str
    task: str
    context: str = ""
    model: str = ""
    max_tokens: int = 0
    returns: str = "summary"
    tools: tuple[str, ...] | None = None
    strategy: str = ""
    agent: str | None = None
    node: str = ""
    slice: Reserve | None = None


class FinishChild(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Take note of what came of a child."""

    child: str
    phase: str
    result: Any = None
    error: str = ""
    spent: int = 0


class NoteEnded(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Note that time ended another session, which had spent so much."""

    other: str
    reason: str = ""
    spent: int = 0


class NoteCompensation(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Note that a registered compensation has been run."""

    index: int
    name: str
    error: str | None = None
