"""R13: no (key, nonce) pair is ever used twice, over branches, erasures, restores and processes.

A thousand or two in every run; a million with PERDURE_PAIRS=1000000, which takes a quarter of an hour.
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torture.process import ROOT, environment

WANTED = int(os.environ.get("PERDURE_PAIRS", "1500"))
COMMAND = [sys.executable, "-m", "tests.sealing.sealing_much"]
ROUND = max(150, WANTED // 60)
STORE = ("agent.db", "agent.db-wal", "agent.db-shm")
VAULT = ("agent.db.keys", "agent.db.keys-wal", "agent.db.keys-shm")


def copied(names: tuple[str, ...], source: Path, target: Path) -> None:
    """Put these files of one folder in the place of those of another."""
    for name in names:
        (target / name).unlink(missing_ok=True)
        if (source / name).exists():
            shutil.copy(source / name, target / name)


def pairs(folder: Path) -> list[bytes]:
    noted = b"".join(file.read_bytes() for file in sorted(folder.glob("*.pairs")))
    return [noted[at : at + 16] for at in range(0, len(noted), 16)]


@pytest.mark.slow
def test_no_pair_of_key_and_nonce_is_used_twice(tmp_path: Path) -> None:
    here, earlier = tmp_path / "here", tmp_path / "earlier"
    here.mkdir()
    earlier.mkdir()
    chance, rounds, restores = random.Random(5), 0, 0
    while len(pairs(tmp_path)) < WANTED:
        rounds += 1
        # The same seeds come again, so the same words are written at the same versions of the same restored logs.
        noted = [tmp_path / f"{rounds}.{number}.pairs" for number in range(2)]
        running = [
            subprocess.Popen(
                [*COMMAND, str(here / "agent.db"), str(into), str(ROUND), f"{rounds % 4}/{into.stem[-1]}"],
                cwd=ROOT,
                env=environment(),
                stderr=subprocess.PIPE,
            )
            for into in noted
        ]
        assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 2
        match rounds % 4:
            case 1:
                copied((*STORE, *VAULT), here, earlier)
            case 2:
                copied((*STORE, *VAULT), earlier, here)  # the whole is brought back
                restores += 1
            case 3 if chance.random() < 0.7:
                copied(VAULT, here, earlier)  # the store alone is, and finds a vault that went on
                copied(STORE, earlier, here)
                restores += 1
    found = pairs(tmp_path)
    assert len(set(found)) == len(found) >= WANTED
    assert restores > 0, "nothing was restored"


def test_a_pair_used_twice_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "1.pairs").write_bytes(b"a" * 16 + b"b" * 16)
    (tmp_path / "2.pairs").write_bytes(b"a" * 16)
    assert len(set(pairs(tmp_path))) == len(pairs(tmp_path)) - 1
