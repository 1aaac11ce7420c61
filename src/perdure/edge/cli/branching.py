"""`sessions branch`, `diff` and `merge`: ways that part and meet again."""

from typing import TYPE_CHECKING, Any

import click

from perdure.edge.cli import documents, exits
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import choice, json_option, store_option

if TYPE_CHECKING:
    from rich.text import Text

    from perdure import Session
    from perdure.core.session.diff import Patch

KINDS = ("checkpoint", "sim", "pre_steer", "dream")
POLICIES = ("escalate", "last_writer_wins", "ours", "theirs")


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--at", type=click.IntRange(1), metavar="VERSION", help="Where to part; the present without it.")
@click.option("--kind", type=click.Choice(KINDS), default="checkpoint", show_default=True, help="Why it exists.")
@click.option("--name", default="", help="A name for the way taken.")
@click.option("--title", help="The new session's title; its parent's without it.")
def branch(session: str, store: str, as_json: bool, at: int | None, kind: str, name: str, title: str | None) -> None:
    """Start a new session from a point of another. Nothing is copied, whatever the length."""
    with opened(store, read_only=False) as db:
        made = session_of(db, session).branch(at, kind=kind, name=name, title=title).info()
    if as_json:
        documents.emit({"session": documents.row(made)})
    else:
        click.echo(f"session {made.session} branches from version {made.branched_at} of {made.parent}")


@click.command()
@click.argument("session")
@click.argument("other", required=False)
@store_option
@json_option
@click.option("--from", "start", type=click.IntRange(1), metavar="VERSION", help="SESSION at this version.")
@click.option("--to", "end", type=click.IntRange(1), metavar="VERSION", help="OTHER (or SESSION) at this version.")
def diff(session: str, other: str | None, store: str, as_json: bool, start: int | None, end: int | None) -> None:
    """Show what leads from SESSION's vars and scratchpads to OTHER's.

    With one session: from a version of it (where it branched, or its first) to another (its present one).
    """
    with opened(store, read_only=True) as db:
        left = session_of(db, session)
        right = session_of(db, other) if other is not None else left
        if other is None and start is None:
            start = left.info().branched_at or 1
        ops = _difference(left, start, right, end)
    if as_json:
        documents.emit({"from": str(left.id), "to": str(right.id), "ops": documents.patch(ops)})
    else:
        from perdure.edge.cli import output

        console = output.screen()
        console.print(patch_text(ops), soft_wrap=not console.is_terminal)


def _difference(left: "Session", start: int | None, right: "Session", end: int | None) -> "Patch":
    from perdure.core.session.diff import diff as difference
    from perdure.services.merging import content_of

    return difference(content_of(left.state(start)), content_of(right.state(end)))


def patch_text(ops: "Patch") -> "Text":
    """One line an operation: + added, - removed, ~ replaced."""
    from rich.text import Text

    from perdure.edge.cli import output

    lines = []
    for op in documents.patch(ops):
        match op["op"]:
            case "add":
                lines.append(output.styled(f"+ {op['at']} = {documents.spell(op['value'])}", "green"))
            case "remove":
                lines.append(output.styled(f"- {op['at']} was {documents.spell(op['old'])}", "red"))
            case _:
                old, new = documents.spell(op["old"]), documents.spell(op["new"])
                lines.append(output.styled(f"~ {op['at']}: {old} → {new}", "yellow"))
    return Text("\n").join(lines) if lines else Text("no difference")


@click.command()
@click.argument("source")
@click.argument("into")
@store_option
@json_option
@click.option(
    "--policy", type=click.Choice(POLICIES), default="escalate", show_default=True, help="Who wins a conflict."
)
@click.option("--summary", help="A message to leave in INTO about what was merged.")
@click.option(
    "--choose", multiple=True, type=choice, metavar="PATH=SIDE", help="Settle a conflict; repeat for each of its paths."
)
def merge(source: str, into: str, store: str, as_json: bool, policy: str, summary: str | None, choose: Any) -> None:
    """Take SOURCE's vars and scratchpads over into INTO, three-way. SOURCE stays as it is.

    Where both changed the same thing, INTO keeps its own side until somebody chooses: run the command again with
    --choose PATH=ours (INTO's), =theirs (SOURCE's) or =base (what both started from). Exit code 4 until then.
    """
    with opened(store, read_only=False) as db:
        target, origin = session_of(db, into), session_of(db, source)
        waiting = _waiting(target, origin)
        if waiting is None or (not choose and policy != "escalate"):
            report = target.merge(origin, policy, summary=summary)
            waiting = {"id": report.conflict_id, "conflicts": report.conflicts} if report.conflicts else None
        if waiting is not None and choose:
            target.resolve(waiting["id"], dict(choose), summary=summary)
            waiting = None
        version = target.version()
    _show_merge({"from": str(origin.id), "into": str(target.id), "version": version}, waiting, as_json)


def _waiting(target: "Session", source: "Session") -> dict[str, Any] | None:
    """The conflict that an earlier merge of the same versions left behind."""
    head = source.version()
    for name, item in reversed(target.state().links.conflicts.items()):
        if item.source == source.id and item.source_version == head:
            return {"id": name, "conflicts": item.conflicts}
    return None


def _show_merge(document: dict[str, Any], waiting: dict[str, Any] | None, as_json: bool) -> None:
    conflicts = waiting["conflicts"] if waiting else ()
    if as_json:
        shown = [{**item, "at": conflict_path(item)} for item in conflicts]
        conflict = waiting["id"] if waiting else None
        documents.emit({**document, "merged": not waiting, "conflict": conflict, "conflicts": shown})
    elif waiting is None:
        click.echo(f"merged into {document['into']}, now at version {document['version']}")
    else:
        from perdure.edge.cli import output

        console = output.screen()
        console.print("Both sides changed these; INTO keeps its own until you choose:")
        console.print(conflict_table(conflicts))
        choices = " ".join(f"--choose '{conflict_path(item)}=ours|theirs|base'" for item in conflicts)
        console.print(output.styled(f"settle it: repeat the command with {choices}"), soft_wrap=True)
    if waiting is not None:
        click.get_current_context().exit(exits.CONFLICT)


def conflict_path(conflict: dict[str, Any]) -> str:
    """A conflict's path, spelled as `--choose` takes it."""
    from perdure.core.session.values import path_text

    return path_text(tuple(conflict["path"]))


def conflict_table(conflicts: Any) -> Any:
    """Conflicts side by side."""
    from perdure.edge.cli import output

    def side(held: dict[str, Any]) -> str:
        return documents.spell(held["value"]) if held else "(absent)"

    rows = [(conflict_path(item), side(item["base"]), side(item["ours"]), side(item["theirs"])) for item in conflicts]
    return output.table(("path", "base", "ours", "theirs"), rows, flexible=("base", "ours", "theirs"))
