"""`sessions recover`: closing turns whose writer died."""

from typing import TYPE_CHECKING, Any

import click

from perdure.edge.cli import documents
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.text import one_line

if TYPE_CHECKING:
    from perdure.services.lifecycle import Recovered


@click.command()
@click.argument("session", required=False)
@store_option
@json_option
def recover(session: str | None, store: str, as_json: bool) -> None:
    """Close the open turn of a session, or of all, as interrupted, and name the tools to retry.

    Run it when no other process is at work on the sessions.
    """
    with opened(store, read_only=False) as db:
        if session is None:
            closed = db.recover()
        else:
            one = session_of(db, session).recover()
            closed = [one] if one is not None else []
    found = [_document(item) for item in closed]
    if as_json:
        documents.emit({"recovered": found})
    else:
        _show(found)


def _document(item: "Recovered") -> dict[str, Any]:
    tools = [
        {"call": tool.call, "name": tool.name, "key": tool.key, "started": tool.started} for tool in item.unfinished
    ]
    return {"session": str(item.session), "turn": item.turn, "version": item.version, "unfinished": tools}


def _show(found: list[dict[str, Any]]) -> None:
    if not found:
        click.echo("no open turns")
    for item in found:
        click.echo(f"closed turn {item['turn']} of {item['session']} as interrupted")
        for tool in item["unfinished"]:
            key = f" under the key {one_line(tool['key'])}" if tool["key"] else ""
            did = "had started: retry" if tool["started"] else "had not started:"
            click.echo(f"  {did} {one_line(tool['name'])}{key}")
