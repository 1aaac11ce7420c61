"""One session on one screen, drawn from the document that `show --json` prints."""

from typing import Any

from rich.console import Console
from rich.text import Text

from perdure.core.session.origin import CHILD
from perdure.edge.cli import output
from perdure.edge.cli.documents import spell
from perdure.edge.cli.text import counted, day_and_time, dollars, micros, one_line, size

BEGAN_AT = "began_at"
"""In the metadata of a session that was imported: when its conversation began."""


def show_card(document: dict[str, Any]) -> None:
    """Print what there is; empty sections are left out."""
    console = output.screen()
    row, state = document["session"], document["state"]
    console.print(output.styled(row["title"] or "(untitled)", "bold"))
    console.print(output.facts(_identity(row) + _life(row, state) + _money(document["account"], state)))
    _values(console, "config", state.get("origin", {}).get("config") or {})
    _values(console, "metadata", row["metadata"])
    _values(console, "vars", state.get("vars", {}).get("document", {}))
    for agent, pad in state.get("scratchpads", {}).get("pads", {}).items():
        _section(console, f"scratchpad of {agent}" if agent else "scratchpad")
        console.print(output.styled(pad["content"]), soft_wrap=True)
    _checkpoints(console, document["checkpoints"])
    _branches(console, document["branches"])
    _conflicts(console, state.get("links", {}).get("conflicts", {}))


def _identity(row: dict[str, Any]) -> list[tuple[str, str | Text]]:
    found: list[tuple[str, str | Text]] = [("session", row["session"]), ("phase", output.phase(row["phase"]))]
    if row["name"]:
        found.append(("name", row["name"]))
    if row["owner"]:
        found.append(("owner", row["owner"]))
    if row["tags"]:
        found.append(("tags", ", ".join(row["tags"])))
    if row["branch_kind"] == CHILD:
        found.append(("child", f"of {row['parent']}"))
    elif row["parent"]:
        found.append(("branch", f"{row['branch_kind']}, of {row['parent']} at version {row['branched_at']}"))
    return found


def _life(row: dict[str, Any], state: dict[str, Any]) -> list[tuple[str, str | Text]]:
    turns = state.get("turns", {})
    said = f"{counted(row['turns'], 'turn')}, {counted(turns.get('messages', 0), 'message')}, "
    said += counted(turns.get("tools", 0), "tool result")
    if turns.get("interrupted"):
        said += f", {turns['interrupted']} interrupted"
    began = micros(row["metadata"].get(BEGAN_AT))
    found: list[tuple[str, str | Text]] = [
        *([] if began is None else [("began", f"{day_and_time(began)} UTC")]),
        ("created", _time(row["created_at"])),
        ("active", _time(row["active_at"])),
        ("version", f"{row['version']}"),
        ("said", said),
    ]
    if row["expires_at"]:
        found.append(("expires", _time(row["expires_at"])))
    if row["open_turn"] is not None:
        found.append(("open", Text(f"turn {row['open_turn']} is open", style="yellow")))
    found += [
        ("criterion", f"{'met' if met else 'not met'}: {name}")
        for name, met in state.get("life", {}).get("criteria", {}).items()
    ]
    return found


def _time(spelled: str) -> str:
    return f"{spelled[:19].replace('T', ' ')} UTC"


def _money(account: dict[str, Any], state: dict[str, Any]) -> list[tuple[str, str | Text]]:
    spent = state.get("budget", {}).get("spent", 0)
    if account["cap"] is None and not spent:
        return []
    cap = "no cap" if account["cap"] is None else f"{dollars(account['left'])} left of {dollars(account['cap'])}"
    paused = ", paused" if account["paused"] else ""
    return [("spent", f"{dollars(spent)} here; account: {dollars(account['spent'])} spent, {cap}{paused}")]


def _section(console: Console, name: str) -> None:
    console.print()
    console.print(output.styled(name, "bold"))


def _values(console: Console, name: str, document: dict[str, Any]) -> None:
    if document:
        _section(console, name)
        pairs = [(one_line(key, 40), _value(value)) for key, value in document.items()]
        console.print(output.facts(pairs))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else spell(value)


def _checkpoints(console: Console, items: list[dict[str, Any]]) -> None:
    if not items:
        return
    _section(console, "checkpoints")
    console.print(checkpoint_table(items))


def checkpoint_table(items: list[dict[str, Any]]) -> Any:
    """Checkpoints as a table, oldest first."""
    columns = ("checkpoint", "version", "trigger", "holds", "expires", "label")
    rows = [
        (
            item["checkpoint"],
            str(item["version"]),
            item["trigger"],
            f"{'state' if item['full'] else 'delta'}, {size(item['size'])}",
            "pinned" if item["pinned"] else _time(item["expires_at"]) if item["expires_at"] else "never",
            item["label"],
        )
        for item in items
    ]
    return output.table(columns, rows, flexible=("label",))


def _branches(console: Console, items: list[dict[str, Any]]) -> None:
    if not items:
        return
    _section(console, "branches")
    rows = [
        (
            item["session"],
            item["branch_kind"] or "",
            str(item["branched_at"]),
            output.phase(item["phase"]),
            item["title"],
        )
        for item in items
    ]
    console.print(output.table(("session", "kind", "at version", "phase", "title"), rows, flexible=("title",)))


def _conflicts(console: Console, pending: dict[str, Any]) -> None:
    for name, item in pending.items():
        _section(console, f"unsettled merge from {item['source']}")
        from perdure.edge.cli.branching import conflict_table

        console.print(conflict_table(item["conflicts"]))
        console.print(output.styled(f"conflict {name}", "dim"))
