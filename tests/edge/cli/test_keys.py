"""`perdure keys …` shows, rotates, forgets, backs up and checks, and never shows a key."""

import base64
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import perdure
from perdure.ambient import RealAmbient
from perdure.edge.cli.app import perdure as command_line
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyfile import KeyFile
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


@pytest.fixture(autouse=True)
def nothing_leaks(seeded: Seeded, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every output of every test is searched for the keys there are at its end."""
    said: list[str] = []
    invoke = CliRunner.invoke

    def heard(self: CliRunner, *given: Any, **named: Any) -> Any:
        result = invoke(self, *given, **named)
        said.append(result.output)
        return result

    monkeypatch.setattr(CliRunner, "invoke", heard)
    yield
    for file in Path(seeded.path).parent.glob("*.master"):
        for item in json.loads(file.read_text())["keys"]:
            raw = base64.b64decode(item["key"])
            assert not any(item["key"][:16] in text or raw.hex()[:16] in text for text in said)


def test_show_tells_where_the_keys_are_and_what_lies_under_them(asked: Asked, run: Run, seeded: Seeded) -> None:
    found = asked("keys", "show")
    assert (found["key"], found["vault"]) == (f"{seeded.path}.master", f"{seeded.path}.keys")
    (master,) = found["masters"]
    assert (master["current"], master["there"], master["condemned"]) == (True, True, 0)
    assert master["salts"] >= 4
    assert master["made_at"].endswith("Z")
    shown = run("keys", "show").stdout
    assert master["id"] in shown
    assert "current" in shown


def test_rotate_brings_everything_under_a_new_key_and_forget_takes_the_old_one(
    asked: Asked, run: Run, seeded: Seeded
) -> None:
    (old,) = [master["id"] for master in asked("keys", "show")["masters"]]
    done = asked("keys", "rotate")
    assert (done["forgettable"], done["left"], done["wrapped"] >= 4) == ([old], 0, True)
    assert asked("keys", "rotate", "--resume")["wrapped"] == 0
    assert asked("sessions", "verify")["ok"]
    assert asked("keys", "forget", old) == {"forgotten": old}
    assert [master["id"] for master in asked("keys", "show")["masters"]] == [done["master"]]
    assert asked("keys", "check") == {"ok": True, "sessions": 4, "sealed": 4, "troubles": []}
    said = run("keys", "rotate").stdout
    assert f"perdure keys forget {done['master']}" in said
    assert run("keys", "forget", done["master"]).stdout == f"forgot {done['master']}\n"


def test_forgetting_a_key_in_use_is_refused(asked: Asked, run: Run) -> None:
    (master,) = asked("keys", "show")["masters"]
    result = run("keys", "forget", master["id"])
    assert result.exit_code == 2
    assert "rotate to another one first" in result.stderr
    assert run("keys", "forget", "nothing").exit_code == 3


def test_a_key_is_forgotten_by_a_beginning_that_only_it_has(asked: Asked, run: Run) -> None:
    (old,) = [master["id"] for master in asked("keys", "show")["masters"]]
    asked("keys", "rotate")
    assert run("keys", "forget", old[:3]).exit_code == 3, "too little to destroy a key by"
    assert asked("keys", "forget", old[:6]) == {"forgotten": old}


def test_a_vault_of_another_store_is_named_and_the_key_is_not_blamed(
    asked: Asked, run: Run, seeded: Seeded, tmp_path: Path
) -> None:
    other = str(tmp_path / "other.db")
    perdure.open(other).close()
    before = Path(f"{other}.keys").read_bytes()
    for words in (("sessions", "list"), ("keys", "show"), ("keys", "rotate"), ("keys", "check")):
        result = run(*words, "--vault", f"{other}.keys")
        assert (result.exit_code, "sealed with another vault" in result.stderr) == (5, True), result.output
        assert "name its own with --vault or PERDURE_VAULT" in result.stderr
    assert Path(f"{other}.keys").read_bytes() == before


def test_keys_from_the_environment_are_taken_out_there(run: Run, seeded: Seeded) -> None:
    kept = json.loads(Path(f"{seeded.path}.master").read_text())["keys"][0]
    keys = f"{base64.b64encode(b'n' * 32).decode()},{kept['key']}"
    result = run("keys", "rotate", env={"PERDURE_MASTER_KEY": keys})
    assert result.exit_code == 0, result.output
    assert f"nothing lies under {kept['id']} any more: take it out of $PERDURE_MASTER_KEY" in result.stdout
    assert "keys forget" not in result.stdout


def test_backup_copies_the_vault_and_says_what_is_missing(
    asked: Asked, run: Run, seeded: Seeded, tmp_path: Path
) -> None:
    copy = str(tmp_path / "copy.keys")
    said = run("keys", "backup", copy).stdout
    assert f"copy {seeded.path}.master by hand" in said
    assert stat.S_IMODE(os.stat(copy).st_mode) == 0o600
    result = run("keys", "backup", copy)
    assert (result.exit_code, "choose another name" in result.stderr) == (4, True)
    os.unlink(f"{seeded.path}.keys")
    assert run("sessions", "list").exit_code == 5
    assert len(asked("sessions", "list", "--vault", copy)["sessions"]) == 4


def test_check_names_the_sessions_that_cannot_be_opened(asked: Asked, run: Run, seeded: Seeded) -> None:
    assert asked("keys", "check")["ok"]
    assert run("keys", "check").stdout.startswith("✓ ok  4 sessions, 4 sealed")
    with sqlite3.connect(seeded.path) as connection:
        id = bytes.fromhex(seeded.sleeping.replace("-", ""))
        (lost,) = connection.execute("SELECT salt FROM session WHERE session_id = ?", (id,)).fetchone()
    connection.close()
    vault = FileVault(f"{seeded.path}.keys", RealAmbient())
    vault.destroy([lost])
    vault.close()
    result = run("keys", "check", "--json")
    assert result.exit_code == 5
    found = json.loads(result.stdout)
    assert (found["ok"], found["sessions"], found["sealed"], len(found["troubles"])) == (False, 4, 4, 1)
    (trouble,) = found["troubles"]
    assert trouble["session"] == seeded.sleeping
    assert trouble["session"] in run("keys", "check").stdout
    listed = asked("sessions", "list")["sessions"]
    assert [row["title"] for row in listed if row["session"] == trouble["session"]] == [""]
    assert asked("sessions", "erase", trouble["session"], "--yes")["erased"] == trouble["session"]
    assert asked("keys", "check")["ok"]


def test_a_store_in_the_clear_has_no_keys(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "clear.db")
    perdure.open(path, seal=False).close()
    for command in ("show", "rotate", "check"):
        result = run("keys", command, "--store", path)
        assert (result.exit_code, "is not sealed" in result.stderr) == (2, True), command
    result = run("keys", "show", "--store", str(tmp_path / "none.db"))
    assert (result.exit_code, "there is no store" in result.stderr) == (5, True)


def test_a_new_store_made_on_the_command_line_says_where_its_key_is(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    export, made = str(tmp_path / "trip.jsonl"), str(tmp_path / "made.db")
    with perdure.open(seeded.path) as db:
        db.session(seeded.trip).export(export)
    result = run("sessions", "import", export, "--store", made)
    assert result.exit_code == 0, result.output
    assert f"note: a new master key was made for the sealed store {made}" in result.stderr
    assert "back up both" in result.stderr
    again = run("sessions", "import", export, "--store", made)
    assert "master key" not in again.stderr


def test_keys_elsewhere_are_named_by_option_or_environment(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    key = str(tmp_path / "safe.master")
    os.rename(f"{seeded.path}.master", key)
    result = run("sessions", "list")
    assert (result.exit_code, "name another place with --key-file or PERDURE_KEY_FILE" in result.stderr) == (5, True)
    assert run("sessions", "list", "--key-file", key).exit_code == 0
    assert run("sessions", "list", env={"PERDURE_KEY_FILE": key}).exit_code == 0
    text = json.loads(Path(key).read_text())["keys"][0]["key"]
    assert run("sessions", "list", env={"PERDURE_MASTER_KEY": text}).exit_code == 0
    assert run("keys", "show", "--key-file", key).exit_code == 0
    assert run("doctor", "--key-file", key).exit_code == 0
    assert run("doctor").exit_code == 5
    found = run("keys", "rotate", env={"PERDURE_MASTER_KEY": text})
    assert (found.exit_code, "put a new one before it" in found.stderr) == (2, True)
    assert KeyFile(key, RealAmbient()).ids()


def test_a_key_that_others_may_read_is_refused_with_the_remedy(run: Run, seeded: Seeded) -> None:
    os.chmod(f"{seeded.path}.master", 0o644)
    result = run("keys", "show")
    assert (result.exit_code, f"chmod 600 {seeded.path}.master" in result.stderr) == (5, True)


def test_help_lists_the_commands() -> None:
    said = CliRunner().invoke(command_line, ["keys", "--help"]).output
    assert all(name in said for name in ("show", "rotate", "forget", "backup", "check"))


def test_certificates_go_to_a_folder_of_their_own_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = CliRunner().invoke(command_line, ["keys", "ca"])
    assert made.exit_code == 0, made.output
    assert [path.name for path in folder.iterdir()] == ["tls"]
    assert "--tls-cert tls/server.pem --tls-key tls/server.key" in made.stdout
