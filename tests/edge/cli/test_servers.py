"""The command line on a PostgreSQL database, as on a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import perdure
from perdure import errors
from perdure.edge.cli.app import perdure as command_line
from tests.stores.postgres_server import Server, bare, server, shared

__all__ = ["bare", "server", "shared"]


def told(*words: str) -> Any:
    found = CliRunner().invoke(command_line, [*words, "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.parametrize("sealed", [False, True])
def test_every_word_works_on_a_server(bare: str, tmp_path: Path, sealed: bool) -> None:
    keys = {"key": tmp_path / "k", "vault": tmp_path / "v"} if sealed else {"seal": False}
    with perdure.open(bare, **keys) as db:
        session = db.create("on a server")
        with session.turn("hello") as turn:
            turn.answer("good day")
    more = ("--store", bare, *(("--key-file", str(tmp_path / "k"), "--vault", str(tmp_path / "v")) if sealed else ()))
    assert [row["title"] for row in told("sessions", "list", *more)["sessions"]] == ["on a server"]
    assert "good day" in json.dumps(told("sessions", "history", "latest", *more))
    assert told("sessions", "verify", *more)["ok"]
    assert told("doctor", *more)["ok"]
    told("sessions", "checkpoint", "latest", *more)
    told("sweep", *more)
    told("blobs", "list", *more)


def test_a_database_without_a_store_stays_so_and_no_message_shows_a_password(server: Server) -> None:
    empty = server.database()
    for words in (("sessions", "list"), ("sessions", "recover"), ("doctor",)):
        found = CliRunner().invoke(command_line, [*words, "--store", f"{empty}&password=hunter2"])
        assert found.exit_code == 5, found.output
        assert "hunter2" not in found.output
    found = CliRunner().invoke(command_line, ["sessions", "recover", "--store", empty])
    assert "has no perdure store" in found.output
    unreachable = "postgresql://u:hunter2@127.0.0.1:1/x?connect_timeout=1"
    found = CliRunner().invoke(command_line, ["doctor", "--store", unreachable])
    assert found.exit_code == 5
    assert "hunter2" not in found.output


def test_a_database_that_does_not_exist_is_named_with_the_way_to_make_it(server: Server, tmp_path: Path) -> None:
    found = CliRunner().invoke(command_line, ["sessions", "list", "--store", server.address("nowhere"), "--json"])
    assert (found.exit_code, json.loads(found.stdout)["error"]["code"]) == (5, "not_a_store")
    assert 'database "nowhere" does not exist' in found.stderr
    assert "createdb nowhere" in found.stderr
    with pytest.raises(errors.NotAStore, match="createdb nowhere"):
        perdure.open(server.address("nowhere"), key=tmp_path / "k", vault=tmp_path / "v")
    assert list(tmp_path.iterdir()) == []


def test_a_role_that_does_not_exist_is_not_a_busy_server(server: Server) -> None:
    stranger = server.address("postgres").replace("postgres@", "stranger@")
    with pytest.raises(errors.WorldError, match="check user and password") as refusal:
        perdure.open(stranger, seal=False)
    assert type(refusal.value) is errors.WorldError


def test_a_store_in_the_clear_has_no_keys_to_show(bare: str, tmp_path: Path) -> None:
    perdure.open(bare, seal=False).close()
    for more in ((), ("--key-file", str(tmp_path / "k"), "--vault", str(tmp_path / "v"))):
        for command in ("show", "rotate", "check"):
            found = CliRunner().invoke(command_line, ["keys", command, "--store", bare, *more])
            assert (found.exit_code, "is not sealed" in found.stderr) == (2, True), found.output
    found = CliRunner().invoke(command_line, ["keys", "show", "--store", bare, "--vault", bare])
    assert (found.exit_code, "is not sealed" in found.stderr) == (2, True), found.output


def test_one_in_the_clear_needs_nothing_named_to_be_opened_again(bare: str) -> None:
    perdure.open(bare, seal=False).close()
    with perdure.open(bare) as db:
        assert db.create("again").info().title == "again"
