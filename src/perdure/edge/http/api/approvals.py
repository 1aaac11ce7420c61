"""Calls that a person must allow: which wait, and what is answered."""

from typing import Annotated

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.errors import Denied
from perdure.core.talk.turning import Waiting
from perdure.edge.http.api.turns import TurnAnswer, told
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.reaching import must_see_words
from perdure.edge.http.routes import Table

table = Table()
Text = Annotated[str, Meta(max_length=1000)]


class ApprovalBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether a call may run, and why."""

    allowed: bool
    note: Text = ""


class Approvals(msgspec.Struct, kw_only=True):
    """The calls that wait for a person."""

    session_id: str
    turn: int | None
    waiting: tuple[Waiting, ...]


@table.add("GET", "/v1/sessions/{session_id}/approvals", (Verb.READ, Thing.TURNS), answer=Approvals)
async def list_approvals(ask: Ask) -> Answer:
    """The calls that wait for a person."""
    must_see_words(ask)
    state = await ask.session.state()
    open = state.turns.open
    if open is None:
        return ask.answer(Approvals(session_id=ask.id, turn=None, waiting=()))
    outcome = await ask.services.talking.outcome(ask.id, open.number)
    waiting = tuple(item for item in outcome.waiting if item.approval)
    return ask.answer(Approvals(session_id=ask.id, turn=open.number, waiting=waiting))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/approvals/{call}",
    (Verb.WRITE, Thing.TURNS),
    body=ApprovalBody,
    answer=TurnAnswer,
    keyed=True,
    sensitive=True,
    errors=(errors.TurnRefused, errors.Suspended, errors.Terminal, errors.KeyReused, errors.KeyInFlight),
    example={"allowed": True, "note": "within the limit"},
)
async def answer_approval(ask: Ask) -> Answer:
    """Allow or deny a call that waits for a person; the turn goes on when it was the last one."""
    body: ApprovalBody = await ask.body()
    must_see_words(ask)
    if ask.actor.kind == "agent":
        raise Denied("a person must answer for a tool, not an agent; sign in as one", reason="approval")
    talking = ask.services.talking
    begun = await talking.approve(ask.id, ask.params["call"], allowed=body.allowed, note=body.note, key=ask.key)
    return told(ask, await talking.outcome(ask.id, begun.turn))
