"""What is booked when. A room can be booked on Monday and on Tuesday: the one makes the other no more untrue than one
visit does another. An appointment that has a name of its own is on one day only.
"""

from itertools import pairwise
from typing import Final

from perdure.core.memory.lexicon import MONTHS
from perdure.core.memory.tokens import Token
from perdure.core.memory.topics import term_of

_BOOKED: Final = frozenset("booked reserved taken occupied rented".split())
_PLANNED: Final = _BOOKED | frozenset("planned scheduled slated".split())
_ANY: Final = frozenset("a an another".split())
_UNTIL: Final = frozenset("until till through".split())
_BEING: Final = frozenset("is are was were been be".split())
_BEFORE: Final = frozenset("at from for in on".split())
"""What stands before a time that looks like something else: nine, May."""
_DAYS: Final = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
_EVENTS: Final = frozenset(
    map(
        term_of,
        """
        appointment meeting call sync standup visit flight trip checkup session lesson class review interview wedding
        party launch release talk workshop conference exam surgery operation delivery demo audit inspection dinner lunch
        concert match game ceremony retreat offsite trial test training holiday vacation
        """.split(),
    )
)
"""What is on one day at a time, unless it is any of them."""


def times_of(tokens: tuple[Token, ...]) -> frozenset[str]:
    """When something is booked that can be booked at other times too; nothing if it tells of no booking."""
    at = next((index for index, token in enumerate(tokens) if token.raw in _PLANNED and index), None)
    if at is None or tokens[at - 1].raw not in _BEING or any(token.raw in _UNTIL for token in tokens):
        return frozenset()
    anyone = tokens[0].raw in _ANY
    if not anyone and (tokens[at].raw not in _BOOKED or any(token.term in _EVENTS for token in tokens[:at])):
        return frozenset()
    return frozenset(token.term or token.raw for before, token in pairwise(tokens) if _is_time(before, token))


def _is_time(before: Token, token: Token) -> bool:
    if token.term[:1] == "@" or token.raw.removesuffix("s") in _DAYS:
        return True
    return before.raw in _BEFORE and (token.raw in MONTHS or token.term[:1] == "#")


def are_two(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two are bookings at different times."""
    return bool(one - other) and bool(other - one)
