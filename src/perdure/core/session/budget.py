"""Money: reserve the worst case first, settle the true cost after. Integer micro-dollars throughout.

An `Account` is shared by a session, its branches and its children and lives in the store, where reserving is one
conditional update. This module holds the arithmetic both sides use. Invariant: spent + reserved ≤ cap, unless a
settled cost exceeded its reservation; then the excess is an overrun and the account is paused.
"""

from typing import ClassVar

import msgspec

from perdure.core.errors import BudgetExhausted, Invalid, NotFound
from perdure.core.session.event import Event, Payload
from perdure.core.session.shown import shown
from perdure.core.session.values import storable

MAX_AMOUNT = 1 << 53


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


def amount(micros: int) -> int:
    """A sum of money, or `Invalid`."""
    if type(micros) is not int or not 0 <= micros <= MAX_AMOUNT:
        raise Invalid(f"{shown(micros)} is not an amount; use whole micro-dollars from 0 to 2^53")
    return micros


def apply(account: Account, move: AccountMove) -> Account:
    """The account after the move; `BudgetExhausted` when a reservation does not fit. Spending always lands."""
    if move.sets_cap:
        short = move.cap is not None and account.spent + account.reserved > move.cap
        account = msgspec.structs.replace(account, cap=move.cap, paused=short)
    if move.reserve:
        left = account.left
        if account.paused or (left is not None and move.reserve > left):
            raise BudgetExhausted(
                f"account {move.account} has {left} micro-dollars left, {move.reserve} were asked for; "
                "raise its cap or use a cheaper model",
                account=move.account,
                left=left,
                asked=move.reserve,
                paused=account.paused,
            )
    spent = account.spent + move.spend
    reserved = max(0, account.reserved + move.reserve - move.release)
    over = account.cap is not None and spent + reserved > account.cap
    return Account(cap=account.cap, spent=spent, reserved=reserved, paused=account.paused or over)


class Reserved(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The worst case of something about to happen is set aside."""

    kind: ClassVar[str] = "reserved"
    reservation: str = ""
    amount: int = 0
    purpose: str = ""


class Settled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What it really cost; the rest of the reservation returns."""

    kind: ClassVar[str] = "settled"
    reservation: str = ""
    amount: int = 0
    cost: int = 0
    estimated: bool = False


class Overrun(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The cost exceeded the reservation by this much; the account is paused."""

    kind: ClassVar[str] = "overrun"
    reservation: str = ""
    excess: int = 0


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps: this session's own share of the account."""

    spent: int = 0
    open: dict[str, int] = {}
    overrun: int = 0


def reserve(part: Budget, reservation: str, micros: int, purpose: str = "") -> Reserved:
    """Set money aside under a name of the caller's."""
    if not reservation:
        raise Invalid("a reservation needs a name; settle it by the same one")
    if reservation in part.open:
        raise Invalid(f"reservation {reservation!r} is open already; settle it first", reservation=reservation)
    return Reserved(reservation=reservation, amount=amount(micros), purpose=purpose)


def must_fit(part: Budget, micros: int, cap: int | None) -> None:
    """Refuse what would take a session past a cap of its own, which may be tighter than its account's."""
    left = None if cap is None else max(0, cap - part.spent - sum(part.open.values()))
    if left is not None and micros > left:
        raise BudgetExhausted(
            f"the session may spend {left} micro-dollars more, {micros} were asked for; raise its max_cost (in dollars "
            "over HTTP: max_cost_usdc) or use a cheaper model",
            left=left,
            asked=micros,
        )


def settle(part: Budget, reservation: str, cost: int, *, estimated: bool = False) -> tuple[Settled | Overrun, ...]:
    """The true cost; above the reservation it is also an overrun."""
    held = part.open.get(reservation)
    if held is None:
        raise NotFound(f"no reservation {reservation!r} is open; reserve first", reservation=reservation)
    settled = Settled(reservation=reservation, amount=held, cost=amount(cost), estimated=estimated)
    if cost > held:
        return settled, Overrun(reservation=reservation, excess=cost - held)
    return (settled,)


def moves(account: str, payloads: tuple[Payload, ...]) -> tuple[AccountMove, ...]:
    """What these events do to the account."""
    found = []
    for item in payloads:
        if isinstance(item, Reserved):
            found.append(AccountMove(account=account, reserve=item.amount))
        elif isinstance(item, Settled):
            found.append(AccountMove(account=account, release=item.amount, spend=item.cost))
    return tuple(found)


def evolve(part: Budget, event: Event) -> Budget:
    """Fold one event into the session's share."""
    data = event.data
    match data:
        case Reserved():
            return msgspec.structs.replace(part, open={**part.open, data.reservation: data.amount})
        case Settled():
            left = {name: held for name, held in part.open.items() if name != data.reservation}
            return msgspec.structs.replace(part, spent=storable(part.spent + data.cost), open=left)
        case Overrun():
            return msgspec.structs.replace(part, overrun=storable(part.overrun + data.excess))
        case _:
            return part
