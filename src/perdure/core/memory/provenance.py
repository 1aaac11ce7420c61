"""What of an answer rests on which memory: as the model itself cites it, or, where it cannot, as the words are alike.

What supported something was of use; what was shown for nothing was not. An answer with names or numbers of which no
memory that was shown says anything tells that something is missing. That is said with care: one support is enough.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from perdure.core.memory.injecting import ADDRESS
from perdure.core.memory.words import STOP, sentences, terms, words
from perdure.core.session.memories import CitedMemory, ShownMemory
from perdure.core.talk.parts import Answer, Block, Foreign, Text
from perdure.core.talk.wire import rest, rest_in

ALIKE: Final = 0.8
"""A cosine above this, between a memory and a sentence, is support."""
SHARED: Final = 0.6
"""By words: the share of those of the shorter one that both have to have."""
FEW: Final = 3
"""So many words in common at least."""
LONGEST: Final = 200
"""Sentences of an answer that are looked at."""
_CITATIONS: Final = "citations"
_LOCATION: Final = "search_result_location"
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_NAME: Final = re.compile(r"(?<=[\w,;:)] )[A-Z][\w'’-]+")
Likeness = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""How alike each of the first texts is to each of the second, from 0 to 1."""


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A place in an answer's words that cites an address."""

    source: str
    start: int = 0
    end: int = 0


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that a part of an answer rests on, and how that is known; `start` and `end` are its place in it."""

    memory: str
    space: str
    how: Literal["cited", "alike", "words"]
    score: float = 1.0
    start: int = 0
    end: int = 0


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer rests on. `missing` says that it tells of things that nothing shown speaks of."""

    supports: tuple[Support, ...] = ()
    unused: tuple[str, ...] = ()
    missing: bool = False

    @property
    def used(self) -> tuple[str, ...]:
        """The memories that support something."""
        return tuple(dict.fromkeys(support.memory for support in self.supports))


# ── citations ──


def citations_in(blocks: Iterable[Block]) -> tuple[Citation, ...]:
    """What an answer cites of memory. Places are in all its words together, one block behind the other."""
    found: list[Citation] = []
    start = end = 0
    for block in blocks:
        if isinstance(block, Text):
            start, end = end, end + len(block.text)
        ours = filter(_is_ours, _listed(block))
        found += [Citation(source=item["source"], start=start, end=end) for item in ours]
    return tuple(found)


def without_citations(answer: Answer) -> Answer:
    """The answer without what it cites of memory: a log that had the words would remember what is to be forgotten, and
    in the next request what they point to is not there.
    """
    if not any(map(_listed, answer.blocks)):
        return answer
    blocks = [kept for block in answer.blocks for kept in _uncited(block)]
    return msgspec.structs.replace(answer, blocks=tuple(blocks))


def cited_in(blocks: Iterable[Block], shown: Iterable[ShownMemory]) -> tuple[CitedMemory, ...]:
    """What an answer cites of what was shown. An address that nobody showed says nothing."""
    known = {item.id: item.space for item in shown}
    found = []
    for item in citations_in(blocks):
        id = item.source.rsplit("/", 1)[-1]
        if id in known:
            found.append(CitedMemory(id=id, space=known[id], start=item.start, end=item.end))
    return tuple(dict.fromkeys(found))


def _listed(block: Block) -> list[Any]:
    listed = (rest_in(block) or {}).get(_CITATIONS)
    return listed if isinstance(listed, list) else []


def _is_ours(item: object) -> bool:
    if not isinstance(item, dict) or item.get("type") != _LOCATION:
        return False
    source = item.get("source")
    return isinstance(source, str) and source.startswith(ADDRESS)


def _uncited(block: Block) -> tuple[Block, ...]:
    listed = _listed(block)
    if not listed or not isinstance(block, Foreign):
        return (block,)
    others = [item for item in listed if not _is_ours(item)]
    kept = {name: value for name, value in (rest_in(block) or {}).items() if name != _CITATIONS}
    return rest(block.provider, {**kept, _CITATIONS: others} if others else kept)


# ── likeness ──


def provenance_of(
    text: str,
    shown: Sequence[tuple[ShownMemory, str]],
    cited: Sequence[CitedMemory] | None = None,
    alike: Likeness | None = None,
) -> Provenance:
    """What an answer rests on, of what was shown with these words. With `cited` the model said so itself; else what is
    alike counts, by vectors if there are any, or by words in common.
    """
    if not shown:
        return Provenance()
    said = _placed(text)
    if cited is None:
        supports = _alike(said, shown, alike)
    else:
        known = {item.id for item, _ in shown}
        supports = [
            Support(memory=item.id, space=item.space, how="cited", start=item.start, end=item.end)
            for item in cited
            if item.id in known
        ]
    used = {support.memory for support in supports}
    unused = tuple(item.id for item, _ in shown if item.id not in used)
    return Provenance(
        supports=tuple(supports),
        unused=unused,
        missing=not used and any(claims(sentence) for _, sentence in said),
    )


def claims(sentence: str) -> bool:
    """Whether a sentence tells a number or a name, so that somebody could be wrong about it."""
    if sentence.rstrip().endswith("?"):
        return False
    return bool(_NUMBER.search(sentence)) or any(name.lower() not in STOP for name in _NAME.findall(sentence))


def overlap(memory: str, sentence: str) -> float:
    """How much of the shorter of two texts the other says as well, by words; nothing when their numbers differ."""
    mine, other = set(terms(memory)), set(terms(sentence))
    common = len(mine & other)
    if common < FEW:
        return 0.0
    numbers = [{word for word in words(text) if word[:1].isdigit()} for text in (memory, sentence)]
    if numbers[1] and not numbers[1] & numbers[0]:
        return 0.0
    return common / min(len(mine), len(other))


def _placed(text: str) -> list[tuple[int, str]]:
    """The sentences of an answer, each with where it begins."""
    found, at = [], 0
    for sentence in sentences(text)[:LONGEST]:
        at = max(at, text.find(sentence, at))
        found.append((at, sentence))
        at += len(sentence)
    return found


def _alike(
    said: Sequence[tuple[int, str]], shown: Sequence[tuple[ShownMemory, str]], alike: Likeness | None
) -> list[Support]:
    told = [sentence for _, sentence in said]
    vectors = alike([content for _, content in shown], told) if alike is not None and told else None
    found = []
    for row, (item, content) in enumerate(shown):
        for column, (start, sentence) in enumerate(said):
            end = start + len(sentence)
            score = 0.0 if vectors is None else float(vectors[row][column])
            if score > ALIKE:
                found.append(
                    Support(memory=item.id, space=item.space, how="alike", score=round(score, 4), start=start, end=end)
                )
            elif (score := overlap(content, sentence)) >= SHARED:
                found.append(
                    Support(memory=item.id, space=item.space, how="words", score=round(score, 4), start=start, end=end)
                )
    return found
