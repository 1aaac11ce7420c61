"""Learn to read two notes beside each other, from notes of which it is known what belongs together.

`python -m evals.reader --without NAME` learns from all sets of evals/wordings but one, and tells how it does on that;
`python -m evals.reader --write` learns from all but those that are held out, and writes what the package reads with.

What reads is the better embedder's network, given both notes at once. Its own weights stay as they are; learnt are two
narrow matrices for each of its own, whose product is added to that (low-rank adapters), what tells the first note from
the second, and three sums at the end: for `apart`, `same` and `newer`.

It needs JAX (`make learn-reader` brings it), and three quarters of an hour; the package itself needs none of it. Where
sets were added, `--onward 0.7` goes on from what was learnt before, at half the pace.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

from evals.families import families
from evals.families import told as told_of
from evals.pairs import Room, room
from evals.wordings import HELD_OUT, draws
from perdure.compose.weights import weights as package
from perdure.core.memory.measuring import Laid
from perdure.core.memory.rereading import either
from perdure.embedders.encoding import folder
from perdure.embedders.reader import DOWN, UP, PairReader
from perdure.embedders.weights import tensors

LEARNT = Path(__file__).parents[1] / "src" / "perdure" / "embedders" / "reader.safetensors"
APART = (400, 400, 250, 150, 100)
"""Pairs of a set that are neither, of which is learnt: those that are easiest mistaken as one reads now, the likeliest
by their signs, the nearest of the rest, some of the next, and some of all others."""
FAMILIES = 40
"""Families by which it is tried how well one reads."""
RANK, LAYERS, HEADS, LENGTH = 16, 6, 12, 96
BATCH, EPOCHS, PACE, EASE, CALM = 32, 1.9, 2e-3, 0.02, 0.01
"""Pairs at a time, how often each is read, how fast one learns, how sure one must not be, and what pulls back."""
_MATRICES = """
attention.self.query attention.self.key attention.self.value attention.output.dense intermediate.dense output.dense
""".split()


class Example(NamedTuple):
    """Two notes, and what the newer one is to the older one: 0 for neither, 1 for the same, 2 for newer."""

    older: str
    newer: str
    verdict: int


def examples(name: str, embedder: str = "minilm") -> list[Example]:
    """Pairs of a set: all that are something, and of those that are not mostly what is easily mistaken."""
    rng, shown = random.Random(f"reader {name}"), room(name, embedder)
    laid = shown.beside.laid(package())
    apart = sorted((pair for pair in laid if not shown.verdict(pair.older, pair.newer)), key=lambda pair: -pair.odds)
    mistaken, likely, nearest, some, others = APART
    chosen = apart[:likely] + sorted(apart[likely:], key=lambda pair: -pair.near)[:nearest]
    for rest, count in ((apart[likely : 6 * likely], some), (apart[6 * likely :], others)):
        chosen += rng.sample(rest, min(count, len(rest)))
    chosen += _mistaken(shown)[:mistaken]
    room.cache_clear()
    pairs = sorted({(pair.older, pair.newer) for pair in chosen})
    found = [Example(shown.told[one].text, shown.told[other].text, 0) for one, other in pairs]
    return found + [Example(older.text, newer.text, verdict) for (older, newer), verdict in shown.planted()]


def confused() -> list[Example]:
    """Pairs of families (`evals.families`), of which nothing is learnt: made to be mistaken for each other."""
    rng = random.Random("families")
    return [Example(*pair) for family in rng.sample(families(), FAMILIES) for pair in told_of(family, rng)]


def _mistaken(shown: Room) -> list[Laid]:
    """Pairs that are neither, those first that are likeliest something as one reads now."""
    asked = [each for each in shown.beside.asked(package()) if not shown.verdict(each[0].older, each[0].newer)]
    read = PairReader().read(shown.beside.told(asked))
    order = sorted(range(len(asked)), key=lambda at: -either(read[at]))
    return [asked[at][0] for at in order]


# ── the network ──


def network(learnt: Mapping[str, Any], fixed: Mapping[str, Any], ids: Any, kinds: Any, counts: Any) -> Any:
    """The three sums of each row of tokens."""
    there = jnp.arange(ids.shape[1])[None, :] < counts[:, None]
    hidden = fixed["embeddings.word_embeddings.weight"][ids]
    hidden += fixed["embeddings.position_embeddings.weight"][: ids.shape[1]]
    hidden += learnt["embeddings.token_type_embeddings.weight"][kinds]
    hidden = _normed(hidden, fixed, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        dense = partial(_dense, learnt, fixed)
        query, key, value = (
            dense(f"{at}attention.self.{part}", hidden).reshape(*hidden.shape[:2], HEADS, -1)
            for part in ("query", "key", "value")
        )
        weight = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(query.shape[-1])
        weight = jax.nn.softmax(jnp.where(there[:, None, None, :], weight, -1e9), axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weight, value).reshape(hidden.shape)
        hidden = _normed(hidden + dense(f"{at}attention.output.dense", mixed), fixed, f"{at}attention.output.LayerNorm")
        inner = jax.nn.gelu(dense(f"{at}intermediate.dense", hidden), approximate=False)
        hidden = _normed(hidden + dense(f"{at}output.dense", inner), fixed, f"{at}output.LayerNorm")
    mean = (hidden * there[:, :, None]).sum(1) / counts[:, None]
    return jnp.concatenate([hidden[:, 0], mean], axis=1) @ learnt["head.weight"].T + learnt["head.bias"]


def _dense(learnt: Mapping[str, Any], fixed: Mapping[str, Any], name: str, given: Any) -> Any:
    own = given @ fixed[f"{name}.weight"].T + fixed[f"{name}.bias"]
    return own + given @ learnt[f"{name}.weight{DOWN}"].T @ learnt[f"{name}.weight{UP}"].T


def _normed(given: Any, fixed: Mapping[str, Any], name: str) -> Any:
    centred = given - given.mean(-1, keepdims=True)
    scaled = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * fixed[f"{name}.weight"] + fixed[f"{name}.bias"]


def _unlearnt(fixed: Mapping[str, Any], seed: int = 1) -> dict[str, Any]:
    """What is learnt, before anything is: it changes nothing in the network."""
    rng, width = np.random.default_rng(seed), fixed["embeddings.LayerNorm.weight"].shape[0]
    kinds = "embeddings.token_type_embeddings.weight"
    found = {kinds: fixed[kinds], "head.bias": np.zeros(3)}
    found["head.weight"] = rng.uniform(-1, 1, (3, 2 * width)) / np.sqrt(2 * width)
    for layer in range(LAYERS):
        for part in _MATRICES:
            name = f"encoder.layer.{layer}.{part}.weight"
            outputs, inputs = fixed[name].shape
            found[name + DOWN] = rng.standard_normal((RANK, inputs)) / np.sqrt(inputs)
            found[name + UP] = np.zeros((outputs, RANK))
    return {name: jnp.asarray(array, dtype=jnp.float32) for name, array in found.items()}


def _begun(learnt: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What was learnt before, with factors as wide as they are now: what is new in them changes nothing yet."""
    for name, array in before.items():
        wide, narrow = learnt[name], jnp.asarray(array)
        learnt[name] = wide.at[tuple(slice(size) for size in narrow.shape)].set(narrow)
    return learnt


