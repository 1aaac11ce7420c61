"""`python -m torture.turns`: processes that carry on turns with a model and tools are killed at random moments.

After all kills: every request to a model was in the log before it was sent and is answered for there exactly once; what
the accounts spent is what the settled events say; no tool ran twice under one key; every turn that was acknowledged is
there as it was told; and every session goes on.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import IO, Any

import msgspec

import perdure
from perdure.core.session.asking import ModelAnswered, ModelAsked
from perdure.core.session.budget import Overrun, Reserved, Settled
from perdure.core.session.turns import ToolFinished, ToolStarted, TurnFinished
from torture.talker import Acknowledged, Errand

KILLS, QUICK_KILLS, MINUTES = 100, 5, 20.0
ROOTS, BRANCHES = 4, 8
CAP = 50_000_000
USED = 0.95
PRICES = {
    "as_of": "2026-11-01",
    "prices": [
        {
            "provider": "up",
            "models": ["*"],
            "rates": {"input": 1_000_000, "output": 2_000_000, "cache_read": 100_000, "cache_write": 1_250_000},
            "window": 100_000,
            "max_output": 4_000,
        }
    ],
}


class Siege:
    """A store and those who talk in it."""

    def __init__(self, folder: Path, seed: int, cap: int = CAP) -> None:
        self.folder = folder
        self.cap = cap
        self.used = 0.0
        """How much of its cap the least spending account used."""
        self.rng = random.Random(seed)
        self.store = str(folder / "talk.db")
        self.marks = folder / "marks"
        self.marks.touch()
        self.acknowledged: list[Acknowledged] = []
        self.problems: list[str] = []
        self.kills = 0
        prices = folder / "prices.json"
        prices.write_bytes(msgspec.json.encode(PRICES))
        os.environ["PERDURE_PRICES"] = str(prices)
        self._upstream = subprocess.Popen(
            [sys.executable, "-m", "upstream", "--port", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains of those who hang up, which is what happens here
        )
        assert self._upstream.stdout is not None
        self.port = int(self._upstream.stdout.readline())
        self.sessions = self._begun()

    def _begun(self) -> tuple[str, ...]:
        """Sessions with caps, and branches that share them."""
        with perdure.open(self.store) as db:
            roots = [db.create(f"root {number}", config={"max_cost": self.cap}) for number in range(ROOTS)]
            branches = [self.rng.choice(roots).branch(name=f"branch {number}") for number in range(BRANCHES)]
            return tuple(session.id for session in (*roots, *branches))

    def errand(self, *, settle: bool = False) -> Errand:
        """What the next talker is told."""
        return Errand(
            store=self.store,
            port=self.port,
            marks=str(self.marks),
            sessions=self.sessions,
            seed=self.rng.getrandbits(32),
            settle=settle,
        )

    def strike(self) -> None:
        """Let a talker begin, and kill it."""
        with self._talker(self.errand()) as talker:
            assert talker.stdout is not None
            first = talker.stdout.readline()
            if b"ready" not in first:
                self.problems.append(f"a talker did not begin: {first!r}")
            else:
                time.sleep(self.rng.uniform(0.05, 2.5))
            talker.kill()
            self._heard(talker.stdout)
        self.kills += 1

    def exhausted(self) -> bool:
        """Whether no account has room for another question."""
        with perdure.open(self.store) as db:
            found = [db.session(session).account() for session in self.sessions[:ROOTS]]
        if any(account.spent + account.reserved > self.cap for account in found):
            self.problems.append(f"more was spent than the cap allows: {found}")
        self.used = min(account.spent / self.cap for account in found)
        return self.used >= USED

    def settle(self) -> None:
        """Close what was left open, and say something in every session once more, for which there is money again."""
        with perdure.open(self.store) as db:
            for session in self.sessions[:ROOTS]:
                db.session(session).configure(config={"max_cost": 2 * CAP})
        with self._talker(self.errand(settle=True)) as talker:
            assert talker.stdout is not None
            told = [msgspec.json.decode(line) for line in talker.stdout]
            code = talker.wait()
        if code or [item["status"] for item in told] != ["finished"] * len(self.sessions):
            self.problems.append(f"not every session goes on: {told} (exit code {code})")

    def _talker(self, errand: Errand) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-W", "ignore", "-m", "torture.talker", msgspec.json.encode(errand).decode()]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    def _heard(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            if line.endswith(b"\n"):
                self.acknowledged.append(msgspec.json.decode(line, type=Acknowledged))

    def close(self) -> None:
        """End the upstream."""
        with self._upstream as upstream:
            assert upstream.stdin is not None
            upstream.stdin.close()
            upstream.wait(10)

    # ── judging ──

    def judge(self) -> None:
        """Look for what is lost, doubled or unpaid."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/counts", timeout=10) as answer:
            sent = set(msgspec.json.decode(answer.read())["keys"])
        asked: set[str] = set()
        settled: Counter[str] = Counter()
        started: set[str] = set()
        finished: set[str] = set()
        with perdure.open(self.store) as db:
            for session in map(db.session, self._everything(db)):
                own = [event for event in session.events() if event.session == session.id]
                account = session.state().origin.account or ""
                settled[account] += self._judge_money(session.id, own)
                asked |= {event.data.ask for event in own if isinstance(event.data, ModelAsked)}
                self._judge_turns(session, own)
                started |= {event.data.key or "" for event in own if isinstance(event.data, ToolStarted)}
                finished |= {
                    f"{session.id}:{event.data.call}"
                    for event in own
                    if isinstance(event.data, ToolFinished) and event.data.error is None
                }
            for account, cost in settled.items():
                if "#" in account:  # a slice, which its parent has settled
                    continue
                found = db.session(account).account()
                if (found.spent, found.reserved) != (cost, 0):
                    self.problems.append(f"account {account}: {found}, and the logs say {cost}")
            report = db.verify()
            if not report.ok:
                self.problems.append(f"the store does not verify: {report.problems}")
        self._judge_tools(started, finished)
        if unknown := sent - asked:
            self.problems.append(f"models were asked what the log does not know of: {sorted(unknown)[:5]}")

    def _everything(self, db: Any) -> list[str]:
        """All sessions: those there were, and the children that they spawned."""
        found: list[str] = []
        page = db.find(limit=500)
        while True:
            found += [row.session for row in page.items]
            if page.cursor is None:
                return found
            page = db.find(limit=500, cursor=page.cursor)

    def _judge_money(self, session: str, events: list[Any]) -> int:
        """Each request asked and answered for once, each reservation settled once; what was spent."""
        payloads = [event.data for event in events]
        asked = Counter(item.ask for item in payloads if isinstance(item, ModelAsked))
        answered = Counter(item.ask for item in payloads if isinstance(item, ModelAnswered))
        reserved = Counter(item.reservation for item in payloads if isinstance(item, Reserved))
        paid = Counter(item.reservation for item in payloads if isinstance(item, Settled))
        if asked != answered or max(asked.values(), default=1) > 1:
            self.problems.append(f"{session}: asked and answered differ: {asked - answered} {answered - asked}")
        if reserved != paid or max(paid.values(), default=1) > 1:
            self.problems.append(f"{session}: reserved and settled differ: {reserved - paid} {paid - reserved}")
        if any(isinstance(item, Overrun) for item in payloads):
            self.problems.append(f"{session}: an overrun")
        return sum(item.cost for item in payloads if isinstance(item, Settled))

    def _judge_turns(self, session: Any, events: list[Any]) -> None:
        state = session.state()
        if state.turns.open is not None or state.budget.open or state.budget.asked:
            self.problems.append(f"{session.id}: something is still open: {state.turns.open} {state.budget}")
        ends = {event.turn: event.version for event in events if isinstance(event.data, TurnFinished)}
        costs: Counter[int] = Counter()
        for event in events:
            if isinstance(event.data, ModelAnswered) and event.turn is not None:
                costs[event.turn] += event.data.cost
        for item in self.acknowledged:
            if item.session != session.id or item.status != "finished":
                continue
            if item.turn not in ends:
                self.problems.append(f"{session.id}: turn {item.turn} was acknowledged and is not there")
            elif (costs[item.turn], ends[item.turn]) != (item.cost, item.version):
                found = (costs[item.turn], ends[item.turn])
                self.problems.append(f"{session.id}: turn {item.turn} was told as {item}, and is {found}")

    def _judge_tools(self, started: set[str], finished: set[str]) -> None:
        marks = Counter(self.marks.read_text().splitlines())
        for key, count in marks.items():
            if count > 1:
                self.problems.append(f"the tool ran {count} times under {key}")
        if unknown := set(marks) - started:
            self.problems.append(f"tools ran that the log does not know of: {sorted(unknown)[:5]}")
        if missing := finished - set(marks):
            self.problems.append(f"results of tools that never ran: {sorted(missing)[:5]}")


