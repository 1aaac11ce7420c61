"""`perdure keys sign`, and what `sessions verify` and `doctor` say of signed heads."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import perdure
from perdure import events
from perdure.edge.cli.app import perdure as command_line

pytestmark = pytest.mark.filterwarnings("ignore:a new master key")
Told = tuple[int, Any]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Told]:
    def asked(*words: str, store: str = "agent.db") -> Told:
        done = CliRunner().invoke(command_line, [*words, "--json", "--store", str(tmp_path / store)])
        return done.exit_code, json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr

    return asked


def heads(answer: Told) -> Any:
    return next(item for item in answer[1]["checks"] if item["subject"] == "signed heads")


def test_an_older_copy_is_told_by_every_command_until_it_is_accepted(run: Callable[..., Told], tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with perdure.open(path) as db:
        session = db.create("signed").id
    assert run("keys", "sign") == (0, {"ok": True, "sealed": True, "sessions": 1, "signed": 1, "refused": []})
    assert run("keys", "sign")[1]["signed"] == 0, "there is nothing new"
    shutil.copyfile(path, tmp_path / "yesterday.db")
    with perdure.open(path) as db:
        db.session(session).append(events.Message(role="user", content="today"))
    assert run("keys", "sign")[1]["signed"] == 1
    assert run("sessions", "verify")[1]["signed"] == 1
    assert heads(run("doctor"))["status"] == "ok"
    shutil.copyfile(tmp_path / "yesterday.db", path)

    code, said = run("keys", "sign")
    assert (code, said["ok"], [item["session"] for item in said["refused"]]) == (5, False, [session])
    code, said = run("sessions", "verify", session)
    assert (code, said["signed"], said["damaged"][0]["problems"][0]["place"]) == (5, 1, "head")
    code, said = run("sessions", "verify")
    assert (code, said["damaged"][0]["problems"][0]["place"]) == (5, "head")
    answer = run("doctor")
    assert (answer[0], heads(answer)["status"]) == (5, "fail")
    assert session in heads(answer)["found"]

    assert run("keys", "sign", "--accept", "yesterday was better")[1]["signed"] == 1
    assert run("sessions", "verify")[0] == 0
    assert heads(run("doctor"))["status"] == "ok"


@pytest.mark.parametrize("signing", [("keys", "sign"), ("sweep",)])
def test_the_doctor_advises_to_sign_where_nothing_ever_was(
    signing: tuple[str, ...], run: Callable[..., Told], tmp_path: Path
) -> None:
    with perdure.open(tmp_path / "agent.db") as db:
        assert heads(run("doctor"))["status"] == "ok", "there is nothing to sign yet"
        db.create("unsigned")
    code, said = run("doctor")
    found = heads((code, said))
    assert (code, found["status"]) == (0, "warn")
    assert [word in found["advice"] for word in ("perdure keys sign", "perdure sweep", "backup")] == [True] * 3
    assert run(*signing)[0] == 0
    assert heads(run("doctor"))["status"] == "ok"


def test_a_store_in_the_clear_has_nothing_to_sign_with_and_says_so(run: Callable[..., Told], tmp_path: Path) -> None:
    with perdure.open(tmp_path / "clear.db", seal=False) as db:
        db.create("clear")
    code, said = run("keys", "sign", store="clear.db")
    assert code == 2
    assert "not a sealed store" in said["error"]["message"]
    assert run("sessions", "verify", store="clear.db")[1]["signed"] is None
    assert "not sealed" in heads(run("doctor", store="clear.db"))["found"]
