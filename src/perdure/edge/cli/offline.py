"""A model that needs no key and no network: it knows a few lines by heart, and always answers the same.

It streams words, wishes for tools and runs them at a little booking desk. Enough for a tour, and for trying out what
a session does around a real model.
"""

import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from perdure import Session

NAME: Final = "offline"


class Wish(Struct, frozen=True):
    """A tool that the model wants run."""

    name: str
    arguments: dict[str, Any]


class Line(Struct, frozen=True):
    """When the model hears the cue it says the words, then wishes for the tool."""

    cue: str
    words: str
    wish: Wish | None = None


SCRIPT: Final = (
    Line("Find", "", Wish("find_trains", {"to": "Vienna", "day": "Friday"})),
    Line("find_trains", "Two trains on Friday: by day at 07:46 for 54 euros, overnight at 19:18 for 89 euros."),
    Line("Book the night", "The night train it is, one moment.", Wish("book_train", {"train": "night"})),
    Line("Book the morning", "The morning train it is, one moment.", Wish("book_train", {"train": "morning"})),
    Line("book_train", "Booked. Your seat is by the window."),
)
SHRUG: Final = "I only know about trains to Vienna."

TRAINS: Final = [
    {"train": "morning", "departs": "07:46", "euros": 54},
    {"train": "night", "departs": "19:18", "euros": 89},
]


def reply(heard: str) -> Iterator[str | Wish]:
    """The answer to a message or to a tool's result: words one by one, then perhaps a wish."""
    line = next((line for line in SCRIPT if heard.startswith(line.cue)), Line("", SHRUG))
    words = line.words.split(" ") if line.words else []
    yield from (word if last else f"{word} " for word, last in zip(words, _lasts(len(words)), strict=True))
    if line.wish is not None:
        yield line.wish


def _lasts(count: int) -> list[bool]:
    return [index == count - 1 for index in range(count)]


class Desk:
    """The tools. Bookings are kept in a file by idempotency key, so booking twice under one key books once."""

    def __init__(self, path: str) -> None:
        self.path = path

    def bookings(self) -> dict[str, Any]:
        """What has been booked, by key."""
        if not os.path.exists(self.path):
            return {}
        with open(self.path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        return found

    def run(self, wish: Wish, key: str) -> Any:
        """Do what the model wished for."""
        if wish.name == "find_trains":
            return TRAINS
        booked = self.bookings()
        booked.setdefault(key, {"train": wish.arguments["train"], "number": len(booked) + 1})
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(booked, file)
        return booked[key]


def take_turn(
    session: "Session",
    said: str,
    run: Callable[[Wish, str], Any],
    *,
    on_word: Callable[[str], None] = lambda _: None,
    on_step: Callable[[str], None] = lambda _: None,
) -> None:
    """One turn with this model: every step is durable before the next begins, and `on_step` is told after each."""
    with session.turn(said, model=NAME) as turn:
        on_step("turn started")
        heard: str | None = said
        while heard is not None:
            words, wish = "", None
            for piece in reply(heard):
                if isinstance(piece, Wish):
                    wish = piece
                else:
                    words += piece
                    on_word(piece)
            if words:
                turn.answer(words)
                on_step("answer")
            heard = None
            if wish is not None:
                call = turn.ask(wish.name, wish.arguments)
                on_step(f"asked for {wish.name}")
                key = f"{wish.name}/{call}"
                turn.start(call, key=key)
                on_step(f"started {wish.name}")
                turn.finish(call, run(wish, key))
                on_step(f"finished {wish.name}")
                heard = wish.name
    on_step("turn finished")
