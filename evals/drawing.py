"""Memories with planted faults, drawn at random.

One in five of them is a duplicate in other words, a statement that a later one makes untrue, or a stale fact. The rest
is made to look planted, as far as that goes: the same sentence about somebody else, another thing that somebody likes,
the same deed on another day, old notes that are of use or that matter, and contradictions from a source that is trusted
less.
"""

import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from perdure.core.memory.parts import MemoryType, Source
from perdure.core.memory.requests import Keeping

COUNT, SHARE = 5_000, 0.2
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


def drawn(count: int, seed: int) -> list[Planted]:
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
