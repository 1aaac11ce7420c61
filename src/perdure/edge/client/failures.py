"""What a server answers when it does not do as asked, as the errors that the embedded library raises."""

from collections.abc import Iterator
from functools import cache
from http import HTTPStatus as S
from typing import Any

from perdure.core import errors
from perdure.core.errors import CallerError, ConflictError, Invalid, PerdureError, TooDeep, Unreachable, WorldError
from perdure.edge.http.wire import EXACTLY, loose


def failure_of(status: int, body: bytes, url: str) -> PerdureError:
    """The error behind an answer: of the same class, with the same fields. What is no problem of perdure's comes from
    something in between, and is `Unreachable`.
    """
    try:
        found = loose(body, EXACTLY)
    except (Invalid, TooDeep):
        found = None
    if type(found) is not dict or type(found.get("code")) is not str:
        told = f"{url} answered {status} in words that are not perdure's; look at the address and at what is in between"
        return Unreachable(told, url=url, status=status)
    fields = found.get("fields")
    facts: dict[str, Any] = {**fields} if type(fields) is dict else {}
    kind = by_code().get(found["code"])
    if kind is None:
        kind, facts = by_status(status), {**facts, "status": status, "problem": found["code"]}
    return kind(str(found.get("detail") or found.get("title") or status), **facts)


@cache
def by_code() -> dict[str, type[PerdureError]]:
    """Every class of the tree by what it is called on the wire."""
    kinds: list[type[PerdureError]] = [PerdureError, *_below(PerdureError)]
    return {kind.code: kind for kind in kinds if kind.__module__ == errors.__name__}


def _below(kind: type[PerdureError]) -> Iterator[type[PerdureError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def by_status(status: int) -> type[PerdureError]:
    """The branch of the tree that a status belongs to."""
    if status in (S.CONFLICT, S.PRECONDITION_FAILED):
        return ConflictError
    return CallerError if status < S.INTERNAL_SERVER_ERROR else WorldError
