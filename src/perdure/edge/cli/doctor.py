"""`perdure doctor`: is this machine fit, is this store whole, and what to do if not. It changes nothing."""

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from perdure.core.errors import PerdureError
from perdure.edge.cli import documents, exits
from perdure.edge.cli.opening import is_address, keys_given
from perdure.edge.cli.options import bare_store_option, json_option
from perdure.edge.cli.text import as_options, counted, size

if TYPE_CHECKING:
    from perdure.services.heads import HeadsReport

PACKAGES = ("msgspec", "apsw", "cryptography", "click", "rich")
LITTLE_SPACE = 200_000_000


class Finding(msgspec.Struct, frozen=True):
    """One line of the examination: ok, warn or fail, and what to do unless ok."""

    status: str
    subject: str
    found: str
    advice: str = ""


@click.command()
@bare_store_option
@json_option
def doctor(store: str, as_json: bool) -> None:
    """Check this machine and a store, and say what to do. Exit code 5 when something fails."""
    findings = [*_machine(), *(() if is_address(store) else _place(store)), *_store(store)]
    failed = any(item.status == "fail" for item in findings)
    if as_json:
        documents.emit({"ok": not failed, "checks": [msgspec.to_builtins(item) for item in findings]})
    else:
        _show(findings)
    if failed:
        click.get_current_context().exit(exits.WORLD)


def _show(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from perdure.edge.cli import output

    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for item in findings:
        made.add_row(output.mark(item.status), item.subject, output.styled(item.found))
        if item.advice:
            made.add_row("", "", Text("→ ", style="bold").append_text(output.styled(item.advice)))
    output.screen().print(made)


def _machine() -> Iterator[Finding]:
    """The interpreter, the packages, and whether a store can be made here at all."""
    import perdure

    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] < (3, 15):
        yield Finding("ok", "python", version)
    else:
        yield Finding("warn", "python", version, "perdure is tested on Python 3.11 to 3.14; use one of them")
    yield Finding("ok", "perdure", perdure.__version__)
    zstd = "in the standard library" if sys.version_info >= (3, 14) else f"backports.zstd {_version('backports.zstd')}"
    yield Finding("ok", "packages", ", ".join([*(f"{name} {_version(name)}" for name in PACKAGES), f"zstd {zstd}"]))
    yield from _trial()


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed as a package)"


def _trial() -> Iterator[Finding]:
    """Make a store, write to it and check it: that tries SQLite, the codec, compression and sealing at once."""
    import perdure

    with tempfile.TemporaryDirectory(prefix="perdure-doctor-") as folder:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a key was made: the trial takes it along
                opened = perdure.open(os.path.join(folder, "trial.db"))
            with opened as db:
                db.create("trial").append(perdure.events.Message(role="user", content="Is anyone there? " * 20))
                engine, whole = db.inspect(), db.verify().ok
        except PerdureError as error:
            yield Finding("fail", "sqlite", error.message, "reinstall perdure with its wheels: pip install -U apsw")
            return
    yield Finding("ok", "sqlite", f"{engine['sqlite']}, safe: it cannot lose a commit when its log is reset")
    if whole:
        yield Finding("ok", "trial", "a store was made, written, and verified")
    else:
        yield Finding("fail", "trial", "a new store did not verify", "check memory and disk; do not trust this machine")


def _place(path: str) -> Iterator[Finding]:
    """The folder of the store: can it be written, does the disk sync, is there room?"""
    import shutil

    folder = os.path.dirname(os.path.abspath(path))
    try:
        _try_sync(folder)
    except OSError as error:
        advice = "create it, or choose another" if isinstance(error, FileNotFoundError) else "check its permissions"
        yield Finding(
            "fail", "folder", f"{folder}: {error.strerror}", f"{advice}; SQLite keeps its log beside the store"
        )
        return
    yield Finding("ok", "folder", f"{folder} can be written, and fsync works")
    free = shutil.disk_usage(folder).free
    status, advice = ("ok", "") if free >= LITTLE_SPACE else ("warn", "free some space; writes stop when it runs out")
    yield Finding(status, "space", f"{size(free)} free", advice)


