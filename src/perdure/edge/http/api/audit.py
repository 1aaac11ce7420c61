"""The audit log: who was let in to what, and who was not; shown, verified, exported."""

import asyncio
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.entries import Filters
from perdure.core.access.roles import Thing, Verb
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table
from perdure.waiting import drive

table = Table()
LINES = "application/x-ndjson"
Text = Annotated[str, Meta(max_length=256)]


class AuditQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which entries; all given conditions must hold."""

    after: Annotated[int, Meta(ge=0, lt=1 << 62)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    newest: bool = False
    actor: Text | None = None
    credential: Text | None = None
    session: Text | None = None
    what: Text | None = None
    action: Text | None = None
    outcome: Literal["allowed", "denied", "flagged"] | None = None
    reason: Text | None = None
    since: int | None = None
    until: int | None = None


class Audited(msgspec.Struct, kw_only=True):
    """Entries in order; `after` leads to the next page, null after the last."""

    items: tuple[Any, ...]
    after: int | None


class AuditProof(msgspec.Struct, kw_only=True):
    """Whether the log still is what was written; `signed` tells up to which version somebody vouches for it."""

    ok: bool
    events: int
    signed: int | None
    problems: Any


@table.add("GET", "/v1/audit", (Verb.READ, Thing.AUDIT), query=AuditQuery, answer=Audited)
async def read_audit(ask: Ask) -> Answer:
    """Who was let in to what, and who was not."""
    query: AuditQuery = ask.query()
    facts = {name: value for name in Filters.__struct_fields__ if (value := getattr(query, name, None)) is not None}
    auditing = ask.node.tenants.auditing
    await auditing.flush()
    page = await auditing.page(ask.actor.tenant, query.after, query.limit, Filters(**facts), newest=query.newest)
    items = tuple({"version": line.version} | msgspec.to_builtins(line.entry) for line in page.items)
    return ask.answer(Audited(items=items, after=page.next))


@table.add("POST", "/v1/audit/verify", (Verb.READ, Thing.AUDIT), answer=AuditProof)
async def verify_audit(ask: Ask) -> Answer:
    """Whether the audit log still is what was written, to its end."""
    # A long log takes its time: on a thread of its own it does not wait for the others, nor they for it.
    report = await asyncio.to_thread(drive, ask.node.tenants.auditing.verify(ask.actor.tenant))
    problems = [msgspec.to_builtins(item) for item in report.problems]
    return ask.answer(AuditProof(ok=report.ok, events=report.events, signed=report.signed, problems=problems))


@table.add(
    "GET",
    "/v1/audit/export",
    (Verb.EXPORT, Thing.AUDIT),
    answer=bytes,
    pieces=True,
    media=LINES,
    sensitive=True,
    errors=(errors.NotFound,),
)
async def export_audit(ask: Ask) -> Answer:
    """The audit log as JSON lines, each proven on the way out, signed at its end where the store is sealed."""
    auditing = ask.node.tenants.auditing
    await auditing.flush()
    lines = auditing.export(ask.actor.tenant)
    first = await anext(aiter(lines))

    async def pieces() -> Any:
        yield first
        async for line in lines:
            yield line

    return Answer(HTTPStatus.OK, b"", LINES.encode(), ask.headers, pieces())
