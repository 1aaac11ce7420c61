"""What an audit log still lacks: entries that wait to be written, alike ones counted together, within a bound."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

from perdure.core.access import entries as audit
from perdure.core.access.entries import AnyEntry, Missed


class Queue:
    """What one tenant's log still lacks."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._waiting: dict[Any, AnyEntry] = {}
        self.unsigned = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, entry: AnyEntry, *, apart: bool = False) -> None:
        """Queue an entry: counted with those alike, or `apart` from them and whatever the bound says."""
        with self._lock:
            self._add(object() if apart else audit.likeness(entry), entry, apart)

    def _add(self, place: Any, entry: AnyEntry, apart: bool) -> None:
        known = self._waiting.get(place)
        if known is None and not apart and len(self._waiting) >= self._most:
            place = audit.likeness(Missed())
            known = self._waiting.get(place)
            entry = Missed(at=entry.at, until=entry.until, count=entry.count)
        self._waiting[place] = entry if known is None else audit.together(known, entry)

    def take(self) -> list[AnyEntry]:
        """Everything there is, the oldest first."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
            return list(taken.values())

    def put_back(self, entries: Sequence[AnyEntry]) -> None:
        """What could not be written comes before what has come since."""
        with self._lock:
            since, self._waiting = self._waiting, {}
            for entry in entries:
                self._add(audit.likeness(entry), entry, apart=False)
            for place, entry in since.items():
                self._add(place, entry, apart=type(place) is object)
