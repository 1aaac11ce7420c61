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


SAID = "2019-05-04T10:20:30.5Z"


def imported(path: str, said: Any, **metadata: Any) -> str:
    """A session that was written down long after it was said."""
    with perdure.open(path) as db:
        session = db.create("Imported", metadata=metadata)
        dated = {"said_at": said}
        session.record(
            [
                ev.Message(role="user", content="Pay it", metadata=dated),
                ev.ToolAsked(call="c1", name="pay", metadata=dated),
                ev.ToolFinished(call="c1", result="paid", metadata=dated),
                ev.Message(role="assistant", content="Done", metadata={"said_at": "2019-05-04T10:21:00Z"}),
            ]
        )
        return session.id


def test_what_was_imported_shows_when_it_was_said(run: Run, seeded: Seeded) -> None:
    session = imported(seeded.path, SAID)
    assert run("sessions", "history", session).stdout.startswith("turn 1 · finished · 2019-05-04 10:20:30 ·")
    (turn,) = lines(run("sessions", "history", session, "--json").stdout)
    assert turn["at"] == "2019-05-04T10:20:30.500000Z"
    assert turn["written_at"] > "2020"
    assert [item["said_at"] for item in turn["messages"]] == [
        "2019-05-04T10:20:30.500000Z",
        "2019-05-04T10:21:00.000000Z",
    ]
    assert '"at":"2019' not in run("sessions", "history", session, "--events", "--json").stdout, "the log is as it is"


@pytest.mark.parametrize(
    "said", ["", "yesterday", "2019-05-04", "2019-05-04T10:20:30", "2019-13-04T10:20:30Z", 5, None, []]
)
def test_a_time_that_is_none_is_passed_over(said: Any, run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.create("Imported", metadata={"began_at": said})
        session.record(ev.Message(role="user", content="Pay it", metadata={"said_at": said}))
    (turn,) = lines(run("sessions", "history", session.id, "--json").stdout)
    assert turn["at"] == turn["written_at"] > "2020"
    assert turn["messages"][0]["said_at"] is None
    assert "began  " not in run("sessions", "show", session.id).stdout


def test_a_card_says_when_an_imported_conversation_began(run: Run, seeded: Seeded) -> None:
    session = imported(seeded.path, SAID, began_at=SAID)
    shown = run("sessions", "show", session).stdout
    assert "began    2019-05-04 10:20:30 UTC" in shown


def left_open(path: str) -> str:
    """A session in which a call was answered by those who came later, in place of its tool."""
    with perdure.open(path) as db:
        session = db.create("Paused")
        session.record(
            [ev.Message(role="user", content="Pay it"), ev.ToolAsked(call="c1", name="pay", arguments={"n": 1})]
        )
        session.record([ev.Message(role="user", content="Never mind"), ev.Message(role="assistant", content="Fine.")])
        session.record([ev.ToolFinished(call="c1", error="interrupted: it went on")])
        session.record([ev.Message(role="user", content="Bye"), ev.Message(role="assistant", content="Bye.")])
        return session.id


def test_a_result_that_came_late_is_shown_beside_its_call(run: Run, seeded: Seeded) -> None:
    session = left_open(seeded.path)
    shown = run("sessions", "history", session).stdout
    assert "pay(n=1) → error: interrupted: it went on" in shown
    assert [word in shown for word in ("no result", "aside", "tool_use_id")] == [False] * 3
    turns = lines(run("sessions", "history", session, "--json").stdout)
    assert [turn["turn"] for turn in turns] == [1, 2, 3]
    assert [(call["done"], call["error"]) for call in turns[0]["calls"]] == [(True, "interrupted: it went on")]


def test_a_late_result_whose_call_is_not_shown_is_told_in_words(run: Run, seeded: Seeded) -> None:
    session = left_open(seeded.path)
    (first, *_) = lines(run("sessions", "history", session, "--json").stdout)
    shown = run("sessions", "history", session, "--after", str(first["last"])).stdout
    assert "  tool       result of c1: interrupted: it went on" in shown
    assert "tool_use_id" not in shown


def test_a_call_whose_id_is_used_again_keeps_its_own_result(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.create("Twice")
        session.record([ev.Message(role="user", content="one"), ev.ToolAsked(call="c1", name="pay")])
        again = [ev.ToolAsked(call="c1", name="pay"), ev.ToolFinished(call="c1", result="paid")]
        session.record([ev.Message(role="user", content="two"), *again])
        session.record([ev.Message(role="assistant", content="Done.")])
        session.record([ev.ToolFinished(call="c1", result="late")])
    turns = lines(run("sessions", "history", session.id, "--json").stdout)
    assert [[call["result"] for call in turn["calls"]] for turn in turns] == [[None], ["paid"], []]
    assert turns[2]["messages"][0]["content"][0]["content"] == "late"


def test_what_somebody_says_who_steps_in_and_an_answer_cut_short_are_shown(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.create("talk")
        session.append([ev.TurnStarted(role="user", content="go"), ev.Steered(text="left, please")])
        session.append([ev.TurnFinished(content="I went left"), ev.Steered(text="and now right")])
    shown = run("sessions", "history", session.id).stdout
    assert [line for line in shown.splitlines() if line.startswith("  ")] == [
        "  user       go",
        "  steer      left, please",
        "  assistant  I went left",
        "  steer      and now right",
    ]
    first, second = lines(run("sessions", "history", session.id, "--json").stdout)
    assert [(item["role"], item["content"], item["steer"]) for item in first["messages"]] == [
        ("user", "go", False),
        ("user", "left, please", True),
        ("assistant", "I went left", False),
    ]
    assert second["messages"][0]["content"] == "and now right"
    with perdure.open(seeded.path) as db:
        db.session(session.id).redact([4])
    assert "left, please" not in run("sessions", "history", session.id).stdout
    assert "  steer      [redacted]" in run("sessions", "history", session.id).stdout


def test_thoughts_are_shown_in_words_and_rests_of_older_logs_not_at_all(run: Run, seeded: Seeded) -> None:
    left = {"type": "foreign", "provider": "openai-chat", "block": {"rest": {"refusal": None}}}
    content = [{"type": "thinking", "thinking": "a river", "signature": "s"}, {"type": "text", "text": "Tejo"}, left]
    with perdure.open(seeded.path) as db:
        session = db.create("talk")
        session.append([ev.Message(role="assistant", content=content), ev.Message(role="assistant", content=[left])])
        session.append([ev.Message(role="assistant", content=[{"type": "thinking", "thinking": "", "signature": "s"}])])
    shown = run("sessions", "history", session.id).stdout
    assert [line for line in shown.splitlines() if line.startswith("  ")] == [
        "  assistant  (thinking) a river",
        "             Tejo",
        "  assistant  (thinking)",
    ]
