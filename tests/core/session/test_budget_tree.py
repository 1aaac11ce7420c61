"""Budgets of whole trees: sessions, branches on the same account and children with slices of it, in any order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BudgetExhausted, Invalid, NotFound
from perdure.core.session import budget, caps, slices
from perdure.core.session.budget import LIMITS, Account, AccountMove, Budget
from perdure.core.session.origin import Config
from perdure.core.session.slices import Slice
from tests.core.session.logbook import event_of

ROOT = "root"
SESSIONS = ("root", "branch", "twig")
CHILDREN = ("kid", "imp")
amounts = st.integers(0, 40)
names = st.sampled_from(["a", "b"])
actions = st.tuples(
    st.sampled_from(["reserve", "settle", "estimate", "correct", "open", "close", "abandon"]),
    st.sampled_from((*SESSIONS, *CHILDREN)),
    names,
    st.tuples(amounts, amounts, st.integers(0, 3)),
)


class Tree:
    """Sessions that draw on one account, and children that draw on slices of it; all or nothing, as a store does it."""

    def __init__(self, config: Config) -> None:
        self.caps = caps.caps_of(config)
        self.parts = dict.fromkeys((*SESSIONS, *CHILDREN), Budget())
        self.accounts: dict[str, Account] = {}
        self.drawn = dict.fromkeys(SESSIONS, ROOT)
        self._move(caps.opened(ROOT, self.caps))

    def _move(self, moves: tuple[AccountMove, ...]) -> None:
        moved = dict(self.accounts)
        for move in moves:
            moved[move.account] = budget.apply(moved.get(move.account, Account()), move)
        self.accounts = moved

    def _write(self, who: str, payloads: tuple[Any, ...], more: tuple[AccountMove, ...] = ()) -> None:
        self._move((*more, *budget.moves(self.drawn[who], payloads)))
        for payload in payloads:
            self.parts[who] = budget.evolve(self.parts[who], event_of(payload))

    def do(self, action: str, who: str, name: str, amounts: tuple[int, int, int]) -> None:
        """One step; whatever is refused changes nothing."""
        cost, tokens, rounds = amounts
        if action in ("open", "close"):
            getattr(self, action)(who, Slice(cost=cost, tokens=tokens, rounds=rounds))
            return
        if who not in self.drawn:
            return
        part = self.parts[who]
        within = (min(cost, part.open.get(name, 0)), min(tokens, part.held.get(name, 0)))
        if action == "reserve":
            self._write(who, (budget.reserve(part, name, cost, tokens=tokens, rounds=rounds),))
        elif action in ("settle", "estimate"):
            took = min(rounds, part.held_rounds.get(name, 0))
            estimated = action == "estimate"
            self._write(who, budget.settle(part, name, within[0], estimated=estimated, tokens=within[1], rounds=took))
        elif action == "correct":
            self._write(who, (budget.correct(part, name, min(cost, part.estimated.get(name, 0))),))
        else:  # erased: what it had set aside goes back, but for slices, which are closed
            for child in [child for child in CHILDREN if child in part.open]:
                self.close(child, Slice(), who)
            self._move(caps.returned(self.drawn[who], self.parts[who]))
            self.parts[who] = budget.Budget(
                spent=self.parts[who].spent,
                settled_tokens=self.parts[who].settled_tokens,
                settled_rounds=self.parts[who].settled_rounds,
            )

    def open(self, who: str, wanted: Slice) -> None:
        if who not in CHILDREN or slices.account_of(ROOT, who) in self.accounts:
            return
        command, moves = slices.opening(ROOT, who, wanted, self.caps)
        reserved = budget.reserve(self.parts[ROOT], who, command.amount, tokens=command.tokens, rounds=command.rounds)
        self._write(ROOT, (reserved,), moves)
        self.drawn[who] = slices.account_of(ROOT, who)

    def close(self, who: str, _: Slice, parent: str = ROOT) -> None:
        if who not in self.parts[parent].open:
            return
        account = slices.account_of(parent, who)
        found = {limit: self.accounts.get(budget.part_of(account, limit)) for limit in LIMITS}
        closing = slices.closing(parent, who, {limit: part for limit, part in found.items() if part is not None})
        settle = closing.settle
        settled = budget.settle(
            self.parts[parent],
            who,
            settle.cost,
            estimated=settle.estimated,
            tokens=settle.tokens,
            rounds=settle.rounds,
        )
        self._write(parent, settled, (*closing.guard, *closing.moves))

    def check(self) -> None:
        """Every account is within its cap, and is the sum of those that draw on it."""
        for account in set(self.drawn.values()):
            sharing = [self.parts[who] for who, drawn in self.drawn.items() if drawn == account]
            for limit in LIMITS:
                kept = self.accounts.get(budget.part_of(account, limit), Account())
                uses = [budget.use_of(part, limit) for part in sharing]
                assert kept.spent == sum(use.spent for use in uses)
                assert kept.reserved == sum(use.held for use in uses)
                assert kept.cap is None or kept.spent + kept.reserved <= kept.cap
                assert not kept.paused

    def spent(self, limit: str) -> int:
        """What really was spent by anybody, however it is accounted for: children's before their slice is closed."""
        own = sum(budget.use_of(self.parts[who], limit).spent for who in SESSIONS)
        open_slices = [who for who in CHILDREN if who in self.parts[ROOT].open]
        return own + sum(budget.use_of(self.parts[who], limit).spent for who in open_slices)


configs = st.builds(
    Config,
    max_cost=st.none() | st.integers(0, 100),
    max_tokens=st.none() | st.integers(0, 100),
    max_rounds=st.none() | st.integers(0, 8),
)


@given(configs, st.lists(actions, max_size=40))
def test_a_tree_never_passes_a_cap_and_its_accounts_are_the_sum_of_its_sessions(config: Config, drawn: Any) -> None:
    tree = Tree(config)
    for action in drawn:
        before = (dict(tree.parts), dict(tree.accounts), dict(tree.drawn))
        try:
            tree.do(*action)
        except (Invalid, NotFound, BudgetExhausted):
            assert (tree.parts, tree.accounts, tree.drawn) == before
        tree.check()
        for limit, cap in tree.caps.items():
            assert tree.spent(limit) <= cap


@given(configs, st.lists(actions, max_size=30))
def test_when_all_is_settled_and_closed_nothing_is_left_reserved(config: Config, drawn: Any) -> None:
    tree = Tree(config)
    for action in drawn:
        try:
            tree.do(*action)
        except (Invalid, NotFound, BudgetExhausted):
            continue
    for who in (*CHILDREN, *reversed(SESSIONS)):
        for name in list(tree.parts[who].open):
            if name in CHILDREN:
                tree.close(name, Slice(), who)
            else:
                tree.do("settle", who, name, (0, 0, 0))
    for limit in LIMITS:
        assert tree.accounts.get(budget.part_of(ROOT, limit), Account()).reserved == 0


def test_a_closed_slice_gives_nothing_out_any_more() -> None:
    tree = Tree(Config(max_cost=100))
    tree.open("kid", Slice(cost=60))
    tree.do("reserve", "kid", "a", (20, 0, 0))
    tree.do("settle", "kid", "a", (15, 0, 0))
    tree.close("kid", Slice())
    assert tree.accounts[ROOT] == Account(cap=100, spent=15)
    with pytest.raises(BudgetExhausted):
        tree.do("reserve", "kid", "b", (1, 0, 0))
