"""`make serve`: what make starts is the server itself, and stopping it is no error."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0


def killed(group: int) -> bool:
    """End whatever is left of a group of processes; whether there was anything."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(which("make") is None, reason="there is no make")
@pytest.mark.skipif(not Path(sys.prefix, ".ready").exists(), reason="not in the environment of make setup")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_whoever_ends_make_ends_the_server(tmp_path: Path, stop: signal.Signals) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    arguments = f"ARGS=--port 0 --store {tmp_path / 'served.db'}"
    command = ["make", "-C", str(ROOT), "serve", f"SERVE_FROM={sys.prefix}", arguments]
    with out.open("wb") as printed, err.open("wb") as logged:
        make = subprocess.Popen(command, stdout=printed, stderr=logged, start_new_session=True)
        try:
            deadline = time.monotonic() + PATIENCE
            while b"serves at" not in out.read_bytes():
                assert make.poll() is None, err.read_text()
                assert time.monotonic() < deadline, "the server did not come up"
                time.sleep(0.05)
            if stop is signal.SIGTERM:
                make.send_signal(stop)
            else:
                os.killpg(make.pid, stop)  # as a terminal does
            assert make.wait(PATIENCE) == -stop
        finally:
            left = killed(make.pid)
            make.wait()
    assert not left, "the server went on"
    assert "stopped" in out.read_text().splitlines()
    assert "Error" not in err.read_text()
