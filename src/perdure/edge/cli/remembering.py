"""`memory spaces|stats|plan|consolidate|reembed|runs|steps|undo|import|export`: a space of memories as a whole."""

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from perdure.core.errors import AlreadyExists, NotFound
from perdure.edge.cli import documents
from perdure.edge.cli.moving import STDIN, stdin_lines
from perdure.edge.cli.opening import bringing, opened
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.spaces import WORDS, run_of, settings_given, space_of, space_option, spaces_in, tell_of_others
from perdure.edge.cli.text import counted, day_and_time, dollars, moment, one_line, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.core.memory.retelling import Did
    from perdure.core.memory.shelf import Run
    from perdure.services.reembedding import Reembedded

PLANS: Final = ("free", "standard", "premium", "unlimited")
WIDE: Final = 150
"""Columns from which on there is room for ids beside the words of two memories."""


@click.command()
@store_option
@json_option
def spaces(store: str, as_json: bool) -> None:
    """List the spaces that hold memories, the one that was written to last first."""
    with opened(store, read_only=True, memory=WORDS) as db:
        found = spaces_in(db)
    if as_json:
        told = [{"space": row.title, "session": row.session, "active_at": moment(row.active_at)} for row in found]
        documents.emit({"spaces": told})
        return
    from perdure.edge.cli import output

    console = output.screen()
    if not found:
        console.print("nothing is remembered yet; perdure memory add begins a space")
        return
    rows = [(one_line(row.title), day_and_time(row.created_at), day_and_time(row.active_at)) for row in found]
    console.print(output.table(["space", "begun", "written to"], rows, flexible=("space",)))


@click.command()
@space_option
@store_option
@json_option
def stats(store: str, as_json: bool, **words: Any) -> None:
    """Show what a space holds and was asked."""
    with opened(store, read_only=True, memory=settings_given()) as db:
        found = msgspec.to_builtins(space_of(db, words).stats())
    if as_json:
        documents.emit(found)
        return
    from perdure.edge.cli import output

    said = {name: value for name, value in found.items() if name not in ("counts", "types", "version")}
    said["embedder"] = found["embedder"] or "none: words alone"
    held = {"memories": found["counts"], "live ones by type": found["types"]}
    lines = [(name, _tally(tally)) for name, tally in held.items()]
    rest = [(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value) for name, value in said.items()]
    output.screen().print(output.facts([*rest[:2], *lines, *rest[2:]]))


def _tally(found: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in found.items()) or "none"


@click.command()
@click.argument("name", type=click.Choice(PLANS), required=False)
@space_option
@store_option
@json_option
def plan(name: str | None, store: str, as_json: bool, **words: Any) -> None:
    """Show the plan of a space, or put the space on the plan NAME."""
    with opened(store, read_only=name is None, memory=settings_given()) as db:
        space = space_of(db, words)
        found = space.plan(name)
    if as_json:
        documents.emit({"space": space.space, "plan": msgspec.to_builtins(found)})
        return
    memories = "no limit of memories" if found.memories is None else f"{found.memories:,} memories"
    queries = "no limit of queries" if found.queries is None else f"{found.queries:,} queries a day"
    demand = " and on demand" if found.on_demand else ""
    click.echo(
        f"{one_line(space.space)} is on plan {found.name}: {memories}, {queries}, consolidated {found.cadence}{demand}"
    )


# ── consolidation ──


