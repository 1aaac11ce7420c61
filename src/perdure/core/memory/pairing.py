"""Whether of two memories about one thing the later one says the same again, or makes the earlier one untrue.

Two statements are laid side by side, and the *signs* of the pair are gathered: which words both have, which only one
of them, which values differ and of what kind, what they are about, how near their vectors are. Each sign speaks for or
against; how much was learnt from pairs that people would judge (`python -m evals.pairs`). What their sum comes to
beside those of other pairs, `settling` decides.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from math import exp, fsum, isfinite, log
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from perdure.core.memory.gists import Gist
from perdure.core.memory.statements import exchanged
from perdure.core.memory.topics import LIGHT, SINGLE, term_of, topics_of
from perdure.core.memory.trees import Tree, tree_of

Verdict: TypeAlias = Literal["same", "newer"]
Alike: TypeAlias = tuple[float | None, float | None]
"""How near the vectors of two are, whole and bare, in deviations from what it is by chance; None without vectors."""
Sums: TypeAlias = tuple[float, float]
"""What signs say for `same` and for `newer`."""
NEITHER: Final[Alike] = (None, None)
WIDE: Final = 4
"""Terms that the one value may have, in which two sentences differ."""
CROSSED: Final = 4
"""Words of each side that are paired with those of the other."""
CONTRASTS: Final = frozenset(
    term_of(word)
    for word in """
    left right minus only except son daughter mother father sister brother north south east west upper lower second
    minute hour celsius fahrenheit before after
    """.split()
)
"""Words that one of two may not have alone if they are to say the same."""
OPPOSITES: Final = tuple(
    tuple(term_of(word) for word in pair.split())
    for pair in "north south|east west|upper lower|staging production".split("|")
)
"""Words of which one has the first and another one the second where they tell of two things."""
TELLING_APART: Final = frozenset(
    term_of(word)
    for word in """
    red blue green yellow black white grey gray orange purple pink brown monday tuesday wednesday thursday friday
    saturday sunday first second third fourth fifth
    """.split()
)
"""Words before the verb that tell one thing from another of its kind: the red line, the Monday standup."""
SURER: Final = 1.5
"""How much more must speak for `same` than for `newer`: of two that say the same the later one may stay as well, but of
two that do not, what is untrue could."""
NEVER: Final = -1_000.0
"""The sum for `same` of two that do not say the same, whatever else is alike."""


class Around(Protocol):
    """What the other memories of a space tell about words."""

    def rarity(self, term: str) -> float:
        """How much a term tells, by how rare it is."""

    def is_sole(self, term: str) -> bool:
        """Whether there is one name of several words at most that it could be short for."""


class Weights(msgspec.Struct, frozen=True):
    """What each sign says for `same` and for `newer`, what is said before there is any, and trees that look at the sums
    of all pairs of a space.
    """

    signs: dict[str, tuple[float, float]]
    bias: tuple[float, float]
    sure: tuple[float, float]
    """How sure one must be to act, for each of both."""
    words: frozenset[str]
    """Words that are known."""
    trees: tuple[Tree, ...] = ()
    """What numbers say about a pair beside others; without any, its sums stand for themselves."""
    voices: tuple[float, float, float] = (0.0, 1.0, 0.0)
    """What is said before anybody speaks, how much what was counted weighs, and how much a reader."""


def weights_of(lines: Iterable[str]) -> Weights:
    """Weights as they are written down: in each line a sign and what it says for `same` and for `newer`, or a tree."""
    signs: dict[str, tuple[float, float]] = {}
    trees: list[Tree] = []
    voices = (0.0, 1.0, 0.0)
    for line in lines:
        sign, *told = line.rstrip("\n").split("\t")
        if sign == "tree":
            trees.append(tree_of(told[0]))
        elif sign == "voices":
            voices = (float(told[0]), float(told[1]), float(told[2]))
        else:
            signs[sign] = (float(told[0]), float(told[1]))
    bias, sure = signs.pop("bias"), signs.pop("sure")
    words = frozenset(sign[1:] for sign in signs if sign[0] in "=+-" and " " not in sign)
    return Weights(signs, bias, sure, words, tuple(trees), voices)


def weighed(older: Gist, newer: Gist, around: Around, weights: Weights, alike: Alike = NEITHER) -> Sums:
    """What all signs say for `same` and for `newer`, beside nothing for neither."""
    if _are_of_two(older, newer):
        return NEVER, NEVER
    same, newest = weights.bias
    for found in map(weights.signs.get, signs(older, newer, around, alike)):
        if found is not None:
            same += found[0]
            newest += found[1]
    return (NEVER if _differ(older, newer) else round(same, 6)), round(newest, 6)


def judged(sums: Sums) -> tuple[Verdict, float]:
    """What the newer one is to the older one if it is anything, and the logarithm of the odds that it is something."""
    same, newest = sums
    high = max(sums)
    return ("same" if same > newest + SURER else "newer"), round(high + log(exp(same - high) + exp(newest - high)), 6)


def _are_of_two(older: Gist, newer: Gist) -> bool:
    """Whether they plainly tell of two: of the north and of the south, of Tim and of Tom. Then neither has to do with
    the other, whatever else is alike.
    """
    mine, theirs = older.said.bag - newer.said.bag, newer.said.bag - older.said.bag
    if any((one in mine and other in theirs) or (other in mine and one in theirs) for one, other in OPPOSITES):
        return True
    heads = older.head - newer.head, newer.head - older.head
    if not any(TELLING_APART.isdisjoint(head) for head in heads):
        return True
    named = older.subject & older.names, newer.subject & newer.names
    all_named = older.names | older.codes, newer.names | newer.codes
    return all(named) and named[0].isdisjoint(named[1]) and all_named[0].isdisjoint(all_named[1])


def _differ(older: Gist, newer: Gist) -> bool:
    """Whether each has a number that the other has not, or one a sign or a word that makes it something else: whatever
    else is alike, they do not say the same.
    """
    one, other = older.said, newer.said
    if one.symbols != other.symbols or not (one.bag ^ other.bag).isdisjoint(CONTRASTS):
        return True
    return bool(one.numbers - other.numbers) and bool(other.numbers - one.numbers)


def signs(older: Gist, newer: Gist, around: Around, alike: Alike = NEITHER) -> Iterator[str]:
    """What speaks for or against, each once."""
    pair = laid(older, newer, around)
    return chain(
        _worded(older, newer),
        _counted(pair),
        _named(pair),
        _turning(pair),
        _slotted(older, newer),
        _near(pair, alike),
    )


class Pair(msgspec.Struct, frozen=True):
    """Two statements side by side: what they share, what each has alone, and what of that is left unexplained."""

    older: Gist
    newer: Gist
    shared: frozenset[str]
    mine: frozenset[str]
    theirs: frozenset[str]
    names: frozenset[str]
    common: frozenset[str]
    """Topics of both."""
    left: tuple[int, int]
    weight: float
    share: float
    told: frozenset[str]
    """What both say beside what they are about."""
    alone: str
    """How many names each has alone."""
    counts: str
    """How many numbers each has alone."""
    kinds: frozenset[str]
    """Kinds of values that both have alone."""
    parted: bool
    """Whether something that both name in part is another."""
    short: int
    """Whether one names in full what the other has in short: 1 if nothing else could be meant, 2 if it could."""

    @property
    def matter(self) -> str:
        return f"{_few(self.told, 2)}{not self.common.isdisjoint(SINGLE):d}"

    @property
    def turn(self) -> str:
        denied = self.older.said.denied != self.newer.said.denied
        return f"{self.newer.ending:d}{self.newer.changing:d}{denied:d}"


def laid(older: Gist, newer: Gist, around: Around) -> Pair:
    one, other = older.said, newer.said
    shared = one.bag & other.bag
    known = shared & (older.names | newer.names)
    parted = any(_are_parted(first, second) for first in older.runs for second in newer.runs)
    short = frozenset[str]() if parted else _spelled(known, older.runs, newer.runs)
    mine, theirs = one.bag - shared - short, other.bag - shared - short
    names, numbers = older.names | newer.names, one.numbers | other.numbers
    common = older.topics & newer.topics
    weight = fsum(map(around.rarity, shared))
    about = older.subject | newer.subject | (older.head & newer.head)
    told = shared - about - LIGHT
    return Pair(
        older=older,
        newer=newer,
        shared=shared,
        mine=mine,
        theirs=theirs,
        names=names,
        common=common,
        left=(_left(mine, common, names), _left(theirs, common, names)),
        weight=weight,
        share=weight / (weight + fsum(map(around.rarity, mine)) + fsum(map(around.rarity, theirs)) or 1.0),
        told=told,
        alone=f"{_few(mine & names, 2)}/{_few(theirs & names, 2)}",
        counts=f"{_few(mine & numbers, 2)}/{_few(theirs & numbers, 2)}",
        kinds=frozenset({older.kinds[term] for term in mine} & {newer.kinds[term] for term in theirs}),
        parted=parted,
        short=(1 if all(map(around.is_sole, known)) else 2) if short else 0,
    )


def _spelled(known: frozenset[str], *runs: tuple[frozenset[str], ...]) -> frozenset[str]:
    """What spells out a name that the other one has in short."""
    long = (run for some in runs for run in some if known & run and not run <= known)
    return frozenset[str]().union(*long) - known


def _are_parted(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two names that have a part in common are of two: Ana Berg is not Ana Holm."""
    return bool(one & other) and not one <= other and not other <= one


