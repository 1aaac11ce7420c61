"""`perdure import`: conversations out of the stores of agent frameworks, into this one."""

import os
import sys
from importlib import import_module
from typing import Any, Final

import click
import msgspec

from perdure.core.errors import Invalid
from perdure.edge.cli import documents, exits
from perdure.edge.cli.lazy import nearest
from perdure.edge.cli.opening import bringing, is_address
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.text import counted, one_line
from perdure.waiting import drive

KINDS: Final = {
    "langgraph": ("langgraph", "langgraph", "a SQLite file or postgresql:// address of LangGraph's checkpointers"),
    "google-adk": ("google_adk", "google-adk", "a database of Google ADK's session services"),
    "openai-agents": ("openai_agents", "", "a SQLite file of the OpenAI Agents SDK"),
    "claude-code": ("claude_code", "claude-agent", "a .jsonl transcript, a project's folder, or ~/.claude/projects"),
    "letta": ("letta", "", "a Letta agent file (.af), or a folder of them"),
}
"""What can be imported: the module that reads it, the extra it needs, and what its source is."""
SHOWN: Final = 20


class Kind(click.Choice[str]):
    """One of the kinds; a slip is told what was probably meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The kind, or a usage error."""
        near = None if value in KINDS else nearest(str(value), KINDS)
        if near is not None:
            self.fail(f"{value!r} is none of {', '.join(KINDS)}. Did you mean {near!r}?", param, ctx)
        return super().convert(value, param, ctx)


@click.command("import", epilog="\b\n" + "\n".join(f"{kind:14} {what}" for kind, (_, _, what) in KINDS.items()))
@click.argument("kind", type=Kind(list(KINDS)))
@click.argument("source")
@store_option
@json_option
@click.option("--dry-run", is_flag=True, help="Say what would be imported; write nothing.")
@click.option(
    "--allow", multiple=True, metavar="MODULE:TYPE", help="With langgraph: load state of this type of yours, too."
)
@click.option("--prefix", default="", metavar="TEXT", help="Let the names of what is imported begin with this.")
def import_from(
    kind: str, source: str, store: str, as_json: bool, dry_run: bool, allow: tuple[str, ...], prefix: str
) -> None:
    """Bring conversations over from a framework's own store. The source is only read; what is there already stays, and
    gains what is new in the source.

    Ends with 5 if something could not be read, or not be added to a session that went its own way.
    """
    from perdure.edge.cli import output

    importer, more = _importer(kind), _allowing(kind, allow)
    nowhere = dry_run and not is_address(store) and not os.path.exists(store)
    with bringing(":memory:" if nowhere else store) as db, output.progress("importing") as progress:
        report = drive(importer.import_from(db, source, progress=progress, dry_run=dry_run, prefix=prefix, **more))
    if as_json:
        documents.emit(msgspec.to_builtins(report))
    else:
        _tell(report)
    if report.incomplete:
        click.get_current_context().exit(exits.WORLD)


def _tell(report: Any) -> None:
    """What was done, for people; what was not, on stderr."""
    verb = "would import" if report.dry_run else "imported"
    what = f"{counted(report.sessions, 'session')} with {counted(report.items, 'item')}"
    click.echo(f"{verb} {what} from {one_line(report.source)}")
    lacking = set(report.incomplete)
    for name in report.names[:SHOWN]:
        click.echo(f"  {one_line(name)}{' (incomplete)' if name in lacking else ''}")
    if len(report.names) > SHOWN:
        click.echo(f"  and {len(report.names) - SHOWN} more; --json lists all")
    for item in report.skipped[:SHOWN]:
        click.echo(f"skipped {one_line(item.what)}: {one_line(item.why)}", err=True)
    if len(report.skipped) > SHOWN:
        click.echo(f"skipped {len(report.skipped) - SHOWN} more; --json lists all", err=True)
    if lacking:
        click.echo(f"{counted(len(lacking), 'session')} not imported whole", err=True)


def _allowing(kind: str, allow: tuple[str, ...]) -> dict[str, Any]:
    """The types that may be loaded, which are looked for here, too, as `python` would."""
    if not allow:
        return {}
    if kind != "langgraph":
        raise click.UsageError("--allow is for langgraph: the others keep plain data")
    sys.path.insert(0, os.getcwd())
    return {"allow": allow}


def _importer(kind: str) -> Any:
    module, extra, _ = KINDS[kind]
    try:
        return import_module(f"perdure.importers.{module}")
    except ModuleNotFoundError as missing:
        if not extra or (missing.name or "").startswith("perdure"):
            raise
        raise Invalid(f"reading {kind} needs more: pip install 'perdure[{extra}]'", missing=missing.name) from missing
