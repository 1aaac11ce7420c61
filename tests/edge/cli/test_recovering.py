"""Turns whose writer died are closed from the command line, and the tools to retry are named."""

from collections.abc import Callable
from typing import Any

import perdure
from perdure import events
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


def leave_a_turn_open(seeded: Seeded) -> str:
    with perdure.open(seeded.path) as db:
        session = db.create("Crashed")
        session.append(
            [
                events.TurnStarted(),
                events.ToolAsked(call="c1", name="book"),
                events.ToolStarted(call="c1", key="book-1"),
                events.ToolAsked(call="c2", name="pay"),
            ]
        )
        return session.id


def test_recover_closes_the_open_turn_and_names_the_tools(asked: Asked, seeded: Seeded) -> None:
    session = leave_a_turn_open(seeded)
    found = {item["session"]: item for item in asked("sessions", "recover")["recovered"]}
    closed = found[session]
    assert closed["turn"] == 1
    assert [(tool["name"], tool["key"], tool["started"]) for tool in closed["unfinished"]] == [
        ("book", "book-1", True),
        ("pay", None, False),
    ]
    assert asked("sessions", "recover") == {"recovered": []}


def test_recover_of_one_session_leaves_the_others_alone(run: Run, seeded: Seeded) -> None:
    first, second = leave_a_turn_open(seeded), leave_a_turn_open(seeded)
    result = run("sessions", "recover", first)
    assert "retry book under the key book-1" in result.stdout
    with perdure.open(seeded.path) as db:
        assert db.session(second).info().open_turn == 1
