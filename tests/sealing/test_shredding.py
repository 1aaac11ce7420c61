"""Erasing: destroying a salt makes every copy of the session unreadable, and a kill at any point converges."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure import errors, events
from perdure.ports.seal import Salted
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyring import Keyring
from perdure.stores.sqlite import writes
from perdure.waiting import drive
from tests.sealing.conftest import AMBIENT
from torture.process import environment


def said(text: str) -> events.Message:
    return events.Message(role="user", content=text)


def filled(path: Path, count: int = 3) -> list[str]:
    with perdure.open(path) as db:
        made = [db.create(f"title {number}", tags=["t"]) for number in range(count)]
        for session in made:
            session.append(said("words of mine"))
            session.checkpoint("here")
        return [session.id for session in made]


def salts(path: Path) -> dict[str, bytes | None]:
    with perdure.open(path) as db:
        store = db._behind._services.store
        inner = getattr(store, "inner", store)
        assert isinstance(inner, Salted)
        return dict(drive(inner.salts(None, 1000)))


def in_vault(path: Path, name: bytes | None) -> bool:
    vault = FileVault(f"{path}.keys", AMBIENT)
    try:
        return name is not None and vault.get(name) is not None
    finally:
        vault.close()


def test_a_session_erased_today_is_unreadable_in_yesterdays_copy(tmp_path: Path) -> None:
    path, yesterday = tmp_path / "agent.db", tmp_path / "yesterday.db"
    gone, kept, _ = filled(path)
    shutil.copy(path, yesterday)
    with perdure.open(path) as db:
        db.session(gone).erase()
    with perdure.open(yesterday, key=f"{path}.master", vault=f"{path}.keys") as db:
        session = db.session(gone)
        for question in (session.events, session.state, session.turns, session.checkpoints):
            with pytest.raises(errors.Shredded, match="erased"):
                question()
        assert not session.verify().ok
        with pytest.raises(errors.Shredded):
            session.append(said("more"))
        assert session.info().title == ""
        assert [row.title for row in db.find().items] == ["title 2", "title 1", ""], "the others are still listed"
        assert db.count(text="mine") == 2
        assert "words of mine" in [event.data.content for event in db.session(kept).events() if event.kind == "message"]
        told = drive(db._behind._services.store.changes(0, 100))
        assert [change.kinds for change in told if change.session == gone] == [(), (), ()], "the feed goes on"
        assert not db.verify().ok
        assert session.erase() == 0, "what cannot be read can still be taken away"
        assert db.verify().ok


def test_the_branches_of_an_erased_session_are_their_own(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    parent, *_ = filled(path)
    with perdure.open(path) as db:
        branch = db.session(parent).branch()
        branch.append(said("onwards"))
    before = salts(path)
    with perdure.open(path) as db:
        db.session(parent).erase()
        assert [event.data.content for event in db.session(branch.id).events() if event.kind == "message"] == [
            "words of mine",
            "onwards",
        ]
        assert db.verify().ok
    assert not in_vault(path, before[parent])
    assert in_vault(path, before[branch.id])


@pytest.mark.parametrize(("error", "condemned"), [(errors.DiskFull, 1), (errors.PruneRefused, 0)])
def test_what_cannot_be_erased_keeps_its_salt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[errors.PerdureError], condemned: int
) -> None:
    """After a refusal the mark is taken back at once; after an error nobody knows whether the erasure was made, and
    the mark stays for the next one who opens the store.
    """
    path = tmp_path / "agent.db"
    first, *_ = filled(path)
    before = salts(path)[first]

    def fails(*_: object) -> bool:
        raise error("not now; try again")

    with perdure.open(path) as db:
        monkeypatch.setattr(writes, "erase", fails)
        with pytest.raises(error):
            db.session(first).erase()
        assert db.session(first).verify().ok
    vault = FileVault(f"{path}.keys", AMBIENT)
    assert vault.census()[0].condemned == condemned
    vault.close()
    assert in_vault(path, before)
    with perdure.open(path) as db:
        assert db.session(first).verify().ok


async def test_an_erasure_that_is_cancelled_goes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, condemn, begun = tmp_path / "agent.db", Keyring.condemn, asyncio.Event()
    first, *_ = filled(path)
    name, loop = salts(path)[first], asyncio.get_running_loop()

    def slowly(self: Keyring, names: list[bytes]) -> None:
        condemn(self, names)
        loop.call_soon_threadsafe(begun.set)

    monkeypatch.setattr(Keyring, "condemn", slowly)
    async with await perdure.aopen(path) as db:
        erasing = asyncio.ensure_future((await db.session(first)).erase())
        await begun.wait()
        erasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await erasing
        assert await db.count() == 2
    assert not in_vault(path, name)


ERASE = """
import os, signal, sys
import perdure
from perdure.sealing.keyring import Keyring
from perdure.stores.sqlite import writes
path, session, point = sys.argv[1:]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
def before(owner, name):
    real = getattr(owner, name)
    def dies(*given, **named):
        die()
        return real(*given, **named)
    setattr(owner, name, dies)
def after(owner, name):
    real = getattr(owner, name)
    def dies(*given, **named):
        real(*given, **named)
        die()
    setattr(owner, name, dies)
where, _, step = point.partition(" ")
owner, name = {"condemn": (Keyring, "condemn"), "erase": (writes, "erase"), "destroy": (Keyring, "destroy")}[step]
(before if where == "before" else after)(owner, name)
with perdure.open(path) as db:
    db.session(session).erase()
"""
POINTS = {
    "before condemn": True,
    "after condemn": True,
    "after erase": True,  # inside the transaction, which dies with the process
    "before destroy": False,
    "after destroy": False,
}


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_an_erasure_converges(tmp_path: Path, point: str) -> None:
    path = tmp_path / "agent.db"
    wanted, *others = filled(path)
    names = salts(path)
    done = subprocess.run(
        [sys.executable, "-c", ERASE, str(path), wanted, point], env=environment(), timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, "the blow never fell"
    left = salts(path)  # opening settles it
    assert (wanted in left) == POINTS[point]
    assert in_vault(path, names[wanted]) == POINTS[point], "salt and session go together"
    with perdure.open(path) as db:
        assert db.verify().ok
        if POINTS[point]:
            db.session(wanted).erase()
        assert {row.session for row in db.find().items} == set(others)
    assert not in_vault(path, names[wanted])
    assert all(in_vault(path, names[other]) for other in others)


def test_a_session_made_again_under_the_same_id_has_another_salt(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    first, *_ = filled(path)
    before = salts(path)[first]
    with perdure.open(path) as db, perdure.open(path) as other:
        stale = other.session(first)
        stale.append(said("known here"))
        db.session(first).erase()
        db.create("again", id=first).append(said("anew"))
        with pytest.raises(errors.PerdureError):
            stale.append(said("too late"), expected=3)
        assert other.session(first).info().title == "again"
        assert db.session(first).verify().ok
    assert salts(path)[first] not in (before, None)
    assert os.path.getsize(path)
