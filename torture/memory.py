"""`python -m torture.memory`: a process that keeps, consolidates and undoes is killed at random moments.

After each kill the next one resumes what was left open. After all kills: every memory that was acknowledged is there,
once; no step of a run was taken twice, and what a run says it found is what it did; every run came to its end; and what
was undone stands exactly as it stood before.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from perdure.compose import Services, embedded
from perdure.compose.memory import MemorySettings
from perdure.core.errors import NotFound
from perdure.core.memory.cadence import OPEN
from perdure.core.memory.parts import Memory, Status, vault
from perdure.core.memory.requests import Keeping
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.stepping import UNDONE
from perdure.core.session.event import Event
from perdure.core.session.memories import MemoryChanged, MemoryMoved, MemoryRun
from perdure.services.consolidating import Consolidating
from torture.process import environment

KILLS, QUICK_KILLS, MINUTES = 50, 4, 20.0
SPACE = vault("tortured")
EACH = 24
"""Memories kept at once."""
SMALL = 2
"""Steps of one append: few, so that kills fall between them."""
_NAMES = "Ana Bruno Chloe Dario Elif Farid Greta Hugo Ines Jonas Kaya Luca Mira Nadia Oscar Petra".split()
_CITIES = "Berlin Lisbon Oslo Madrid Vienna Prague Dublin Athens Riga Porto".split()


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told: go on with this batch; `settle` only ends what is open."""

    store: str
    batch: int
    seed: int
    settle: bool = False


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker acknowledges: a batch with its ids, a run that ended, or one that was undone."""

    batch: int = -1
    ids: tuple[str, ...] = ()
    ended: str = ""
    undone: str = ""


def batch_of(number: int) -> list[Keeping]:
    """What is kept as one batch: always the same, full of what can be merged, outdone and archived."""
    rng = random.Random(number)
    found = []
    for place in range(EACH):
        name = f"{rng.choice(_NAMES)} {rng.choice('ABCDEFGHJKLM')}{number % 7}"
        text = rng.choice(
            (
                f"{name} lives in {rng.choice(_CITIES)}",
                f"{name} is based in {rng.choice(_CITIES)}, as mentioned before",
                f"The APY of vault {name} is {rng.randrange(1, 9)}%",
                f"APY of vault {name}: {rng.randrange(1, 9)} percent",
                f"Offer {number}-{place} is over",
            )
        )
        over = 1_000_000 if text.startswith("Offer") else None
        found.append(Keeping(content=text, metadata={"n": number, "k": place}, valid_to=over))
    return found


# ── the worker ──


def opened(store: str) -> Services:
    """The services over the store; words alone are enough here."""
    return embedded(store, memory=MemorySettings(embedder="none"))


async def work(errand: Errand) -> None:
    """Keep, consolidate and undo until killed, and say what was done."""
    services = opened(errand.store)
    consolidating = Consolidating(services.memories, batch=SMALL)
    rng = random.Random(errand.seed)
    print("ready", flush=True)
    if not errand.settle:
        number = errand.batch
        while True:
            kept = await services.memories.keep(SPACE, batch_of(number), key=f"batch-{number}")
            _say(Told(batch=number, ids=tuple(memory.id for memory in kept)))
            run = await consolidating.run(SPACE)
            _say(Told(ended=run.id))
            if rng.random() < 0.5:
                await consolidating.undo(SPACE, run.id)
                _say(Told(undone=run.id))
            number += 1
    for run in await consolidating.runs(SPACE):
        if run.phase == "undoing":
            await consolidating.undo(SPACE, run.id)
    run = await consolidating.run(SPACE)
    _say(Told(ended=run.id))
    await services.store.close()


def _say(told: Told) -> None:
    print(msgspec.json.encode(told).decode(), flush=True)


# ── the siege ──


class Siege:
    """A store, whoever works in it, and what they acknowledged."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.store = str(folder / "memory.db")
        self.rng = random.Random(seed)
        self.told: list[Told] = []
        self.problems: list[str] = []
        self.kills = 0
        self.broken = 0
        """Kills that left a run open: without any, nothing was shown."""

    def strike(self) -> None:
        """Let a worker begin, and kill it."""
        batch = max((told.batch for told in self.told), default=-1) + 1
        errand = Errand(store=self.store, batch=batch, seed=self.rng.getrandbits(32))
        with self._worker(errand) as worker:
            assert worker.stdout is not None
            first = worker.stdout.readline()
            if b"ready" not in first:
                self.problems.append(f"a worker did not begin: {first!r}")
            else:
                time.sleep(self.rng.uniform(0.02, 1.2))
            worker.kill()
            lines = [line for line in worker.stdout if line.endswith(b"\n")]
        if worker.returncode != -9:
            self.problems.append(f"a worker ended by itself: exit code {worker.returncode}")
        self.told += [msgspec.json.decode(line, type=Told) for line in lines]
        self.kills += 1
        shelf = asyncio.run(self._looked())[0]
        self.broken += any(run.phase in OPEN for run in shelf.runs.values())

    def settle(self) -> None:
        """End what is open."""
        with self._worker(Errand(store=self.store, batch=0, seed=0, settle=True)) as worker:
            assert worker.stdout is not None
            worker.stdout.read()
        if worker.returncode:
            self.problems.append(f"what was open could not be ended: exit code {worker.returncode}")

    def _worker(self, errand: Errand) -> "subprocess.Popen[bytes]":
        told = msgspec.json.encode(errand).decode()
        command = [sys.executable, "-W", "ignore", "-m", "torture.memory", "--work", told]
        return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())

    async def _looked(self) -> tuple[Shelf, list[Event]]:
        services = opened(self.store)
        try:
            known = await services.memories.shelves.look(SPACE)
            log = services.sessions.log
            try:
                return known.shelf, await log.events(await log.head(known.session))
            except NotFound:
                return known.shelf, []
        finally:
            await services.store.close()

    # ── judging ──

    def judge(self) -> None:
        """Look for what is lost, doubled, left open or not restored."""
        shelf, events = asyncio.run(self._looked())
        self._judge_kept(shelf)
        self._judge_runs(shelf, events)
        self._judge_undone(events)
        if not self.broken:
            self.problems.append("no kill left a run open: nothing was shown; kill more often")

    def _judge_kept(self, shelf: Shelf) -> None:
        for told in self.told:
            if lost := [id for id in told.ids if id not in shelf.memories]:
                self.problems.append(f"batch {told.batch}: acknowledged and lost: {lost[:5]}")
        places = Counter((memory.metadata["n"], memory.metadata["k"]) for memory in shelf)
        if doubled := [place for place, count in places.items() if count > 1]:
            self.problems.append(f"kept twice: {doubled[:5]}")
        for number in {number for number, _ in places}:
            asked = batch_of(number)
            found = {memory.metadata["k"]: memory.content for memory in shelf if memory.metadata["n"] == number}
            if found != {place: one.content for place, one in enumerate(asked)}:
                self.problems.append(f"batch {number} is not there whole, as it was kept")
        for memory in shelf:
            if memory.status is Status.SUPERSEDED and memory.superseded_by not in shelf.memories:
                self.problems.append(f"{memory.id} gave way to nobody")

    def _judge_runs(self, shelf: Shelf, events: list[Event]) -> None:
        for run in shelf.runs.values():
            if run.phase not in ("ended", "undone"):
                self.problems.append(f"run {run.id} did not end: {run.phase}")
            moved = Counter(_steps(events, run.id))
            if twice := [id for id, count in moved.items() if count > 1]:
                self.problems.append(f"run {run.id} took a step twice: {twice[:5]}")
            if moved.total() != sum(run.found.values()):
                self.problems.append(f"run {run.id} did {moved.total()} steps and says {run.found}")
        for told in self.told:
            for id in filter(None, (told.ended, told.undone)):
                if id not in shelf.runs or (told.undone and shelf.runs[id].phase != "undone"):
                    self.problems.append(f"run {id} is not as it was acknowledged")

    def _judge_undone(self, events: list[Event]) -> None:
        """Replay: what is there when a run is undone is what was there when it began, and what was kept since."""
        shelf, stood = Shelf(), dict[str, dict[str, Memory]]()
        for event in events:
            data = event.data
            if isinstance(data, MemoryRun) and data.phase == "began":
                stood[data.id] = dict(shelf.memories)
            shelf.take((event,))
            if isinstance(data, MemoryRun) and data.phase == "undone":
                wrong = [id for id, memory in stood[data.id].items() if shelf.memories.get(id) != memory]
                if wrong:
                    self.problems.append(f"undoing run {data.id} did not restore {wrong[:5]}")


