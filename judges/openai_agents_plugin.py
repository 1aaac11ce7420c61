"""A pytest plugin that puts perdure in the place of `agents.SQLiteSession`, for the SDK's own session tests.

Their tests say whether a session lies in RAM or in a file; PERDURE_JUDGED says whether such a file is sealed.
"""

import os
from pathlib import Path
from typing import Any

import agents
import pytest
from agents.memory import SessionSettings

import perdure
from perdure.adapters.openai_agents import PerdureSession

handed = {"sessions": 0}


class Swapped(PerdureSession):
    """A perdure session that is made like a SQLiteSession: it opens the file, and closes it."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        handed["sessions"] += 1
        sealed = os.environ.get("PERDURE_JUDGED", "sqlite") == "sqlite"
        self._opened = perdure.open(str(db_path), seal=None if str(db_path) == ":memory:" else sealed)
        super().__init__(session_id, self._opened, session_settings)

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()


def pytest_configure(config: pytest.Config) -> None:
    """Swap before the tests are imported."""
    config.addinivalue_line("filterwarnings", "ignore:a new master key was made")
    agents.SQLiteSession = Swapped  # type: ignore[misc,assignment]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How often ours was handed out: a run in which it never was judges nothing."""
    terminalreporter.write_line(f"perdure was handed out as: {handed['sessions']} sessions")
