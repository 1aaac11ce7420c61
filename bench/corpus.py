"""The text every contender stores: turns of about 5.3 kB that compress like prose.

A turn is a question, a tool call, the tool's result and an answer. The words are invented: a few thousand of
them, drawn with Zipf's frequencies, in sentences with numbers and identifiers. Everything follows from the
index of the turn, so any process can say what turn 4,711 must contain. Generating is slow, therefore the
runner writes the turns once to a file and the workers read them from there.
"""

from __future__ import annotations

import itertools
import json
import mmap
import random
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

Turn = dict[str, Any]

WORDS = 5_000
_ONSETS = "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sh sl sp st str t th tr v w y".split()
_NUCLEI = "a a a e e e e i i o o u ai ea ee io ou oo".split()
_CODAS = "b ck d ft g l ll m mp n nd ng nt p r rd rn rt s ss st t th x".split() + [""] * 9
_ENDINGS = "ed ing er ly tion ment able al ous ity ness ive s s s".split()
_SMALL = "the of to and a in is for that with as it on be by are from at this or an not".split()


@cache
def vocabulary() -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The words, most frequent first, and their cumulative weights."""
    rng = random.Random("perdure bench vocabulary")
    words = dict.fromkeys(_SMALL)
    while len(words) < WORDS:
        syllables = 1 + (len(words) > 60) * (rng.random() < 0.8) + (len(words) > 900) * (rng.random() < 0.5)
        stem = "".join(rng.choice(_ONSETS) + rng.choice(_NUCLEI) for _ in range(syllables))
        ending = rng.choice(_ENDINGS) if len(words) > 150 and rng.random() < 0.45 else ""
        words[stem + rng.choice(_CODAS) + ending] = None
    weights = itertools.accumulate(1.0 / (rank + 1.5) ** 1.08 for rank in range(1, WORDS + 1))
    return tuple(words), tuple(weights)


def _topic(rng: random.Random) -> list[str]:
    """The words one turn keeps coming back to, as any text about something does."""
    return rng.sample(vocabulary()[0][len(_SMALL) :], k=24)


def _sentence(rng: random.Random, topic: list[str]) -> str:
    words, weights = vocabulary()
    chosen = rng.choices(words, cum_weights=weights, k=rng.randint(7, 19))
    for place in range(len(chosen)):
        if rng.random() < 0.19:
            chosen[place] = rng.choice(topic)
    if rng.random() < 0.22:
        chosen[rng.randrange(len(chosen))] = str(rng.randint(2, 9_999))
    if len(chosen) > 11:
        chosen[rng.randint(3, 8)] += ","
    text = " ".join(chosen)
    return text[0].upper() + text[1:] + rng.choices(".?!", weights=(90, 7, 3))[0]


def prose(rng: random.Random, topic: list[str], size: int) -> str:
    """Whole sentences, in all at least `size` characters."""
    sentences: list[str] = []
    length = 0
    while length < size:
        sentences.append(_sentence(rng, topic))
        length += len(sentences[-1]) + 1
    return " ".join(sentences)


def _identifier(rng: random.Random) -> str:
    return f"{rng.getrandbits(48):012x}"


def _hit(rng: random.Random, topic: list[str]) -> dict[str, Any]:
    words, weights = vocabulary()
    title = rng.choices(words, cum_weights=weights, k=rng.randint(2, 4)) + rng.sample(topic, k=2)
    return {
        "id": _identifier(rng),
        "title": " ".join(title).capitalize(),
        "score": round(rng.random(), 4),
        "url": f"https://docs.example.org/{'-'.join(title[-3:])}/{rng.randint(100, 99_999)}",
        "updated": f"20{rng.randint(19, 26)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        "snippet": prose(rng, topic, 340),
    }


def turn(index: int) -> Turn:
    """Turn number `index`, always the same."""
    rng = random.Random(f"perdure bench turn {index}")
    topic = _topic(rng)
    query = {"query": prose(rng, topic, 190), "limit": rng.randint(5, 50), "after": _identifier(rng)}
    hits = [_hit(rng, topic) for _ in range(5)]
    return {
        "user": prose(rng, topic, 570),
        "call": f"call_{_identifier(rng)}",
        "tool": "search",
        "arguments": query,
        "result": {"took_ms": rng.randint(3, 900), "total": rng.randint(5, 4_000), "hits": hits},
        "answer": prose(rng, topic, 1_480),
    }


def compact(value: Any) -> str:
    """JSON without spaces: what the raw contender stores and what sizes are counted in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def message_bytes(one: Turn) -> int:
    """The bytes an application would call its own: texts, arguments and result, no framing."""
    parts = (one["user"], compact(one["arguments"]), compact(one["result"]), one["answer"])
    return sum(len(part.encode()) for part in parts)


def deflated(turns: list[Turn]) -> float:
    """Size after zlib level 6 over size before, all turns as one piece."""
    body = "\n".join(compact(one) for one in turns).encode()
    return len(zlib.compress(body, 6)) / len(body)


class Corpus:
    """Turns in a file, one JSON line each; reading past the end wraps around."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._starts = [0]
        while (end := self._map.find(b"\n", self._starts[-1])) >= 0:
            self._starts.append(end + 1)

    @staticmethod
    def write(path: Path, count: int) -> None:
        with path.open("w", encoding="utf-8") as out:
            out.writelines(compact(turn(index)) + "\n" for index in range(count))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: int) -> Turn:
        index %= len(self)
        loaded: Turn = json.loads(self._map[self._starts[index] : self._starts[index + 1]])
        return loaded

    def turns(self, first: int, last: int) -> list[Turn]:
        return list(self.iterate(first, last))

    def iterate(self, first: int, last: int) -> Iterator[Turn]:
        return (self[index] for index in range(first, last))