def _try_sync(folder: str) -> None:
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"perdure")
        probe.flush()
        os.fsync(probe.fileno())
    if os.name == "posix":
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def _store(path: str) -> Iterator[Finding]:
    """The store itself, opened read-only."""
    import perdure

    if not is_address(path) and not os.path.exists(path):
        asked = click.get_current_context().get_parameter_source("store") is not ParameterSource.DEFAULT
        advice = "check the path" if asked else "name one with --store, or make one with perdure.open"
        yield Finding("fail" if asked else "warn", "store", f"there is none at {path}", advice)
        return
    try:
        with perdure.open(path, read_only=True, **keys_given()) as db:
            facts, waiting, heads = db.inspect(), db.count(open_turn=True), db.check_heads()
            sessions = db.count(memories=True)
    except PerdureError as error:
        yield Finding("fail", "store", as_options(error.message), "nothing was changed")
        return
    place = facts["engine"] if is_address(path) else path
    yield Finding(
        "ok",
        "store",
        f"{place}: format {facts['format']}, {counted(facts['sessions'], 'session')}, "
        f"{counted(facts['records'], 'record')}, {size(facts['bytes'])}",
    )
    yield from _served(facts) if is_address(path) else _condition(facts)
    yield _heads(heads, sessions)
    if waiting:
        advice = "if no process is at work on them, close them with perdure sessions recover"
        yield Finding("warn", "open turns", counted(waiting, "session"), advice)
    else:
        yield Finding("ok", "open turns", "none")


def _heads(found: "HeadsReport", sessions: int) -> Finding:
    """What was signed apart from the store, against what the store says."""
    if not found.sealed:
        return Finding(
            "ok", "signed heads", "none, since the store is not sealed: a tail that is cut off does not show"
        )
    if not found.amiss and sessions and not found.signed:
        advice = (
            "sign with perdure keys sign, and let perdure sweep --every 60 or regular backups go on signing; "
            "a tail that is cut off before does not show"
        )
        return Finding("warn", "signed heads", f"{counted(sessions, 'session')}, none ever signed", advice)
    if not found.amiss:
        return Finding("ok", "signed heads", f"{counted(found.signed, 'session')}, as far as was signed")
    first = found.amiss[0]
    what = f"{counted(len(found.amiss), 'session')} not as signed: {first.session}, {first.what}"
    return Finding("fail", "signed heads", what, "see perdure sessions verify")


_PLAIN = ("engine", "format", "sessions", "records", "bytes", "path", "read_only")


def _served(facts: dict[str, Any]) -> Iterator[Finding]:
    """What a server tells of itself."""
    for name, found in facts.items():
        if name not in _PLAIN and isinstance(found, str | int | float | bool):
            bad = name == "fsync" and found in ("off", False)
            advice = "turn it on: without it an acknowledged write can be lost" if bad else ""
            yield Finding("fail" if bad else "ok", name.replace("_", " "), str(found), advice)


def _condition(facts: dict[str, Any]) -> Iterator[Finding]:
    if facts["journal_mode"] == "wal":
        yield Finding("ok", "journal", "write-ahead log")
    else:
        yield Finding(
            "warn", "journal", facts["journal_mode"], "open the store writable once; it will use a write-ahead log"
        )
    if facts["integrity"] == "ok":
        yield Finding("ok", "integrity", "the file's structure is sound; perdure sessions verify checks the contents")
    else:
        yield Finding("fail", "integrity", facts["integrity"], "restore a backup; export what still verifies first")
    if facts["orphans"]:
        advice = "nothing reads them; they only take space"
        yield Finding("warn", "orphans", f"{counted(facts['orphans'], 'record')} of no session", advice)
    else:
        yield Finding("ok", "orphans", "none")
