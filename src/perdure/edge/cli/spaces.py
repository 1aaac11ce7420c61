"""Which space, and which memory in it, a command of `perdure memory` is about, and where memories are at all."""

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from perdure.core.errors import Invalid, NotFound
from perdure.core.memory.owning import is_log
from perdure.core.memory.parts import TAG, Memory, Status
from perdure.edge.cli.opening import is_whole_id, session_of
from perdure.edge.cli.text import counted, few, one_line

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
        every = {one.id: one for one in space.list(statuses=STATUSES)}
        told = f"there is no memory {word[:80]!r} in {space.space}; perdure memory list shows those there are"
        return every[_fitting(word, "memory", every, told)]


def run_of(space: "MemorySpace", word: str) -> str:
    """The run that a word names, or the beginning of its id: `NotFound`, or `Invalid`, as for a memory."""
    lists = f"perdure memory runs {_option(space.space)} lists those there are"
    told = f"there is no run {word[:80]!r} in {space.space}; {lists}"
    return _fitting(word, "run", [run.id for run in space.runs()], told)


def proposal_of(space: "MemorySpace", word: str) -> str:
    """The proposal to a space that a word names, or the beginning of its id: `NotFound`, or `Invalid`, likewise."""
    lists = f"perdure memory proposals {_option(space.space)} lists those that wait"
    told = f"there is no proposal {word[:80]!r} to {space.space}; {lists}"
    return _fitting(word, "proposal", [one.id for one in space.proposals(reviewed=True)], told)


def _fitting(word: str, what: str, ids: Iterable[str], missing: str) -> str:
    """The one id that begins with a word."""
    wanted = word.strip().lower().replace("-", "")
    fitting = [id for id in ids if wanted and id.replace("-", "").startswith(wanted)]
    if not fitting:
        told = f"{missing}, and --agent, --clade or --lethe names another space"
        raise NotFound(told, **{what: word[:80]}) from None
    if len(fitting) > 1:
        told = f"{word} fits {counted(len(fitting), what)}; give more of the id"
        raise Invalid(told, candidates=fitting[:20]) from None
    return fitting[0]


def _option(space: str) -> str:
    """The option that names a space."""
    namespace, _, name = space.partition("/")
    if not name:
        return f"--{namespace}"
    return f"--{'agent' if namespace == 'vault' else namespace} {shlex.quote(name)}"


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
    if space in others:
        return
    if not others:
        click.echo(f"note: nothing is kept in {one_line(space)}, nor anywhere in this store", err=True)
        return
    told = (
        f"note: nothing is kept in {one_line(space)}, but in {few(others, _NAMED)}: name one with --agent, --clade or "
    )
    click.echo(f"{told}--lethe; perdure memory spaces lists all", err=True)
