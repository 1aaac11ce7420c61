"""Forks: a child goes on with the handle it inherited, and neither it nor its parent loses or blocks anything.

Each test is a script of its own, since a process that pytest has filled with threads is no place to fork.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from torture.process import ROOT, environment

BEGIN = """
import gc, os, signal, sys, threading, time
import perdure
from perdure import events as ev
def turn(name): return [ev.TurnStarted(model=name), ev.Message(role="user", content=name), ev.TurnFinished()]
def names(session): return [e.data.model for e in session.events() if e.kind == "turn_started"]
def fork(work):
    child = os.fork()
    if child: return child
    try: work()
    except BaseException as error:
        print("child:", repr(error), flush=True)
        os._exit(1)
    os._exit(0)
def ended(child, seconds=15):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found: return status == 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("child: hung", flush=True)
    return False
path = sys.argv[1]
db = perdure.open(path)
session = db.create()
session.append(turn("before"))
"""


def run(script: str, folder: Path) -> None:
    """Run a script that must print nothing and end well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + script, str(folder / "store.db")],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_parent_and_child_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    run(
        """
def work():
    for n in range(50): session.append(turn(f"c{n}"))
    gc.collect()
    db.close()
child = fork(work)
for n in range(50): session.append(turn(f"p{n}"))
assert ended(child)
found = names(session)
assert [n for n in found if n[0] == "c"] == [f"c{n}" for n in range(50)], found
assert [n for n in found if n[0] == "p"] == [f"p{n}" for n in range(50)], found
assert session.verify().ok
session.append(turn("after"))
db.close()
""",
        tmp_path,
    )


def test_a_child_keeps_its_acknowledged_appends_when_the_parent_closes_the_store(tmp_path: Path) -> None:
    run(
        """
r, w = os.pipe()
r2, w2 = os.pipe()
def work():
    session.append(turn("c1"))
    os.write(w2, b"x")
    os.read(r, 1)
    session.append(turn("c2"))
child = fork(work)
os.read(r2, 1)
db.close()
os.write(w, b"x")
assert ended(child)
with perdure.open(path) as db:
    assert names(db.session(session.id)) == ["before", "c1", "c2"], names(db.session(session.id))
""",
        tmp_path,
    )


@pytest.mark.parametrize("closes", [True, False])
def test_a_child_that_only_exits_takes_nothing_from_its_parent(tmp_path: Path, closes: bool) -> None:
    run(
        f"""
for n in range(10):
    child = fork(lambda: db.close() if {closes} else gc.collect())
    session.append(turn(f"p{{n}}"))
    assert ended(child)
assert names(session) == ["before", *(f"p{{n}}" for n in range(10))]
db.close()
""",
        tmp_path,
    )


def test_a_fork_in_the_midst_of_writing_threads_leaves_both_able_to_write(tmp_path: Path) -> None:
    run(
        """
stop, counts = threading.Event(), [0] * 3
def busy(n):
    while not stop.is_set():
        session.append(turn(f"p{n}.{counts[n]}"))
        counts[n] += 1
threads = [threading.Thread(target=busy, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
def work(n):
    for m in range(3): session.append(turn(f"c{n}.{m}"))
    session.events()
well = True
for n in range(12):
    well = well and ended(fork(lambda: work(n)), 4)
stop.set()
for thread in threads: thread.join()
assert well
found = names(session)
for n in range(3): assert [x for x in found if x.startswith(f"p{n}.")] == [f"p{n}.{m}" for m in range(counts[n])]
for n in range(12): assert [x for x in found if x.startswith(f"c{n}.")] == [f"c{n}.{m}" for m in range(3)]
assert session.verify().ok
db.close()
""",
        tmp_path,
    )


def test_a_child_does_not_wait_for_what_another_thread_was_loading(tmp_path: Path) -> None:
    run(
        """
loading = threading.Event()
class Slow:
    def find_spec(self, name, *_):
        if name == "perdure.services.mirroring":
            loading.set()
            time.sleep(0.5)
sys.meta_path.insert(0, Slow())
services = db._behind._services
maker = threading.Thread(target=lambda: services.mirroring)
maker.start()
loading.wait()
def work():
    assert services.mirroring is not None
    session.branch()
    assert session.verify().ok
assert ended(fork(work))
maker.join()
assert session.verify().ok
db.close()
""",
        tmp_path,
    )


def test_an_object_that_fails_at_every_fork_keeps_no_other_from_going_on(tmp_path: Path) -> None:
    run(
        """
from perdure import forking
class Owner: pass
failing, told = Owner(), []
def fail(owner):
    told.append("failed")
    raise LookupError("always")
forking.on_fork(failing, forking.Forking(lambda owner: None, fail, fail))
sys.unraisablehook = lambda unraisable: None  # Python reports what a hook of a fork raises
child = fork(lambda: session.append(turn("c")))
session.append(turn("p"))
assert ended(child)
assert told and not forking._paused
assert sorted(names(session)) == ["before", "c", "p"]
db.close()
""",
        tmp_path,
    )
