"""Children: sessions that do a task for another one, on its account and apart from its conversation."""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.talk.children import Child, Returns, SpawnRequest
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.reaching import must_see_words
from perdure.edge.http.routes import Table

table = Table()
Text = Annotated[str, Meta(max_length=1000)]
Words = Annotated[str, Meta(min_length=1, max_length=100_000)]
Count = Annotated[int, Meta(ge=1, lt=1 << 31)]
Amount = Annotated[int, Meta(ge=0, le=1 << 53)]
LONGEST = 600.0
"""Seconds that a request waits at most."""


class SpawnBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A task for a child, which sees `context` and the task and nothing else of the conversation. Without a model it
    has the cheap one. `max_cost`, in micro-dollars, is a slice of the session's budget, with `tokens` and `rounds`
    where those are limited. `tools` are the only ones it may use. With `wait`, the answer comes when the child has
    ended, or after some minutes.
    """

    task: Words
    model: Text | None = None
    context: Annotated[str, Meta(max_length=1_000_000)] | None = None
    max_tokens: Count | None = None
    return_format: Returns = "summary"
    max_cost: Amount | None = None
    tokens: Amount | None = None
    rounds: Amount | None = None
    agent: Text | None = None
    strategy: Text = ""
    tools: Annotated[tuple[Text, ...], Meta(max_length=256)] | None = None
    wait: bool = False


class WaitBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which children to wait for, all that are at work if none are named, and for how many seconds."""

    children: Annotated[tuple[Text, ...], Meta(max_length=1000)] | None = None
    timeout: Annotated[float, Meta(ge=0, le=LONGEST)] = 60.0


class ChildAnswer(msgspec.Struct, kw_only=True):
    """A child: running, parked until a person allows a call, finished, or failed. `result` is its last answer, or all
    of its conversation; `spent` and `max_cost` are micro-dollars.
    """

    session_id: str
    task: str
    status: str
    model: str
    return_format: str
    max_cost: int | None
    result: Any
    error: str
    spent: int
    spawned_at: int
    version: int


class ChildList(msgspec.Struct, kw_only=True):
    """Children, the first spawned first."""

    session_id: str
    items: tuple[ChildAnswer, ...]


@table.add(
    "POST",
    "/v1/sessions/{session_id}/spawn",
    (Verb.WRITE, Thing.TURNS),
    body=SpawnBody,
    answer=ChildAnswer,
    status=HTTPStatus.CREATED,
    keyed=True,
    errors=(
        errors.SpawnRefused,
        errors.BudgetExhausted,
        errors.UnknownModel,
        errors.Suspended,
        errors.Terminal,
        errors.KeyReused,
        errors.KeyInFlight,
    ),
    example={"task": "Find the cheapest train to Vienna.", "context": "Two people, on Friday.", "max_tokens": 500},
)
async def spawn_child(ask: Ask) -> Answer:
    """Have a session of its own do a task for this one; its result comes back to this one's log."""
    body: SpawnBody = await ask.body()
    must_see_words(ask)
    fields = {name: getattr(body, name) for name in SpawnRequest.__struct_fields__}
    spawning = ask.services.spawning
    child = await spawning.spawn(ask.id, SpawnRequest(**fields), key=ask.key)
    if body.wait:
        child = (await spawning.wait(ask.id, [child.session], LONGEST))[0]
    return ask.answer(view_of(child, ask))


@table.add(
    "GET",
    "/v1/sessions/{session_id}/children",
    (Verb.READ, Thing.TURNS),
    answer=ChildList,
)
async def list_children(ask: Ask) -> Answer:
    """All children of a session, as they stand."""
    must_see_words(ask)
    return _listed(ask, await ask.services.spawning.children(ask.id))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/children/wait",
    (Verb.READ, Thing.TURNS),
    body=WaitBody,
    optional=True,
    answer=ChildList,
    example={"timeout": 30},
)
async def wait_for_children(ask: Ask) -> Answer:
    """These children when they have ended, or as they stand when the time is over."""
    body: WaitBody = await ask.body()
    must_see_words(ask)
    return _listed(ask, await ask.services.spawning.wait(ask.id, body.children, body.timeout))


def view_of(child: Child, ask: Ask) -> ChildAnswer:
    """A child as HTTP tells it."""
    facts = msgspec.structs.asdict(child)
    return ChildAnswer(session_id=facts.pop("session"), **(facts | {"result": ask.voice.content(child.result)}))


def _listed(ask: Ask, children: tuple[Child, ...]) -> Answer:
    return ask.answer(ChildList(session_id=ask.id, items=tuple(view_of(child, ask) for child in children)))
