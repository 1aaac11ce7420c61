"""Finding sessions: a page at a time, newest first, by a cursor that only fits the query that made it."""

import base64
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import msgspec

from perdure.core.errors import BadCursor, Invalid
from perdure.core.memory.parts import TAG, space_of
from perdure.core.session import codec
from perdure.core.session.ids import SessionId, raw, text
from perdure.core.session.lifecycle import Phase
from perdure.core.session.shown import shown
from perdure.ports.store import Change, Query, Row
from perdure.services.sessions import Sessions

MAX_PAGE = 1000
MAX_CONDITIONS = 100
MAX_TEXT = 10_000
LARGEST = (1 << 63) - 1
PASSED = 500
"""Rows that are looked at together, where others are passed over."""


class Page(msgspec.Struct, frozen=True):
    """Rows, and where the next page starts; None after the last."""

    items: tuple[Row, ...]
    cursor: str | None = None


class Finding:
    """Lists, counts and the change feed."""

    def __init__(self, sessions: Sessions) -> None:
        self._store = sessions.store
        self._tenant = sessions.identity.tenant

    def query(self, **conditions: Any) -> Query:
        """The conditions, checked: `Invalid` says which one is wrong."""
        phases = conditions.get("phases", ())
        known = {phase.value for phase in Phase}
        _few(conditions, "phases", len(known))
        _few(conditions, "tags", MAX_CONDITIONS)
        _few(conditions, "metadata", MAX_CONDITIONS)
        if isinstance(searched := conditions.get("text"), str) and len(searched) > MAX_TEXT:
            raise Invalid(f"find takes a text of at most {MAX_TEXT} characters, not {len(searched)}", limit=MAX_TEXT)
        for phase in phases:
            if phase not in known:
                raise Invalid(f"{shown(phase)} is not a phase; use one of {', '.join(sorted(known))}")
        limit = conditions.get("limit", 50)
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
            raise Invalid(f"a page has 1 to {MAX_PAGE} rows, not {shown(limit)}")
        codec.encode(conditions.get("metadata", {}))
        try:
            query = msgspec.convert({"tenant": self._tenant, **conditions}, Query)
        except (msgspec.ValidationError, UnicodeEncodeError) as wrong:
            raise Invalid(f"find: {wrong}") from wrong
        codec.encode_struct(query)  # refuses texts that no store can compare
        times = (query.created_after, query.created_before, query.active_after, query.active_before)
        if any(time is not None and not -LARGEST <= time <= LARGEST for time in times):
            raise Invalid("a time is given in microseconds since 1970, or as a datetime")
        return query

    async def page(self, query: Query, cursor: str | None = None, *, memories: bool = True) -> Page:
        """One page, starting where the cursor says; without `memories`, but for the logs in which those are kept."""
        mark = fingerprint(query)
        if cursor is not None:
            query = msgspec.structs.replace(query, after=open_cursor(cursor, mark))
        wanted = query.limit
        rows = await self._rows(query, wanted + 1, memories)
        if len(rows) <= wanted:
            return Page(rows)
        last = rows[wanted - 1]
        return Page(rows[:wanted], make_cursor(_order(query, last), last, mark))

    async def _rows(self, query: Query, wanted: int, memories: bool) -> tuple[Row, ...]:
        """So many rows, if there are."""
        found: list[Row] = []
        limit = wanted
        while True:
            rows = await self._store.find(msgspec.structs.replace(query, limit=limit))
            found += rows if memories else (row for row in rows if not _is_space(row))
            if len(found) >= wanted or len(rows) < limit:
                return tuple(found[:wanted])
            query = msgspec.structs.replace(query, after=(_order(query, rows[-1]), rows[-1].session))
            limit = max(wanted, PASSED)

    async def count(self, query: Query, *, memories: bool = True) -> int:
        """How many sessions match; without `memories`, but for the logs in which those are kept."""
        if memories:
            return await self._store.count(query)
        spaces, tags = 0, (*query.tags, TAG)
        tagged = msgspec.structs.replace(query, tags=tags, limit=PASSED, after=None)
        while True:
            rows = await self._store.find(tagged)
            spaces += sum(map(_is_space, rows))
            if len(rows) < PASSED:
                return max(0, await self._store.count(query) - spaces)
            tagged = msgspec.structs.replace(tagged, after=(_order(query, rows[-1]), rows[-1].session))

    async def watch(self, after: int | None, session: SessionId | None) -> AsyncIterator[Change]:
        """Changes from a position on, or from now; of one session if asked."""
        largest = getattr(self._store, "largest_position", LARGEST)
        if after is not None and (type(after) is not int or not -largest <= after <= largest):
            raise Invalid(f"watch starts after a position, a whole number, not {shown(after)}")
        start = await self._store.position() if after is None else after
        async for change in self._store.watch(start):
            if session is None or change.session == session:
                yield change


def _is_space(row: Row) -> bool:
    """Whether it is the log in which the memories of a space are kept."""
    return TAG in row.tags and space_of(row.tenant, row.session, row.title) is not None


def _order(query: Query, row: Row) -> int:
    return row.active_at if query.by_activity else row.created_at


def _few(conditions: dict[str, Any], name: str, most: int) -> None:
    given = conditions.get(name, ())
    if isinstance(given, tuple | dict) and len(given) > most:
        raise Invalid(f"find takes at most {most} {name}, not {len(given)}; ask for fewer", limit=most)


def fingerprint(query: Query) -> bytes:
    """What a cursor belongs to: the conditions and the order, not the page size."""
    plain = msgspec.structs.replace(query, limit=1, after=None)
    return sha256(codec.encode_struct(plain)).digest()[:8]


def make_cursor(order: int, row: Row, mark: bytes) -> str:
    """Where the next page starts, as opaque text."""
    return base64.urlsafe_b64encode(mark + order.to_bytes(8, "big") + raw(row.session)).decode()


def open_cursor(cursor: str, mark: bytes) -> tuple[int, SessionId]:
    """The place a cursor names, or `BadCursor`."""
    try:
        found = base64.b64decode(cursor.encode("ascii"), b"-_", validate=True)
    except (ValueError, AttributeError, UnicodeError):
        found = b""
    if len(found) != 32 or found[:8] != mark:
        raise BadCursor("this cursor was not made by this query; start without one")
    return int.from_bytes(found[8:16], "big"), SessionId(text(found[16:]))
