"""Finding by labels in a file: the same rows in the same order, whichever way the engine goes to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.stores.sqlite import finding

ASKED: list[dict[str, Any]] = [
    {"metadata": {"third": 0}},
    {"metadata": {"third": 1, "odd": True}},
    {"tags": ["every"], "metadata": {"third": 2}},
    {"tags": ["every", "rare"]},
    {"tags": ["nobody's"]},
    {"tags": ["every"], "metadata": {"number": 7}},
    {"tags": ["every"], "owner": "ana", "title": "7"},
]


@pytest.fixture(scope="module", params=[False, True], ids=["clear", "sealed"])
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[perdure.Perdure]:
    path: Path = tmp_path_factory.mktemp("finding") / "here.db"
    with perdure.open(path, seal=request.param) as opened:
        for number in range(40):
            opened.create(
                f"no {number}",
                owner="ana" if number % 2 else "bob",
                tags=["every", "rare"] if number in (3, 30) else ["every"],
                metadata={"third": number % 3, "odd": bool(number % 2), "number": number},
            )
        yield opened


def matches(row: Any, asked: dict[str, Any]) -> bool:
    labelled = set(asked.get("tags", ())) <= set(row.tags)
    held = all(row.metadata.get(name) == value for name, value in asked.get("metadata", {}).items())
    return labelled and held and asked.get("owner", row.owner) == row.owner and asked.get("title", "") in row.title


@pytest.mark.parametrize("few", [0, 1, 3, 14, 1000])
@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("order", ["created", "active"])
def test_rare_labels_and_common_ones_find_the_same(
    db: perdure.Perdure, asked: dict[str, Any], few: int, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "FEW", few)
    everything = db.find(limit=100, order=order).items
    expected = [row.session for row in everything if matches(row, asked)]
    found: list[str] = []
    cursor = None
    while True:
        page = db.find(limit=3, cursor=cursor, order=order, **asked)
        found += [row.session for row in page.items]
        if (cursor := page.cursor) is None:
            break
    assert found == expected
    assert db.count(**asked) == len(expected)
