"""The store in front of cold storage: for how long it remembers that a bundle was not there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure import errors
from perdure.services.cooling import RETRY
from perdure.testing import FixedAmbient

HOUR = 3600 * 1_000_000


@pytest.fixture
def ambient() -> FixedAmbient:
    return FixedAmbient()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cold"


@pytest.fixture
def session(tmp_path: Path, place: Path, ambient: FixedAmbient) -> Iterator[perdure.Session]:
    """An archived session whose bundle was looked for in vain, and has come back since."""
    path = tmp_path / "store.db"
    with perdure.open(path, seal=False, cold=place, ambient=ambient) as db:
        made = db.create("away")
        with made.turn("Hello") as turn:
            turn.answer("Hi!")
        made.complete()
        made.archive()
    with perdure.open(path, cold=place, ambient=ambient) as db:
        found = db.session(made.id)
        place.rename(place.with_name("elsewhere"))
        with pytest.raises(errors.BundleMissing):
            found.turns()
        place.with_name("elsewhere").rename(place)
        yield found


def test_a_bundle_that_was_missing_is_not_asked_for_again_for_a_moment(
    session: perdure.Session, ambient: FixedAmbient
) -> None:
    ambient._now += RETRY - 1
    with pytest.raises(errors.BundleMissing):
        session.turns()
    ambient._now += 1
    assert len(session.turns()) == 1


def test_a_clock_set_back_does_not_prolong_that(session: perdure.Session, ambient: FixedAmbient) -> None:
    ambient._now -= HOUR
    assert len(session.turns()) == 1


def test_a_clock_set_forward_ends_it(session: perdure.Session, ambient: FixedAmbient) -> None:
    ambient._now += HOUR
    assert len(session.turns()) == 1
