"""The command line as real processes: pipes, signals, terminals, start-up."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import events as ev
from tests.edge.cli.conftest import HOSTILE, Seeded

pytestmark = pytest.mark.slow
SOURCE = str(Path(perdure.__file__).parent.parent)


def environment(**more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "COLUMNS", "LC_"))}
    return {**plain, "PYTHONPATH": SOURCE, **more}


def command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "perdure", *words]


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    plain: dict[str, Any] = {"capture_output": True, "text": True, "encoding": "utf-8", "stdin": subprocess.DEVNULL}
    return subprocess.run(command(words), check=False, env=environment(**more), **plain)


@contextmanager
def started(*words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A running command, gone afterwards whatever happens."""
    with subprocess.Popen(
        command(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), **options
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_help_loads_neither_rich_nor_any_command() -> None:
    code = "import sys; sys.argv = ['perdure', '--help']\n"
    code += "from perdure.__main__ import main\ntry: main()\nexcept SystemExit: pass\n"
    code += "print([n for n in sys.modules if n.split('.')[0] == 'rich' or n == 'perdure.edge.cli.listing'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_pipe_gets_no_escape_sequences_whatever_the_environment_wants(seeded: Seeded) -> None:
    wishes = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TTY_COMPATIBLE": "1", "TERM": "xterm-256color"}
    for words in (
        ["sessions", "list"],
        ["sessions", "show", "latest"],
        ["sessions", "history", seeded.trip],
        ["doctor"],
    ):
        done = run(*words, "--store", seeded.path, **wishes)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr


def test_a_terminal_that_knows_only_ascii_still_gets_the_list(seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        db.create("寿司")
    done = run("sessions", "list", "--store", seeded.path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, "\\u5bff\\u53f8" in done.stdout) == (0, True)


def test_a_reader_that_leaves_early_is_no_error(seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.create("long")
        for _ in range(40):
            with session.turn("word " * 1000) as turn:
                turn.answer("word " * 1000)
    for words in (["--events", "--json"], ["--json"], ["--events"], []):
        with started("sessions", "history", "latest", "--store", seeded.path, *words) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == ""
            assert process.wait() == 141


def test_tail_follows_other_processes_until_it_is_interrupted(seeded: Seeded) -> None:
    with started("sessions", "tail", seeded.trip, "--store", seeded.path, "--json") as process:
        assert process.stdout is not None
        with perdure.open(seeded.path) as db:
            session = db.session(seeded.trip)
            events = session.events()
            # The events there already are shown first: after them, it follows.
            shown = [json.loads(process.stdout.readline()) for _ in events[-10:]]
            version = session.append(ev.Message(role="user", content="are you there?"))
            shown.append(json.loads(process.stdout.readline()))
        assert [event["version"] for event in shown] == [*(event.version for event in events[-10:]), version]
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_is_colour_and_hostile_text_is_inert(seeded: Seeded) -> None:
    import pty

    with perdure.open(seeded.path) as db:
        db.create(HOSTILE)
    ours, theirs = pty.openpty()
    words = command(["sessions", "list", "--store", seeded.path])
    shell = environment(TERM="xterm-256color", COLUMNS="120")
    with subprocess.Popen(words, stdout=theirs, stderr=theirs, env=shell) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
        except OSError:
            pass  # how Linux says that the other side is closed
        finally:
            os.close(ours)
        assert process.wait() == 0
    text = shown.decode()
    assert "\x1b[32m" in text
    assert "\x1b[31mred" not in text
    assert "\\x1b[31mred" in text.replace("\r\n", "")
    assert not set(text) & set("\x07\x9b\u202e")
