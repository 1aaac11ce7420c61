"""Copies of a whole store: what an engine offers for making one while others work on it, and for coming back.

An engine with a file format of its own copies the file (`Copies`). Every engine gives its rows as they are stored, what
is sealed stays sealed, and takes them back into an empty store (`Engine`): the portable form.
Everything here blocks; whoever has an event loop asks on another thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import msgspec

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""
Tables = Mapping[str, tuple[str, ...]]
"""The columns of each table."""
Rows = tuple[str, list[tuple[Any, ...]]]
"""A table, and some of its rows; values are None, int, float, str or bytes."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds as of one moment. `cold` sessions have their log in cold storage, not in the store."""

    engine: str
    format: int
    position: int
    sessions: int
    records: int
    cold: int
    sealed: bool


class Dump(Protocol):
    """All rows as of one moment."""

    facts: Facts
    tables: Tables
    total: int
    """How many rows there are."""

    def rows(self) -> Iterator[Rows]:
        """The rows, a few at a time, table by table."""
        ...


class Engine(Protocol):
    """A store by its place. All methods may raise the world's errors of `perdure.core.errors`."""

    place: str
    latest: int
    """The format this version of perdure writes."""

    def facts(self) -> Facts:
        """What the store holds; `NotAStore` when there is none, `NewerStore` when a newer perdure wrote it."""
        ...

    def tenants(self) -> tuple[str, ...]:
        """Who has sessions in it."""
        ...

    def dump(self) -> AbstractContextManager[Dump]:
        """Its rows, while others go on writing."""
        ...

    def load(self, facts: Facts, tables: Tables, rows: Iterable[Rows]) -> None:
        """Make a store of these rows where there is none, all of it durable, or nothing; `AlreadyExists` when there is
        one.
        """
        ...


@runtime_checkable
class Copies(Protocol):
    """An engine whose store is one file."""

    def copy(self, target: str, progress: Progress | None = None) -> Facts:
        """The store as of one moment in a new file, durable, while others go on writing; what is in it."""
        ...

    def examine(self) -> Facts:
        """Whether the file is whole as far as the engine can tell; what is in it. `Damaged` when it is not. Nothing is
        written, not even beside it.
        """
        ...

    def release(self) -> bool:
        """Fold everything into the one file; False when somebody else has it open."""
        ...
