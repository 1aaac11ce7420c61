"""What an import came to, and where it comes from."""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from perdure import errors

Progress = Callable[[int, int], None]
"""Called with how many sessions are done of how many."""


def source_of(given: Any) -> str:
    """The path or address that an importer was handed; `Invalid` if it is neither."""
    found = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(found, str) or not found:
        raise errors.Invalid(f"an import reads a path or an address, given as a text, not {given!r:.80}")
    return found


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
    """The names of those of which something could not be read, and so was not brought over."""

    def skip(self, what: str, why: str, *, lacks: str | None = None) -> None:
        """Note what is left out, and the name of the session that lacks it."""
        self.skipped.append(Skipped(what=what, why=why))
        if lacks is not None and lacks not in self.incomplete:
            self.incomplete.append(lacks)
