"""Whether a row is what a query asks for. The plain reading of `Query`; engines with indexes must agree with it."""

from collections.abc import Iterable

from perdure.core.session.record import Record
from perdure.core.session.values import same
from perdure.ports.store import Query, Row
from perdure.projections.text import fold, text_of_record, words


def matches(row: Row, query: Query) -> bool:
    """Whether every condition on the row itself holds; `text` asks the records, `after` the place in the order."""
    return (
        row.tenant == query.tenant
        and query.owner in (None, row.owner)
        and (not query.phases or row.phase in query.phases)
        and query.parent in (None, row.parent)
        and query.open_turn in (None, row.open_turn is not None)
        and _between(query.created_after, row.created_at, query.created_before)
        and _between(query.active_after, row.active_at, query.active_before)
        and set(query.tags) <= set(row.tags)
        and all(key in row.metadata and same(row.metadata[key], value) for key, value in query.metadata.items())
        and (query.title is None or fold(query.title) in fold(row.title))
    )


def _between(after: int | None, value: int, before: int | None) -> bool:
    return (after is None or value > after) and (before is None or value < before)


def speaks_of(records: Iterable[Record], text: str) -> bool:
    """Whether one record has every word of the text; a text without words is found nowhere."""
    wanted = set(words(text))
    return bool(wanted) and any(wanted <= set(words(text_of_record(record))) for record in records)


def place(row: Row, query: Query) -> tuple[int, str]:
    """Where the row stands in the query's order; newest first means the greatest place first."""
    return (row.active_at if query.by_activity else row.created_at, row.session)
