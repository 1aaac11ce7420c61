"""Two handles on one store, one of them in the middle of something: nothing is lost, damaged or brought back.

A handle stands for a process. The other one acts at the worst moment: between what the first has read and what it
writes.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import events
from tests.journeys.conftest import Place

SECRET = "SECRET 555 0100"


@pytest.fixture
def one(place: Place) -> Iterator[perdure.Perdure]:
    with perdure.open(place.at("sessions.db")) as db:
        yield db


@pytest.fixture
def other(place: Place, one: perdure.Perdure) -> Iterator[perdure.Perdure]:
    with perdure.open(place.at("sessions.db")) as db:
        yield db


@pytest.fixture
def before(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], list[Any]]:
    """Have something happen once, just before a method of the store runs; what it gave, to prove that it did."""

    def arrange(method: str, act: Callable[[], Any]) -> list[Any]:
        happened: list[Any] = []
        real = getattr(place.engine, method)

        async def first(self: Any, *given: Any, **named: Any) -> Any:
            if not happened:
                happened.append(None)
                happened[0] = act()
            return await real(self, *given, **named)

        monkeypatch.setattr(place.engine, method, first)
        return happened

    return arrange


def noted(session: perdure.Session, count: int) -> None:
    for index in range(count):
        session.append(events.Feedback(comment=str(index)))


def sound(db: perdure.Perdure) -> bool:
    report = db.verify()
    return report.ok and not report.problems


def messages(session: perdure.Session) -> list[tuple[bool, Any]]:
    return [(event.redacted, event.data.content) for event in session.events() if event.kind == "message"]  # type: ignore[attr-defined]


def test_an_id_that_was_erased_and_used_again_is_another_log(one: perdure.Perdure, other: perdure.Perdure) -> None:
    name = "01920000-0000-7000-8000-000000000001"
    session = one.create("one", id=name)
    other.session(name).erase()
    other.create("two", id=name)
    assert session.append(events.Feedback(rating=5)) == 3
    assert sound(other)
    assert session.state().origin.title == "two"


def test_a_branch_of_a_log_that_is_pruned_meanwhile_is_whole(
    one: perdure.Perdure, other: perdure.Perdure, before: Any
) -> None:
    session = one.create()
    noted(session, 10)
    happened = before("append", lambda: other.session(session.id).prune(8))
    branch = session.branch()
    assert happened == [8]
    assert sound(other)
    assert branch.state().version == branch.version()


def test_a_branch_that_is_pruned_while_its_parent_is_erased_stays_readable(
    one: perdure.Perdure, other: perdure.Perdure, before: Any
) -> None:
    parent = one.create()
    noted(parent, 5)
    branch = parent.branch()
    noted(branch, 10)
    happened = before("repoint", lambda: other.session(branch.id).prune(branch.version() - 2))
    parent.erase()
    assert happened != [None]
    assert sound(other)
    assert other.session(branch.id).events()


def test_what_is_redacted_while_its_session_is_erased_stays_redacted_in_the_branches(
    one: perdure.Perdure, other: perdure.Perdure, before: Any
) -> None:
    parent = one.create()
    version = parent.append(events.Message(role="user", content=SECRET))
    branch = parent.branch()
    happened = before("repoint", lambda: other.session(parent.id).redact([version]))
    parent.erase()
    assert happened != [None]
    assert messages(other.session(branch.id)) == [(True, None)]
    assert sound(other)


def test_a_copy_left_by_an_erasure_that_broke_off_does_not_bring_redacted_content_back(
    one: perdure.Perdure, before: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parent = one.create()
    version = parent.append(events.Message(role="user", content=SECRET))
    branch = parent.branch()

    def break_off() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context():
        before("repoint", break_off)
        with pytest.raises(KeyboardInterrupt):
            parent.erase()
    parent.redact([version])
    parent.erase()
    assert messages(branch) == [(True, None)]
    one.close()
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_what_is_redacted_while_the_log_is_pruned_is_not_in_the_anchor(
    one: perdure.Perdure, other: perdure.Perdure, before: Any
) -> None:
    session = one.create()
    version = session.write_scratchpad(SECRET)
    noted(session, 6)
    happened = before("prune", lambda: other.session(session.id).redact([version]))
    session.prune(6)
    assert happened != [None]
    assert (session.scratchpad(), other.session(session.id).scratchpad()) == ("", "")
    assert sound(other)


def test_two_prunes_at_once_leave_the_further_one(one: perdure.Perdure, other: perdure.Perdure, before: Any) -> None:
    session = one.create()
    noted(session, 20)
    happened = before("prune", lambda: other.session(session.id).prune(18))
    with pytest.raises(perdure.errors.Invalid):
        session.prune(6)
    assert happened == [18]
    assert sound(other)
    assert session.state().version == 22


@pytest.mark.parametrize("moment", [1, 2])
def test_a_parent_and_its_branch_erased_at_once_leave_the_grandchild_whole(
    moment: int, one: perdure.Perdure, other: perdure.Perdure, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = one.create()
    noted(parent, 3)
    child = parent.branch()
    noted(child, 1)
    grandchild = child.branch()
    noted(grandchild, 1)
    kinds = [event.kind for event in grandchild.events()]
    real, calls = place.engine.repoint, [0]

    async def repoint(self: Any, *given: Any, **named: Any) -> None:
        calls[0] += 1
        if calls[0] == moment:
            other.session(child.id).erase()
        await real(self, *given, **named)

    monkeypatch.setattr(place.engine, "repoint", repoint)
    parent.erase()
    assert calls[0] >= moment
    assert [event.kind for event in other.session(grandchild.id).events()] == kinds
    assert sound(other)


def test_money_reserved_by_an_erased_branch_returns(one: perdure.Perdure) -> None:
    session = one.create(config={"max_cost": 100})
    branch = session.branch()
    branch.reserve("call", 80)
    branch.erase()
    assert session.account().reserved == 0
    session.reserve("call", 100)


def test_a_position_is_never_given_twice_even_if_copies_are_pruned(
    one: perdure.Perdure, other: perdure.Perdure, before: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = one.create()
    noted(parent, 5)
    branch = parent.branch()
    noted(branch, 3)

    def break_off() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context():
        before("repoint", break_off)
        with pytest.raises(KeyboardInterrupt):
            parent.erase()
    seen = other.position()
    branch.prune(branch.version() - 1)
    parent.append(events.Feedback(comment="must be seen"))
    assert next(iter(other.watch(after=seen))).session == parent.id
