"""`perdure upgrade`: a store of an earlier format, brought to today's."""

import click

from perdure.edge.cli import documents
from perdure.edge.cli.options import cold_option, json_option, store_option
from perdure.edge.cli.text import one_line


@click.command()
@store_option
@cold_option
@json_option
@click.option("--backup", metavar="FILE", help="Back up to this file first.  [default: STORE.format-N.backup]")
@click.option("--no-backup", is_flag=True, help="Do not back up first.")
def upgrade(store: str, cold: str | None, as_json: bool, backup: str | None, no_backup: bool) -> None:
    """Bring a store to today's format: back it up, migrate it, verify everything. Stop what uses it before.

    A store that has today's format already is only verified. One of a newer perdure is refused, unchanged.
    """
    from perdure.edge.cli import staging
    from perdure.services.upgrade import Upgrades
    from perdure.waiting import drive

    if backup is not None and no_backup:
        raise click.UsageError("--backup and --no-backup exclude each other")
    with staging.staged() as stages:
        done = drive(Upgrades(staging.wiring(cold)).upgrade(store, backup=backup, skip_backup=no_backup, stages=stages))
    if as_json:
        documents.emit(
            {
                "store": done.path,
                "found": done.found,
                "format": done.format,
                "backup": done.backup,
                "verified": done.verified,
                "remarks": list(done.remarks),
            }
        )
        return
    if done.found == done.format:
        click.echo(f"{one_line(done.path)} has format {done.format} already; verified: {done.verified}")
    else:
        click.echo(f"{one_line(done.path)}: format {done.found} → {done.format}; verified: {done.verified}")
    if done.backup is not None:
        click.echo(f"  as it was before: {one_line(done.backup)}")
    staging.tell(done.remarks)
