"""`perdure import`: conversations out of the stores of agent frameworks, into this one."""

import os
from importlib import import_module
from typing import Any, Final

import click
import msgspec

from perdure.core.errors import Invalid
from perdure.edge.cli import documents
from perdure.edge.cli.opening import is_address, opened
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.text import one_line
from perdure.waiting import drive

KINDS: Final = {
    "langgraph": ("langgraph", "langgraph", "a SQLite file or postgresql:// address of LangGraph's checkpointers"),
    "google-adk": ("google_adk", "google-adk", "a database of Google ADK's session services"),
    "openai-agents": ("openai_agents", "openai-agents", "a SQLite file of the OpenAI Agents SDK"),
    "claude-code": ("claude_code", "claude-agent", "a .jsonl transcript, a project's folder, or ~/.claude/projects"),
    "letta": ("letta", "", "a Letta agent file (.af), or a folder of them"),
}
"""What can be imported: the module that reads it, the extra it needs, and what its source is."""
SHOWN: Final = 20


@click.command("import", epilog="\b\n" + "\n".join(f"{kind:14} {what}" for kind, (_, _, what) in KINDS.items()))
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("source")
@store_option
@json_option
@click.option("--dry-run", is_flag=True, help="Say what would be imported; write nothing.")
def import_from(kind: str, source: str, store: str, as_json: bool, dry_run: bool) -> None:
    """Bring conversations over from a framework's own store. The source is only read; what is there already stays."""
    from perdure.edge.cli import output

    importer = _importer(kind)
    nowhere = dry_run and not is_address(store) and not os.path.exists(store)
    place = ":memory:" if nowhere else store
    with opened(place, read_only=False, create=True) as db, output.progress("importing") as progress:
        report = drive(importer.import_from(db, source, progress=progress, dry_run=dry_run))
    if as_json:
        documents.emit(msgspec.to_builtins(report))
        return
    verb = "would import" if dry_run else "imported"
    click.echo(f"{verb} {report.sessions} sessions with {report.items} items from {one_line(report.source)}")
    for name in report.names[:SHOWN]:
        click.echo(f"  {one_line(name)}")
    if len(report.names) > SHOWN:
        click.echo(f"  and {len(report.names) - SHOWN} more; --json lists all")
    for item in report.skipped[:SHOWN]:
        click.echo(f"skipped {one_line(item.what)}: {one_line(item.why)}", err=True)
    if len(report.skipped) > SHOWN:
        click.echo(f"skipped {len(report.skipped) - SHOWN} more; --json lists all", err=True)


def _importer(kind: str) -> Any:
    module, extra, _ = KINDS[kind]
    try:
        return import_module(f"perdure.importers.{module}")
    except ModuleNotFoundError as missing:
        if not extra or (missing.name or "").startswith("perdure"):
            raise
        raise Invalid(f"reading {kind} needs more: pip install 'perdure[{extra}]'", missing=missing.name) from missing
