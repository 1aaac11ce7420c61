"""What is recorded and what it changes, in this session and in others, is one append."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure import errors
from perdure.events import Message

HELLO = Message(role="user", content="hello")


@pytest.fixture(params=[":memory:", "here.db"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[perdure.Perdure]:
    path = request.param if request.param == ":memory:" else tmp_path / request.param
    with perdure.open(path) as opened:
        yield opened


def test_fields_of_vars_change_with_what_is_recorded(db: perdure.Perdure) -> None:
    session = db.create(vars={"kept": 1, "changed": [1]})
    version = session.version()
    session.record(HELLO, vars={"changed": [1, 2], "new": None})
    assert session.vars() == {"kept": 1, "changed": [1, 2], "new": None}
    assert {event.kind for event in session.events(after=version)} == {"turn_started", "message", "vars_patched"}
    session.record(HELLO, vars={"new": None})
    assert session.events()[-1].kind == "message"
    assert session.verify().ok


def test_vars_of_other_sessions_change_with_it_or_not_at_all(db: perdure.Perdure) -> None:
    session, one, two = db.create(), db.create(vars={"kept": 1}), db.create(vars={"same": 1})
    seen = session.record(HELLO, others={one.id: {"n": 1}, two.id: {"same": 1}}, key="k")
    assert (one.vars(), two.vars()) == ({"kept": 1, "n": 1}, {"same": 1})
    stood = one.version(), two.version()
    assert session.record(HELLO, others={one.id: {"n": 1}, two.id: {"same": 1}}, key="k") == seen
    with pytest.raises(errors.VersionConflict):
        session.record(HELLO, others={one.id: {"n": 2}}, expected=seen - 1)
    with pytest.raises(errors.NotFound):
        session.record(HELLO, others={one.id: {"n": 2}, db.named("none").id: {"n": 2}}, expected=seen)
    with pytest.raises(errors.Invalid):
        session.record(HELLO, others={"no id": {"n": 2}})
    assert (one.version(), two.version(), session.version()) == (*stood, seen)
    assert all(item.verify().ok for item in (session, one, two))


def test_sessions_that_change_the_same_other_at_once_all_get_in(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "here.db") as db, perdure.open(tmp_path / "here.db") as again:
        shared = db.create()
        failed: list[BaseException] = []

        def write(number: int) -> None:
            try:
                store = again if number % 2 else db
                session = store.create()
                for step in range(5):
                    version = session.version()
                    session.record(HELLO, others={shared.id: {f"{number}.{step}": step}}, expected=version)
            except errors.PerdureError as error:
                failed.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert shared.vars() == {f"{number}.{step}": step for number in range(6) for step in range(5)}
