"""When a commit is made on the very thread of an event loop: where it takes less time than handing it to another thread
and back. The loop does nothing else meanwhile, so whatever could take long is left to the writer's thread: a large
operation, another process that writes just now, folding the log into the file, a disk that was slow the last time.
"""

from typing import Final

import apsw

from perdure.stores.sqlite.connection import WAL_PAGES, patience

QUICK: Final = 0.01
"""Seconds that a loop may stand still for a commit."""
BRIEF: Final = 64 * 1024
"""Bytes of an operation that is soon done."""
WEIGHT: Final = 0.125
"""Of the newest commit in how long they usually take."""
FIRST_REST: Final = 64
LONGEST_REST: Final = 4096
"""Commits that are not made in haste when they have become slow, and at most, when it happens again and again."""


class Haste:
    """What is known of the disk, and whether a hasty commit is under way. Its hooks are for the writer's connection."""

    def __init__(self) -> None:
        self.on = False
        self._pages = 0
        self._usual = 0.0
        self._resting = 0
        self._rest = FIRST_REST

    def may(self) -> bool:
        """Whether the next commit may be made in haste."""
        if self._resting:
            self._resting -= 1
            return False
        return self._pages < WAL_PAGES

    def took(self, seconds: float) -> None:
        """How long a hasty one took."""
        self._usual += (seconds - self._usual) * WEIGHT
        if self._usual > QUICK:
            self._usual = 0.0
            self._resting = self._rest
            self._rest = min(2 * self._rest, LONGEST_REST)
        elif seconds <= QUICK and self._rest > FIRST_REST:
            self._rest -= 1

    def attach(self, connection: apsw.Connection) -> None:
        """Be asked by a connection whether to wait, and told how long its log is."""
        connection.set_busy_handler(self.patient)
        connection.set_wal_hook(self._grew)

    def patient(self, tries: int) -> bool:
        """Wait for another process that writes; not in haste."""
        return not self.on and patience(tries)

    def _grew(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """Fold the log into the file when it has become long, as SQLite would by itself; not in haste."""
        self._pages = pages
        if pages >= WAL_PAGES and not self.on:
            try:
                connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.Error:  # the commit stands, whatever became of this: the next one tries again
                pass
        return apsw.SQLITE_OK
