"""What an import came to."""

from collections.abc import Callable

import msgspec

Progress = Callable[[int, int], None]
"""Called with how many sessions are done of how many."""


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

    def skip(self, what: str, why: str) -> None:
        """Note what is left out."""
        self.skipped.append(Skipped(what=what, why=why))
