"""Consolidation of memory: runs on demand, what they did, and taking them back."""

from typing import Any

import msgspec

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.memory.retelling import Did
from perdure.core.memory.shelf import Run
from perdure.edge.http.api.memory import or_missing
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table
from perdure.edge.http.spaces import READ, Entered, Place, SpaceQuery, entered, may_enter

table = Table()
PART = 1_024
"""Memories that one request embeds, about."""


class ConsolidateBody(Place, kw_only=True, forbid_unknown_fields=True):
    """Which space; with `dry` nothing is written, and the answer says what would be done, for whoever may read it."""

    dry: bool = False


class UndoBody(Place, kw_only=True, forbid_unknown_fields=True):
    """Of which space the run was."""


class MemoryRunView(msgspec.Struct, kw_only=True):
    """A consolidation. `phase` is began, stepped, ended, undoing, undone or dry, `found` counts what it did; `cost` is
    in micro-dollars, where a model was asked. `place` is how far it has got, or at its end who should have had a say
    and failed.
    """

    id: str
    space: str
    phase: str
    trigger: str
    place: str
    found: dict[str, int]
    began_at: int
    at: int
    model: str
    cost: int


class MemoryStep(msgspec.Struct, kw_only=True):
    """Something that a run did to a memory, or would do (`log_version` is 0 then): the status it was given, `changed`,
    or `kept`; `forgotten` where nothing is known of it any more. `content` is what the memory says, `by_content` what
    the one says that takes its place; null where that was forgotten since.
    """

    log_version: int
    at: int
    id: str
    did: str
    by: str
    reason: str
    before: Any
    after: Any
    content: str | None
    by_content: str | None


class Consolidated(MemoryRunView, kw_only=True):
    """A consolidation, and of a dry one what it `would` do, step by step."""

    would: tuple[MemoryStep, ...] = ()


class MemoryRuns(msgspec.Struct, kw_only=True):
    """The consolidations there were, oldest first."""

    items: tuple[MemoryRunView, ...]


class MemoryRunSteps(msgspec.Struct, kw_only=True):
    """A consolidation, and what it did, step by step."""

    run: MemoryRunView
    steps: tuple[MemoryStep, ...]


class ReembedBody(Place, kw_only=True, forbid_unknown_fields=True):
    """Which space."""


class Reembedded(msgspec.Struct, kw_only=True):
    """How many memories were given vectors of the embedder now, how many are left without, and how many there are.
    Where the server has no embedder, its name is empty.
    """

    space: str
    embedder: str
    made: int
    left: int
    memories: int


class UndoneRun(msgspec.Struct, kw_only=True):
    """How many memories are as they were."""

    id: str
    restored: int


@table.add(
    "POST",
    "/v1/memory/consolidate",
    (Verb.WRITE, Thing.MEMORY),
    body=ConsolidateBody,
    answer=Consolidated,
    optional=True,
    errors=(errors.QuotaReached, errors.NotFound, errors.VersionConflict),
    example={"dry": True},
)
async def consolidate_memory(ask: Ask) -> Answer:
    """Bring a space into order: what says the same becomes one, what is no longer true is superseded, what nobody needs
    is archived. A run that was cut short is gone on with.
    """
    body: ConsolidateBody = await ask.body()
    place = await entered(ask, body)
    run = await or_missing(ask.services.consolidating.run(place.space, dry=body.dry))
    would = run.would if run.would and await may_enter(ask, body, READ) else ()
    facts = msgspec.structs.asdict(_view(run, place))
    return ask.answer(Consolidated(**facts, would=tuple(_step(step, ask) for step in would)))


@table.add(
    "POST",
    "/v1/memory/reembed",
    (Verb.WRITE, Thing.MEMORY),
    body=ReembedBody,
    answer=Reembedded,
    optional=True,
    errors=(errors.NotFound, errors.VersionConflict, errors.ProviderFailed, errors.ProviderRefused),
)
async def reembed_memory(ask: Ask) -> Answer:
    """Make vectors that the server's embedder has not made yet, as after another one was chosen: a part of them, so ask
    again while some are left. The server does it by itself, too; meanwhile everything is found by its words.
    """
    place = await entered(ask, await ask.body())
    done = await or_missing(ask.services.memories.reembedding.run(place.space, limit=PART))
    return ask.answer(Reembedded(**msgspec.structs.asdict(done) | {"space": place.told}))


@table.add(
    "GET",
    "/v1/memory/runs",
    (Verb.LIST, Thing.MEMORY),
    query=SpaceQuery,
    answer=MemoryRuns,
    errors=(errors.NotFound,),
)
async def list_memory_runs(ask: Ask) -> Answer:
    """The consolidations of a space."""
    place = await entered(ask, ask.query())
    runs = await ask.services.consolidating.runs(place.space)
    return ask.answer(MemoryRuns(items=tuple(_view(run, place) for run in runs)))


@table.add("GET", "/v1/memory/runs/{run_id}", (Verb.READ, Thing.MEMORY), query=SpaceQuery, answer=MemoryRunSteps)
async def read_memory_run(ask: Ask) -> Answer:
    """A consolidation as far as it is, and what it did, for review."""
    place, id = await entered(ask, ask.query()), ask.params["run_id"]
    steps = await or_missing(ask.services.consolidating.steps(place.space, id), "run")
    runs = {run.id: run for run in await ask.services.consolidating.runs(place.space)}
    return ask.answer(MemoryRunSteps(run=_view(runs[id], place), steps=tuple(_step(step, ask) for step in steps)))


@table.add(
    "POST",
    "/v1/memory/runs/{run_id}/undo",
    (Verb.WRITE, Thing.MEMORY),
    body=UndoBody,
    optional=True,
    answer=UndoneRun,
    errors=(errors.Refused, errors.VersionConflict),
)
async def undo_memory_run(ask: Ask) -> Answer:
    """Take a consolidation back: every memory that it touched is as it was before."""
    body: UndoBody = await ask.body()
    place, id = await entered(ask, body), ask.params["run_id"]
    undone = await or_missing(ask.services.consolidating.undo(place.space, id), "run")
    return ask.answer(UndoneRun(id=id, restored=undone))


_DOCUMENTS = ("before", "after")
_OF_RUNS = tuple(name for name in MemoryRunView.__struct_fields__ if name != "space")


def _step(step: Did, ask: Ask) -> MemoryStep:
    facts = msgspec.structs.asdict(step) | {name: ask.voice.content(getattr(step, name)) for name in _DOCUMENTS}
    return MemoryStep(log_version=facts.pop("version"), **facts)


def _view(run: Run, place: Entered) -> MemoryRunView:
    facts = msgspec.structs.asdict(run)
    return MemoryRunView(space=place.told, **{name: facts[name] for name in _OF_RUNS})
