"""What does not fit is found before anything is written."""

from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.events import Draft, Message, Noted, Payload
from perdure.importers.fitting import BATCH_BYTES, batches, name_refusal, refusals, row_refusal


def said(content: Any) -> list[Payload]:
    return [Message(role="user", content=content)]


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def test_items_go_together_up_to_a_number_and_a_size() -> None:
    small = [said(str(number)) for number in range(7)]
    assert [len(batch) for batch in batches(small, 3)] == [3, 3, 1]
    large = [said("x" * (BATCH_BYTES // 2 - 1000)) for _ in range(5)]
    assert [len(batch) for batch in batches(large, 3)] == [2, 2, 1]
    assert [len(batch) for batch in batches([*large[:1], said("x" * (2 * BATCH_BYTES)), *small], 9)] == [1, 1, 7]


@pytest.mark.parametrize("keyed", [False, True])
def test_of_each_item_that_does_not_fit_it_is_told_why(keyed: bool) -> None:
    items = [
        said("one"),
        said("x" * (17 << 20)),
        said("two"),
        said("\ud800"),
        said(deep(100)),
        said(2**70),
        said("end"),
    ]
    found = perdure.drive(refusals(items, keyed=keyed))
    assert [index for index, why in enumerate(found) if why is not None] == [1, 3, 4, 5]
    assert found[1] == "it does not fit: more than 16777216 bytes"


@pytest.mark.parametrize("keyed", [False, True])
def test_what_is_found_to_fit_is_taken(keyed: bool) -> None:
    """At the very limit, where what is written around an item decides."""
    with perdure.open(":memory:") as db:
        for size in range((16 << 20) - 300, (16 << 20), 20):
            item = [Draft(Noted(by="x", about="y", data="x" * size))]
            (why,) = perdure.drive(refusals([item], keyed=keyed))
            taken = None
            try:
                db.create().record(item, key=f"key {size}" if keyed else None)
            except errors.TooLarge as error:
                taken = error
            assert (why is None) == (taken is None)


def test_a_row_and_a_name_are_tried_too() -> None:
    assert perdure.drive(row_refusal(name="a", vars={"k": 1}, metadata={"m": [1]}, tags=["t"])) is None
    assert perdure.drive(row_refusal(name="a", vars={"k": "x" * (5 << 20)})) == (
        "it does not fit: more than 4194304 bytes"
    )
    with perdure.open(":memory:") as db:
        assert name_refusal(db.aio, "a") is None
        for name in ("", "x" * 1001, "\udcff"):
            assert (name_refusal(db.aio, name) or "").startswith("it does not fit: ")
        assert db.count() == 0
