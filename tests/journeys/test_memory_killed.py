"""A process that is killed between the append and its answer: the same key keeps once, and nothing is lost (R4)."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.compose.wiring import embedded
from perdure.core.memory.parts import vault
from perdure.core.memory.requests import Keeping
from perdure.sealing.given import Given
from perdure.waiting import drive
from tests.services.shelved import remembering

PROGRAM = """
import os, signal, sys
from perdure.compose.wiring import embedded
from perdure.core.memory.parts import vault
from perdure.core.memory.requests import Keeping
from perdure.sealing.given import Given
from perdure.waiting import drive
from tests.services.shelved import remembering

services = embedded(sys.argv[1], keys=Given(False))
memories = remembering(services.sessions, services.erasure)
drive(memories.keep(vault("ana"), [Keeping(content="before")]))

async def killed(*words, **more):
    if sys.argv[2] == "after":
        await whole(*words, **more)
    os.kill(os.getpid(), signal.SIGKILL)

whole = services.sessions.store.append
services.sessions.store.append = killed
drive(memories.keep(vault("ana"), [Keeping(content="tea"), Keeping(content="rain")], key="k"))
"""


@pytest.mark.parametrize(("moment", "left"), [("after", 3), ("before", 1)])
def test_a_kill_around_the_append_keeps_all_or_nothing_and_the_key_keeps_once(
    tmp_path: Path, moment: str, left: int
) -> None:
    place = str(tmp_path / "store.db")
    done = subprocess.run([sys.executable, "-c", PROGRAM, place, moment], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    services = embedded(place, keys=Given(False))
    memories = remembering(services.sessions, services.erasure)
    assert len(drive(memories.list(vault("ana"))).items) == left
    asked = [Keeping(content="tea"), Keeping(content="rain")]
    for _ in range(2):
        again = drive(memories.keep(vault("ana"), asked, key="k"))
        assert [memory.content for memory in again] == ["tea", "rain"]
    contents = [memory.content for memory in drive(memories.list(vault("ana"))).items]
    assert contents == ["before", "tea", "rain"]
    drive(services.store.close())
