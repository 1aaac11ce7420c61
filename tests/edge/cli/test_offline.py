"""The model that needs no key."""

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.edge.cli import offline


def said(heard: str) -> tuple[str, offline.Wish | None]:
    pieces = list(offline.reply(heard))
    wishes = [piece for piece in pieces if isinstance(piece, offline.Wish)]
    return "".join(piece for piece in pieces if isinstance(piece, str)), wishes[0] if wishes else None


def test_the_same_words_get_the_same_answer() -> None:
    assert list(offline.reply("Book the night train.")) == list(offline.reply("Book the night train."))


@pytest.mark.parametrize("line", offline.SCRIPT, ids=lambda line: line.cue)
def test_words_are_streamed_one_by_one_and_add_up(line: offline.Line) -> None:
    assert said(f"{line.cue} and so on") == (line.words, line.wish)


def test_what_it_does_not_know_it_says_it_does_not_know() -> None:
    assert said("What is love?") == (offline.SHRUG, None)


def test_booking_twice_under_one_key_books_once(tmp_path: Path) -> None:
    desk = offline.Desk(str(tmp_path / "desk.json"))
    wish = offline.Wish("book_train", {"train": "night"})
    assert desk.bookings() == {}
    assert desk.run(wish, "k1") == desk.run(wish, "k1") == {"train": "night", "number": 1}
    assert desk.run(wish, "k2")["number"] == 2


def test_a_turn_is_durable_step_by_step(tmp_path: Path) -> None:
    steps: list[tuple[str, int]] = []
    words: list[str] = []
    with perdure.open(":memory:") as db:
        session = db.create("trip")
        desk = offline.Desk(str(tmp_path / "desk.json"))
        offline.take_turn(
            session,
            "Book the morning train.",
            desk.run,
            on_word=words.append,
            on_step=lambda name: steps.append((name, session.version())),
        )
        (turn,) = session.turns()
    assert [name for name, _ in steps] == [
        *("turn started", "answer", "asked for book_train", "started book_train", "finished book_train"),
        *("answer", "turn finished"),
    ]
    versions = [version for _, version in steps]
    assert versions == sorted(set(versions))
    assert turn.status == "finished"
    assert "".join(words) == "".join(str(message.content) for message in turn.messages[1:])


def test_a_tool_that_fails_leaves_the_turn_interrupted() -> None:
    def refuse(wish: offline.Wish, key: str) -> Any:
        raise RuntimeError("the desk is closed")

    with perdure.open(":memory:") as db:
        session = db.create("trip")
        with pytest.raises(RuntimeError, match="desk is closed"):
            offline.take_turn(session, "Book the night train.", refuse)
        assert [turn.status for turn in session.turns()] == ["interrupted"]
