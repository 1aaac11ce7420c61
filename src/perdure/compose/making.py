"""Properties whose value is made when it is first asked for, in a process that may fork at any moment.

Invariant: no fork happens while a value is being made. A child would inherit the lock it is made under, and those of
the modules it loads, as another thread held them, and wait for them for ever.
"""

from collections.abc import Callable, Generator
from threading import RLock
from typing import Any, Generic, Self, TypeVar, overload

from perdure.forking import Forking, on_fork
from perdure.waiting import holding

T = TypeVar("T")


class _Gate:
    """Held by whoever makes a value, and by whoever forks."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._held: Generator[None, None, None] | None = None
        on_fork(self, Forking(_Gate._before, _Gate._in_parent, _Gate._in_child))

    def _before(self) -> None:
        self._held = holding(self.lock)
        next(self._held)

    def _in_parent(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _in_child(self) -> None:
        self.lock = RLock()
        self._held = None


_GATE = _Gate()


class made_once(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """A property that is made when it is first asked for, once for all threads, and kept."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object | None, kind: type) -> Self | T:
        if owner is None:
            return self
        with _GATE.lock:
            kept = owner.__dict__
            if self._name not in kept:
                kept[self._name] = self._make(owner)
            found: T = kept[self._name]
        return found
