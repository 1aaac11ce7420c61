"""Learn how to judge pairs of memories, from notes of which it is known what belongs together.

`python -m evals.pairs --without NAME` learns from all sets of evals/wordings but one, and tells how it does on that;
`python -m evals.pairs --write` learns from all but those that are held out, and writes the weights of the package.

What is learnt is a sum: each sign of a pair says so much for `same` and so much for `newer` (logistic regression).
It needs scikit-learn (`make learn-pairs` brings it); the package itself needs none of it.
"""

import argparse
import gzip
import random
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evals.wordings import HELD_OUT, Note, names, notes
from perdure.core.memory.importance import DAY
from perdure.core.memory.pairing import NEITHER, Weights, binned, signs, weights_of
from perdure.core.memory.parts import Memory, MemoryType
from perdure.core.memory.settling import Beside
from perdure.embedders.making import made
from perdure.indexes.nearness import Nearness

WEIGHTS = Path(__file__).parents[1] / "src" / "perdure" / "compose" / "pairs.tsv.gz"
EMBEDDERS = ("none", "wordllama", "minilm")
SURE = (0.5, 0.6)
"""How sure one must be to act: that two say the same, that one makes the other untrue."""
APART = 14_000
"""Pairs of a set that are neither, of which is learnt."""
WIDELY = 3
"""Sets that must have a sign for it to be learnt: nothing is to be learnt by heart."""
LOOSE, STEPS = 0.1, 250


class Example(NamedTuple):
    """A pair: its signs, how near the two are by each embedder, and what it is."""

    signs: list[str]
    near: tuple[tuple[str, str], ...]
    verdict: int

    def by(self, embedder: int) -> list[str]:
        """Its signs with what an embedder says."""
        told = dict(zip(("near:?", "kin:?"), self.near[embedder], strict=True))
        return [_with(sign, told) for sign in self.signs]


def _with(sign: str, told: dict[str, str]) -> str:
    for head, said in told.items():
        if sign.startswith(head):
            return sign.replace("?", said, 1)
    return sign


def memory(number: int, note: Note) -> Memory:
    """A note as a memory."""
    at = 400 * DAY - note.days * DAY + number
    return Memory(
        id=f"m{number:05}", content=note.text, type=MemoryType.FACT, importance=0.5, recorded_at=at, version=number + 1
    )


def examples(name: str) -> list[Example]:
    """The pairs of a set that may be about the same thing."""
    told, found = notes(name), list[Example]()
    beside = Beside([memory(number, note) for number, note in enumerate(told)])
    embedders = [made(embedder) for embedder in EMBEDDERS]
    near = [None if embedder is None else Nearness(embedder, beside.texts) for embedder in embedders]
    for one, other in beside.pairs:
        verdict = 0
        if told[one].group == told[other].group >= 0:
            verdict = 1 if "duplicate" in (told[one].fate, told[other].fate) else 2
        alike = [NEITHER if each is None else each(one, other) for each in near]
        bins = tuple((binned(each[0]), binned(each[1])) for each in alike)
        found.append(Example([*signs(beside.gists[one], beside.gists[other], beside.rarity)], bins, verdict))
    return found


def learnt(sets: list[str], seed: int = 5) -> Weights:
    """Weights from some sets."""
    rng = random.Random(seed)
    rows: list[list[str]] = []
    verdicts: list[int] = []
    spread: Counter[str] = Counter()
    with ProcessPoolExecutor() as pool:
        for name, pairs in zip(sets, pool.map(examples, sets), strict=True):
            apart = [pair for pair in pairs if not pair.verdict]
            some = [(pair.by(each), pair.verdict) for pair in pairs if pair.verdict for each in range(len(EMBEDDERS))]
            few = rng.sample(apart, min(APART, len(apart)))
            some += [(pair.by(rng.randrange(len(EMBEDDERS))), 0) for pair in few]
            counts = Counter(sign for found, _ in some for sign in found)
            spread.update(sign for sign, count in counts.items() if count > 1)
            rows += [found for found, _ in some]
            verdicts += [verdict for _, verdict in some]
            print(f"  {name}: {len(pairs)} pairs", file=sys.stderr, flush=True)
    known = sorted(sign for sign, count in spread.items() if count >= min(WIDELY, len(sets)))
    return _fitted(rows, verdicts, known)


