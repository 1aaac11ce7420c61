"""R14, R17 in a real file: content that was changed, or moved to another place, is an error and never an answer."""

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors, events


class Two:
    """A store with two sessions of the same shape, closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with perdure.open(path) as db:
            self.one, self.two = (self._session(db, name) for name in ("one", "two"))

    def _session(self, db: perdure.Perdure, name: str) -> str:
        session = db.create(f"title {name}", tags=[name], metadata={"name": name}, vars={"name": name})
        for number in range(4):
            session.append(events.Message(role="user", content=f"{name} {number} " * 20))
        session.checkpoint(f"label {name}", {"name": name})
        session.patch_vars(number=1)
        session.checkpoint(f"second {name}")
        return session.id

    def change(self, *statements: str) -> None:
        """Edit the file as someone could who has no key."""
        with sqlite3.connect(self.path) as connection:
            for statement in statements:
                assert connection.execute(statement).rowcount > 0, f"changed nothing: {statement}"
        connection.close()

    def ask(self, question: Callable[[perdure.Session], Any]) -> Any:
        with perdure.open(self.path) as db:
            return question(db.session(self.one))


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path / "two.db")


def number(name: str) -> str:
    """The session's number in the file: they were made in this order."""
    return {"one": "1", "two": "2"}[name]


SWAP_RECORDS = (
    "UPDATE record SET body = (SELECT o.body FROM record AS o WHERE o.session = 2 AND o.first = record.first)"
)
MOVES = {
    "a record of another session": (SWAP_RECORDS + " WHERE session = 1 AND first = 4",),
    "a record with its digest": (
        SWAP_RECORDS.replace(
            "SET body",
            "SET digest = (SELECT o.digest FROM record AS o WHERE o.session = 2 AND o.first = record.first), body",
        )
        + " WHERE session = 1 AND first = 4",
    ),
    "another record of the same session": (
        "UPDATE record SET body = (SELECT body FROM record WHERE position = 5) WHERE position = 4",
    ),
    "all records": ("DELETE FROM record WHERE session = 1", "UPDATE record SET session = 1 WHERE session = 2"),
    "the salt": ("UPDATE session SET salt = (SELECT salt FROM session WHERE no = 2) WHERE no = 1",),
    "the tenant": ("UPDATE session SET tenant = 'other' WHERE no = 1",),
}


@pytest.mark.parametrize("what", MOVES)
def test_a_moved_record_does_not_open(two: Two, what: str) -> None:
    two.change(*MOVES[what])
    with pytest.raises((errors.Tampered, errors.NotFound)) as found:
        two.ask(lambda session: session.events())
    assert what == "the tenant" or not isinstance(found.value, errors.NotFound)


def test_a_moved_card_does_not_open(two: Two) -> None:
    two.change("UPDATE session SET card = (SELECT card FROM session WHERE no = 2) WHERE no = 1")
    with pytest.raises(errors.Damaged, match="card"):
        two.ask(lambda session: session.info())
    with perdure.open(two.path) as db, pytest.raises(errors.Damaged):
        db.find(title="title")


def test_a_card_in_the_clear_is_not_believed(two: Two) -> None:
    two.change("UPDATE session SET card = NULL, title = 'forged' WHERE no = 1")
    with pytest.raises(errors.Damaged, match="in the clear"):
        two.ask(lambda session: session.info())


def test_a_moved_snapshot_is_passed_over(two: Two) -> None:
    """It is a cache: the log gives the right answer."""
    with perdure.open(two.path, snapshots=perdure.SnapshotPolicy(events=1)) as db:
        for session in (two.one, two.two):
            for text in range(3):
                db.session(session).append(events.Message(role="user", content=f"{text}"))
        truth = db.session(two.one).state()
    two.change(
        "UPDATE snapshot SET state_blob = (SELECT o.state_blob FROM snapshot AS o WHERE o.session = 2 "
        "AND o.version = snapshot.version) WHERE session = 1"
    )
    assert two.ask(lambda session: session.state()) == truth
    report = two.ask(lambda session: session.verify())
    assert [problem.place for problem in report.problems] == ["snapshot"] * len(report.problems) != []


@pytest.mark.parametrize("column", ["payload", "label"])
def test_a_moved_checkpoint_is_found_and_rebuilt_or_refused(two: Two, column: str) -> None:
    two.change(
        f"UPDATE checkpoint SET {column} = (SELECT o.{column} FROM checkpoint AS o WHERE o.session = 2 "
        "AND o.seq = checkpoint.seq) WHERE session = 1"
    )
    if column == "label":
        with pytest.raises(errors.Damaged, match="label"):
            two.ask(lambda session: session.checkpoints())
        return
    with perdure.open(two.path) as db:
        session = db.session(two.one)
        assert not session.verify().ok
        restored = session.restore(session.checkpoints()[-1].id)
        assert restored.rebuilt
        assert restored.state.vars.document == {"name": "one", "number": 1}


def test_a_copied_label_finds_nothing_of_another_store(two: Two, tmp_path: Path) -> None:
    """Keyed hashes belong to one vault: a dictionary made with another tells nothing."""
    other = Two(tmp_path / "other.db")
    found = []
    for store in (two, other):
        with sqlite3.connect(store.path) as connection:
            found.append({value for (value,) in connection.execute("SELECT value FROM label")})
        connection.close()
    assert len(found[0]) == 4
    assert not found[0] & found[1]


def flipped(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(changed)


QUESTIONS: dict[str, tuple[str, str, Callable[[perdure.Session], Any]]] = {
    "record": ("session", "body", lambda session: session.events()),
    "session": ("no", "card", lambda session: session.info()),
    "checkpoint": ("session", "payload", lambda session: session.verify()),
}


@pytest.mark.parametrize("table", QUESTIONS)
def test_any_flipped_bit_of_sealed_content_is_found(two: Two, table: str) -> None:
    whose, column, question = QUESTIONS[table]
    chance = random.Random(7)
    with sqlite3.connect(two.path) as connection:
        rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {whose} = 1").fetchall()
        for _ in range(20):
            row, content = chance.choice(rows)
            change = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
            connection.execute(change, (flipped(content, chance), row))
            connection.commit()
            if table == "checkpoint":
                assert [problem.place for problem in two.ask(question).problems] == ["checkpoint"]
            else:
                with pytest.raises(errors.Tampered):
                    two.ask(question)
            connection.execute(change, (content, row))
            connection.commit()
    connection.close()
    assert two.ask(lambda session: session.verify()).ok
