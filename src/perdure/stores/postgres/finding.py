"""`find` as SQL: fixed fragments with bound values. No key or value of a caller ever becomes part of the text.

A title is found by its folded text; one that is sealed is opened here, page by page, so that order, limit and cursor
are those of the query.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from perdure.ports.store import Query, Row
from perdure.projections.text import fold
from perdure.stores.packing import Packing, metadata_label
from perdure.stores.postgres.rows import ROW_COLUMNS, place_from, row_from
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.texts import kept, label_mark
from perdure.stores.postgres.words import asked

PAGE: Final = 500
Statement = tuple[str, list[Any]]


class _Conditions:
    """Fragments and what they bind, in step."""

    def __init__(self) -> None:
        self.where: list[str] = []
        self.values: list[Any] = []

    def add(self, fragment: str, *bound: Any) -> None:
        """A fragment, each `{}` in it a value."""
        numbers = range(len(self.values) + 1, len(self.values) + 1 + len(bound))
        self.where.append(fragment.format(*(f"${number}" for number in numbers)))
        self.values.extend(bound)

    def text(self) -> str:
        return " AND ".join(self.where)


def find(packing: Packing, asks: Asks, query: Query) -> tuple[Row, ...]:
    """The page a query asks for."""
    if query.title is None:
        return tuple(_rows(packing, asks, query))
    found: list[Row] = []
    for row in _titled(packing, asks, query):
        found.append(row)
        if len(found) == query.limit:
            break
    return tuple(found)


def count(packing: Packing, asks: Asks, query: Query) -> int:
    """How many rows match, whatever the page."""
    if query.title is not None:
        return sum(1 for _ in _titled(packing, asks, replace(query, after=None, limit=PAGE)))
    where = _conditions(packing, query)
    statement = f"SELECT count(*) FROM perdure.session AS s WHERE {where.text()}"  # noqa: S608 - fixed fragments
    return int(asks.execute(statement, where.values).fetchone()[0])


def _titled(packing: Packing, asks: Asks, query: Query) -> Iterator[Row]:
    """Rows with a title that contains the text, in order, however many pages that takes."""
    wanted = fold(query.title or "")
    page = replace(query, limit=max(PAGE, query.limit))
    while True:
        found = _rows(packing, asks, page)
        yield from (row for row in found if wanted in fold(row.title))
        if len(found) < page.limit:
            return
        last = found[-1]
        page = replace(page, after=(last.active_at if query.by_activity else last.created_at, last.session))


def _rows(packing: Packing, asks: Asks, query: Query) -> list[Row]:
    found = asks.execute(*_select(packing, query)).fetchall()
    packing.expect(place_from(columns[1], columns[0], columns[18]) for columns in found)
    return [row_from(packing, columns) for columns in found]


def _select(packing: Packing, query: Query) -> Statement:
    where = _conditions(packing, query)
    order, coarse = ("last_active_at", "s.activity DESC, ") if query.by_activity else ("created_at", "")
    if query.after is not None:
        where.add(f"(s.{order}, s.session_id) < ({{}}, {{}})", *query.after)
        if query.by_activity:
            where.add("s.activity <= {}::bigint >> 26", query.after[0])
    where.values.append(query.limit)
    text = (
        f"SELECT {ROW_COLUMNS} FROM perdure.session AS s WHERE {where.text()} "  # noqa: S608 - fixed fragments
        f"ORDER BY {coarse}s.{order} DESC, s.session_id DESC LIMIT ${len(where.values)}"
    )
    return text, where.values


def _conditions(packing: Packing, query: Query) -> _Conditions:
    where = _Conditions()
    where.add("s.tenant = {}", kept(query.tenant))
    if query.owner is not None:
        owner = kept(query.owner)
        where.add("left(s.owner_id, 128) = left({}, 128) AND s.owner_id = {}", owner, owner)
    if query.phases:
        where.add("s.lifecycle_phase = ANY ({}::text[])", [kept(phase) for phase in query.phases])
    marks = [label_mark(packing, "tag", tag) for tag in query.tags]
    marks += [label_mark(packing, *metadata_label(name, value)) for name, value in query.metadata.items()]
    if marks:
        where.add("s.marks @> {}", marks)
    if query.title is not None:
        where.add("(s.salt IS NOT NULL OR strpos(s.folded, {}) > 0)", kept(fold(query.title)))
    if query.parent is not None:
        where.add("s.parent = {}", query.parent)
    if query.open_turn is not None:
        where.add("s.open_turn IS NOT NULL" if query.open_turn else "s.open_turn IS NULL")
    for column, after, before in (
        ("created_at", query.created_after, query.created_before),
        ("last_active_at", query.active_after, query.active_before),
    ):
        if after is not None:
            where.add(f"s.{column} > {{}}", after)
        if before is not None:
            where.add(f"s.{column} < {{}}", before)
    if query.text is not None:
        _spoken(packing, query.text, where)
    return where


def _spoken(packing: Packing, text: str, where: _Conditions) -> None:
    words = asked(packing, text)
    if not words:
        where.add("false")
    else:
        where.add(
            "s.no IN (SELECT r.session FROM perdure.word AS w JOIN perdure.record AS r USING (position) "
            "WHERE w.words @> {}::text[])",
            words,
        )
