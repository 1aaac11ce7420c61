"""Allowance in RAM: so many bytes for all who share it, of whichever tenant; who came back longest ago goes first."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final

from perdure.forking import Forking, on_fork

LEAST: Final = 256 << 20
MOST: Final = 4 << 30
"""Bytes of RAM that are taken if nobody says otherwise: a quarter of what the machine has, between these."""


class Allowance:
    """How much each guest takes. A guest that alone is too large stays while no other comes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0
        self._lock = Lock()
        self._guests: OrderedDict[object, tuple[int, Callable[[], None]]] = OrderedDict()
        on_fork(self, Forking(_unchanged, _unchanged, Allowance._forked))

    def take(self, guest: object, size: int, leave: Callable[[], None]) -> None:
        """A guest takes so much now. Whoever has to make room for it is told to leave."""
        gone = []
        with self._lock:
            self._let_go(guest)
            self._guests[guest] = (size, leave)
            self.taken += size
            while self.taken > self.size and len(self._guests) > 1:
                gone.append(self._let_go(next(iter(self._guests))))
        for leave_now in gone:
            if leave_now is not None:
                leave_now()

    def back(self, guest: object) -> None:
        """A guest came back."""
        with self._lock:
            if guest in self._guests:
                self._guests.move_to_end(guest)

    def left(self, guest: object) -> None:
        """A guest needs nothing any more."""
        with self._lock:
            self._let_go(guest)

    def _let_go(self, guest: object) -> Callable[[], None] | None:
        size, leave = self._guests.pop(guest, (0, None))
        self.taken -= size
        return leave

    def _forked(self) -> None:
        self._lock = Lock()


def usual(machine: int | None) -> int:
    """How large a room is if nobody says, on a machine with so much memory, or with nobody knows how much."""
    return LEAST * 4 if machine is None else min(max(machine // 4, LEAST), MOST)


def _unchanged(_: Allowance) -> None:
    pass
