"""`memory source …` and `memory why`: where memories come from, and what answers rest on."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from perdure.core.errors import NotFound
from perdure.core.memory.owning import is_log
from perdure.core.memory.parts import TAG
from perdure.edge.cli import documents
from perdure.edge.cli.lazy import LazyGroup
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.spaces import WORDS, settings_given, source_of
from perdure.edge.cli.text import counted, one_line

if TYPE_CHECKING:
    from perdure import Perdure
    from perdure.edge.sourcing import MemorySource
    from perdure.ports.store import Row
    from perdure.services.grounding import Ground, Grounds
    from perdure.services.sourcing import Touched

F = TypeVar("F", bound=Callable[..., Any])
COMMANDS: Final = {
    "report": ("sourcing:report", "Count what comes from a source."),
    "quarantine": ("sourcing:quarantine", "Take what comes from a source out of use."),
    "release": ("sourcing:release", "Bring back what was quarantined by its source."),
    "erase": ("sourcing:erase", "Take what comes from a source out of every log, for good."),
}
KINDS: Final = (
    "a source is a session (--session, by its id, its name or latest), a writer (--writer: the principal that wrote; "
    "over HTTP whose key it was, from here local), or an address (--uri, as it was given)"
)
DID: Final = {
    "report": "{} from there",
    "quarantine": "quarantined {}",
    "release": "brought back {}",
    "erase": "erased {}",
}

source = LazyGroup(
    "source",
    places=COMMANDS,
    help="""Work on all that came from one source, in every space: a session, whoever wrote it down, or an address.

    Along goes what consolidation made of it, and what was promoted of it.
    """,
)


def source_option(command: F) -> F:
    """`--session SESSION`, `--writer NAME` or `--uri URI`."""
    for option in (
        click.option("--uri", metavar="URI", help="What was taken from this address."),
        click.option("--writer", metavar="NAME", help="What was written down by this principal."),
        click.option("--session", metavar="SESSION", help="What was learnt from this session, also if it is gone."),
    ):
        command = option(command)
    return command


def _source(db: "Perdure", words: dict[str, Any]) -> "MemorySource":
    session = source_of(db, words["session"] or "")
    return db.memories_from(session=session or None, writer=words["writer"], uri=words["uri"])


@click.command()
@source_option
@store_option
@json_option
def report(store: str, as_json: bool, **words: Any) -> None:
    """Say how many memories of which spaces come from a source; nothing is touched."""
    with opened(store, read_only=True, memory=WORDS) as db:
        try:
            found = _source(db, words).report()
        except NotFound as missing:
            raise NotFound(f"{missing.message}. Nothing that is remembered came from there; {KINDS}") from missing
    _tell(found, as_json)
    if not found.memories:
        click.echo(f"note: nothing that is remembered came from there; {KINDS}", err=True)


@click.command()
@source_option
@store_option
@json_option
@click.option("--reason", default="", help="Why; the log keeps it.")
def quarantine(store: str, as_json: bool, reason: str, **words: Any) -> None:
    """Keep all that comes from a source from being found or shown; what it had superseded counts again."""
    with opened(store, read_only=False, memory=settings_given()) as db:
        _tell(_source(db, words).quarantine(reason), as_json)


@click.command()
@source_option
@store_option
@json_option
def release(store: str, as_json: bool, **words: Any) -> None:
    """Bring back what was quarantined by its source, as it was before."""
    with opened(store, read_only=False, memory=settings_given()) as db:
        _tell(_source(db, words).release(), as_json)


@click.command()
@source_option
@store_option
@json_option
@click.option("--reason", default="", help="Why; the log keeps it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase(store: str, as_json: bool, reason: str, yes: bool, **words: Any) -> None:
    """Take all that comes from a source out of every space's log, for good."""
    with opened(store, read_only=False, memory=settings_given()) as db:
        found = _source(db, words)
        if not yes:
            _ask(found.report())
        _tell(found.erase(reason), as_json)


def _ask(found: "Touched") -> None:
    try:
        sure = click.confirm(f"Erase {counted(found.memories, 'memory')} for good?", err=True)
    except click.Abort:
        sure = False
    if not sure:
        raise click.UsageError("nothing was erased; confirm with y, or pass --yes")


def _tell(done: "Touched", as_json: bool) -> None:
    if as_json:
        documents.emit({**msgspec.to_builtins(done), "memories": done.memories})
        return
    click.echo(DID[done.action].format(counted(done.memories, "memory")))
    for space, count in done.spaces.items():
        click.echo(f"  {count:,} in {one_line(space)}")
    if done.restored:
        click.echo(f"  {counted(done.restored, 'memory')} that they had superseded count again")


# ── why ──


@click.command()
@click.argument("session")
@click.argument("turn", type=click.IntRange(1), required=False)
@store_option
@json_option
def why(session: str, turn: int | None, store: str, as_json: bool) -> None:
    """Show what the answer of a turn rests on: which memories it used, and where those come from. Without TURN it is
    the last one.
    """
    with opened(store, read_only=True, memory=settings_given()) as db:
        asked = session_of(db, session)
        turns = turns_of(asked.info())
        found = asked.grounds(turns if turn is None else turn)
        recall = asked.state().config.memory
    if as_json:
        documents.emit(_document(found))
        return
    from perdure.edge.cli import output

    console = output.screen()
    if not found.shown:
        console.print("no memories were shown in this turn")
        off = recall is None or not recall.enabled
        told = f"memory is off in this session; perdure talk {one_line(session)} TEXT --memory AGENT switches it on"
        click.echo(f"note: {told if off else 'nothing that is remembered was found for it'}", err=True)
        return
    rows: list[tuple[str, ...]] = [
        (one.support.memory, one.support.space, one.support.how, f"{one.support.start}–{one.support.end}", _origin(one))
        for one in found.grounds
    ]
    rows += [(id, space, "unused", "", "") for id, space in _unused(found)]
    console.print(output.table(["memory", "space", "how", "place", "from"], rows, flexible=("space", "from")))
    if found.missing:
        console.print("it tells of things that nothing shown speaks of")


def turns_of(row: "Row") -> int:
    """How many turns a session has had; `NotFound` says where there are some, if it has had none."""
    if row.turns:
        return row.turns
    told = f"session {row.session} has no turns yet"
    if TAG in row.tags and is_log(row.title, row.tenant, row.session):
        told = f"{one_line(row.title)} is a space of memories, in which there are no turns"
    more = "name a session in which a model has answered (perdure sessions list), or begin one with perdure talk"
    raise NotFound(f"{told}; {more}", session=row.session)


def _unused(found: "Grounds") -> list[tuple[str, str]]:
    return [(one.id, one.space) for one in found.shown if one.id in found.unused]


def _origin(ground: "Ground") -> str:
    came = ground.source
    at = f" at {came.version}" if came.session and came.version else ""
    checkpoint = f", checkpoint {ground.checkpoint}" if ground.checkpoint else ""
    place = f" {came.uri or came.session}" if came.uri or came.session else ""
    return f"{came.kind}{place}{at}{checkpoint}"


def _document(found: "Grounds") -> dict[str, Any]:
    """What an answer rests on, for programs."""
    return {
        "session": found.session,
        "turn": found.turn,
        "grounds": [
            {
                **msgspec.to_builtins(one.support),
                "address": one.address,
                "source": {name: getattr(one.source, name) for name in one.source.__struct_fields__},
                "checkpoint": one.checkpoint or None,
            }
            for one in found.grounds
        ],
        "shown": [{name: getattr(one, name) for name in one.__struct_fields__} for one in found.shown],
        "unused": list(found.unused),
        "missing": found.missing,
    }
