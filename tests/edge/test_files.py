"""Files on the disk: what was written is there, whole; what could not be written is not there at all."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.core.errors import BadExport, DiskFull, NotFound, ReadOnly, WorldError
from perdure.core.session import jsonl
from perdure.edge import files
from perdure.edge.files import DiskFiles


@pytest.fixture
def disk() -> DiskFiles:
    return DiskFiles()


async def chunks(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_appending_cuts_what_was_there_after_the_place(disk: DiskFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert await disk.size(str(path)) is None
    await disk.append(str(path), 0, b"abcdef")
    await disk.append(str(path), 2, b"XY")
    assert path.read_bytes() == b"abXY"
    assert await disk.size(str(path)) == 4
    assert await disk.read(str(path), 1, 2) == b"bX"
    assert await disk.read(str(path), 3, 100) == b"Y"


async def test_appending_behind_the_end_leaves_no_hole(disk: DiskFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    await disk.append(str(path), 0, b"abc")
    with pytest.raises(BadExport):
        await disk.append(str(path), 5, b"x")
    assert path.read_bytes() == b"abc"


async def test_a_failed_sync_takes_back_what_was_written(
    disk: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    await disk.append(str(path), 0, b"abc")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WorldError, match="broken"):
        await disk.append(str(path), 3, b"def")
    assert path.read_bytes() == b"abc"


async def test_replacing_is_all_or_nothing(disk: DiskFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    await disk.replace(str(path), chunks(b"old"))

    async def failing() -> AsyncIterator[bytes]:
        yield b"new"
        raise DiskFull("no space left; free some")

    with pytest.raises(DiskFull):
        await disk.replace(str(path), failing())
    assert path.read_bytes() == b"old"
    large = b"x" * (files.BATCH - 1)
    await disk.replace(str(path), chunks(large, b"yz", large))
    assert path.read_bytes() == large + b"yz" + large
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, DiskFull), (errno.EROFS, ReadOnly), (errno.ENOENT, NotFound), (errno.EIO, WorldError)],
)
async def test_the_systems_errors_say_what_to_do(
    disk: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "_append", fail)
    with pytest.raises(kind):
        await disk.append(str(tmp_path / "file"), 0, b"x")


def test_an_endless_line_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\n" + b"b" * 50 + b"\nc")
    monkeypatch.setattr(jsonl, "MAX_LINE", 20)
    assert list(files.lines(str(path))) == [b"a\n", b"b" * 22, b"b" * 22, b"b" * 6 + b"\n", b"c"]
