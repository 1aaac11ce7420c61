"""A full disk (R7), a read-only one, a forbidden one: typed refusals, reads served, and all well again afterwards."""

import asyncio
import os
import random
import string
import subprocess
import sys
import tempfile
from typing import Any

import pytest

import perdure
from perdure import errors
from torture.process import environment

RNG = random.Random(7)


def wide() -> str:
    """Content that does not compress away."""
    return "".join(RNG.choices(string.ascii_letters + string.digits, k=40_000))


def fill_up(session: Any, turn: Any) -> list[str]:
    """Append until the disk is full; the names of those that were acknowledged."""
    acknowledged: list[str] = []
    for number in range(1000):
        try:
            session.append(turn(f"t{number}", wide()), key=f"k{number}")
        except errors.DiskFull:
            return acknowledged
        acknowledged.append(f"t{number}")
    raise AssertionError("the disk never filled up")


def test_a_full_disk_refuses_writes_serves_reads_and_heals_by_itself(small_disk: Any, turn: Any, names: Any) -> None:
    with perdure.open(small_disk.folder / "store.db") as db:
        session = db.create()
        small_disk.fill(leaving=1_500_000)
        acknowledged = fill_up(session, turn)
        assert len(acknowledged) > 3, "the disk was full from the start, so nothing was tested"
        for _ in range(3):
            with pytest.raises(errors.DiskFull, match="free some"):
                session.append(turn("more", wide()))
            assert names(session.events()) == acknowledged
            assert session.verify().ok
            assert [row.session for row in db.find().items] == [session.id]
        small_disk.free()
        following = f"t{len(acknowledged)}"
        session.append(turn(following, wide()), key="after")
        assert names(session.events()) == [*acknowledged, following]
    with perdure.open(small_disk.folder / "store.db") as db:
        assert names(db.session(session.id).events()) == [*acknowledged, following]
        assert db.verify().ok


async def test_a_full_disk_is_told_to_every_waiting_task(small_disk: Any, turn: Any, names: Any) -> None:
    async with await perdure.aopen(small_disk.folder / "store.db") as db:
        session = await db.create()
        small_disk.fill(leaving=1_000_000)
        sent = [session.append(turn(f"t{number}", wide()), key=f"k{number}") for number in range(60)]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, errors.DiskFull)]
        versions = {f"t{number}": answer for number, answer in enumerate(answers) if isinstance(answer, int)}
        assert refused
        assert len(refused) + len(versions) == 60
        assert set(names(await session.events())) == set(versions)
        small_disk.free()
        again = await asyncio.gather(*(session.append(turn(f"after{number}")) for number in range(5)))
        assert min(again) > max(versions.values(), default=0)


def test_a_store_that_could_not_be_made_for_lack_of_space_can_be_made_later(small_disk: Any) -> None:
    path = small_disk.folder / "store.db"
    small_disk.fill(leaving=0)
    with pytest.raises(errors.DiskFull):
        perdure.open(path)
    small_disk.free()
    with perdure.open(path) as db:
        assert db.create().version() == 2


def test_a_read_only_disk_refuses_writes_and_changes_nothing(small_disk: Any, turn: Any, names: Any) -> None:
    path = small_disk.folder / "store.db"
    with perdure.open(path) as db:
        session = db.create()
        session.append(turn("before"))
    small_disk.writable(False)
    with pytest.raises(errors.ReadOnly, match="permissions"), perdure.open(path) as db:
        db.session(session.id).append(turn("refused"))
    with pytest.raises(errors.ReadOnly):
        perdure.open(small_disk.folder / "new.db")
    small_disk.writable(True)
    with perdure.open(path) as db:
        db.session(session.id).append(turn("after"))
        assert names(db.session(session.id).events()) == ["before", "after"]


FORBIDDEN = """
import os, sys, tempfile
import perdure
from perdure import errors, events as ev
path, session, mode, folder_mode = sys.argv[1], sys.argv[2], int(sys.argv[3], 8), int(sys.argv[4], 8)
with tempfile.TemporaryDirectory() as elsewhere, perdure.open(elsewhere + "/warm.db") as db:
    db.create().append(ev.Feedback())  # loads what nobody may not read from disk any more
os.chmod(path, mode)
os.chmod(os.path.dirname(path), folder_mode)
os.setgid(65534)
os.setuid(65534)
try:
    with perdure.open(path) as db:
        db.session(session).append(ev.Feedback())
except errors.ReadOnly as refusal:
    assert "check" in str(refusal), refusal
    print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
@pytest.mark.parametrize("modes", [("444", "555"), ("444", "777"), ("666", "555"), ("000", "755")])
def test_a_file_or_folder_without_permission_is_called_read_only(turn: Any, names: Any, modes: tuple[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path: nobody may not even look into that one
        path = os.path.join(folder, "store.db")
        with perdure.open(path) as db:
            session = db.create()
            session.append(turn("before"))
        done = subprocess.run(
            [sys.executable, "-c", FORBIDDEN, path, session.id, *modes],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("refused\n", "")
        os.chmod(path, 0o600)
        with perdure.open(path) as db:
            assert names(db.session(session.id).events()) == ["before"]
