"""`perdure archive …`: ended sessions put away in cold storage, listed, taken back."""

from typing import TYPE_CHECKING, Any, Final

import click

from perdure.edge.cli import documents, exits
from perdure.edge.cli.opening import cold_given, opened, session_of
from perdure.edge.cli.options import json_option, store_option, when
from perdure.edge.cli.text import as_options, counted, day_and_time, one_line, size

if TYPE_CHECKING:
    from perdure.services.archiving import Archived

PUT: Final = "put"


class ArchiveGroup(click.Group):
    """A group in which `put` need not be said: `perdure archive SESSION`, `perdure archive --older-than 30d`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Words that are no command's name are for `put`."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [PUT, *args]
        return super().parse_args(ctx, args)


@click.group(cls=ArchiveGroup)
def archive() -> None:
    """Put ended sessions away, and take them back.

    \b
    perdure archive SESSION             one that is completed or terminated
    perdure archive --older-than 30d    all that are, and were last active 30 days ago

    That is short for perdure archive put, whose --help has the options. The logs go to cold storage, named by --cold
    or PERDURE_COLD; without any, a session only moves to ARCHIVED and its log stays in the store.
    """


@archive.command()
@click.argument("session", required=False)
@store_option
@json_option
@click.option("--older-than", type=when, metavar="TIME", help="All ended ones last active before: 30d, 2026-01-31.")
def put(session: str | None, store: str, as_json: bool, older_than: int | None) -> None:
    """Put a session away that is completed or terminated, or all such sessions that are old enough.

    The word put may be left out. If it was interrupted, run it again: it finishes.
    """
    if (session is None) == (older_than is None):
        raise click.UsageError("name a SESSION, or say --older-than")
    if older_than is not None:
        _sweep(store, as_json, older_than)
        return
    with opened(store, read_only=False) as db:
        done = db.archive(session_of(db, session or "").id)
    if as_json:
        documents.emit(_document(done))
    else:
        click.echo(_said(done))


def _document(done: "Archived") -> dict[str, Any]:
    return {"session": str(done.session), "version": done.version, "cold": done.cold, "bytes": done.bytes}


def _said(done: "Archived") -> str:
    where = f" as {done.cold}, {size(done.bytes)}" if done.cold else "; its log stays in the store (no cold storage)"
    return f"archived {done.session}{where}"


def _sweep(store: str, as_json: bool, before: int) -> None:
    from perdure.edge.cli import output

    with opened(store, read_only=False) as db, output.progress("archiving") as progress:
        done, failed = db.archive_ended(before, progress=progress)
    if as_json:
        errors = [
            {"session": str(item.session), "error": item.error.code, "message": as_options(item.error.message)}
            for item in failed
        ]
        documents.emit({"archived": [_document(item) for item in done], "failed": errors})
    else:
        taken = sum(item.bytes for item in done)
        click.echo(f"archived {counted(len(done), 'session')}, {size(taken)}")
        for item in failed:
            click.echo(f"not archived: {item.session}: {one_line(as_options(item.error.message))}", err=True)
    if failed:
        click.get_current_context().exit(exits.exit_code(failed[0].error))


@archive.command("list")
@store_option
@json_option
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@click.option("--check", is_flag=True, help="Look whether each bundle is there. Exit code 5 when one is missing.")
def list_archived(store: str, as_json: bool, limit: int, check: bool) -> None:
    """List the archived sessions, newest first, and where each lies."""
    from perdure.edge.cli import output

    with opened(store, read_only=True) as db:
        rows = db.find(phase="archived", limit=limit).items
        if check and cold_given() is None and any(row.cold is not None for row in rows):
            raise click.UsageError("cannot look for bundles without their place; name it with --cold or PERDURE_COLD")
        sizes = {row.session: db.archived_size(row.session) for row in rows} if check else {}
    missing = [row.session for row in rows if check and row.cold is not None and sizes[row.session] is None]
    if as_json:
        found = [
            {**documents.row(row), "cold": row.cold, **({"bytes": sizes[row.session]} if check else {})} for row in rows
        ]
        documents.emit({"sessions": found, "missing": [str(each) for each in missing]})
    else:
        lines = [
            (
                str(row.session),
                one_line(row.title, 40),
                day_and_time(row.active_at),
                _where(row.cold, row.session in missing),
            )
            for row in rows
        ]
        output.screen().print(
            output.table(("session", "title", "ended", "lies in"), lines, flexible=("title", "lies in"))
        )
    if missing:
        click.get_current_context().exit(exits.WORLD)


def _where(cold: str | None, missing: bool) -> str:
    if cold is None:
        return "the store"
    return f"MISSING: {cold}" if missing else f"cold storage: {cold}"


@archive.command()
@click.argument("session")
@store_option
@json_option
def thaw(session: str, store: str, as_json: bool) -> None:
    """Bring an archived session's log back into the store. It stays archived, and its bundle where it is."""
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        back = found.thaw()
    if as_json:
        documents.emit({"session": str(found.id), "thawed": back})
    else:
        click.echo(f"{found.id} is back in the store" if back else f"{found.id} does not lie in cold storage")