def _counted(pair: Pair) -> Iterator[str]:
    """How much both share, and how much each has alone."""
    one, other = pair.left
    marked, matter = pair.alone != "0/0" or pair.counts != "0/0", pair.matter
    yield f"share:{int(pair.share * 12)}"
    yield f"weight:{min(int(pair.weight / 3), 12)}"
    yield f"left:{one}/{other}"
    yield f"left older:{one}"
    yield f"left newer:{other}"
    yield f"told:{_few(pair.told, 4)}"
    yield f"topics:{_few(pair.common)}:{_few(pair.common & SINGLE, 2)}"
    yield f"longer:{max(-3, min(3, len(pair.newer.said.terms) - len(pair.older.said.terms)))}"
    yield f"matter:{matter}:left {one}{other}"
    yield f"matter:{matter}:{pair.alone}:{pair.counts}"
    yield f"again:{int(pair.share * 5)}:{marked:d}:{min(one, 1)}{min(other, 1)}"


def _named(pair: Pair) -> Iterator[str]:
    """What they are about, and which names and numbers only one of them has."""
    older, newer, shared = pair.older, pair.newer, pair.shared
    yield f"names:{pair.alone}"
    yield f"numbers:{pair.counts}"
    yield f"marks:{pair.alone}:{pair.counts}"
    yield f"subject:{older.subject <= shared:d}{newer.subject <= shared:d}{older.subject == newer.subject:d}"
    for kind in pair.kinds:
        yield f"both:{kind}"
    if pair.parted:
        yield "parted"
    if pair.short:
        yield f"short:{pair.short}"
    if older.ids != newer.ids:
        yield f"ids:{bool(older.ids):d}{bool(newer.ids):d}"
    if exchanged(older.said.parts, newer.said.parts):
        yield "turned"
    passive = "by" in older.words or "by" in newer.words
    yield f"order:{swapped(older.said.terms, newer.said.terms, pair.names & shared):d}:{passive:d}"
    codes = f"{_few(pair.mine & older.codes, 2)}/{_few(pair.theirs & newer.codes, 2)}"
    ahead = [_few(older.head - newer.said.bag - LIGHT, 2), _few(newer.head - older.said.bag - LIGHT, 2)]
    yield f"codes:{codes}"
    yield f"head:{ahead[0]}/{ahead[1]}"
    yield f"head:{min(ahead[0], 1)}{min(ahead[1], 1)}:{pair.alone}:{codes}"


