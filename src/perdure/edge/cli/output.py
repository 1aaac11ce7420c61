"""What people see: consoles, tables, labelled text, progress. Rich is loaded here and nowhere else but in the demo.

Invariant: escape sequences are written to terminals only; a pipe or a file gets plain text, whatever the environment
asks for. Markup is off in every console, so stored text cannot style, link or move anything.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.edge.cli.text import clean, one_line

PIPE_WIDTH: Final = 160
PHASE_STYLES: Final = {
    "init": "dim",
    "active": "green",
    "suspended": "yellow",
    "resumed": "yellow",
    "completed": "blue",
    "terminated": "red",
    "archived": "dim",
}
ROLE_STYLES: Final = {"user": "bold cyan", "assistant": "bold green", "system": "bold magenta"}
MARKS: Final = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
Progress = Callable[[int, int], None]


class Screen(Console):
    """A console that leaves a broken pipe to the guard around the command line."""

    def on_broken_pipe(self) -> None:
        """Say it as Python does."""
        raise BrokenPipeError


def screen(*, err: bool = False) -> Screen:
    """The console of stdout, or of stderr."""
    stream = sys.stderr if err else sys.stdout
    terminal = stream.isatty()
    return Screen(
        file=stream,
        force_terminal=terminal,
        force_jupyter=False,
        color_system="auto" if terminal else None,
        width=None if terminal or "COLUMNS" in os.environ else PIPE_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


def styled(text: str, style: str = "") -> Text:
    """Text of ours or of theirs, clean, in a style."""
    return Text(clean(text), style=style)


def phase(name: str) -> Text:
    """A phase in its colour."""
    return styled(name, PHASE_STYLES.get(name, ""))


def mark(status: str) -> Text:
    """✓, ! or ✗ for ok, warn or fail; words carry the meaning too, never the colour alone."""
    sign, style = MARKS[status]
    return Text(f"{sign} {status}", style=style)


IDS = ("session", "checkpoint", "memory", "proposal", "run")
ID_WIDTH = 36


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, flexible: Sequence[str] = ()) -> Table:
    """A table with a line for each row; `flexible` columns are shortened when the terminal is narrow, ids never."""
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in columns:
        made.add_column(name, no_wrap=name not in flexible, min_width=ID_WIDTH if name in IDS else None)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else _cell(cell) for cell in row))
    return made


def _cell(text: str) -> Text:
    return Text(one_line(text), no_wrap=True, overflow="ellipsis")


def facts(pairs: Iterable[tuple[str, str | Text]]) -> Table:
    """Names and values in two columns; long values wrap."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, value if isinstance(value, Text) else styled(value))
    return made


def labelled(
    console: Console, label: str, body: str, *, style: str = "", body_style: str = "", width: int = 13
) -> None:
    """A label and what belongs to it, indented: wrapped on a terminal, line by line elsewhere."""
    head, content = f"  {one_line(label, width - 3)}", clean(body)
    if console.is_terminal:
        made = Table.grid(padding=0)
        made.add_column(width=width, no_wrap=True)
        made.add_column(overflow="fold")
        made.add_row(Text(head, style=style), Text(content, style=body_style))
        console.print(made)
        return
    for line in content.split("\n"):
        console.print(f"{head:<{width}}{line}".rstrip(), soft_wrap=True)
        head = ""


@contextmanager
def progress(label: str) -> Iterator[Progress | None]:
    """A bar on stderr while something takes long; None when nobody is watching."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns: tuple[Any, ...] = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, TimeRemainingColumn(), console=screen(err=True), transient=True) as bars:
        task = bars.add_task(one_line(label, 40), total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
