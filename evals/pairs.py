"""Learn how to judge pairs of memories, from notes of which it is known what belongs together.

`python -m evals.pairs --without NAME` learns from all sets of evals/wordings but one, and tells how it does on that;
`python -m evals.pairs --write` learns from all but those that are held out, and writes the weights of the package.

What is learnt is a sum and trees. In the sum each sign of a pair says so much for `same` and so much for `newer`
(logistic regression). The trees look at the sums of all pairs of a space, and at what can be counted in it (gradient
boosting); so that they see sums as they will be, those of a set were learnt without it. Of each set a small part is
looked at too, as if it were all there is: most spaces are small. Last, from sets of which neither these nor the reader
(`evals.reader`) know anything, it is told how much each of both weighs.

It needs scikit-learn (`make learn-pairs` brings it), and three quarters of an hour; the package needs none of it.
"""

import argparse
import gzip
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from evals.wordings import HELD_OUT, TUNED_ON, Note, learning, notes
from perdure.core.memory.importance import DAY
from perdure.core.memory.pairing import Weights, signs, weights_of
from perdure.core.memory.parts import Memory, MemoryType
from perdure.core.memory.rereading import bound, either
from perdure.core.memory.ruling import ruled
from perdure.core.memory.settling import Beside, Reader
from perdure.core.memory.trees import Tree, written
from perdure.embedders.making import made
from perdure.embedders.reader import PairReader
from perdure.indexes.nearness import Nearness

WEIGHTS = Path(__file__).parents[1] / "src" / "perdure" / "compose" / "pairs.tsv.gz"
EMBEDDERS = ("none", "wordllama", "minilm")
SURE = (0.7, 0.7)
"""How sure one must be to act where nobody reads: that two say the same, that one makes the other untrue."""
APART = 14_000
"""Pairs of a set that are neither, of which is learnt."""
WIDELY = 3
"""Sets that must have a sign for it to be learnt: nothing is to be learnt by heart."""
LOOSE, STEPS = 0.1, 250
PARTS, FOLDS = 8, 4
"""The part of a set that is looked at by itself, and how often sums are learnt without some sets, for trees."""
TREES, LEAVES, FEWEST, PACE, CALM = 240, 15, 60, 0.08, 5.0
"""How many trees, how many ends of each, how many pairs at each end; how fast they learn, and how carefully."""


class Room(NamedTuple):
    """Notes of a set as memories beside each other."""

    told: list[Note]
    beside: Beside

    def verdict(self, one: int, other: int) -> int:
        """What two are: 1 when they say the same, 2 when the later one makes the other untrue, 0 when neither."""
        first, second = self.told[one], self.told[other]
        if first.group != second.group or first.group < 0:
            return 0
        return 1 if "duplicate" in (first.fate, second.fate) else 2

    def planted(self) -> Iterator[tuple[tuple[Note, Note], int]]:
        """The pairs that are something, the older note first."""
        groups: dict[int, list[int]] = defaultdict(list)
        for number, note in enumerate(self.told):
            if note.group >= 0:
                groups[note.group].append(number)
        for pair in groups.values():
            if len(pair) == 2:
                older, newer = sorted((self.told[number] for number in pair), key=lambda note: -note.days)
                yield (older, newer), self.verdict(*pair)


@cache
def room(name: str, embedder: str = "none", parts: int = 1) -> Room:
    """The notes of a set, or a part of them, in which what belongs together is together."""
    each = _embedder(embedder)
    if each is not None:
        told, beside = room(name, parts=parts)
        return Room(told, beside.by(Nearness(each, beside.texts)))
    told = [note for number, note in enumerate(notes(name)) if not (note.group if note.group >= 0 else number) % parts]
    memories = [memory(number, note) for number, note in enumerate(told)]
    return Room(told, Beside(memories, ruled=ruled(memories)))


def rooms(name: str, parts: int = 1) -> list[Room]:
    """The same by each embedder."""
    return [room(name, embedder, parts) for embedder in EMBEDDERS]


@cache
def _embedder(name: str) -> Any:
    return made(name)


def memory(number: int, note: Note) -> Memory:
    """A note as a memory."""
    at = 400 * DAY - note.days * DAY + number
    return Memory(
        id=f"m{number:05}", content=note.text, type=MemoryType.FACT, importance=0.5, recorded_at=at, version=number + 1
    )


