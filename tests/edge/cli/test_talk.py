"""Talking on the command line: answers as they come, for people and for programs, and stepping in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.edge.cli import exits
from perdure.edge.cli.talk import KEYS, talk_given
from tests.edge.cli.conftest import Run, Seeded


def test_an_answer_is_shown_as_text(run: Run, seeded: Seeded) -> None:
    result = run("talk", seeded.trip, "Is there a \x1b[31mtrain?")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("You said: “Is there a \\x1b[31mtrain?”")
    assert result.stdout.endswith("\n")
    with perdure.open(seeded.path) as db:
        assert db.session(seeded.trip).turns()[-1].messages[0].content == "Is there a \x1b[31mtrain?"


def test_a_program_gets_the_outcome(asked: Callable[..., Any], seeded: Seeded) -> None:
    document = asked("talk", seeded.trip, "Hello", "--model", "offline")
    assert (document["session"], document["turn"], document["status"]) == (seeded.trip, 2, "finished")
    assert document["content"] == [{"type": "text", "text": document["text"]}]
    assert document["waiting"] == []


def test_without_a_text_every_line_is_a_turn(run: Run, seeded: Seeded) -> None:
    result = run("talk", seeded.trip, input="one\n\ntwo\n")
    assert result.exit_code == 0
    assert [line.split("”")[0] for line in result.stdout.splitlines()] == ["You said: “one", "You said: “two"]
    lines = run("talk", seeded.trip, "--json", input="three\nfour\n").stdout.splitlines()
    assert [json.loads(line)["turn"] for line in lines] == [4, 5]


def test_a_new_session_and_its_store_are_begun_if_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    store = str(tmp_path / "fresh.db")
    assert run("talk", "trip", "Hello", "--store", store).exit_code == exits.WORLD
    assert not (tmp_path / "fresh.db").exists()
    assert run("talk", "trip", "Hello", "--store", store, "--new").exit_code == 0
    assert run("talk", "trip", "Hello again", "--store", store).exit_code == 0
    assert run("talk", "trip", "Hello", "--store", store, "--new").exit_code == exits.CONFLICT
    with perdure.open(store) as db:
        assert len(db.named("trip").turns()) == 2


def test_a_model_that_nobody_has_is_told_and_leaves_no_store(run: Run, tmp_path: Path) -> None:
    result = run("talk", "trip", "Hello", "--new", "--model", "no/such", "--store", str(tmp_path / "fresh.db"))
    assert result.exit_code == exits.NOT_FOUND
    assert "there is no model" in result.stderr


def test_a_session_with_an_open_turn_that_is_not_ours_is_left_alone(run: Run, seeded: Seeded) -> None:
    result = run("talk", seeded.open, "Hello")
    assert result.exit_code == exits.CALLER
    assert "turn 1" in result.stderr


def test_steers_and_follow_ups_are_noted(run: Run, asked: Callable[..., Any], seeded: Seeded) -> None:
    assert "steered session" in run("steer", seeded.trip, "Take the night train").stdout
    document = asked("follow-up", seeded.trip, "Look at the prices")
    with perdure.open(seeded.path) as db:
        session = db.session(seeded.trip)
        assert document == {"session": seeded.trip, "version": session.version()}
        assert [event.kind for event in session.events()[-2:]] == ["steered", "followed_up"]
    assert run("steer", seeded.trip, " ").exit_code == exits.CALLER


def test_calls_that_wait_for_a_person_are_shown_and_answered(run: Run, seeded: Seeded) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    with perdure.open(seeded.path) as db:
        db.tools.register("pay", pay, approval=True)
        session = db.session(seeded.trip)
        [call] = session.send('call pay {"amount": 5}').waiting
        shown = run("approvals", seeded.trip)
        assert shown.stdout == f'{call.id}  pay {{"amount":5}}\n'
        told = json.loads(run("approvals", seeded.trip, "--json").stdout)
        assert told["waiting"] == [{"call": call.id, "name": "pay", "arguments": {"amount": 5}, "approval": True}]
        assert run("approvals", seeded.trip, "--allow", call.id, "--deny", call.id).exit_code == exits.CALLER
        assert "allowed in session" in run("approvals", seeded.trip, "--allow", call.id, "--note", "fine").stdout
        assert paid == []
        assert session.send().text == "pay answered: paid."
        [call] = session.send('call pay {"amount": 6}').waiting
        run("approvals", seeded.trip, "--deny", call.id, "--note", "too much")
        assert session.send().text == "pay failed: denied: too much."
        assert paid == [5]
    assert run("approvals", seeded.trip).stdout == "nothing waits for a person\n"
    assert run("approvals", seeded.trip, "--allow", "c9").exit_code == exits.CALLER


def test_keys_in_the_environment_bring_models_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, key, base in KEYS.values():
        monkeypatch.delenv(key, raising=False)
        monkeypatch.delenv(base, raising=False)
    assert list(talk_given().models.upstreams) == ["offline"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    found = talk_given().models
    assert (found.default, found.upstreams["anthropic"].address) == ("offline/offline", "http://127.0.0.1:1")
    assert "sk-1" not in repr(found)


def test_children_are_told_from_branches_and_are_never_the_latest(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        child = db.session(seeded.trip).spawn("Look at the fares", wait=True).session
    assert "↳ Look at the fares" in run("sessions", "list").stdout
    assert f"of {seeded.trip}" in run("sessions", "show", child).stdout
    assert child not in run("sessions", "show", "latest").stdout.splitlines()[0]


# ── going on, stopping, and what is told ──

SILENT = """
default_model = "offline/offline"
[upstreams.offline]
kind = "offline"
[upstreams.down]
kind = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
retries = 0
[upstreams.far]
kind = "anthropic"
key_env = "NOBODY_HAS_THIS_KEY"
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstreams: one that answers, one that is down, one whose key is missing."""
    (tmp_path / "some.toml").write_text(SILENT)
    monkeypatch.setenv("PERDURE_CONFIG", str(tmp_path / "some.toml"))


@pytest.mark.usefixtures("configured")
def test_a_turn_that_broke_is_gone_on_with(run: Run, seeded: Seeded) -> None:
    broke = run("talk", seeded.trip, "Is there a train?", "--model", "down/x")
    assert broke.exit_code == exits.WORLD
    assert "perdure talk SESSION --continue" in broke.stderr
    assert broke.stdout == ""
    again = run("talk", seeded.trip, "--continue")
    assert (again.exit_code, "Is there a train?" in again.stdout) == (0, True)
    nothing = run("talk", seeded.trip, "--continue")
    assert (nothing.exit_code, "say something" in nothing.stderr) == (exits.CALLER, True)


@pytest.mark.usefixtures("configured")
def test_only_the_upstream_that_is_asked_needs_its_key(run: Run, seeded: Seeded) -> None:
    assert run("talk", seeded.trip, "Hello").exit_code == 0
    refused = run("talk", seeded.trip, "Hello", "--model", "far/claude")
    assert refused.exit_code == exits.CALLER
    assert "the environment has no NOBODY_HAS_THIS_KEY" in refused.stderr
    with perdure.open(seeded.path) as db:
        assert len(db.session(seeded.trip).turns()) == 2


def test_what_is_asked_for_must_be_one_thing(run: Run, seeded: Seeded) -> None:
    for wrong in ([""], ["  "], ["Hello", "--continue"], ["--new", "--continue"]):
        result = run("talk", seeded.trip, *wrong)
        assert (result.exit_code, "--continue" in result.stderr) == (exits.CALLER, True)


def test_advice_is_given_in_options(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    assert "perdure talk nobody --new" in run("talk", "nobody", "Hello").stderr
    assert "--new begins one" in run("talk", "trip", "Hello", "--store", str(tmp_path / "none.db")).stderr
    assert run("talk", "fresh", "Hello", "--new").exit_code == 0
    told = run("talk", "fresh", "Hello", "--new").stderr
    assert "leave --new out" in told
    assert "named(" not in told


def test_a_turn_that_waits_is_interrupted(run: Run, asked: Callable[..., Any], seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        db.session(seeded.trip).send("call look {}", tools=[{"name": "look", "input_schema": {"type": "object"}}])
    assert asked("interrupt", seeded.trip, "--reason", "enough") == {"session": seeded.trip, "interrupted": True}
    assert run("interrupt", seeded.trip).stdout == f"no turn is open in session {seeded.trip}\n"
    with perdure.open(seeded.path) as db:
        assert db.session(seeded.trip).turns()[-1].status == "interrupted"