def _turning(pair: Pair) -> Iterator[str]:
    """Whether the newer one tells of an end or a change, of what both speak of."""
    older, newer, turn = pair.older, pair.newer, pair.turn
    yield f"event:{older.event:d}{newer.event:d}"
    yield f"ending:{older.ending:d}{newer.ending:d}"
    yield f"changing:{older.changing:d}{newer.changing:d}"
    yield f"denied:{older.said.denied:d}{newer.said.denied:d}"
    yield f"turn:{turn}:{pair.matter}:{bool(pair.kinds - {'word'}):d}"
    yield f"turn:{turn}:{pair.alone}"
    yield f"turn:{turn}:left {pair.left[0]}"
    yield f"turn:{turn}:event {older.event:d}{newer.event:d}"


def _near(pair: Pair, alike: Alike) -> Iterator[str]:
    near, kin = map(binned, alike)
    yield f"near:{near}"
    yield f"near:{near}:{pair.alone}:{pair.counts}"
    yield f"near:{near}:{int(pair.share * 5)}"
    yield f"kin:{kin}"
    yield f"kin:{kin}:{pair.matter}"
    yield f"kin:{kin}:{pair.turn}"


def binned(alike: float | None) -> str:
    """How near, in steps of half a deviation."""
    return "?" if alike is None or not isfinite(alike) else f"{max(-1, min(14, int(alike * 2)))}"


