"""Memory at size: finding among 50,000 memories of one agent and a million of 2,000 agents, the first look, storing.

`python -m bench.memory [--quick] [--only file|server] [--embedder wordllama] [--write-docs]`. One core, a sealed store,
the service as an edge calls it, without HTTP; queries are embedded within the time that is measured. `--quick` takes a
twentieth of the sizes. The same on a PostgreSQL server, started and ended here, may take twice as long.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.compose.wiring import Services
    from perdure.services.memories import Memories

ONE_AGENT = 50_000
AGENTS, EACH = 2_000, 500
COLD = 5_000
BATCH = 500
QUERIES = 400

PROSE = """# Memory at size

`{how}`, on {machine} Written by the command, not by hand. `python -m bench.memory --help` says what else it can do.

Made-up sentences of 8 to 22 words in a sealed store, embedded by `{embedder}`; the service as an edge calls it, without
HTTP, one process on one core, embedding the query within the time. "One agent" has {one:,} memories, "many agents" are
{agents:,} with {each} each, asked in any order, with the `room` that is given if nobody says. With less room, what was
not used for longest is made anew from its log: the "cold agent's first query", here of {cold:,}. PostgreSQL, a server
on the same machine, may take twice as long.

"""
TARGETS = {
    "stored/s, in batches": ("≥", 1_000),
    "one agent, p50 ms": ("≤", 15),
    "one agent, p99 ms": ("≤", 50),
    "many agents, p50 ms": ("≤", 10),
    "cold agent's first query, ms": ("≤", 300),
}


class Talker:
    """Sentences of invented words, as often used as words are, with names and numbers; the same for the same seed."""

    def __init__(self, seed: int, words: int = 12_000) -> None:
        self._chance = random.Random(seed)
        letters = ["ba", "ke", "li", "mo", "nu", "ra", "si", "to", "ve", "zu", "pen", "tor", "mar", "lin", "dos"]
        made: dict[str, None] = {}
        while len(made) < words:
            made["".join(self._chance.choices(letters, k=self._chance.randint(1, 4)))] = None
        self._words = list(made)
        self._often = [1 / (rank + 3) for rank in range(words)]
        self._pool: list[str] = []

    def sentence(self, least: int = 8, most: int = 22) -> str:
        """One more."""
        if len(self._pool) < most:
            self._pool = self._chance.choices(self._words, self._often, k=20_000)
        said = [self._pool.pop() for _ in range(self._chance.randint(least, most))]
        said[0] = said[0].capitalize()
        if self._chance.random() < 0.3:
            said.append(f"{self._chance.random() * 100:.1f} %")
        return " ".join(said) + "."

    def query(self) -> str:
        """A question."""
        return f"What about {self.sentence(3, 8)[:-1]}?"


@contextmanager
def opened(place: str, folder: Path, embedder: str) -> Iterator[Services]:
    """The services over a sealed store."""
    from perdure.compose.memory import MemorySettings
    from perdure.compose.wiring import embedded
    from perdure.sealing.given import Given
    from perdure.waiting import drive

    services = embedded(place, keys=Given(True, str(folder / "master"), str(folder / "vault")))
    services.memory = MemorySettings(embedder=embedder)
    try:
        yield services
    finally:
        drive(services.store.close())


def store(memories: Memories, agent: str, count: int, talker: Talker) -> float:
    """Seconds that it takes to keep so many memories of an agent; making them up is not counted."""
    from perdure.core.memory.parts import vault
    from perdure.core.memory.requests import Keeping
    from perdure.waiting import drive

    took = 0.0
    for start in range(0, count, BATCH):
        batch = [Keeping(content=talker.sentence()) for _ in range(min(BATCH, count - start))]
        began = time.perf_counter()
        drive(memories.keep(vault(agent), batch))
        took += time.perf_counter() - began
    return took


def ask(memories: Memories, agent: str, query: str) -> tuple[float, float]:
    """Milliseconds of one search, by the clock and of the processor: on a busy machine these differ."""
    from perdure.core.memory.parts import vault
    from perdure.core.memory.requests import Seeking
    from perdure.waiting import drive

    began, used = time.perf_counter(), time.process_time()
    found = drive(memories.search(vault(agent), Seeking(query=query)))
    took, used = time.perf_counter() - began, time.process_time() - used
    if len(found) != 10:
        raise SystemExit(f"{len(found)} memories were found, not 10")
    return took * 1e3, used * 1e3


def measured(place: str, folder: Path, embedder: str, scale: float, told: Callable[[str], None]) -> dict[str, float]:
    """Every figure, once."""
    one, agents, cold = max(BATCH, round(ONE_AGENT * scale)), max(5, round(AGENTS * scale)), COLD
    talker, found = Talker(7), dict[str, float]()
    with opened(place, folder, embedder) as services:
        memories = services.memories
        store(memories, "first", 20, talker)
        ask(memories, "first", talker.query())  # the weights are loaded
        used = time.process_time()
        took = store(memories, "one", one, talker)
        found["stored/s, in batches"] = one / took
        found["storing one, CPU µs with its making"] = (time.process_time() - used) / one * 1e6
        told(f"{one:,} memories of one agent")
        found |= _spread("one agent", [ask(memories, "one", talker.query()) for _ in range(QUERIES)])
        store(memories, "cold", cold, talker)
        firsts = []
        for _ in range(5):
            memories.shelves.forget()
            firsts.append(ask(memories, "cold", talker.query()))
        found["cold agent's first query, ms"] = statistics.median(took for took, _ in firsts)
        found["cold agent's first query, CPU ms"] = statistics.median(used for _, used in firsts)
        memories.shelves.forget()
        for number in range(agents):
            store(memories, f"agent {number}", EACH, talker)
        told(f"{agents * EACH:,} memories of {agents:,} agents")
        whose = random.Random(11)
        found |= _spread(
            "many agents",
            [ask(memories, f"agent {whose.randrange(agents)}", talker.query()) for _ in range(QUERIES)],
        )
        found["many agents, MB at hand"] = sum(each.measured() for each in memories.shelves._known.values()) / 1e6
    return found


def _spread(what: str, times: list[tuple[float, float]]) -> dict[str, float]:
    by_clock = sorted(took for took, _ in times)
    return {
        f"{what}, p50 ms": statistics.median(by_clock),
        f"{what}, p99 ms": by_clock[int(len(by_clock) * 0.99)],
        f"{what}, CPU p50 ms": statistics.median(used for _, used in times),
    }


def profiled(place: str, folder: Path, embedder: str, count: int) -> None:
    """Print where the time goes: of storing, of searching, of reading a log anew."""
    import cProfile
    import pstats

    talker = Talker(7)
    with opened(place, folder, embedder) as services:
        memories = services.memories
        store(memories, "first", 20, talker)
        ask(memories, "first", talker.query())

        def search() -> None:
            for _ in range(100):
                ask(memories, "one", talker.query())

        def cold() -> None:
            memories.shelves.forget()
            ask(memories, "one", talker.query())

        for name, work in (
            ("storing", lambda: store(memories, "one", count, talker)),
            ("search", search),
            ("cold", cold),
        ):
            profile = cProfile.Profile()
            profile.runcall(work)
            print(f"\n## {name}")
            pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(18)


def main() -> None:
    from bench.http import shown
    from bench.postgres import available, database, server

    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the sizes")
    parser.add_argument("--scale", type=float, help="this share of the sizes")
    parser.add_argument("--only", choices=("file", "server"))
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument(
        "--write-docs", nargs="?", const="docs/BENCHMARKS-MEMORY.md", metavar="PATH", help="write %(const)s or PATH"
    )
    parser.add_argument("--profile", type=int, metavar="COUNT", help="show where the time goes, with so many memories")
    given = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if hasattr(os, "sched_setaffinity") and given.only != "server":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    scale = given.scale or (0.05 if given.quick else 1.0)
    figures: dict[str, list[float]] = {}
    targets: dict[str, tuple[str, float]] = {}

    def told(text: str) -> None:
        print(text, flush=True)

    def run(where: str, slower: float, place: str, folder: Path) -> None:
        for name, value in measured(place, folder, given.embedder, scale, told).items():
            spelled = f"{where}: {name}"
            figures.setdefault(spelled, []).append(value)
            if name in TARGETS:
                sign, bound = TARGETS[name]
                targets[spelled] = (sign, bound * slower if sign == "≤" else bound / slower)

    for number in range(given.repetitions):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if given.profile:
                profiled(str(folder / "store.db"), folder, given.embedder, given.profile)
                return
            if given.only != "server":
                run("file", 1, str(folder / "store.db"), folder)
            if given.only != "file" and available():
                (folder / "pg").mkdir()
                with server(folder / "pg"):
                    run("PostgreSQL", 2, database(f"memory{number}"), _made(folder / "keys"))
    table = shown(figures, targets)
    print("\n" + table)
    if given.write_docs:
        words = PROSE.format(
            how="python -m bench.memory",
            machine=f"{os.cpu_count()} cores.",
            embedder=given.embedder,
            one=round(ONE_AGENT * scale),
            agents=round(AGENTS * scale),
            each=EACH,
            cold=COLD,
        )
        Path(given.write_docs).write_text(words + table)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
