"""The SQLite engine. `store` is the whole of it; the other modules are its parts."""

from perdure.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
