"""Memory beside its peers: what they are handed, what their answers are worth, and what is told of it."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from evals import peers
from evals.contenders import CONTENDERS, Answer, Dialog, Index, Library, Task, run, told
from evals.locomo import Conversation, Question
from evals.peers import Row, Run, behind, measured, page, row, table, task
from perdure.ports.memory import Item

ITEMS = [
    Item(id="D1:1", text="The heron is back at the pond.", author="Ada", at=1_620_482_160_000_000, thread="session_1"),
    Item(id="D1:2", text="I sold my bicycle.", author="Ben", at=1_620_482_160_000_000, thread="session_1"),
    Item(id="D2:1", text="The boat is painted blue.", author="Ada", at=1_622_538_000_000_000, thread="session_2"),
]
QUESTIONS = [
    Question("What did Ben sell?", frozenset({"D1:2"}), 4),
    Question("Which bird did Ada see at the pond?", frozenset({"D1:1"}), 4),
]
DATA = [Conversation(ITEMS, QUESTIONS)]
OURS = Row(recall_10=0.8, mrr=0.6, cpu=2.0, cpu_p50=1.5, keeping=0.5)


def ran(**rows: Row) -> Run:
    return Run("wordllama", 2, 3, {name.replace("_", "-"): each for name, each in rows.items()}, {"perdure": "0.1.0"})


def test_every_contender_is_handed_the_same() -> None:
    given = task(DATA, "wordllama")
    again = msgspec.json.decode(msgspec.json.encode(given), type=Task)
    assert again == Task("wordllama", [Dialog(ITEMS, [question.text for question in QUESTIONS])])


def test_a_peer_is_told_who_said_it_and_when() -> None:
    assert told(ITEMS[0]) == "Ada (8 May 2021): The heron is back at the pond."


def test_an_answer_is_worth_its_means() -> None:
    answer = Answer({}, [["D1:1", "D1:2"], ["D1:1"]], [0.001, 0.003], kept=4, keeping=0.002)
    assert row(answer, QUESTIONS) == Row(recall_10=1.0, mrr=0.75, cpu=2.0, cpu_p50=2.0, keeping=0.5)


def test_evidence_beyond_the_tenth_counts_for_the_rank_alone() -> None:
    late = [*(f"D9:{number}" for number in range(10)), "D1:2"]
    answer = Answer({}, [late, ["D1:1"]], [0.0, 0.0], kept=3, keeping=0.0)
    found = row(answer, QUESTIONS)
    assert found.recall_10 == 0.5
    assert found.mrr == pytest.approx((1 / 11 + 1) / 2)


def test_an_answer_to_other_questions_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        row(Answer({}, [["D1:1"]], [0.0], kept=3, keeping=0.0), QUESTIONS)


def test_who_is_not_behind_is_named() -> None:
    assert behind(ran(perdure=OURS, mem0=Row(0.4, 0.3, 6.0, 5.0, 2.0))) == []
    equal = behind(ran(perdure=OURS, perdure_index=OURS, mem0=OURS))
    assert [line.split()[1] for line in equal] == ["recall@10", "MRR", "2.00"]
    assert behind(ran(perdure=OURS, langgraph_memory=Row(0.4, 0.3, 1.9, 1.9, 0.1))) == [
        "langgraph-memory: 1.90 ms of CPU for a query, ours 2.00"
    ]


def test_the_table_has_a_line_for_each() -> None:
    lines = table(ran(perdure=OURS, mem0=Row(0.4, 0.3, 6.0, 5.0, 2.0))).splitlines()
    assert len(lines) == 4
    assert "| 0.800 | 0.600 | 2.00 | 1.50 | 0.50 |" in lines[2]
    assert lines[3].startswith("| mem0, `infer=False`")


def test_the_page_names_the_command_the_day_and_the_versions_and_hides_no_defeat() -> None:
    won = page([ran(perdure=OURS)], "2031-02-03")
    assert '--embedder wordllama --write-docs"`, on 2031-02-03' in won
    assert "perdure 0.1.0" in won
    assert "not behind" not in won
    narrowed = page([ran(perdure=OURS, mem0=Row(0.4, 0.3, 6.0, 5.0, 2.0))], "2031-02-03")
    assert '--embedder wordllama --only mem0 --write-docs"' in narrowed
    whole = page([ran(**{name.replace("-", "_"): OURS for name in CONTENDERS})], "2031-02-03")
    assert "--only" not in whole
    lost = page([ran(perdure=OURS, mem0=Row(0.9, 0.3, 6.0, 5.0, 2.0))], "2031-02-03")
    assert "- wordllama: mem0: recall@10 0.900, ours 0.800" in lost


@pytest.mark.parametrize("kind", [Library, Index])
def test_ours_finds_what_was_said(kind: type[Library | Index]) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("tokenizers")
    answer = run(kind, task(DATA, "wordllama"))
    assert [found[0] for found in answer.found] == ["D1:2", "D1:1"]
    assert answer.kept == len(ITEMS)
    assert len(answer.cpu) == len(QUESTIONS)
    assert "perdure" in answer.versions


def test_a_contender_runs_in_a_process_of_its_own() -> None:
    pytest.importorskip("numpy")
    found = measured(DATA, "wordllama", {"perdure-index": Path(sys.executable)})
    assert found.questions == 2
    assert found.memories == 3
    assert found.rows["perdure-index"].recall_10 == found.rows["perdure-index"].mrr == 1.0


def test_one_that_fails_ends_the_run_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="perdure-index failed"):
        measured(DATA, "no-such-embedder", {"perdure-index": Path(sys.executable)})


def test_no_network_is_to_be_had() -> None:
    code = (
        "import socket\nfrom evals.contenders import bar_the_network\ntried = bar_the_network()\n"
        "try:\n    socket.create_connection(('127.0.0.1', 9), 1)\nexcept PermissionError:\n    print(len(tried))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=peers.ROOT)
    assert int(told.stdout) >= 1


def test_the_tables_are_printed_and_the_page_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "conversations", lambda path: DATA)
    monkeypatch.setattr(peers, "measured", lambda data, embedder, who: ran(perdure=OURS))
    monkeypatch.setattr(peers, "pythons", lambda venv, only: {})
    monkeypatch.setattr(peers, "PAGE", tmp_path / "page.md")
    assert peers.main(["data.json", "--write-docs"]) == 0
    assert "0.800" in capsys.readouterr().out
    assert "0.800" in (tmp_path / "page.md").read_text(encoding="utf-8")
    assert peers.main(["data.json", "--json"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)[0]["rows"]["perdure"]["mrr"] == 0.6
    kept = tmp_path / "run.json"
    kept.write_text(shown, encoding="utf-8")
    assert peers.main([str(kept), str(kept), "--again", "--write-docs"]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8").count("0.800") == 2


def test_the_peers_environment_is_asked_for_where_it_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make eval-peers"):
        peers.pythons(tmp_path, [])
    assert set(peers.pythons(tmp_path, ["perdure-index"])) == {"perdure", "perdure-index"}
