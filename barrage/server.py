"""The server under fire: started, watched, and ended by its own process id."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0
"""Seconds a server has to say where it is, and to leave when it is told to."""
# Nobody is to be told to slow down: what lies behind the limits is what is shot at.
UNLIMITED = {
    "PERDURE_RATE": "1e6",
    "PERDURE_BURST": "1000000",
    "PERDURE_SESSION_RATE": "1e6",
    "PERDURE_SESSION_BURST": "1000000",
    "PERDURE_STRANGER_RATE": "1e6",
    "PERDURE_STRANGER_BURST": "1000000",
}
_NO_HTTP = "Invalid HTTP request received"
_COMPLAINTS = re.compile(r"Traceback|never retrieved|never awaited|Exception in ASGI|\bunexpected\b|CRITICAL")


class Server:
    """A `perdure serve` of our own, over a sealed store in a folder of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "server.log"
        announced = folder / "announced.json"
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-m", "perdure", "serve", "--store", str(folder / "barrage.db"), "--port", "0"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--announce", str(announced)],
                cwd=folder,
                env={**kept, **UNLIMITED, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it says the key there, to whoever started it
                stderr=log,
            )
        found = self._announced(announced)
        self.url: str = found["url"]
        self.key: str = found["key"]
        host, _, port = self.url.rpartition("//")[2].rpartition(":")
        self.host, self.port = host, int(port)

    def _announced(self, path: Path) -> dict[str, str]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if path.exists():
                found: dict[str, str] = json.loads(path.read_bytes())
                return found
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self.end()
        raise NotServing(f"the server did not come up; it said:\n{self.said()[-3000:]}")

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def resident(self) -> int:
        """Bytes of memory it has; 0 where that cannot be seen."""
        try:
            text = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        except OSError:
            return 0
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return int(found.group(1)) * 1024 if found else 0

    def said(self) -> str:
        """Its log so far, but for the lines about what was no HTTP."""
        lines = self._log.read_text("utf-8", "replace").splitlines() if self._log.exists() else []
        return "\n".join(line for line in lines if _NO_HTTP not in line)

    def complaints(self) -> list[str]:
        """What its log should not say: something unexpected, or the key it was asked with."""
        said = self.said().splitlines()
        found = [f"the log says: {line[:1500]}" for line in said if _COMPLAINTS.search(line)]
        return found[:20] + (["the log holds the key"] if any(self.key in line for line in said) else [])

    def end(self) -> int:
        """Have it leave in order; the exit code, after a kill if it would not."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)  # its last words say where it was
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            return -signal.SIGABRT


class NotServing(RuntimeError):
    """There is no server to shoot at."""