@click.command()
@space_option
@store_option
@json_option
@click.option("--dry-run", is_flag=True, help="Show each step it would take; write nothing, and ask no model.")
def consolidate(store: str, as_json: bool, dry_run: bool, **words: Any) -> None:
    """Bring a space into order: what says the same becomes one, what is no longer true is superseded, what was of use
    counts more, what nobody needs is archived. A cheap model, where one is configured, is asked about what is in doubt.
    A run that was cut short is gone on with; `undo` takes it back.
    """
    from perdure.edge.cli import output
    from perdure.edge.cli.talk import talk_given

    with opened(store, read_only=False, talk=talk_given(), memory=settings_given()) as db:
        space = space_of(db, words)
        with output.progress("consolidating") as progress:
            run = space.consolidate(dry=dry_run, progress=progress)
    if as_json:
        would = {"would": [_step(step) for step in run.would]} if dry_run else {}
        documents.emit({"space": space.space, "dry_run": dry_run, **_run(run), **would})
        return
    which = "a consolidation" if dry_run else f"consolidation {run.id}"
    click.echo(f"{which} of {one_line(space.space)} {'would find' if dry_run else 'found'}: {_tally(run.found)}")
    if run.model or run.cost:
        click.echo(f"asked {one_line(run.model or 'a model')} for {dollars(run.cost)}")
    if run.phase == "ended" and run.place:
        click.echo(f"{one_line(run.place)}; the next one looks at all that again")
    if run.would:
        _show_steps(run.would)


@click.command()
@space_option
@store_option
@json_option
def reembed(store: str, as_json: bool, **words: Any) -> None:
    """Make the vectors that the present embedder has not made yet, as after another one was chosen. What was cut short
    is gone on with.
    """
    from perdure.edge.cli import output

    with opened(store, read_only=False, memory=settings_given()) as db:
        space = space_of(db, words)
        with output.progress("embedding") as progress:
            done = space.reembed(progress=progress)
        if not done.memories:
            tell_of_others(db, space.space)
    if as_json:
        documents.emit(msgspec.to_builtins(done))
    else:
        click.echo(_embedded(done))


def _embedded(done: "Reembedded") -> str:
    space = one_line(done.space)
    if not done.embedder:
        return "there is no embedder here: memories are found by their words; perdure[memory] adds one"
    if not done.memories:
        return f"nothing to do: {space} holds no memories"
    if not done.made and not done.left:
        memories = counted(done.memories, "memory")
        return f"nothing to do: {space} has vectors by {done.embedder} of all it holds, {memories}"
    return f"embedded {done.made:,} of {counted(done.memories, 'memory')} of {space} by {done.embedder}"


def _run(run: "Run") -> dict[str, Any]:
    return {
        "run": run.id or None,
        "phase": run.phase,
        "trigger": run.trigger,
        "found": run.found,
        "began_at": moment(run.began_at),
        "at": moment(run.at),
        "model": run.model or None,
        "cost": run.cost,
        "lacking": (run.place or None) if run.phase == "ended" else None,
    }


@click.command()
@space_option
@store_option
@json_option
def runs(store: str, as_json: bool, **words: Any) -> None:
    """List the consolidations there were, the first one first."""
    with opened(store, read_only=True, memory=WORDS) as db:
        space = space_of(db, words)
        found = space.runs()
    if as_json:
        documents.emit({"space": space.space, "runs": [_run(run) for run in found]})
        return
    from perdure.edge.cli import output

    console = output.screen()
    if not found:
        console.print("no consolidations")
        return
    rows = [(run.id, run.phase, run.trigger, day_and_time(run.began_at), _tally(run.found)) for run in found]
    console.print(output.table(["run", "phase", "trigger", "began", "found"], rows, flexible=("found",)))


@click.command()
@click.argument("run")
@space_option
@store_option
@json_option
def steps(run: str, store: str, as_json: bool, **words: Any) -> None:
    """Show what a consolidation decided: which memory gave way to which, and why; and what was done to take it back.
    With --json, every change it made.
    """
    with opened(store, read_only=True, memory=WORDS) as db:
        space = space_of(db, words)
        run = run_of(space, run)
        found = space.steps(run)
    if as_json:
        documents.emit({"space": space.space, "run": run, "steps": [_step(step) for step in found]})
        return
    decided = [step for step in found if step.decides]
    if decided:
        _show_steps(decided)
    else:
        click.echo("it changed nothing")


def _step(step: "Did") -> dict[str, Any]:
    """A step for programs; one that is not taken has no version yet."""
    return msgspec.structs.asdict(step) | {"at": moment(step.at), "version": step.version or None}


