"""MCP servers for tests, each in a process of its own, with the journal of what it ran."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.tools.mcp_link import StdioServer

SCRIPT = Path(__file__).with_name("mcp_server.py")
QUIET = ("-W", "ignore")
PATIENCE = 60.0


class Journal:
    """What a server has noted."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"
        self.path.touch()

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    def count(self, line: str) -> int:
        return self.lines().count(line)

    def starts(self) -> list[int]:
        return [int(line.split()[1]) for line in self.lines() if line.startswith("started ")]

    def holds(self, line: str, times: int = 1) -> bool:
        """Whether the server comes to note this, so many times."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.count(line) >= times:
                return True
            time.sleep(0.02)
        return False


def over_stdio(journal: Journal, **given: object) -> StdioServer:
    args = (*QUIET, str(SCRIPT), str(journal.path), "stdio")
    return StdioServer(command=sys.executable, args=args, **given)  # type: ignore[arg-type]


@contextmanager
def over_http(journal: Journal, port: int = 0) -> Iterator[int]:
    """The port of a server that answers at http://127.0.0.1:port/mcp."""
    server = subprocess.Popen(
        [sys.executable, *QUIET, str(SCRIPT), str(journal.path), str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.stdout.close()
        server.kill()
        server.wait()
