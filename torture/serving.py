"""A real server process: started, asked over real sockets, killed by its own process id.

Invariant: when `kill` or `leave` returns, the process is dead and reaped; every start is another process.
"""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from torture.process import ROOT, environment

PATIENCE = 60.0
"""Seconds after which a server that does not get ready, or a request that nobody answers, is called stuck."""
PAUSE = 0.02
FREE: tuple[str, ...] = (
    "--rate",
    "1000000",
    "--burst",
    "1000000000",
    "--session-rate",
    "1000000",
    "--session-burst",
    "1000000000",
)
FREE += ("--stranger-rate", "1000000", "--stranger-burst", "1000000000", "--anomaly", "off")


class Stuck(Exception):
    """Something took longer than it ever should."""


class Asked(msgspec.Struct):
    """An answer, and how often the request had to be sent for it."""

    status: int
    body: Any
    headers: dict[str, str]
    sent: int = 1


class Server:
    """A server over one store, in one life after the other."""

    def __init__(self, store: Path, folder: Path, sealed: bool) -> None:
        self.store = store
        self.lives = 0
        self.address: tuple[str, int] | None = None
        self.key = ""
        self.answers: Counter[int] = Counter()
        self._announced = folder / "announced.json"
        self._errors = folder / "server.stderr"
        self._seal = "--seal" if sealed else "--no-seal"
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start a process; `ready` waits for it."""
        self.lives += 1
        self.address = None
        self._announced.unlink(missing_ok=True)
        command = [sys.executable, "-m", "perdure", "serve", "--store", str(self.store), self._seal, "--port", "0"]
        command += ["--announce", str(self._announced), "--log-level", "warning", *FREE]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command, env=environment(), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors
            )

    def ready(self) -> float:
        """Wait until the server says where it is; how many seconds that took."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            if self._process is None or self._process.poll() is not None:
                raise Stuck(f"the server ended by itself: {self.said()}")
            try:
                told = json.loads(self._announced.read_bytes())
            except (OSError, ValueError):
                time.sleep(PAUSE)
                continue
            host, _, port = told["url"].removeprefix("http://").rpartition(":")
            self.key = told["key"]
            self.address = host, int(port)
            return time.monotonic() - began
        raise Stuck(f"the server is not ready after {PATIENCE:g} s: {self.said()}")

    def kill(self) -> None:
        """End it at once."""
        self._end(signal.SIGKILL)

    def leave(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        self.address = None
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    @property
    def announced(self) -> bool:
        """Whether this life came as far as to say where it is."""
        return self._announced.exists()

    def said(self) -> str:
        """The end of what it wrote to its log."""
        return self._errors.read_text(errors="replace")[-1500:] if self._errors.exists() else ""


class Line:
    """One client's connection, made anew whenever it breaks. Belongs to one thread."""

    def __init__(self, server: Server, key: str = "") -> None:
        self.server = server
        self.key = key
        self._connection: http.client.HTTPConnection | None = None
        self._at: tuple[str, int] | None = None

    def close(self) -> None:
        """Hang up; the next request dials anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.close()

    def once(self, method: str, path: str, body: Any = None, **headers: str) -> Asked:
        """Ask, and take whatever happens: OSError or HTTPException when no answer came."""
        address = self.server.address
        if address is None:
            raise ConnectionRefusedError("there is no server now")
        if self._connection is None or self._at != address:
            self.close()
            self._connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
            self._at = address
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"authorization": f"Bearer {self.key}"} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }
        if data is not None:
            sent.setdefault("content-type", "application/json")
        try:
            self._connection.request(method, path, data, sent)
            reply = self._connection.getresponse()
            told = reply.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        self.server.answers[reply.status] += 1
        kind = reply.headers.get("content-type", "")
        found = json.loads(told) if told and "json" in kind and "ndjson" not in kind else told
        return Asked(reply.status, found, {name.lower(): value for name, value in reply.headers.items()})

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Asked:
        """Ask until there is an answer, the same request each time: what a client does whose answer was lost. A server
        that says it cannot now is asked again, too.
        """
        ends, sent = time.monotonic() + PATIENCE, 0
        while time.monotonic() < ends:
            sent += 1
            try:
                found = self.once(method, path, body, **headers)
            except (OSError, http.client.HTTPException) as broken:
                sent -= isinstance(broken, ConnectionRefusedError)  # it never went out
                time.sleep(PAUSE)
                continue
            if found.status in (503, 507):
                time.sleep(5 * PAUSE)
                continue
            found.sent = sent
            return found
        raise Stuck(f"{method} {path} had no answer in {PATIENCE:g} s, sent {sent} times")


class Stopping(threading.Event):
    """Set when everybody is to finish what they are at."""
