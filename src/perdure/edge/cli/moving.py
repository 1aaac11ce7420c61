"""`sessions export` and `sessions import`: a session as JSON lines, out of one store and into another."""

import os
import sys
from collections.abc import Iterator

import click

from perdure.edge.cli import documents
from perdure.edge.cli.opening import bringing, opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.text import one_line, size

STDIN = "-"


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("-o", "--output", "file", type=click.Path(dir_okay=False), help="Write to this file instead of stdout.")
def export(session: str, store: str, as_json: bool, file: str | None) -> None:
    """Write a session as JSON lines, proven on the way out: one event a line, enough to rebuild it exactly."""
    from perdure.edge.cli import output

    with opened(store, read_only=True) as db:
        found = session_of(db, session)
        with output.progress("exporting") as progress:
            lines = found.export(file, progress=progress)
        row = documents.row(found.info())
    if file is None:
        sys.stdout.buffer.writelines(lines)
        return
    written = os.path.getsize(file)
    if as_json:
        name = os.fsencode(file).decode("utf-8", "replace")
        documents.emit({"session": row, "file": name, "bytes": written})
    else:
        click.echo(f"exported {row['session']} to {one_line(file)}, {size(written)}")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@store_option
@json_option
def import_file(file: str, store: str, as_json: bool) -> None:
    """Rebuild a session exactly from an export (- is stdin). Nothing is written unless every line fits.

    The store is made if it is missing. A session that is there already, with the same history, is left alone.
    """
    from perdure.edge.cli import output

    with bringing(store) as db, output.progress("importing") as progress:
        report = db.import_report(stdin_lines() if file == STDIN else file, progress=progress)
        row = documents.row(db.session(report.session).info())
    if as_json:
        documents.emit({"session": row, "existed": report.existed})
    elif report.existed:
        click.echo(f"{row['session']} is there already, at version {row['version']}; nothing was changed")
    else:
        click.echo(f"imported {row['session']} at version {row['version']}")


def stdin_lines() -> Iterator[bytes]:
    """The lines of stdin; one that is longer than any line of an export comes in pieces, and is refused as such."""
    from perdure.core.session.jsonl import MAX_LINE

    while line := sys.stdin.buffer.readline(MAX_LINE + 2):
        yield line
