"""The measure itself, on a dialog made up here."""

import json
from pathlib import Path

import pytest

from evals import locomo
from evals.locomo import Result, conversations, main, measured, summary, table

DIALOG = {
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2021",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "The heron is back at the pond."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Lovely!", "blip_caption": "a photo of a blue boat"},
        ],
        "session_2_date_time": "9:00 am on 1 June, 2021",
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "I sold my bicycle."}],
    },
    "qa": [
        {"question": "Which bird did Ada see?", "evidence": ["D1:1"], "category": 4},
        {"question": "What did Ben sell, and show?", "evidence": ["D2:1; D1:2", "D9:9"], "category": 1},
        {"question": "What did Ada sell?", "evidence": ["D2:1"], "category": 5},
        {"question": "Nobody knows?", "evidence": [], "category": 3},
    ],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "dialog.json"
    path.write_text(json.dumps([DIALOG]), encoding="utf-8")
    return path


def test_each_turn_is_a_memory_with_who_when_and_what_is_shown(data: Path) -> None:
    (conversation,) = conversations(data)
    assert [(item.id, item.author, item.thread) for item in conversation.items] == [
        ("D1:1", "Ada", "session_1"),
        ("D1:2", "Ben", "session_1"),
        ("D2:1", "Ben", "session_2"),
    ]
    assert conversation.items[1].text == "Lovely!\na photo of a blue boat"
    assert conversation.items[2].at == 1_622_538_000_000_000


def test_questions_without_an_answer_or_evidence_are_left_out(data: Path) -> None:
    (conversation,) = conversations(data)
    assert [(each.category, sorted(each.evidence)) for each in conversation.questions] == [
        (4, ["D1:1"]),
        (1, ["D1:2", "D2:1"]),
    ]


def test_all_is_found_among_three(data: Path) -> None:
    means = summary(measured(conversations(data), None))
    assert means["questions"] == 2
    assert means["r@10"] == means["r@5"] == means["hit@3k"] == 1.0


def test_the_table_is_printed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(data), "--embedder", "none"])
    assert "conversation 1" in capsys.readouterr().out
    main([str(data), "--embedder", "none", "--json"])
    assert json.loads(capsys.readouterr().out)["rows"]["all"]["questions"] == 2


def test_only_what_fits_into_the_injection_counts_as_injected(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locomo, "BUDGET", 0)
    means = summary(measured(conversations(data), None))
    assert means["hit@3k"] == 0.0
    assert means["r@10"] == 1.0


def test_means_are_taken_over_all_by_category_and_by_conversation() -> None:
    results = [
        Result(0, 1, 0.0, 0.5, 0.25, 1.0, 0.002),
        Result(0, 4, 1.0, 1.0, 1.00, 1.0, 0.004),
        Result(1, 4, 0.5, 0.0, 0.00, 0.0, 0.006),
    ]
    rows = table(results)
    assert rows["all"] == pytest.approx(
        {"questions": 3, "r@5": 0.5, "r@10": 0.5, "MRR": 1.25 / 3, "hit@3k": 2 / 3, "CPU ms": 4.0}
    )
    assert rows["4 one hop"]["r@10"] == 0.5
    assert rows["1 several hops"]["MRR"] == 0.25
    assert rows["conversation 2"]["questions"] == 1
