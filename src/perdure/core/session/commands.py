"""What may be asked of a session. Commands are imperatives; deciding turns them into events or refuses."""

from typing import Any

import msgspec

from perdure.core.session.checkpoints import Trigger
from perdure.core.session.event import Draft
from perdure.core.session.origin import Config, Isolation, Lineage


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


class Append(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Write events of the caller's own."""

    drafts: tuple[Draft, ...]


class Configure(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Change title, tags, metadata or configuration; what is None stays. `fields` names those of `config` that change,
    None all of them.
    """

    title: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None
    config: Config | None = None
    fields: tuple[str, ...] | None = None


class MoveTo(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Move along the lifecycle table."""

    event: str
    reason: str = ""


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


class Settle(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Say what it really cost."""

    reservation: str
    cost: int
    estimated: bool = False


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


class Redact(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Note that these versions lost their content."""

    versions: tuple[int, ...]
    reason: str = ""


class Renew(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Let the session live longer."""

    expires_at: int


class NoteCompensation(Command, frozen=True, kw_only=True, omit_defaults=True):
    """Note that a registered compensation has been run."""

    index: int
    name: str
    error: str | None = None
