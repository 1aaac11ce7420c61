"""`perdure restore`: a store from a backup."""

import click

from perdure.edge.cli import documents
from perdure.edge.cli.options import cold_option, json_option, keys_option, verify_option
from perdure.edge.cli.text import one_line


@click.command()
@click.argument("backup")
@click.argument("target")
@keys_option
@cold_option
@json_option
@verify_option
@click.option("--overwrite", is_flag=True, help="Replace the store at TARGET; it is set aside as TARGET.replaced.")
@click.option("--dry-run", is_flag=True, help="Check everything and write nothing.")
def restore(
    backup: str, target: str, cold: str | None, as_json: bool, verify: str, overwrite: bool, dry_run: bool
) -> None:
    """Bring a store back from BACKUP to TARGET, checked against its manifest and its chains before it gets its name.

    An interrupted restore leaves TARGET.partial, with which the next run goes on. BACKUP may lie where nothing can be
    written. A sealed store needs its keys, beside TARGET or where --key-file and --vault say. Sessions that were erased
    after the backup are unreadable in it, and named.
    """
    from perdure.edge.cli import staging
    from perdure.services.restore import Restores
    from perdure.waiting import drive

    with staging.staged() as stages:
        done = drive(
            Restores(staging.wiring(cold)).restore(
                backup, target, overwrite=overwrite, dry_run=dry_run, verify=verify, stages=stages
            )
        )
    if as_json:
        documents.emit(
            {
                "store": done.path,
                "restored": done.done,
                "verified": done.verified,
                "replaced": done.replaced,
                "erased": list(done.erased),
                "bereft": list(done.bereft),
                "manifest": staging.manifest(done.manifest),
                "remarks": staging.spelled(done.remarks),
            }
        )
        return
    did = "restored" if done.done else "would restore"
    click.echo(f"{did} {one_line(done.path)}: {staging.held(done.manifest)}; verified: {done.verified}")
    if done.replaced is not None:
        click.echo(f"  the store that was there is now {one_line(done.replaced)}")
    staging.tell(done.remarks)
