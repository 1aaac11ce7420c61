"""What callers may rely on where two things meet: a torn log, a late cap, a slip of the pen, a race for one key."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure import Config, errors, events
from perdure.core.session.shown import shown
from tests.journeys.conftest import Place


@pytest.fixture
def db(place: Place) -> Iterator[perdure.Perdure]:
    with perdure.open(place.at("sessions.db")) as opened:
        yield opened


# ── a torn log ──

READS: dict[str, Callable[[perdure.Session], Any]] = {
    "the last turns": lambda branch: branch.turns(last=1),
    "an agent's tail": lambda branch: branch.tail("x"),
    "a rewind": lambda branch: branch.rewind(1),
    "a branch": lambda branch: branch.branch(),
    "a branch at an own version": lambda branch: branch.branch(branch.version() - 1),
    "an edit": lambda branch: branch.edit(2, "x"),
    "all events": lambda branch: branch.events(),
}


@pytest.mark.parametrize("what", READS)
def test_a_shared_log_without_its_end_is_never_passed_over(tmp_path: Path, what: str) -> None:
    path = tmp_path / "torn.db"
    with perdure.open(path) as db:
        session = db.create()
        for number in range(3):
            with session.turn(f"q{number}") as turn:
                turn.answer(f"a{number}")
        branch = session.branch()
        branch.append(events.Feedback())
        name = branch.id
    with apsw.Connection(str(path)) as file:
        file.execute("delete from record where session=1 and first=(select max(first) from record where session=1)")
    with perdure.open(path) as db, pytest.raises(errors.Damaged):
        READS[what](db.session(name))


# ── money ──


def spent_over_branches(session: perdure.Session) -> int:
    spent = 0
    for _ in range(4):
        branch = session.branch()
        try:
            branch.reserve("r", 400)
        except errors.BudgetExhausted:
            continue
        branch.settle("r", 400)
        spent += 400
    return spent


def test_a_change_of_configuration_leaves_the_fields_it_does_not_name(db: perdure.Perdure) -> None:
    session = db.create(config={"max_cost": 1000, "system_prompt": "be brief"})
    session.configure(config={"model": "m"})
    config = session.state().config
    assert (config.model, config.max_cost, config.system_prompt) == ("m", 1000, "be brief")
    assert session.account().cap == 1000
    assert spent_over_branches(session) == 800


def test_a_whole_configuration_replaces_all_but_the_cap(db: perdure.Perdure) -> None:
    session = db.create(config={"max_cost": 1000, "system_prompt": "be brief"})
    session.configure(config=Config(model="m"))
    assert session.state().config == Config(model="m", max_cost=1000)
    session.configure(config=Config(max_cost=500))
    assert session.account().cap == 500


def test_a_cap_is_removed_by_name(db: perdure.Perdure) -> None:
    session = db.create(config={"max_cost": 1000})
    session.configure(config={"max_cost": None})
    assert session.account().cap is None
    session.reserve("r", 5000)


def test_a_cap_that_comes_late_is_shared_with_branches(db: perdure.Perdure) -> None:
    session = db.create()
    session.reserve("before", 100)
    session.settle("before", 100)
    session.reserve("open", 50)
    session.configure(config={"max_cost": 1000})
    account = session.account()
    assert (account.cap, account.spent, account.reserved) == (1000, 100, 50)
    assert session.info().account == session.id
    assert spent_over_branches(session) == 800
    assert db.account(session.id) == session.account()
    assert db.verify().ok


def test_an_imported_cap_is_shared_with_branches(db: perdure.Perdure) -> None:
    session = db.create(config={"max_cost": 1000})
    session.reserve("before", 300)
    session.settle("before", 300)
    with perdure.open(":memory:") as other:
        brought = other.import_jsonl(session.export())
        assert (brought.account().cap, brought.account().spent) == (1000, 300)
        assert spent_over_branches(brought) == 400
        assert brought.account() == other.account(brought.id)
        assert brought.account().spent == 700


# ── settling conflicts ──


def in_conflict(db: perdure.Perdure) -> tuple[perdure.Session, str]:
    session = db.create(vars={"a": 1})
    branch = session.branch()
    session.patch_vars(a=2)
    branch.patch_vars(a=3)
    return session, session.merge(branch).conflict_id


def test_ours_is_what_is_there_now(db: perdure.Perdure) -> None:
    session, conflict = in_conflict(db)
    session.patch_vars(a=99)
    session.resolve(conflict, {"vars.a": "ours"})
    assert session.vars() == {"a": 99}
    assert not session.state().links.conflicts


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ("theirs", 3),
        ("base", 1),
        ({"value": "theirs"}, "theirs"),
        ({"value": {"value": 1}}, {"value": 1}),
        ({"x": 1}, {"x": 1}),
        (7, 7),
        (None, None),
    ],
)
def test_a_conflict_is_settled_by_a_side_or_a_value(db: perdure.Perdure, choice: Any, found: Any) -> None:
    session, conflict = in_conflict(db)
    session.resolve(conflict, {"vars.a": choice})
    assert session.vars() == {"a": found}


@pytest.mark.parametrize("choices", [{"vars.a": "thiers"}, {"vars.a": ""}, {"vars.a": object()}, {1: "ours"}, [], None])
def test_a_slip_settles_nothing(db: perdure.Perdure, choices: Any) -> None:
    session, conflict = in_conflict(db)
    version = session.version()
    with pytest.raises(errors.Invalid):
        session.resolve(conflict, choices)
    assert (session.version(), session.vars()) == (version, {"a": 2})


def test_a_pruned_branch_merges_from_where_it_began(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": 1, "gone": 1})
    began = session.version()
    branch = session.branch()
    branch.set_vars({"a": 2})
    branch.write_scratchpad("x")
    branch.write_scratchpad("y")
    branch.prune(branch.version() - 1)
    report = session.merge(branch)
    assert (report.merged, report.base_version) == (True, began)
    assert session.vars() == {"a": 2}


def test_a_parent_merges_into_its_pruned_branch_from_where_that_began(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": 1, "gone": 1})
    branch = session.branch()
    branch.write_scratchpad("x")
    branch.write_scratchpad("y")
    branch.prune(branch.version() - 1)
    session.set_vars({"a": 2})
    assert branch.merge(session).merged
    assert branch.vars() == {"a": 2}


# ── keys ──


def test_a_key_served_elsewhere_meanwhile_gives_the_first_answer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.at("shared.db")
    with perdure.open(path) as one, perdure.open(path) as other:
        theirs = other.create(config={"max_cost": 100})
        theirs.reserve("m", 10)
        ours = one.session(theirs.id)
        answers: list[int] = []
        append = place.engine.append

        async def overtaken(self: Any, commits: Any) -> int:
            if not answers:
                answers.append(0)
                answers[0] = theirs.settle("m", 5, key="k")
            position: int = await append(self, commits)
            return position

        monkeypatch.setattr(place.engine, "append", overtaken)
        assert ours.settle("m", 5, key="k") == answers[0]
        assert ours.account().spent == 5


def test_a_refusal_with_a_fresh_key_stays_one(db: perdure.Perdure) -> None:
    session = db.create()
    with pytest.raises(errors.NotFound):
        session.settle("m", 5, key="k")


def test_a_key_for_a_session_of_a_chosen_id_fits_no_other_id(db: perdure.Perdure) -> None:
    first, second = "0192f0c4-7d1e-7abc-8def-0123456789ab", "0192f0c4-7d1e-7abc-8def-0123456789ac"
    assert db.create(key="k", id=first).id == db.create(key="k", id=first.upper()).id == first
    with pytest.raises(errors.KeyReused):
        db.create(key="k", id=second)
    with pytest.raises(errors.KeyReused):
        db.create(key="k")
    free = db.create(key="f", config={"max_cost": 1})
    assert db.create(key="f", config={"max_cost": 1}).id == free.id
    with pytest.raises(errors.KeyReused):
        db.create(key="f", config={"max_cost": 1}, id=second)
    assert db.count() == 2


# ── checkpoints of others ──


def test_a_session_answers_for_its_own_checkpoints_only(db: perdure.Perdure) -> None:
    session, other = db.create(), db.create()
    mine = session.checkpoint().id
    for call in (other.restore, other.pin, other.unpin, other.drop_checkpoint, other.resume):
        with pytest.raises(errors.NotFound):
            call(mine)
    assert [item.id for item in session.checkpoints()] == [mine]
    assert session.pin(mine).pinned
    assert session.resume(mine).lineage() is not None
    session.drop_checkpoint(mine)


# ── what is no answer to the question ──

Act = Callable[[perdure.Session, perdure.Perdure, Path], Any]


def nested() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


WRONG: dict[str, Act] = {
    "a declaration that is none, creating": lambda s, db, _: db.create(declared=5),
    "a declaration that is none, setting": lambda s, db, _: s.set_vars({}, 5),
    "a declaration that is none, reading": lambda s, db, _: s.vars(5),
    "a list for a session": lambda s, db, _: db.session([]),
    "a list for an id": lambda s, db, _: db.create(id=[]),
    "a list for a parent": lambda s, db, _: db.find(parent=[]),
    "a list for a parent to count by": lambda s, db, _: db.count(parent=[]),
    "a list for a session to watch": lambda s, db, _: next(db.watch(0, session=[])),
    "a list for a move": lambda s, db, _: s.move([]),
    "a list for a hook's move": lambda s, db, _: db.before([], print),
    "a list for a reservation": lambda s, db, _: s.reserve([], 1),
    "a list for a reservation to settle": lambda s, db, _: s.settle([], 1),
    "a list for a conflict": lambda s, db, _: s.resolve([], {}),
    "a list for an agent": lambda s, db, _: s.scratchpad([]),
    "a list for an agent to write as": lambda s, db, _: s.write_scratchpad("x", agent=[]),
    "a list for a compensation": lambda s, db, _: db.compensation([], print),
    "a list for an agent's id": lambda s, db, _: db.create(agent_id=[]),
    "a text for a depth": lambda s, db, _: s.tail("a", "x"),
    "a list for an agent's tail": lambda s, db, _: s.tail([], 1),
    "a text for a flag": lambda s, db, at: s.mirror(at / "m", finish="x"),
    "a number for a path": lambda s, db, _: s.export(5),
    "a number for a path to mirror": lambda s, db, _: s.mirror(5),
    "bytes for a path": lambda s, db, _: s.export(b"x"),
    "a NUL in a path": lambda s, db, _: s.export("a\0b"),
    "a NUL in a path to import": lambda s, db, _: db.import_jsonl("a\0b"),
    "a lone surrogate in a path": lambda s, db, _: s.mirror("\ud800"),
    "a number to import": lambda s, db, _: db.import_jsonl(5),
    "numbers for lines": lambda s, db, _: db.import_jsonl([1]),
    "bytes for lines": lambda s, db, _: db.import_jsonl(b"{}"),
    "progress that cannot be called, exporting": lambda s, db, _: s.export(progress=5),
    "progress that cannot be called, importing": lambda s, db, _: db.import_jsonl([], progress=5),
    "progress that cannot be called, verifying": lambda s, db, _: db.verify(5),
    "a lone surrogate in a configuration": lambda s, db, _: db.create(config={"\ud800": 1}),
    "a lone surrogate in a changed configuration": lambda s, db, _: s.configure(config={"\ud800": 1}),
    "a lone surrogate in a branch's configuration": lambda s, db, _: s.branch(config={"\ud800": 1}),
    "a text for a configuration": lambda s, db, _: s.configure(config="\ud800"),
    "a time before all others": lambda s, db, _: db.find(created_after=datetime(1, 1, 1)),  # noqa: DTZ001
    "a time no store can hold": lambda s, db, _: db.find(created_after=2**63),
    "a text for a time": lambda s, db, _: db.find(active_before="\ud800"),
    "something deep for a title": lambda s, db, _: db.create(nested()),
    "something deep for a key": lambda s, db, _: s.append(events.Feedback(), key=nested()),
    "something deep for a version": lambda s, db, _: s.append(events.Feedback(), expected=nested()),
    "something deep for an amount": lambda s, db, _: s.reserve("r", nested()),
    "something deep for an order": lambda s, db, _: db.find(order=nested()),
    "something deep for a limit": lambda s, db, _: db.find(limit=nested()),
    "a number of too many digits": lambda s, db, _: s.reserve("r", 10**5000),
    "a text for a position": lambda s, db, _: next(db.watch("x")),
    "a fraction for a position": lambda s, db, _: next(s.watch(1.5)),
    "a flag for a position": lambda s, db, _: next(db.watch(True)),
    "too many tags": lambda s, db, _: db.find(tags=[f"t{number}" for number in range(101)]),
    "too many conditions on metadata": lambda s, db, _: db.find(metadata={f"m{number}": 1 for number in range(101)}),
    "more phases than there are": lambda s, db, _: db.find(phase=["active"] * 8),
    "too long a text": lambda s, db, _: db.count(text="x" * 10_001),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_meant_is_refused_by_name(db: perdure.Perdure, tmp_path: Path, what: str) -> None:
    session = db.create()
    version = session.version()
    with pytest.raises(errors.Invalid) as refusal:
        WRONG[what](session, db, tmp_path)
    assert len(str(refusal.value)) < 400
    assert (session.version(), db.count()) == (version, 1)


def test_as_many_conditions_as_allowed_are_answered(db: perdure.Perdure) -> None:
    tags = [f"t{number}" for number in range(100)]
    session = db.create(tags=tags, metadata=dict.fromkeys(tags, 1))
    assert [row.session for row in db.find(tags=tags).items] == [session.id]
    assert [row.session for row in db.find(metadata=dict.fromkeys(tags, 1)).items] == [session.id]
    assert db.count(text="x" * 10_000) == 0


def test_what_was_given_is_spelled_without_running_it() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown(Rude()) == "Rude"
    assert shown("x" * 1000) == repr("x" * 80)
    assert shown(10**5000) == "an int of too many digits"
    assert [shown(value) for value in (None, True, 1, 1.5, b"a", [])] == ["None", "True", "1", "1.5", "b'a'", "list"]
