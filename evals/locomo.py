"""How much of the evidence for LoCoMo's questions is found: `python -m evals.locomo DATA [--embedder …] [--json]`.

Each turn of a dialog is one memory (who, when, the text, the caption of a picture), each question searches its own
conversation; category 5, which has no answer, is left out. DATA is the benchmark's file, which is not ours to hand on.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from evals.scoring import fitting, mean, recall, reciprocal
from perdure.core.memory.injecting import AROUND
from perdure.core.talk.remembered import Memory, memories_text
from perdure.embedders.making import made
from perdure.indexes.ram import RamIndex
from perdure.ports.memory import Embedder, Item

BUDGET = 3_000
"""Tokens of an injection."""
LETTERS = 4
"""Of a token, about."""
CATEGORIES = {1: "several hops", 2: "time", 3: "open", 4: "one hop"}
_UNANSWERABLE = 5


class Question(NamedTuple):
    """A question and the turns that answer it."""

    text: str
    evidence: frozenset[str]
    category: int


class Conversation(NamedTuple):
    """A dialog as memories, and what is asked about it."""

    items: list[Item]
    questions: list[Question]


class Result(NamedTuple):
    """One question's measures."""

    conversation: int
    category: int
    recall_5: float
    recall_10: float
    reciprocal: float
    injected: float
    cpu: float


def conversations(path: Path) -> list[Conversation]:
    """The benchmark's file."""
    return [_conversation(sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(sample: dict[str, Any]) -> Conversation:
    dialog = sample["conversation"]
    items = []
    for name in sorted((key for key in dialog if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:])):
        told = datetime.strptime(dialog[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        at = int(told.timestamp()) * 1_000_000
        for turn in dialog[name]:
            text = "\n".join(part for part in (turn["text"], turn.get("blip_caption", "")) if part)
            items.append(Item(id=turn["dia_id"], text=text, author=turn["speaker"], at=at, thread=name))
    known = {item.id for item in items}
    questions = []
    for asked in sample["qa"]:
        evidence = frozenset(re.findall(r"D\d+:\d+", " ".join(asked["evidence"]))) & known
        if asked["category"] != _UNANSWERABLE and evidence:
            questions.append(Question(asked["question"], evidence, asked["category"]))
    return Conversation(items, questions)


def tokens(item: Item) -> int:
    """How many tokens a memory takes in an injection, as a model reads it there."""
    text = f"{item.author}: {item.text}" if item.author else item.text
    told = memories_text([Memory(type="episode", content=text, importance=0.5, age="100d")])
    return (len(told) - len(AROUND)) // LETTERS + 1


def measured(data: Iterable[Conversation], embedder: Embedder | None) -> list[Result]:
    """A result for each question."""
    results = []
    for number, conversation in enumerate(data):
        index = RamIndex(embedder)
        index.add(conversation.items)
        cost = {item.id: tokens(item) for item in conversation.items}
        for question in conversation.questions:
            start = time.process_time()
            found = [each.id for each in index.search(question.text, k=200)]
            cpu = time.process_time() - start
            evidence = question.evidence
            results.append(
                Result(
                    number,
                    question.category,
                    recall(found, evidence, 5),
                    recall(found, evidence, 10),
                    reciprocal(found, evidence),
                    float(recall(found, evidence, fitting(found, cost, BUDGET)) > 0),
                    cpu,
                )
            )
    return results


def summary(results: list[Result]) -> dict[str, float]:
    """The means."""
    return {
        "questions": len(results),
        "r@5": mean([each.recall_5 for each in results]),
        "r@10": mean([each.recall_10 for each in results]),
        "MRR": mean([each.reciprocal for each in results]),
        "hit@3k": mean([each.injected for each in results]),
        "CPU ms": 1e3 * mean([each.cpu for each in results]),
    }


def table(results: list[Result]) -> dict[str, dict[str, float]]:
    """The means of all, of each category, of each conversation."""
    rows = {"all": summary(results)}
    for category in sorted({each.category for each in results}):
        name = f"{category} {CATEGORIES.get(category, '')}".strip()
        rows[name] = summary([each for each in results if each.category == category])
    for number in sorted({each.conversation for each in results}):
        rows[f"conversation {number + 1}"] = summary([each for each in results if each.conversation == number])
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print a table or a document."""
    parser = argparse.ArgumentParser(prog="evals.locomo", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--embedder", default="wordllama", help="none, wordllama, minilm, … (wordllama)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = table(measured(conversations(given.data), made(given.embedder)))
    if given.json:
        json.dump({"embedder": given.embedder, "rows": rows}, sys.stdout, indent=1)
        return
    print(f"{given.embedder:20}" + "".join(f"{name:>10}" for name in rows["all"]))
    for name, row in rows.items():
        print(
            f"{name:20}"
            + "".join(f"{value:10.0f}" if n == "questions" else f"{value:10.3f}" for n, value in row.items())
        )


if __name__ == "__main__":
    main()
