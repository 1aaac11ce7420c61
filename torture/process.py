"""Starting workers, listening to them, and ending them at the right moment, by their own process id.

Invariant: every process started here is dead and reaped when `Hand.wait` returns, and all it said is in `lines`.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from torture.blows import MOMENT, OPENING, Blow, fired, traced
from torture.line import Line, Task, read

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 90.0
"""Seconds after which a worker that neither died nor finished is called stuck."""


def environment() -> dict[str, str]:
    """What every child sees: this project, installed or not, and no word about the keys of stores nobody keeps."""
    path = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore:a new master key was made"}


class Hand:
    """One worker and the blow that awaits it (or none)."""

    def __init__(self, task: Task, folder: Path, blow: Blow | None = None, when: int = 0, dies_of_fault: bool = False):
        self.task = task
        self.blow = blow
        self.lines: list[Line] = []
        self.killed = False
        self.stuck = False
        self._when = when
        self._dies_of_fault = dies_of_fault
        self._log = folder / f"{task.name}.strace"
        self._errors = folder / f"{task.name}.stderr"
        self._pid = 0
        read_end, write_end = os.pipe()
        command = [sys.executable, "-m", "torture.worker", msgspec.json.encode(task).decode(), str(write_end)]
        if blow is not None and blow.traced:
            command = traced(command, blow, when, Path(task.store), self._log)
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), pass_fds=[write_end], stdin=subprocess.DEVNULL, stderr=errors
            )
        os.close(write_end)
        self._reader = threading.Thread(target=self._listen, args=(read_end,), daemon=True)
        self._reader.start()

    def _listen(self, descriptor: int) -> None:
        """Take down every line; strike when the moment has come."""
        tries = 0
        with os.fdopen(descriptor, "rb") as pipe:
            for text in pipe:
                line = read(text)
                self.lines.append(line)
                if line.do == "pid":
                    self._pid = line.at
                tries += line.do in ("try", "mark")
                if self._due(line, tries):
                    self._strike()

    def _due(self, line: Line, tries: int) -> bool:
        if self._dies_of_fault:
            return line.do == "fault"
        if self.blow is OPENING:
            return line.do == "opening"
        return self.blow is MOMENT and tries == self._when

    def _strike(self) -> None:
        """SIGKILL, after a pause that comes from the seed and lies between the lines."""
        time.sleep(self._when / 1000 if self.blow is OPENING else (self._when * 7919 % 60) / 10_000)
        self._kill()
        self.killed = True

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._pid and self._process.poll() is None:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self, patience: float = PATIENCE) -> None:
        """Until it is dead and everything it said has been read."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.stuck = True
            self.end()
        self._reader.join()

    def end(self) -> None:
        """Make sure that it is dead."""
        self._kill()
        self._process.kill()
        self._process.wait()

    @property
    def died(self) -> bool:
        """Killed by its blow, rather than having reached the end of its task."""
        return self._process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) and not self.stuck

    @property
    def hit(self) -> bool:
        """Whether the blow fell."""
        if self.blow is None:
            return False
        return fired(self.blow, self._log) if self.blow.traced else self.killed and self.died

    def complaint(self) -> str | None:
        """What is wrong with how it ended, if anything."""
        if self.stuck:
            return f"{self.task.name} ({self.task.mode}) was still running after {PATIENCE:.0f} s"
        if self._process.returncode not in (0, -signal.SIGKILL, 128 + signal.SIGKILL):
            said = self._errors.read_text("utf-8", "replace")[-2000:]
            return f"{self.task.name} ({self.task.mode}) ended with {self._process.returncode}: {said}"
        return None


def run_checker(store: Path | str, ledger: Path, *more: str) -> bytes:
    """The checker's document, from a fresh process; its own failure is a finding too."""
    command = [sys.executable, "-m", "torture.checker", str(store), str(ledger), *more]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, timeout=300, check=False)
    if done.returncode != 0:
        raise CheckerFailed(done.stderr.decode("utf-8", "replace")[-3000:])
    return done.stdout


class CheckerFailed(RuntimeError):
    """The store could not even be looked at."""
