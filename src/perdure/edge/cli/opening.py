"""From words on the command line to a store and a session. Invariant: only `import` may bring a file into being."""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from perdure.core.errors import Invalid, NotAStore, NotFound

if TYPE_CHECKING:
    from perdure import Perdure, Session

COLD: Final = "PERDURE_COLD"
LATEST: Final = "latest"
_PAGE: Final = 1000
_SHOWN: Final = 10
_WHOLE: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BEGINNING: Final = re.compile(r"[0-9a-f-]+")


@contextmanager
def opened(path: str, *, read_only: bool, create: bool = False, **options: Any) -> "Iterator[Perdure]":
    """The store at a path, closed afterwards; `NotAStore` when there is none and none may be made."""
    import perdure

    served = is_address(path)
    if not create and not served and not os.path.isfile(path):
        raise NotAStore(f"no store at {path}; name one with --store or PERDURE_STORE", path=path)
    if served and not create and not read_only:
        perdure.open(path, read_only=True, **keys_given()).close()  # a database without a store stays so
    options.setdefault("cold", cold_given())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        db = perdure.open(path, read_only=read_only, **keys_given(), **options)
    for item in heard:
        click.echo(f"note: {item.message}", err=True)
    with db:
        yield db


def is_address(path: str) -> bool:
    """Whether a store is named by an address, rather than by a path; an address may hold a password."""
    return "://" in path


def keys_given() -> dict[str, Any]:
    """What --key-file and --vault say, as `perdure.open` takes it."""
    context = click.get_current_context(silent=True)
    found = {} if context is None else context.meta
    return {"key": found.get("perdure.key_file"), "vault": found.get("perdure.vault")}


def cold_given() -> str | None:
    """What --cold says, else the environment."""
    context = click.get_current_context(silent=True)
    found: str | None = None if context is None else context.meta.get("perdure.cold")
    return found or os.environ.get(COLD) or None


def session_of(db: "Perdure", name: str) -> "Session":
    """The session that a word names: an id, a beginning that only one id has, or `latest`.

    `NotFound` when there is none; `Invalid`, listing the candidates, when several fit.
    """
    wanted = name.strip().lower()
    if wanted == LATEST:
        newest = db.find(limit=1).items
        if not newest:
            raise NotFound("the store holds no sessions yet")
        return db.session(newest[0].session)
    if _WHOLE.fullmatch(wanted):
        return db.session(wanted)
    if not _BEGINNING.fullmatch(wanted):
        raise NotFound(f"{name!r} names no session; give an id, a beginning of one, or {LATEST}", session=name)
    fitting = _beginning_with(db, wanted)
    if not fitting:
        raise NotFound(f"no session's id begins with {wanted}; see perdure sessions list", session=name)
    if len(fitting) > 1:
        shown = ", ".join(fitting[:_SHOWN]) + (" …" if len(fitting) > _SHOWN else "")
        raise Invalid(f"{wanted} fits {len(fitting)} sessions: {shown}; give more of the id", candidates=fitting)
    return db.session(fitting[0])


def _beginning_with(db: "Perdure", beginning: str) -> list[str]:
    """The ids that begin so. Ids are random towards the end, so the index cannot help: every row is looked at."""
    found: list[str] = []
    cursor: str | None = None
    plain = beginning.replace("-", "")
    while True:
        page = db.find(limit=_PAGE, cursor=cursor)
        found += [str(row.session) for row in page.items if row.session.replace("-", "").startswith(plain)]
        cursor = page.cursor
        if cursor is None:
            return found
