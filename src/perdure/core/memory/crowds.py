"""How many memories of a space speak of the same, and how many are worded alike.

Where somebody is said to like five things, liking a sixth makes none of them untrue; and where notes that are worded
like one mostly have a partner, so may this one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from perdure.core.memory.gists import Gist

COMMON: Final = 5
"""A word that fewer memories have than this is no part of how they are worded: it is rather a value."""


class Several(NamedTuple):
    """Of memories that say something alike: how many there are, of how many subjects, how many of these it is said of
    twice or more, how many of three times or more, and how often at most.
    """

    memories: int = 0
    subjects: int = 0
    twice: int = 0
    thrice: int = 0
    most: int = 0


class Crowds:
    """What can be counted about the memories of a space."""

    def __init__(self, gists: Sequence[Gist]) -> None:
        self._subjects = [gist.subject for gist in gists]
        holding: dict[str, set[int]] = defaultdict(set)
        for number, gist in enumerate(gists):
            for term in gist.said.bag:
                holding[term].add(number)
        self._holding = holding
        self._held: dict[frozenset[str], int] = {}
        self._several: dict[frozenset[str], Several] = {}
        counts = Counter(word for gist in gists for word in gist.words)
        kinds: dict[tuple[str, ...], int] = {}
        self.wording = [
            kinds.setdefault(tuple(sorted(word for word in gist.words if counts[word] >= COMMON)), len(kinds))
            for gist in gists
        ]
        """Each memory's wording, as a number that those share which are worded alike."""
        self.worded = Counter(self.wording)
        self._wordings: dict[str, set[int]] = defaultdict(set)
        for gist, wording in zip(gists, self.wording, strict=True):
            for term in gist.said.bag:
                self._wordings[term].add(wording)

    def count(self, term: str) -> int:
        """How many memories have a term."""
        return len(self._holding[term]) if term in self._holding else 0

    def held(self, terms: frozenset[str]) -> int:
        """How many memories have all of some terms."""
        found = self._held.get(terms)
        if found is None:
            found = self._held[terms] = len(self._with(terms))
        return found

    def several(self, terms: frozenset[str]) -> Several:
        """Of how many subjects some terms are said, and how often of one."""
        found = self._several.get(terms)
        if found is None:
            times = Counter(self._subjects[number] for number in self._with(terms))
            often = [*times.values()]
            found = self._several[terms] = Several(
                memories=sum(often),
                subjects=len(often),
                twice=sum(count > 1 for count in often),
                thrice=sum(count > 2 for count in often),
                most=max(often, default=0),
            )
        return found

    def instead(self, some: frozenset[str], others: frozenset[str], but: frozenset[int]) -> int:
        """In how many wordings, but those, one of some terms stands in one memory and one of others in another."""
        mine, theirs = (set[int]().union(*(self._wordings.get(term, ()) for term in each)) for each in (some, others))
        return len((mine & theirs) - but)

    def _with(self, terms: frozenset[str]) -> Collection[int]:
        rarest, *rest = sorted((self._holding.get(term, set()) for term in terms), key=len) if terms else [set[int]()]
        return rarest.intersection(*rest) if rest else rarest
