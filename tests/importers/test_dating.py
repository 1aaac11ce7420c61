"""When something was said, whichever way its source spells it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.events import Draft, Message, Noted, native
from perdure.importers.dating import beginning, dated, moment


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ("2024-03-01 09:00:01", "2024-03-01T09:00:01Z"),
        ("2024-03-01T09:00:01.250Z", "2024-03-01T09:00:01.250000Z"),
        ("2024-03-01T10:00:01+01:00", "2024-03-01T09:00:01Z"),
        (datetime(2024, 3, 1, 9), "2024-03-01T09:00:00Z"),  # noqa: DTZ001 - as a driver gives it
        (0, "1970-01-01T00:00:00Z"),
        (1.5, "1970-01-01T00:00:01.500000Z"),
        *[(held, None) for held in ("", "whenever", None, True, [], 1e300, float("nan"), "0001-01-01T00:00:00+02:00")],
    ],
)
def test_a_time_is_told_in_utc_or_not_at_all(held: Any, told: str | None) -> None:
    assert moment(held) == told


@given(st.datetimes(timezones=st.sampled_from([UTC])), st.integers(-14 * 60, 14 * 60))
def test_the_moment_is_the_same_in_every_zone(when: datetime, minutes: int) -> None:
    told = moment(when)
    assert told is not None
    assert datetime.fromisoformat(told) == when
    assert datetime.fromisoformat(told).utcoffset() == timedelta(0)


def test_what_is_said_keeps_its_item_beside_its_time() -> None:
    (said,) = native("x", {"a": 1}, [Message(role="user", content="Hello")])
    note = Noted(by="x", about="y", data=1)
    found = dated([Draft(said), Draft(note)], "2024-03-01T09:00:00Z")
    assert isinstance(found[0].payload, Message)
    assert found[0].payload.metadata == {**said.metadata, "said_at": "2024-03-01T09:00:00Z"}
    assert found[1].payload is note
    assert dated([said], None) == [said]


def test_a_session_begins_with_the_earliest_of_its_times() -> None:
    times = ["2024-03-01T09:00:00.500000Z", None, "2024-03-01T09:00:00Z"]
    assert beginning(times) == {"began_at": "2024-03-01T09:00:00Z"}
    assert beginning([None]) == {}
