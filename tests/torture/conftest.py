"""What the fault tests share: turns to append, and small disks that can be filled or made read-only."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import events as ev


def turn(name: str, content: str = "") -> list[Any]:
    """A turn that names itself."""
    return [ev.TurnStarted(model=name), ev.Message(role="user", content=content or name), ev.TurnFinished()]


def names(events: list[Any]) -> list[str]:
    """The names of the turns in a log, in order."""
    return [event.data.model for event in events if event.kind == "turn_started"]


@pytest.fixture(name="turn")
def turn_fixture() -> Callable[..., list[Any]]:
    return turn


@pytest.fixture(name="names")
def names_fixture() -> Callable[[list[Any]], list[str]]:
    return names


class SmallDisk:
    """A tmpfs of a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, leaving: int) -> None:
        """Take up the space but for so many bytes."""
        room = subprocess.run(
            ["df", "--output=avail", "-B1", self.folder], capture_output=True, text=True, check=True
        ).stdout.split()[-1]
        self._filler.write_bytes(bytes(max(0, int(room) - leaving)))

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink()

    def writable(self, yes: bool) -> None:
        """Remount."""
        subprocess.run(["mount", "-o", f"remount,{'rw' if yes else 'ro'}", self.folder], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 4 MB, or a skip where nothing may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "-l", folder], check=True)
