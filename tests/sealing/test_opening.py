"""Opening stores with keys: sealed by default, refused without them, and never by half."""

import os
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure import errors, events
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.masters import made_up
from perdure.sealing.volatilevault import VolatileVault
from perdure.stores.packing import inflate
from tests.sealing.conftest import AMBIENT
from torture.process import environment


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(("-wal", "-shm")))


def filled(path: Path, **how: Any) -> str:
    with perdure.open(path, **how) as db:
        session = db.create("a title")
        session.append(events.Message(role="user", content="a few words"))
        return session.id


def read(path: Path, session: str, **how: Any) -> Any:
    with perdure.open(path, **how) as db:
        assert db.find(title="title").items[0].title == "a title"
        return db.session(session).events()[-1].data.content


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def test_a_new_store_is_sealed_and_says_so_once(store: Path) -> None:
    with pytest.warns(UserWarning, match="back up both") as heard:
        session = filled(store)
    (said,) = heard
    for name in ("agent.db.master", "agent.db.keys"):
        assert str(store.parent / name) in str(said.message)
    assert said.filename == __file__, "the warning points at the call"
    assert names(store.parent) == ["agent.db", "agent.db.keys", "agent.db.master"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(store, session) == "a few words"


async def test_the_same_in_async_code(store: Path) -> None:
    with pytest.warns(UserWarning, match="back up both") as heard:
        db = await perdure.aopen(store)
    assert heard[0].filename == __file__
    await db.create()
    await db.close()
    db = await perdure.aopen(store, read_only=True)
    assert await db.count() == 1
    await db.close()


def test_a_store_may_be_kept_in_the_clear(store: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = filled(store, seal=False)
    assert names(store.parent) == ["agent.db"]
    assert read(store, session) == read(store, session, seal=False) == "a few words"
    assert b"a few words" in store.read_bytes()


def test_one_in_the_clear_cannot_be_sealed_later_and_the_refusal_tells_the_way(store: Path) -> None:
    session = filled(store, seal=False)
    for how in ({"seal": True}, {"key": store.parent / "k"}, {"vault": store.parent / "v"}):
        with pytest.raises(errors.Refused, match="export"):
            perdure.open(store, **how)  # type: ignore[arg-type]
    assert names(store.parent) == ["agent.db"]
    assert read(store, session) == "a few words"


def test_a_sealed_one_stays_sealed(store: Path) -> None:
    filled(store)
    with pytest.raises(errors.Refused, match="stays so"):
        perdure.open(store, seal=False)


def test_a_store_of_the_first_format_stays_as_it_is(store: Path) -> None:
    fixture = Path(__file__).parents[1] / "fixtures" / "format-1.db.zst"
    store.write_bytes(inflate(fixture.read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with perdure.open(store) as db:
            assert db.count() > 0
            db.create("new")
    assert names(store.parent) == ["agent.db"]
    with pytest.raises(errors.Refused):
        perdure.open(store, seal=True)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("lost", ["agent.db.master", "agent.db.keys"])
def test_without_its_key_or_vault_a_sealed_store_is_refused_and_nothing_is_made(
    store: Path, lost: str, read_only: bool
) -> None:
    session = filled(store)
    away = store.parent / "elsewhere"
    (store.parent / lost).rename(away)
    with pytest.raises(errors.KeyMissing, match="put it back"):
        perdure.open(store, read_only=read_only)
    assert lost not in names(store.parent)
    how = {"key": away} if lost.endswith("master") else {"vault": away}
    assert read(store, session, read_only=read_only, **how) == "a few words"


def test_a_wrong_key_is_refused_before_anything_is_written(store: Path, tmp_path: Path) -> None:
    filled(store)
    other = tmp_path / "other.master"
    KeyFile.make(str(other), AMBIENT)
    before = {file: file.read_bytes() for file in (store, Path(f"{store}.keys"), Path(f"{store}.master"))}
    with pytest.raises(errors.KeyMissing, match="bring that key back"):
        perdure.open(store, key=other)
    text = other.read_text().replace(
        KeyFile(str(other), AMBIENT).current(), KeyFile(f"{store}.master", AMBIENT).current()
    )
    other.write_text(text)
    with pytest.raises(errors.WrongKey):
        perdure.open(store, key=other)
    assert {file: file.read_bytes() for file in before} == before


def test_a_vault_of_another_store_is_refused(store: Path, tmp_path: Path) -> None:
    filled(store)
    filled(tmp_path / "other.db", key=f"{store}.master")
    with pytest.raises(errors.KeyMissing, match="another vault"):
        perdure.open(store, vault=tmp_path / "other.db.keys")


def test_key_and_vault_may_lie_anywhere(store: Path, tmp_path: Path) -> None:
    safe = tmp_path / "safe"
    safe.mkdir()
    how = {"key": safe / "k", "vault": safe / "v"}
    session = filled(store, **how)
    assert (names(safe), [name for name in names(tmp_path) if name != "safe"]) == (["k", "v"], ["agent.db"])
    assert read(store, session, **how) == "a few words"


def test_the_environment_serves_where_nothing_is_given(store: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PERDURE_MASTER_KEY", "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=")
    monkeypatch.setenv("PERDURE_VAULT", str(tmp_path / "v"))
    session = filled(store)
    assert names(tmp_path) == ["agent.db", "v"]
    assert read(store, session) == "a few words"
    monkeypatch.delenv("PERDURE_MASTER_KEY")
    monkeypatch.setenv("PERDURE_KEY_FILE", str(tmp_path / "k"))
    with pytest.raises(errors.KeyMissing):
        perdure.open(store)
    assert read(tmp_path / "new.db", filled(tmp_path / "new.db", vault=tmp_path / "v2"), vault=tmp_path / "v2")
    assert names(tmp_path) == ["agent.db", "k", "new.db", "v", "v2"]


def test_keys_of_ones_own_serve(store: Path) -> None:
    masters, vault = made_up(AMBIENT), VolatileVault(AMBIENT)
    session = filled(store, key=masters, vault=vault)
    assert names(store.parent) == ["agent.db"]
    assert read(store, session, key=masters, vault=vault) == "a few words"


def test_ram_is_in_the_clear_unless_sealing_is_asked_for() -> None:
    for how, sealed in (({}, False), ({"seal": False}, False), ({"seal": True}, True)):
        with perdure.open(":memory:", **how) as db:
            assert db.create("x").info().title == "x"
            inner: Any = db._behind._services.store
            assert getattr(inner, "inner", inner)._packing.clear is not sealed


@pytest.mark.parametrize(
    "how", [{"seal": 1}, {"seal": "yes"}, {"key": 5}, {"vault": b"x"}, {"seal": False, "key": "k"}]
)
def test_what_cannot_be_meant_is_refused(store: Path, how: Any) -> None:
    with pytest.raises(errors.Invalid):
        perdure.open(store, **how)
    assert list(store.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0b", "", "lone \ud800"])
@pytest.mark.parametrize("what", ["key", "vault", "cold"])
def test_a_path_that_no_file_can_have_is_refused_before_anything_is_made(store: Path, what: str, name: str) -> None:
    with pytest.raises(errors.Invalid, match=what):
        perdure.open(store, **{what: name})  # type: ignore[arg-type]
    assert list(store.parent.iterdir()) == []


@pytest.mark.parametrize("cold", [5, b"folder", True, object()])
def test_cold_storage_is_a_path(store: Path, cold: Any) -> None:
    with pytest.raises(errors.Invalid, match=r"cold storage is a folder, or s3://bucket/prefix"):
        perdure.open(store, cold=cold)
    assert list(store.parent.iterdir()) == []


@pytest.mark.parametrize("path", [5, b"store.db", None, "lone \ud800"])
def test_a_store_is_a_path(path: Any) -> None:
    with pytest.raises(errors.Invalid, match="store"):
        perdure.open(path)


@pytest.mark.parametrize(
    "given", [{"vault": "agent.db"}, {"key": "agent.db"}, {"key": "one", "vault": "one"}, {"vault": "link/agent.db"}]
)
def test_store_key_and_vault_are_three_files(store: Path, given: dict[str, str]) -> None:
    (store.parent / "link").symlink_to(store.parent)
    with pytest.raises(errors.Invalid, match="three files"):
        perdure.open(store, **{what: store.parent / name for what, name in given.items()})  # type: ignore[arg-type]
    assert names(store.parent) == ["link"]


@pytest.mark.skipif(os.name != "posix", reason="a pipe has a name only there")
@pytest.mark.parametrize("what", ["key", "vault"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_neither_key_nor_vault(store: Path, what: str, make: Any) -> None:
    odd = store.parent / "odd"
    make(odd)
    with pytest.raises(errors.Invalid, match=f"{odd} is not a file"):
        perdure.open(store, **{what: odd})  # type: ignore[arg-type]
    assert names(store.parent) == ["odd"]


@pytest.mark.skipif(os.name != "posix", reason="a pipe has a name only there")
def test_a_pipe_is_no_store_and_gets_no_keys(store: Path) -> None:
    os.mkfifo(store)
    with pytest.raises(errors.NotAStore, match="is not a file"):
        perdure.open(store)
    assert names(store.parent) == ["agent.db"]


@pytest.mark.skipif(os.name != "posix", reason="files have modes only there")
@pytest.mark.parametrize("read_only", [False, True])
def test_a_vault_that_others_may_read_is_refused_with_the_remedy(store: Path, read_only: bool) -> None:
    session = filled(store)
    vault = Path(f"{store}.keys")
    vault.chmod(0o644)
    with pytest.raises(errors.WorldError, match=f"chmod 600 {vault}"):
        perdure.open(store, read_only=read_only)
    vault.chmod(0o600)
    assert read(store, session, read_only=read_only) == "a few words"


def test_a_store_that_cannot_be_looked_into_is_not_taken_for_an_open_one(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk keeps the engine from reading; that says nothing about whether the store is sealed."""
    from perdure.compose import keys_of
    from perdure.stores.sqlite import connection

    filled(store)

    for error, code in ((apsw.FullError, apsw.SQLITE_FULL), (apsw.IOError, apsw.SQLITE_IOERR_SHMSIZE)):
        refusal = error("the engine's words")
        refusal.extendedresult = code

        def full(*_: object, refusal: apsw.Error = refusal, **__: object) -> None:
            raise refusal

        monkeypatch.setattr(connection, "connect", full)
        for look in (keys_of, perdure.open):
            with pytest.raises(errors.DiskFull, match="no space left"):
                look(store)


def test_a_store_on_a_server_needs_its_keys_named(monkeypatch: Any) -> None:
    from perdure.compose import seal_of
    from perdure.sealing.given import Given

    with pytest.raises(errors.KeyMissing, match="seal=False"):
        seal_of("postgresql://host/db", None, Given(), AMBIENT)


def test_a_store_left_half_made_is_sealed_by_the_next_who_opens_it(store: Path) -> None:
    """Key and vault are made before the store is: a crash in between leaves them, and they are used."""
    filled(store)
    store.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = filled(store)
    assert read(store, session) == "a few words"
    assert b"a few words" not in store.read_bytes()


def test_a_row_put_in_the_clear_into_a_sealed_store_is_not_believed(store: Path) -> None:
    """Whoever can write to the file but has no key cannot forge a session: chains alone need no key."""
    filled(store)
    forged = store.parent / "forged.db"
    session = filled(forged, seal=False)
    with sqlite3.connect(store) as connection:
        connection.execute("ATTACH ? AS forged", (str(forged),))
        connection.execute("DELETE FROM session")
        connection.execute("DELETE FROM record")
        connection.execute("INSERT INTO session SELECT * FROM forged.session")
        connection.execute("INSERT INTO record SELECT * FROM forged.record")
    connection.close()
    with perdure.open(store) as db:
        for question in (db.find, lambda: db.session(session), lambda: db.session(session).events()):
            with pytest.raises(errors.Damaged, match="in the clear"):
                question()


OPEN = """
import sys
import perdure
sys.stdin.readline()
with perdure.open(sys.argv[1]) as db:
    for number in range(30):
        print(db.create(f"title {number}").id, flush=True)
"""


def test_processes_that_make_a_store_at_once_agree_on_its_keys(store: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        for _ in range(3)
    ]
    made: list[str] = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        made += out.split()
    with perdure.open(store) as db:
        assert db.count() == len(made) == len(set(made)) == 90
        assert db.verify().ok
        assert {row.title for row in db.find(limit=100).items} == {f"title {number}" for number in range(30)}
    with sqlite3.connect(store) as connection:
        found = connection.execute("SELECT count(DISTINCT salt), count(salt) FROM session").fetchone()
    connection.close()
    assert found == (90, 90), "every session has a salt of its own"


def test_importing_perdure_does_not_load_cryptography() -> None:
    script = "import sys, perdure; sys.exit(any(name.startswith('cryptography') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], env=environment(), check=False).returncode == 0
