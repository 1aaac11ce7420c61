"""Is this machine fit, is this store whole?"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from perdure.edge.cli import doctor
from tests.edge.cli.conftest import Run, Seeded


def checks(run: Run, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = run("doctor", *words, "--json")
    document = json.loads(result.stdout)
    assert document["ok"] == (result.exit_code == 0)
    return result.exit_code, {check["subject"]: check for check in document["checks"]}


def test_a_whole_store_on_a_fit_machine_fails_nothing(run: Run) -> None:
    code, found = checks(run)
    assert code == 0
    assert [name for name, check in found.items() if check["status"] != "ok"] == ["open turns"]
    assert "4 sessions" in found["store"]["found"]


def test_open_turns_are_a_warning_with_advice(run: Run) -> None:
    _, found = checks(run)
    assert (found["open turns"]["status"], "sessions recover" in found["open turns"]["advice"]) == ("warn", True)


def test_it_says_the_same_to_people(run: Run) -> None:
    shown = run("doctor").stdout
    for part in ("✓ ok    python", "! warn  open turns", "→ ", "it cannot lose a commit"):
        assert part in shown


def test_it_changes_nothing(run: Run, seeded: Seeded) -> None:
    before = Path(seeded.path).read_bytes()
    run("doctor")
    assert Path(seeded.path).read_bytes() == before


def test_a_store_that_was_named_and_is_missing_fails(run: Run, seeded: Seeded) -> None:
    code, found = checks(run, "--store", f"{seeded.path}.missing")
    assert (code, found["store"]["status"]) == (5, "fail")


def test_without_any_store_only_the_machine_is_examined(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "..")
    result = run("doctor", "--json", env={"PERDURE_STORE": None})
    found = {check["subject"]: check["status"] for check in json.loads(result.stdout)["checks"]}
    assert (result.exit_code, found["store"]) == (0, "warn")


def test_a_file_that_is_no_store_fails_in_words(run: Run, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a shopping list " * 100)
    code, found = checks(run, "--store", str(tmp_path / "list.txt"))
    assert (code, "not a perdure store" in found["store"]["found"]) == (5, True)


def test_a_missing_folder_fails_with_what_to_do(run: Run, tmp_path: Path) -> None:
    code, found = checks(run, "--store", str(tmp_path / "nowhere" / "x.db"))
    assert (code, found["folder"]["status"]) == (5, "fail")
    assert "create it" in found["folder"]["advice"]


def test_a_disk_that_does_not_sync_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> None:
        raise OSError(5, "Input/output error", folder)

    monkeypatch.setattr(doctor, "_try_sync", refuse)
    code, found = checks(run)
    assert (code, found["folder"]["status"]) == (5, "fail")
    assert os.path.isabs(found["folder"]["found"].split(":")[0])


def test_little_space_is_a_warning(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE_SPACE", 1 << 62)
    code, found = checks(run)
    assert (code, found["space"]["status"]) == (0, "warn")


@pytest.mark.parametrize(
    ("change", "subject", "status"),
    [
        ({"integrity": "row 3 missing from index"}, "integrity", "fail"),
        ({"orphans": 3}, "orphans", "warn"),
        ({"journal_mode": "delete"}, "journal", "warn"),
    ],
)
def test_each_condition_of_the_file_is_judged(change: dict[str, Any], subject: str, status: str) -> None:
    facts = {"journal_mode": "wal", "integrity": "ok", "orphans": 0, **change}
    found = {item.subject: item for item in doctor._condition(facts)}
    assert (found[subject].status, bool(found[subject].advice)) == (status, True)
    assert [item.status for name, item in found.items() if name != subject] == ["ok"] * 2
