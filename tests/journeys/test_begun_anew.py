"""A session that another process erased and began anew under its name is the new one, whatever was remembered."""

from pathlib import Path

import pytest

import perdure
from perdure import events as ev


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "clear"])
@pytest.mark.parametrize("words", [1, 9], ids=["shorter", "longer"])
def test_what_was_remembered_of_its_namesake_is_not_gone_on_from(tmp_path: Path, seal: bool, words: int) -> None:
    path = tmp_path / "shared.db"
    with perdure.open(path, seal=seal) as here, perdure.open(path, seal=seal) as there:
        old = here.create(name="n", owner="ana", vars={"old": "gone"})
        for n in range(4):
            old.append(ev.Message(role="user", content=f"old {n}"))
        there.named("n").erase()
        new = there.create(name="n", owner="bob", vars={"new": 1})
        for n in range(words):
            new.append(ev.Message(role="user", content=f"new {n}"))
        assert new.id == old.id
        assert old.info().owner == "bob"
        assert old.vars() == {"new": 1}
        assert old.append(ev.Message(role="user", content="from here")) == new.version()
        assert old.state() == new.state()
        assert here.verify().ok


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "clear"])
def test_what_its_namesake_would_have_refused_is_no_conflict(tmp_path: Path, seal: bool) -> None:
    path = tmp_path / "shared.db"
    with perdure.open(path, seal=seal) as here, perdure.open(path, seal=seal) as there:
        old = here.create(name="n", owner="ana")
        old.terminate()
        there.named("n").erase()
        new = there.create(name="n", owner="ana")
        while new.version() < old.version():
            new.append(ev.Message(role="user", content="new"))
        assert old.append(ev.Message(role="user", content="from here")) == new.version()
        assert here.verify().ok


def test_who_names_a_version_is_told_that_it_is_another_one_by_now(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    with perdure.open(path) as here, perdure.open(path) as there:
        old = here.create(name="n", owner="ana")
        old.append(ev.Message(role="user", content="old"))
        there.named("n").erase()
        there.create(name="n", owner="ana").append(ev.Message(role="user", content="new"))
        seen = old.state().version
        with pytest.raises(perdure.errors.VersionConflict, match="erased and begun anew"):
            old.append(ev.Message(role="user", content="from here"), expected=seen)
        assert old.append(ev.Message(role="user", content="from here"), expected=seen) == seen + 1
