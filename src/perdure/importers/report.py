"""What an import came to, and where it comes from."""

import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

from perdure import errors

Progress = Callable[[int, int], None]
"""Called with how many sessions are done of how many."""
THERE: Final = "it is there already"
OWN: Final = "a session of this name is there, with things of its own"
DAMAGED: Final = (
    *(ValueError, TypeError, LookupError, AttributeError, ImportError, ArithmeticError),
    *(EOFError, RecursionError, MemoryError),
)
"""What comes of reading data that was damaged."""


def source_of(given: Any) -> str:
    """The path or address that an importer was handed; `Invalid` if it is neither."""
    found = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(found, str) or not found:
        raise errors.Invalid(f"an import reads a path or an address, given as a text, not {given!r:.80}")
    return found


def shown_as(source: str) -> str:
    """A source as reports name it: without passwords."""
    scheme, mark, rest = source.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if mark else source


def prefix_of(given: Any) -> str:
    """What the names of imported sessions begin with; `Invalid` if it is no text."""
    if not isinstance(given, str):
        raise errors.Invalid(f"a prefix is a text that names begin with, not {given!r:.80}")
    return given


def own_things(newer: int = 0, one: str = "item", many: str = "items") -> str:
    """Why nothing is added to a session that went its own way, how much of the source it lacks, and the way out."""
    left = f": {newer} newer {f'{one} was' if newer == 1 else f'{many} were'} not imported" if newer else ""
    return f"{OWN}{left}; to have both, import under other names with --prefix TEXT (prefix= in Python)"


def printable(text: str) -> str:
    """A text that every report can hold: what is no UTF-8 is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was not brought over, and why."""

    what: str
    why: str


class Imported(msgspec.Struct, kw_only=True):
    """Counts, and what was left out. In a dry run it says what would be done."""

    source: str
    dry_run: bool = False
    sessions: int = 0
    items: int = 0
    names: list[str] = []
    """The names by which the sessions are opened."""
    skipped: list[Skipped] = []
    incomplete: list[str] = []
    """The names of those of which something was not brought over: it could not be read, or had no place here."""

    def __post_init__(self) -> None:
        self.source = printable(self.source)

    def skip(self, what: str, why: str, *, lacks: str | None = None) -> None:
        """Note what is left out, and the name of the session that lacks it."""
        self.skipped.append(Skipped(what=printable(what), why=printable(why)))
        if lacks is not None and printable(lacks) not in self.incomplete:
            self.incomplete.append(printable(lacks))
