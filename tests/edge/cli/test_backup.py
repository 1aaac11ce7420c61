"""Backup, restore and upgrade from the command line."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.stores.sqlite.connection import FORMAT
from tests.edge.cli.conftest import Run, Seeded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Asked = Callable[..., Any]
OLD = Path(__file__).parents[2] / "fixtures" / "format-1.db.zst"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "backup.db")


@pytest.fixture
def there(seeded: Seeded, tmp_path: Path) -> str:
    """A place to restore to, with the keys of the seeded store beside it."""
    for suffix in (".master", ".keys"):
        if Path(f"{seeded.path}{suffix}").exists():
            shutil.copy(f"{seeded.path}{suffix}", tmp_path / f"there.db{suffix}")
    return str(tmp_path / "there.db")


def test_a_store_goes_there_and_back(asked: Asked, run: Run, seeded: Seeded, target: str, there: str) -> None:
    made = asked("backup", target)
    assert (made["backup"], made["manifest"]["sessions"], made["manifest"]["verified"]) == (target, 4, "full")
    assert made["manifest"]["version"] == perdure.__version__
    assert made["manifest"]["made_at"].endswith("Z")
    done = asked("restore", target, there)
    assert (done["restored"], done["verified"], done["replaced"]) == (True, "full", None)
    assert run("sessions", "list", "--store", there, "--json").stdout == run("sessions", "list", "--json").stdout


def test_people_are_told_what_is_in_it_and_what_is_not(run: Run, seeded: Seeded, target: str, there: str) -> None:
    result = run("backup", target)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"backed up to {target}: 4 sessions, ")
    assert "verified: full" in result.stdout
    if Path(f"{seeded.path}.keys").exists():
        assert "perdure keys backup" in result.stderr
    result = run("restore", target, there)
    assert result.stdout.startswith(f"restored {there}: 4 sessions, ")


def test_the_source_may_be_named_first(asked: Asked, seeded: Seeded, target: str) -> None:
    made = asked("backup", seeded.path, target, "--store", "nowhere.db", "--verify", "quick")
    assert (made["manifest"]["sessions"], made["manifest"]["verified"]) == (4, "quick")


def test_keys_that_lie_elsewhere_are_named(run: Run, seeded: Seeded, target: str, tmp_path: Path) -> None:
    keys = ["--key-file", str(tmp_path / "my.key"), "--vault", str(tmp_path / "my.vault")]
    shutil.move(f"{seeded.path}.master", tmp_path / "my.key")
    shutil.move(f"{seeded.path}.keys", tmp_path / "my.vault")
    result = run("backup", target, "--json")
    assert json.loads(result.stdout)["manifest"]["verified"] == "quick"
    assert "the keys are not here" in json.loads(result.stdout)["remarks"][0]
    result = run("backup", target, *keys, "--overwrite", "--json")
    assert json.loads(result.stdout)["manifest"]["verified"] == "full"
    result = run("restore", target, str(tmp_path / "there.db"), *keys, "--json")
    assert (json.loads(result.stdout)["verified"], result.exit_code) == ("full", 0)


def test_more_than_two_places_are_a_mistake(run: Run) -> None:
    assert run("backup", "a", "b", "c").exit_code == 2
    assert run("backup").exit_code == 2


def test_what_is_there_is_replaced_only_if_told(run: Run, asked: Asked, target: str, there: str) -> None:
    asked("backup", target)
    result = run("backup", target)
    assert (result.exit_code, "exists already" in result.stderr) == (4, True)
    asked("backup", target, "--overwrite")
    asked("restore", target, there)
    assert run("restore", target, there).exit_code == 4
    done = asked("restore", target, there, "--overwrite")
    assert done["replaced"] == f"{there}.replaced"
    assert f"the store that was there is now {there}.replaced.2" in run("restore", target, there, "--overwrite").stdout


def test_a_dry_run_says_what_would_be(run: Run, asked: Asked, target: str, there: str) -> None:
    asked("backup", target)
    assert run("restore", target, there, "--dry-run").stdout.startswith(f"would restore {there}: 4 sessions")
    assert asked("restore", target, there, "--dry-run")["restored"] is False
    assert not Path(there).exists()


def test_a_damaged_backup_ends_with_five(run: Run, asked: Asked, target: str, there: str) -> None:
    asked("backup", target)
    content = Path(target).read_bytes()
    Path(target).write_bytes(content[:-1])
    result = run("restore", target, there, "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (5, "tampered")
    Path(f"{target}.manifest.json").unlink()
    assert run("restore", target, there).exit_code == 5
    assert run("restore", f"{target}.nothing", there).exit_code == 5


def test_a_session_erased_since_is_named(run: Run, asked: Asked, target: str, seeded: Seeded, tmp_path: Path) -> None:
    asked("backup", target)
    gone = asked("sessions", "list")["sessions"][0]["session"]
    asked("sessions", "erase", gone, "--yes")
    for suffix in (".master", ".keys"):
        shutil.copy(f"{seeded.path}{suffix}", tmp_path / f"there.db{suffix}")
    there = str(tmp_path / "there.db")
    assert "unreadable because they were erased after this backup" in run("restore", target, there).stderr
    done = asked("restore", target, there, "--overwrite")
    assert (done["verified"], done["erased"], done["bereft"]) == ("full", [gone], [])


def test_the_portable_form_goes_there_and_back(asked: Asked, run: Run, tmp_path: Path, there: str) -> None:
    stream = str(tmp_path / "store.perdure")
    assert asked("backup", stream, "--portable")["manifest"]["kind"] == "portable"
    assert asked("restore", stream, there)["verified"] == "full"
    assert run("sessions", "verify", "--store", there).exit_code == 0


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A store of the first format."""
    path = tmp_path / "old.db"
    path.write_bytes(zstd.decompress(OLD.read_bytes()))
    return str(path)


def test_an_old_store_is_upgraded_once(run: Run, asked: Asked, old: str) -> None:
    done = asked("upgrade", "--store", old)
    assert (done["found"], done["format"], done["verified"]) == (1, FORMAT, "full")
    assert done["backup"] == f"{old}.format-1.backup"
    result = run("upgrade", "--store", old)
    assert result.stdout == f"{old} has format {FORMAT} already; verified: full\n"


def test_whoever_reads_an_old_store_is_pointed_to_the_upgrade(run: Run, old: str) -> None:
    result = run("sessions", "list", "--store", old)
    assert (result.exit_code, f"perdure upgrade --store {old}" in result.stderr) == (5, True)


def test_an_upgrade_says_where_the_old_one_is(run: Run, old: str, tmp_path: Path) -> None:
    result = run("upgrade", "--store", old, "--backup", str(tmp_path / "mine"))
    assert f"format 1 → {FORMAT}" in result.stdout
    assert f"as it was before: {tmp_path / 'mine'}" in result.stdout


def test_an_upgrade_without_a_backup_is_possible(run: Run, asked: Asked, old: str) -> None:
    assert run("upgrade", "--store", old, "--no-backup", "--backup", "x").exit_code == 2
    assert asked("upgrade", "--store", old, "--no-backup")["backup"] is None


def test_what_is_no_store_is_refused_with_five(run: Run, target: str, tmp_path: Path) -> None:
    for words in (["backup", target], ["upgrade"]):
        result = run(*words, "--store", str(tmp_path / "nothing.db"))
        assert (result.exit_code, "no store at" in result.stderr) == (5, True)
    assert not (tmp_path / "nothing.db").exists()
