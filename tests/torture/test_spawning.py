"""Children whose process is killed at any moment: each is found, ends once, and its parent's money adds up."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.core.session.children import ChildFinished, Spawned
from perdure.models import Models, Talk, Upstream

ROOT = Path(__file__).parents[2]
KILLS = 12
CHILDREN = 6
CAP = 50_000_000
TALK = Talk(
    models=Models(
        upstreams={"offline": Upstream(name="offline", kind="offline")}, default="offline/m", cheap="offline/m"
    )
)
RATES = {"input": 1_000_000, "output": 2_000_000, "cache_read": 100_000, "cache_write": 1_000_000}
PRICES = {"as_of": "2026-11-01", "prices": [{"provider": "offline", "models": ["m"], "rates": RATES, "window": 9000}]}
SCRIPT = """
import sys, perdure
from tests.torture.test_spawning import TALK
path, session = sys.argv[1:]
with perdure.open(path, seal=False, talk=TALK) as db:
    parent = db.session(session)
    print("ready", flush=True)
    for number in range(6):
        parent.spawn(f"task {number}", max_cost=1_000_000 if number % 2 else None, key=f"k{number}")
    parent.wait_for_children()
    print("done", flush=True)
"""


@pytest.mark.slow
def test_killing_a_parent_s_process_loses_no_child_and_no_money(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices.json").write_text(json.dumps(PRICES))
    monkeypatch.setenv("PERDURE_PRICES", str(tmp_path / "prices.json"))
    path, script, chance = str(tmp_path / "store.db"), tmp_path / "script.py", random.Random(20_261_116)
    script.write_text(SCRIPT)
    killed = 0
    for _ in range(KILLS):
        with perdure.open(path, seal=False) as db:
            session = db.create("parent", config={"max_cost": CAP}).id
        words = [sys.executable, str(script), path, session]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            process.wait(chance.uniform(0.0, 0.4))
        except subprocess.TimeoutExpired:
            process.kill()
            killed += 1
        process.communicate()
        _look_after(path, session)
    assert killed > KILLS // 3


def _look_after(path: str, session: str) -> None:
    """The same again, by somebody else: what was begun is finished, and the rest is begun."""
    with perdure.open(path, seal=False, talk=TALK) as db:
        parent = db.session(session)
        for number in range(CHILDREN):
            parent.spawn(f"task {number}", max_cost=1_000_000 if number % 2 else None, key=f"k{number}")
        parent.wait_for_children()
        children = parent.children()
        assert [(child.task, child.status) for child in children] == [
            (f"task {number}", "finished") for number in range(CHILDREN)
        ]
        kinds = [event.kind for event in parent.events()]
        assert (kinds.count(Spawned.kind), kinds.count(ChildFinished.kind)) == (CHILDREN, CHILDREN)
        rows = [db.session(child.session) for child in children]
        assert {row.info().phase for row in rows} == {"completed"}
        account = parent.account()
        assert (account.reserved, account.spent, account.paused) == (0, sum(child.spent for child in children), False)
        assert sum(row.state().budget.spent for row in rows) == account.spent > 0
        parent.complete()
        assert db.verify().ok
