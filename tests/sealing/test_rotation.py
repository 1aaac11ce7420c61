"""R16: the master key changes while everybody works on; a kill is finished by the next run; then the old key goes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import perdure
from perdure import errors, events
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.keyring import Keyring
from perdure.sealing.keys import Keys
from perdure.sealing.masters import HeldKeys
from perdure.sealing.rotation import forget, rotate
from perdure.sealing.volatilevault import VolatileVault
from tests.sealing.conftest import AMBIENT
from torture.process import ROOT, environment

KILLS = int(os.environ.get("PERDURE_KILLS", "12"))
"""How often a rotation is killed; 50 for a long run."""


def filled(path: Path, count: int) -> list[str]:
    with perdure.open(path) as db:
        made = [db.create(f"title {number}", tags=[f"t{number % 3}"]) for number in range(count)]
        for session in made[:5]:
            session.append(events.Message(role="user", content="words"))
        return [session.id for session in made]


def whole(path: Path, sessions: list[str], **how: Any) -> bool:
    with perdure.open(path, **how) as db:
        titles = {row.session: row.title for row in db.find(limit=1000).items}
        assert titles == {session: f"title {number}" for number, session in enumerate(sessions)}
        assert db.count(tags=["t1"]) == sum(number % 3 == 1 for number in range(len(sessions)))
        assert db.count(text="words") == min(5, len(sessions))
        return db.verify().ok


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def keys_of(store: Path) -> Keys:
    return Keys(KeyFile(f"{store}.master", AMBIENT), FileVault(f"{store}.keys", AMBIENT), AMBIENT)


def test_everything_comes_under_the_new_key_and_the_log_is_not_touched(store: Path) -> None:
    sessions = filled(store, 20)
    before, keys = store.read_bytes(), keys_of(store)
    (old,) = keys.masters.ids()
    done = keys.rotate()
    assert (done.wrapped, done.left) == (21, 0)
    assert done.master not in (old, "")
    assert [(shown.id, shown.current, shown.salts) for shown in keys.show()] == [
        (done.master, True, 21),
        (old, False, 0),
    ]
    assert store.read_bytes() == before
    keys.forget(old)
    keys.close()
    assert KeyFile(f"{store}.master", AMBIENT).ids() == (done.master,)
    assert whole(store, sessions)


def test_a_key_may_not_go_while_something_is_under_it(store: Path) -> None:
    filled(store, 3)
    keys = keys_of(store)
    (old,) = keys.masters.ids()
    with pytest.raises(errors.Refused, match="current"):
        keys.forget(old)
    assert isinstance(keys.masters, KeyFile)
    keys.masters.mint()
    with pytest.raises(errors.Refused, match="salts still lie under"):
        keys.forget(old)
    with pytest.raises(errors.NotFound):
        keys.forget("another")
    keys.close()
    assert old in KeyFile(f"{store}.master", AMBIENT).ids()


def test_rotating_again_and_again_ends_under_the_latest_key(store: Path) -> None:
    sessions, keys, seen = filled(store, 10), keys_of(store), list[str]()
    for _ in range(4):
        seen.append(keys.rotate().master)
    assert len(set(seen)) == 4
    for old in keys.masters.ids()[:-1]:
        keys.forget(old)
    keys.close()
    assert whole(store, sessions)


def test_resuming_makes_no_key(store: Path) -> None:
    sessions, keys = filled(store, 10), keys_of(store)
    before = keys.masters.ids()
    assert keys.rotate(resume=True).wrapped == 0
    assert keys.masters.ids() == before
    assert isinstance(keys.masters, KeyFile)
    new = keys.masters.mint()  # as if it had been killed right after
    done = keys.rotate()
    assert (done.master, done.wrapped) == (new, 11)
    keys.close()
    assert whole(store, sessions)


def test_processes_that_know_only_the_old_key_go_on(store: Path) -> None:
    """An open store reads the key file again when it meets a key it does not know."""
    sessions = filled(store, 10)
    with perdure.open(store) as db:
        db.session(sessions[0]).append(events.Feedback())
        early = [db.create("before") for _ in range(4)]  # and more salts in stock
        keys = keys_of(store)
        (old,) = keys.masters.ids()
        keys.rotate()
        keys.forget(old)
        keys.close()
        for session in sessions:
            assert db.session(session).verify().ok
        late = [db.create("after") for _ in range(20)]
        assert all(session.append(events.Feedback()) for session in early + late)
        assert db.session(sessions[7]).branch().verify().ok
    keys = keys_of(store)
    assert [shown.id for shown in keys.show()] == [keys.masters.current()], "no salt was made under the old key"
    keys.close()


def test_sessions_made_while_it_rotates_are_under_the_new_key(store: Path) -> None:
    sessions = filled(store, 60)
    stop, made, broken = Event(), list[str](), list[BaseException]()

    def busy() -> None:
        try:
            with perdure.open(store) as db:
                while not stop.is_set():
                    session = db.create("busy")
                    session.append(events.Message(role="user", content="on"))
                    made.append(session.id)
                    assert db.session(random.choice(sessions)).verify().ok
        except BaseException as error:
            broken.append(error)

    threads = [Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    keys = keys_of(store)
    for _ in range(3):
        rotate(keys.masters, keys.vault, AMBIENT, page=4)
    stop.set()
    for thread in threads:
        thread.join()
    assert broken == []
    for old in keys.masters.ids()[:-1]:
        keys.forget(old)
    keys.close()
    with perdure.open(store) as db:
        assert db.count() == 60 + len(made)
        assert db.verify().ok
    assert made


@pytest.mark.slow
def test_a_rotation_killed_at_any_moment_is_finished_by_the_next(store: Path) -> None:
    sessions, chance = filled(store, 150), random.Random(11)
    rounds, mixed, old_keys = 0, 0, set(KeyFile(f"{store}.master", AMBIENT).ids())
    killed = 0
    while killed < KILLS:
        rounds += 1
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.sealing.rotating", str(store)],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(chance.uniform(0, 0.08))
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0]
        killed += not rest
        keys = keys_of(store)
        under = [shown.id for shown in keys.show() if shown.salts]
        mixed += len(under) > 1
        old_keys |= set(keys.masters.ids())
        keys.close()
        assert len(under) <= 2, "a rotation begins only when the last one is done"
        with perdure.open(store) as db:  # whatever was killed, everything can be read
            for session in chance.sample(sessions, 4):
                assert db.session(session).verify().ok
            assert db.count(tags=["t2"]) == 50
        assert rounds < 20 * KILLS, "it is always done before it can be killed"
    assert mixed > 0, "no kill fell in the middle"
    keys = keys_of(store)
    keys.rotate(resume=True)
    for old in [shown.id for shown in keys.show() if not shown.current]:
        keys.forget(old)
    assert [shown.salts for shown in keys.show()] == [151]
    keys.close()
    assert len(old_keys) > 1
    assert whole(store, sessions)


# ── keys that are not in a file ──


def test_keys_from_the_environment_rotate_to_the_first() -> None:
    old, new = {"old": b"o" * 32}, {"new": b"n" * 32}
    vault = VolatileVault(AMBIENT)
    before = Keyring(HeldKeys(old, "$KEY"), vault, AMBIENT)
    salt, word = before.fresh(), before.blind("word", "w")
    with pytest.raises(errors.Refused, match="put a new one before it"):
        rotate(HeldKeys(old, "$KEY"), vault, AMBIENT)
    both = HeldKeys({**new, **old}, "$KEY")
    rolled_out = Keyring(both, vault, AMBIENT)
    rolled_out.fresh()
    assert {count.master for count in vault.census()} == {"old"}, "not before the rotation: others may not know the key"
    assert rotate(both, vault, AMBIENT).master == "new"
    assert {count.master for count in vault.census()} == {"new"}
    with pytest.raises(errors.Refused, match="take it out of"):
        forget(both, vault, "old")
    after = Keyring(HeldKeys(new, "$KEY"), vault, AMBIENT)
    assert after.blind("word", "w") == word
    assert salt is not None
    entry = vault.get(salt)
    assert entry is not None
    assert entry.master == "new"


def test_an_entry_whose_key_is_lost_is_left_and_counted() -> None:
    lost, kept = {"lost": b"l" * 32}, {"kept": b"k" * 32}
    vault = VolatileVault(AMBIENT)
    keyring = Keyring(HeldKeys(lost, "there"), vault, AMBIENT)
    keyring.fresh()
    both = HeldKeys({**kept, **lost}, "here")
    rotate(both, vault, AMBIENT)
    vault._entries = {
        name: entry if entry.kind != "salt" else _under(entry, "lost") for name, entry in vault._entries.items()
    }
    done = rotate(HeldKeys({"next": b"x" * 32, **kept}, "here"), vault, AMBIENT)
    assert (done.wrapped, done.left) == (1, 1)


def _under(entry: Any, master: str) -> Any:
    from msgspec.structs import replace

    return replace(entry, master=master)
