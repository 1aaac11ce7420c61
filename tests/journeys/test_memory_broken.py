"""What broke memory once: each of these was done to it as a user, or an attacker, would."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure.core.errors import BadExport, Invalid, MemoryRefused
from perdure.core.memory.parts import Status

DAYS = 10**15
"""Microseconds: some years after 1970, lest they be taken for seconds."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[perdure.Perdure]:
    with perdure.open(tmp_path / "agent.db", seal=False, memory="none") as opened:
        yield opened


def test_a_key_whose_memory_was_forgotten_is_refused_and_keeps_nothing(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    ana.forget(ana.add("the code is 4711", key="once").id)
    with pytest.raises(MemoryRefused, match="fresh key") as refused:
        ana.add("the code is 4711", key="once")
    assert refused.value.fields["reason"] == "forgotten"
    assert not [*ana.list()]


def test_a_change_does_not_make_a_memory_end_before_it_begins(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    one = ana.add("the bridge is closed", valid_from=2 * DAYS, valid_to=3 * DAYS)
    for change in ({"valid_to": DAYS}, {"valid_from": 3 * DAYS}):
        with pytest.raises(Invalid, match="turn them round"):
            ana.update(one.id, **change)
    assert ana.update(one.id, valid_to=2 * DAYS + 1) == ana.get(one.id)
    assert ana.update(one.id, valid_from=5 * DAYS, valid_to=6 * DAYS).valid_from == 5 * DAYS


@pytest.mark.parametrize("away", ["archive", "quarantine"])
def test_what_was_superseded_before_it_was_put_away_is_so_when_it_comes_back(db: perdure.Perdure, away: str) -> None:
    ana = db.memory("ana")
    old = ana.add("Ana lives in Lisbon", valid_from=DAYS)
    new = ana.update(old.id, content="Ana lives in Porto")
    before = ana.get(old.id)
    assert getattr(ana, away)(old.id) == ana.restore(old.id) == 1
    assert ana.get(old.id) == before
    assert [found.memory.id for found in ana.search("where Ana lives")] == [new.id]


def test_what_took_its_place_and_is_forgotten_takes_a_form_with_it_that_was_put_away(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    old = ana.add("the code is 4711")
    new = ana.update(old.id, content="the code is 4712")
    ana.archive(old.id)
    assert ana.forget(new.id) == 2  # with what it took the place of
    assert not ana.export()


def test_metadata_is_the_same_whether_it_was_kept_or_changed(db: perdure.Perdure) -> None:
    ana, fields = db.memory("ana"), {"raw": b"\x00\xff", "of": {1, 2}}
    one, other = ana.add("tea", metadata=fields), ana.add("rain")
    assert ana.update(other.id, metadata=fields).metadata == one.metadata
    before = ana.stats().version
    ana.update(other.id, metadata=fields)
    assert ana.stats().version == before


@pytest.mark.parametrize("line", ['{"content": "tea", "metadata": "x"}', '{"content": "tea", "metadata": [1]}'])
def test_a_line_whose_metadata_are_none_is_named(db: perdure.Perdure, line: str) -> None:
    with pytest.raises(BadExport, match="line 2"):
        db.memory("ana").import_(["rain", line])
    assert not [*db.memory("ana").list()]


def test_a_line_that_is_nested_too_deeply_is_named(db: perdure.Perdure) -> None:
    deep = '{"content": "tea", "metadata": ' + '{"a":' * 50_000 + "1" + "}" * 50_001
    with pytest.raises(BadExport, match="line 1"):
        db.memory("ana").import_([deep])


def test_an_export_is_taken_in_whatever_times_its_memories_have(db: perdure.Perdure) -> None:
    ana, ben = db.memory("ana"), db.memory("ben")
    ana.add("the fair was in May", valid_to=5 * DAYS)
    red = ana.add("the tower is red", valid_from=9 * DAYS)
    ana.update(red.id, content="the tower is blue", valid_from=7 * DAYS)
    sea = ana.add("Ana lives at the sea")
    ana.update(sea.id, content="Ana lives in the hills", valid_from=8 * DAYS)
    assert ben.import_(ana.export()).kept == 5
    assert [ben.import_(ana.export()).kept, ana.import_(ana.export()).kept, ana.import_(ben.export()).kept] == [0, 0, 0]
    told = [[(one.content, one.status, one.valid_to) for one in space.list(statuses=[*Status])] for space in (ana, ben)]
    assert sorted(told[0]) == sorted(told[1])


def test_a_source_that_is_misspelt_is_refused(db: perdure.Perdure) -> None:
    with pytest.raises(Invalid, match=r"sesion.*session"):
        db.memory("ana").add("tea", source={"kind": "user", "sesion": "s-17"})
