"""The run: stores one after the other, rounds from the seed, until enough has been killed or the time is over.

Invariant: the order of rounds, the modes of workers and the blows are a function of the seed; what processes do
between two system calls is not, so a replay tells the same story with other pauses.
"""

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from perdure import PerdureError
from torture.arena import Arena, Decks
from torture.blows import FAULTS, KILLS, STRACE
from torture.duel import fight
from torture.powercut import strike
from torture.sealing import sealing
from torture.tally import Tally

PLANTS = ("early-ack", "double-apply", "no-sync")
INSISTENCE = 6
"""How often a blow that never fell is tried on its own before the run gives up on it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. `kills` None: as many as fit into `minutes`. A `complete` run must have seen every kind of blow."""

    seed: int
    kills: int | None = 300
    minutes: float = 30.0
    quick: bool = False
    plant: str | None = None
    complete: bool = True
    keep: bool = False
    sealed: bool = True


def run(options: Options, say: Callable[[str], None]) -> Tally:
    """Torture until done; the tally says how it went. Needs strace."""
    tally = Tally()
    if STRACE is None:
        tally.problems.append("strace is missing, and with it most ways to die; install it and run again")
        return tally
    rng = random.Random(options.seed)
    base = Path(tempfile.mkdtemp(prefix="perdure-torture-"))
    decks = Decks(rng)
    number = 0
    try:
        with sealing(options.sealed):
            while not _done(options, tally):
                number += 1
                arena = Arena(base / f"a{number}", f"a{number}", rng, decks, tally, options.plant)
                _one_store(arena, options, tally, say)
            if options.complete and not tally.problems and options.plant is None:
                _insist(base, rng, decks, tally)
    finally:
        if tally.problems and options.keep:
            say(f"the stores are kept in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    judge(options, tally)
    return tally


def _done(options: Options, tally: Tally) -> bool:
    enough = options.kills is not None and tally.killed >= options.kills
    return bool(tally.problems) or enough or tally.seconds > options.minutes * 60


def _one_store(arena: Arena, options: Options, tally: Tally, say: Callable[[str], None]) -> None:
    """A store from its birth to its last check."""
    rng = arena.rng
    arena.birth()
    rounds = 3 if options.quick else 8
    for index in range(rounds):
        if _done(options, tally):
            break
        arena.crowd(rng.randint(2, 3))
        if rng.random() < 0.6:
            arena.again()
        if index % 2:
            arena.alone()
        if index % 3 == 0:
            arena.fault()
        arena.check()
        say(tally.progress(f"{arena.name}, round {index + 1}"))
    if options.complete and options.plant in (None, "no-sync") and not tally.problems:
        _duel_and_cut(arena, options, tally)
    arena.check(everything=True)
    arena.close()


def _duel_and_cut(arena: Arena, options: Options, tally: Tally) -> None:
    """Two writers on one session, and power cuts of a recorded run."""
    duels, cuts = (40, 12) if options.quick else (120, 30)
    try:
        tally.problems += fight(arena.folder / "duel.db", duels)
    except PerdureError as error:
        tally.problems.append(f"a duel did not begin or end: {error!r}")
    tally.duels += 1
    for failing in (False, True):
        tally.problems += strike(arena.rng.randrange(10**6), cuts, options.plant, failing=failing)
        tally.cuts += cuts


def _insist(base: Path, rng: random.Random, decks: Decks, tally: Tally) -> None:
    """Try every blow that never fell on stores of its own, with nothing else going on."""
    for blow in (*KILLS, *FAULTS):
        for attempt in range(INSISTENCE):
            if tally.problems or blow.kind not in tally.silent():
                break
            name = f"last{len(tally.recoveries)}.{attempt}"
            arena = Arena(base / name, name, rng, decks, tally, None)
            arena.insist(blow)
            arena.check(everything=True)
            arena.close()


def judge(options: Options, tally: Tally) -> None:
    """A run that did not do what it was asked to is a failed run, whatever it found."""
    if options.plant is not None or tally.problems:
        return
    if options.kills is not None and tally.killed < options.kills:
        tally.problems.append(f"{tally.killed} of {options.kills} kills in {options.minutes:g} minutes")
    if options.complete:
        tally.problems += [f"never happened: {kind}" for kind in tally.silent()]
