"""Learn to read two notes beside each other, from notes of which it is known what belongs together.

`python -m evals.reader --minutes 50 --without NAME` learns from all sets of evals/wordings but one, and tells how it
does on that; `--write` learns from all but those that are held out or tuned on, and writes what the package reads with.

What reads is the better embedder's network, given both notes at once. All of it is learnt but the vectors of words and
places; written down is by how much each matrix came to differ, as the product of two narrow ones. It learns from pairs
of each set, those that are something and those that are near by vectors and nothing, and from pairs of families
(`evals.families`), which are put together anew each time. It goes on from what the package reads with.

It needs PyTorch (`make learn-reader` brings it); the package itself needs none of it.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

from evals.families import families, told
from evals.wordings import TUNED_ON, Note, draws, notes, planted, related
from perdure.core.memory.rereading import either
from perdure.embedders.encoding import folder
from perdure.embedders.minilm import MiniLM
from perdure.embedders.reader import DOWN, UP, PairReader, Turned
from perdure.embedders.weights import tensors

LEARNT = Path(__file__).parents[1] / "src" / "perdure" / "embedders" / "reader.safetensors"
RANK = 64
"""How narrow the matrices are that are written down."""
LAYERS, HEADS, WIDTH, LENGTH = 6, 12, 384, 96
NEAR, NEAREST, OTHERS = 10, 700, 1_100
"""So many near to each note are paired with it; of these pairs, so many nearest and so many others are read."""
AT_ONCE, OF_FAMILIES, SPARED = 9_600, 0.42, 0.3
"""Pairs that are put in order at once, how many of them come from families, and how many of these that are nothing are
left out."""
BATCH, PACE, WARM, EASE, CALM = 64, 6e-5, 200, 0.03, 0.01
"""Pairs at a time, how fast one learns, after how many steps, how sure one must not be, and what pulls back."""
OFTEN, STAYS = 10, 0.99
"""Written down is a mean of what was learnt: after so many steps each, and how much of it stays then."""
_MATRICES = {
    "attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
    "attention.output.dense": "mixed", "intermediate.dense": "wide", "output.dense": "narrow",
    "attention.output.LayerNorm": "first", "output.LayerNorm": "last",
}  # fmt: skip
"""Parts of a layer as they are called in the file, and here."""


class Example(NamedTuple):
    """Two notes, and what the newer one is to the older one: 0 for neither, 1 for the same, 2 for newer."""

    older: str
    newer: str
    verdict: int


# ── what is read ──


def examples(name: str) -> list[Example]:
    """Pairs of a set: all that are something, and of those that are near and nothing, the nearest and some others."""
    rng, shown = random.Random(name), notes(name)
    near = [pair for pair in _near(shown) if not related(shown[pair[0]], shown[pair[1]])]
    chosen = near[:NEAREST] + rng.sample(near[NEAREST:], min(OTHERS, len(near[NEAREST:])))
    pairs = ((shown[one], shown[other]) for one, other in [*planted(shown), *chosen])
    return [Example(older.text, newer.text, related(older, newer)) for older, newer in pairs]


def _near(shown: Sequence[Note]) -> list[tuple[int, int]]:
    """Pairs that are near by vectors, the nearest first; the older note of each first."""
    vectors = torch.from_numpy(_embedder().embed([note.text for note in shown]))
    found: dict[tuple[int, int], float] = {}
    for first in range(0, len(shown), 500):
        near = vectors[first : first + 500] @ vectors.T
        values, others = near.topk(NEAR + 1)
        for one, (row, its) in enumerate(zip(others.tolist(), values.tolist(), strict=True), first):
            for other, value in zip(row, its, strict=True):
                ordered = (one, other) if (-shown[one].days, one) <= (-shown[other].days, other) else (other, one)
                if one != other and shown[one].text != shown[other].text:
                    found[ordered] = value
    return sorted(found, key=lambda pair: -found[pair])


@cache
def _embedder() -> MiniLM:
    return MiniLM(threads=2)


def chunks(known: Sequence[Example], rng: random.Random) -> Iterator[list[Example]]:
    """Pairs of sets and of families, mingled, without an end."""
    rest, kin = list[Example](), list[Example]()
    while True:
        while len(kin) < AT_ONCE * OF_FAMILIES:
            for family in rng.sample(families(), 50):
                pairs = (Example(*pair) for pair in told(family, rng))
                kin += [pair for pair in pairs if pair.verdict or rng.random() >= SPARED]
        rng.shuffle(kin)
        some, kin = kin[: int(AT_ONCE * OF_FAMILIES)], kin[int(AT_ONCE * OF_FAMILIES) :]
        while len(some) < AT_ONCE:
            rest = rest or rng.sample(known, len(known))
            some.append(rest.pop())
        yield [_varied(pair, rng) for pair in some]


def _varied(pair: Example, rng: random.Random) -> Example:
    """The same, in small things another: what has no order is turned round, and ends and begins otherwise."""
    older, newer = (_loose(text, rng) for text in pair[:2])
    return (
        Example(newer, older, pair.verdict)
        if pair.verdict != 2 and rng.random() < 0.5
        else pair._replace(older=older, newer=newer)
    )


def _loose(text: str, rng: random.Random) -> str:
    chance = rng.random()
    return text.rstrip(".") if chance < 0.06 else text[:1].lower() + text[1:] if chance < 0.1 else text


# ── the network ──


class Layer(nn.Module):
    """Each token takes up what the others tell."""

    def __init__(self, weights: Mapping[str, Any], at: str) -> None:
        super().__init__()
        for name, here in _MATRICES.items():
            weight, bias = (torch.tensor(weights[f"{at}{name}.{part}"]) for part in ("weight", "bias"))
            part = nn.LayerNorm(WIDTH, eps=1e-12) if weight.dim() == 1 else nn.Linear(*reversed(weight.shape))
            part.weight, part.bias = nn.Parameter(weight), nn.Parameter(bias)
            self.add_module(here, part)

    def forward(self, hidden: Any, mask: Any) -> Any:
        parts = (part(hidden).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        query, key, value = parts
        weight = torch.softmax(query * query.shape[-1] ** -0.5 @ key.transpose(2, 3) + mask, -1)
        told = (weight.to(value.dtype) @ value).transpose(1, 2).flatten(2)
        hidden = self.first(hidden + self.mixed(told))
        return self.last(hidden + self.narrow(functional.gelu(self.wide(hidden))))


class Network(nn.Module):
    """Three sums of each row of tokens: for apart, same and newer."""

    def __init__(self, weights: Mapping[str, Any], head: tuple[Any, Any]) -> None:
        super().__init__()
        embeddings = (torch.tensor(weights[f"embeddings.{part}_embeddings.weight"]) for part in ("word", "position"))
        self.words, self.places = (nn.Parameter(part, requires_grad=False) for part in embeddings)
        self.kinds = nn.Parameter(torch.tensor(weights["embeddings.token_type_embeddings.weight"]))
        norm = (torch.tensor(weights[f"embeddings.LayerNorm.{part}"]) for part in ("weight", "bias"))
        self.scale, self.shift = (nn.Parameter(part, requires_grad=False) for part in norm)
        self.layers = nn.ModuleList(Layer(weights, f"encoder.layer.{layer}.") for layer in range(LAYERS))
        self.weight, self.bias = (nn.Parameter(torch.tensor(part)) for part in head)

    def forward(self, ids: Any, kinds: Any, counts: Any) -> Any:
        there = torch.arange(ids.shape[1])[None, :] < counts[:, None]
        hidden = self.words[ids] + self.places[: ids.shape[1]] + self.kinds[kinds]
        hidden = functional.layer_norm(hidden, (WIDTH,), self.scale, self.shift, 1e-12)
        mask = torch.where(there, 0.0, -1e9)[:, None, None, :].to(torch.bfloat16)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        hidden = hidden.float()
        mean = (hidden * there[:, :, None]).sum(1) / counts[:, None]
        return torch.cat([hidden[:, 0], mean], 1) @ self.weight.T + self.bias


def begun() -> Network:
    """The network as the package reads with it."""
    learnt = {name: np.asarray(array, dtype=np.float32) for name, array in tensors(LEARNT).items()}
    weights = Turned(tensors(folder() / "model.safetensors"), learnt)
    return Network(weights, (learnt["head.weight"], learnt["head.bias"]))


def differing(network: Network) -> dict[str, Any]:
    """By how much its matrices differ from the embedder's, narrow; and the rest that was learnt."""
    own = tensors(folder() / "model.safetensors")
    found = {"head.weight": network.weight, "head.bias": network.bias}
    found["embeddings.token_type_embeddings.weight"] = network.kinds
    for number, layer in enumerate(network.layers):
        for part, here in _MATRICES.items():
            name, its = f"encoder.layer.{number}.{part}", getattr(layer, here)
            found[f"{name}.bias"] = its.bias
            if its.weight.dim() == 1:
                found[f"{name}.weight"] = its.weight
                continue
            more = its.weight.detach().numpy() - own[f"{name}.weight"]
            left, size, right = np.linalg.svd(more, full_matrices=False)
            found[f"{name}.weight{UP}"] = left[:, :RANK] * np.sqrt(size[:RANK])
            found[f"{name}.weight{DOWN}"] = np.sqrt(size[:RANK])[:, None] * right[:RANK]
    return {name: its.detach().numpy() if isinstance(its, torch.Tensor) else its for name, its in found.items()}


