"""A place for bytes that were read once and are needed again: a little memory, then an unnamed file.

What is put here is as it lay in cold storage, so what was sealed stays sealed.
"""

import os
import tempfile
import weakref
from typing import Final

IN_MEMORY: Final = 1 << 20


class Spool:
    """Append, then read from anywhere, from any thread, also in a child of a fork. It goes when nobody holds it."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self._file: int | None = None
        self.size = 0

    def append(self, data: bytes) -> int:
        """Keep bytes; where they begin."""
        start, self.size = self.size, self.size + len(data)
        if self._file is None and self.size > IN_MEMORY:
            self._move()
        if self._file is None:
            self._memory += data
        else:
            _write(self._file, data, start)
        return start

    def _move(self) -> None:
        number, path = tempfile.mkstemp(prefix="perdure-")
        weakref.finalize(self, _release, number, path)
        if os.name == "posix":
            os.unlink(path)  # nobody else finds it, and it goes with the last who has it open
        _write(number, bytes(self._memory), 0)
        self._file, self._memory = number, bytearray()

    def read(self, start: int, length: int) -> bytes:
        """Bytes from a place on."""
        if self._file is None:
            return bytes(self._memory[start : start + length])
        if hasattr(os, "pread"):
            return os.pread(self._file, length, start)
        os.lseek(self._file, start, os.SEEK_SET)
        return os.read(self._file, length)


def _write(number: int, data: bytes, start: int) -> None:
    os.lseek(number, start, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def _release(number: int, path: str) -> None:
    os.close(number)
    if os.path.exists(path):
        os.unlink(path)
