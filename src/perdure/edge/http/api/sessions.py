"""Sessions: made, listed, found, looked at, changed, moved through their life, erased."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.errors import Denied, Invalid, VersionConflict
from perdure.core.session.origin import Config, Isolation
from perdure.core.session.vars import Vars
from perdure.edge.http.addressing import must_be_free
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.granting import must_forget, must_show
from perdure.edge.http.reaching import (
    may_own_for_others,
    may_read,
    must,
    must_begin,
    pinned,
    written_to_session,
)
from perdure.edge.http.routes import Table
from perdure.edge.http.views import RecordView, Version, record_view
from perdure.edge.library import agent_of

table = Table()
Text = Annotated[str, Meta(max_length=1000)]
Words = Annotated[tuple[Text, ...], Meta(max_length=100)]


class ConfigBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a session runs with. A cap is given in micro-dollars, or as `max_cost_usdc`, which is rounded down."""

    model: str | UnsetType | None = UNSET
    system_prompt: str | UnsetType | None = UNSET
    template: dict[str, Any] | UnsetType | None = UNSET
    compaction: dict[str, Any] | UnsetType | None = UNSET
    max_cost: int | UnsetType | None = UNSET
    max_cost_usdc: Annotated[float, Meta(ge=0, le=9e12)] | UnsetType | None = UNSET
    max_tokens: int | UnsetType | None = UNSET
    max_rounds: int | UnsetType | None = UNSET
    timeouts: dict[str, Any] | UnsetType | None = UNSET
    checkpoints: dict[str, Any] | UnsetType | None = UNSET
    replay_depth: int | UnsetType | None = UNSET
    scrub: str | UnsetType | None = UNSET
    criticality: str | UnsetType | None = UNSET
    extra: dict[str, Any] | UnsetType = UNSET
    memory: dict[str, Any] | UnsetType | None = UNSET


class IsolationBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whom a session lets in beside its owner: users by name, and what each agent may do in it. Whether there is
    anybody of a name is not asked: people may come later.
    """

    model: Literal["", "per_user", "per_task", "per_agent", "nested"] = ""
    task: Text | None = None
    users: Words = ()
    agents: dict[Text, Literal["none", "read", "read_write"]] = {}


class CreateBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A session to begin. Whoever asks owns it, unless an admin names another owner."""

    agent_id: str | int | None = None
    config: ConfigBody | None = None
    title: Text = ""
    owner: Text | None = None
    name: Text | None = None
    tags: Words = ()
    metadata: dict[str, Any] | None = None
    vars: dict[str, Any] | None = None
    schema: Text = ""
    """Which schema of the application's the vars follow, if one does."""
    schema_version: Text = ""
    isolation: IsolationBody | None = None
    exit_criteria: Words = ()
    activate: bool = True


class ChangeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to change; what is not given stays."""

    title: Text | None = None
    tags: Words | None = None
    metadata: dict[str, Any] | None = None
    config: ConfigBody | None = None


class MoveBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A move along the lifecycle table: activate, suspend, timeout, resume, reactivate, complete, terminate, expire,
    archive. A suspended session goes on by POST …/resume without a body; a mere `resume` leaves it in `resumed`.
    """

    event: Text
    reason: Text = ""


class RenewBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How long to live: seconds from now, or until a moment in microseconds since 1970."""

    ttl: float | None = None
    until: int | None = None


class Renewed(msgspec.Struct):
    """The moment that was granted."""

    session_id: str
    expires_at: int


class EraseQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether what was learnt from the session is forgotten as well, in every space."""

    memories: bool = False


class Erased(msgspec.Struct):
    """How many branches were given their own copy of the log first, and how many memories went with it."""

    session_id: str
    branches: int
    memories: int = 0


class Recovered(msgspec.Struct, kw_only=True):
    """A turn whose writer died, now closed; null when none was open."""

    recovered: Any


class ReasonBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: Text = ""


def config_of(body: ConfigBody | None) -> dict[str, Any] | None:
    """A configuration as the library wants it."""
    if body is None:
        return None
    found = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}
    if "max_cost_usdc" in found:
        usdc = found.pop("max_cost_usdc")
        if "max_cost" in found:
            raise Invalid("give a cap as max_cost or as max_cost_usdc, not both")
        found["max_cost"] = None if usdc is None else _micros(usdc)
    return found


def _micros(usdc: float) -> int:
    """Micro-dollars, rounded down as the decimal was written: 0.29 has 290000, whatever its float is."""
    from decimal import ROUND_DOWN, Decimal

    return int((Decimal(repr(usdc)) * 1_000_000).to_integral_value(ROUND_DOWN))


@table.add(
    "POST",
    "/v1/sessions",
    (Verb.CREATE, Thing.SESSION),
    body=CreateBody,
    answer=RecordView,
    status=HTTPStatus.CREATED,
    keyed=True,
    errors=(errors.AlreadyExists, errors.KeyReused),
    example={"agent_id": 7, "config": {"model": "auto", "max_cost_usdc": 1.5}, "title": "Lisbon trip"},
)
async def create_session(ask: Ask) -> Answer:
    """Begin a session."""
    body: CreateBody = await ask.body()
    must_be_free(body.name)
    owner = body.owner if body.owner is not None else ask.actor.acting_for or ask.actor.name
    if owner not in (ask.actor.name, ask.actor.acting_for) and not may_own_for_others(ask.actor):
        raise Denied("only an admin begins sessions for others; leave owner out", reason="owner")
    config = config_of(body.config)
    await must_show(ask, config, owner, agent_of(body.agent_id), None)
    must_begin(ask, title=body.title, tags=body.tags, metadata=body.metadata, config=config, vars=body.vars)
    session = await ask.db.create(
        body.title,
        owner=owner,
        tags=body.tags,
        metadata=body.metadata,
        config=config,
        vars=_vars(body),
        isolation=None if body.isolation is None else Isolation(**msgspec.structs.asdict(body.isolation)),
        exit_criteria=body.exit_criteria,
        agent_id=body.agent_id,
        name=body.name,
        key=ask.key,
        activate=body.activate,
    )
    view = await _record(ask, session)
    ask.headers.append((b"location", f"/v1/sessions/{session.id}".encode()))
    return ask.answer(view, version=view.version)


