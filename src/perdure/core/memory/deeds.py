"""What was done to what: selling a boat does not undo the sale of a car, nor is it the same sale."""

from typing import Final, NamedTuple

from perdure.core.memory.framing import deed_of
from perdure.core.memory.lexicon import BOUNDARIES
from perdure.core.memory.tokens import Token

_CHOSEN: Final = frozenset({"as", "for"})
"""What follows something that was chosen: another one may be chosen for the same."""

_SAID_OF: Final = frozenset({"name", "birthday"})
"""What tells who somebody is, and is no deed: called Rex, born in May."""


class Deed(NamedTuple):
    """What was done, and words of what it was done to."""

    done: str
    to: frozenset[str]

    def differs(self, other: "Deed") -> bool:
        """Whether the same was done to two things."""
        return bool(self.to and other.to) and self.done == other.done and self.to.isdisjoint(other.to)


NOTHING: Final = Deed("", frozenset())


def read_deed(tokens: tuple[Token, ...]) -> Deed:
    """What was done, if something was done to something."""
    at = deed_of(tokens)
    if at is None or tokens[at].name or tokens[at].term in _SAID_OF:
        return NOTHING
    after = tokens[at + 1 :]
    end = next((index for index, token in enumerate(after) if token.raw in BOUNDARIES or token.raw == "last"), None)
    if end is not None and after[end].raw in _CHOSEN:
        return NOTHING
    return Deed(tokens[at].term, frozenset(token.term for token in after[:end] if token.term))
