"""Vectors as bytes to be kept."""

import numpy as np
import pytest

from perdure.indexes.packing import Packing


def test_what_is_packed_comes_back_nearly() -> None:
    given = np.random.default_rng(1).normal(size=(7, 2, 32)).astype(np.float32)
    packing = Packing("one", 32)
    packed = packing.pack(given)
    assert all(packing.fits(each) and each[0] == 1 for each in packed)
    numbers, scales = packing.unpack(packed)
    assert np.abs(numbers * scales[:, :, None] - given).max() <= np.abs(given).max() / 127


def test_packing_what_was_unpacked_changes_nothing() -> None:
    packing = Packing("one", 16)
    packed = packing.pack(np.random.default_rng(2).normal(size=(3, 2, 16)))
    numbers, scales = packing.unpack(packed)
    again = packing.pack(numbers * scales[:, :, None].astype(np.float64))
    assert [each[5 + 4 : 5 + 4 + 16] for each in again] == [each[5 + 4 : 5 + 4 + 16] for each in packed]


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x02" + b"x" * 40])
def test_other_bytes_do_not_fit(damage: bytes) -> None:
    assert not Packing("one", 16).fits(damage)


def test_vectors_of_another_name_or_size_do_not_fit() -> None:
    (packed,) = Packing("one", 16).pack(np.ones((1, 2, 16)))
    assert not Packing("two", 16).fits(packed)
    assert not Packing("one", 8).fits(packed)


def test_nothing_and_no_number_become_zeros() -> None:
    packing = Packing("one", 4)
    numbers, _ = packing.unpack(packing.pack([[[0.0] * 4, [float("nan")] * 4]]))
    assert not numbers.any()
