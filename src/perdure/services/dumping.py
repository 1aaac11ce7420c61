"""The portable form of a store: all its rows in one stream of chunks, from any engine that gives them.

The header tells which engine and format they come from and the columns of each table; a chunk is a MessagePack array of
pairs (table, rows), compressed. Rows are as they are stored: what is sealed stays sealed.
"""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal

import msgspec

from perdure.core.errors import Damaged, NewerStore
from perdure.ports.backup import Engine, Facts, Progress, Rows
from perdure.services.chunks import CHUNK, MAGIC, Framer, Unframer, loosened, squeezed
from perdure.services.disk import sync_folder, translated
from perdure.services.manifests import PIECE

FORMAT: Final = 1


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame."""

    perdure: Literal["store"] = "store"
    format: int = FORMAT
    at: int
    facts: Facts
    tables: dict[str, tuple[str, ...]]


_pack = msgspec.msgpack.Encoder().encode
_header = msgspec.msgpack.Decoder(Header).decode
_rows = msgspec.msgpack.Decoder(list[tuple[str, list[list[Any]]]]).decode


def is_portable(path: str) -> bool:
    """Whether a file is in the portable form."""
    with translated(path), open(path, "rb") as file:
        return file.read(len(MAGIC))[:-1] == MAGIC[:-1]


def dump(engine: Engine, target: str, at: int, progress: Progress | None = None) -> Facts:
    """Write all rows of a store as of one moment to a new file, durable; what is in it."""
    with translated(target), engine.dump() as rows, open(target, "wb") as file:
        framer = Framer()
        file.write(framer.header(_pack(Header(at=at, facts=rows.facts, tables=dict(rows.tables)))))
        done = 0
        for pairs, count in _batches(rows.rows()):
            file.write(framer.chunk(squeezed(pairs), count))
            done += count
            if progress is not None:
                progress(done, max(done, rows.total))
        file.write(framer.end())
        file.flush()
        os.fsync(file.fileno())
        sync_folder(target)
        return rows.facts


def _batches(rows: Iterator[Rows]) -> Iterator[tuple[list[Any], int]]:
    """Rows in portions of about a chunk."""
    held: list[Any] = []
    size = count = 0
    for table, batch in rows:
        held.append((table, batch))
        count += len(batch)
        size += sum(len(value) for row in batch for value in row if isinstance(value, str | bytes)) + 16 * len(batch)
        if size >= CHUNK:
            yield held, count
            held, size, count = [], 0, 0
    if held:
        yield held, count


def load(engine: Engine, source: str, progress: Progress | None = None) -> Facts:
    """Make a store from a file in the portable form; what is in it. Nothing is left of one that does not add up."""
    with translated(source), open(source, "rb") as file:
        reader = _Reader(file, progress)
        engine.load(reader.header.facts, reader.header.tables, reader.rows())
        return reader.header.facts


def examine(source: str, progress: Progress | None = None) -> Facts:
    """Read a file in the portable form to its end; what is in it. `Damaged` when it does not add up."""
    with translated(source), open(source, "rb") as file:
        reader = _Reader(file, progress)
        for _ in reader.rows():
            pass
        return reader.header.facts


def announced(source: str) -> Facts:
    """What a file in the portable form says it holds; nothing is proven by that."""
    with translated(source), open(source, "rb") as file:
        return _Reader(file, None).header.facts


class _Reader:
    """Rows from a stream; the last of them only once the end has proven all."""

    def __init__(self, file: BinaryIO, progress: Progress | None) -> None:
        self._file = file
        self._total = os.fstat(file.fileno()).st_size
        self._progress = progress
        self._unframer = Unframer()
        self._frames = self._read()
        self.header = self._begin()

    def _read(self) -> Iterator[Any]:
        done = 0
        while piece := self._file.read(PIECE):
            yield from self._unframer.feed(piece)
            done += len(piece)
            if self._progress is not None:
                self._progress(done, max(done, self._total))
        self._unframer.end()

    def _begin(self) -> Header:
        frame = next(self._frames, None)
        try:
            if frame is None:
                raise Damaged("the backup is empty; take another copy")
            header = _header(frame.body)
        except (msgspec.MsgspecError, ValueError) as broken:
            raise Damaged(f"the header of the backup does not decode: {broken}; take another copy") from broken
        if header.format > FORMAT:
            raise NewerStore(f"the backup has format {header.format}, this perdure reads {FORMAT}; upgrade perdure")
        return header

    def rows(self) -> Iterator[Rows]:
        """A few rows at a time; `Damaged` at the end when the whole does not add up."""
        for frame in self._frames:
            try:
                pairs = _rows(loosened(frame.body))
            except (msgspec.MsgspecError, ValueError, RecursionError) as broken:
                raise Damaged(f"a chunk of the backup does not decode: {broken}; take another copy") from broken
            for table, batch in pairs:
                if table not in self.header.tables:
                    raise Damaged(f"the backup has rows of a table {table!r:.40} that it does not announce")
                yield table, [tuple(row) for row in batch]