def _steps(events: list[Event], run: str) -> list[str]:
    """The memories that a run moved or ranked, once for each step."""
    found = []
    for event in events:
        data: Any = event.data
        if isinstance(data, MemoryMoved | MemoryChanged) and data.run == run and data.reason != UNDONE:
            if isinstance(data, MemoryMoved):
                found.append(data.id)
            elif data.reason.startswith("found "):
                found.append(f"rank {data.id}")
    return found


def besiege(kills: int, seed: int, minutes: float = MINUTES) -> Siege:
    """So many kills, or as many as fit into the time, and the judgment."""
    with tempfile.TemporaryDirectory(prefix="perdure-memory-") as folder:
        siege = Siege(Path(folder), seed)
        until = time.monotonic() + 60 * minutes
        while siege.kills < kills and time.monotonic() < until:
            siege.strike()
        siege.settle()
        siege.judge()
    return siege


def main() -> int:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m torture.memory", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(30))
    parser.add_argument("--minutes", type=float, default=MINUTES, help="the longest it may take")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        asyncio.run(work(msgspec.json.decode(given.work, type=Errand)))
        return 0
    began = time.monotonic()
    siege = besiege(given.kills, given.seed, given.minutes)
    for problem in siege.problems[:20]:
        print(f"FOUND: {problem}", file=sys.stderr)
    kept = sum(len(told.ids) for told in siege.told)
    undone = sum(bool(told.undone) for told in siege.told)
    told = f"{len(siege.problems)} problems" if siege.problems else "nothing lost, nothing doubled, undone exactly"
    print(
        f"{told} after {siege.kills} kills, {siege.broken} of them within a run; {kept} memories and {undone} undone "
        f"runs acknowledged, in {time.monotonic() - began:.0f} s (seed {given.seed})"
    )
    return 1 if siege.problems else 0


if __name__ == "__main__":
    sys.exit(main())
