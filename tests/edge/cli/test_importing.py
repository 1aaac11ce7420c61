"""`perdure import`: another store's conversations, in a line."""

import json
from pathlib import Path

import pytest

import perdure
from perdure.edge.cli import importing
from tests.edge.cli.conftest import Run

LETTA = Path(__file__).parents[2] / "fixtures" / "letta" / "mira.af"


def test_an_import_says_what_it_brought_and_a_second_one_brings_nothing(run: Run, tmp_path: Path) -> None:
    store = str(tmp_path / "new.db")
    first = run("import", "letta", str(LETTA), "--store", store)
    assert first.exit_code == 0
    assert first.stdout.startswith("imported 1 sessions with ")
    again = json.loads(run("import", "letta", str(LETTA), "--store", store, "--json").stdout)
    assert (again["sessions"], again["items"]) == (0, 0)
    assert again["skipped"]
    with perdure.open(store) as db:
        assert db.count() >= 1


def test_a_dry_run_makes_no_store(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "new.db"
    told = run("import", "letta", str(LETTA), "--store", str(store), "--dry-run")
    assert (told.exit_code, told.stdout.split()[:3]) == (0, ["would", "import", "1"])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("new")]


def test_what_is_no_source_is_refused(run: Run, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.af"
    wrong.write_text("{")
    assert run("import", "letta", str(wrong), "--store", str(tmp_path / "new.db")).exit_code == 2
    assert run("import", "telepathy", str(wrong), "--store", str(tmp_path / "new.db")).exit_code == 2


def test_a_framework_that_is_not_installed_is_named_with_its_extra(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'langgraph'", name="langgraph")

    monkeypatch.setattr(importing, "import_module", missing)
    told = run("import", "langgraph", "old.db", "--store", str(tmp_path / "new.db"))
    assert told.exit_code == 2
    assert "pip install 'perdure[langgraph]'" in told.stderr
