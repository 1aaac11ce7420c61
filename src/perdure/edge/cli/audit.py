"""`perdure audit …`: who did what, shown, verified and taken along. The log names people by id only; the names shown
beside ids are those the directory has now.
"""

import sys
from collections.abc import Callable
from contextlib import aclosing, nullcontext
from typing import IO, TYPE_CHECKING, Any, Final

import click
import msgspec

from perdure.edge.cli import documents, exits
from perdure.edge.cli.lazy import LazyGroup
from perdure.edge.cli.options import json_option, store_option, when
from perdure.edge.cli.tenancy import names_of, served, tenant_option
from perdure.edge.cli.text import counted, day_and_time, moment, one_line

if TYPE_CHECKING:
    from perdure.services.auditing import Auditing, AuditLine, AuditReport

COMMANDS: Final = {
    "list": ("audit:list_entries", "Show entries, newest first."),
    "verify": ("audit:verify", "Check that nothing was edited, cut or taken out."),
    "export": ("audit:export", "Write the log as JSON lines, signed."),
}
OUTCOMES: Final = ("allowed", "denied", "flagged")
UNSIGNED: Final = "its signature is missing, and this store signs its exports: do not trust it, export the log again"

audit = LazyGroup(
    "audit",
    places=COMMANDS,
    help="Show, verify and export what was done by whom: hash-chained, and signed for where the store is sealed.",
)


@click.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many to show.")
@click.option("--cursor", type=int, help="Where the next page starts, as the last one said.")
@click.option("--oldest-first", is_flag=True, help="From the beginning.")
@click.option("--actor", metavar="NAME", help="Only of this principal, by its name or id; or of the operator.")
@click.option("--session", metavar="ID", help="Only about this session.")
@click.option("--what", metavar="WORD", help="Only of this occasion.")
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only what came out so.")
@click.option("--since", type=when, metavar="TIME", help="2026-01-31, 2026-01-31T12:00:00Z, or 2h for two hours ago.")
@click.option("--until", type=when, metavar="TIME", help="As --since.")
@tenant_option
@store_option
@json_option
def list_entries(
    store: str, tenant: str, as_json: bool, limit: int, cursor: int | None, oldest_first: bool, **wanted: Any
) -> None:
    """Show entries of a tenant's audit log, the newest first."""
    from perdure.core.access.entries import STRANGERS, Filters
    from perdure.waiting import drive

    with served(store, read_only=True) as house:
        names = names_of(house, tenant)
        filters = Filters(actor=_id_of(wanted.pop("actor"), names), **wanted)
        page = drive(house.auditing.page(tenant, cursor, limit, filters, newest=not oldest_first))
        strangers = tenant != STRANGERS and bool(drive(house.auditing.page(STRANGERS, limit=1)).items)
    if as_json:
        documents.emit({"entries": [_document(line, names) for line in page.items], "cursor": page.next})
        return
    from perdure.edge.cli import output

    console = output.screen()
    columns = ("when", "outcome", "what", "action", "name", "principal", "session", "reason", "times")
    rows = [_row(line, names) for line in page.items]
    console.print(output.table(columns, rows, flexible=("what", "action", "name", "reason")) if rows else "no entries")
    if page.next is not None:
        console.print(f"more: --cursor {page.next}", soft_wrap=True)
    if strangers:
        console.print(f"attempts of strangers are apart: --tenant {STRANGERS}", soft_wrap=True)


def _id_of(actor: str | None, names: dict[str, str]) -> str | None:
    """The id that is meant by a name; what is no name of anybody here is taken for an id."""
    return next((id for id, name in names.items() if name == actor), actor)


def _row(line: "AuditLine", names: dict[str, str]) -> tuple[str, ...]:
    entry = line.entry
    outcome, what, action, actor, session, reason = (
        getattr(entry, name, None) or "" for name in ("outcome", "what", "action", "actor", "session", "reason")
    )
    facts = (outcome, what or "(only counted)", action, names.get(actor, ""), actor, session, reason)
    return day_and_time(entry.at), *facts, str(entry.count) if entry.count > 1 else ""


