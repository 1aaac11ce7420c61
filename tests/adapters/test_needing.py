"""What is missing is told with what to do: the extra to install, the store to open."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.adapters.claude_agent import PerdureSessionStore
from perdure.adapters.google_adk import PerdureSessionService
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.langgraph_store import PerdureStore
from perdure.adapters.openai_agents import PerdureSession
from perdure.adapters.parts.needing import Extra
from perdure.adapters.pydantic_ai import PerdureConversationStore

LACKING = """
import importlib, sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in "agents claude_agent_sdk google langchain_core langgraph pydantic pydantic_ai".split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
for module, extra in [word.split("=") for word in sys.argv[1:]]:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        assert f'pip install "perdure[{extra}]"' in str(missing), (module, str(missing))
        assert missing.name, module
    else:
        raise AssertionError(module)
"""
NEEDING = {
    "perdure.adapters.claude_agent": "claude-agent",
    "perdure.adapters.google_adk": "google-adk",
    "perdure.adapters.langgraph": "langgraph",
    "perdure.adapters.langgraph_store": "langgraph",
    "perdure.adapters.openai_agents": "openai-agents",
    "perdure.adapters.pydantic_ai": "pydantic-ai",
    "perdure.importers.claude_code": "claude-agent",
    "perdure.importers.google_adk": "google-adk",
    "perdure.importers.langgraph": "langgraph",
}
TAKING: list[Callable[[Any], Any]] = [
    PerdureSaver,
    PerdureStore,
    PerdureSessionService,
    PerdureSessionStore,
    PerdureConversationStore,
    lambda db: PerdureSession("x", db),
]


def test_a_missing_framework_is_told_with_the_extra_that_brings_it() -> None:
    words = [f"{module}={extra}" for module, extra in NEEDING.items()]
    done = subprocess.run([sys.executable, "-c", LACKING, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_perdure_itself_lacks_is_no_matter_of_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as missing, Extra("langgraph"):
        import perdure.adapters.telepathy  # type: ignore[import-not-found]  # noqa: F401
    assert "pip" not in str(missing.value)


@pytest.mark.parametrize("take", TAKING)
@pytest.mark.parametrize("wrong", ["agent.db", Path("agent.db"), None, 5])
def test_what_is_no_open_store_is_refused_with_how_to_open_one(take: Callable[[Any], Any], wrong: object) -> None:
    with pytest.raises(errors.Invalid, match=r"perdure\.open\(.agent\.db.\)"):
        take(wrong)


@pytest.mark.parametrize("take", TAKING)
def test_a_store_of_either_kind_will_do(take: Callable[[Any], Any]) -> None:
    with perdure.open(":memory:") as db:
        assert take(db) is not None
        assert take(db.aio) is not None


@pytest.mark.parametrize("take", TAKING)
def test_a_store_that_was_not_awaited_is_told_so(take: Callable[[Any], Any]) -> None:
    opening = perdure.aopen(":memory:")
    with pytest.raises(errors.Invalid, match=r"an await is missing: .*\(.*await perdure\.aopen\(…\)\)"):
        take(opening)
    opening.close()


def test_anything_else_to_await_is_told_so_too() -> None:
    async def opened() -> None: ...

    coming = opened()
    with pytest.raises(errors.Invalid, match="an await is missing"):
        PerdureSaver(coming)  # type: ignore[arg-type]
    coming.close()


def test_swapped_arguments_are_told_with_the_right_order() -> None:
    with perdure.open(":memory:") as db:
        for store in (db, db.aio):
            with pytest.raises(errors.Invalid) as told:
                PerdureSession(store, "x")  # type: ignore[arg-type]
            assert str(told.value) == "the arguments are the wrong way round: PerdureSession('x', db)"
        with pytest.raises(errors.Invalid, match="session_id is a text"):
            PerdureSession(db, db)  # type: ignore[arg-type]
