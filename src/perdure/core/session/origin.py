"""Where a session comes from and what it is set to: identity, owner, configuration, lineage.

Identity and lineage never change after `created`; title, tags, metadata and configuration do, by `configured`,
which also names the account of a session that got a cap later, and whom the log of a shared space of memories lets in.
"""

from enum import Enum
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, UnsetType

from perdure.core.errors import BranchRefused
from perdure.core.session.checkpoints import CheckpointPolicy
from perdure.core.session.event import Event, Payload


class BranchKind(Enum):
    """Why a branch exists. All but `CHECKPOINT` are single-level and leave `vars` behind."""

    CHECKPOINT = "checkpoint"
    SIM = "sim"
    PRE_STEER = "pre_steer"
    DREAM = "dream"


SINGLE_LEVEL = frozenset({BranchKind.SIM, BranchKind.PRE_STEER, BranchKind.DREAM})
CHILD: Final = "child"
"""What lists call a session that another one spawned, where a branch has its kind."""


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The point of another session's log at which this one starts."""

    parent: str
    version: int
    digest: bytes
    kind: BranchKind
    name: str = ""
    checkpoint: str | None = None


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt template by name."""

    name: str
    version: str | None = None
    params: dict[str, str] = {}


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """When and how old turns are summed up in the model's context."""

    threshold: float = 0.8
    keep_last: int = 10
    strategy: str = "extractive"
    model: str | None = None
    preserve: str | None = None


class Recall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session's model is shown of memory: `top_k` from the vault of `agent` (the session's own agent or owner,
    if nobody is named), up to `beyond` from clades and lethe, within a `budget` of tokens. `cite` says whether models
    that can cite are asked to, `learn` whether that vault keeps what the session teaches when it completes.
    """

    enabled: bool = True
    agent: str | None = None
    clades: tuple[str, ...] = ()
    lethe: bool = False
    top_k: int = 10
    beyond: int = 5
    budget: int = 3_000
    cite: str = "auto"

    def __post_init__(self) -> None:
        for name, most in (("top_k", 100), ("beyond", 100), ("budget", 1_000_000)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is from 0 to {most}, not {getattr(self, name)}")
        if self.cite not in ("auto", "never"):
            raise ValueError(f"cite is auto or never, not {self.cite[:80]!r}")

    learn: bool = False


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All off unless asked for; seconds, and 0 switches a deployment's default off. With `background`, results that
    come in by themselves (of tools, retrievals, children) count as interactions too.
    """

    idle: int | None = None
    absolute: int | None = None
    max_active: int | None = None
    grace: int | None = None
    expiry: int | None = None
    background: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session runs with. Money is integer micro-dollars. `scrub` says what is destroyed when time ends the
    session: pii, credentials or all.
    """

    model: str | None = None
    system_prompt: str | None = None
    template: Template | None = None
    compaction: Compaction | None = None
    max_cost: int | None = None
    max_tokens: int | None = None
    max_rounds: int | None = None
    timeouts: Timeouts | None = None
    checkpoints: CheckpointPolicy | None = None
    replay_depth: int | None = None
    scrub: str | None = None
    criticality: str | None = None
    extra: dict[str, Any] = {}
    memory: Recall | None = None


class Isolation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose session it is for the purposes of access; enforced at the edges. `agents` says what each agent may do in a
    session with several: none, read or read_write.
    """

    model: str = ""
    task: str | None = None
    users: tuple[str, ...] = ()
    agents: dict[str, str] = {}


class Created(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The session exists. For a branch, `lineage` says where it starts and `overrides` which fields of `config`
    replace the inherited ones. Of a child, `spawner` is the parent.
    """

    kind: ClassVar[str] = "created"
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
    spawner: str | None = None


class Configured(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Title, tags, metadata, configuration or isolation changed; what is unset stayed. The first cap brings an
    account.
    """

    kind: ClassVar[str] = "configured"
    title: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    config: Config | UnsetType = UNSET
    account: str | UnsetType = UNSET
    isolation: Isolation | UnsetType = UNSET


class Renewed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The session may live longer."""

    kind: ClassVar[str] = "renewed"
    expires_at: int | None = None


class Relocated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The session moved to another node or store."""

    kind: ClassVar[str] = "relocated"
    node: str = ""
    store: str = ""


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps."""

    owner: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    config: Config | None = None
    isolation: Isolation | None = None
    account: str | None = None
    lineage: Lineage | None = None
    agent_id: str | None = None
    created_at: int = 0
    expires_at: int | None = None
    node: str = ""
    renewed_at: int = 0
    spawner: str | None = None


def evolve(part: Origin, event: Event) -> Origin:
    """Fold one event into the origin."""
    data = event.data
    match data:
        case Created():
            return Origin(
                owner=data.owner,
                title=data.title,
                tags=data.tags,
                metadata=data.metadata,
                config=override(part.config, data.config, data.overrides) if data.lineage else data.config,
                isolation=data.isolation or part.isolation,
                account=data.account,
                lineage=data.lineage,
                agent_id=data.agent_id or part.agent_id,
                created_at=event.at,
                expires_at=data.expires_at,
                spawner=data.spawner,
            )
        case Configured():
            changes = {
                name: value
                for name in ("title", "tags", "metadata", "config", "account", "isolation")
                if (value := getattr(data, name)) is not UNSET
            }
            return msgspec.structs.replace(part, **changes)
        case Renewed():
            return msgspec.structs.replace(part, expires_at=data.expires_at, renewed_at=event.at)
        case Relocated():
            return msgspec.structs.replace(part, node=data.node)
        case _:
            return part


def must_branch(session: str, parent: str | None, kind: str | None) -> None:
    """Refuse to branch what is single-level: a child, and branches of most kinds. `kind` is as lists have it."""
    if kind == CHILD:
        told = f"session {session} is a child, and children cannot branch; branch {parent}, which spawned it"
        raise BranchRefused(told, session=session, parent=parent)
    if kind is not None and BranchKind(kind) in SINGLE_LEVEL:
        told = f"session {session} is a {kind} branch, which cannot branch again; branch {parent}"
        raise BranchRefused(told, session=session, parent=parent)


def override(base: Config | None, chosen: Config | None, names: tuple[str, ...]) -> Config | None:
    """The inherited configuration with the named fields replaced."""
    if chosen is None or not names:
        return base
    changes = {name: getattr(chosen, name) for name in names if name in Config.__struct_fields__}
    return msgspec.structs.replace(base or Config(), **changes)
