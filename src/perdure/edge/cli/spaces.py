"""Which space, and which memory in it, a command of `perdure memory` is about, and where memories are at all."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from perdure.core.errors import Invalid, NotFound
from perdure.core.memory.owning import is_log
from perdure.core.memory.parts import TAG, Memory, Status
from perdure.edge.cli.opening import is_whole_id, session_of
from perdure.edge.cli.text import few, one_line

if TYPE_CHECKING:
    from perdure import Perdure
    from perdure.compose.memory import MemorySettings
    from perdure.edge.memory import MemorySpace
    from perdure.ports.store import Row

F = TypeVar("F", bound=Callable[..., Any])
STATUSES: Final = tuple(status.value for status in Status)
WORDS: Final = "none"
"""The embedder of whoever looks and does not search."""
_NAMED: Final = 3
"""How many other spaces are named to whoever looks into an empty one."""


def space_option(command: F) -> F:
    """`--agent NAME`, `--clade NAME` or `--lethe`."""
    for option in (
        click.option("--lethe", is_flag=True, help="In lethe, which is everybody's."),
        click.option("--clade", metavar="NAME", help="In this clade."),
        click.option("--agent", metavar="NAME", help="In this agent's vault.  [default: local]"),
    ):
        command = option(command)
    return command


def settings_given() -> "MemorySettings":
    """How a store remembers that is opened here: as a server would that is started here."""
    from perdure.compose.memory import MemorySettings
    from perdure.edge.http.configuring import configure

    return MemorySettings(**msgspec.structs.asdict(configure().settings.memory))


def space_of(db: "Perdure", words: dict[str, Any]) -> "MemorySpace":
    """The space that the options name; they are taken out of the words."""
    return db.memory(words.pop("agent"), clade=words.pop("clade"), lethe=words.pop("lethe"))


def memory_of(space: "MemorySpace", word: str) -> Memory:
    """The memory that a word names, or `NotFound`; `Invalid` when several ids begin so."""
    try:
        return space.get(word)
    except NotFound:
        wanted = word.strip().lower().replace("-", "")
        every = space.list(statuses=STATUSES) if wanted else ()
        fitting = [one for one in every if one.id.replace("-", "").startswith(wanted)]
        if not fitting:
            told = f"there is no memory {word[:80]!r} in {space.space}; perdure memory list shows those there are, and "
            told += "--agent, --clade or --lethe names another space"
            raise NotFound(told, memory=word[:80]) from None
        if len(fitting) > 1:
            ids = [one.id for one in fitting]
            raise Invalid(f"{word} fits {len(ids)} memories; give more of the id", candidates=ids[:20]) from None
        return fitting[0]


def source_of(db: "Perdure", word: str) -> str:
    """The session that a word names as a source: one that is there, an id of one that is gone, or else what memories
    were kept under; `NotFound` when it is none of these.
    """
    if not word or is_whole_id(word):
        return word
    try:
        return session_of(db, word).id
    except NotFound:
        if not db.memories_from(session=word).report().memories:
            raise
        return word


def spaces_in(db: "Perdure") -> "list[Row]":
    """The logs of all spaces there are, the one that was written to last first."""
    found, cursor = list["Row"](), None
    while True:
        page = db.find(order="active", tags=[TAG], memories=True, cursor=cursor)
        found += [row for row in page.items if is_log(row.title, row.tenant, row.session)]
        cursor = page.cursor
        if cursor is None:
            return found


def tell_of_others(db: "Perdure", space: str) -> None:
    """Say on stderr where memories are, to whoever found none in a space that was never begun."""
    others = [row.title for row in spaces_in(db)]
    if not others or space in others:
        return
    told = (
        f"note: nothing is kept in {one_line(space)}, but in {few(others, _NAMED)}: name one with --agent, --clade or "
    )
    click.echo(f"{told}--lethe; perdure memory spaces lists all", err=True)
