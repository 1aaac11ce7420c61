"""Memories out of files: in which order they come, and what leads to what."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.core.errors import BadExport
from perdure.core.memory.parts import Status
from perdure.core.memory.requests import MAX_CONTENT, Keeping
from perdure.edge.recollecting import Line, lines_of, waves

IDS = ("a", "b", "c", "d", "")


@st.composite
def files(draw: st.DrawFn) -> list[Line]:
    """Lines that supersede each other however they like, in circles too."""
    ids = draw(st.lists(st.sampled_from(IDS), max_size=8))
    return [
        Line(
            asked=Keeping(content=f"line {number}"),
            id=id,
            superseded_by=draw(st.sampled_from(IDS)),
            supersedes=tuple(draw(st.lists(st.sampled_from(IDS), max_size=3))),
        )
        for number, id in enumerate(ids)
    ]


@given(files())
def test_every_line_comes_once_and_after_those_it_supersedes(lines: list[Line]) -> None:
    seen, came = set[str](), list[str]()
    for wave in waves(lines):
        assert wave
        for line, over in wave:
            assert set(over) <= seen - {""}
            came.append(line.asked.content)
        seen |= {line.id for line, _ in wave}
    assert sorted(came) == sorted(line.asked.content for line in lines)


def document(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "fact", "content": f"memory {id}", "recorded_at": 1_000_000, "version": 3, **more}


def test_what_superseded_what_stays_so_whichever_comes_first_and_whoever_says_it() -> None:
    told = [
        document("new", supersedes=["old"]),
        document("old", status="superseded"),
        document("twin", status="superseded", superseded_by="new"),
        document("lone", status="superseded", superseded_by="not in the file"),
        document("ring", status="superseded", superseded_by="ring"),
    ]
    with perdure.open(":memory:", memory="none") as db:
        ana = db.memory("ana")
        done = ana.import_(json.dumps(one) for one in told)
        assert (done.kept, done.there) == (5, 0)
        by = {memory.content.removeprefix("memory "): memory for memory in ana.list(statuses=list(Status))}
        assert {name: memory.status.value for name, memory in by.items()} == {
            "new": "live",
            "old": "superseded",
            "twin": "superseded",
            "lone": "archived",
            "ring": "archived",
        }
        assert set(by["new"].supersedes) == {by["old"].id, by["twin"].id}


def test_an_import_that_broke_off_is_gone_on_with() -> None:
    told = [document("old", status="superseded", superseded_by="new"), document("new"), document("more")]
    with perdure.open(":memory:", memory="none") as db:
        ana = db.memory("ana")
        ana.import_(told[1:2])
        done = ana.import_(told)
        assert (done.kept, done.there) == (2, 1)
        assert sorted(memory.content for memory in ana.list()) == ["memory more", "memory new"]
        assert ana.import_(told).kept == 0


def test_fields_that_nobody_knows_are_metadata_and_those_of_a_log_are_not() -> None:
    raw = {**document("x"), "metadata": {"team": "desk"}, "team": "other", "room": 7, "accesses": 9, "flags": ["odd"]}
    line = lines_of([raw])[0]
    assert line.asked.metadata == {"team": "desk", "room": 7}
    assert line.asked.valid_from == 1_000_000


def test_a_line_that_is_too_long_is_named() -> None:
    with pytest.raises(BadExport, match="line 1"):
        lines_of(["x" * (MAX_CONTENT + 1)])
