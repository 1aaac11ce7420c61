"""One library over several tiers: a session lands where its criticality asks for."""

from pathlib import Path

import pytest

import perdure
from perdure.core.errors import Invalid, Refused


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


def test_a_session_that_asks_for_more_than_its_tier_is_refused_and_told_the_way(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    with perdure.open({"L0": ":memory:", "L1": file}, seal=False) as db:
        passing = db.create("passing", config={"criticality": "ephemeral"})
        with pytest.raises(Refused, match=r"export it, erase it here and import it.* tier L1"):
            passing.configure(config={"criticality": "standard"})
        with pytest.raises(Refused, match="tier L0"):
            passing.configure(config={"criticality": None})
        with pytest.raises(Invalid, match="needs tier L2"):
            passing.configure(config={"criticality": "critical"})
        with pytest.raises(Refused, match="create one that is standard"):
            passing.branch(config={"criticality": "standard"})
        assert passing.state().config.criticality == "ephemeral"
        passing.configure(title="still passing")
        lines = list(passing.export())
        passing.erase()
        db.import_jsonl(lines)
        db.session(passing.id).configure(config={"criticality": "standard"})
    with perdure.open(file) as db:
        assert [row.title for row in db.find().items] == ["still passing"]


def test_a_session_may_ask_for_less_than_it_has(tmp_path: Path) -> None:
    with perdure.open({"L0": ":memory:", "L1": tmp_path / "a.db"}, seal=False) as db:
        lasting = db.create(config={"criticality": "standard"})
        lasting.configure(config={"criticality": "ephemeral"})
        assert lasting.state().config.criticality == "ephemeral"


def test_one_store_does_not_promise_what_it_cannot_keep_either() -> None:
    with perdure.open(":memory:") as db, pytest.raises(Invalid, match="needs tier L1"):
        db.create().configure(config={"criticality": "standard"})


def test_tiers_are_backed_up_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    with perdure.open({"L0": ":memory:", "L1": file}, seal=False) as db:
        db.create("kept", config={"criticality": "standard"})
        with pytest.raises(Refused, match="open each one by its own path"):
            db.backup(tmp_path / "backup.db")
    with perdure.open(file) as db:
        assert db.backup(tmp_path / "backup.db").path == str(tmp_path / "backup.db")


def test_one_file_is_not_two_tiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.db").symlink_to(tmp_path / "same.db")
    for again in ("same.db", "./same.db", tmp_path / "same.db", "other.db"):
        with pytest.raises(Invalid, match="L0 and L1 are the same place"):
            perdure.open({"L0": "same.db", "L1": again}, seal=False)
    server = "postgresql://nowhere/x"
    with pytest.raises(Invalid, match="L1 and L2 are the same place"):
        perdure.open({"L1": server, "L2": server})
    assert [path.name for path in tmp_path.iterdir()] == ["other.db"]
