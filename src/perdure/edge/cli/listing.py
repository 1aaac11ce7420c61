"""`sessions list` and `sessions show`: which sessions there are, and all about one."""

from typing import TYPE_CHECKING, Any

import click

from perdure.core.session.origin import CHILD
from perdure.edge.cli import documents
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, pair, store_option, when
from perdure.ports.store import Row

if TYPE_CHECKING:
    from perdure import Perdure, Session

PHASES = ("init", "active", "suspended", "resumed", "completed", "terminated", "archived")
ROOM_FOR_TAGS = 110


@click.command("list")
@store_option
@json_option
@click.option("--owner", help="Only this owner's.")
@click.option("--phase", multiple=True, type=click.Choice(PHASES), help="Only in this phase; may be repeated.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; repeated: with all of them.")
@click.option(
    "--meta", multiple=True, type=pair, metavar="KEY=VALUE", help="Only with this metadata; repeated: with all of them."
)
@click.option("--title", help="Only whose title contains this.")
@click.option("--text", help="Only in which these words were said.")
@click.option("--parent", metavar="SESSION", help="Only branches of this session.")
@click.option("--since", type=when, metavar="TIME", help="Only created since: ISO 8601, or 2h, 7d.")
@click.option("--until", type=when, metavar="TIME", help="Only created before.")
@click.option("--order", type=click.Choice(("created", "active")), default="created", help="Newest first by this.")
@click.option("--memories", is_flag=True, help="The logs in which memories are kept, too.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Sessions in a page.")
@click.option("--cursor", help="Go on where an earlier page ended.")
@click.option("--all", "everything", is_flag=True, help="All pages.")
def list_sessions(store: str, as_json: bool, everything: bool, cursor: str | None, **words: Any) -> None:
    """Find sessions, newest first. All the conditions given must hold."""
    # What was said is indexed when it is first searched for, which takes a store that can be written.
    with opened(store, read_only=words["text"] is None) as db:
        query = _query(db, words)
        page = db.find(**query, cursor=cursor)
        rows = list(page.items)
        while everything and page.cursor is not None:
            page = db.find(**query, cursor=page.cursor)
            rows += page.items
    if as_json:
        documents.emit({"sessions": [documents.row(row) for row in rows], "cursor": page.cursor})
    else:
        _show_rows(rows, page.cursor)


def _query(db: "Perdure", words: dict[str, Any]) -> dict[str, Any]:
    parent = words["parent"]
    return {
        "owner": words["owner"],
        "phase": words["phase"] or None,
        "tags": words["tags"],
        "metadata": dict(words["meta"]),
        "title": words["title"],
        "text": words["text"],
        "parent": session_of(db, parent).id if parent is not None else None,
        "created_after": words["since"],
        "created_before": words["until"],
        "order": words["order"],
        "memories": words["memories"],
        "limit": words["limit"],
    }


def _show_rows(rows: list[Row], cursor: str | None) -> None:
    from perdure.ambient import RealAmbient
    from perdure.edge.cli import output, text

    now = RealAmbient().now()
    console = output.screen()
    if not rows:
        console.print("no sessions")
        return
    columns = ["session", "phase", "turns", "active", "title"]
    if console.width >= ROOM_FOR_TAGS:
        columns.append("tags")
    shown = [
        (
            str(row.session),
            output.phase(row.phase),
            f"{row.turns}{'+' if row.open_turn is not None else ''}",
            text.ago(row.active_at, now),
            f"{'' if row.parent is None else '↳ ' if row.branch_kind == CHILD else '⑂ '}{_title(row)}",
            ", ".join(row.tags),
        )[: len(columns)]
        for row in rows
    ]
    console.print(output.table(columns, shown, flexible=("title", "tags")))
    if cursor is not None:
        output.screen(err=True).print(f"more: --cursor {cursor}, or --all", soft_wrap=True)


def _title(row: Row) -> str:
    """The title, and the name if that is another."""
    return row.title if row.name in (None, row.title) else f"{row.title} ({row.name})"


@click.command()
@click.argument("session")
@store_option
@json_option
def show(session: str, store: str, as_json: bool) -> None:
    """Show everything about one session but its history."""
    with opened(store, read_only=True) as db:
        document = _whole(session_of(db, session))
    if as_json:
        documents.emit(document)
    else:
        from perdure.edge.cli.card import show_card

        show_card(document)


def _whole(session: "Session") -> dict[str, Any]:
    """All there is to know, as the document that `--json` prints."""
    from perdure.core.session.state import to_document

    state, account = session.state(), session.account()
    return {
        "session": documents.row(session.info()),
        "state": to_document(state),
        "account": {
            "cap": account.cap,
            "spent": account.spent,
            "reserved": account.reserved,
            "left": account.left,
            "paused": account.paused,
        },
        "checkpoints": [documents.checkpoint(item) for item in session.checkpoints()],
        "branches": [documents.row(item) for item in session.branches()],
    }
