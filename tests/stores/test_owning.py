"""Whose content each session's is, as a store remembers it."""

from perdure.ports.seal import CLEAR, Seal
from perdure.stores.owning import Owners
from perdure.stores.packing import Packing
from perdure.testing import Builder, FixedAmbient
from tests.sealing.conftest import keyring, masters

__all__ = ["keyring", "masters"]


def owners(seal: Seal) -> Owners:
    return Owners(Packing(seal))


def test_whoever_creates_a_session_in_vain_does_not_change_whose_it_is(keyring: Seal) -> None:
    make = Builder(FixedAmbient())
    made = make.create()
    known = owners(keyring)
    place = known.known(made.commit)
    assert place is not None
    known.made(made.commit, place)
    assert known.known(made.commit) != place  # somebody creates it again, and will be refused
    assert known.known(make.append(made).commit) == place


def test_a_clear_store_has_nothing_to_remember() -> None:
    made = Builder(FixedAmbient()).create()
    place = owners(CLEAR).known(made.commit)
    assert place is not None
    assert place.salt is None
