"""What can go wrong at an endpoint: every problem it may answer with, by status. The OpenAPI document tells it.

An endpoint's row names the errors that are its own; what any request can meet on its way in follows from the row.
"""

from collections.abc import Iterable
from http import HTTPStatus as S
from typing import Final

import msgspec

from perdure.core import errors
from perdure.core.errors import PerdureError
from perdure.edge.http.problems import status_of
from perdure.edge.http.routes import MUTATING, Endpoint

NO_PATH: Final = "no_such_path"
NO_METHOD: Final = "method_not_allowed"
WRONG_HOST: Final = "wrong_host"
WRONG_MEDIA: Final = "unsupported_media_type"
UPGRADE: Final = "upgrade_required"
UNEXPECTED: Final = "unexpected"

EDGE: Final[dict[str, S]] = {
    NO_PATH: S.NOT_FOUND,
    NO_METHOD: S.METHOD_NOT_ALLOWED,
    WRONG_HOST: S.MISDIRECTED_REQUEST,
    WRONG_MEDIA: S.UNSUPPORTED_MEDIA_TYPE,
    UPGRADE: S.UPGRADE_REQUIRED,
    UNEXPECTED: S.INTERNAL_SERVER_ERROR,
}
"""Problems that only HTTP knows, beside those of the library's tree."""

Faults = dict[int, list[str]]


def tree(root: type[PerdureError]) -> Iterable[type[PerdureError]]:
    """An error and all that are kinds of it."""
    yield root
    for kind in root.__subclasses__():
        if getattr(errors, kind.__name__, None) is kind:  # not what somebody else derives from one
            yield from tree(kind)


_NOT_SERVING: Final = {errors.NotAStore, errors.NewerStore, errors.OldSqlite}
"""What keeps a server from starting is never told by one."""
_SOMETIMES: Final = {errors.DiskFull, errors.ColdUnreachable, errors.DeliveryFailed}
_WORLD: Final = frozenset(tree(errors.WorldError)) - _NOT_SERVING - _SOMETIMES - {errors.WorldError}


def codes() -> list[str]:
    """Every code a problem can have, in order."""
    return sorted({kind.code for kind in tree(PerdureError)} | set(EDGE))


def faults(endpoint: Endpoint, table: Iterable[Endpoint]) -> Faults:
    """The codes an endpoint can answer with, by status, both in order. A declared error stands for all its kinds."""
    kinds = {kind for declared in endpoint.errors for kind in tree(declared)} | set(_met(endpoint))
    found: dict[int, set[str]] = {}
    for kind in kinds:
        found.setdefault(int(status_of(kind)), set()).add(kind.code)
    if errors.QuotaReached in kinds:  # of queries there are more tomorrow
        found.setdefault(int(S.TOO_MANY_REQUESTS), set()).add(errors.QuotaReached.code)
    for code in _edge(endpoint, table):
        found.setdefault(int(EDGE[code]), set()).add(code)
    return {status: sorted(found[status]) for status in sorted(found)}


def _edge(endpoint: Endpoint, table: Iterable[Endpoint]) -> Iterable[str]:
    yield WRONG_HOST
    if endpoint.parameters:
        yield NO_PATH  # for what an empty piece of the path leads to
    if _shadowed(endpoint, table):
        yield NO_METHOD
    if endpoint.body is not None and endpoint.body is not bytes:
        yield WRONG_MEDIA


def _shadowed(endpoint: Endpoint, table: Iterable[Endpoint]) -> bool:
    """Whether a word that fills its path leads to another path, which may not know its method."""
    pieces = endpoint.path.split("/")
    for other in table:
        others = other.path.split("/")
        if other.path == endpoint.path or len(others) != len(pieces):
            continue
        if all(
            mine == its or (mine.startswith("{") and not its.startswith("{"))
            for mine, its in zip(pieces, others, strict=True)
        ):
            return True
    return False


def _met(endpoint: Endpoint) -> Iterable[type[PerdureError]]:
    """The errors that any such request can meet."""
    yield from (errors.Invalid, errors.RateLimited)
    inside = endpoint.action is not None or endpoint.known
    writes = endpoint.method in MUTATING
    if inside or any(issubclass(kind, errors.Unauthenticated) for kind in endpoint.errors):
        yield from tree(errors.Unauthenticated)
    if inside or endpoint.errors:
        yield from _WORLD
    if endpoint.action is not None or writes:
        yield errors.Denied
    asked = _fields(endpoint.query) | _fields(endpoint.body)
    if endpoint.parameters or "parent" in asked:
        yield errors.NotFound
    if "cursor" in asked:
        yield errors.BadCursor
    if endpoint.body is not None:
        yield from (errors.TooLarge, errors.TooDeep)
    if endpoint.scoped:
        yield errors.ColdUnreachable
    if inside and (writes or endpoint.sensitive):
        yield errors.DiskFull
    if endpoint.keyed:
        yield from (errors.KeyReused, errors.KeyInFlight)
    if endpoint.guarded or (endpoint.scoped and writes):
        yield errors.VersionConflict
    if endpoint.scoped and writes:
        yield errors.Terminal


def _fields(kind: object) -> set[str]:
    return set(kind.__struct_fields__) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else set()
