"""What consolidation makes of memories with planted faults: `python -m evals.planted [--count N] [--seed N]`.

One in five of the memories is planted: a duplicate in other words, a statement that a later one makes untrue, or a
stale fact. The rest must be left alone, and much of it is made to look planted: the same sentence about somebody else,
another thing that somebody likes, the same deed on another day, old notes that are of use or that matter, and
contradictions from a source that is trusted less. Printed are the shares, and whether undoing restores every memory
exactly.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evals.asking import Words, ask_of, recorded
from evals.wordings import HELD_OUT, notes
from perdure.compose import Services, embedded
from perdure.compose.memory import MemorySettings
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, MemoryType, Source, Status, vault
from perdure.core.memory.requests import MAX_BATCH, Keeping
from perdure.testing import FixedAmbient

COUNT, SHARE = 5_000, 0.2
HANDLED, TOUCHED = 0.95, 0.01
SPACE = vault("planted")
_FIRST = """Ana Bruno Chloe Dario Elif Farid Greta Hugo Ines Jonas Kaya Luca Mira Nadia Oscar Petra Quentin Rosa Samir
Tara Ulrik Vera Wanda Xenia Yusuf Zoe Amara Boris Celine Dmitri Esther Felix Gita Hana Ivo Jade""".split()
_LAST = """Adler Bianchi Castro Dubois Eriksen Fischer Garcia Haddad Ivanov Jensen Kowalski Lindgren Moreau Novak Okafor
Pereira Quist Rossi Santos Tanaka Ueda Varga Weber Yilmaz Zhou""".split()
_CITIES = """Berlin Lisbon Oslo Madrid Vienna Prague Dublin Athens Helsinki Warsaw Zurich Porto Milan Lyon Ghent
Krakow Riga Tallinn Malmo Bergen""".split()
_FIRMS = "Northwind Initech Globex Umbrella Hooli Stark Wayne Acme Cyberdyne Soylent Vandelay Wonka".split()
_POOLS = [
    f"{protocol} {asset}"
    for protocol, asset in product(
        "Morpho Aave Compound Euler Spark Yearn Pendle Fluid Moonwell Venus Silo Gearbox".split(),
        "USDC USDT DAI WETH WBTC wstETH cbETH GHO FRAX LUSD".split(),
    )
]
_THINGS = "coffee|jazz|long walks|spicy food|chess|science fiction|sailing|old maps|gardening|board games".split("|")
_FOODS = "peanuts shellfish gluten lactose strawberries sesame soy eggs".split()
_VERBS = "bought sold borrowed lent staked withdrew deposited".split()


class Planted(NamedTuple):
    """A memory to be kept, when (days before now), what should come of it, and the group it belongs to."""

    asked: Keeping
    days: int
    fate: str
    """base, duplicate, outdated, newer, stale or other."""
    group: int = -1
    used: int = 0
    over: int | None = None
    """Days before now when it ceased to be true."""


class Fact(NamedTuple):
    """Ways to say one thing, with a value that can change, and the values it can have."""

    ways: tuple[str, ...]
    values: tuple[str, ...]
    type: MemoryType = MemoryType.FACT


def facts(rng: random.Random) -> Iterator[Fact]:
    """Things of which there is one value at a time, each about somebody or something else."""
    people = [f"{first} {last}" for first, last in product(_FIRST, _LAST)]
    rng.shuffle(people)
    rates = tuple(f"{number / 10:.1f}%" for number in range(11, 90, 7))
    found: list[Fact] = []
    for pool in _POOLS:
        found.append(
            Fact(
                (
                    f"{pool} vault base APY: {{}}",
                    f"The base APY of the {pool} vault is {{}}",
                    f"Base APY on the {pool} vault is currently {{}}",
                ),
                rates,
            )
        )
        found.append(
            Fact(
                (
                    f"The {pool} pool charges a fee of {{}}",
                    f"Fee charged by the {pool} pool: {{}}",
                    f"The fee that the {pool} pool charges is {{}}",
                ),
                rates,
            )
        )
        amounts = tuple(f"${number},500" for number in range(3, 90, 9))
        found.append(
            Fact((f"The total deposit limit for {pool} is {{}}", f"Total deposit limit for {pool}: {{}}"), amounts)
        )
    for person in people:
        found += _about(person)
    rng.shuffle(found)
    yield from found


def _about(person: str) -> list[Fact]:
    cities, firms = tuple(_CITIES), tuple(_FIRMS)
    wish = MemoryType.PREFERENCE
    return [
        Fact((f"{person} lives in {{}}", f"{person} is based in {{}}", f"{person} resides in {{}}"), cities),
        Fact((f"{person} works at {{}}", f"{person} works for {{}}", f"{person} is employed at {{}}"), firms),
        Fact((f"{person} prefers {{}} mode in the app", f"In the app {person} prefers {{}} mode"),
             ("dark", "light", "compact"), wish),
        Fact((f"{person} prefers a {{}} seat on flights", f"On flights, {person} prefers a {{}} seat"),
             ("window", "aisle", "middle"), wish),
        Fact((f"{person}'s favourite colour is {{}}", f"The favorite color of {person} is {{}}"),
             ("blue", "green", "red", "yellow"), wish),
        Fact((f"The maximum slippage for {person} is {{}}", f"Max slippage for {person}: {{}}"),
             ("0.5%", "1.0%", "1.5%", "2.0%"), MemoryType.CONSTRAINT),
    ]  # fmt: skip


def reworded(text: str, rng: random.Random) -> str:
    """The same in another format: numbers, what stands before and after, capitals."""
    changes: list[Callable[[str], str]] = [
        lambda said: said.replace("%", " percent"),
        lambda said: said.replace("%", " %").replace(",500", "500"),
        lambda said: f"Note that {said[0].lower() + said[1:] if said.startswith(('The ', 'In ', 'On ')) else said}.",
        lambda said: f"{said}, as mentioned before",
        lambda said: f"{said} (noted in an earlier chat)",
        lambda said: f"{said}.",
        lambda said: f"As of 2026-03-08 {said}",
        lambda said: said.replace(" is ", " is currently ", 1),
        lambda said: said.upper() if "%" not in said else f"{said}!",
    ]
    for change in rng.sample(changes[:-1], rng.choice((1, 1, 2))):
        text = change(text)
    return text


def planted(count: int, seed: int) -> list[Planted]:
    """So many memories, one in five of them planted, oldest first."""
    rng = random.Random(seed)
    stock = facts(rng)
    found: list[Planted] = []
    faults = int(count * SHARE)
    for group in range(faults):
        kind = ("duplicate", "outdated", "stale")[group % 3]
        found += _STALE(rng) if kind == "stale" else _pair(kind, next(stock), group, rng)
    rest = _others(stock, rng)
    while len(found) < count:
        found += next(rest)
    return sorted(found[:count], key=lambda one: -one.days)


def _pair(kind: str, fact: Fact, group: int, rng: random.Random) -> list[Planted]:
    early, late = rng.randrange(11, 29), rng.randrange(1, 10)
    one, other = rng.sample(fact.values, 2)
    ways = rng.sample(fact.ways, 2)
    first = Keeping(content=ways[0].format(one), memory_type=fact.type, importance=rng.choice((0.4, 0.5, 0.6, 0.8)))
    if kind == "duplicate":
        again = Keeping(content=reworded(rng.choice(fact.ways).format(one), rng), memory_type=fact.type)
        return [Planted(first, early, "base", group), Planted(again, late, "duplicate", group)]
    said = ways[1].format(other)
    if " lives in " in fact.ways[0] and rng.random() < 0.5:
        said = f"{fact.ways[0].split(' lives ')[0]} moved {rng.choice(('', f'from {one} '))}to {other}"
    newer = Keeping(content=said, memory_type=fact.type)
    return [Planted(first, early, "outdated", group), Planted(newer, late, "newer", group)]


def _STALE(rng: random.Random) -> list[Planted]:  # noqa: N802
    pool, number = rng.choice(_POOLS), rng.randrange(10_000)
    text = f"Incident {number}: the {pool} front end was slow for {rng.randrange(2, 50)} minutes"
    if rng.random() < 0.5:
        return [
            Planted(Keeping(content=text, importance=rng.choice((0.05, 0.1, 0.2))), rng.randrange(90, 300), "stale")
        ]
    days = rng.randrange(15, 60)
    asked = Keeping(content=f"Promotion {number} on {pool} runs until the end of the week")
    return [Planted(asked, days, "stale", over=days - 5)]


def _others(stock: Iterator[Fact], rng: random.Random) -> Iterator[list[Planted]]:
    """What is to be left alone; much of it looks as if it were not."""
    number = 0
    user = Source(kind="user")
    while True:
        number += 1
        person, mate = (f"{first} {rng.choice(_LAST)}" for first in rng.sample(_FIRST, 2))
        pool, days = rng.choice(_POOLS), rng.randrange(1, 28)
        amount = f"{number}.{rng.randrange(10)}"
        yield [
            _other(f"{person} likes {_THINGS[number % 10]} and {_FOODS[number % 8]} ({number})", days),
            _other(f"Ticket {number}: {person} asked about withdrawals from {pool}", days),
            _other(f"{person} {rng.choice(_VERBS)} {amount} ETH through {pool}", days, type=MemoryType.EPISODE),
            _other(f"Transfer {number} went from {person} to {mate}", days),
            _other(f"Transfer {number} went from {mate} to {person}", days),
            _other(f"Rebalancing {pool} in week {number} gained {amount}% over holding",
                   days, type=MemoryType.STRATEGY_OUTCOME),
            _other(f"Never sign permits for contract {number:05} on {pool}", 200, type=MemoryType.CONSTRAINT, low=True),
            _other(f"Runbook {number} matters when {pool} halts", 200, importance=0.9),
            _other(f"Old hint {number} about {pool} that is still read", 150, low=True, used=3),
            _other(f"{person} told us the story of boat {number}", 200, low=True, source=user),
        ]  # fmt: skip
        fact = next(stock, None)
        if fact is not None:
            yield [_other(fact.ways[0].format(rng.choice(fact.values)), days, type=fact.type)]
        fact = next(stock, None)
        if fact is not None and number % 3 == 0:  # what a tool says does not outdo what the user said
            one, other = rng.sample(fact.values, 2)
            yield [
                _other(fact.ways[0].format(one), 20, type=fact.type, source=user),
                _other(fact.ways[-1].format(other), 2, type=fact.type, source=Source(kind="tool")),
            ]


def _other(
    content: str,
    days: int,
    *,
    type: MemoryType = MemoryType.FACT,  # noqa: A002
    importance: float = 0.5,
    low: bool = False,
    used: int = 0,
    source: Source = Source(),  # noqa: B008
) -> Planted:
    asked = Keeping(content=content, memory_type=type, importance=0.1 if low else importance, source=source)
    return Planted(asked, days, "other", used=used)


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
    memories = worded(given.wordings) if given.wordings else planted(given.count, given.seed)
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
