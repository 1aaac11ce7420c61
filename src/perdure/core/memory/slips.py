"""Slips of the pen: two neighbouring letters of a word that changed places.

Other slips are not told apart from other words: a letter more makes a county a country.
"""

from typing import Final

from perdure.core.memory.tokens import Token

_SHORTEST: Final = 6
"""Letters of a word; in shorter ones what changes places is too often another word: form and from, trial and trail."""
_WORDS: Final = frozenset(
    """
    barely barley calvary cavalry casual causal complaint compliant discreet discrete marital martial sacred scared
    salver slaver silver sliver united untied
    """.split()
)
"""Words that become others so."""


def is_slip(one: tuple[Token, ...], other: tuple[Token, ...]) -> bool:
    """Whether two are word for word the same, but for a slip in one word that is no name."""
    if len(one) != len(other):
        return False
    differing = [pair for pair in zip(one, other, strict=True) if pair[0].raw != pair[1].raw]
    if len(differing) != 1:
        return False
    first, second = differing[0]
    if first.name or second.name or not {first.raw, second.raw}.isdisjoint(_WORDS):
        return False
    return _are_swapped(first.raw, second.raw)


def _are_swapped(one: str, other: str) -> bool:
    if len(one) != len(other) or len(one) < _SHORTEST or one[0] != other[0] or not (one + other).isalpha():
        return False
    at = next(index for index, letter in enumerate(one) if letter != other[index])
    return one[at : at + 2] == other[at + 1 : at - 1 : -1] and one[at + 2 :] == other[at + 2 :]
