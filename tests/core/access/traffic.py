"""Seeded traffic of sessions: how agents, people and jobs really ask, and how somebody asks who has taken one over."""

from collections.abc import Callable, Iterator
from itertools import count, islice
from math import log
from random import Random

from perdure.core.access.anomaly import Sight

Traffic = Iterator[Sight]
NOW = 1_700_000_000_000_000
SECOND = 1_000_000
OFFICE = "203.0.113.7"


def us(seconds: float) -> int:
    return max(1, int(seconds * SECOND))


def about(chance: Random, middle: float, spread: float) -> float:
    """Log-normal around a median."""
    return chance.lognormvariate(log(middle), spread)


def bytes_about(chance: Random, middle: float, spread: float) -> int:
    return int(min(about(chance, middle, spread), 16_000_000))


def steady_agent(chance: Random) -> Traffic:
    """A loop of one agent: turn, appends, state, now and then a retry, a checkpoint, a few tools called at once."""
    at = NOW
    for turn in count(1):
        for operation, size in (
            ("turns.start", 200),
            ("turns.append", 2_000),
            ("state.patch", 600),
            ("turns.end", 150),
        ):
            at += us(about(chance, 2, 0.4))
            yield Sight(at, operation, bytes_about(chance, size, 0.5), OFFICE)
            if chance.random() < 0.01:  # the answer was lost, and it asks again
                at += us(0.2)
                yield Sight(at, operation, bytes_about(chance, size, 0.5), OFFICE)
        if turn % 25 == 0:
            at += us(0.5)
            yield Sight(at, "checkpoints.create", 80, OFFICE)
        if chance.random() < 0.02:
            for _ in range(chance.randint(2, 6)):
                at += us(0.003)
                yield Sight(at, "turns.append", bytes_about(chance, 4_000, 1.0), OFFICE)


def bursty_human(chance: Random) -> Traffic:
    """A person at a console: a page loads many things at once, then is read a while; now and then lunch, or a night."""
    at = NOW
    while True:
        away = chance.random()
        at += us(
            about(chance, 30_000, 0.5)
            if away < 0.01
            else about(chance, 1200, 1)
            if away < 0.05
            else about(chance, 15, 1)
        )
        for operation in chance.choices(PAGES, (8, 4, 1, 1))[0]:
            at += us(about(chance, 0.04, 1))
            yield Sight(at, operation, 0, OFFICE)
        if chance.random() < 0.4:
            at += us(about(chance, 8, 0.8))
            yield Sight(at, "turns.append", bytes_about(chance, 300, 1.3), OFFICE)
        if chance.random() < 0.01:
            at += us(about(chance, 5, 0.8))
            yield Sight(at, "sessions.export", 0, OFFICE)


PAGES = (
    ("sessions.get", "turns.list", "state.get", "scratchpad.get"),
    ("sessions.list", "sessions.get"),
    ("log.read", "log.read", "log.read", "audit.read"),
    ("checkpoints.list", "state.diff", "state.get"),
)


def batch_job(chance: Random) -> Traffic:
    """Nothing for hours, then hundreds of requests as fast as they are answered; no two runs of the same length."""
    at = NOW
    while True:
        at += us(about(chance, 14_400, 0.7))
        for step in range(int(about(chance, 300, 0.8))):
            at += us(about(chance, 0.012, 0.6))
            yield Sight(at, "turns.append" if step % 10 else "sessions.find", bytes_about(chance, 5_000, 1), OFFICE)
        at += us(1)
        yield Sight(at, "sessions.export", 50, OFFICE)


def long_pauses(chance: Random) -> Traffic:
    """A conversation that is taken up again after minutes, days or weeks."""
    at = NOW
    while True:
        at += us(about(chance, 600, 2.5))
        for operation in ("turns.list", "turns.append", "turns.list"):
            at += us(about(chance, 3, 1.2))
            yield Sight(at, operation, bytes_about(chance, 500, 1) if operation == "turns.append" else 0, OFFICE)


def growing_payloads(chance: Random) -> Traffic:
    """An agent whose context grows from turn to turn, is compacted, and grows again; some messages are pasted."""
    at = NOW
    while True:
        context = about(chance, 2_000, 0.5)
        for _ in range(chance.randint(40, 160)):
            context *= 1 + chance.random() * 0.06
            at += us(about(chance, 6, 0.7))
            pasted = chance.paretovariate(1.1) if chance.random() < 0.02 else 1
            yield Sight(at, "turns.append", int(min(16e6, context * pasted)), OFFICE)
            at += us(about(chance, 1, 0.5))
            yield Sight(at, "state.get", 0, OFFICE)


