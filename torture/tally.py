"""Counting what happened: kills and faults by kind, what was proven, how long recovery took; the table at the end."""

import statistics
import time
from collections import Counter

from torture.blows import FAULTS, KILLS
from torture.checker import Verdict


class Tally:
    """Everything a run will report."""

    def __init__(self) -> None:
        self.kills: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.healed = 0
        self.checks = 0
        self.acked = 0
        self.retried = 0
        self.resent = 0
        self.landed = 0
        self.uncertain = 0
        self.events = 0
        self.duels = 0
        self.cuts = 0
        self.recoveries: list[float] = []
        self.problems: list[str] = []
        self.started = time.monotonic()

    @property
    def killed(self) -> int:
        """Kills so far."""
        return self.kills.total()

    @property
    def seconds(self) -> float:
        """Time so far."""
        return time.monotonic() - self.started

    def proven(self, verdict: Verdict) -> None:
        """Take over what one check found."""
        self.checks += 1
        self.retried += verdict.retried
        self.resent += verdict.resent
        self.recoveries.append(verdict.opened_ms)
        self.problems += verdict.problems

    def closed(self, verdict: Verdict) -> None:
        """Take over the last check of a store: the sum of what was in it."""
        self.acked += verdict.acked
        self.events += verdict.events
        self.landed += verdict.landed
        self.uncertain += verdict.uncertain

    def silent(self) -> list[str]:
        """Kinds of blows that never fell; a run with one of these proves less than it says (R35)."""
        return [blow.kind for blow in KILLS if not self.kills[blow.kind]] + [
            blow.kind for blow in FAULTS if not self.faults[blow.kind]
        ]

    def progress(self, where: str) -> str:
        """One line for the impatient."""
        return (
            f"{self.seconds:6.0f} s  {self.killed:4} kills  {self.faults.total():3} faults  {self.checks:3} checks  "
            f"{len(self.problems)} problems  {where}"
        )

    def table(self) -> str:
        """The summary."""
        rows = [("KILLED", "", "")]
        rows += [(kind, str(count), self._missed(kind)) for kind, count in sorted(self.kills.items())]
        rows += [("in all", str(self.killed), ""), ("FAULTS", "", "")]
        rows += [(kind, str(count), self._missed(kind)) for kind, count in sorted(self.faults.items())]
        rows += [(f"told to the caller as {name}", str(count), "") for name, count in sorted(self.errors.items())]
        rows += [("appends refused at first and healed", str(self.healed), ""), ("PROVEN", "", "")]
        rows += [
            ("checks, each by a fresh process", str(self.checks), ""),
            ("acknowledged appends, each there once", str(self.acked), ""),
            ("events read and verified in the last check of each store", str(self.events), ""),
            ("appends never answered, with a key: retried, each there once", str(self.retried), ""),
            (
                "appends never answered, without a key",
                str(self.uncertain),
                f"{self.landed} whole, the others not there",
            ),
            ("acknowledged ones sent again, same answer", str(self.resent), ""),
            ("duels of two writers on one session", str(self.duels), ""),
            ("power cuts simulated", str(self.cuts), ""),
        ]
        if self.recoveries:
            worst, middle = max(self.recoveries), statistics.median(self.recoveries)
            rows += [("opening after a crash, median and worst", f"{middle:.0f} ms", f"{worst:.0f} ms")]
        return "\n".join(f"  {name:<62} {value:>8}  {note}".rstrip() for name, value, note in rows)

    def _missed(self, kind: str) -> str:
        return f"and {self.missed[kind]} that never came to fall" if self.missed[kind] else ""
