"""What every importer is handed, and what it says to what it cannot read."""

from types import ModuleType
from typing import Any

import msgspec
import pytest

import perdure
from perdure import errors
from perdure.importers import claude_code, google_adk, langgraph, letta, openai_agents
from perdure.importers.report import Imported


@pytest.mark.parametrize("source", [None, 5, b"x", ""])
@pytest.mark.parametrize("importer", [claude_code, google_adk, langgraph, letta, openai_agents])
def test_what_is_no_path_and_no_address_is_refused(importer: ModuleType, source: Any) -> None:
    with perdure.open(":memory:") as db, pytest.raises(errors.Invalid, match="a path or an address"):
        perdure.drive(importer.import_from(db, source))


@pytest.mark.parametrize("importer", [claude_code, google_adk, langgraph, letta, openai_agents])
def test_a_prefix_that_is_no_text_is_refused(importer: ModuleType) -> None:
    with perdure.open(":memory:") as db, pytest.raises(errors.Invalid, match="a prefix is a text"):
        perdure.drive(importer.import_from(db, "somewhere", prefix=5))


def test_an_address_of_another_database_is_refused_with_those_that_are_read() -> None:
    with perdure.open(":memory:") as db, pytest.raises(errors.Invalid, match="postgresql://") as refused:
        perdure.drive(google_adk.import_from(db, "mysql://ana:secret@host/sessions"))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("importer", [google_adk, langgraph])
def test_the_password_of_an_address_is_not_told(importer: ModuleType) -> None:
    with perdure.open(":memory:") as db, pytest.raises(errors.Invalid) as refused:
        perdure.drive(importer.import_from(db, "postgresql://ana:secret@localhost:1/sessions"))
    assert "secret" not in f"{refused.value} {refused.value.fields}"


def test_a_report_holds_what_is_no_utf8_spelled_out() -> None:
    report = Imported(source="a\udcff.db")
    report.skip("row \udcff", "no \udcff", lacks="s\udcff")
    found = msgspec.json.decode(msgspec.json.encode(report))
    assert (found["source"], found["incomplete"]) == ("a\\udcff.db", ["s\\udcff"])
    assert found["skipped"] == [{"what": "row \\udcff", "why": "no \\udcff"}]
