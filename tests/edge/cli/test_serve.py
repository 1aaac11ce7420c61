"""`perdure serve` as a process: what it prints and logs from start to stop, and that a failed start leaves nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.edge.cli.serve import greeting
from perdure.edge.http.welcome import Welcome

PATIENCE = 60.0
COMMAND = [sys.executable, "-m", "perdure", "serve", "--port", "0"]


@contextmanager
def running(folder: Path, *more: str, journal: bool = False, stop: signal.Signals = signal.SIGTERM) -> Iterator[Path]:
    """A server that has said it is ready, stopped in the end; what it prints is in a file."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as printed, err.open("wb") as logged:
        place = os.fstat(printed.fileno())
        told = {"JOURNAL_STREAM": f"{place.st_dev}:{place.st_ino if journal else place.st_ino + 1}"}
        command = [*COMMAND, *more]
        process = subprocess.Popen(command, cwd=folder, stdout=printed, stderr=logged, env={**os.environ, **told})
        try:
            deadline = time.monotonic() + PATIENCE
            while b"serves at" not in out.read_bytes() and not (journal and b'"ready"' in err.read_bytes()):
                assert process.poll() is None, err.read_text()
                assert time.monotonic() < deadline, "the server did not come up"
                time.sleep(0.05)
            yield out
        finally:
            process.send_signal(stop)
            assert process.wait(PATIENCE) in (-stop, 128 + stop)  # as shells spell the one, and the other outright


def failed(folder: Path, *more: str) -> str:
    """What a server that does not start says; it leaves nothing behind."""
    before = sorted(folder.iterdir())
    run = subprocess.run([*COMMAND, *more], cwd=folder, capture_output=True, timeout=PATIENCE, check=False)
    assert run.returncode != 0
    assert sorted(folder.iterdir()) == before
    return run.stderr.decode()


@pytest.mark.slow
def test_a_server_says_where_to_click_and_logs_that_it_is_ready_leaves_and_has_stopped(tmp_path: Path) -> None:
    with running(tmp_path) as out:
        pass
    printed = out.read_text()
    assert "sign in:  http://127.0.0.1:" in printed
    assert "export PERDURE_KEY=pdk_" in printed
    assert printed.splitlines()[-1] == "stopped"
    logged = [json.loads(line) for line in (tmp_path / "err").read_text().splitlines() if line.startswith("{")]
    assert [line["message"] for line in logged] == ["ready", "leaving", "stopped"]
    assert logged[0]["store"] == "sqlite"
    assert "pdk_" not in str(logged)


@pytest.mark.slow
def test_a_journal_gets_json_lines_only_and_neither_key_nor_link_but_how_to_make_one(tmp_path: Path) -> None:
    with running(tmp_path, "--store", "kept.db", journal=True) as out:
        pass
    printed = out.read_text() + (tmp_path / "err").read_text()
    assert "pdk_" not in printed
    assert "signin" not in printed
    lines = [json.loads(line) for line in printed.splitlines()]
    noted, ready, offered, leaving, stopped = lines
    assert "master" in noted["message"]
    assert (ready["message"], leaving["message"], stopped["message"]) == ("ready", "leaving", "stopped")
    assert ready["url"].startswith("http://127.0.0.1:")
    assert offered["command"].endswith("--key --store kept.db")
    listed = [sys.executable, "-m", "perdure", "principals", "keys", "--store", "kept.db", "--json"]
    run = subprocess.run(listed, cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(run.stdout)["keys"] == []  # none was made that nobody ever sees


@pytest.mark.slow
def test_ctrl_c_stops_a_server_as_it_stops_any_command(tmp_path: Path) -> None:
    with running(tmp_path, stop=signal.SIGINT) as out:
        pass
    assert out.read_text().splitlines()[-1] == "stopped"


def test_the_words_of_welcome_have_what_curl_needs_for_mutual_tls() -> None:
    there = Welcome(url="https://127.0.0.1:7464", link="https://127.0.0.1:7464/signin?code=c", key="pdk_k")
    alone = greeting(there, client_ca=None)
    assert ("--cert" in alone.replace("--cacert", ""), "--cacert ca.pem" in alone) == (False, True)
    both = greeting(there, client_ca="my tls/ca.pem")
    assert "curl --cert 'my tls/client.pem' --key 'my tls/client.key' $PERDURE_URL/v1/sessions" in both
    assert 'certificate=("my tls/client.pem", "my tls/client.key")' in both


@pytest.mark.slow
def test_a_failed_start_leaves_neither_a_store_nor_keys(tmp_path: Path) -> None:
    assert "there is no file none.pem" in failed(tmp_path, "--tls-cert", "none.pem", "--tls-key", "none.pem")
    told = failed(tmp_path, "--host", "0.0.0.0", "--insecure", "--store", "new one.db")
    assert "perdure principals add NAME --role admin --role owner --key --create --store 'new one.db'" in told
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "choose another --port" in failed(tmp_path, "--port", str(taken.getsockname()[1]))
