"""Notes as agents' memories collect them, written freely, of which it is known which belong together.

Each set has 5,000 notes of one field, made from several hundred sentences: pairs of which the later one repeats the
earlier one in other words, or makes it untrue; notes that are over, or trifles; and notes that are to be left alone.
`drawn` comes from the generator of `evals.planted`. Thirteen sets are harder than the others (folk, institutions,
ledgers, mingled, premises, private, public, software, systems, team, trade, varied, working): the two notes of a pair
were worded apart from each other, and share few words. Twenty-one are as agents note things down (assisting, bureau,
campus, clients, clubs, coach, coder, craft, daily, desk, estate, folks, forty, living, money, onchain, own, platform,
shop, supporting, works): many notes of each of a few subjects, each thing said in several ways. From eight sets
nothing is learnt, and from three only how sure to be.
"""

import gzip
import json
from pathlib import Path
from typing import NamedTuple

HELD_OUT = ("general", "mixed", "mingled", "public", "team", "folks", "forty", "coder")
"""Sets from which nothing is learnt: what the figures are told by."""
TUNED_ON = ("living", "craft", "clubs")
"""Sets by which it is told how much each voice weighs, and how sure one must be; nothing else is learnt from them."""
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
    return sorted(path.name.removesuffix(".jsonl.gz") for path in _HERE.glob("*.jsonl.gz"))


def learning() -> list[str]:
    """The sets that are learnt from."""
    return [name for name in names() if name not in HELD_OUT and name not in TUNED_ON]


def notes(name: str) -> list[Note]:
    """The notes of a set."""
    with gzip.open(_HERE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [Note(*json.loads(line)) for line in file]
