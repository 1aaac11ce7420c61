"""`python -m torture.postgres`: PostgreSQL dies at once, again and again, and so do its clients. Nothing may be lost.

Each round has several processes at work on one database. One of them is killed at a moment that comes from the seed,
while the server is killed (`-m immediate`) and started again under all of them; whoever lives on reconnects by itself.
After every round a fresh process proves the promise, as for SQLite.
"""

import argparse
import base64
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.testing.postgres import Server, running
from torture.arena import MODES
from torture.blows import MOMENT, drawn
from torture.checker import Verdict
from torture.line import Line, Task
from torture.process import CheckerFailed, Hand, run_checker

CRASHES, KILLS, QUICK_CRASHES, QUICK_KILLS = 50, 100, 3, 6
WORKERS = 3
SHARED = 3


class Siege:
    """One database under torture."""

    def __init__(self, server: Server, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.server = server
        self.store = server.database()
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"
        self.ledger.touch()
        self.problems: list[str] = []
        self.crashes = self.kills = self.acked = self.round = 0
        self._shared: list[str] = []
        self._orphans: list[str] = []

    def turn(self, *, crash: bool) -> None:
        """One round: processes at work, one of them killed, the server crashed under all if asked."""
        self.round += 1
        hands = [self._hand(number) for number in range(WORKERS)]
        if crash:
            crasher = threading.Thread(target=self._crash)
            crasher.start()
            crasher.join()
        for hand in hands:
            hand.wait()
        for hand in hands:
            self.kills += hand.blow is not None and hand.hit
            self.problems += [complaint] if (complaint := hand.complaint()) else []
            self._keep(hand.lines)
            made = [line.session for line in hand.lines if line.do == "mark" and line.op == "create"]
            self._orphans += [*hand.task.own, *made]
        self.check()

    def _hand(self, number: int) -> Hand:
        mode, lanes = self.rng.choice(MODES)
        own = self._orphans[:1]
        self._orphans = self._orphans[1:]
        task = Task(
            name=f"p{self.round}w{number}",
            store=self.store,
            seed=f"{self.rng.random()}",
            mode=mode,
            lanes=lanes,
            steps=self.rng.randint(20, 60) // lanes + 5,
            shared=tuple(self._shared),
            own=tuple(own),
        )
        blow = MOMENT if number < WORKERS - 1 else None
        return Hand(task, self.folder, blow, drawn(MOMENT, self.rng) if blow else 0)

    def _crash(self) -> None:
        time.sleep(self.rng.uniform(0.3, 1.5))
        self.server.crash()
        self.crashes += 1

    def _keep(self, lines: Sequence[Line]) -> None:
        with self.ledger.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def check(self, *more: str) -> None:
        """A fresh process looks at everything."""
        try:
            found = run_checker(self.store, self.ledger, "--shared", str(SHARED), *more)
        except CheckerFailed as failure:
            self.problems.append(f"round {self.round}: the checker failed: {failure}")
            return
        verdict = msgspec.json.decode(found, type=Verdict)
        self.problems += [f"round {self.round}: {problem}" for problem in verdict.problems]
        self.acked = verdict.acked
        self._shared = verdict.shared or self._shared
        self._keep(verdict.lines)


@contextmanager
def keys(folder: str, sealed: bool) -> Iterator[None]:
    """A master key and a vault for everyone in this process and below, if wanted."""
    if not sealed:
        yield
        return
    given = {"PERDURE_MASTER_KEY": base64.b64encode(os.urandom(32)).decode(), "PERDURE_VAULT": f"{folder}/vault"}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]


def besiege(crashes: int, kills: int, seed: int, minutes: float, *, sealed: bool = False) -> Siege:
    """Rounds until the server has crashed and clients have died so often, or something was found."""
    ends = time.monotonic() + minutes * 60
    with (
        running() as server,
        tempfile.TemporaryDirectory(prefix="perdure-siege-") as folder,
        keys(folder, sealed),
    ):
        siege = Siege(server, Path(folder), seed)
        siege.check()
        while (siege.crashes < crashes or siege.kills < kills) and not siege.problems and time.monotonic() < ends:
            siege.turn(crash=siege.crashes < crashes)
            print(
                f"{siege.round:4} rounds  {siege.crashes:3} crashes  {siege.kills:3} kills  "
                f"{siege.acked:6} acknowledged  {len(siege.problems)} problems",
                flush=True,
            )
        siege.check("--all")
    return siege


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torture.postgres", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay the schedule of an earlier run")
    parser.add_argument("--quick", action="store_true", help=f"a taste: {QUICK_CRASHES} crashes, {QUICK_KILLS} kills")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--sealed", action="store_true", default=False, help="with every byte sealed")
    kinds.add_argument("--clear", dest="sealed", action="store_false", help="in the clear (default)")
    parser.add_argument("--minutes", type=float, default=30.0, help="stop after this long (%(default)g)")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if chosen.seed is None else chosen.seed
    crashes, kills = (QUICK_CRASHES, QUICK_KILLS) if chosen.quick else (CRASHES, KILLS)
    kind = "--sealed" if chosen.sealed else "--clear"
    print(f"torture: seed {seed}; replay with --seed {seed} {kind}", flush=True)
    started = time.monotonic()
    siege = besiege(crashes, kills, seed, chosen.minutes, sealed=chosen.sealed)
    for problem in siege.problems[:20]:
        print(f"FOUND: {problem[-1500:]}", file=sys.stderr)
    if siege.crashes < crashes or siege.kills < kills:
        siege.problems.append("not every blow fell")
    verdict = f"{len(siege.problems)} problems" if siege.problems else "nothing lost, nothing doubled, nothing changed"
    print(
        f"torture: {verdict} after {siege.crashes} crashes of the server and {siege.kills} kills of clients, "
        f"{siege.acked} appends acknowledged, in {time.monotonic() - started:.0f} s (seed {seed}, {kind})"
    )
    return 1 if siege.problems else 0


if __name__ == "__main__":
    sys.exit(main())