# ── learning ──


class Batch(NamedTuple):
    """Rows of tokens, which of both notes each is of, how many of a row count, and what the rows are."""

    ids: Any
    kinds: Any
    counts: Any
    verdicts: Any


def batches(told: Sequence[Example], rng: random.Random, tokenizer: Tokenizer) -> Iterator[Batch]:
    """All examples once, in another order each time; those of like length together."""
    rows = tokenizer.encode_batch([(each.older, each.newer) for each in told])
    order = rng.sample(range(len(told)), len(told))
    chunks = [order[first : first + 50 * BATCH] for first in range(0, len(order), 50 * BATCH)]
    groups = []
    for chunk in chunks:
        chunk.sort(key=lambda at: len(rows[at].ids))
        groups += [chunk[first : first + BATCH] for first in range(0, len(chunk), BATCH)]
    rng.shuffle(groups)
    for group in groups:
        if len(group) == BATCH:  # of one size, so that the network is compiled for few
            yield _packed([rows[at] for at in group], [told[at].verdict for at in group])


def _packed(rows: Sequence[Any], verdicts: Sequence[int]) -> Batch:
    length = -(-max(len(row.ids) for row in rows) // 8) * 8
    ids, kinds = (np.zeros((len(rows), length), dtype=np.int32) for _ in range(2))
    for at, row in enumerate(rows):
        ids[at, : len(row.ids)] = row.ids
        kinds[at, : len(row.ids)] = row.type_ids
    return Batch(ids, kinds, np.array([len(row.ids) for row in rows], dtype=np.int32), np.array(verdicts))


def _loss(learnt: Mapping[str, Any], fixed: Mapping[str, Any], batch: Batch) -> Any:
    told = jax.nn.log_softmax(network(learnt, fixed, batch.ids, batch.kinds, batch.counts))
    wanted = jax.nn.one_hot(batch.verdicts, 3) * (1 - EASE) + EASE / 3
    return -(wanted * told).sum(1).mean()


@jax.jit
def _stepped(learnt: Any, moments: Any, fixed: Any, batch: Batch, pace: Any, step: Any) -> tuple[Any, Any, Any]:
    """One step of Adam, with what is learnt pulled back a little."""
    loss, slopes = jax.value_and_grad(_loss)(learnt, fixed, batch)
    size = jnp.sqrt(sum((slope**2).sum() for slope in jax.tree.leaves(slopes)))
    slopes = jax.tree.map(lambda slope: slope * jnp.minimum(1.0, 1.0 / (size + 1e-6)), slopes)
    first = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moments[0], slopes)
    second = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, moments[1], slopes)
    lifts = 1 - 0.9**step, 1 - 0.999**step

    def moved(own: Any, mean: Any, spread: Any) -> Any:
        return own - pace * (mean / lifts[0] / (jnp.sqrt(spread / lifts[1]) + 1e-8) + CALM * own)

    return jax.tree.map(moved, learnt, first, second), (first, second), loss


