"""What a session has cost so far: spent, set aside, estimated; by model, agent and strategy; against which caps."""

from collections.abc import Mapping

import msgspec

from perdure.core.session.budget import Account, Budget


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Money is micro-dollars. `estimated` is the part of `spent` that may yet be corrected. `tokens` and `rounds` are
    those that count against caps, of which `held_tokens` and `held_rounds` are only set aside; `asked` says how often
    models were asked, the other tokens what they told. `limits` are the caps in force, by cost, tokens and rounds, with
    what the whole tree of sessions has used of them.
    """

    spent: int = 0
    reserved: int = 0
    estimated: int = 0
    overrun: int = 0
    tokens: int = 0
    held_tokens: int = 0
    rounds: int = 0
    held_rounds: int = 0
    asked: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    by_model: dict[str, int] = {}
    by_agent: dict[str, int] = {}
    by_strategy: dict[str, int] = {}
    limits: dict[str, Account] = {}


def costs(part: Budget, limits: Mapping[str, Account]) -> Costs:
    """A session's own costs, and how the caps it shares stand."""
    return Costs(
        spent=part.spent,
        reserved=sum(part.open.values()),
        estimated=sum(part.estimated.values()),
        overrun=part.overrun,
        tokens=part.settled_tokens,
        held_tokens=sum(part.held.values()),
        rounds=part.settled_rounds,
        held_rounds=sum(part.held_rounds.values()),
        asked=part.rounds,
        tokens_in=part.tokens_in,
        tokens_out=part.tokens_out,
        cache_read=part.cache_read,
        by_model=_shares(part, "model:"),
        by_agent=_shares(part, "agent:"),
        by_strategy=_shares(part, "strategy:"),
        limits=dict(limits),
    )


def _shares(part: Budget, kind: str) -> dict[str, int]:
    return {name.removeprefix(kind): cost for name, cost in part.shares.items() if name.startswith(kind)}
