"""`sessions checkpoint` and `sessions resume`: points to come back to, and coming back."""

from typing import Any

import click

from perdure.edge.cli import documents
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, pair, store_option


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--label", default="", help="What to call it.")
@click.option(
    "--meta", multiple=True, type=pair, metavar="KEY=VALUE", help="Metadata to keep with it; may be repeated."
)
@click.option("--pin", is_flag=True, help="Keep it for as long as the session lives.")
@click.option("--list", "listing", is_flag=True, help="List the checkpoints there are instead.")
def checkpoint(session: str, store: str, as_json: bool, label: str, meta: Any, pin: bool, listing: bool) -> None:
    """Take a checkpoint of a session as it stands, or list those that can be used."""
    if listing:
        with opened(store, read_only=True) as db:
            kept = [documents.checkpoint(item) for item in session_of(db, session).checkpoints()]
        _show(kept, as_json)
        return
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        taken = found.checkpoint(label, metadata=dict(meta))
        if pin:
            taken = found.pin(taken.id)
    document = documents.checkpoint(taken)
    if as_json:
        documents.emit(document)
    else:
        kept_for = (
            "for as long as the session lives" if taken.pinned else f"until {document['expires_at'] or 'dropped'}"
        )
        click.echo(f"checkpoint {taken.id} at version {taken.version}, kept {kept_for}")


def _show(kept: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        documents.emit({"checkpoints": kept})
        return
    from perdure.edge.cli import card, output

    console = output.screen()
    console.print(card.checkpoint_table(kept) if kept else "no checkpoints")


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--checkpoint", metavar="ID", help="Go on from this checkpoint, in a new session.")
@click.option("--model", help="The new session's model.")
@click.option("--system-prompt", help="The new session's system prompt.")
@click.option("--max-cost", type=click.IntRange(0), metavar="MICROS", help="The new session's cap, in micro-dollars.")
@click.option("--title", help="The new session's title.")
def resume(session: str, store: str, as_json: bool, checkpoint: str | None, title: str | None, **config: Any) -> None:
    """Wake a suspended session in place; with --checkpoint, go on from there in a new session (a branch)."""
    changed = {name: value for name, value in config.items() if value is not None}
    if checkpoint is None and (changed or title is not None):
        raise click.UsageError(
            "--model, --system-prompt, --max-cost and --title need --checkpoint: waking changes nothing"
        )
    with opened(store, read_only=False) as db:
        woken = session_of(db, session).resume(checkpoint, title=title, config=changed)
        row = documents.row(woken.info())
    if as_json:
        documents.emit({"session": row})
    elif checkpoint is None:
        click.echo(f"session {row['session']} is {row['phase']} again")
    else:
        click.echo(f"session {row['session']} goes on from version {row['branched_at']} of {row['parent']}")
