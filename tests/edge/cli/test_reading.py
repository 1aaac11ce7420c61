"""Reading what was said, afterwards and as it happens."""

import json
from typing import Any

import pytest

import perdure
from perdure import events as ev
from tests.edge.cli.conftest import Run, Seeded


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_history_pairs_each_tool_call_with_its_result(run: Run, seeded: Seeded) -> None:
    shown = run("sessions", "history", seeded.trip).stdout
    assert shown.splitlines()[1:4] == [
        "  user       Find me a train.",
        '  tool       find_trains(to="Vienna") → {"trains":2}',
        "  assistant  There are two trains.",
    ]


def test_history_as_json_is_one_turn_a_line(run: Run, seeded: Seeded) -> None:
    (turn,) = lines(run("sessions", "history", seeded.trip, "--json").stdout)
    assert (turn["turn"], turn["status"]) == (1, "finished")
    assert [message["content"] for message in turn["messages"]] == ["Find me a train.", "There are two trains."]
    assert [(call["name"], call["result"], call["done"]) for call in turn["calls"]] == [
        ("find_trains", {"trains": 2}, True)
    ]


def test_the_last_turns_are_the_last_ones(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        for number in (2, 3, 4):
            with db.session(seeded.trip).turn(f"question {number}") as turn:
                turn.answer(f"answer {number}")
    turns = lines(run("sessions", "history", seeded.trip, "--last", "2", "--json").stdout)
    assert [turn["turn"] for turn in turns] == [3, 4]
    after = turns[0]["last"]
    assert [
        turn["turn"] for turn in lines(run("sessions", "history", seeded.trip, "--after", str(after), "--json").stdout)
    ] == [4]


def test_events_are_the_whole_log_or_the_part_after_a_version(run: Run, seeded: Seeded) -> None:
    every = lines(run("sessions", "history", seeded.trip, "--events", "--json").stdout)
    assert [event["version"] for event in every] == list(range(1, len(every) + 1))
    rest = lines(run("sessions", "history", seeded.trip, "--events", "--after", "3", "--json").stdout)
    assert rest == every[3:]
    assert lines(run("sessions", "history", seeded.trip, "--events", "--last", "2", "--json").stdout) == every[-2:]
    assert len(run("sessions", "history", seeded.trip, "--events").stdout.splitlines()) == len(every)


def test_an_interrupted_turn_names_the_tool_to_retry(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        db.recover()
    shown = run("sessions", "history", seeded.open).stdout
    assert "interrupted (crash)" in shown
    assert "retry pay under the key pay-1" in shown


def test_redacted_content_is_marked_and_gone(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.session(seeded.open)
        session.redact(
            [event.version for event in session.events() if isinstance(event.data, ev.Message | ev.ToolAsked)]
        )
    shown = run("sessions", "history", seeded.open).stdout + run("sessions", "history", seeded.open, "--events").stdout
    assert "my secret" not in shown
    assert shown.count("[redacted]") == 4
    (turn,) = lines(run("sessions", "history", seeded.open, "--json").stdout)
    assert (turn["messages"][0]["redacted"], turn["messages"][0]["content"]) == (True, None)


def test_a_session_in_which_nothing_was_said_says_so(run: Run, seeded: Seeded) -> None:
    assert run("sessions", "history", seeded.sleeping).stdout == "nothing was said yet\n"
    assert run("sessions", "history", seeded.sleeping, "--json").stdout == ""


def test_content_blocks_show_their_text_and_the_rest_as_json(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        blocks = [{"type": "text", "text": "look"}, {"type": "image", "data": b"\x00"}]
        db.session(seeded.trip).append(ev.Message(role="user", content=blocks))
    shown = run("sessions", "history", seeded.trip).stdout
    assert "look\n" in shown
    assert '{"data":{"$bytes":"AA=="},"type":"image"}' in shown


@pytest.mark.parametrize(
    ("result", "shown"),
    [([1, 2], "f() → [1,2]\n"), ([], "f() → []\n"), ([{"type": "text", "text": "two"}], "f() → two\n")],
)
def test_a_result_that_is_a_list_is_shown_as_one(result: object, shown: str, run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        db.create(name="lists").record([ev.ToolAsked(call="c", name="f"), ev.ToolFinished(call="c", result=result)])
    assert shown in run("sessions", "history", "lists").stdout


def test_tail_once_shows_the_last_events_and_stops(run: Run, seeded: Seeded) -> None:
    every = lines(run("sessions", "history", seeded.trip, "--events", "--json").stdout)
    assert lines(run("sessions", "tail", seeded.trip, "--once", "--json").stdout) == every[-10:]
    assert lines(run("sessions", "tail", seeded.trip, "--once", "--from-start", "--json").stdout) == every


def test_tail_of_everything_is_in_the_order_of_commits(run: Run, seeded: Seeded) -> None:
    shown = lines(run("sessions", "tail", "--once", "--from-start", "--json").stdout)
    assert {event["session"] for event in shown} == set(seeded[1:])
    assert [event["at"] for event in shown] == sorted(event["at"] for event in shown)
    assert run("sessions", "tail", "--once").stdout == ""


def test_tail_tells_of_erased_sessions_and_skips_their_events(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        db.session(seeded.open).erase()
    shown = lines(run("sessions", "tail", "--once", "--from-start", "--json").stdout)
    assert [line["session"] for line in shown if line.get("erased")] == [seeded.open]
    assert f"{seeded.open}  erased" in run("sessions", "tail", "--once", "--from-start").stdout