def _show_steps(steps: "Sequence[Did]") -> None:
    """A row for each decision: what the memory says, and what the one says that takes its place. Ids are shown where
    there is room for them.
    """
    from perdure.edge.cli import output

    console = output.screen()
    wide = console.width >= WIDE
    rows = [(step.id, _deed(step), _said(step.content), _said(step.by_content, step.by), step.reason) for step in steps]
    columns = ["memory", "did", "what it says", "what stays", "why"]
    flexible = ("what it says", "what stays", "why")
    console.print(output.table(columns[not wide :], [row[not wide :] for row in rows], flexible=flexible))


def _deed(step: "Did") -> str:
    if step.did != "changed":
        return step.did
    was, now = (each.get("importance", 0.0) for each in (step.before, step.after))
    return f"importance {was:.2f} → {now:.2f}"


def _said(content: str | None, id: str | None = None) -> str:
    """What a memory says; nothing where none is meant."""
    return "" if id == "" else "(forgotten)" if content is None else content


@click.command()
@click.argument("run")
@space_option
@store_option
@json_option
def undo(run: str, store: str, as_json: bool, **words: Any) -> None:
    """Take back what a consolidation did."""
    with opened(store, read_only=False, memory=settings_given()) as db:
        space = space_of(db, words)
        run = run_of(space, run)
        count = space.undo(run)
    if as_json:
        documents.emit({"space": space.space, "run": run, "undone": count})
    else:
        click.echo(f"took back {one_line(run)}: {counted(count, 'memory')} as before it")


# ── coming and going ──


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@space_option
@store_option
@json_option
@click.option("--trusted", is_flag=True, help="Believe the file who said what; else it all counts as imported.")
def import_file(file: str, store: str, as_json: bool, trusted: bool, **words: Any) -> None:
    """Keep what FILE says (- is stdin): lines of an export, JSON objects with content, or plain lines of text.

    The store is made if it is missing. What is there already is left alone; nothing is kept unless every line is a
    memory.
    """
    from perdure.edge.cli import output

    with bringing(store, memory=settings_given()) as db, output.progress("importing") as progress:
        space = space_of(db, words)
        report = space.import_(stdin_lines() if file == STDIN else file, trusted=trusted, progress=progress)
    if as_json:
        documents.emit({"space": space.space, **msgspec.to_builtins(report)})
        return
    more = f", {report.there:,} there already" if report.there else ""
    more += f", {report.left_out:,} left out that were quarantined or withdrawn" if report.left_out else ""
    click.echo(f"imported {report.kept:,} into {one_line(space.space)}{more}")


@click.command()
@space_option
@store_option
@json_option
@click.option("-o", "--output", "file", type=click.Path(dir_okay=False), help="Write to this file instead of stdout.")
@click.option("--force", is_flag=True, help="Write over the file if it is there.")
def export(store: str, as_json: bool, file: str | None, force: bool, **words: Any) -> None:
    """Write every memory of a space as JSON lines, whatever its status."""
    from perdure.edge.cli import output

    if file is not None and not force and os.path.lexists(file):
        raise AlreadyExists(f"{one_line(file)} is there already; choose another name, or say --force", path=file)
    with opened(store, read_only=True, memory=WORDS) as db:
        space = space_of(db, words)
        if not any(row.title == space.space for row in spaces_in(db)):
            told = f"nothing was ever kept in {one_line(space.space)}; perdure memory spaces lists the spaces there are"
            raise NotFound(told, space=space.space)
        with output.progress("exporting") as progress:
            lines = space.export(file, progress=progress)
    if file is None:
        sys.stdout.buffer.writelines(lines)
        return
    written = os.path.getsize(file)
    if as_json:
        name = os.fsencode(file).decode("utf-8", "replace")
        documents.emit({"space": space.space, "file": name, "bytes": written})
    else:
        click.echo(f"exported {one_line(space.space)} to {one_line(file)}, {size(written)}")
