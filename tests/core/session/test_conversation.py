"""The conversation item by item: what stands of it once parts were taken out."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.session.conversation import items_of
from perdure.core.session.event import Event, Payload
from perdure.core.session.transcript import standing
from perdure.core.session.turns import Message, Retracted, TurnFinished, TurnStarted, said
from tests.core.session.logbook import event_of

SPOKEN = st.sampled_from(
    [
        Message(role="user", content="hello"),
        Message(role="assistant", content="hi"),
        TurnStarted(),
        TurnStarted(content="how?"),
        TurnFinished(),
        TurnFinished(content="so"),
    ]
)
VERSIONS = st.integers(0, 45)
RETRACTED = st.builds(lambda first, upto: Retracted(first=first, upto=upto), VERSIONS, VERSIONS)
LOGS = st.lists(st.tuples(SPOKEN | RETRACTED, st.sampled_from([None, 1, 2, 3])), max_size=40)


def log(parts: Iterable[tuple[Payload, int | None]], first: int = 1) -> list[Event]:
    return [event_of(payload, version, turn=turn) for version, (payload, turn) in enumerate(parts, first)]


def by_definition(events: list[Event]) -> list[Event]:
    """Every event beside every retraction; and a turn goes that lost something and has nothing left to say."""
    ranges = [(item.data.first, item.data.upto) for item in events if isinstance(item.data, Retracted)]
    out = [event for event in events if any(first <= event.version <= upto for first, upto in ranges)]
    lost = {event.version for event in out}
    kept = [event for event in events if event.version not in lost]
    speaking = {event.turn for event in kept if said(event.data) is not None}
    shells = {event.turn for event in out if event.turn is not None} - speaking
    return [event for event in kept if event.turn not in shells]


def versions(events: list[Event]) -> list[int]:
    return [event.version for event in events]


@given(LOGS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_what_stands_is_what_no_retraction_covers(parts: list[Any], first: int, chance: Any) -> None:
    events = log(parts, first)
    assert versions(standing(events)) == versions(by_definition(events))
    shuffled = list(events)
    chance.shuffle(shuffled)
    assert versions(standing(shuffled)) == versions(by_definition(shuffled))


@given(LOGS)
def test_the_items_are_those_of_the_events_that_stand(parts: list[Any]) -> None:
    events = log(parts)
    assert [item.first for item in items_of(events)] == [
        event.version for event in by_definition(events) if said(event.data) is not None
    ]


class Counted(int):
    """A version that counts how often it is compared."""

    seen = 0

    def _count(self) -> int:
        Counted.seen += 1
        return int(self)

    def __lt__(self, other: int) -> bool:
        return self._count() < int(other)

    def __le__(self, other: int) -> bool:
        return self._count() <= int(other)

    def __gt__(self, other: int) -> bool:
        return self._count() > int(other)

    def __ge__(self, other: int) -> bool:
        return self._count() >= int(other)


def test_a_log_of_many_retractions_is_looked_through_once() -> None:
    many = 500
    words = [(Message(role="user", content=str(number)), None) for number in range(2 * many)]
    taken = [(Retracted(first=Counted(2 * number + 1), upto=Counted(2 * number + 1)), None) for number in range(many)]
    events = log([*words, *taken])
    Counted.seen = 0
    assert [item.first for item in items_of(events)] == list(range(2, 2 * many + 1, 2))
    assert Counted.seen < 50 * many  # each with each would be hundreds of thousands
