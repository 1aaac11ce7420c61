"""Where a session stands is remembered between reads, and never longer than it is so."""

import os
from pathlib import Path

import pytest

import perdure
from perdure import errors
from perdure.events import Message

WORD = Message(role="user", content="a word")


@pytest.mark.parametrize("seal", [True, False])
def test_what_another_commits_is_seen_at_once(tmp_path: Path, seal: bool) -> None:
    path = tmp_path / "a.db"
    with perdure.open(path, seal=seal) as one, perdure.open(path) as other:
        assert one.find().items == ()
        with pytest.raises(errors.NotFound):
            one.named("s").version()
        session = other.create(name="s")
        for _ in range(20):
            assert one.named("s").version() == session.version()
            session.record([WORD])
            assert one.named("s").version() == session.version()
            one.named("s").record([WORD])
        session.erase()
        with pytest.raises(errors.NotFound):
            one.named("s").version()


async def test_tasks_see_what_another_commits_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await perdure.aopen(path) as one, await perdure.aopen(path) as other:
        session = await other.create(name="s")
        for _ in range(20):
            version = await session.record([WORD])
            assert await one.named("s").version() == version


def test_what_a_caller_does_to_a_row_stays_with_it(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "a.db") as db:
        session = db.create(metadata={"a": {"b": 1}})
        session.info().metadata["a"]["b"] = 2
        assert session.info().metadata == {"a": {"b": 1}}


def test_nothing_of_it_is_left_over_after_a_fork(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "a.db") as db:
        session = db.create()
        version = session.version()
        child = os.fork()
        if not child:
            seen = session.version() == version
            session.record([WORD])
            os._exit(0 if seen and session.version() > version else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert session.version() > version
        session.record([WORD])
        assert len(session.conversation()) == 2
