"""Views of sessions' logs that adapters keep in memory: folded once, brought up to date when asked.

Invariant: a view has folded exactly the events up to its version. Folding happens under a lock and waits for nothing;
reading happens outside it, and what somebody else folded meanwhile is not folded twice.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, Protocol, TypeVar

from perdure import AsyncSession, errors
from perdure.events import Event, Redacted


class View(Protocol):
    """What a log comes to, for one adapter."""

    def fold(self, events: Sequence[Event]) -> None:
        """Take in the next events of the log."""


V = TypeVar("V", bound=View)
KEPT = 256


class _Followed(Generic[V]):
    __slots__ = ("born", "digest", "lock", "version", "view")

    def __init__(self, view: V, born: int) -> None:
        self.view = view
        self.born = born
        self.version = 0
        self.digest = b""
        self.lock = Lock()

    def fold(self, events: Sequence[Event]) -> None:
        """Take in the next events; only for who holds the lock."""
        self.view.fold(events)
        self.version, self.digest = events[-1].version, events[-1].digest


class Following(Generic[V]):
    """The views of the sessions used last."""

    def __init__(self, blank: Callable[[], V], kept: int = KEPT) -> None:
        self._blank = blank
        self._kept = kept
        self._known: OrderedDict[str, _Followed[V]] = OrderedDict()
        self._lock = Lock()

    async def present(self, session: AsyncSession) -> V | None:
        """The view of a session as it stands; None when there is no such session."""
        found = await self.at(session)
        return None if found is None else found[0]

    async def at(self, session: AsyncSession) -> tuple[V, int] | None:
        """The view of a session as it stands, and the version it stands at; None when there is no such session."""
        while True:
            try:
                row = await session.info()
                followed = self._followed(session.id, row.created_at, row.version)
                if followed.version >= row.version:
                    return followed.view, followed.version
                seen = followed.version
                events = await session.events(after=seen)
            except errors.NotFound:
                self.forget(session.id)
                return None
            if seen and any(event.kind == Redacted.kind for event in events):
                self._anew(session.id, row.created_at)  # what was folded before may be gone: read it all again
                continue
            if events and events[0].version != seen + 1:  # pruned: what is left is all there is to see
                followed = self._anew(session.id, row.created_at)
                seen = followed.version
            with followed.lock:
                if followed.version == seen and events:
                    followed.fold(events)

    def recent(self, session: str) -> tuple[V, int, bytes] | None:
        """The view as it was last seen, its version and the digest there, without asking the store: for those who write
        upon that digest and so are told when it is stale.
        """
        with self._lock:
            followed = self._known.get(session)
        if followed is None:
            return None
        with followed.lock:
            return followed.view, followed.version, followed.digest

    def take(self, session: str, events: Sequence[Event]) -> None:
        """Fold what the caller has just written, if nothing is missing before it: it need not be read again."""
        with self._lock:
            followed = self._known.get(session)
        if followed is None or not events:
            return
        with followed.lock:
            if followed.version == events[0].version - 1:
                followed.fold(events)

    def standing(self, session: str, born: int, version: int) -> V | None:
        """The view of a session, for those who know where it stands; None when the view is not there yet."""
        with self._lock:
            found = self._known.get(session)
            if found is None or found.born != born or found.version != version:
                return None
            self._known.move_to_end(session)
            return found.view

    def _followed(self, session: str, born: int, version: int) -> _Followed[V]:
        with self._lock:
            found = self._known.get(session)
            if found is not None and found.born == born and found.version <= version:
                self._known.move_to_end(session)
                return found
        return self._anew(session, born)

    def _anew(self, session: str, born: int) -> _Followed[V]:
        made = _Followed(self._blank(), born)
        with self._lock:
            self._known[session] = made
            self._known.move_to_end(session)
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
        return made

    def forget(self, session: str) -> None:
        """Let go of a view, since its session is gone."""
        with self._lock:
            self._known.pop(session, None)
