"""What was asked of a space and found in it, counted until it is written down: not every search is a write."""

from collections.abc import Sequence
from typing import Final

from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoriesUsed

SOON: Final = 256
"""Uses after which they are written down."""
LATE: Final = 60_000_000
"""Microseconds after which they are written down, if anybody looks."""


class Uses:
    """What was counted and not written down yet."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}
        self.queries: dict[str, int] = {}
        self.missing = 0
        self.since: int | None = None

    def __bool__(self) -> bool:
        return bool(self.counts or self.queries or self.missing)

    def note(self, id: str, *, found: int = 0, cited: int = 0, unused: int = 0) -> None:
        """One more use of a memory."""
        counts = self.counts.setdefault(id, [0, 0, 0])
        counts[0] += found
        counts[1] += cited
        counts[2] += unused

    def ask(self, day: str) -> None:
        """One more query."""
        self.queries[day] = self.queries.get(day, 0) + 1

    def due(self, now: int) -> bool:
        """Whether it should be written down."""
        if not self:
            return False
        self.since = now if self.since is None else self.since
        return now - self.since > LATE or sum(counts[0] for counts in self.counts.values()) >= SOON

    def told(self) -> list[Payload]:
        """What is to be written down."""
        if not self:
            return []
        counts = {id: (found, cited, unused) for id, (found, cited, unused) in self.counts.items()}
        return [MemoriesUsed(counts=counts, queries={**self.queries}, missing=self.missing)]

    def wrote(self, payloads: Sequence[Payload]) -> None:
        """These were written down: they are not counted here any more. What came meanwhile is."""
        for payload in payloads:
            if isinstance(payload, MemoriesUsed):
                for id, told in payload.counts.items():
                    here = self.counts.pop(id, (0, 0, 0))
                    left = [max(0, now - before) for now, before in zip(here, told, strict=True)]
                    if any(left):
                        self.counts[id] = left
                left_asked = {day: asked - payload.queries.get(day, 0) for day, asked in self.queries.items()}
                self.queries = {day: asked for day, asked in left_asked.items() if asked}
                self.missing -= payload.missing
        self.since = None
