"""`sessions history` and `sessions tail`: what was said and done, afterwards and as it happens."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from perdure.edge.cli import documents
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.telling import told

if TYPE_CHECKING:
    from perdure import Perdure
    from perdure.core.session.event import Event
    from perdure.core.session.transcript import Turn
    from perdure.ports.store import Change

TAIL = 10


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N turns, or events with --events.")
@click.option("--events", "raw", is_flag=True, help="Every event of the log instead of turns.")
@click.option("--after", type=click.IntRange(0), metavar="VERSION", help="Only what came after this version.")
def history(session: str, store: str, as_json: bool, last: int | None, raw: bool, after: int | None) -> None:
    """Read a session's turns, oldest first; with --json one turn (or event) a line."""
    with opened(store, read_only=True) as db:
        found = session_of(db, session)
        if raw:
            start = max(after or 0, found.version() - last if last else 0)
            show_events(found.events(start), as_json)
            return
        turns = found.turns(last) if last else found.turns()
    _show_turns([turn for turn in turns if after is None or turn.last > after], as_json)


def show_events(events: "Iterable[Event]", as_json: bool, *, several: bool = False) -> None:
    """Events, one a line; of several sessions, each with its session."""
    if as_json:
        for event in events:
            documents.emit_line(documents.event(event))
        return
    from perdure.edge.cli import output, transcript

    console = output.screen()
    for event in events:
        transcript.event_line(console, event, with_session=several)


def _show_turns(turns: "list[Turn]", as_json: bool) -> None:
    found = told(turns)
    if as_json:
        for turn in found:
            documents.emit_line(documents.turn(turn))
        return
    from perdure.edge.cli import output, transcript

    console = output.screen()
    for turn in found:
        transcript.show_turn(console, turn)
    if not found:
        console.print("nothing was said yet")


@click.command()
@click.argument("session", required=False)
@store_option
@json_option
@click.option("--from-start", is_flag=True, help="First everything there is, instead of the last few events.")
@click.option("--once", is_flag=True, help="Show what is there and stop.")
def tail(session: str | None, store: str, as_json: bool, from_start: bool, once: bool) -> None:
    """Follow a session, or all of them, as events are committed by anyone; Ctrl-C ends it."""
    with opened(store, read_only=True) as db:
        wanted = session_of(db, session).id if session is not None else None
        # The feed's position is taken before reading, so that nothing falls between reading and following.
        position = db.position()
        seen: dict[str, int] = {}
        if wanted is not None:
            seen[wanted] = version = db.session(wanted).version()
            show_events(db.session(wanted).events(0 if from_start else max(0, version - TAIL), version), as_json)
            start = position
        else:
            start = 0 if from_start else position
        try:
            for change in _changes(db, start, wanted, position if once else None):
                _show_change(db, change, seen, as_json, several=wanted is None)
        except KeyboardInterrupt:
            return


def _changes(db: "Perdure", after: int, session: str | None, until: int | None) -> "Iterable[Change]":
    """The feed from a position on, up to another one if there is an end."""
    if until is not None and after >= until:
        return
    for change in db.watch(after=after, session=session):
        yield change
        if until is not None and change.position >= until:
            return


def _show_change(db: "Perdure", change: "Change", seen: dict[str, int], as_json: bool, *, several: bool) -> None:
    """The events of one append; those shown before are left out, and so are those of a session gone meanwhile."""
    from perdure.core.errors import NotFound

    name = str(change.session)
    if change.erased:
        _say_erased(documents.change(change), as_json)
        return
    after = max(change.first - 1, seen.get(name, 0))
    if change.last <= after:
        return
    try:
        show_events(db.session(name).events(after, change.last), as_json, several=several)
    except NotFound:
        return
    seen[name] = change.last


def _say_erased(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        documents.emit_line(document)
    else:
        click.echo(f"{document['at'][:19]}  {document['session']}  erased")
