"""`perdure blobs …`: content beside the log, in and out, listed and collected."""

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from perdure.core.errors import AlreadyExists, BlobMissing, Invalid
from perdure.core.session.refs import SCHEME
from perdure.edge.cli import documents
from perdure.edge.cli.lazy import LazyGroup
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.sweep import duration
from perdure.edge.cli.text import counted, day_and_time, moment, one_line, size

if TYPE_CHECKING:
    from perdure import Perdure
    from perdure.edge.cli.output import Progress
    from perdure.services.blobs import BlobInfo

COMMANDS: Final = {
    "put": ("blobs:put", "Keep a file, and print the URI it is named by."),
    "get": ("blobs:get", "Write a blob to a file, or to stdout."),
    "stat": ("blobs:stat", "Show a blob's size, type, name and use."),
    "list": ("blobs:list_blobs", "List blobs, newest first."),
    "collect": ("blobs:collect", "Drop the blobs that no session points to."),
    "export": ("blobs:export", "Write a session's blobs into a folder."),
    "import": ("blobs:import_folder", "Take in a folder that export wrote."),
}
STDIO: Final = "-"
_PIECE: Final = 1 << 18
_PAGE: Final = 1000
_SHOWN: Final = 16
_DIGITS: Final = re.compile("[0-9a-f]{4,64}")

blobs = LazyGroup(
    "blobs",
    places=COMMANDS,
    help="""Keep files beside the sessions that point to them: images, documents, whatever is too large for the log.

    A BLOB is named by its URI (perdure:blob/…), by its SHA-256, or by at least four digits of that which no other blob
    begins with.
    """,
)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@store_option
@json_option
@click.option("--name", help="What to call it; the file's own name unless given.")
@click.option("--media-type", metavar="TYPE", help="What it is, as image/png; guessed from the name unless given.")
@click.option("--replace", is_flag=True, help="Write it even if it is there, which mends a damaged blob.")
def put(file: str, store: str, as_json: bool, name: str | None, media_type: str | None, replace: bool) -> None:
    """Keep a file (- is stdin) as a blob. Until a session points to it, it is spared for a day."""
    from perdure.edge.cli import output

    source: Any = sys.stdin.buffer if file == STDIO else file
    with opened(store, read_only=False) as db:
        with output.progress("putting") as progress:
            told = _bytes_of(progress)
            ref = db.blobs.put(source, media_type=media_type, name=name, replace=replace, progress=told)
        document = _document(db.blobs.stat(ref))
    if as_json:
        documents.emit({"blob": document})
    else:
        click.echo(ref.uri)


@click.command()
@click.argument("blob")
@store_option
@json_option
@click.option("-o", "--output", "file", type=click.Path(dir_okay=False), help="Write to this file instead of stdout.")
@click.option("--force", is_flag=True, help="Write over the file if it is there.")
def get(blob: str, store: str, as_json: bool, file: str | None, force: bool) -> None:
    """Write a blob's content, proven: to a file that is there whole or not at all, or to stdout as it comes."""
    from perdure.edge.cli import output

    if file is not None and not force and os.path.lexists(file):
        raise AlreadyExists(f"{one_line(file)} is there already; choose another name, or say --force", path=file)

    with opened(store, read_only=True) as db:
        uri = _uri(db, blob)
        if file is not None:
            with output.progress("getting") as progress:
                written = db.blobs.save(uri, file, progress=_bytes_of(progress))
            if as_json:
                documents.emit({"blob": _document(db.blobs.stat(uri)), "file": one_line(file), "bytes": written})
            else:
                click.echo(f"wrote {size(written)} to {one_line(file)}")
            return
        if as_json:
            raise click.UsageError("--json describes what was written to a file; name one with --output")
        with db.blobs.open(uri) as content:
            while piece := content.read(_PIECE):
                sys.stdout.buffer.write(piece)


@click.command()
@click.argument("blob")
@store_option
@json_option
def stat(blob: str, store: str, as_json: bool) -> None:
    """Show size, media type, name and time of a blob, and whether a session points to it."""
    with opened(store, read_only=True) as db:
        info = db.blobs.stat(_uri(db, blob))
    if as_json:
        documents.emit({"blob": _document(info)})
        return
    from perdure.edge.cli import output

    document = _document(info)
    pairs = [(key.replace("_", " "), str(value)) for key, value in document.items() if key not in ("size", "used")]
    pairs += [("size", f"{size(info.size)} ({info.size:,} bytes)"), ("used", _used(info))]
    output.screen().print(output.facts(pairs))


