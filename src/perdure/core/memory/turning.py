"""The same sentence with another value in it and a word for `now`: so it is no longer as it was.

`Ana reports to Ben` and `Ana now reports to Kim`. What somebody likes, speaks or owns now comes on top of the rest, and
what was done is done; of these `now` says nothing.
"""

from collections.abc import Sequence
from typing import Final

from perdure.core.memory.tokens import Token
from perdure.core.memory.topics import term_of

_NOW: Final = frozenset("now nowadays".split())
_AT_PRESENT: Final = frozenset("currently presently still".split())
_AROUND: Final = frozenset("from as of".split())
"""What stands before `now` and belongs to it."""
_ONWARD: Final = frozenset("on onward onwards".split())
"""The same for what follows `from now`."""
_SMALL: Final = frozenset("a an the , . ; !".split()) | _AT_PRESENT
_ALSO: Final = frozenset("also too another additionally additional second both and plus besides well".split())
_ADDING: Final = frozenset(
    map(
        term_of,
        """
        like love enjoy know speak learn study collect allergic allergy intolerant avoid play
        visit follow support sponsor include contain offer sell help attend read watch teach understand friend
        member involve affect depend need require accept cover serve use fear want plan hope
        """.split(),
    )
)
"""What one can do with several at a time."""
_HAVING: Final = frozenset("own owns owned have has had make makes".split())
_BEING: Final = frozenset("is are was were".split())
_FOR_NOW: Final = frozenset("for right until till by just".split())
"""Before `now` they say that it is so for a while, or how late it is."""
_LONG: Final = 4
"""Words that a value has at most."""
_FEWEST: Final = 2
"""Words with a meaning that both begin with: of whom, and what."""


def turns(older: Sequence[Token], newer: Sequence[Token]) -> bool:
    """Whether the newer one says of the same that it is another way now."""
    if not _tells_now(newer) or any(token.raw in _ALSO for token in (*older, *newer)):
        return False
    one, other = _plain(older), _plain(newer)
    start = _alike(one, other)
    end = min(_alike(one[::-1], other[::-1]), len(one) - start, len(other) - start)
    begun, ended = one[:start], one[len(one) - end :]
    told = [token for token in begun if token.term]
    if len(told) < _FEWEST or all(token.name for token in told[1:]) or begun[0].raw == "there":
        return False
    if begun[-1].raw == "for" or any(map(_adds, (*begun, *ended))) or any(token.raw in _BEING for token in ended):
        return False  # what something is for is no value of it
    values = one[start : len(one) - end], other[start : len(other) - end]
    return all(map(_is_value, values)) and _kind(values[0]) == _kind(values[1])


def _tells_now(tokens: Sequence[Token]) -> bool:
    places = [at for at, token in enumerate(tokens) if token.raw in _NOW]
    return bool(places) and all(not at or tokens[at - 1].raw not in _FOR_NOW for at in places)


def _plain(tokens: Sequence[Token]) -> list[Token]:
    """Without what says when, and what says nothing."""
    found: list[Token] = []
    since = False
    for token in tokens:
        if token.raw in _NOW:
            since = bool(found) and found[-1].raw == "from"
            while found and found[-1].raw in _AROUND:
                found.pop()
        elif token.raw not in _SMALL and not (since and token.raw in _ONWARD):
            found.append(token)
            since = False
    return found


def _alike(one: Sequence[Token], other: Sequence[Token]) -> int:
    """How many words both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine.raw != theirs.raw), min(len(one), len(other)))


def _is_value(tokens: Sequence[Token]) -> bool:
    return 0 < len(tokens) <= _LONG and all(token.term and not _adds(token) for token in tokens)


def _adds(token: Token) -> bool:
    return token.term.removeprefix("!") in _ADDING or token.raw in _HAVING


def _kind(tokens: Sequence[Token]) -> set[str]:
    """Whether it has numbers or dates."""
    return {token.term[0] for token in tokens if token.term[:1] in ("#", "@")}
