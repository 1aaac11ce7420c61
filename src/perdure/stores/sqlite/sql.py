"""The statements for SQLite, by name, and its migrations."""

from typing import Final

from perdure.statements import Asks, named, numbered

__all__ = ["QUERIES", "Asks", "migrations"]

QUERIES: Final = named(__file__, "queries.sql", "blobs.sql", "streams.sql")


def migrations() -> list[tuple[int, str]]:
    """Every migration's number and text, in order."""
    return numbered(__file__, "migrations")
