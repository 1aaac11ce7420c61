"""Places that cannot serve are refused before anything is made, in words that name them."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.sealing.filevault import FileVault
from torture.process import environment

pytestmark = pytest.mark.filterwarnings("ignore:a new master key")
ODD = "\udcff"


def left(folder: Path) -> list[str]:
    """What is in a folder, but for what SQLite leaves beside a file that was looked into."""
    found = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in found if not name.endswith(("-wal", "-shm")))


def cli(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "perdure", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, errors="replace", check=False
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed, sealed store with a session."""
    (tmp_path / "live").mkdir()
    path = tmp_path / "live" / "s.db"
    with perdure.open(path) as db:
        db.create("hello")
    return path


@pytest.fixture
def backed(store: Path) -> Path:
    """A backup of it."""
    target = store.parent.parent / "b.db"
    with perdure.open(store) as db:
        db.backup(target)
    return target


# ── names that are not UTF-8 ──


@pytest.mark.parametrize(
    "given",
    [
        {"path": f"{ODD}.db"},
        {"path": {"L1": f"{ODD}.db"}},
        {"path": f"postgresql://127.0.0.1:1/x{ODD}", "key": "k", "vault": "v"},
        {"path": "s.db", "vault": f"v{ODD}.keys"},
        {"path": "s.db", "vault": f"postgresql://127.0.0.1:1/x{ODD}"},
        {"path": "s.db", "cold": f"s3://b/{ODD}"},
    ],
)
def test_a_store_that_cannot_be_named_is_refused_before_anything_is_made(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.Invalid, match="UTF-8"):
        perdure.open(**given).close()
    assert left(tmp_path) == []


def test_nor_is_one_made_in_a_folder_that_cannot_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"in{ODD}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(errors.Invalid, match="UTF-8"):
        perdure.open("s.db").close()
    assert left(folder) == []
    with perdure.open(":memory:") as db:
        db.create()


def test_a_vault_named_by_the_environment_is_looked_at_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_VAULT", str(tmp_path / f"v{ODD}.keys"))
    with pytest.raises(errors.Invalid, match="UTF-8"):
        perdure.open(tmp_path / "s.db").close()
    assert left(tmp_path) == []


