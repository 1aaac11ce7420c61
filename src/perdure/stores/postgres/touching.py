"""The most frequent write: one session, one record, nothing in its listing changed. One statement does it all.

Its statement reports a refusal as an answer, so that many can be committed together without undoing each other.
"""

from typing import Any, Final

from perdure.core.session import budget
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import raw
from perdure.ports.seal import Place
from perdure.ports.store import Commit, KeyTaken, KeyUse, Remembered
from perdure.stores.columns import remembered_from
from perdure.stores.packing import Packing
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.texts import kept, key_mark, mark
from perdure.stores.refusals import stale, unknown

STALE: Final = 1
ABSENT: Final = 2
TAKEN: Final = 3
POOR: Final = 4
UNKNOWN: Final = 5


class OutcomeUnknown(Exception):
    """An earlier try may have been committed, and its record is not there any more to tell."""


class Touch:
    """An append, ready to be sent."""

    __slots__ = ("_commit", "_packing", "_statement", "_values")

    def __init__(self, packing: Packing, commit: Commit, place: Place, body: bytes) -> None:
        row, record, use = commit.row, commit.record, commit.key
        key = None if use is None else key_mark(packing, use.principal, use.key)
        self._packing = packing
        self._commit = commit
        self._statement = Q["pay"] if commit.accounts else Q["touch"]
        self._values = (
            row.session,
            commit.expected,
            commit.expected_digest,
            place.salt,
            row.version,
            row.digest,
            row.active_at,
            row.turns,
            row.open_turn,
            record.first,
            record.last,
            body,
            key,
            use is not None and use.session is not None,
            None if use is None else packing.fingerprint(use.fingerprint),
        )

    def bound(self, again: bool) -> tuple[str, tuple[Any, ...]]:
        """The statement and its values; `again` when an earlier try got no answer."""
        if not self._commit.accounts:
            return self._statement, (*self._values, again)
        return self._statement, (*self._values, again, *_moves(self._commit.accounts))

    def judge(self, answer: tuple[int, int, Any]) -> int:
        """The position of the append, or its refusal raised."""
        outcome, position, facts = answer
        if outcome == 0:
            return position
        if outcome == TAKEN:
            assert self._commit.key is not None
            raise KeyTaken(_remembered(self._packing, self._commit.key, facts))
        if outcome == POOR:
            move = self._commit.accounts[facts.pop("move")]
            budget.apply(Account(**facts), move)
        if outcome == UNKNOWN:
            raise OutcomeUnknown
        session = self._commit.row.session
        raise stale(session, self._commit.expected, facts) if outcome == STALE else unknown(session)


def _moves(moves: tuple[AccountMove, ...]) -> tuple[list[Any], ...]:
    return (
        [mark(move.account) for move in moves],
        [kept(move.account) for move in moves],
        [move.reserve for move in moves],
        [move.release for move in moves],
        [move.spend for move in moves],
        [move.cap for move in moves],
        [move.sets_cap for move in moves],
    )


def _remembered(packing: Packing, use: KeyUse, facts: dict[str, Any]) -> Remembered:
    columns = (bytes.fromhex(facts["fingerprint"]), raw(facts["session"]), facts["first"], facts["last"])
    return remembered_from(packing, use, columns)
