"""`sessions erase` and `sessions verify`: taking away for good, and proving that what is there is whole."""

from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.edge.cli import documents, exits
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.text import as_options, counted, one_line

if TYPE_CHECKING:
    from perdure import Session
    from perdure.services.proving import Problem
    from perdure.services.verifying import Report, StoreReport


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--memories", is_flag=True, help="Forget what was learnt from it, too, in every space.")
def erase(session: str, store: str, as_json: bool, yes: bool, memories: bool) -> None:
    """Remove a session for good: log, state and checkpoints. Its branches get their own copy of what they share."""
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        if not yes:
            _ask(found)
        copies = found.erase(forget=memories)
    if as_json:
        forgotten = {"memories": copies.memories} if memories else {}
        documents.emit({"erased": str(found.id), "copies": int(copies), **forgotten})
    else:
        along = f" and {counted(copies.memories, 'memory')} that came from it" if memories else ""
        given = f"; {counted(copies, 'branch')} got a copy of its log first" if copies else ""
        click.echo(f"erased {found.id}{along}{given}")


def _ask(session: "Session") -> None:
    """Ask on stderr; anything but yes is a refusal."""
    row, branches = session.info(), len(session.branches())
    said = f'"{one_line(row.title, 60)}", ' if row.title else ""
    given = f" First, {counted(branches, 'branch')} will be given a copy of what is shared." if branches else ""
    question = f"Erase {row.session} ({said}{counted(row.version, 'event')}) for good?{given}"
    try:
        sure = click.confirm(question, err=True)
    except click.Abort:
        sure = False
    if not sure:
        raise click.UsageError("nothing was erased; confirm with y, or pass --yes")


@click.command()
@click.argument("session", required=False)
@store_option
@json_option
def verify(session: str | None, store: str, as_json: bool) -> None:
    """Check every byte of a session, or of all, against the hash chain. Exit code 5 when something is wrong."""
    from perdure.edge.cli import output

    with opened(store, read_only=True) as db:
        if session is not None:
            report = session_of(db, session).verify()
            found = _document(report, 1, (), () if report.ok else (report,))
            found["signed"] = None if report.signed is None else int(report.signed > 0)
        else:
            with output.progress("verifying") as progress:
                whole = db.verify(progress)
            found = _document(whole, whole.sessions, whole.problems, whole.damaged)
    if as_json:
        documents.emit(found)
    else:
        _show(found)
    if not found["ok"]:
        click.get_current_context().exit(exits.WORLD)


def _document(report: "Report | StoreReport", sessions: int, problems: Any, damaged: Any) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "sessions": sessions,
        "events": report.events,
        "redacted": report.redacted,
        "signed": report.signed,
        "problems": [_problem(item) for item in problems],
        "damaged": [{**msgspec.to_builtins(item), "problems": list(map(_problem, item.problems))} for item in damaged],
    }


def _problem(problem: "Problem") -> dict[str, Any]:
    said = {"what": as_options(problem.what), "advice": as_options(problem.advice)}
    return {**msgspec.to_builtins(problem), **said}


def _show(found: dict[str, Any]) -> None:
    from perdure.edge.cli import output

    console = output.screen()
    seen = f"{counted(found['sessions'], 'session')}, {counted(found['events'], 'event')}"
    redacted = f", {found['redacted']} redacted" if found["redacted"] else ""
    signed = "no signed heads: not sealed" if found["signed"] is None else counted(found["signed"], "signed head")
    said = f"  {seen}{redacted}, {signed}"
    console.print(output.mark("ok" if found["ok"] else "fail").append(said, style="default"))
    for problem in found["problems"]:
        _show_problem(console, problem)
    for damaged in found["damaged"]:
        console.print(output.styled(f"session {damaged['session']}", "bold"))
        for problem in damaged["problems"]:
            _show_problem(console, problem)


def _show_problem(console: Any, problem: dict[str, Any]) -> None:
    from perdure.edge.cli import output

    versions = problem["versions"]
    where = f" {versions[0]}–{versions[1]}" if versions else ""
    said = f"{problem['what']}\n→ {problem['advice']}"
    output.labelled(console, f"{problem['place']}{where}", said, style="bold red", width=20)
