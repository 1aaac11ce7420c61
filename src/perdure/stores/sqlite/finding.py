"""`find` as SQL: fixed fragments with bound values. No key or value of a caller ever becomes part of the text."""

from typing import Any

from perdure.core.session.ids import raw
from perdure.ports.store import Query
from perdure.stores.sqlite.rows import ROW_COLUMNS, metadata_label
from perdure.stores.sqlite.words import match_expression

_LABELLED = "no IN (SELECT session FROM label WHERE name = ? AND value = ?)"


def select(query: Query) -> tuple[str, list[Any]]:
    """The page a query asks for."""
    where, values = _conditions(query)
    order, coarse = ("last_active_at", "activity DESC, ") if query.by_activity else ("created_at", "")
    if query.after is not None:
        where.append(f"({order}, session_id) < (?, ?)")
        values += [query.after[0], raw(query.after[1])]
        if query.by_activity:
            where.append("activity <= ? >> 26")
            values.append(query.after[0])
    text = (
        f"SELECT {ROW_COLUMNS} FROM session WHERE {' AND '.join(where)} "  # noqa: S608 - fixed fragments, bound values
        f"ORDER BY {coarse}{order} DESC, session_id DESC LIMIT ?"
    )
    return text, [*values, query.limit]


def count(query: Query) -> tuple[str, list[Any]]:
    """How many rows match, whatever the page."""
    where, values = _conditions(query)
    return f"SELECT count(*) FROM session WHERE {' AND '.join(where)}", values  # noqa: S608 - fixed fragments


def _conditions(query: Query) -> tuple[list[str], list[Any]]:
    where: list[str] = ["tenant = ?"]
    values: list[Any] = [query.tenant]

    def add(fragment: str, *bound: Any) -> None:
        where.append(fragment)
        values.extend(bound)

    if query.owner is not None:
        add("owner_id = ?", query.owner)
    if query.phases:
        add(f"lifecycle_phase IN ({', '.join('?' * len(query.phases))})", *query.phases)
    for tag in query.tags:
        add(_LABELLED, "tag", tag)
    for name, value in query.metadata.items():
        add(_LABELLED, *metadata_label(name, value))
    if query.title is not None:
        add("contains(title, ?)", query.title.casefold())
    if query.parent is not None:
        add("parent = ?", raw(query.parent))
    if query.open_turn is not None:
        add("open_turn IS NOT NULL" if query.open_turn else "open_turn IS NULL")
    for column, after, before in (
        ("created_at", query.created_after, query.created_before),
        ("last_active_at", query.active_after, query.active_before),
    ):
        if after is not None:
            add(f"{column} > ?", after)
        if before is not None:
            add(f"{column} < ?", before)
    if query.text is not None:
        _text(query.text, add)
    return where, values


def _text(text: str, add: Any) -> None:
    expression = match_expression(text)
    if expression is None:
        add("0")
    else:
        add(
            "no IN (SELECT session FROM record WHERE position IN (SELECT rowid FROM words WHERE words MATCH ?))",
            expression,
        )


def contains(*values: Any) -> bool:
    """The SQL function behind the title filter: case-insensitive beyond ASCII, without wildcards."""
    title, part = values
    return part in title.casefold()
