"""All that came from one source, in every space of a tenant: counted, taken out of use, brought back, erased."""

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.remembered import Text
from perdure.edge.http.routes import Table

if TYPE_CHECKING:  # loaded with the first request about it, so that a server starts quickly
    from perdure.core.memory.sourcing import By
    from perdure.services.sourcing import Touched

table = Table()
Reason = Annotated[str, Meta(max_length=1000)]
_ERRORS: Final = (errors.QuotaReached, errors.VersionConflict)


class SourcesBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A source, by one of these: a session, the principal that wrote it down, or an address."""

    session: Text = ""
    writer: Text = ""
    uri: Text = ""
    reason: Reason = ""


class TouchedMemories(msgspec.Struct, kw_only=True):
    """What was done, to how many memories of which spaces; `restored` had been superseded by them, and count again."""

    action: str
    spaces: dict[str, int]
    memories: int
    restored: int


@table.add(
    "POST",
    "/v1/memory/sources/report",
    (Verb.ISSUE, Thing.MEMORY),
    body=SourcesBody,
    answer=TouchedMemories,
    errors=_ERRORS,
    example={"writer": "scraper"},
)
async def report_source(ask: Ask) -> Answer:
    """How much comes from a source, in which spaces of the tenant; nothing is touched."""
    body: SourcesBody = await ask.body()
    return _touched(ask, await ask.services.sourcing.report(_by(body)))


@table.add(
    "POST",
    "/v1/memory/sources/quarantine",
    (Verb.ISSUE, Thing.MEMORY),
    body=SourcesBody,
    answer=TouchedMemories,
    sensitive=True,
    errors=_ERRORS,
    example={"writer": "scraper", "reason": "it repeats what pages tell it"},
)
async def quarantine_source(ask: Ask) -> Answer:
    """Take what comes from a source out of use, in every space of the tenant."""
    body: SourcesBody = await ask.body()
    return _touched(ask, await ask.services.sourcing.quarantine(_by(body), body.reason))


@table.add(
    "POST",
    "/v1/memory/sources/release",
    (Verb.ISSUE, Thing.MEMORY),
    body=SourcesBody,
    answer=TouchedMemories,
    sensitive=True,
    errors=_ERRORS,
    example={"writer": "scraper"},
)
async def release_source(ask: Ask) -> Answer:
    """Bring back what was quarantined by its source, as it was before."""
    body: SourcesBody = await ask.body()
    return _touched(ask, await ask.services.sourcing.release(_by(body)))


@table.add(
    "POST",
    "/v1/memory/sources/erase",
    (Verb.ISSUE, Thing.MEMORY),
    body=SourcesBody,
    answer=TouchedMemories,
    sensitive=True,
    errors=_ERRORS,
    example={"session": "0192f0c4-7d1e-7abc-8def-0123456789ab", "reason": "its owner asked for it"},
)
async def erase_source(ask: Ask) -> Answer:
    """Take what comes from a source out of every space's log, for good."""
    body: SourcesBody = await ask.body()
    return _touched(ask, await ask.services.sourcing.erase(_by(body), body.reason))


def _by(body: SourcesBody) -> "By":
    from perdure.core.memory.sourcing import By

    return By(session=body.session, writer=body.writer, uri=body.uri)


def _touched(ask: Ask, done: "Touched") -> Answer:
    view = TouchedMemories(action=done.action, spaces=done.spaces, memories=done.memories, restored=done.restored)
    return ask.answer(view)
