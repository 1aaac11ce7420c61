"""An embedder elsewhere that is away: asked seldom, by one at a time, and believed again as soon as it answers."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.core.errors import ProviderBusy, ProviderDenied, ProviderDown, ProviderGarbled, ProviderRefused
from perdure.services.patience import PAUSE, Patient
from perdure.testing import FixedAmbient
from tests.services.shelved import Hashing


class Elsewhere(Hashing):
    """Raises what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: Any = None
        self.asked = 0

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.asked += 1
        if self.fails is not None:
            raise self.fails("no", provider="there", status=1)
        return super().embed(texts)


@pytest.mark.parametrize("error", [ProviderDown, ProviderDenied, ProviderGarbled, ProviderBusy])
def test_who_is_away_is_not_asked_again_for_a_while(error: Any) -> None:
    clock, there = FixedAmbient(), Elsewhere()
    patient, there.fails = Patient(there, clock.now), error
    for _ in range(3):
        with pytest.raises(error, match="no") as told:
            patient.embed(["tea"])
        assert told.value.fields == {"provider": "there", "status": 1}
    assert there.asked == 1
    clock.advance(PAUSE / 1e6)
    with pytest.raises(error):
        patient.embed(["tea"])
    there.fails = None
    with pytest.raises(error):
        patient.embed(["tea"])
    assert there.asked == 2
    clock.advance(PAUSE / 1e6)
    assert [len(patient.embed(["tea"])) for _ in range(3)] == [1, 1, 1]
    assert there.asked == 5
    assert (patient.name, patient.dimensions) == (there.name, there.dimensions)


def test_what_is_refused_of_one_text_is_asked_of_the_next() -> None:
    there = Elsewhere()
    patient, there.fails = Patient(there, FixedAmbient().now), ProviderRefused
    with pytest.raises(ProviderRefused):
        patient.embed(["tea"])
    there.fails = None
    assert len(patient.embed(["rain"])) == 1


def test_who_must_know_has_it_asked_again_at_once() -> None:
    there = Elsewhere()
    patient, there.fails = Patient(there, FixedAmbient().now), ProviderDown
    with pytest.raises(ProviderDown):
        patient.embed(["tea"])
    there.fails = None
    patient.ask_again()
    assert len(patient.embed(["tea"])) == 1


def test_while_one_asks_again_the_others_need_not_wait() -> None:
    asked, answer = threading.Event(), threading.Event()

    class Slow(Elsewhere):
        def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            if self.asked:
                asked.set()
                assert answer.wait(10)
            return super().embed(texts)

    clock, there = FixedAmbient(), Slow()
    patient, there.fails = Patient(there, clock.now), ProviderDown
    with pytest.raises(ProviderDown):
        patient.embed(["tea"])
    clock.advance(PAUSE / 1e6)
    there.fails = None
    waiting = threading.Thread(target=patient.embed, args=(["tea"],))
    waiting.start()
    assert asked.wait(10)
    with pytest.raises(ProviderDown):
        patient.embed(["rain"])
    answer.set()
    waiting.join()
    assert len(patient.embed(["rain"])) == 1
