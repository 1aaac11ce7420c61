"""The command line on a PostgreSQL database, as on a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import perdure
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
