"""Points a session can be resumed from, and the branches made there: checkpoints, resume, branch, merge."""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.access.views import conflict_paths
from perdure.core.session.waking import WakePolicy
from perdure.edge.http.addressing import must_be_free
from perdure.edge.http.api.sessions import ConfigBody, config_of
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.granting import must_show_in_branch
from perdure.edge.http.reaching import must, must_in_branch, must_see_all, other, seen_rows, state_of
from perdure.edge.http.routes import Table
from perdure.edge.http.views import CheckpointView, Listed, StateView, checkpoint_view, session_view, state_view
from perdure.edge.http.wire import fitted

table = Table()
Text = Annotated[str, Meta(max_length=1000)]


class CheckpointBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A label, and what else is to be known of it."""

    label: Text = ""
    metadata: dict[str, Any] | None = None


class Checkpoints(msgspec.Struct, kw_only=True):
    """The checkpoints that can be used, oldest first."""

    items: tuple[CheckpointView, ...]


class RestoredView(msgspec.Struct, kw_only=True):
    """The state a checkpoint holds; `rebuilt` when its kept copy was damaged and the log had to speak."""

    checkpoint: CheckpointView
    rebuilt: bool
    state: StateView


class ResumeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """With a checkpoint, a new session goes on from there; without one, or without a body, this suspended session is
    woken: checked, restored, and active again.
    """

    checkpoint_id: str | None = None
    config_override: ConfigBody | None = None
    title: Text | None = None
    policy: dict[str, Any] | None = None
    """How strict waking is; see WakePolicy."""


class Resumed(msgspec.Struct, kw_only=True):
    """The session that goes on, and how it came to, if it was woken in place."""

    session_id: str
    version: int
    phase: str
    branched: bool
    woken: Any = None


class BranchBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to branch (the present version when left out), why, and with which configuration."""

    at: int | None = None
    kind: Text = "checkpoint"
    name: Text = ""
    title: Text | None = None
    config: ConfigBody | None = None
    called: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    """The name the branch is to be found by."""


class RewindBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many turns to go back, or to which version."""

    turns: int = 1
    to: int | None = None
    title: Text | None = None


class EditBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which turn starts anew, with which words."""

    turn: int
    content: Any
    title: Text | None = None


class Branched(msgspec.Struct, kw_only=True):
    """The new session."""

    session_id: str
    version: int
    parent: str | None


class MergeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose vars and scratchpads to take over, and who wins: escalate, ours, theirs, last_writer."""

    source: str
    policy: Text = "escalate"
    summary: str | None = None


class ResolveBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For each path `ours`, `theirs`, `base`, or a value as `{"value": …}`."""

    choices: dict[str, Any]
    summary: str | None = None


class Merged(msgspec.Struct, kw_only=True):
    """What a merge did; with conflicts, `conflict_id` waits to be resolved."""

    session_id: str
    source: str
    merged: bool
    version: int
    base_version: int
    conflicts: Any
    conflict_id: str | None


@table.add(
    "POST",
    "/v1/sessions/{session_id}/checkpoint",
    (Verb.CREATE, Thing.CHECKPOINTS),
    body=CheckpointBody,
    answer=CheckpointView,
    status=HTTPStatus.CREATED,
    keyed=True,
    optional=True,
    errors=(errors.Terminal, errors.CheckpointExpired),
    example={"label": "before booking", "metadata": {"strategy": "cheap"}},
)
async def take_checkpoint(ask: Ask) -> Answer:
    """Make the present state one that can be resumed from."""
    body: CheckpointBody = await ask.body()
    info = await ask.session.checkpoint(body.label, body.metadata, key=ask.key)
    return ask.answer(checkpoint_view(info, ask.voice))


@table.add("GET", "/v1/sessions/{session_id}/checkpoints", (Verb.READ, Thing.CHECKPOINTS), answer=Checkpoints)
async def list_checkpoints(ask: Ask) -> Answer:
    """The checkpoints that can be used, oldest first."""
    found = await ask.session.checkpoints()
    return ask.answer(Checkpoints(items=tuple(checkpoint_view(item, ask.voice) for item in found)))


