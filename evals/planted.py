"""What consolidation makes of memories with planted faults: `python -m evals.planted [--count N] [--seed N]`.

One in five of the memories is planted (evals/drawing.py, or a set of evals/wordings); the rest must be left alone.
Printed are the shares, and whether undoing restores every memory exactly.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evals.asking import Words, ask_of, recorded
from evals.drawing import COUNT, Planted, drawn
from evals.wordings import HELD_OUT, notes
from perdure.compose import Services, embedded
from perdure.compose.memory import MemorySettings
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, Status, vault
from perdure.core.memory.requests import MAX_BATCH, Keeping
from perdure.testing import FixedAmbient

HANDLED, TOUCHED = 0.95, 0.01
SPACE = vault("planted")


class Result(NamedTuple):
    """What came of it."""

    planted: int
    handled: int
    others: int
    touched: int
    exact: bool
    seconds: float
    found: dict[str, int]
    missed: tuple[str, ...]
    asked: tuple[tuple[str, str], ...] = ()
    """The pairs that a model was asked about, the earlier one first."""
    cost: int = 0
    """What that would have cost, in micro-dollars."""

    @property
    def good(self) -> bool:
        """Whether it is as it must be."""
        return self.handled >= HANDLED * self.planted and self.touched <= TOUCHED * self.others and self.exact


async def keep(services: Services, ambient: FixedAmbient, memories: list[Planted]) -> list[str]:
    """Keep them, each on its day; their ids."""
    began, ids = ambient.now(), list[str]()
    furthest = max(one.days for one in memories)
    first = 0
    while first < len(memories):
        days = memories[first].days
        batch = [one for one in memories[first : first + MAX_BATCH] if one.days == days]
        ambient.advance(max(0, began + (furthest - days) * DAY - ambient.now()) / 1e6)
        fresh = [_ending(one.asked, began + (furthest - one.over) * DAY) if one.over else one.asked for one in batch]
        ids += [memory.id for memory in await services.memories.keep(SPACE, fresh)]
        first += len(batch)
    known = await services.memories.shelves.look(SPACE)
    for id, one in zip(ids, memories, strict=True):
        if one.used:
            known.uses.note(id, found=one.used)
    await services.memories.close()
    return ids


def _ending(asked: Keeping, over: int) -> Keeping:
    fields: dict[str, Any] = {name: getattr(asked, name) for name in asked.__struct_fields__}
    return Keeping(**fields | {"valid_to": over})


def worded(name: str) -> list[Planted]:
    """A set of evals/wordings, oldest first: notes that were written freely, with as much planted among them."""
    found = [
        Planted(Keeping(content=note.text, importance=note.importance), note.days, note.fate, note.group, 0, note.over)
        for note in notes(name)
    ]
    return sorted(found, key=lambda one: -one.days)


def truth(memories: list[Planted]) -> dict[tuple[str, str], str]:
    """What is to be said of each planted pair, by the texts of the earlier and the later one."""
    words = {"duplicate": "same", "outdated": "newer"}
    groups: dict[int, list[Planted]] = {}
    for one in memories:
        groups.setdefault(one.group, []).append(one)
    pairs = [(word, pair) for pair in groups.values() for each in pair if (word := words.get(each.fate))]
    return {(pair[0].asked.content, pair[-1].asked.content): word for word, pair in pairs}


async def evaluate(
    memories: list[Planted],
    embedder: str = "none",
    reader: Literal["auto", "none"] = "auto",
    model: Words | None = None,
) -> Result:
    """Plant, consolidate, judge, undo."""
    ambient = FixedAmbient(seed=b"planted")
    services = embedded(":memory:", ambient=ambient, memory=MemorySettings(embedder=embedder, reader=reader))
    asked = None if model is None else ask_of(services, model)
    ids = await keep(services, ambient, memories)
    ambient.advance(86_400)
    before = dict((await services.memories.shelves.look(SPACE)).shelf.memories)
    began = time.perf_counter()
    run = await services.consolidating.run(SPACE)
    seconds = time.perf_counter() - began
    after = dict((await services.memories.shelves.look(SPACE)).shelf.memories)
    result = _judged(memories, ids, before, after)
    await services.consolidating.undo(SPACE, run.id)
    restored = (await services.memories.shelves.look(SPACE)).shelf.memories
    await services.store.close()
    pairs = () if asked is None else tuple(asked.asked)
    return result._replace(exact=restored == before, seconds=seconds, found=run.found, asked=pairs, cost=run.cost)


def _judged(memories: list[Planted], ids: list[str], before: dict[str, Memory], after: dict[str, Memory]) -> Result:
    faults = handled = others = touched = 0
    missed: list[str] = []
    mates: dict[int, list[str]] = {}
    for id, one in zip(ids, memories, strict=True):
        mates.setdefault(one.group, []).append(id)
    for id, one in zip(ids, memories, strict=True):
        now = after[id]
        if one.fate == "other":
            others += 1
            wrong = now != before[id]
            touched += wrong
            if wrong:
                missed.append(f"touched: {now.content} ({now.status} {after[now.superseded_by].content!r})"
                              if now.superseded_by else f"touched: {now.content} ({now.status})")  # fmt: skip
            continue
        if one.fate in ("base", "newer"):
            continue
        faults += 1
        group = mates[one.group]
        if one.fate == "stale":
            good = now.status is not Status.LIVE
        elif one.fate == "outdated":
            good = now.superseded_by in group
        else:
            good = sum(after[mate].status is Status.LIVE for mate in group) == 1
        handled += good
        if not good:
            missed.append(f"missed {one.fate}: " + " / ".join(before[mate].content for mate in group[:2]))
    return Result(faults, handled, others, touched, False, 0.0, {}, tuple(missed))


def main() -> int:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m evals.planted", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--wordings",
        help=f"a set of evals/wordings instead; from {', '.join(HELD_OUT)} nothing is learnt",
    )
    parser.add_argument("--embedder", default="none", help="auto, none, or the name of one that is installed")
    parser.add_argument("--reader", default="auto", choices=["auto", "none"], help="whether they are read, too")
    parser.add_argument(
        "--model",
        default="none",
        choices=["none", "truth", "recorded"],
        help="who is asked about doubtful pairs: nobody, one who knows, or what a language model once said",
    )
    parser.add_argument("--asked", metavar="FILE", help="write the pairs that were asked about there, as JSON lines")
    parser.add_argument("--show", type=int, default=10, help="as many of those that went wrong are shown")
    parser.add_argument(
        "--write-docs", action="store_true", help="measure all sets, and write docs/CONSOLIDATION-EVAL.md"
    )
    given = parser.parse_args()
    if given.write_docs:
        from evals.page import table

        return asyncio.run(table())
    memories = worded(given.wordings) if given.wordings else drawn(given.count, given.seed)
    model = {"none": lambda: None, "truth": lambda: truth(memories), "recorded": recorded}[given.model]()
    result = asyncio.run(evaluate(memories, given.embedder, given.reader, model))
    if given.asked:
        Path(given.asked).write_text("".join(f"{json.dumps(pair, ensure_ascii=False)}\n" for pair in result.asked))
    for line in result.missed[: given.show]:
        print(f"  {line}")
    print(f"planted handled: {result.handled} of {result.planted} ({result.handled / result.planted:.2%})")
    print(f"others touched:  {result.touched} of {result.others} ({result.touched / result.others:.2%})")
    print(f"undo exact:      {'yes' if result.exact else 'NO'}")
    if model is not None:
        print(f"asked of a model: {len(result.asked)} pairs, which would cost about ${result.cost / 1e6:.3f}")
    of = given.wordings or f"seed {given.seed}"
    print(f"{result.found} in {result.seconds:.1f} s ({of}, embedder {given.embedder})")
    return 0 if result.good else 1


if __name__ == "__main__":
    sys.exit(main())
