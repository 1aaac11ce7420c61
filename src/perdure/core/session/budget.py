"""Money, tokens and rounds: reserve the worst case first, settle what it really took after. Money is integer
micro-dollars throughout.

An `Account` is shared by a session, its branches and its children and lives in the store, where reserving is one
conditional update; tokens and rounds are accounts beside it, of the same kind. This module holds the arithmetic both
sides use. Invariant: spent + reserved ≤ cap, unless what was settled exceeded its reservation; then the account is
paused. A cost above its reservation is an overrun.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

import msgspec

from perdure.core.errors import BudgetExhausted, Invalid, LimitReached, NotFound
from perdure.core.session.event import Event, Payload
from perdure.core.session.shown import shown
from perdure.core.session.values import storable

MAX_AMOUNT = 1 << 53
ESTIMATES = 64
"""How many estimated costs are remembered, to be corrected."""
COST: Final = "cost"
TOKENS: Final = "tokens"
ROUNDS: Final = "rounds"
LIMITS: Final = (COST, TOKENS, ROUNDS)
"""What can be capped over a whole tree of sessions."""
UNITS: Final = {COST: "micro-dollars", TOKENS: "tokens", ROUNDS: "rounds"}
_replace = msgspec.structs.replace


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tree of sessions may spend together; no cap means no limit."""

    cap: int | None = None
    spent: int = 0
    reserved: int = 0
    paused: bool = False

    @property
    def left(self) -> int | None:
        """What can still be reserved; None without a cap."""
        return None if self.cap is None else max(0, self.cap - self.spent - self.reserved)


class AccountMove(msgspec.Struct, frozen=True, kw_only=True):
    """One change to an account, applied in the append's transaction."""

    account: str
    reserve: int = 0
    release: int = 0
    spend: int = 0
    cap: int | None = None
    sets_cap: bool = False


def amount(value: int, limit: str = COST) -> int:
    """A sum of money, or a number of tokens or rounds; else `Invalid`."""
    if type(value) is not int or not 0 <= value <= MAX_AMOUNT:
        raise Invalid(f"{shown(value)} is not an amount; use whole {UNITS[limit]} from 0 to 2^53")
    return value


def part_of(account: str, limit: str) -> str:
    """The id under which the store keeps one part of an account; money has the account's own."""
    return account if limit == COST else f"{account}#{limit}"


def limit_of(part: str) -> str:
    """Which part of an account an id stands for."""
    _, sign, limit = part.rpartition("#")
    return limit if sign and limit in UNITS else COST


def apply(account: Account, move: AccountMove) -> Account:
    """The account after the move; `BudgetExhausted` when a reservation does not fit. Spending always lands."""
    if move.sets_cap:
        short = move.cap is not None and account.spent + account.reserved > move.cap
        account = msgspec.structs.replace(account, cap=move.cap, paused=short)
    if move.reserve:
        left = account.left
        if account.paused or (left is not None and move.reserve > left):
            raise _exhausted(move, left, account.paused)
    spent = account.spent + move.spend
    reserved = max(0, account.reserved + move.reserve - move.release)
    over = account.cap is not None and spent + reserved > account.cap
    return Account(cap=account.cap, spent=spent, reserved=reserved, paused=account.paused or over)


def _exhausted(move: AccountMove, left: int | None, paused: bool) -> BudgetExhausted:
    limit = limit_of(move.account)
    name = move.account if limit == COST else move.account.rpartition("#")[0]
    told = f"account {name} has {left} {UNITS[limit]} left, {move.reserve} were asked for; "
    facts = {"account": name, "left": left, "asked": move.reserve, "paused": paused}
    if limit == COST:
        return BudgetExhausted(f"{told}raise its cap or use a cheaper model", **facts)
    return LimitReached(f"{told}raise max_{limit} of the session it is named after", limit=limit, **facts)