@table.add(
    "GET",
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}",
    (Verb.READ, Thing.CHECKPOINTS),
    answer=RestoredView,
    errors=(errors.CheckpointExpired, errors.CheckpointIntegrity),
)
async def read_checkpoint(ask: Ask) -> Answer:
    """The state a checkpoint holds."""
    found = await ask.session.restore(ask.params["checkpoint_id"])
    view = RestoredView(
        checkpoint=checkpoint_view(found.checkpoint, ask.voice),
        rebuilt=found.rebuilt,
        state=state_view(found.state, ask.voice, ask.hidden),
    )
    return ask.answer(view)


@table.add(
    "PUT",
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/pin",
    (Verb.WRITE, Thing.CHECKPOINTS),
    answer=CheckpointView,
    errors=(errors.CheckpointExpired,),
)
async def pin_checkpoint(ask: Ask) -> Answer:
    """Keep a checkpoint for as long as the session lives."""
    return ask.answer(checkpoint_view(await ask.session.pin(ask.params["checkpoint_id"]), ask.voice))


@table.add(
    "DELETE",
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/pin",
    (Verb.WRITE, Thing.CHECKPOINTS),
    answer=CheckpointView,
    errors=(errors.CheckpointExpired,),
)
async def unpin_checkpoint(ask: Ask) -> Answer:
    """Let a checkpoint expire again."""
    return ask.answer(checkpoint_view(await ask.session.unpin(ask.params["checkpoint_id"]), ask.voice))


@table.add(
    "DELETE",
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}",
    (Verb.DELETE, Thing.CHECKPOINTS),
    status=HTTPStatus.NO_CONTENT,
    errors=(errors.CheckpointExpired,),
)
async def drop_checkpoint(ask: Ask) -> Answer:
    """Make a checkpoint's id unusable now."""
    await ask.session.drop_checkpoint(ask.params["checkpoint_id"])
    return Answer(HTTPStatus.NO_CONTENT, b"", b"", ask.headers)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/resume",
    (Verb.BRANCH, Thing.SESSION),
    body=ResumeBody,
    answer=Resumed,
    optional=True,
    keyed=True,
    guarded=True,
    errors=(errors.CheckpointExpired, errors.WakeRefused, errors.BranchRefused, errors.MoveRefused, errors.KeyReused),
    example={"checkpoint_id": "0192f0c4-7d1e-7abc-8def-0123456789ab", "config_override": {"model": "large"}},
)
async def resume(ask: Ask) -> Answer:
    """Go on: from a checkpoint in a new session, or, without one, by waking this session where it sleeps."""
    body: ResumeBody = await ask.body()
    if body.checkpoint_id is None:
        policy = None if body.policy is None else fitted(body.policy, WakePolicy)
        woken = await ask.session.wake(policy, expected=ask.seen, key=ask.key)
        # The report repeats parts of the state here and there: with hidden fields, none of it is shown.
        plain = None if ask.hidden else msgspec.to_builtins(woken, builtin_types=(bytes,))
        view = Resumed(
            session_id=ask.id,
            version=woken.version,
            phase=woken.phase.value,
            branched=False,
            woken=ask.voice.content(plain),
        )
        return ask.answer(view, version=woken.version)
    config = config_of(body.config_override)
    await must_in_branch(ask, body.title, config)
    await must_show_in_branch(ask, config)
    made = await ask.session.resume(body.checkpoint_id, title=body.title, config=config, key=ask.key)
    row = await made.info()
    ask.headers.append((b"location", f"/v1/sessions/{made.id}".encode()))
    view = Resumed(session_id=made.id, version=row.version, phase=row.phase, branched=True)
    return ask.answer(view, status=HTTPStatus.CREATED, version=row.version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/branch",
    (Verb.BRANCH, Thing.SESSION),
    body=BranchBody,
    answer=Branched,
    status=HTTPStatus.CREATED,
    optional=True,
    keyed=True,
    errors=(errors.BranchRefused, errors.HookRefused, errors.KeyReused),
    example={"at": 12, "kind": "sim", "title": "What if it rains"},
)
async def branch(ask: Ask) -> Answer:
    """A session that shares this one's log up to a version and goes its own way."""
    body: BranchBody = await ask.body()
    must_be_free(body.called)
    config = config_of(body.config)
    await must_in_branch(ask, body.title, config)
    await must_show_in_branch(ask, config, here=body.at is None)
    made = await ask.session.branch(
        body.at,
        kind=body.kind,
        name=body.name,
        title=body.title,
        config=config,
        id=None if body.called is None else ask.db.named(body.called).id,
        key=ask.key,
    )
    return await _branched(ask, made)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/rewind",
    (Verb.BRANCH, Thing.SESSION),
    body=RewindBody,
    answer=Branched,
    status=HTTPStatus.CREATED,
    optional=True,
    errors=(errors.BranchRefused,),
    example={"turns": 2},
)
async def rewind(ask: Ask) -> Answer:
    """A branch from before the last turns, or at a version."""
    body: RewindBody = await ask.body()
    await must_in_branch(ask, body.title, None)
    await must_show_in_branch(ask, None)
    return await _branched(ask, await ask.session.rewind(body.turns, to=body.to, title=body.title))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/edit",
    (Verb.BRANCH, Thing.SESSION),
    body=EditBody,
    answer=Branched,
    status=HTTPStatus.CREATED,
    errors=(errors.BranchRefused,),
    example={"turn": 1, "content": "Find me a train instead"},
)
async def edit(ask: Ask) -> Answer:
    """A branch in which a turn starts anew with other words, left open for the answer."""
    body: EditBody = await ask.body()
    await must_in_branch(ask, body.title, None)
    await must_show_in_branch(ask, None)
    return await _branched(ask, await ask.session.edit(body.turn, body.content, title=body.title))