def test_a_backup_that_cannot_be_named_is_refused(store: Path, backed: Path, tmp_path: Path) -> None:
    before = left(tmp_path)
    with perdure.open(store) as db, pytest.raises(errors.Invalid, match="UTF-8"):
        db.backup(tmp_path / f"c{ODD}.db")
    with pytest.raises(errors.Invalid, match="UTF-8"):
        perdure.restore(backed, tmp_path / f"c{ODD}.db")
    done = cli("backup", f"b{ODD}.db", "--store", str(store), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "UTF-8" in done.stderr
    for arguments in (["keys", "show"], ["keys", "backup", "x.keys"], ["sessions", "list"], ["upgrade"]):
        (tmp_path / f"o{ODD}.db").touch()
        done = cli(*arguments, "--store", f"o{ODD}.db", cwd=tmp_path)
        (tmp_path / f"o{ODD}.db").unlink()
        assert done.returncode in (2, 5), done.stderr
        assert "Traceback" not in done.stderr
    done = cli("keys", "backup", f"x{ODD}.keys", "--store", str(store), cwd=tmp_path)
    assert (done.returncode, "UTF-8" in done.stderr) == (2, True), done.stderr
    assert left(tmp_path) == before


def test_a_webhook_that_cannot_be_spelled_is_refused() -> None:
    with perdure.open(":memory:") as db:
        with pytest.raises(errors.Invalid):
            db.webhook("notify", f"https://é{ODD}/", "s" * 40)
        with pytest.raises(errors.Invalid, match="UTF-8"):
            db.webhook("notify", "https://example.org/", ODD * 40)


# ── what was left behind read-only ──


AS_NOBODY = """
import os, sys, tempfile, warnings
import perdure
warnings.simplefilter("ignore")
store, locked = sys.argv[1:]
with tempfile.TemporaryDirectory() as elsewhere, perdure.open(elsewhere + "/warm.db") as db:
    db.create()  # loads what nobody may not read from disk any more
    db.find()
os.setgid(65534)
os.setuid(65534)
with perdure.open(store) as db:
    db.create()
os.chmod(locked, 0o400)
with perdure.open(store, read_only=True) as db:
    assert db.find().items
os.chmod(locked, 0o600)
try:
    with perdure.open(store) as db:
        db.create()
except perdure.errors.ReadOnly as refused:
    print(refused.message)
os.chmod(locked + "-shm", 0o600)
with perdure.open(store) as db:
    db.create()
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become nobody")
@pytest.mark.parametrize("of", ["s.db", "s.db.keys"])
def test_a_file_left_beside_by_a_read_only_opening_is_named(of: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path: nobody may not even look into that one
        os.chown(folder, 65534, 65534)
        locked = os.path.join(folder, of)
        command = [sys.executable, "-c", AS_NOBODY, os.path.join(folder, "s.db"), locked]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        assert done.stdout.endswith(f"run: chmod 600 {locked}-shm\n"), done.stderr
        assert (done.returncode, done.stderr) == (0, "")


# ── vaults and keys ──


def test_an_empty_vault_is_refused_and_stays_empty(store: Path) -> None:
    vault = Path(f"{store}.keys")
    vault.write_bytes(b"")
    for arguments in (["keys", "show"], ["sessions", "list"], ["keys", "rotate"]):
        done = cli(*arguments, "--store", str(store), cwd=store.parent)
        assert done.returncode == 5
        assert "put its newest copy" in done.stderr
    with pytest.raises(errors.KeyMissing, match="is empty"):
        perdure.open(store)
    assert vault.read_bytes() == b""


@pytest.mark.parametrize("suffix", [".keys", ".master"])
def test_nothing_is_restored_or_backed_up_onto_keys(store: Path, backed: Path, suffix: str) -> None:
    keys = {"key": f"{store}.master", "vault": f"{store}.keys"}
    before, at = {path: path.read_bytes() for path in store.parent.iterdir()}, f"{store}{suffix}"
    for dry_run in (True, False):
        with pytest.raises(errors.Invalid, match=f"{at} holds the keys") as refusal:
            perdure.restore(backed, at, overwrite=True, dry_run=dry_run, **keys)
        assert refusal.value.fields["path"] == at
    for arguments in (["restore", str(backed), at], ["backup", at]):
        done = cli(*arguments, "--overwrite", cwd=store.parent)
        assert (done.returncode, at in done.stderr) == (2, True), done.stderr
    assert {path: path.read_bytes() for path in store.parent.iterdir()} == before


@pytest.mark.parametrize("what", ["key", "vault"])
def test_nor_onto_the_place_where_keys_will_lie(store: Path, backed: Path, tmp_path: Path, what: str) -> None:
    before = left(tmp_path)
    with pytest.raises(errors.Invalid, match="named as the place of"):
        perdure.restore(backed, tmp_path / "new", **{what: str(tmp_path / "new")})
    assert left(tmp_path) == before


def test_ram_is_no_place_to_restore_or_back_up_to(store: Path, backed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(backed.parent)
    before = left(backed.parent)
    with pytest.raises(errors.Invalid, match="RAM"):
        perdure.restore(backed, ":memory:")
    with perdure.open(store) as db, pytest.raises(errors.Invalid, match="RAM"):
        db.backup(":memory:")
    assert left(backed.parent) == before


# ── words ──


def test_a_copy_that_cannot_be_written_is_said_to_be_that(store: Path, tmp_path: Path) -> None:
    with perdure.open(store) as db:
        session = db.create()
        for _ in range(30):
            session.append(perdure.events.Message(role="user", content=os.urandom(20_000).hex()))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
        try:
            with pytest.raises(errors.WorldError, match="cannot be written") as refusal:
                db.backup(tmp_path / "c.db")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not isinstance(refusal.value, errors.StorePoisoned)
        assert "c.db" in refusal.value.message
        session.append(perdure.events.Message(role="user", content="the store goes on"))


Doing = Callable[[Path, Path], list[str]]


@pytest.mark.parametrize(
    "what", [lambda store, backed: ["restore", str(backed)], lambda store, backed: ["backup", "--store", str(store)]]
)
def test_a_missing_folder_is_named(store: Path, backed: Path, tmp_path: Path, what: Doing) -> None:
    done = cli(*what(store, backed), str(tmp_path / "none" / "mine.db"), cwd=tmp_path)
    assert done.returncode == 3
    assert f"the folder {tmp_path / 'none'} does not exist" in done.stderr
    assert "partial" not in done.stderr


def test_the_command_line_speaks_of_options(store: Path, backed: Path, tmp_path: Path) -> None:
    done = cli("restore", str(backed), "there.db", cwd=tmp_path)
    assert "name another place with --vault or PERDURE_VAULT" in done.stderr
    assert "vault=" not in done.stderr
    done = cli("restore", str(backed), "there.db", cwd=tmp_path)
    assert "exists already; choose another name, or replace it with --overwrite" in done.stderr
    done = cli("restore", str(backed), "other.db", "--json", cwd=tmp_path)
    assert "vault=" not in done.stdout


@pytest.mark.parametrize("how", [[], ["--dry-run"]])
def test_a_restored_store_names_the_key_it_opens_with(
    store: Path, backed: Path, tmp_path: Path, how: list[str]
) -> None:
    old = (
        cli("keys", "show", "--json", "--store", str(store), cwd=tmp_path).stdout.split('"id": "')[1].partition('"')[0]
    )
    assert cli("keys", "rotate", "--store", str(store), cwd=tmp_path).returncode == 0
    assert cli("keys", "forget", old, "--store", str(store), cwd=tmp_path).returncode == 0
    for suffix in (".keys", ".master"):
        shutil.copy(f"{store}{suffix}", tmp_path / f"there.db{suffix}")
    new = (
        cli("keys", "show", "--json", "--store", str(store), cwd=tmp_path).stdout.split('"id": "')[1].partition('"')[0]
    )
    done = cli("restore", str(backed), "there.db", *how, cwd=tmp_path)
    said = f"the master key of that: when it was backed up, {old}" if how else f"its vault and master key {new}\n"
    assert said in done.stderr


def test_a_copy_that_shares_its_vault_with_a_living_store_is_told_so(store: Path, backed: Path, tmp_path: Path) -> None:
    keys = ["--key-file", f"{store}.master", "--vault"]
    done = cli("restore", str(backed), "there.db", *keys, f"{store}.keys", cwd=tmp_path)
    assert f"its vault serves {store} as well" in done.stderr
    assert "give --vault a copy" in done.stderr
    shutil.copy(f"{store}.keys", tmp_path / "own.keys")
    done = cli("restore", str(backed), "again.db", *keys, "own.keys", cwd=tmp_path)
    assert (done.returncode, "as well" in done.stderr) == (0, False)
    done = cli("restore", str(backed), str(store), "--overwrite", cwd=tmp_path)
    assert (done.returncode, "as well" in done.stderr) == (0, False)


def test_a_vault_of_ones_own_is_still_made_where_there_is_none(tmp_path: Path) -> None:
    from perdure.ambient import RealAmbient

    (tmp_path / "v.keys").touch(0o600)
    FileVault(str(tmp_path / "v.keys"), RealAmbient(), create=True).close()
    FileVault(str(tmp_path / "v.keys"), RealAmbient()).close()
