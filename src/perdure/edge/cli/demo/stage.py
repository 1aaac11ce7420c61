"""Where the tour is shown: narration, code, words as they stream, and claims with their proof."""

import sys
import time
from typing import Any, Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from perdure.edge.cli import output
from perdure.edge.cli.text import clean

WORD_SECONDS: Final = 0.11
LINE_SECONDS: Final = 1.0
INDENT: Final = (0, 0, 0, 2)
READING_SECONDS: Final = 0.03
"""A character of narration."""


class Stage:
    """A terminal, or a plain pipe. Pauses are for people: without a terminal, or when in a hurry, there are none."""

    def __init__(self, *, fast: bool) -> None:
        self.console = output.screen()
        self.hurry = fast or not sys.stdout.isatty()
        self.broken: list[str] = []

    def wait(self, seconds: float) -> None:
        """Let people look."""
        if not self.hurry:
            time.sleep(seconds)

    def act(self, number: int, title: str) -> None:
        """A new part begins."""
        self.console.print()
        rule = Rule(Text(f" {number}  {title} ", style="bold"), align="left", style="dim")
        self.console.print(rule, width=min(self.console.width, 100))
        self.console.print()
        self.wait(LINE_SECONDS)

    def tell(self, words: str) -> None:
        """Narration, with the time to read it."""
        self.console.print(Text(clean(words)))
        self.wait(LINE_SECONDS + READING_SECONDS * len(words))

        self.console.print()

    def code(self, line: str) -> None:
        """What is being called, as one would write it."""
        self.console.print(Padding(Text(f">>> {line}", style="cyan"), INDENT, expand=False))
        self.wait(LINE_SECONDS)

    def show(self, thing: RenderableType, seconds: float = 2.0) -> None:
        """A table, a tree, a line."""
        self.console.print(Padding(thing, INDENT, expand=False))
        self.wait(seconds)

    def speaker(self, name: str) -> None:
        """Somebody is about to speak."""
        style = output.ROLE_STYLES.get(name, "bold yellow")
        self.console.print(Text(f"  {name:<11}", style=style), end="")

    def word(self, piece: str) -> None:
        """One more word of a stream."""
        self.console.print(Text(clean(piece)), end="", soft_wrap=True)
        self.console.file.flush()
        self.wait(WORD_SECONDS)

    def line(self, speaker: str, words: str) -> None:
        """A whole line at once."""
        output.labelled(self.console, speaker, words, style=output.ROLE_STYLES.get(speaker, "bold yellow"))
        self.wait(LINE_SECONDS)

    def end_line(self) -> None:
        """The stream ends."""
        self.console.print()
        self.wait(LINE_SECONDS / 2)

    def claim(self, words: str, holds: Any) -> None:
        """Say something that was checked; what does not hold is remembered."""
        if not holds:
            self.broken.append(words)
        sign, style = output.MARKS["ok" if holds else "fail"]
        self.console.print(Text(f"  {sign} ", style=style).append(clean(words), style="default"))
        self.wait(LINE_SECONDS)
