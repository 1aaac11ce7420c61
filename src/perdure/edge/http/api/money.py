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
    """Money to set aside, in micro-dollars, under a name, and tokens and rounds with it."""

    name: Text
    amount: Micros
    purpose: Text = ""
    tokens: Micros = 0
    rounds: Micros = 0


class SettleBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What it really cost, in micro-dollars, and the tokens and rounds it took."""

    name: Text
    cost: Micros
    estimated: bool = False
    tokens: Micros = 0
    rounds: Micros = 0


class CorrectBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What it cost that was settled by an estimate, in micro-dollars."""

    name: Text
    cost: Micros


class CostsView(msgspec.Struct, kw_only=True):
    """What a session has cost so far, in micro-dollars. `estimated` is the part of `spent` that may yet be corrected.
    `tokens` and `rounds` count against caps; `asked` says how often models were asked. `limits` are the caps in force,
    by cost, tokens and rounds, with what the whole tree of sessions has used of them.
    """

    spent: int
    reserved: int
    estimated: int
    overrun: int
    tokens: int
    held_tokens: int
    rounds: int
    held_rounds: int
    asked: int
    tokens_in: int
    tokens_out: int
    cache_read: int
    by_model: dict[str, int]
    by_agent: dict[str, int]
    by_strategy: dict[str, int]
    limits: dict[str, AccountView]


@table.add("GET", "/v1/sessions/{session_id}/account", (Verb.READ, Thing.BUDGET), answer=AccountView)
async def read_account(ask: Ask) -> Answer:
    """The account the session draws on; without one there is no limit."""
    return ask.answer(account_view(await ask.session.account()))


@table.add("GET", "/v1/sessions/{session_id}/costs", (Verb.READ, Thing.BUDGET), answer=CostsView)
async def read_costs(ask: Ask) -> Answer:
    """What the session has cost so far, by model, agent and strategy, and how the caps it shares stand."""
    found = await ask.session.costs()
    facts = {name: getattr(found, name) for name in CostsView.__struct_fields__ if name != "limits"}
    limits = {limit: account_view(account) for limit, account in found.limits.items()}
    return ask.answer(CostsView(**facts, limits=limits))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/reserve",
    (Verb.WRITE, Thing.BUDGET),
    body=ReserveBody,
    answer=Version,
    keyed=True,
    errors=(errors.BudgetExhausted, errors.LimitReached, errors.Terminal, errors.KeyReused),
    example={"name": "call-1", "amount": 25000},
)
async def reserve(ask: Ask) -> Answer:
    """Set money aside, and tokens and rounds with it; refused when the account has not that much left."""
    body: ReserveBody = await ask.body()
    version = await ask.session.reserve(
        body.name, body.amount, body.purpose, tokens=body.tokens, rounds=body.rounds, key=ask.key
    )
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
    """Say what it really cost and took; the rest of the reservation returns."""
    body: SettleBody = await ask.body()
    version = await ask.session.settle(
        body.name, body.cost, estimated=body.estimated, tokens=body.tokens, rounds=body.rounds, key=ask.key
    )
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


@table.add(
    "POST",
    "/v1/sessions/{session_id}/correct",
    (Verb.WRITE, Thing.BUDGET),
    body=CorrectBody,
    answer=Version,
    keyed=True,
    errors=(errors.KeyReused,),
    example={"name": "call-1", "cost": 12000},
)
async def correct(ask: Ask) -> Answer:
    """Say what it cost that was settled by an estimate; the difference returns to the account, or is taken from it."""
    body: CorrectBody = await ask.body()
    version = await ask.session.correct(body.name, body.cost, key=ask.key)
    return ask.answer(Version(session_id=ask.id, version=version), version=version)