def _fitted(rows: list[list[str]], verdicts: list[int], known: list[str]) -> Weights:
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    at = {sign: number for number, sign in enumerate(known)}
    packed = [[at[sign] for sign in dict.fromkeys(found) if sign in at] for found in rows]
    starts = np.cumsum([0, *map(len, packed)])
    columns = np.fromiter((column for found in packed for column in found), dtype=np.int32)
    table = csr_matrix((np.ones(len(columns), dtype=np.float32), columns, starts), shape=(len(rows), len(known)))
    model = LogisticRegression(C=LOOSE, max_iter=STEPS).fit(table, verdicts)
    weights = np.vstack([model.coef_.T, model.intercept_])
    return weights_of(_lines(known, weights - weights[:, :1]))


def _lines(known: list[str], weights: Any) -> Iterator[str]:
    for sign, (_, same, newer) in zip([*known, "bias"], weights.tolist(), strict=True):
        if sign == "bias" or max(abs(same), abs(newer)) >= 0.02:
            yield f"{sign}\t{same:.2f}\t{newer:.2f}"
    yield f"sure\t{SURE[0]}\t{SURE[1]}"


class Result(NamedTuple):
    """What would be handled of what was planted, and touched of the rest."""

    duplicates: int
    outdated: int
    touched: int

    def __str__(self) -> str:
        return f"duplicates {self.duplicates} of 333, outdated {self.outdated} of 333, others touched {self.touched}"


def tried(name: str, weights: Weights, embedder: str) -> Result:
    """How weights do on a set, by themselves."""
    told = notes(name)
    beside = Beside([memory(number, note) for number, note in enumerate(told)])
    built = made(embedder)
    settled = beside.settled(weights, None if built is None else Nearness(built, beside.texts))
    good: Counter[str] = Counter()
    touched: set[str] = set()
    for pair in settled:
        if pair.verdict == "doubtful":
            continue
        older, newer = (told[int(id[1:])] for id in (pair.older, pair.newer))
        touched |= {id for id, note in ((pair.older, older), (pair.newer, newer)) if note.fate == "other"}
        if older.group == newer.group >= 0:
            duplicate = "duplicate" in (older.fate, newer.fate)
            good["duplicate" if duplicate else "outdated"] += duplicate or pair.verdict == "newer"
    return Result(good["duplicate"], good["outdated"], len(touched))


def main() -> int:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m evals.pairs", description=__doc__)
    parser.add_argument("--without", metavar="NAME", help="learn from all other sets, and try it on this one")
    parser.add_argument("--write", action="store_true", help="write the weights of the package")
    given = parser.parse_args()
    weights = learnt([name for name in names() if name != given.without and name not in HELD_OUT])
    print(f"{len(weights.signs)} signs")
    for name in [given.without] if given.without else HELD_OUT:
        for embedder in EMBEDDERS:
            print(f"{name} ({embedder}): {tried(name, weights, embedder)}", flush=True)
    if given.write:
        text = "\n".join(_written(weights)) + "\n"
        WEIGHTS.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"written: {WEIGHTS.stat().st_size} bytes")
    return 0


def _written(weights: Weights) -> Iterator[str]:
    for sign, (same, newer) in sorted(weights.signs.items()):
        yield f"{sign}\t{same:.2f}\t{newer:.2f}"
    yield f"bias\t{weights.bias[0]:.2f}\t{weights.bias[1]:.2f}"
    yield f"sure\t{weights.sure[0]}\t{weights.sure[1]}"


if __name__ == "__main__":
    sys.exit(main())
