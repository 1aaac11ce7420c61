"""`perdure keys …`: the master keys of a sealed store and the vault of its salts. No command shows a key."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.edge.cli import documents, exits
from perdure.edge.cli.authority import ca
from perdure.edge.cli.opening import keys_given
from perdure.edge.cli.options import bare_store_option, cold_option, json_option
from perdure.edge.cli.text import counted, day_and_time, moment, one_line

if TYPE_CHECKING:
    from perdure.sealing.keys import Keys, Shown


@click.group("keys")
def keys() -> None:
    """Look after the keys of a sealed store: its master keys, and the vault of salts that only they open."""


keys.add_command(ca)


@contextmanager
def _held(store: str) -> "Iterator[Keys]":
    from perdure.compose import keys_of
    from perdure.sealing.given import Given

    found = keys_of(store, Given(None, **keys_given()))
    try:
        yield found
    finally:
        found.close()


@keys.command()
@bare_store_option
@json_option
def show(store: str, as_json: bool) -> None:
    """Where key and vault are, which master keys there are, and how many salts lie under each."""
    with _held(store) as held:
        shown, places = held.show(), {"key": held.masters.place, "vault": held.vault.place}
    if as_json:
        documents.emit({**places, "masters": [_document(item) for item in shown]})
        return
    from perdure.edge.cli import output

    console = output.screen()
    console.print(output.facts([("master keys", places["key"]), ("vault", places["vault"])]))
    columns = ("master key", "made", "salts", "condemned", "")
    console.print(output.table(columns, [_line(item) for item in shown]))


def _document(item: "Shown") -> dict[str, Any]:
    made = None if item.made_at is None else moment(item.made_at)
    return {**msgspec.to_builtins(item), "made_at": made}


def _line(item: "Shown") -> tuple[str, ...]:
    made = "" if item.made_at is None else day_and_time(item.made_at)
    said = "current" if item.current else "" if item.salts else "unused"
    return item.id, made, str(item.salts), str(item.condemned), said if item.there else "MISSING"


@keys.command()
@click.option("--resume", is_flag=True, help="Make no new key; only finish what was begun.")
@bare_store_option
@json_option
def rotate(store: str, as_json: bool, resume: bool) -> None:
    """Make a new master key and bring every salt under it, while the store is in use.

    Run it again if it was interrupted. What the store holds is not rewritten. Back up the key file afterwards.
    """
    from perdure.edge.cli import output

    with _held(store) as held, output.progress("rotating") as progress:
        done = held.rotate(resume=resume, progress=progress)
        place, ours = held.masters.place, held.keeps_keys
        old = [item.id for item in held.show() if item.there and not item.current and not item.salts]
    if as_json:
        documents.emit({**msgspec.to_builtins(done), "forgettable": old})
    else:
        click.echo(f"{counted(done.wrapped, 'salt')} brought under the master key {done.master}; back it up now")
        for key in old:
            way = f"perdure keys forget {key}" if ours else f"take it out of {place}, in every process"
            click.echo(f"nothing lies under {key} any more: {way}")
        if done.left:
            click.echo(
                f"{counted(done.left, 'salt')} could not be opened and stay as they are; see keys show", err=True
            )
    if done.left:
        click.get_current_context().exit(exits.WORLD)


@keys.command()
@click.argument("key")
@bare_store_option
@json_option
def forget(key: str, store: str, as_json: bool) -> None:
    """Destroy an old master key, once no salt lies under it. Older copies of the vault cannot be opened then.

    KEY is its id, or a beginning of it that no other key shares.
    """
    with _held(store) as held:
        forgotten = held.forget(key)
    if as_json:
        documents.emit({"forgotten": forgotten})
    else:
        click.echo(f"forgot {one_line(forgotten)}")


@keys.command()
@click.argument("destination", type=click.Path())
@bare_store_option
@json_option
def backup(destination: str, store: str, as_json: bool) -> None:
    """Copy the vault as of one moment, while the store is in use. The master key is not in the copy."""
    with _held(store) as held:
        held.backup(destination)
        place = held.masters.place
    if as_json:
        documents.emit({"vault": destination, "key": place})
    else:
        click.echo(f"the vault is in {destination}; the master key is not: copy {place} by hand, to another place")


@keys.command()
@bare_store_option
@json_option
def check(store: str, as_json: bool) -> None:
    """Whether every session's salt is there and opens its latest record. Exit code 5 when one does not."""
    from perdure.compose import check_keys
    from perdure.edge.cli import output
    from perdure.sealing.given import Given
    from perdure.waiting import drive

    with output.progress("checking") as progress:
        found = drive(check_keys(store, Given(None, **keys_given()), progress))
    if as_json:
        documents.emit({"ok": not found.troubles, **msgspec.to_builtins(found)})
    else:
        console = output.screen()
        said = f"  {counted(found.sessions, 'session')}, {found.sealed} sealed"
        console.print(output.mark("fail" if found.troubles else "ok").append(said, style="default"))
        for trouble in found.troubles:
            output.labelled(console, trouble.session, trouble.what, style="bold red", width=40)
    if found.troubles:
        click.get_current_context().exit(exits.WORLD)


@keys.command()
@click.option("--accept", metavar="REASON", help="Sign also what goes back: an older copy put back on purpose.")
@bare_store_option
@cold_option
@json_option
def sign(store: str, cold: str | None, as_json: bool, accept: str | None) -> None:
    """Sign in the vault how far every session goes, so that a tail that is cut shows. Exit code 5 when one was."""
    from perdure.core.errors import Refused
    from perdure.edge.cli import output, staging
    from perdure.waiting import drive

    with output.progress("signing") as progress:
        done = drive(staging.wiring(cold).sign(store, accept, progress))
    if not done.sealed:
        raise Refused("this is not a sealed store of today's format; there is nothing to sign with")
    if as_json:
        documents.emit({"ok": not done.refused, **msgspec.to_builtins(done)})
    else:
        console = output.screen()
        said = f"  {counted(done.sessions, 'session')}, {counted(done.signed, 'head')} signed anew"
        console.print(output.mark("fail" if done.refused else "ok").append(said, style="default"))
        for item in done.refused:
            output.labelled(console, item.session, item.what, style="bold red", width=40)
    if done.refused:
        click.get_current_context().exit(exits.WORLD)
