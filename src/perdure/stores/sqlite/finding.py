"""`find` as SQL: fixed fragments with bound values. No key or value of a caller ever becomes part of the text."""

from collections.abc import Callable
from typing import Any, Final

from perdure.core.session.ids import raw
from perdure.ports.seal import Place
from perdure.ports.store import Query
from perdure.stores.packing import Packing, metadata_label
from perdure.stores.sqlite.rows import ROW_COLUMNS
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.words import match_expression

FEW: Final = 1000
"""Of so many sessions with a label all are looked at; of more, sessions are looked at in order until a page is full."""
_LABELLED = "no IN (SELECT session FROM label WHERE name = ? AND value = ?)"
_HAS_LABEL = "EXISTS (SELECT 1 FROM label WHERE session = session.no AND name = ? AND value = ?)"
_HOW_MANY = "SELECT count(*) FROM (SELECT 1 FROM label WHERE name = ? AND value = ? LIMIT ?)"
_FROM_LABEL = "label CROSS JOIN session ON session.no = label.session"


def select(packing: Packing, query: Query, asks: Asks) -> tuple[str, list[Any]]:
    """The page a query asks for. `asks` tells whether one of its labels is rare."""
    labels = _labels(packing, query)
    rare = next((label for label in labels if asks.execute(_HOW_MANY, (*label, FEW)).fetchone()[0] < FEW), None)
    where, values = _conditions(packing, query, _HAS_LABEL)
    if rare is not None:
        where, values = ["label.name = ? AND label.value = ?", *where], [*rare, *values]
    order, coarse = ("last_active_at", "activity DESC, ") if query.by_activity else ("created_at", "")
    if query.after is not None:
        where.append(f"({order}, session_id) < (?, ?)")
        values += [query.after[0], raw(query.after[1])]
        if query.by_activity:
            where.append("activity <= ? >> 26")
            values.append(query.after[0])
    text = (
        f"SELECT {ROW_COLUMNS} FROM {'session' if rare is None else _FROM_LABEL} "  # noqa: S608 - fixed fragments
        f"WHERE {' AND '.join(where)} "
        f"ORDER BY {coarse}{order} DESC, session_id DESC LIMIT ?"
    )
    return text, [*values, query.limit]


def count(packing: Packing, query: Query) -> tuple[str, list[Any]]:
    """How many rows match, whatever the page."""
    where, values = _conditions(packing, query, _LABELLED)
    return f"SELECT count(*) FROM session WHERE {' AND '.join(where)}", values  # noqa: S608 - fixed fragments


def _labels(packing: Packing, query: Query) -> list[tuple[str, str]]:
    """The labels that a session must have, as they are indexed."""
    tags = [packing.label("tag", tag) for tag in query.tags]
    return tags + [packing.label(*metadata_label(name, value)) for name, value in query.metadata.items()]


def _conditions(packing: Packing, query: Query, labelled: str) -> tuple[list[str], list[Any]]:
    where: list[str] = ["tenant = ?"]
    values: list[Any] = [query.tenant]

    def add(fragment: str, *bound: Any) -> None:
        where.append(fragment)
        values.extend(bound)

    if query.owner is not None:
        add("owner_id = ?", query.owner)
    if query.phases:
        add(f"lifecycle_phase IN ({', '.join('?' * len(query.phases))})", *query.phases)
    for label in _labels(packing, query):
        add(labelled, *label)
    if query.title is not None:
        add("contains(title, metadata, card, tenant, session_id, salt, ?)", query.title.casefold())
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
        _text(packing, query.text, add)
    return where, values


def _text(packing: Packing, text: str, add: Any) -> None:
    expression = match_expression(packing, text)
    if expression is None:
        add("0")
    else:
        add(
            "no IN (SELECT session FROM record WHERE position IN (SELECT rowid FROM words WHERE words MATCH ?))",
            expression,
        )


def contains(packing: Packing) -> Callable[..., bool]:
    """The SQL function behind the title filter: case-insensitive beyond ASCII, without wildcards. Sealed titles are
    opened one by one.
    """

    def title_contains(title: str, labels: str, card: bytes | None, *rest: Any) -> bool:
        found, _ = packing.card(Place(*rest[:3]), title, labels, card)
        return rest[3] in found.casefold()

    return title_contains
