"""The ways a worker dies or its disk fails, and how each is brought about.

A kill at a system call comes from strace: the signal is delivered on entering the call, so the call never happens.
Calls are counted per thread, and only those on the named file of the store. A fault replaces the call's result.
"""

import random
import shutil
from pathlib import Path

import msgspec

STRACE = shutil.which("strace")


class Blow(msgspec.Struct, frozen=True, kw_only=True):
    """One way to hit a worker. `call` and `file` say where, `range` how far the count may go, `effect` what happens."""

    kind: str
    call: str = ""
    file: str = ""
    range: tuple[int, int] = (1, 1)
    effect: str = ""
    lasting: int = 0

    @property
    def traced(self) -> bool:
        """Whether it takes strace."""
        return bool(self.call)


KILL = "signal=KILL"
MOMENT = Blow(kind="at a random moment", range=(1, 120))
OPENING = Blow(kind="while opening", range=(0, 60))
AFTER_FAULT = "after a fault"

CROWD = (
    MOMENT,
    Blow(kind="before a sync of the log", call="fdatasync", file="-wal", range=(1, 40), effect=KILL),
    Blow(kind="before a write to the log", call="pwrite64", file="-wal", range=(1, 300), effect=KILL),
    Blow(kind="between commit and answer", call="write", file="", range=(4, 90), effect=KILL),
    Blow(kind="before a lock", call="fcntl", file="-shm", range=(1, 250), effect=KILL),
)
"""For workers among others."""

ALONE = (
    Blow(kind="before a write to the file", call="pwrite64", file="main", range=(1, 25), effect=KILL),
    Blow(kind="before a sync of the file", call="fdatasync", file="main", range=(1, 1), effect=KILL),
    Blow(kind="before the log is removed", call="unlink", file="-wal", range=(1, 1), effect=KILL),
)
"""For a worker alone with the file, which checkpoints when it opens it and when it closes it."""

RECOVERY = (
    OPENING,
    Blow(kind="while reading the log back", call="pread64", file="-wal", range=(1, 60), effect=KILL),
)
"""For a process that opens a store whose last users were all killed."""

BIRTH = (
    Blow(kind="while making the file (write)", call="pwrite64", range=(1, 30), effect=KILL),
    Blow(kind="while making the file (sync)", call="fdatasync,fsync", range=(1, 7), effect=KILL),
)
"""For the first process of all."""

FAULTS = (
    Blow(kind="EIO on a sync of the log", call="fdatasync", file="-wal", range=(2, 25), effect="error=EIO"),
    Blow(kind="EIO on syncs, lasting", call="fdatasync", file="-wal", range=(2, 20), effect="error=EIO", lasting=7),
    Blow(kind="ENOSPC on a sync of the log", call="fdatasync", file="-wal", range=(2, 25), effect="error=ENOSPC"),
    Blow(kind="EIO on a write to the log", call="pwrite64", file="-wal", range=(2, 200), effect="error=EIO"),
    Blow(kind="ENOSPC on a write to the log", call="pwrite64", file="-wal", range=(2, 200), effect="error=ENOSPC"),
    Blow(kind="ENOSPC, lasting", call="pwrite64", file="-wal", range=(2, 200), effect="error=ENOSPC", lasting=9),
    Blow(kind="nothing written to the log", call="pwrite64", file="-wal", range=(2, 200), effect="retval=0"),
    Blow(kind="EIO on a write to the file", call="pwrite64", file="main", range=(1, 12), effect="error=EIO"),
    Blow(kind="EIO on a sync of the file", call="fdatasync", file="main", range=(1, 1), effect="error=EIO"),
)
"""Nobody dies of these."""

FELT = frozenset(blow.kind for blow in FAULTS if blow.file == "-wal")
"""Faults that the writer must be told of; one of a checkpoint may pass unseen, since the log still has everything."""

KILLS = (*CROWD, *ALONE, *RECOVERY, *BIRTH)


def drawn(blow: Blow, rng: random.Random) -> int:
    """When it falls: the count of the call, of the worker's lines, or milliseconds."""
    low, high = blow.range
    return round(low * (high / low) ** rng.random()) if low > 0 else rng.randint(low, high)


def traced(command: list[str], blow: Blow, when: int, store: Path, log: Path) -> list[str]:
    """The command under strace with this blow prepared."""
    assert STRACE is not None
    until = f"..{when + blow.lasting}" if blow.lasting else ""
    paths = ["-P", f"{store}{'' if blow.file == 'main' else blow.file}"] if blow.file else []
    inject = f"inject={blow.call}:{blow.effect}:when={when}{until}"
    quiet = ["-f", "-qq", "-s", "0", "-o", str(log)]
    return [STRACE, *quiet, *paths, "-e", f"trace={blow.call}", "-e", inject, "--", *command]


def fired(blow: Blow, log: Path) -> bool:
    """Whether strace did what it was asked to."""
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return "killed by SIGKILL" in text if blow.effect == KILL else "(INJECTED)" in text
