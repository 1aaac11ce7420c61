"""`perdure backup`: a copy of a store, made while others work on it."""

import click

from perdure.edge.cli import documents
from perdure.edge.cli.options import cold_option, json_option, store_option, verify_option
from perdure.edge.cli.text import one_line


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="[SOURCE] TARGET")
@store_option
@cold_option
@json_option
@verify_option
@click.option("--portable", is_flag=True, help="Write rows in one stream instead of a copy of the file.")
@click.option("--overwrite", is_flag=True, help="Replace TARGET if it is there.")
def backup(
    places: tuple[str, ...],
    store: str,
    cold: str | None,
    as_json: bool,
    verify: str,
    portable: bool,
    overwrite: bool,
) -> None:
    """Copy a store to TARGET while it is in use. Its manifest is written beside it, TARGET.manifest.json.

    SOURCE is the store's file or URL; without it, --store. The copy holds everything acknowledged before it was begun,
    as of one moment. An interrupted one leaves TARGET.partial, which the next run replaces. The keys of a sealed store
    are not in it.
    """
    from perdure.edge.cli import staging
    from perdure.services.backup import Backups
    from perdure.waiting import drive

    if len(places) > 2:
        raise click.UsageError("give at most a SOURCE and a TARGET")
    source = places[0] if len(places) == 2 else store
    with staging.staged() as stages:
        made = drive(
            Backups(staging.wiring(cold)).back_up(
                source, places[-1], portable=portable, overwrite=overwrite, verify=verify, stages=stages
            )
        )
    if as_json:
        found = {
            "backup": made.path,
            "manifest": staging.manifest(made.manifest),
            "remarks": staging.spelled(made.remarks),
        }
        documents.emit(found)
        return
    click.echo(f"backed up to {one_line(made.path)}: {staging.held(made.manifest)}; verified: {made.manifest.verified}")
    staging.tell(made.remarks)
