"""From words on the command line to a store and a session. Invariant: only `import` may bring a file into being."""

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from perdure.core.errors import Invalid, NotAStore, NotFound, PerdureError
from perdure.core.memory.owning import is_log
from perdure.core.session.origin import CHILD
from perdure.edge.cli.text import as_options

if TYPE_CHECKING:
    from perdure import Perdure, Session

COLD: Final = "PERDURE_COLD"
LATEST: Final = "latest"
_PAGE: Final = 1000
_FEW: Final = 20
_MEMORY: Final = ("by", "langgraph-store")
_STATE: Final = "adk_shared_by"
"""The metadata of sessions in which nobody talks: the memory that LangGraph keeps, the state that ADK shares."""
_SPACE: Final = "memory"
"""The tag of logs in which memories are kept."""
_SHOWN: Final = 10
_WHOLE: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BEGINNING: Final = re.compile(r"[0-9a-f-]+")


@contextmanager
def opened(path: str, *, read_only: bool, create: bool = False, hint: str = "", **options: Any) -> "Iterator[Perdure]":
    """The store at a path, closed afterwards; `NotAStore` when there is none and none may be made, with a hint at what
    else would help.
    """
    import perdure

    served = is_address(path)
    if not create and not served and not os.path.isfile(path):
        raise NotAStore(f"no store at {path}; name one with --store or PERDURE_STORE{hint}", path=path)
    if served and not create and not read_only:
        perdure.open(path, read_only=True, **keys_given()).close()  # a database without a store stays so
    options.setdefault("cold", cold_given())
    with noting(options.pop("say", _say)):
        db = perdure.open(path, read_only=read_only, **keys_given(), **options)
    with db:
        yield db


@contextmanager
def noting(say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Tell people afterwards, as notes, what was warned of inside: that a key was made, and where."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield
    for item in heard:
        (say or _say)(str(item.message))


def _say(note: str) -> None:
    click.echo(f"note: {as_options(note)}", err=True)


@contextmanager
def bringing(path: str, **options: Any) -> "Iterator[Perdure]":
    """The store that something is brought into, made if it is missing. If that fails and nothing came in, a store that
    was made for it is taken away again, and so are its keys.
    """
    fresh = not is_address(path) and not os.path.exists(path)
    made = [file for file in _files(path) if not os.path.exists(file)] if fresh else []
    notes: list[str] = []
    empty = True
    try:
        with opened(path, read_only=False, create=True, say=notes.append, **options) as db:
            try:
                yield db
            except BaseException:
                empty = False
                with suppress(PerdureError):
                    empty = db.count(memories=True) == 0
                raise
    except BaseException:
        if empty:
            for file in made:
                if os.path.exists(file):
                    os.unlink(file)
            notes = []
        raise
    finally:
        for note in notes:
            _say(note)


def _files(path: str) -> list[str]:
    """Everything that making a store may make."""
    given = keys_given()
    vault = given["vault"] or f"{path}.keys"
    key = given["key"] or os.environ.get("PERDURE_KEY_FILE") or f"{path}.master"
    return [*_with_log(path), key, *([] if is_address(vault) else _with_log(vault))]


def _with_log(path: str) -> list[str]:
    return [f"{path}{end}" for end in ("", "-wal", "-shm", "-journal")]


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
    """The session that a word names: an id, a name, a beginning that only one id has, or `latest`, the last active.

    `NotFound` when there is none; `Invalid`, listing the candidates, when several fit.
    """
    wanted = name.strip().lower()
    if wanted == LATEST:
        return db.session(_latest(db))
    if is_whole_id(name):
        return db.session(wanted)
    found = _called(db, name)
    if found is not None:
        return found
    fitting = _beginning_with(db, wanted) if _BEGINNING.fullmatch(wanted) else []
    if not fitting:
        told = f"no session is named {name!r}, and none has an id that begins so; see perdure sessions list"
        raise NotFound(told, session=name)
    if len(fitting) > 1:
        shown = ", ".join(fitting[:_SHOWN]) + (" …" if len(fitting) > _SHOWN else "")
        raise Invalid(f"{wanted} fits {len(fitting)} sessions: {shown}; give more of the id", candidates=fitting)
    return db.session(fitting[0])


def is_whole_id(word: str) -> bool:
    """Whether a word is an id, rather than a name or a beginning."""
    return _WHOLE.fullmatch(word.strip().lower()) is not None


def _latest(db: "Perdure") -> str:
    """The conversation that was active last; where there is none, whatever was."""
    page = db.find(limit=_FEW, order="active", memories=True)
    if not page.items:
        raise NotFound("the store holds no sessions yet")
    newest = page.items[0].session
    while True:
        for row in page.items:
            apart = row.metadata.get(_MEMORY[0]) == _MEMORY[1] or _STATE in row.metadata
            space = _SPACE in row.tags and is_log(row.title, row.tenant, row.session)
            if not apart and not space and row.branch_kind != CHILD:
                return row.session
        if page.cursor is None:
            return newest
        page = db.find(limit=_PAGE, order="active", cursor=page.cursor, memories=True)


def _called(db: "Perdure", name: str) -> "Session | None":
    """The session of a name, if there is one; what cannot be a name is the name of none."""
    try:
        found = db.named(name)
        found.info()
    except (Invalid, NotFound):
        return None
    return found


def _beginning_with(db: "Perdure", beginning: str) -> list[str]:
    """The ids that begin so. Ids are random towards the end, so the index cannot help: every row is looked at."""
    found: list[str] = []
    cursor: str | None = None
    plain = beginning.replace("-", "")
    while True:
        page = db.find(limit=_PAGE, cursor=cursor, memories=True)
        found += [str(row.session) for row in page.items if row.session.replace("-", "").startswith(plain)]
        cursor = page.cursor
        if cursor is None:
            return found