@click.command("list")
@store_option
@json_option
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many to show.")
@click.option("--cursor", help="Where the next page starts, as the last one said.")
def list_blobs(store: str, as_json: bool, limit: int, cursor: str | None) -> None:
    """List blobs, newest first."""
    with opened(store, read_only=True) as db:
        page = db.blobs.list(limit=limit, cursor=cursor)
    if as_json:
        documents.emit({"blobs": [_document(info) for info in page.items], "cursor": page.cursor})
        return
    from perdure.edge.cli import output

    console = output.screen()
    columns = ("sha256", "size", "used", "put", "media type", "name")
    rows = [
        (
            info.ref.sha256.hex()[:_SHOWN],
            size(info.size),
            _used(info),
            day_and_time(info.at),
            info.media_type,
            info.name,
        )
        for info in page.items
    ]
    console.print(output.table(columns, rows, flexible=("media type", "name")) if rows else "no blobs")
    if page.cursor is not None:
        console.print(f"more: --cursor {page.cursor}", soft_wrap=True)


@click.command()
@store_option
@json_option
@click.option(
    "--grace",
    type=duration,
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Spare what was put less than so long ago: 0, 90s, 12h, 7d.",
)
def collect(store: str, as_json: bool, grace: float) -> None:
    """Drop the blobs that no session points to, and uploads that nobody finished. What is in use always stays."""
    with opened(store, read_only=False) as db:
        gone = db.blobs.collect(grace)
    if as_json:
        documents.emit({"blobs": gone.blobs, "bytes": gone.bytes, "uploads": gone.uploads})
    else:
        unfinished = f", {counted(gone.uploads, 'unfinished upload')}" if gone.uploads else ""
        click.echo(f"collected {counted(gone.blobs, 'blob')}, {size(gone.bytes)}{unfinished}")


@click.command()
@click.argument("session")
@click.argument("folder", type=click.Path(file_okay=False))
@store_option
@json_option
def export(session: str, folder: str, store: str, as_json: bool) -> None:
    """Write the blobs that a session points to into a folder. `sessions export` writes the session itself."""
    from perdure.edge.cli import output

    with opened(store, read_only=True) as db:
        found = session_of(db, session)
        with output.progress("exporting") as progress:
            report = db.blobs.export(found.id, folder, progress=progress)
    if as_json:
        written, missing = ([ref.uri for ref in refs] for refs in (report.written, report.missing))
        documents.emit({"session": str(found.id), "folder": one_line(folder), "written": written, "missing": missing})
        return
    click.echo(f"exported {counted(len(report.written), 'blob')} to {one_line(folder)}")
    if report.missing:
        click.echo(f"{counted(len(report.missing), 'blob')} it points to are not in this store", err=True)


@click.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@store_option
@json_option
def import_folder(folder: str, store: str, as_json: bool) -> None:
    """Take in what `blobs export` wrote. Each file must still have the content that it is named for."""
    from perdure.edge.cli import output

    with opened(store, read_only=False) as db, output.progress("importing") as progress:
        found = db.blobs.import_folder(folder, progress=progress)
    if as_json:
        documents.emit({"blobs": [ref.uri for ref in found]})
    else:
        click.echo(f"imported {counted(len(found), 'blob')}")


def _uri(db: "Perdure", name: str) -> str:
    """The blob that a word names: its URI, its hash, or a beginning of the hash that only one blob has."""
    wanted = name.strip().lower().removeprefix(SCHEME)
    if not _DIGITS.fullmatch(wanted):
        what = f"{one_line(name, 80)!r} names no blob; give its URI, its SHA-256, or at least 4 digits of that"
        raise BlobMissing(what, sha256=one_line(name, 80))
    if len(wanted) == 64:
        return SCHEME + wanted
    fitting = _beginning_with(db, wanted)
    if not fitting:
        raise BlobMissing(f"no blob's hash begins with {wanted}; see perdure blobs list", sha256=wanted)
    if len(fitting) > 1:
        raise Invalid(f"{wanted} fits {len(fitting)} blobs; give more of the hash", candidates=fitting[:_SHOWN])
    return SCHEME + fitting[0]


def _beginning_with(db: "Perdure", beginning: str) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = db.blobs.list(limit=_PAGE, cursor=cursor)
        found += [sha for sha in (info.ref.sha256.hex() for info in page.items) if sha.startswith(beginning)]
        cursor = page.cursor
        if cursor is None:
            return found


def _document(info: "BlobInfo") -> dict[str, Any]:
    return {
        "uri": info.ref.uri,
        "sha256": info.ref.sha256.hex(),
        "size": info.size,
        "media_type": info.media_type,
        "name": info.name,
        "at": moment(info.at),
        "used": info.used,
    }


def _used(info: "BlobInfo") -> str:
    return "yes" if info.used else "no"


def _bytes_of(progress: "Progress | None") -> "Progress | None":
    """Progress in bytes; where nobody knows how many there will be, what is done is all there is."""
    return None if progress is None else lambda done, total: progress(done, total or done)
