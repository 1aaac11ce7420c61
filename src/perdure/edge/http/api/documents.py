"""A session's documents: its state, with the application's own `vars`, and its scratchpads."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.fields import ANY, first_touch, meets, spelled
from perdure.core.access.roles import Thing, Verb
from perdure.core.access.views import of_diff, pad_path
from perdure.core.errors import Denied, Invalid, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session.jsonpatch import merged, patched, pointed
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.reaching import must, must_write, other, pinned
from perdure.edge.http.routes import Table
from perdure.edge.http.views import ScratchpadView, StateView, Version, scratchpad_view, state_view

table = Table()
MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"
Text = Annotated[str, Meta(max_length=1000)]


class AtQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """As of which version; now when it is left out."""

    at: Annotated[int, Meta(ge=1, lt=1 << 62)] | None = None


class DiffQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"since": "from", "upto": "to"}):
    """From which version, and to which; to the present one when it is left out."""

    since: Annotated[int, Meta(ge=1, lt=1 << 62)]
    upto: Annotated[int, Meta(ge=1, lt=1 << 62)] | None = None
    other: str | None = None


class Diff(msgspec.Struct, kw_only=True):
    """What leads from one to the other: `["+", path, value]`, `["-", path, old]`, `["=", path, old, new]`."""

    session_id: str
    changes: Any


class PadQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose pad; the session's own when it is left out."""

    agent: Text | None = None


class PadBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the scratchpad shall say."""

    content: str
    agent: Text | None = None


class VarsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The whole of `vars`, and the schema it follows."""

    vars: dict[str, Any]
    schema: Text = ""
    schema_version: Text = ""


@table.add("GET", "/v1/sessions/{session_id}/state", (Verb.READ, Thing.STATE), query=AtQuery, answer=StateView)
async def read_state(ask: Ask) -> Answer:
    """Everything about a session but its history, now or after a version."""
    query: AtQuery = ask.query()
    if query.at is None and (same := ask.unchanged(await ask.session.version())) is not None:
        return same
    state = await ask.session.state(query.at)
    return ask.answer(state_view(state, ask.voice, ask.hidden), version=state.version)


@table.add(
    "PUT",
    "/v1/sessions/{session_id}/state",
    (Verb.WRITE, Thing.STATE),
    body=VarsBody,
    answer=Version,
    keyed=True,
    guarded=True,
    errors=(errors.VersionConflict, errors.Terminal, errors.SchemaError),
    example={"vars": {"city": "Lisbon"}},
)
async def replace_state(ask: Ask) -> Answer:
    """Make this the application's own state."""
    body: VarsBody = await ask.body()
    command = do.SetVars(document=body.vars, schema=body.schema, schema_version=body.schema_version)
    asked = ["put state", body.vars, body.schema, body.schema_version]

    async def replaced(before: dict[str, Any]) -> do.SetVars:
        await must_write(ask, before, body.vars)
        return command

    return await _set(ask, asked, replaced)


@table.add(
    "PATCH",
    "/v1/sessions/{session_id}/state",
    (Verb.WRITE, Thing.STATE),
    body=Any,
    answer=Version,
    keyed=True,
    guarded=True,
    takes=(MERGE, PATCH, "application/json"),
    errors=(errors.VersionConflict, errors.Terminal, errors.Refused),
    example={"city": "Porto"},
)
async def patch_state(ask: Ask) -> Answer:
    """Change the application's own state by a merge patch (also what plain JSON is taken for) or a JSON patch."""
    media = ask.request.headers.get("content-type", MERGE).split(";")[0].strip().lower()
    change = await ask.document()
    if media != PATCH and type(change) is not dict:
        raise Invalid(f"a merge patch of vars is an object; a list of operations is sent as {PATCH}")
    if media == PATCH:
        _must_not_point_at_hidden(ask, change)
    named = ("vars",) if media != PATCH and meets(change, ask.hidden) else ()

    async def changed(before: dict[str, Any]) -> do.SetVars:
        document = patched(before, change) if media == PATCH else merged(before, change)
        if type(document) is not dict:
            raise Invalid("vars are an object; this patch would make them something else")
        await must_write(ask, before, document, named)
        return do.SetVars(document=document)

    return await _set(ask, ["patch state", media == PATCH, change], changed)


def _must_not_point_at_hidden(ask: Ask, operations: Any) -> None:
    """`Denied` when an operation looks at, into or around something hidden: by what it does, it would tell of it."""
    if not ask.hidden:
        return
    for pieces in pointed(operations):
        path = spelled(("vars", *(ANY if piece == "-" else piece for piece in pieces)))
        if first_touch((path,), ask.hidden) is not None:
            raise Denied("an operation of this patch points at a field that is hidden from you", reason="field")


async def _set(ask: Ask, asked: list[Any], change: Callable[[dict[str, Any]], Awaitable[do.SetVars]]) -> Answer:
    """Change vars as they stand: what is checked is what is written. Under a key, a request is told by what it asks."""
    sessions, seen = ask.services.sessions, ask.seen
    outcome = await sessions.repeated(ask.id, ask.key, asked)
    while outcome is None:
        state = (await pinned(ask, seen)).state
        command = await change(state.vars.document)
        try:
            outcome = await sessions.handle(ask.id, command, expected=state.version, key=ask.key, asked=asked)
        except VersionConflict:
            if seen is not None:
                raise
    return ask.answer(Version(session_id=ask.id, version=outcome.version), version=outcome.version)


@table.add("GET", "/v1/sessions/{session_id}/state/diff", (Verb.READ, Thing.STATE), query=DiffQuery, answer=Diff)
async def diff_state(ask: Ask) -> Answer:
    """What leads from one version's vars and scratchpads to another's."""
    query: DiffQuery = ask.query()
    if query.other is None:
        found = await ask.session.diff(query.since, version=query.upto)
    else:
        found = await ask.services.merging.diff(
            await ask.session.state(query.since), await (await other(ask, query.other)).state(query.upto)
        )
    shown = of_diff(msgspec.to_builtins(found, builtin_types=(bytes,)), ask.hidden)
    return ask.answer(Diff(session_id=ask.id, changes=ask.voice.content(shown)))


@table.add(
    "GET", "/v1/sessions/{session_id}/scratchpad", (Verb.READ, Thing.SCRATCHPAD), query=PadQuery, answer=ScratchpadView
)
async def read_scratchpad(ask: Ask) -> Answer:
    """What the scratchpad says, and how many tokens that takes."""
    query: PadQuery = ask.query()
    state = await ask.session.state()
    return ask.answer(scratchpad_view(state, query.agent or "", ask.hidden), version=state.version)


@table.add(
    "PATCH",
    "/v1/sessions/{session_id}/scratchpad",
    (Verb.WRITE, Thing.SCRATCHPAD),
    body=PadBody,
    answer=ScratchpadView,
    keyed=True,
    guarded=True,
    errors=(errors.VersionConflict, errors.Terminal, errors.Suspended),
    example={"content": "# Plan\n1. Find a flight"},
)
async def write_scratchpad(ask: Ask) -> Answer:
    """Replace what the scratchpad says."""
    body: PadBody = await ask.body()
    if ask.policy.fields:
        await must(ask, Thing.SCRATCHPAD, (pad_path(body.agent),))
    command = do.WriteScratchpad(content=body.content, agent=body.agent)
    outcome = await ask.services.sessions.handle(ask.id, command, expected=ask.seen, key=ask.key)
    view = scratchpad_view(await ask.session.state(), body.agent or "", ask.hidden)
    view.version = outcome.version
    return ask.answer(view, version=outcome.version)