# ── learning ──


class Batch(NamedTuple):
    """Rows of tokens, which of both notes each is of, how many of a row count, and what the rows are."""

    ids: Any
    kinds: Any
    counts: Any
    verdicts: Any


def batches(known: Sequence[Example], rng: random.Random, tokenizer: Tokenizer) -> Iterator[Batch]:
    """Pairs without an end; those of like length together."""
    for chunk in chunks(known, rng):
        rows = tokenizer.encode_batch([(each.older, each.newer) for each in chunk])
        order = sorted(range(len(chunk)), key=lambda at: (len(rows[at].ids), rng.random()))
        groups = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
        for group in rng.sample(groups, len(groups)):
            yield _packed([rows[at] for at in group], [chunk[at].verdict for at in group])


def _packed(rows: Sequence[Any], verdicts: Sequence[int]) -> Batch:
    length = -(-max(len(row.ids) for row in rows) // 8) * 8
    ids, kinds = (torch.zeros((len(rows), length), dtype=torch.long) for _ in range(2))
    for at, row in enumerate(rows):
        ids[at, : len(row.ids)] = torch.tensor(row.ids)
        kinds[at, : len(row.ids)] = torch.tensor(row.type_ids)
    return Batch(ids, kinds, torch.tensor([len(row.ids) for row in rows]), torch.tensor(verdicts))


def learn(known: Sequence[Example], minutes: float, network: Network) -> Network:
    """Go on learning for so many minutes; the pace falls to nothing by their end."""
    learnt = [each for each in network.parameters() if each.requires_grad]
    mean = [each.detach().clone() for each in learnt]
    steps = torch.optim.AdamW(learnt, PACE, betas=(0.9, 0.98), weight_decay=CALM, fused=True)
    began, losses, run = time.monotonic(), list[float](), torch.compile(network, dynamic=True)
    for step, batch in enumerate(batches(known, random.Random(1), _tokenizer()), 1):
        over = (time.monotonic() - began) / 60 / minutes
        if over > 1:
            break
        for group in steps.param_groups:
            group["lr"] = PACE * min(1.0, step / WARM) * max(0.02, 1 - over)
        with torch.autocast("cpu", torch.bfloat16):
            sums = run(*batch[:3])
        loss = functional.cross_entropy(sums.float(), batch.verdicts, label_smoothing=EASE)
        loss.backward()
        nn.utils.clip_grad_norm_(learnt, 1.0)
        steps.step()
        steps.zero_grad()
        losses.append(loss.item())
        if not step % OFTEN:
            with torch.no_grad():
                for its, own in zip(mean, learnt, strict=True):
                    its.lerp_(own, 1 - min(STAYS, step / (step + 50)))
        if not step % 200:
            print(f"  {step}: {np.mean(losses[-200:]):.4f}, {over:.0%}", file=sys.stderr, flush=True)
    with torch.no_grad():
        for its, own in zip(mean, learnt, strict=True):
            own.copy_(its)
    return network


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


def tried(known: Sequence[Example], learnt: Mapping[str, Any]) -> str:
    """How many of the pairs that are something come before so many that are not."""
    sums = PairReader(learnt=learnt).read([(each.older, each.newer) for each in known])
    order = sorted(zip(map(either, sums), known, strict=True), key=lambda pair: -pair[0])
    wrong = np.cumsum([not each.verdict for _, each in order])
    right = np.cumsum([bool(each.verdict) for _, each in order])
    shares = [right[wrong <= count][-1] / right[-1] for count in (5, 15, 30)]
    return f"found before 5, 15, 30 that are not: {', '.join(f'{share:.1%}' for share in shares)}"


def main() -> int:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m evals.reader", description=__doc__)
    parser.add_argument("--without", metavar="NAME", help="learn from all other sets, and try it on this one")
    parser.add_argument("--write", action="store_true", help="write what the package reads with")
    parser.add_argument("--minutes", type=float, default=50.0, help="how long to learn, after the pairs were found")
    given = parser.parse_args()
    some = [name for name in draws() if name.partition(" ")[0] != given.without]
    known = [example for name in some for example in examples(name)]
    print(f"{len(known)} pairs of {len(some)} sets, {len(families())} families", flush=True)
    learnt = differing(learn(known, given.minutes, begun()))
    if given.write:
        write(LEARNT, learnt)
        print(f"written: {LEARNT.stat().st_size} bytes")
    for name in [given.without] if given.without else TUNED_ON:
        print(f"{name}: {tried(examples(name), learnt)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
