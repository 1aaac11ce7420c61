"""The change feed of the volatile store, and the ticket on which its watchers wait.

Invariant: positions only grow, also past what was erased, and whoever looked before a change holds the ticket
that the change delivers.
"""

from bisect import bisect_right
from typing import Any

from perdure.core.session.ids import SessionId
from perdure.ports.store import Change
from perdure.waiting import Ticket


class Feed:
    """Changes in order. The caller holds the store's lock."""

    def __init__(self) -> None:
        self.position = 0
        self.news: Ticket[None] = Ticket()
        self._changes: list[Change] = []

    def tell(self, session: SessionId, at: int, *, first: int, last: int, **more: Any) -> None:
        """Add a change at the next position."""
        self.position += 1
        told = Change(position=self.position, session=session, first=first, last=last, at=at, **more)
        self._changes.append(told)

    def forget(self, session: SessionId) -> None:
        """Leave out what was told of a session."""
        self._changes = [change for change in self._changes if change.session != session]

    def since(self, after: int, limit: int | None = None) -> tuple[Change, ...]:
        """Changes after a position."""
        start = bisect_right(self._changes, after, key=lambda change: change.position)
        return tuple(self._changes[start:] if limit is None else self._changes[start : start + limit])

    def turn_page(self) -> Ticket[None]:
        """The ticket that watchers hold now; to be delivered once the lock is free."""
        news, self.news = self.news, Ticket()
        return news
