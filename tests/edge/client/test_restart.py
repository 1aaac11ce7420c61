"""A server that is killed and started again under its clients: nothing acknowledged is lost, nothing is doubled."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perdure
from perdure import events as ev

PATIENCE = 30.0
WRITERS = 3
WORDS = 40


class Process:
    """`perdure serve` in a process of its own."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        where = folder / "announced.json"
        where.unlink(missing_ok=True)
        command = [sys.executable, "-W", "ignore", "-m", "perdure", "serve", "--store", str(folder / "killed.db")]
        command += ["--port", str(port), "--announce", str(where)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while not where.exists():
            assert time.monotonic() < until
            assert self._process.poll() is None
            time.sleep(0.02)
        found = json.loads(where.read_text())
        self.url, self.key = found["url"], found["key"]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.slow
def test_clients_go_on_over_a_killed_server(tmp_path: Path) -> None:
    servers = [Process(tmp_path)]
    try:
        said, acknowledged = carried_on(tmp_path, servers)
    finally:
        for server in servers:
            server.kill()
    assert len(acknowledged) == WRITERS * WORDS
    assert sorted(said) == sorted(acknowledged)
    for writer in range(WRITERS):
        mine = [word for word in said if word.startswith(f"{writer}.")]
        assert mine == [f"{writer}.{number}" for number in range(WORDS)]


def carried_on(folder: Path, servers: list[Process]) -> tuple[list[str], list[str]]:
    """What a session says in the end, and what writers were told was written, over three kills."""
    first = servers[0]
    acknowledged: list[str] = []
    with perdure.connect(first.url, first.key, retries=12) as db:
        session = db.create()

        def write(writer: int) -> None:
            for number in range(WORDS):
                session.append(ev.Message(role="user", content=f"{writer}.{number}"))
                acknowledged.append(f"{writer}.{number}")

        threads = [threading.Thread(target=write, args=(writer,), daemon=True) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        for share in (0.2, 0.5, 0.8):
            while len(acknowledged) < share * WRITERS * WORDS and any(thread.is_alive() for thread in threads):
                time.sleep(0.005)
            servers[-1].kill()
            servers.append(Process(folder, int(first.url.rpartition(":")[2])))
        for thread in threads:
            thread.join(PATIENCE)
        assert session.verify().ok
        said = [event.data.content for event in session.events() if isinstance(event.data, ev.Message)]
        return said, list(acknowledged)
