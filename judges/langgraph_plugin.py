"""A pytest plugin that hands LangGraph's own tests our checkpointer and store wherever they ask for the ones in memory.

Their fixtures call `_checkpointer_memory` and `_store_memory` by name; those names are replaced before their conftest
is imported. Each test gets a store of its own, in RAM, or with PERDURE_JUDGED=sqlite in a sealed file.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import perdure
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.langgraph_store import PerdureStore

handed = {"checkpointers": 0, "stores": 0}


@contextmanager
def opened() -> Iterator[perdure.Perdure]:
    """A store for one test."""
    if os.environ.get("PERDURE_JUDGED", "memory") == "memory":
        with perdure.open(":memory:") as db:
            yield db
        return
    with tempfile.TemporaryDirectory() as folder, perdure.open(Path(folder) / "judged.db") as db:
        yield db


@contextmanager
def checkpointer() -> Iterator[Any]:
    """Ours, where theirs in memory is asked for."""
    handed["checkpointers"] += 1
    with opened() as db:
        yield PerdureSaver(db, serde=lenient())


@contextmanager
def store() -> Iterator[Any]:
    """Likewise."""
    handed["stores"] += 1
    with opened() as db:
        yield PerdureStore(db)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How often ours was handed out: a run in which it never was judges nothing."""
    counts = ", ".join(f"{count} {name}" for name, count in handed.items())
    terminalreporter.write_line(f"perdure was handed out as: {counts}")


def lenient() -> Any:
    """Their tests put classes of their own into states, which our default refuses until they are allowed by name."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer()


def swap() -> None:
    """Before their conftest is imported, and takes the names it finds."""
    from tests import conftest_checkpointer, conftest_store

    conftest_checkpointer._checkpointer_memory = checkpointer
    conftest_store._store_memory = store


swap()
