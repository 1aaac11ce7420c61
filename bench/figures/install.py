"""What having perdure costs before anything is stored: import time and distributions (F6)."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys

from bench.client import ROOT
from bench.run import OURS, Run

TIMES = 7


# A plain install has no typing_extensions; the development tools do, and msgspec would load them.
IMPORT = "import sys; sys.modules['typing_extensions'] = None; import perdure"


def measure(run: Run) -> None:
    if not run.has(OURS):
        return
    run.say("install")
    bare: list[float] = []
    ours: list[float] = []
    _cpu(IMPORT)  # the first one compiles
    for _ in range(TIMES):
        bare.append(_cpu("pass"))
        ours.append(_cpu(IMPORT))
    run.ledger.add("start.bare", OURS, statistics.median(bare) * 1e3)
    run.ledger.add("start.import", OURS, statistics.median(ours) * 1e3)
    run.ledger.add("start.cost", OURS, (statistics.median(ours) - statistics.median(bare)) * 1e3)
    run.ledger.add("distributions", OURS, distributions())


def _cpu(code: str) -> float:
    """CPU seconds, user and system, of a Python that runs `code` and ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"python -c {code!r} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def distributions() -> int:
    """How many distributions `pip install perdure` brings, itself included, by its lock file."""
    lines = (ROOT / "requirements" / "root.txt").read_text().splitlines()
    return 1 + sum(1 for line in lines if re.match(r"[A-Za-z0-9][\w.\-\[\]]*==", line))