def _vars(body: CreateBody) -> dict[str, Any] | Vars | None:
    """The first vars of a session, with their schema if there is one."""
    if not body.schema:
        return body.vars
    return Vars(document=body.vars or {}, schema=body.schema, schema_version=body.schema_version)


async def _record(ask: Ask, session: Any) -> RecordView:
    info, state = await session.info(), await session.state()
    points = await session.checkpoints() if await may_read(ask, session.id, Thing.CHECKPOINTS) else ()
    sees_pad = await may_read(ask, session.id, Thing.SCRATCHPAD)
    hidden = ask.hidden if sees_pad else (*ask.hidden, "scratchpad")
    return record_view(info, state, await session.account(), points, ask.voice, hidden)


@table.add("GET", "/v1/sessions/{session_id}", (Verb.READ, Thing.SESSION), answer=RecordView)
async def get_session(ask: Ask) -> Answer:
    """A session whole, but for its history."""
    session = ask.session
    version = await session.version()
    if (same := ask.unchanged(version)) is not None:
        return same
    view = await _record(ask, session)
    return ask.answer(view, version=view.version)


@table.add(
    "PATCH",
    "/v1/sessions/{session_id}",
    (Verb.WRITE, Thing.SESSION),
    body=ChangeBody,
    answer=Version,
    guarded=True,
    errors=(errors.VersionConflict, errors.Terminal),
    example={"title": "Porto trip"},
)
async def change_session(ask: Ask) -> Answer:
    """Change title, tags, metadata or configuration; what is not given stays."""
    body: ChangeBody = await ask.body()
    given = {"title": body.title, "tags": body.tags, "metadata": body.metadata, "config": config_of(body.config)}
    version = None
    while version is None:
        version = await _changed(ask, given)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


async def _changed(ask: Ask, given: dict[str, Any]) -> int | None:
    """The version after the change; None when somebody was faster, and who may change what must be checked again."""
    expected, config = ask.seen, given["config"]
    if ask.policy.fields or (config and config.get("memory") is not None):
        state = (await pinned(ask, ask.seen)).state
        await must(ask, Thing.SESSION, written_to_session(ask, state, **given))
        await must_show(ask, config, state.origin.owner, state.origin.agent_id, state)
        expected = state.version
    try:
        return await ask.session.configure(**given, expected=expected)
    except VersionConflict:
        if ask.seen == expected:
            raise
        return None


@table.add(
    "DELETE",
    "/v1/sessions/{session_id}",
    (Verb.DELETE, Thing.SESSION),
    query=EraseQuery,
    answer=Erased,
    guarded=True,
    sensitive=True,
    errors=(errors.VersionConflict, errors.BranchRefused),
)
async def erase_session(ask: Ask) -> Answer:
    """Remove a session for good, its keys destroyed with it; if asked, with what was learnt from it."""
    query: EraseQuery = ask.query()
    if query.memories:
        await must_forget(ask)
    gone = await ask.session.erase(expected=ask.seen, forget=query.memories)
    return ask.answer(Erased(ask.id, int(gone), gone.memories))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/transitions",
    (Verb.MOVE, Thing.LIFECYCLE),
    body=MoveBody,
    answer=Version,
    keyed=True,
    guarded=True,
    sensitive=True,
    errors=(errors.MoveRefused, errors.GuardFailed, errors.VersionConflict, errors.HookRefused),
    example={"event": "suspend", "reason": "waiting for the customer"},
)
async def move_session(ask: Ask) -> Answer:
    """Move a session along its lifecycle."""
    body: MoveBody = await ask.body()
    version = await ask.session.move(body.event, body.reason, expected=ask.seen, key=ask.key)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/renew",
    (Verb.MOVE, Thing.LIFECYCLE),
    body=RenewBody,
    answer=Renewed,
    optional=True,
    errors=(errors.RenewalRefused, errors.NotOwner, errors.Terminal),
    example={"ttl": 3600},
)
async def renew_session(ask: Ask) -> Answer:
    """Let a session live longer, never past its absolute limit."""
    body: RenewBody = await ask.body()
    return ask.answer(Renewed(ask.id, await ask.session.renew(body.ttl, until=body.until)))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/recover",
    (Verb.WRITE, Thing.TURNS),
    body=ReasonBody,
    answer=Recovered,
    optional=True,
)
async def recover_session(ask: Ask) -> Answer:
    """Close a turn whose writer died, naming the tools to retry."""
    body: ReasonBody = await ask.body()
    reason = {"reason": body.reason} if body.reason else {}
    return ask.answer(Recovered(recovered=await ask.services.lifecycle.recover(ask.id, **reason)))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/rollback",
    (Verb.WRITE, Thing.TURNS),
    body=ReasonBody,
    answer=Version,
    optional=True,
    errors=(errors.TurnRefused,),
)
async def roll_back(ask: Ask) -> Answer:
    """Drop the open turn from the conversation; its money stays spent."""
    body: ReasonBody = await ask.body()
    version = await ask.session.roll_back(body.reason)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


_CONFIG_FIELDS = set(Config.__struct_fields__) - set(ConfigBody.__struct_fields__)
if _CONFIG_FIELDS:
    raise TypeError(f"the configuration has fields that cannot be sent: {sorted(_CONFIG_FIELDS)}")
