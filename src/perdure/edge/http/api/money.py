"""The budget: what a session may spend, what is set aside, what it really cost."""

from typing import Annotated

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table
from perdure.edge.http.views import AccountView, Version, account_view

table = Table()
Text = Annotated[str, Meta(max_length=1000)]
Micros = Annotated[int, Meta(ge=0, lt=1 << 62)]


class ReserveBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Money to set aside, in micro-dollars, under a name."""

    name: Text
    amount: Micros
    purpose: Text = ""


class SettleBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What it really cost, in micro-dollars."""

    name: Text
    cost: Micros
    estimated: bool = False


@table.add("GET", "/v1/sessions/{session_id}/account", (Verb.READ, Thing.BUDGET), answer=AccountView)
async def read_account(ask: Ask) -> Answer:
    """The account the session draws on; without one there is no limit."""
    return ask.answer(account_view(await ask.session.account()))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/reserve",
    (Verb.WRITE, Thing.BUDGET),
    body=ReserveBody,
    answer=Version,
    keyed=True,
    errors=(errors.BudgetExhausted, errors.Terminal, errors.KeyReused),
    example={"name": "call-1", "amount": 25000},
)
async def reserve(ask: Ask) -> Answer:
    """Set money aside; refused when the account has not that much left."""
    body: ReserveBody = await ask.body()
    version = await ask.session.reserve(body.name, body.amount, body.purpose, key=ask.key)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/settle",
    (Verb.WRITE, Thing.BUDGET),
    body=SettleBody,
    answer=Version,
    keyed=True,
    errors=(errors.Terminal, errors.KeyReused),
    example={"name": "call-1", "cost": 18000},
)
async def settle(ask: Ask) -> Answer:
    """Say what it really cost; the rest of the reservation returns."""
    body: SettleBody = await ask.body()
    version = await ask.session.settle(body.name, body.cost, estimated=body.estimated, key=ask.key)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)