def mixed_operations(chance: Random) -> Traffic:
    """Phases of work with different operations, a weekly routine of rare ones, and files among the small things."""
    at, work = NOW, list(PHASES)
    while True:
        names, weights = chance.choice(work)
        for _ in range(chance.randint(30, 200)):
            at += us(about(chance, 3, 1))
            operation = chance.choices(names, weights)[0]
            size = {"blobs.put": 400_000, "turns.append": 1_500, "state.patch": 500}.get(operation, 0)
            yield Sight(at, operation, bytes_about(chance, size, 1.2) if size else 0, OFFICE)
        if chance.random() < 0.15:
            for operation in (
                "checkpoints.create",
                "sessions.branch",
                "sessions.export",
                "checkpoints.pin",
                "log.verify",
            ):
                at += us(about(chance, 2, 0.5))
                yield Sight(at, operation, 100, OFFICE)


PHASES = (
    (("turns.append", "state.patch", "turns.list"), (5, 3, 2)),
    (("sessions.list", "turns.list", "log.read", "state.get"), (2, 5, 3, 3)),
    (("blobs.put", "turns.append", "blobs.get"), (2, 2, 1)),
    (("scratchpad.patch", "scratchpad.get", "state.get", "checkpoints.create"), (6, 4, 2, 0.3)),
)


def on_the_move(chance: Random) -> Traffic:
    """A person with a telephone: home, office, and whatever network the train finds."""
    at, homes = NOW, ("198.51.100.20", "203.0.113.7", "2001:db8:1:2::17")
    while True:
        address = (
            chance.choice(homes)
            if chance.random() < 0.7
            else f"100.{chance.randint(64, 99)}.{chance.randint(0, 255)}.9"
        )
        for _ in range(chance.randint(5, 80)):
            at += us(about(chance, 10, 1.3))
            operation = chance.choices(("turns.list", "turns.append", "sessions.list", "state.get"), (5, 4, 1, 1))[0]
            yield Sight(at, operation, bytes_about(chance, 250, 1.2) if operation == "turns.append" else 0, address)


def many_hands(chance: Random) -> Traffic:
    """One session on several surfaces at once, their requests interleaved: a person and two agents."""
    sources = [steady_agent(Random(chance.random())), growing_payloads(Random(chance.random())), bursty_human(chance)]
    waiting = [next(source) for source in sources]
    while True:
        first = min(range(len(sources)), key=lambda each: waiting[each].at)
        yield waiting[first]
        waiting[first] = next(sources[first])


STYLES: dict[str, Callable[[Random], Traffic]] = {
    made.__name__: made
    for made in (
        steady_agent,
        bursty_human,
        batch_job,
        long_pauses,
        growing_payloads,
        mixed_operations,
        on_the_move,
        many_hands,
    )
}


def new_place(chance: Random, at: int) -> Traffic:
    """From another network, at a person's pace: looks around, reads what there is, and takes it along."""
    names = (
        "sessions.list",
        "audit.read",
        "keys.list",
        "principals.list",
        "sessions.export",
        "tokens.issue",
        "blobs.list",
    )
    for operation in chance.sample(names, len(names)) * 3:
        at += us(about(chance, 4, 0.8))
        yield Sight(at, operation, 0, "192.0.2.66")


def bulk_export(chance: Random, at: int) -> Traffic:
    """From the same network, as fast as it goes: everything is exported and read."""
    for step in count():
        at += us(about(chance, 0.004, 0.3))
        yield Sight(at, "sessions.export" if step % 2 else "log.read", 0, OFFICE)


def bulk_read(chance: Random, at: int) -> Traffic:
    """As fast as it goes, with nothing but an operation that the session knows well."""
    while True:
        at += us(about(chance, 0.002, 0.3))
        yield Sight(at, "turns.list", 0, OFFICE)


def huge_payloads(chance: Random, at: int) -> Traffic:
    """At the usual pace and with the usual operation, but thousands of times as large."""
    while True:
        at += us(about(chance, 10, 0.5))
        yield Sight(at, "turns.append", bytes_about(chance, 12_000_000, 0.2), OFFICE)


def first(traffic: Traffic, most: int) -> list[Sight]:
    return list(islice(traffic, most))
