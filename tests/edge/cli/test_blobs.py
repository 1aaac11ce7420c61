"""`perdure blobs`: what goes in comes out, in files and in pipes, and what it says is true."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import perdure
from perdure import events as ev
from perdure.edge.cli.app import perdure as command_line
from perdure.edge.cli.blobs import COMMANDS
from perdure.edge.cli.lazy import LazyGroup
from tests.edge.cli.conftest import HOSTILE, Run, Seeded

Asked = Callable[..., Any]
CONTENT = bytes(range(256)) * 1200


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(CONTENT)
    return path


def pointed(seeded: Seeded, uri: str) -> None:
    """Have a session of the store point to a blob."""
    with perdure.open(seeded.path) as db:
        ref = db.blobs.stat(uri).ref
        db.session(seeded.trip).append(ev.Message(role="user", content=["see", ref]))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_a_store_and_json_and_has_help(name: str) -> None:
    group = command_line.get_command(click.Context(command_line), "blobs")
    assert isinstance(group, LazyGroup)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.help
    assert {"store", "as_json"} <= {param.name for param in command.params}


def test_a_file_goes_in_and_comes_out(run: Run, file: Path, tmp_path: Path) -> None:
    uri = run("blobs", "put", str(file)).stdout.strip()
    assert uri.startswith("perdure:blob/")
    result = run("blobs", "get", uri)
    assert (result.exit_code, result.stdout_bytes) == (0, CONTENT)
    out = tmp_path / "out.png"
    assert "307.2 kB" in run("blobs", "get", uri, "-o", str(out)).stdout
    assert out.read_bytes() == CONTENT


def test_a_pipe_by_its_name_is_refused_instead_of_waited_for(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = run("blobs", "put", str(tmp_path / "pipe"))
    assert (result.exit_code, "a pipe or a device" in result.stderr) == (2, True)


def test_a_file_that_is_there_is_written_over_only_when_told_to(run: Run, file: Path, tmp_path: Path) -> None:
    uri, out = run("blobs", "put", str(file)).stdout.strip(), tmp_path / "mine.png"
    out.write_bytes(b"mine")
    result = run("blobs", "get", uri, "-o", str(out))
    assert (result.exit_code, "--force" in result.stderr, out.read_bytes()) == (4, True, b"mine")
    assert run("blobs", "get", uri, "-o", str(out), "--force").exit_code == 0
    assert out.read_bytes() == CONTENT


def test_a_pipe_goes_in_and_comes_out(run: Run, asked: Asked) -> None:
    result = run("blobs", "put", "-", "--name", "a.csv", "--json", input=CONTENT)
    blob = json.loads(result.stdout)["blob"]
    assert (blob["name"], blob["media_type"], blob["size"], blob["used"]) == ("a.csv", "text/csv", len(CONTENT), False)
    assert asked("blobs", "stat", blob["sha256"][:8])["blob"] == blob
    assert run("blobs", "get", blob["sha256"][:8].upper()).stdout_bytes == CONTENT


def test_the_same_file_is_kept_once_and_replaced_when_asked(run: Run, asked: Asked, file: Path) -> None:
    uris = {asked("blobs", "put", str(file), *more)["blob"]["uri"] for more in ([], [], ["--replace"])}
    assert len(uris) == 1
    assert len(asked("blobs", "list")["blobs"]) == 1


def test_a_list_is_shown_page_by_page(run: Run, asked: Asked) -> None:
    for number in range(3):
        run("blobs", "put", "-", "--name", f"n{number}", input=bytes([number]))
    first = asked("blobs", "list", "--limit", "2")
    rest = asked("blobs", "list", "--cursor", first["cursor"])
    assert [blob["name"] for blob in first["blobs"] + rest["blobs"]] == ["n2", "n1", "n0"]
    assert rest["cursor"] is None
    shown = run("blobs", "list", "--limit", "2").stdout
    assert "n2" in shown
    assert "--cursor" in shown
    assert run("blobs", "list", "--cursor", "nonsense").exit_code == 2


def test_only_what_nobody_points_to_is_collected(run: Run, asked: Asked, seeded: Seeded, file: Path) -> None:
    kept = asked("blobs", "put", str(file))["blob"]
    pointed(seeded, kept["uri"])
    run("blobs", "put", "-", input=b"spare")
    assert asked("blobs", "collect") == {"blobs": 0, "bytes": 0, "uploads": 0}
    assert asked("blobs", "collect", "--grace", "0") == {"blobs": 1, "bytes": 5, "uploads": 0}
    assert asked("blobs", "stat", kept["uri"])["blob"] == kept | {"used": True}
    assert "yes" in run("blobs", "list").stdout
    run("sessions", "erase", seeded.branch, "--yes")
    run("sessions", "erase", seeded.trip, "--yes")
    assert "collected 1 blob, 307.2 kB" in run("blobs", "collect", "--grace", "0s").stdout
    assert run("blobs", "list").stdout == "no blobs\n"


def test_a_sessions_blobs_travel_in_a_folder(
    run: Run, asked: Asked, seeded: Seeded, file: Path, tmp_path: Path
) -> None:
    uri = asked("blobs", "put", str(file))["blob"]["uri"]
    pointed(seeded, uri)
    folder, lines, other = str(tmp_path / "blobs"), str(tmp_path / "lines.jsonl"), str(tmp_path / "other.db")
    assert asked("blobs", "export", seeded.trip, folder)["written"] == [uri]
    run("sessions", "export", seeded.trip, "-o", lines)
    assert run("sessions", "import", lines, "--store", other, env={"PYTHONWARNINGS": "ignore"}).exit_code == 0
    assert run("sessions", "verify", "--store", other).exit_code == 5
    assert asked("blobs", "export", seeded.trip, str(tmp_path / "none"), "--store", other)["missing"] == [uri]
    assert asked("blobs", "import", folder, "--store", other)["blobs"] == [uri]
    assert run("sessions", "verify", "--store", other).exit_code == 0
    assert run("blobs", "get", uri, "--store", other).stdout_bytes == CONTENT


@pytest.mark.parametrize("word", ["", "xyz", "abc", "perdure:blob/", "s3://b/k", "0" * 65, "latest"])
def test_a_word_that_names_no_blob_finds_none(run: Run, word: str) -> None:
    result = run("blobs", "stat", word)
    assert (result.exit_code, "names no blob" in result.stderr) == (3, True)


def test_a_blob_that_is_not_there_is_not_found(run: Run, tmp_path: Path) -> None:
    for word in ("0000", "0" * 64):
        result = run("blobs", "get", word, "-o", str(tmp_path / "out"), "--json")
        assert result.exit_code == 3
        assert json.loads(result.stdout)["error"]["code"] == "blob_missing"
    assert not (tmp_path / "out").exists()


def test_several_blobs_that_begin_alike_are_not_guessed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.edge.cli import blobs

    monkeypatch.setattr(blobs, "_beginning_with", lambda *_: ["a" * 64, "a" * 63 + "b"])
    result = run("blobs", "stat", "aaaa")
    assert result.exit_code == 2
    assert "fits 2 blobs" in result.stderr


def test_a_damaged_blob_is_never_written_whole(run: Run, asked: Asked, seeded: Seeded, file: Path) -> None:
    import apsw

    uri = asked("blobs", "put", str(file))["blob"]["uri"]
    connection = apsw.Connection(seeded.path)
    connection.execute("UPDATE blob_chunk SET body = zeroblob(100) WHERE number = 1")
    connection.close()
    out = file.parent / "out.bin"
    assert run("blobs", "get", uri, "-o", str(out)).exit_code == 5
    assert not out.exists()
    result = run("blobs", "get", uri)
    assert result.exit_code == 5
    assert len(result.stdout_bytes) < len(CONTENT)
    assert run("sessions", "verify").exit_code == 5
    assert run("blobs", "put", str(file), "--replace").exit_code == 0
    assert run("sessions", "verify").exit_code == 0


def test_a_hostile_name_is_shown_but_does_not_act(run: Run) -> None:
    run("blobs", "put", "-", "--name", HOSTILE, input=b"x")
    for words in (["list"], ["stat", "2d71"]):
        shown = run("blobs", *words).stdout
        assert "\x1b" not in shown
        assert "\\x1b" in shown


@pytest.mark.parametrize(
    "words",
    [
        ["put", "nowhere.bin"],
        ["put", "-", "--media-type", "nonsense"],
        ["put", "-", "--name", "x" * 300],
        ["collect", "--grace", "soon"],
        ["list", "--limit", "0"],
        ["get", "0" * 64, "--json"],
        ["import", "nowhere"],
    ],
)
def test_bad_words_are_the_callers_mistake(run: Run, words: list[str]) -> None:
    assert run("blobs", *words).exit_code == 2


def test_no_store_is_made_by_looking_for_one(run: Run, tmp_path: Path, file: Path) -> None:
    missing = str(tmp_path / "missing.db")
    for words in (["list"], ["put", str(file)], ["collect"], ["get", "0" * 64], ["import", str(tmp_path)]):
        assert run("blobs", *words, "--store", missing).exit_code == 5
    assert not Path(missing).exists()


def test_progress_of_unknown_length_counts_what_is_done() -> None:
    from perdure.edge.cli.blobs import _bytes_of

    told: list[tuple[int, int]] = []
    progress = _bytes_of(lambda done, total: told.append((done, total)))
    assert progress is not None
    progress(5, 0)
    progress(5, 9)
    assert told == [(5, 5), (5, 9)]
    assert _bytes_of(None) is None
