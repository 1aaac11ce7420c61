"""`python -m torture.http`: a server dies at random moments under its clients, and its disk fills up. Nothing is lost.

Clients append, patch, branch, take checkpoints, put blobs and refresh tokens over real sockets. The server is killed
while it serves and while it starts; whoever had no answer asks again, under the same key. After every start everything
that was acknowledged is proven. `--full` fills a small disk under the server instead, which must refuse what it cannot
write, go on answering, and heal by itself.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from torture.callers import Caller, Kept, Ledger, shared_sessions
from torture.proving import Prover
from torture.serving import Line, Server, Stopping, Stuck
from torture.small import SmallDisk, mounted

KILLS, QUICK_KILLS, MINUTES = 200, 6, 30.0
CALLERS, SHARED = 6, 2
SERVING, STARTING = "while serving", "while starting"
DISK = 96_000_000
LEFT = (300_000, 900_000)
"""Bytes that a full disk has left when callers begin to fill it."""
WIDE = 15_000


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    seed: int
    kills: int = KILLS
    full: int = 0
    minutes: float = MINUTES
    sealed: bool = True


class Siege:
    """One server under torture."""

    def __init__(self, store: Path, folder: Path, options: Options) -> None:
        self.rng = random.Random(options.seed)
        self.seed = options.seed
        self.server = Server(store, folder, options.sealed)
        self.ledger = Ledger()
        self.prover = Prover(self.server, self.ledger)
        self.kills: Counter[str] = Counter()
        self.rounds = 0
        self.healed = 0
        self.starts: list[float] = []
        self.good: list[str] = []
        self.revoked: list[str] = []
        self._stop = Stopping()
        self._callers: list[Caller] = []

    @property
    def problems(self) -> list[str]:
        """What was found."""
        return self.ledger.problems

    # ── beginning and end ──

    def begin(self, wide: int = 0) -> None:
        """A server, principals with keys, and callers at work."""
        self.server.begin()
        self.starts.append(self.server.ready())
        admin = Line(self.server, self.server.key)
        names = [f"caller-{number}" for number in range(CALLERS)]
        keys = []
        for name in names:
            made = admin.ask("POST", "/v1/principals", {"name": name, "roles": ["owner", "agent"]})
            keys.append(self._key(admin, made.body["principal_id"]))
        shared = shared_sessions(self.server, self.ledger, keys[0], names, SHARED)
        for number, key in enumerate(keys):
            line = Line(self.server, key)
            caller = Caller(number, f"{self.seed}-{number}", line, self.ledger, shared, self._stop)
            caller.wide = wide
            self._callers.append(caller)
        for caller in self._callers:
            caller.start()

    def _key(self, admin: Line, principal: str) -> str:
        found = admin.ask("POST", "/v1/keys", {"principal": principal})
        self.good.append(found.body["key"])
        return str(found.body["key"])

    def end(self) -> None:
        """Let callers finish, prove everything, then the file alone."""
        if not self.server.alive:
            self.server.begin()
            self.starts.append(self.server.ready())
        self._stop.set()
        for caller in self._callers:
            caller.join(120)
            if caller.is_alive():
                self.ledger.wrong(f"{caller.name} never finished")
        if not self.problems:
            self.prove(everything=True)
        self.server.leave()
        if not self.problems:
            self.prover.file()

    def abandon(self) -> None:
        """Whatever happened, nothing stays behind."""
        self._stop.set()
        self.server.kill()

    # ── killing ──

    def turn(self) -> None:
        """One life: proven, worked in, ended at a moment that comes from the seed; sometimes the next ends early."""
        self.rounds += 1
        self._keys()
        time.sleep(self.rng.uniform(0.02, 0.7))
        self._kill(SERVING)
        while self.rng.random() < 0.3 or not self.kills[STARTING]:
            self.server.begin()
            time.sleep(self.rng.uniform(0, 1.1 * min(self.starts[-5:])))
            self._kill(STARTING)
        self.server.begin()
        self.starts.append(self.server.ready())
        self.prove()

    def _kill(self, kind: str) -> None:
        """A server that came to be ready before the blow fell was killed while it served."""
        if not self.server.alive:
            self.ledger.wrong(f"the server ended by itself: {self.server.said()}")
        self.kills[SERVING if self.server.announced else kind] += 1
        self.server.kill()

    def _keys(self) -> None:
        """Make a key, and take back an older one; what was answered must hold from then on."""
        admin = Line(self.server, self.server.key)
        somebody = Line(self.server, self.good[0]).ask("GET", "/v1/whoami").body["principal"]
        fresh = self._key(admin, somebody)
        if self.rng.random() < 0.5:
            found = admin.ask("DELETE", f"/v1/keys/{fresh.split('_')[1]}")
            if found.status != 200:
                self.ledger.wrong(f"a key was not taken back: {found.status} {found.body}")
            self.good.remove(fresh)
            self.revoked.append(fresh)

    def prove(self, *, everything: bool = False) -> None:
        """Everything that was acknowledged is there; keys are good or not, as they were said to be."""
        self.prover.sessions(everything=everything)
        blobs = self.ledger.blobs
        self.prover.blobs(list(blobs) if everything else self.rng.sample(blobs, min(3, len(blobs))), self.good[0])
        for keys, status in ((self.good, 200), (self.revoked, 401)):
            for key in keys if everything else self.rng.sample(keys, min(3, len(keys))):
                found = Line(self.server, key).ask("GET", "/v1/whoami")
                if found.status != status:
                    self.ledger.wrong(f"a key that was {'good' if status == 200 else 'revoked'} is now {found.status}")
        entries = self.prover.audit()
        if entries < len(self.revoked):
            self.ledger.wrong(f"{len(self.revoked)} keys were taken back, and the audit log has {entries} entries")

    # ── a full disk ──

    def fill(self, disk: SmallDisk) -> None:
        """One round: the disk fills up under the callers, is read while it is full, and gets room again."""
        self.rounds += 1
        before = self.server.answers.copy()
        disk.fill(self.rng.randrange(*LEFT))
        self._until(lambda: self.server.answers[507] - before[507] > CALLERS, "the disk never filled up")
        for kept in self.rng.sample(self.ledger.sessions, min(5, len(self.ledger.sessions))):
            self._read(kept)
        self.prover.sessions()
        wrong = {status: self.server.answers[status] - before[status] for status in (500, 502, 503, 504)}
        if any(wrong.values()):
            self.ledger.wrong(f"a full disk was told as {wrong}: {self.server.said()}")
        disk.free()
        acked = self.ledger.acked
        self._until(lambda: self.ledger.acked > acked + 3 * CALLERS, "writing did not heal")
        self.healed += 1

    def _read(self, kept: Kept) -> None:
        line = Line(self.server, kept.key)
        for path in ("", "/events", "/turns?last=3", "/state", "/conversation?last=3", "/scratchpad", "/checkpoints"):
            found = line.once("GET", f"/v1/sessions/{kept.id}{path}")
            if found.status != 200:
                self.ledger.wrong(f"on a full disk GET …{path} is answered {found.status}: {found.body!r:.300}")
        found = line.once("GET", "/v1/sessions?limit=5")
        if found.status != 200 or not found.body["items"]:
            self.ledger.wrong(f"on a full disk sessions are listed as {found.status}: {found.body!r:.300}")

    def _until(self, so: Callable[[], bool], otherwise: str) -> None:
        ends = time.monotonic() + 60
        while not so() and not self.problems:
            if time.monotonic() > ends:
                self.ledger.wrong(f"{otherwise}: {dict(self.server.answers)} {self.server.said()}")
            time.sleep(0.02)


def kill(options: Options, say: Callable[[str], None]) -> Siege:
    """Kill a server so often, or until something is found or the time is over."""
    ends = time.monotonic() + options.minutes * 60
    with _folder() as folder:
        siege = Siege(folder / "store.db", folder, options)
        with _guarded(siege):
            siege.begin()
            while siege.kills.total() < options.kills and not siege.problems and time.monotonic() < ends:
                siege.turn()
                say(
                    f"{siege.rounds:4} rounds  {siege.kills.total():4} kills  {siege.ledger.acked:6} acknowledged  "
                    f"{siege.ledger.lost:5} sent again  {len(siege.problems)} problems"
                )
            siege.end()
        judge(siege, options)
        return siege


def fill(options: Options, say: Callable[[str], None]) -> Siege:
    """Fill a small disk so often under a server, which is never started anew."""
    ends = time.monotonic() + options.minutes * 60
    with _folder() as folder, mounted(folder / "disk", DISK) as disk:
        siege = Siege(disk.folder / "store.db", folder, options)
        with _guarded(siege):
            siege.begin(WIDE)
            while siege.rounds < options.full and not siege.problems and time.monotonic() < ends:
                siege.fill(disk)
                say(
                    f"{siege.rounds:4} rounds  {siege.server.answers[507]:5} × 507  "
                    f"{siege.ledger.acked:6} acknowledged  {len(siege.problems)} problems"
                )
            siege.end()
        if not siege.problems and siege.healed < options.full:
            siege.ledger.wrong(f"{siege.healed} of {options.full} rounds in {options.minutes:g} minutes")
        if not siege.problems and siege.server.lives != 1:
            siege.ledger.wrong("the server was started anew, so nothing healed by itself")
        return siege


def judge(siege: Siege, options: Options) -> None:
    """A run that did not do what it was asked to is a failed run, whatever it found (R35)."""
    if siege.problems:
        return
    if siege.kills.total() < options.kills:
        siege.ledger.wrong(f"{siege.kills.total()} of {options.kills} kills in {options.minutes:g} minutes")
    missed = [kind for kind in (SERVING, STARTING) if not siege.kills[kind]] if options.kills >= QUICK_KILLS else []
    missed += [] if siege.ledger.lost else ["an answer that was lost"]
    missed += [] if siege.ledger.acked else ["an acknowledgement"]
    for what in missed:
        siege.ledger.wrong(f"never happened: {what}")


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="perdure-http-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _guarded(siege: Siege) -> Iterator[None]:
    try:
        yield
    except Stuck as stuck:
        siege.ledger.wrong(str(stuck))
    finally:
        siege.abandon()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torture.http", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay the schedule of an earlier run")
    parser.add_argument("--kills", type=int, default=KILLS, help="stop after this many (%(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"a taste: {QUICK_KILLS} kills")
    parser.add_argument("--full", type=int, default=0, metavar="ROUNDS", help="fill a small disk so often instead")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="stop after this long (%(default)g)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--sealed", action="store_true", default=True, help="a sealed store, as users have it (default)")
    kinds.add_argument("--clear", dest="sealed", action="store_false", help="a store in the clear")
    chosen = parser.parse_args()
    options = Options(
        seed=random.SystemRandom().randrange(10**9) if chosen.seed is None else chosen.seed,
        kills=QUICK_KILLS if chosen.quick else chosen.kills,
        full=chosen.full,
        minutes=chosen.minutes,
        sealed=chosen.sealed,
    )
    kind = ("--sealed" if options.sealed else "--clear") + (f" --full {options.full}" if options.full else "")
    print(f"torture: seed {options.seed}; replay with --seed {options.seed} {kind}", flush=True)
    began = time.monotonic()
    try:
        siege = (fill if options.full else kill)(options, lambda line: print(line, flush=True))
    except PermissionError as refusal:
        print(f"torture: skipped: {refusal}", file=sys.stderr)
        return 2
    for problem in siege.problems[:20]:
        print(f"FOUND: {problem[-1500:]}", file=sys.stderr)
    print(_table(siege))
    verdict = f"{len(siege.problems)} problems" if siege.problems else "nothing lost, nothing doubled, nothing changed"
    blows = f"{siege.healed} full disks" if options.full else f"{siege.kills.total()} kills"
    print(f"torture: {verdict} after {blows} in {time.monotonic() - began:.0f} s (seed {options.seed}, {kind})")
    return 1 if siege.problems else 0


def _table(siege: Siege) -> str:
    rows = [(f"killed {kind}", count) for kind, count in sorted(siege.kills.items())]
    rows += [(f"answered {status}", count) for status, count in sorted(siege.server.answers.items())]
    rows += [
        ("acknowledged", siege.ledger.acked),
        ("sent again, the answer being lost or a refusal for now", siege.ledger.lost),
        ("sessions", len(siege.ledger.sessions)),
        ("proofs of a session", siege.prover.proofs),
        ("events read in those", siege.prover.events),
        ("keys taken back, and still so", len(siege.revoked)),
    ]
    rows += sorted((f"done: {name}", count) for name, count in siege.ledger.done.items())
    return "\n".join(f"  {name:<60} {value:>8}" for name, value in rows)


if __name__ == "__main__":
    sys.exit(main())