class Reserved(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The worst case of something about to happen is set aside."""

    kind: ClassVar[str] = "reserved"
    reservation: str = ""
    amount: int = 0
    purpose: str = ""
    tokens: int = 0
    rounds: int = 0


class Settled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What it really cost and took; the rest of the reservation returns."""

    kind: ClassVar[str] = "settled"
    reservation: str = ""
    amount: int = 0
    cost: int = 0
    estimated: bool = False
    held_tokens: int = 0
    tokens: int = 0
    held_rounds: int = 0
    rounds: int = 0


class Corrected(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What something cost that had only been estimated; the difference returns to the account, or is taken from it."""

    kind: ClassVar[str] = "corrected"
    reservation: str = ""
    before: int = 0
    cost: int = 0


class Overrun(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The cost exceeded the reservation by this much; the account is paused."""

    kind: ClassVar[str] = "overrun"
    reservation: str = ""
    excess: int = 0


class OpenAsk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model that was asked and has not answered yet."""

    provider: str = ""
    model: str = ""
    since: int = 0
    node: str = ""


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps: this session's own share of the account, the models it asks, and what
    that took. `held` and `held_rounds` are the tokens and rounds set aside, `settled_tokens` and `settled_rounds` those
    used up; `estimated` are the costs that may yet be corrected, `shares` the costs by model, agent and strategy.
    """

    spent: int = 0
    open: dict[str, int] = {}
    overrun: int = 0
    held: dict[str, int] = {}
    held_rounds: dict[str, int] = {}
    settled_tokens: int = 0
    settled_rounds: int = 0
    estimated: dict[str, int] = {}
    asked: dict[str, OpenAsk] = {}
    rounds: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    shares: dict[str, int] = {}


def reserve(
    part: Budget, reservation: str, micros: int, purpose: str = "", *, tokens: int = 0, rounds: int = 0
) -> Reserved:
    """Set money aside under a name of the caller's, and tokens and rounds with it."""
    if not reservation:
        raise Invalid("a reservation needs a name; settle it by the same one")
    if reservation in part.open:
        raise Invalid(f"reservation {reservation!r} is open already; settle it first", reservation=reservation)
    return Reserved(
        reservation=reservation,
        amount=amount(micros),
        purpose=purpose,
        tokens=amount(tokens, TOKENS),
        rounds=amount(rounds, ROUNDS),
    )


class Use(NamedTuple):
    """How much of something a session has used up, and how much it has set aside."""

    spent: int
    held: int


def use_of(part: Budget, limit: str) -> Use:
    """The session's own share of one part of its account."""
    if limit == COST:
        return Use(part.spent, sum(part.open.values()))
    if limit == TOKENS:
        return Use(part.settled_tokens, sum(part.held.values()))
    return Use(part.settled_rounds, sum(part.held_rounds.values()))


def must_fit(part: Budget, wanted: Reserved, caps: Mapping[str, int]) -> None:
    """Refuse what would take a session past a cap of its own, which may be tighter than its account's."""
    asked = {COST: wanted.amount, TOKENS: wanted.tokens, ROUNDS: wanted.rounds}
    for limit, cap in caps.items():
        left = max(0, cap - sum(use_of(part, limit)))
        if asked[limit] <= left:
            continue
        told = f"the session may spend {left} {UNITS[limit]} more, {asked[limit]} were asked for; raise its max_{limit}"
        if limit == COST:
            told += " (in dollars over HTTP: max_cost_usdc) or use a cheaper model"
            raise BudgetExhausted(told, left=left, asked=asked[limit])
        raise LimitReached(told, limit=limit, left=left, asked=asked[limit])


def settle(
    part: Budget, reservation: str, cost: int, *, estimated: bool = False, tokens: int = 0, rounds: int = 0
) -> tuple[Settled | Overrun, ...]:
    """The true cost, and the tokens and rounds it took; a cost above the reservation is also an overrun."""
    held = part.open.get(reservation)
    if held is None:
        raise NotFound(f"no reservation {reservation!r} is open; reserve first", reservation=reservation)
    settled = Settled(
        reservation=reservation,
        amount=held,
        cost=amount(cost),
        estimated=estimated,
        held_tokens=part.held.get(reservation, 0),
        tokens=amount(tokens, TOKENS),
        held_rounds=part.held_rounds.get(reservation, 0),
        rounds=amount(rounds, ROUNDS),
    )
    if cost > held:
        return settled, Overrun(reservation=reservation, excess=cost - held)
    return (settled,)


def correct(part: Budget, reservation: str, cost: int) -> Corrected:
    """The true cost of what was settled by an estimate."""
    before = part.estimated.get(reservation)
    if before is None:
        told = f"the cost of {reservation!r} was not estimated, or too long ago; nothing is left to correct"
        raise NotFound(told, reservation=reservation)
    return Corrected(reservation=reservation, before=before, cost=amount(cost))


def moves(account: str, payloads: tuple[Payload, ...]) -> tuple[AccountMove, ...]:
    """What these events do to the account: to the parts of it that they speak of."""
    return tuple(
        move for item in payloads for move in _moves(account, item) if move.reserve or move.release or move.spend
    )


def _moves(account: str, data: Payload) -> tuple[AccountMove, ...]:
    tokens, rounds = part_of(account, TOKENS), part_of(account, ROUNDS)
    match data:
        case Reserved():
            return (
                AccountMove(account=account, reserve=data.amount),
                AccountMove(account=tokens, reserve=data.tokens),
                AccountMove(account=rounds, reserve=data.rounds),
            )
        case Settled():
            return (
                AccountMove(account=account, release=data.amount, spend=data.cost),
                AccountMove(account=tokens, release=data.held_tokens, spend=data.tokens),
                AccountMove(account=rounds, release=data.held_rounds, spend=data.rounds),
            )
        case Corrected():
            return (AccountMove(account=account, spend=data.cost - data.before),)
        case _:
            return ()


def evolve(part: Budget, event: Event) -> Budget:
    """Fold one event into the session's share."""
    return follow(part, event.data)


def follow(part: Budget, data: Payload) -> Budget:
    """The session's share after this payload. Deciding looks ahead with it."""
    match data:
        case Reserved(reservation=name):
            return _replace(
                part,
                open={**part.open, name: data.amount},
                held={**part.held, name: data.tokens} if data.tokens else part.held,
                held_rounds={**part.held_rounds, name: data.rounds} if data.rounds else part.held_rounds,
            )
        case Settled(reservation=name):
            return _replace(
                part,
                spent=storable(part.spent + data.cost),
                open=_without(part.open, name),
                held=_without(part.held, name),
                held_rounds=_without(part.held_rounds, name),
                settled_tokens=storable(part.settled_tokens + data.tokens),
                settled_rounds=storable(part.settled_rounds + data.rounds),
                estimated=_recent({**part.estimated, name: data.cost}) if data.estimated else part.estimated,
            )
        case Corrected(reservation=name):
            spent = storable(max(0, part.spent + data.cost - data.before))
            return _replace(part, spent=spent, estimated=_without(part.estimated, name))
        case Overrun():
            return _replace(part, overrun=storable(part.overrun + data.excess))
        case _:
            return part


def _without(named: dict[str, int], name: str) -> dict[str, int]:
    return {other: value for other, value in named.items() if other != name} if name in named else named


def _recent(named: dict[str, int]) -> dict[str, int]:
    return dict(list(named.items())[-ESTIMATES:])
