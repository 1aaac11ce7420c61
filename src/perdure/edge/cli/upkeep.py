"""`sessions erase` and `sessions verify`: taking away for good, and proving that what is there is whole."""

from typing import TYPE_CHECKING, Any

import click

from perdure.edge.cli import documents, exits
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.text import counted, one_line

if TYPE_CHECKING:
    from perdure import Session


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase(session: str, store: str, as_json: bool, yes: bool) -> None:
    """Remove a session for good: log, state and checkpoints. Its branches get their own copy of what they share."""
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        if not yes:
            _ask(found)
        copies = found.erase()
    if as_json:
        documents.emit({"erased": str(found.id), "copies": copies})
    else:
        given = f"; {counted(copies, 'branch')} got a copy of its log first" if copies else ""
        click.echo(f"erased {found.id}{given}")


def _ask(session: "Session") -> None:
    """Ask on stderr; anything but yes is a refusal."""
    row, branches = session.info(), len(session.branches())
    said = f"{one_line(row.title, 60)!r}, " if row.title else ""
    given = f" {counted(branches, 'branch')} will get a copy of what they share." if branches else ""
    question = f"Erase {row.session} ({said}{counted(row.version, 'event')}) for good?{given}"
    try:
        sure = click.confirm(question, err=True)
    except click.Abort:
        sure = False
    if not sure:
        raise click.UsageError("nothing was erased; confirm with y, or pass --yes")