@cache
def examples(name: str, seed: int = 5) -> list[tuple[list[str], int]]:
    """Signs of pairs of a set, and what they are: those that are something by each embedder, of the others some."""
    rng = random.Random(f"{seed} {name}")
    chosen: list[tuple[Beside, int, int, int]] = []
    for shown in rooms(name):
        told = [(shown.beside, one, other, shown.verdict(one, other)) for one, other in shown.beside.pairs]
        apart = [each for each in told if not each[3]]
        chosen += [each for each in told if each[3]]
        chosen += rng.sample(apart, min(APART // len(EMBEDDERS), len(apart)))
    found = []
    for beside, one, other, verdict in chosen:
        told_signs = signs(beside.gists[one], beside.gists[other], beside, beside.alike(one, other))
        found.append(([*dict.fromkeys(map(sys.intern, told_signs))], verdict))
    print(f"  {name}: {len(chosen)} pairs", file=sys.stderr, flush=True)
    return found


def learnt(sets: list[str]) -> Weights:
    """Weights from some sets."""
    asked: list[str] = []
    rows: list[Any] = []
    verdicts: list[int] = []
    for fold in range(FOLDS):
        weights = summing([name for number, name in enumerate(sets) if number % FOLDS != fold])
        for name in sets[fold::FOLDS]:
            for shown in (*rooms(name), *rooms(name, PARTS)):
                for pair, numbers in shown.beside.measured(weights):
                    asked = asked or [*numbers]
                    rows.append(np.array([numbers[number] for number in asked], dtype=np.float32))
                    verdicts.append(shown.verdict(pair.older, pair.newer))
        print(f"  {len(rows)} pairs beside others", file=sys.stderr, flush=True)
    return msgspec.structs.replace(summing(sets), trees=tuple(_grown(asked, np.stack(rows), verdicts)))


def voiced(weights: Weights, sets: Iterable[str], reader: Reader) -> Weights:
    """The same with how much a reader weighs beside what is counted, from sets of which both know nothing."""
    from sklearn.linear_model import LogisticRegression

    rows: list[list[float]] = []
    verdicts: list[bool] = []
    for name in sets:
        for shown in rooms(name):
            asked = shown.beside.asked(weights)
            for (pair, odds), sums in zip(asked, reader(shown.beside.told(asked)), strict=True):
                rows.append([bound(odds), bound(either(sums))])
                verdicts.append(shown.verdict(pair.older, pair.newer) > 0)
    model = LogisticRegression().fit(np.array(rows), np.array(verdicts))
    return msgspec.structs.replace(weights, voices=(float(model.intercept_[0]), *map(float, model.coef_[0])))


def summing(sets: list[str]) -> Weights:
    """Weights of signs from some sets."""
    rows: list[list[str]] = []
    verdicts: list[int] = []
    spread: Counter[str] = Counter()
    for name in sets:
        some = examples(name)
        counts = Counter(sign for found, _ in some for sign in found)
        spread.update(sign for sign, count in counts.items() if count > 1)
        rows += [found for found, _ in some]
        verdicts += [verdict for _, verdict in some]
    known = sorted(sign for sign, count in spread.items() if count >= min(WIDELY, len(sets)))
    return _fitted(rows, verdicts, known)


def _fitted(rows: list[list[str]], verdicts: list[int], known: list[str]) -> Weights:
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    at = {sign: number for number, sign in enumerate(known)}
    packed = [[at[sign] for sign in found if sign in at] for found in rows]
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


def _grown(asked: list[str], table: Any, verdicts: list[int]) -> Iterator[Tree]:
    """Trees that tell from a table of numbers whether a pair is something."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model: Any = HistGradientBoostingClassifier(
        learning_rate=PACE,
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=FEWEST,
        l2_regularization=CALM,
        early_stopping=False,
        random_state=1,
    ).fit(table, np.array(verdicts) > 0)
    yield float(model._baseline_prediction.item())
    for [tree] in model._predictors:
        yield _tree(tree.nodes, asked, 0)


def _tree(nodes: Any, asked: list[str], at: int) -> Tree:
    node = nodes[at]
    if node["is_leaf"]:
        return float(node["value"])
    low, high = _tree(nodes, asked, int(node["left"])), _tree(nodes, asked, int(node["right"]))
    return asked[node["feature_idx"]], float(node["num_threshold"]), low, high


class Result(NamedTuple):
    """What would be handled of what was planted, and touched of the rest."""

    duplicates: int
    outdated: int
    touched: int

    def __str__(self) -> str:
        return f"duplicates {self.duplicates} of 333, outdated {self.outdated} of 333, others touched {self.touched}"


def tried(name: str, weights: Weights, embedder: str, reader: Reader | None = None) -> Result:
    """How weights do on a set, by themselves."""
    told, beside = room(name, embedder)
    settled = beside.settled(weights, reader)
    good: Counter[str] = Counter()
    touched: set[str] = set()
    for pair in settled:
        if pair.verdict not in ("same", "newer"):
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
    weights = learnt([name for name in learning() if name != given.without])
    reader = PairReader().read
    weights = voiced(weights, TUNED_ON, reader)
    print(f"{len(weights.signs)} signs, voices {weights.voices}")
    for name in [given.without] if given.without else HELD_OUT:
        for embedder in EMBEDDERS:
            print(f"{name} ({embedder}): {tried(name, weights, embedder)}", flush=True)
            print(f"{name} ({embedder}, read): {tried(name, weights, embedder, reader)}", flush=True)
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
    yield "voices\t" + "\t".join(f"{voice:.3f}" for voice in weights.voices)
    for tree in weights.trees:
        yield f"tree\t{written(tree)}"


if __name__ == "__main__":
    sys.exit(main())
