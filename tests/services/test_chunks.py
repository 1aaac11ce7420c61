"""The stream that bundles and portable backups are written in: read in pieces of any size, and any change shows."""

import gc
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Damaged, NewerStore
from perdure.services import chunks
from perdure.services.chunks import Frame, Framer, Unframer, loosened, squeezed
from perdure.services.spool import IN_MEMORY, Spool

BODIES = st.lists(st.binary(max_size=200), max_size=6)


def stream(header: bytes, bodies: list[bytes]) -> bytes:
    framer = Framer()
    return b"".join([framer.header(header), *(framer.chunk(body, 2) for body in bodies), framer.end()])


def read(content: bytes, size: int) -> list[Frame]:
    unframer, found = Unframer(), []
    for at in range(0, len(content), size):
        found += unframer.feed(content[at : at + size])
    unframer.end()
    return found


@given(st.binary(max_size=100), BODIES, st.integers(1, 300))
def test_a_stream_is_read_back_in_pieces_of_any_size(header: bytes, bodies: list[bytes], size: int) -> None:
    found = read(stream(header, bodies), size)
    assert found == [Frame(b"H", header), *(Frame(b"C", body) for body in bodies)]


@given(BODIES)
def test_the_end_counts_chunks_and_items(bodies: list[bytes]) -> None:
    unframer = Unframer()
    list(unframer.feed(stream(b"", bodies)))
    assert (unframer.end().chunks, unframer.end().items) == (len(bodies), 2 * len(bodies))


@given(BODIES, st.data())
def test_a_changed_byte_is_found(bodies: list[bytes], data: Any) -> None:
    content = bytearray(stream(b"header", bodies))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((Damaged, NewerStore)):
        read(bytes(content), 64)


@given(BODIES, st.data())
def test_a_stream_that_is_cut_or_goes_on_is_found(bodies: list[bytes], data: Any) -> None:
    content = stream(b"header", bodies)
    with pytest.raises(Damaged):
        read(content[: data.draw(st.integers(0, len(content) - 1))], 64)
    with pytest.raises(Damaged):
        read(content + data.draw(st.binary(min_size=1)), 64)


def test_a_stream_of_the_future_says_so() -> None:
    content = stream(b"", [])
    newer = chunks.MAGIC[:-1] + bytes([chunks.MAGIC[-1] + 1])
    with pytest.raises(NewerStore, match="upgrade perdure"):
        read(newer + content[len(chunks.MAGIC) :], 64)


@given(st.binary(max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(Damaged):
        loosened(noise)
    with pytest.raises(Damaged):
        loosened(squeezed([b"content"])[:-1])


def test_what_unpacks_to_more_than_a_chunk_may_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = squeezed([bytes(1 << 20)])
    assert len(loosened(bomb)) > 1 << 20
    monkeypatch.setattr(chunks, "LARGEST", 1 << 19)
    with pytest.raises(Damaged):
        loosened(bomb)


@pytest.mark.parametrize("count", [3, 5])
def test_a_spool_gives_back_what_it_was_given_and_goes_with_its_holder(count: int) -> None:
    open_before = set(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else set()
    spool, pieces = Spool(), [os.urandom(IN_MEMORY // 4) for _ in range(count)]
    starts = [spool.append(piece) for piece in pieces]
    for start, piece in reversed(list(zip(starts, pieces, strict=True))):
        assert spool.read(start, len(piece)) == piece
    assert spool.size == count * (IN_MEMORY // 4)
    del spool
    gc.collect()
    if open_before:
        assert len(os.listdir("/proc/self/fd")) <= len(open_before)
