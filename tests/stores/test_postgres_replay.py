"""The rows of a database's COPY stream, read without a server."""

import struct
import tracemalloc
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Damaged
from perdure.stores.postgres.replay import SIGNATURE, replayed
from perdure.stores.postgres.texts import kept

TABLES = {"blob_use": ("version", "address", "session", "unheard_of"), "word": ("position", "words")}


def field(value: bytes | None) -> bytes:
    return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value


def copied(rows: Iterable[tuple[bytes | None, ...]]) -> bytes:
    """Rows as PostgreSQL copies them."""
    body = b"".join(struct.pack("!h", len(row)) + b"".join(map(field, row)) for row in rows)
    return SIGNATURE + bytes(8) + body + struct.pack("!h", -1)


def read(table: str, stream: bytes, step: int) -> list[tuple[Any, ...]]:
    pieces = [(table, [(stream[at : at + step],)]) for at in range(0, len(stream), step)]
    tables, rows = replayed(TABLES, pieces)
    assert tables == {"blob_use": ("version", "address", "session")}
    return [row for name, batch in rows for row in batch if name == table]


NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(st.tuples(NUMBERS, st.none() | st.text(st.characters(codec="utf-8")), NUMBERS, st.none() | st.binary())),
    st.integers(1, 64),
)
def test_rows_come_over_whatever_pieces_they_come_in(rows: list[tuple[Any, ...]], step: int) -> None:
    def number(value: int | None) -> bytes | None:
        return None if value is None else value.to_bytes(8, "big", signed=True)

    stream = copied(
        (number(one), None if text is None else kept(text).encode(), number(two), more) for one, text, two, more in rows
    )
    assert read("blob_use", stream, step) == [(one, text, two) for one, text, two, _ in rows]


def test_tables_that_no_proof_needs_stay_behind() -> None:
    assert read("word", b"whatever it is", 3) == []


def test_a_long_table_takes_little_memory() -> None:
    row = struct.pack("!h", 4) + field(bytes(8)) + field(b"a" * 10_000) + field(bytes(8)) + field(None)
    opening, ending = SIGNATURE + bytes(8), struct.pack("!h", -1)
    stream = chain([opening], repeat(row, 2000), [ending])
    tracemalloc.start()
    try:
        _, rows = replayed(TABLES, (("blob_use", [(piece,)]) for piece in stream))
        count = sum(len(batch) for _, batch in rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 2000
    assert peak < 3 << 20, "twenty megabytes came through"


ROW = copied([(bytes(8), b"address", bytes(8), None)])


@pytest.mark.parametrize(
    "stream",
    [
        ROW[:-1],
        ROW[:-2],
        ROW[:-9],
        ROW[:5],
        ROW + b"x",
        b"X" + ROW[1:],
        ROW[:18] + b"\x01" + ROW[19:],
        copied([(bytes(8), b"address")]),
        copied([(bytes(8), b"\xff", bytes(8), None)]),
    ],
)
def test_what_is_no_stream_of_rows_is_damaged(stream: bytes) -> None:
    assert read("blob_use", ROW, 7) == [(0, "address", 0)]
    for step in (1, 7, len(stream)):
        with pytest.raises(Damaged):
            read("blob_use", stream, step)
