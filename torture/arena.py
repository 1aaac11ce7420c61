"""One store under torture: rounds of workers and blows, and a check by a fresh process after every round.

Invariant: between rounds no process has the store open, and the ledger holds all that any worker ever said.
"""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torture.blows import AFTER_FAULT, ALONE, BIRTH, CROWD, FAULTS, FELT, MOMENT, RECOVERY, Blow, drawn
from torture.checker import Verdict
from torture.line import Line, Task
from torture.process import CheckerFailed, Hand, run_checker
from torture.tally import Tally

SHARED = 3
MODES = (("single", 1), ("threads", 3), ("tasks", 8), ("threads", 2), ("tasks", 3))


class Deck:
    """Every blow of a kind once, in a new order each time round, so that none is forgotten."""

    def __init__(self, blows: Sequence[Blow], rng: random.Random) -> None:
        self._blows = list(blows)
        self._rng = rng
        self._left: list[Blow] = []

    def draw(self) -> Blow:
        """The next one."""
        if not self._left:
            self._left = self._rng.sample(self._blows, len(self._blows))
        return self._left.pop()


class Decks:
    """The decks of a whole run; they outlive a single store."""

    def __init__(self, rng: random.Random) -> None:
        self.crowd = Deck((*CROWD, MOMENT), rng)
        self.alone = Deck(ALONE, rng)
        self.recovery = Deck((*RECOVERY, *ALONE[:1]), rng)
        self.birth = Deck(BIRTH, rng)
        self.faults = Deck(FAULTS, rng)


class Arena:
    """A folder with a store and its ledger."""

    def __init__(self, folder: Path, name: str, rng: random.Random, decks: Decks, tally: Tally, plant: str | None):
        self.folder = folder
        self.name = name
        self.store = folder / "store.db"
        self.ledger = folder / "ledger.jsonl"
        self.rng = rng
        self._decks = decks
        self._tally = tally
        self._plant = plant
        self._shared: list[str] = []
        self._orphans: list[str] = []
        self._round = 0
        folder.mkdir(parents=True)
        self.ledger.touch()

    def _task(self, mode: str, lanes: int = 1, steps: int = 200, own: int | None = None) -> Task:
        self._round += 1
        name = f"{self.name}w{self._round}"
        wanted = self.rng.randint(0, lanes) if own is None else own
        taken, self._orphans = self._orphans[:wanted], self._orphans[wanted:]
        return Task(
            name=name,
            store=str(self.store),
            seed=f"{self.rng.random()}",
            mode=mode,
            lanes=lanes,
            steps=steps,
            shared=tuple(self._shared),
            own=tuple(taken),
            plant=self._plant,
        )

    def _strike(self, task: Task, blow: Blow) -> Hand:
        return Hand(task, self.folder, blow, drawn(blow, self.rng))

    def _finish(self, hands: Sequence[Hand]) -> None:
        """Wait for all, count what fell, keep what was said."""
        try:
            for hand in hands:
                hand.wait()
        finally:
            for hand in hands:
                hand.end()
        for hand in hands:
            blow = hand.blow
            if blow is not None and blow in FAULTS:
                self._count_fault(hand, blow)
            elif blow is not None:
                (self._tally.kills if hand.hit else self._tally.missed)[blow.kind] += 1
            self._tally.problems += [complaint] if (complaint := hand.complaint()) else []
            self._keep(hand.lines)
            made = [line.session for line in hand.lines if line.do == "mark" and line.op == "create"]
            self._orphans += [*hand.task.own, *made]

    def _count_fault(self, hand: Hand, blow: Blow) -> None:
        told = [line.error for line in hand.lines if line.do == "fault"]
        self._tally.errors.update(told)
        self._tally.healed += sum(line.do == "healed" for line in hand.lines)
        if hand.killed and hand.died:
            self._tally.kills[AFTER_FAULT] += 1
        if not hand.hit:
            self._tally.missed[blow.kind] += 1
            return
        self._tally.faults[blow.kind] += 1
        if blow.kind in FELT and not told:
            self._tally.problems.append(f"{hand.task.name}: {blow.kind} fell and the writer was told nothing")

    def _keep(self, lines: Sequence[Line]) -> None:
        with self.ledger.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    # ── rounds ──

    def birth(self) -> None:
        """The first process dies while it makes the file; maybe the second, too."""
        for _ in range(self.rng.randint(1, 2)):
            self._finish([self._strike(self._task("opener"), self._decks.birth.draw())])
        self.check()

    def crowd(self, workers: int) -> None:
        """Several processes at work, each dying its own death."""
        hands = []
        for mode, lanes in self.rng.sample(MODES, workers):
            hands.append(self._strike(self._task(mode, lanes), self._decks.crowd.draw()))
        self._finish(hands)

    def alone(self) -> None:
        """One process that closes the store in order and dies while the log goes into the file."""
        task = self._task("single", steps=self.rng.randint(5, 40))
        self._finish([self._strike(task, self._decks.alone.draw())])

    def again(self) -> None:
        """Whoever opens the store after a crash is killed as well, several times over."""
        for _ in range(self.rng.randint(1, 3)):
            self._finish([self._strike(self._task("opener"), self._decks.recovery.draw())])

    def fault(self, blow: Blow | None = None) -> None:
        """The disk fails under one writer; sometimes another one works beside it, sometimes it dies of it."""
        if not self._orphans:
            self._finish([Hand(self._task("single", steps=5), self.folder)])
        blow = blow or self._decks.faults.draw()
        beside = [self._strike(self._task("single", own=0), MOMENT)] if self.rng.random() < 0.4 else []
        dies = blow.kind in FELT and self.rng.random() < 0.4
        task = self._task("ailing", steps=60, own=1)
        self._finish([Hand(task, self.folder, blow, drawn(blow, self.rng), dies_of_fault=dies), *beside])

    def insist(self, blow: Blow) -> None:
        """This very blow with nothing else going on, for what the decks have not brought about."""
        if blow in BIRTH:
            self._finish([self._strike(self._task("opener"), blow)])
        elif blow in FAULTS:
            self.fault(blow)
        elif blow in RECOVERY:
            self._finish([self._strike(self._task("single"), MOMENT)])
            self._finish([self._strike(self._task("opener"), blow)])
        else:
            self._finish([Hand(self._task("single", steps=60), self.folder, blow, blow.range[0])])

    # ── checks ──

    def check(self, *, everything: bool = False) -> None:
        """A fresh process looks at everything."""
        more = ["--shared", str(SHARED), *(["--all"] if everything else [])]
        try:
            verdict = msgspec.json.decode(run_checker(self.store, self.ledger, *more), type=Verdict)
        except CheckerFailed as failure:
            self._tally.problems.append(f"{self.name}: the checker failed: {failure}")
            return
        verdict.problems = [f"{self.name} (round {self._round}): {problem}" for problem in verdict.problems]
        self._tally.proven(verdict)
        if everything:
            self._tally.closed(verdict)
        self._shared = verdict.shared or self._shared
        self._keep(verdict.lines)

    def close(self) -> None:
        """Done with: free the space."""
        if not self._tally.problems:
            shutil.rmtree(self.folder)