def learn(
    told: Sequence[Example], epochs: float = EPOCHS, start: Mapping[str, Any] | None = None, fastest: float = PACE
) -> dict[str, Any]:
    """What is learnt from examples, from nothing or from what was learnt before."""
    fixed = {name: jnp.asarray(array) for name, array in tensors(folder() / "model.safetensors").items()}
    learnt = _begun(_unlearnt(fixed), start or {})
    rng, tokenizer = random.Random(1), _tokenizer()
    moments = tuple(jax.tree.map(jnp.zeros_like, learnt) for _ in range(2))
    steps, began, step, losses = int(len(told) // BATCH * epochs), time.monotonic(), 0, []
    while step < steps:
        for batch in batches(told, rng, tokenizer):
            if step == steps:
                break
            pace = fastest * min(1.0, step / 100) * max(0.02, 1 - step / steps)
            step += 1
            learnt, moments, loss = _stepped(learnt, moments, fixed, batch, pace, float(step))
            losses.append(float(loss))
            if not step % 100:
                rate = step * BATCH / (time.monotonic() - began)
                print(
                    f"  {step} of {steps}: {np.mean(losses[-100:]):.4f}, {rate:.0f} pairs/s",
                    file=sys.stderr,
                    flush=True,
                )
    return {name: np.asarray(array) for name, array in learnt.items()}


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTH)
    return tokenizer


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """A safetensors file of halves."""
    header, parts, at = dict[str, Any](), list[bytes](), 0
    for name, array in sorted(arrays.items()):
        parts.append(np.asarray(array, dtype="<f2").tobytes())
        header[name] = {"dtype": "F16", "shape": [*array.shape], "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(parts))


# ── how well it reads ──


def tried(told: Sequence[Example], learnt: Mapping[str, Any]) -> str:
    """How many of the pairs that are something come before so many that are not."""
    sums = PairReader(learnt=learnt).read([(each.older, each.newer) for each in told])
    order = sorted(zip(map(either, sums), told, strict=True), key=lambda pair: -pair[0])
    wrong = np.cumsum([not each.verdict for _, each in order])
    right = np.cumsum([bool(each.verdict) for _, each in order])
    shares = [right[wrong <= count][-1] / right[-1] for count in (5, 15, 30)]
    return f"found before 5, 15, 30 that are not: {', '.join(f'{share:.1%}' for share in shares)}"


def main() -> int:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m evals.reader", description=__doc__)
    parser.add_argument("--without", metavar="NAME", help="learn from all other sets, and try it on this one")
    parser.add_argument("--write", action="store_true", help="write what the package reads with")
    parser.add_argument(
        "--onward", type=float, metavar="TIMES", help="go on from what the package reads with: all examples so often"
    )
    given = parser.parse_args()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        some = [name for name in draws() if name.partition(" ")[0] != given.without]
        judging = [given.without] if given.without else [*HELD_OUT]
        told = dict(zip([*some, *judging], workers.map(examples, [*some, *judging]), strict=True))
    examples_of = [example for name in some for example in told[name]]
    if given.onward:
        before = {name: np.asarray(array, dtype=np.float32) for name, array in tensors(LEARNT).items()}
        learnt = learn(examples_of, given.onward, before, PACE / 2)
    else:
        learnt = learn(examples_of)
    if given.write:
        write(LEARNT, learnt)
        print(f"written: {LEARNT.stat().st_size} bytes")
    for name in judging:
        print(f"{name}: {tried(told[name], learnt)}", flush=True)
    print(f"families: {tried(confused(), learnt)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