def besiege(kills: int, seed: int, minutes: float, cap: int | None = None) -> Siege:
    """So many kills, or as many as fit into the time, and the judgment; with a cap, kills until that is used up."""
    with tempfile.TemporaryDirectory(prefix="perdure-turns-") as folder:
        siege = Siege(Path(folder), seed, cap or CAP)
        try:
            until = time.monotonic() + 60 * minutes
            while siege.kills < kills and time.monotonic() < until:
                siege.strike()
                if cap is not None and siege.exhausted():
                    break
            siege.settle()
            siege.judge()
        finally:
            siege.close()
    return siege


def main() -> int:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m torture.turns", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(30))
    parser.add_argument("--minutes", type=float, default=MINUTES, help="the longest it may take")
    parser.add_argument("--cap", type=int, help="micro-dollars of each account, to be used up")
    given = parser.parse_args()
    began = time.monotonic()
    siege = besiege(given.kills, given.seed, given.minutes, given.cap)
    for problem in siege.problems:
        print(f"FOUND: {problem}", file=sys.stderr)
    finished = sum(item.status == "finished" for item in siege.acknowledged)
    told = "FAILED" if siege.problems else "nothing lost, nothing charged twice"
    used = f", {siege.used:.1%} of the cap used" if given.cap else ""
    print(
        f"{told} after {siege.kills} kills, {finished} turns acknowledged{used}, in {time.monotonic() - began:.0f} s "
        f"(seed {given.seed})"
    )
    return 1 if siege.problems else 0


if __name__ == "__main__":
    sys.exit(main())
