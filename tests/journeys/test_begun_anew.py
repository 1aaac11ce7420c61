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
