"""The JSON that `--json` prints: stable, documented in docs/CLI.md, and plain ASCII, so that it is inert anywhere.

Times are RFC 3339 in UTC, digests are hexadecimal, money is whole micro-dollars. Stored values are spelled as in
exports (`{"$bytes": …}`, see docs/CLI.md). A key that is absent from an object never means more than null.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import click

from perdure.core.session import codec
from perdure.core.session.diff import Patch, to_document
from perdure.core.session.event import Event
from perdure.core.session.transcript import STEER, heard
from perdure.core.session.values import Limits, path_text
from perdure.edge.cli.telling import Told, said_at
from perdure.edge.cli.text import moment
from perdure.ports.store import Change, Row

_UNBOUNDED: Final = Limits(max_bytes=1 << 50, max_items=1 << 50, max_depth=200)
_NOT_ASCII: Final = re.compile(r"[^\n\x20-\x7e]")


def spell(document: Any, *, indent: int | None = None) -> str:
    """A document as ASCII JSON."""
    return _NOT_ASCII.sub(_escape, codec.to_json(document, indent=indent, limits=_UNBOUNDED).decode())


def _escape(found: re.Match[str]) -> str:
    """Outside ASCII there is only what stands inside JSON strings, where this spelling means the same."""
    units = found.group().encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def emit(document: Any) -> None:
    """Print the one document of a command."""
    click.echo(spell(document, indent=2))


def emit_line(document: Any) -> None:
    """Print one line of a command that prints many."""
    click.echo(spell(document))


def emit_error(code: str, message: str, fields: Mapping[str, Any]) -> None:
    """Print an error as one line. Its facts may be anything, so this spells what the codec would refuse."""
    import json

    document = {"error": {"code": code, "message": message, "fields": plain(fields)}}
    click.echo(_NOT_ASCII.sub(_escape, json.dumps(document)))


def plain(value: Any) -> Any:
    """Facts of an error as plain data, whatever they are."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def _time(micros: int | None) -> str | None:
    return None if micros is None else moment(micros)


def row(item: Row) -> dict[str, Any]:
    """A session as lists show it."""
    return {
        "session": str(item.session),
        "name": item.name,
        "title": item.title,
        "owner": item.owner,
        "phase": item.phase,
        "version": item.version,
        "turns": item.turns,
        "open_turn": item.open_turn,
        "created_at": _time(item.created_at),
        "active_at": _time(item.active_at),
        "expires_at": _time(item.expires_at),
        "parent": item.parent,
        "branch_kind": item.branch_kind,
        "branched_at": item.branched_at,
        "account": item.account,
        "tags": list(item.tags),
        "metadata": item.metadata,
        "schema_version": item.schema_version,
        "digest": item.digest.hex(),
    }


def event(item: Event) -> dict[str, Any]:
    """One event: its envelope and its data, which is empty when redacted."""
    return {
        "session": str(item.session),
        "version": item.version,
        "id": str(item.id),
        "kind": item.kind,
        "kind_version": item.kind_version,
        "at": _time(item.at),
        "actor": item.actor,
        "agent": item.agent,
        "target": item.target,
        "turn": item.turn,
        "key": item.key,
        "redacted": item.redacted,
        "digest": item.digest.hex(),
        "data": codec.decode(codec.encode_struct(item.data)),
    }


def turn(item: Told) -> dict[str, Any]:
    """One turn as people read it."""
    return {
        "turn": item.turn.number,
        "status": item.turn.status,
        "at": _time(item.at),
        "written_at": _time(item.turn.at),
        "first": item.turn.first,
        "last": item.turn.last,
        "messages": [
            {
                "version": each.version,
                "said_at": _time(said_at(each)),
                "role": message.role,
                "name": message.name,
                "content": message.content,
                "steer": STEER in message.metadata,
                "redacted": each.redacted,
            }
            for each in item.events
            if (message := heard(each.data)) is not None
        ],
        "calls": [
            {
                "call": call.call,
                "name": call.name,
                "arguments": call.arguments,
                "result": call.result,
                "error": call.error,
                "done": call.done,
            }
            for call in item.calls
        ],
    }


def change(item: Change) -> dict[str, Any]:
    """One line of the change feed."""
    return {
        "position": item.position,
        "session": str(item.session),
        "first": item.first,
        "last": item.last,
        "at": _time(item.at),
        "kinds": list(item.kinds),
        "erased": item.erased,
    }


def checkpoint(item: Any) -> dict[str, Any]:
    """A checkpoint, without the state it holds."""
    return {
        "checkpoint": item.id,
        "session": str(item.session),
        "seq": item.seq,
        "version": item.version,
        "label": item.label,
        "trigger": item.trigger,
        "full": item.full,
        "at": _time(item.at),
        "expires_at": _time(item.expires_at),
        "pinned": item.pinned,
        "size": item.size,
        "metadata": item.metadata,
    }


def patch(ops: Patch) -> list[dict[str, Any]]:
    """The operations of a diff, each with its path spelled as `--choose` and people read it."""
    names = {"+": "add", "-": "remove", "=": "replace"}
    found = []
    for sign, path, *values in to_document(ops):
        held = {"+": ("value",), "-": ("old",), "=": ("old", "new")}[sign]
        found.append(
            {"op": names[sign], "path": path, "at": path_text(tuple(path)), **dict(zip(held, values, strict=True))}
        )
    return found