def _document(line: "AuditLine", names: dict[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = msgspec.to_builtins(line.entry)
    entry["at"] = moment(line.entry.at)
    if line.entry.until is not None:
        entry["until"] = moment(line.entry.until)
    if (name := names.get(entry.get("actor") or "")) is not None:
        entry["name"] = name
    return {"version": line.version, "digest": line.digest, "written_at": moment(line.written_at), **entry}


@click.command()
@click.option("--export", "file", type=click.File("rb"), help="Check this export instead, with the keys of the store.")
@tenant_option
@store_option
@json_option
def verify(store: str, tenant: str, as_json: bool, file: IO[bytes] | None) -> None:
    """Check every byte of a tenant's audit log, and that it ends where it was signed. Exit code 5 when it is broken."""
    from perdure.core.errors import NotFound
    from perdure.waiting import drive

    with served(store, read_only=True) as house:
        if file is not None:
            _check(house.auditing, file, as_json)
            return
        report = drive(house.auditing.verify(tenant))
    if report.ok and not report.there:
        told = f"tenant {tenant} has no audit log here; nothing was ever written to one, or it goes by another name"
        raise NotFound(told, tenant=tenant)
    if as_json:
        documents.emit(msgspec.to_builtins(report))
    else:
        from perdure.edge.cli import output

        console = output.screen()
        said = f"  {counted(report.events, 'event')}, {_vouched(report)}"
        console.print(output.mark("ok" if report.ok else "fail").append(said, style="default"))
        for problem in report.problems:
            where = problem.place if problem.versions is None else f"{problem.place} {problem.versions[0]}"
            output.labelled(console, where, f"{problem.what}; {problem.advice}", style="bold red", width=16)
    if not report.ok:
        click.get_current_context().exit(exits.WORLD)


def _vouched(report: "AuditReport") -> str:
    if report.signed:
        return f"signed for up to {report.signed}"
    return "not signed for yet" if report.sealed else "no signed heads: not sealed"


def _check(auditing: "Auditing", file: IO[bytes], as_json: bool) -> None:
    """Tell whether an export is whole, and signed with the keys of the store; `Tampered` when it is not whole."""
    from perdure.core.errors import BadExport, Tampered

    try:
        checked = auditing.check_export(file)
    except BadExport as wrong:
        raise Tampered(wrong.message, file=file.name, **wrong.fields) from wrong
    found, genuine = checked.proven, checked.genuine
    if as_json:
        told = {"tenant": found.tenant, "session": found.session, "events": found.events, "digest": found.digest}
        documents.emit({"ok": genuine is not False, **told, "signed": found.signature is not None, "genuine": genuine})
    else:
        said = {True: "signed by this store", False: "its signature is not this store's", None: "no signature checked"}
        signature = said[genuine] if found.signature is not None or genuine is None else UNSIGNED
        click.echo(f"{counted(found.events, 'event')}, the chain is whole; {signature}")
    if genuine is False:
        click.get_current_context().exit(exits.WORLD)


@click.command()
@click.option("-o", "--output", "file", type=click.Path(dir_okay=False), help="Write to this file instead of stdout.")
@tenant_option
@store_option
@json_option
def export(store: str, tenant: str, as_json: bool, file: str | None) -> None:
    """Write a tenant's audit log as JSON lines. The last line is the signature over it, where the store is sealed."""
    from perdure.waiting import drive

    if as_json and file is None:
        raise click.UsageError("the lines are JSON already; --json describes what was written to a file (--output)")
    into = nullcontext(sys.stdout.buffer) if file is None else click.open_file(file, "wb", lazy=True)
    with served(store, read_only=False) as house, into as target:
        lines = drive(_written(house.auditing, tenant, target.write))
    if as_json:
        documents.emit({"file": one_line(file or ""), "lines": lines})
    elif file is not None:
        click.echo(f"wrote {counted(lines, 'line')} to {one_line(file)}")


async def _written(auditing: "Auditing", tenant: str, write: Callable[[bytes], Any]) -> int:
    count = 0
    async with aclosing(auditing.export(tenant)) as lines:
        async for line in lines:
            write(line)
            count += 1
    return count
