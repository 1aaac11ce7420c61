"""What a query asks and what a text offers: light signs of English, read without a model.

A question for a time is answered by a text that tells one, a question for somebody or some place by a text with names
in it; a text that itself ends in a question seldom answers any.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from perdure.core.memory.words import stem, terms, words

_TIMES: Final = frozenset(
    """
    yesterday today tomorrow tonight ago last next week weekend month year day morning evening night recently soon since
    summer winter spring autumn fall monday tuesday wednesday thursday friday saturday sunday january february march
    april may june july august september october november december
    """.split()
)
_WHEN: Final = re.compile(
    r"^\W*(?:since |until |by )?when\b|\bhow long\b|\b(?:what|which) (?:date|day|week|month|year|season|time)\b"
)
_WHO: Final = re.compile(
    r"^\W*(?:to |with |from |at |in |by )?(?:who|whom|whose|where|which)\b|\bnamed?s?\b|\bcalled\b"
)
_NAME: Final = re.compile(r"[A-Z](?<=[^.!?\s] .)[a-z]+")
"""In the middle of a sentence."""
_NAMES_ENOUGH: Final = 3
_LOOKED_AT: Final = 4_000
"""Characters of a text that are read for signs."""


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What a text offers: whether it is a question, whether it tells a time, how much it names (0 to 1)."""

    question: bool
    time: bool
    names: float


class Asked(msgspec.Struct, frozen=True):
    """What a query asks: its terms without the author it names, which author that is, and for what it asks."""

    terms: tuple[str, ...]
    author: str | None = None
    when: bool = False
    who: bool = False


def traits(text: str, said: Iterable[str]) -> Traits:
    """The signs in a text; `said` are its words."""
    return Traits(
        question=text.rstrip().endswith("?"),
        time=not _TIMES.isdisjoint(said),
        names=min(len(_NAME.findall(text[:_LOOKED_AT])), _NAMES_ENOUGH) / _NAMES_ENOUGH,
    )


def asked(query: str, authors: Iterable[str]) -> Asked:
    """Read a query. Authors that it names are not among its terms; one alone is the author it is about."""
    said = {word.removesuffix("'s") for word in words(query)}
    named: dict[str, set[str]] = {}
    for author in authors:
        if both := said.intersection(words(author)):
            named[author] = both
    most = max((len(both) for both in named.values()), default=0)
    best = [author for author, both in named.items() if len(both) == most]
    their = {stem(word) for both in named.values() for word in both}
    low = query.lower()
    return Asked(
        terms=tuple(dict.fromkeys(term for term in terms(query) if term not in their)),
        author=best[0] if len(best) == 1 else None,
        when=bool(_WHEN.search(low)),
        who=bool(_WHO.search(low)),
    )
