"""Notes as agents' memories collect them, written freely, of which it is known which belong together.

Each set has 5,000 notes of one field, made from several hundred sentences: pairs of which the later one repeats the
earlier one in other words, or makes it untrue; notes that are over, or trifles; and notes that are to be left alone.
`drawn` comes from the generator of `evals.drawing`. Thirteen sets are harder than the others (folk, institutions,
ledgers, mingled, premises, private, public, software, systems, team, trade, varied, working): the two notes of a pair
were worded apart from each other, and share few words. Twenty-seven are as agents note things down (accounts,
assisting, bodies, bureau, campus, clients, clubs, coach, coder, coding, craft, daily, desk, estate, folks, forty,
living, money, onchain, own, platform, shop, single, supporting, ventures, village, works): many notes of each of a few
subjects, each thing said in several ways. Eighteen are by writers who were told what consolidation claims to do, and
nothing else (accepted, cases, chat, checked, circle, claimed, company, counter, firm, lifestyle, mixture, oneself,
outings, persons, secretary, stack, tested, treasury). From eleven sets nothing is learnt, and from four only how sure
to be. What the package has was learnt before accepted, chat, company, persons and treasury were there.

Of most sets of the last two kinds there are further draws: the same sentences put together anew.
"""

import json
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

HELD_OUT = (
    *("general", "mixed", "mingled", "public", "team", "folks"),
    *("forty", "coder", "claimed", "checked", "tested"),
)
"""Sets from which nothing is learnt: what the figures are told by."""
TUNED_ON = ("living", "craft", "clubs", "mixture")
"""Sets by which it is told how much each voice weighs, and how sure one must be; nothing else is learnt from them."""
DRAW = 5_000
_HERE = Path(__file__).parent


class Note(NamedTuple):
    """A memory of a set: its text, days ago, what should come of it (base, duplicate, outdated, newer, stale or other),
    its group or -1, its importance, and how many days ago it ceased to be true.
    """

    text: str
    days: int
    fate: str
    group: int
    importance: float
    over: int | None


def names() -> list[str]:
    """The sets there are."""
    return sorted(path.name.removesuffix(".jsonl.xz") for path in _HERE.glob("*.jsonl.xz"))


def learning() -> list[str]:
    """The sets that are learnt from."""
    return [name for name in names() if name not in HELD_OUT and name not in TUNED_ON]


def draws() -> Iterator[str]:
    """The same, and their further draws: `own`, `own 2`, `own 3`."""
    for name in learning():
        yield name
        yield from (f"{name} {number}" for number in range(2, 1 + len(_lines(name)) // DRAW))


def notes(name: str) -> list[Note]:
    """The notes of a set, or of a further draw."""
    name, _, draw = name.partition(" ")
    first = DRAW * (int(draw or 1) - 1)
    return [Note(*json.loads(line)) for line in _lines(name)[first : first + DRAW]]


@cache
def _lines(name: str) -> list[str]:
    with lzma.open(_HERE / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [*file]
