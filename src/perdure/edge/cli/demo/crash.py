"""The crash, for real: a child process works on the session and is killed in the middle of its turn.

The child reports on its stdout, one JSON line for each word and each durable step. What it has reported as durable
before it died is what must be found on disk afterwards.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from msgspec import Struct

from perdure.edge.cli import offline
from perdure.edge.cli.demo.stage import Stage

SAID = "Book the night train."
CHILD_SECONDS = 60
"""A child that nobody kills ends by itself."""


class Acknowledged(Struct, frozen=True):
    """An event that the library reported as durable, as the child then read it."""

    version: int
    kind: str
    digest: str


def work(store: str, session_id: str, desk_path: str) -> None:
    """What the child does: take a turn, report each step, and never come back from the booking desk."""
    import perdure

    desk = offline.Desk(desk_path)
    with perdure.open(store) as db:
        session = db.session(session_id)
        seen = session.version()

        def report(step: str) -> None:
            nonlocal seen
            events = session.events(seen)
            seen = events[-1].version if events else seen
            _send({"step": step, "events": [(event.version, event.kind, event.digest.hex()) for event in events]})

        def book_and_hang(wish: offline.Wish, key: str) -> Any:
            desk.run(wish, key)
            _send({"desk": "busy"})
            time.sleep(CHILD_SECONDS)

        offline.take_turn(session, SAID, book_and_hang, on_word=lambda word: _send({"word": word}), on_step=report)


def _send(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def kill_midway(stage: Stage, store: str, session_id: str, desk_path: str) -> tuple[list[Acknowledged], int]:
    """Run the child until its tool is running, then kill it. What it had acknowledged, and how it ended."""
    command = [sys.executable, "-m", "perdure", "demo", "--child", store, session_id, desk_path]
    acknowledged: list[Acknowledged] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=_environment()) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                message = json.loads(line)
                acknowledged += [Acknowledged(*event) for event in message.get("events", ())]
                _show(stage, message)
                if "desk" in message:
                    break
        finally:
            child.kill()
        ended = child.wait()
    return acknowledged, ended


def killed(code: int) -> bool:
    """Whether an exit code says that the process was killed, not that it ended."""
    return code == -signal.SIGKILL if os.name == "posix" else code != 0


def _environment() -> dict[str, str]:
    """The child imports what this process imported, wherever that came from."""
    import perdure

    source = os.path.dirname(os.path.dirname(os.path.abspath(perdure.__file__)))
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": source if not before else os.pathsep.join((source, before))}


def _show(stage: Stage, message: dict[str, Any]) -> None:
    match message:
        case {"step": "turn started"}:
            stage.line("user", SAID)
            stage.speaker("assistant")
        case {"word": word}:
            stage.word(word)
        case {"step": "answer"}:
            stage.end_line()
        case {"step": str(step)}:
            stage.line("tool", step)
        case _:
            stage.line("tool", "the desk has the booking; its answer is on the way …")
