"""One library over several tiers: a session lands where its criticality asks for."""

from pathlib import Path

import pytest

import perdure
from perdure.core.errors import Invalid


def test_sessions_land_where_they_ask_and_outlive_the_process_accordingly(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    with perdure.open({"L0": ":memory:", "L1": file}, seal=False) as db:
        passing = db.create("passing", config={"criticality": "ephemeral"})
        lasting = db.create("lasting", config={"criticality": "standard"})
        for session in (passing, lasting):
            with session.turn("hello") as turn:
                turn.answer("good day")
        branch = passing.branch(title="what if")
        assert {row.title for row in db.find().items} == {"passing", "lasting", "what if"}
        assert branch.turns()[0].messages[-1].content == "good day"
        assert db.verify().ok
        seen = db.position()
        lasting.append(perdure.events.Feedback(rating=5))
        assert next(db.watch(after=seen)).session == lasting.id
    with perdure.open(file) as db:
        assert [row.title for row in db.find().items] == ["lasting"]


def test_nobody_gets_less_than_asked_for(tmp_path: Path) -> None:
    with perdure.open({"L0": ":memory:", "L1": tmp_path / "a.db"}, seal=False) as db:
        with pytest.raises(Invalid, match="needs tier L2"):
            db.create(config={"criticality": "critical"})
        with pytest.raises(Invalid, match="not a criticality"):
            db.create(config={"criticality": "vital"})
        assert db.count() == 0
    with perdure.open(":memory:") as db, pytest.raises(Invalid, match="needs tier L1"):
        db.create(config={"criticality": "standard"})


@pytest.mark.parametrize(
    ("places", "match"),
    [
        ({}, "each tier"),
        ({"L9": "a.db"}, "each tier"),
        ({"L2": "a.db"}, "durable enough"),
        ({"L1": ":memory:"}, "durable"),
    ],
)
def test_what_is_no_set_of_tiers_is_refused_and_leaves_nothing(
    places: dict[str, str], match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=match):
        perdure.open(places)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seal", [False, None])
def test_sessions_show_pictures_in_every_tier(tmp_path: Path, seal: bool | None) -> None:
    file, picture = tmp_path / "agent.db", bytes(range(256)) * 2000
    with perdure.open({"L0": ":memory:", "L1": file}, seal=seal) as db:
        ref = db.blobs.put(picture, media_type="image/png")
        passing = db.create("passing", config={"criticality": "ephemeral"})
        lasting = db.create("lasting", vars={"logo": ref})
        passing.append(perdure.events.Message(role="user", content=["look", ref]))
        db.blobs.collect(0)
        assert db.blobs.get(ref) == picture
        lasting.erase()
        db.blobs.collect(0)
        assert db.blobs.get(ref) == picture
        assert db.verify().ok
        lines = passing.export()
        passing.erase()
        db.import_jsonl(lines)
        db.blobs.collect(0)
    with perdure.open(file) as db:
        assert db.blobs.get(ref) == picture
        assert [item.used for item in db.blobs.list().items] == [True]
        assert db.verify().ok