def _worded(older: Gist, newer: Gist) -> Iterator[str]:
    """Words of both and of one alone, and words of the one beside words of the other."""
    both = older.words & newer.words
    for word in both:
        yield f"={word}"
    fresh, gone = newer.words - both, older.words - both
    for word in fresh:
        yield f"+{word}"
    for word in gone:
        yield f"-{word}"
    for pair in newer.pairs:
        yield f"={pair}" if pair in older.pairs else f"+{pair}"
    if len(fresh) <= CROSSED and len(gone) <= CROSSED:
        for word in gone:
            for instead in fresh:
                yield f"{word}~{instead}" if word < instead else f"{instead}~{word}"


def _left(terms: frozenset[str], common: frozenset[str], names: frozenset[str]) -> int:
    """How many words are neither names nor values, and about nothing that the other one speaks of."""
    left = (term for term in terms if term not in LIGHT and term not in names and term[0] not in "#@")
    return min(sum(common.isdisjoint(topics_of(term)) for term in left), 3)


def _few(some: frozenset[str], most: int = 3) -> int:
    return min(len(some), most)


def swapped(one: tuple[str, ...], other: tuple[str, ...], names: frozenset[str]) -> bool:
    """Whether what both name comes in another order."""
    first, second = ([*dict.fromkeys(term for term in terms if term in names)] for terms in (one, other))
    return first != second


def framed(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[int, int]:
    """How many terms two have in common from the beginning, and how many from the end."""
    least = min(len(before), len(after))
    start = end = 0
    while start < least and before[start] == after[start]:
        start += 1
    while end < least - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, end


def _slotted(older: Gist, newer: Gist) -> Iterator[str]:
    """Whether both are one sentence but for one value, of what kind, and the words around it."""
    before, after = older.said.terms, newer.said.terms
    start, end = framed(before, after)
    one, other = before[start : len(before) - end], after[start : len(after) - end]
    if not 0 < len(one) <= WIDE or not 0 < len(other) <= WIDE:
        yield f"slot:{bool(one):d}{bool(other):d}"
        return
    kinds = sorted({older.kinds.get(term, "") for term in one} | {newer.kinds.get(term, "") for term in other})
    place = "first" if not start else "last" if not end else "within"
    yield f"slot:{'+'.join(kinds)}"
    yield f"slot:{place}"
    yield f"slot:{'+'.join(kinds)}:{place}:{newer.changing or newer.ending:d}{newer.event:d}"
    if older.head and older.head >= {*one} and newer.head >= {*other}:
        yield "slot:ahead"
    for term in {*before[:start], *before[len(before) - end :]} - older.names:
        yield f"in slot:{term}"
    if start:
        yield f"slot after:{before[start - 1] if before[start - 1] not in older.names else 'N'}"
