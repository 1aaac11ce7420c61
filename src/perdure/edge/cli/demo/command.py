"""`perdure demo`, and the child that it starts in order to kill it."""

import os
import tempfile
from typing import TYPE_CHECKING

import click

from perdure.edge.cli import exits

if TYPE_CHECKING:
    from perdure.edge.cli.demo.stage import Stage


@click.command()
@click.option("--keep", metavar="PATH", type=click.Path(dir_okay=False), help="Keep the store in this new file.")
@click.option("--fast", is_flag=True, help="Without pauses.")
@click.option("--child", nargs=3, type=str, hidden=True, help="Be the process that gets killed.")
def demo(keep: str | None, fast: bool, child: tuple[str, str, str] | None) -> None:
    """Watch a session survive a crash, branch, merge and be verified: two minutes, no key, no network.

    Everything shown really happens, in a store in a temporary folder, and every claim is checked: exit code 1 if one
    does not hold.
    """
    if child is not None:
        from perdure.edge.cli.demo import crash

        crash.work(*child)
        return
    if keep is not None and os.path.exists(keep):
        raise click.UsageError(f"{keep} exists already; choose a new file for --keep")
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as folder:
        broken = _tour(keep or os.path.join(folder, "trip.db"), folder, fast, keep)
    if broken:
        click.echo(f"error: {len(broken)} of the demo's claims did not hold: {'; '.join(broken)}", err=True)
        click.get_current_context().exit(exits.UNEXPECTED)


def _tour(store: str, folder: str, fast: bool, keep: str | None) -> list[str]:
    """The acts, one after the other; the claims that did not hold."""
    from perdure.edge.cli.demo import acts
    from perdure.edge.cli.demo.stage import Stage
    from perdure.edge.cli.demo.tampering import tampering
    from perdure.edge.cli.offline import Desk

    stage = Stage(fast=fast)
    desk = Desk(os.path.join(folder, "bookings.json"))
    trip = acts.conversation(stage, os.path.abspath(store), desk)
    acknowledged = acts.killing(stage, trip)
    acts.recovery(stage, trip, acknowledged)
    other = acts.another_way(stage, trip)
    acts.tree(stage, trip, other)
    tampering(stage, trip, folder)
    _farewell(stage, keep)
    return stage.broken


def _farewell(stage: "Stage", keep: str | None) -> None:
    from rich.text import Text

    stage.console.print()
    if keep is None:
        stage.tell("Where to go next: keep the store with perdure demo --keep trip.db and look around in it, then")
    else:
        stage.tell(f"Where to go next: the store is in {keep}. Look around in it with")
    name = keep or "trip.db"
    for line in (f"sessions list --store {name}", f"sessions history latest --store {name}", f"doctor --store {name}"):
        stage.show(Text(f"perdure {line}", style="cyan"), 0.3)
    stage.console.print()
    stage.tell("and begin with import perdure in a program of your own. docs/CLI.md has every command.")