async def _branched(ask: Ask, made: Any) -> Answer:
    row = await made.info()
    ask.headers.append((b"location", f"/v1/sessions/{made.id}".encode()))
    view = Branched(session_id=made.id, version=row.version, parent=row.parent)
    return ask.answer(view, version=row.version)


@table.add("GET", "/v1/sessions/{session_id}/branches", (Verb.READ, Thing.SESSION), answer=Listed)
async def list_branches(ask: Ask) -> Answer:
    """The branches made from a session, newest first."""
    rows = await seen_rows(ask, await ask.session.branches())
    return ask.answer(Listed(items=tuple(session_view(row, ask.voice, ask.hidden) for row in rows), cursor=None))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/merge",
    (Verb.WRITE, Thing.STATE),
    body=MergeBody,
    answer=Merged,
    errors=(errors.MergeConflict, errors.Terminal),
    example={"source": "0192f0c4-7d1e-7abc-8def-0123456789ab", "policy": "theirs"},
)
async def merge(ask: Ask) -> Answer:
    """Take over another session's vars and scratchpads, three-way."""
    body: MergeBody = await ask.body()
    must_see_all(ask)
    if ask.policy.fields:  # what the source has by then cannot be known before, so all of it must be theirs to write
        await must(ask, Thing.STATE, ("vars", "scratchpad"))
    source = await other(ask, body.source)
    return _merged(ask, await ask.session.merge(source, body.policy, summary=body.summary))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/conflicts/{conflict_id}/resolve",
    (Verb.WRITE, Thing.STATE),
    body=ResolveBody,
    answer=Merged,
    errors=(errors.MergeConflict, errors.Terminal),
    example={"choices": {"vars.city": "ours"}},
)
async def resolve(ask: Ask) -> Answer:
    """Settle a conflict that a merge left."""
    body: ResolveBody = await ask.body()
    must_see_all(ask)
    state = await state_of(ask, ask.id)
    pending = None if state is None else state.links.conflicts.get(ask.params["conflict_id"])
    if ask.policy.fields and pending is not None:
        await must(ask, Thing.STATE, conflict_paths(pending.conflicts))
    return _merged(ask, await ask.session.resolve(ask.params["conflict_id"], body.choices, summary=body.summary))


def _merged(ask: Ask, report: Any) -> Answer:
    facts = msgspec.structs.asdict(report)
    view = Merged(session_id=facts.pop("session"), **facts | {"conflicts": ask.voice.content(list(report.conflicts))})
    return ask.answer(view, version=report.version)
