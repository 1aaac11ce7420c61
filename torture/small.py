"""A small disk to fill up: a tmpfs, which takes root and the right to mount."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PIECE = 4_000_000


class SmallDisk:
    """A disk of a few megabytes that can be made fuller."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, leaving: int) -> None:
        """Take up the space but for so many bytes."""
        taken = 0
        with self._filler.open("wb") as file:
            while (room := self._room() - leaving) > 0:  # others write meanwhile, so piece by piece
                piece = min(room, PIECE)
                try:
                    os.posix_fallocate(file.fileno(), taken, piece)
                except OSError as full:
                    if full.errno != errno.ENOSPC:
                        raise
                    return
                taken += piece

    def _room(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink()


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[SmallDisk]:
    """A small disk while it is needed; `PermissionError` where nothing may be mounted."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PermissionError(f"a small disk cannot be mounted here, which takes root: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
