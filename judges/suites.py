"""Who judges, how, and what of it cannot apply to us: each exception with its reason."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from judges.sources import LANGGRAPH, OPENAI_AGENTS, ROOT, Source, folder_of


class Deselected(NamedTuple):
    """A test of theirs that is not run on ours."""

    test: str
    reason: str


class Verdict(NamedTuple):
    """What a judge said."""

    judge: str
    on: str
    passed: int
    failed: int
    skipped: int
    handed: int
    seconds: float
    said: str

    @property
    def well(self) -> bool:
        """Nothing failed, and ours was really what was judged."""
        return self.failed == 0 and self.passed > 0 and self.handed > 0


class Suite(NamedTuple):
    """A framework's own tests from its source distribution, with a plugin that swaps our class in."""

    name: str
    source: Source
    plugin: str
    paths: tuple[str, ...]
    selection: str = ""
    deselected: tuple[Deselected, ...] = ()
    stores: tuple[str, ...] = ("memory", "sqlite")
    note: str = ""


_CONNECTIONS = "looks at SQLiteSession's own connections, one for each thread"
_ROWS = "writes broken rows into SQLiteSession's own table; perdure's log is checked instead"
_LOCKS = "looks at SQLiteSession's own lock of the file, or makes its SQL fail"
_CLOSED = "expects SQLiteSession's own words once it is closed"
_SQLITE_ONLY = {
    "test_sqlite_session_close_closes_worker_thread_connections": _CONNECTIONS,
    "test_sqlite_session_reaps_connections_from_exited_worker_threads": _CONNECTIONS,
    "test_sqlite_session_closes_retired_connections_before_the_next_allocation": _CONNECTIONS,
    "test_sqlite_session_keeps_connections_of_live_worker_threads": _CONNECTIONS,
    "test_sqlite_session_closed_rejects_empty_add_items": _CLOSED,
    "test_sqlite_session_pop_item_skips_corrupt_most_recent": _ROWS,
    "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": _ROWS,
    "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": _ROWS,
    "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": _ROWS,
    "test_sqlite_session_file_lock_is_shared_across_instances": _LOCKS,
    "test_sqlite_session_failed_add_items_releases_write_lock": _LOCKS,
    "test_sqlite_session_failed_clear_session_rolls_back": _LOCKS,
    "test_sqlite_session_failed_pop_item_releases_write_lock": _LOCKS,
    "test_sqlite_session_rollback_failure_evicts_connection": _CONNECTIONS,
    "test_sqlite_session_close_retries_quarantined_connection": _CONNECTIONS,
    "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": _CONNECTIONS,
}


OURS = (
    Suite(
        name="LangGraph engine tests",
        source=LANGGRAPH,
        plugin="judges.langgraph_plugin",
        paths=("tests",),
        selection="memory",
        note="with LangGraph's permissive serializer, since the tests keep classes of their own in states",
    ),
    Suite(
        name="OpenAI Agents session tests",
        source=OPENAI_AGENTS,
        plugin="judges.openai_agents_plugin",
        paths=("tests/memory/test_session.py",),
        deselected=tuple(
            Deselected(f"tests/memory/test_session.py::{name}", why) for name, why in _SQLITE_ONLY.items()
        ),
        stores=("sqlite", "sqlite clear"),
    ),
)


def run(suite: Suite, store: str, more: Sequence[str] = ()) -> Verdict:
    """Run a suite unedited, in a process of its own, on one kind of store."""
    folder = folder_of(suite.source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", suite.plugin, "-p", "no:cacheprovider", *suite.paths]
    command += ["-k", suite.selection] if suite.selection else []
    command += [word for item in suite.deselected for word in ("--deselect", item.test)]
    shell = {
        **os.environ,
        "NO_DOCKER": "true",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "PERDURE_JUDGED": store,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]),
        "PYTHONWARNINGS": "ignore",
    }
    started = time.monotonic()
    done = subprocess.run([*command, *more], cwd=folder, env=shell, capture_output=True, text=True, check=False)
    return _verdict(suite.name, store, done.stdout + done.stderr, time.monotonic() - started)


def _verdict(name: str, store: str, said: str, seconds: float) -> Verdict:
    lines = [line for line in said.splitlines() if line.strip()]
    closing = next((line for line in reversed(lines) if re.search(r"\d+ (passed|failed|error)", line)), "")
    count = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) (\w+)", closing)}
    handed = sum(int(number) for line in lines if "handed out" in line for number in re.findall(r"(\d+) ", line))
    return Verdict(
        judge=name,
        on=store,
        passed=count.get("passed", 0),
        failed=count.get("failed", 0) + count.get("error", 0) + (not closing),
        skipped=count.get("skipped", 0),
        handed=handed,
        seconds=seconds,
        said=said if count.get("failed") or count.get("error") or not closing else closing,
    )


def version_of(source: Source) -> str:
    """What is judged with, as people write it."""
    return f"{source.project} {source.version}"


def where() -> Path:
    """Where the results are written."""
    return ROOT / "docs" / "JUDGES.md"
