"""The conformance kits that frameworks publish, run on our adapters over each kind of store."""

import asyncio
import contextlib
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import perdure
from judges.suites import Verdict
from perdure.testing.postgres import running

CAPABILITIES = 8
"""What the kit can judge a checkpointer by; it calls one complete that lacks some, so all must be detected."""
STORES = ("memory", "sqlite", "sqlite clear", "postgresql")


@contextlib.contextmanager
def addresses(store: str) -> Iterator[Callable[[], tuple[str, dict[str, Any]]]]:
    """Where to open fresh stores of a kind, and with which settings: sealed unless the kind says otherwise."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "a new master key")  # these stores do not outlive their judge
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running()) if store == "postgresql" else None
        made = 0

        def another() -> tuple[str, dict[str, Any]]:
            nonlocal made
            made += 1
            if store == "memory":
                return ":memory:", {}
            if server is not None:
                keys = {"key": str(folder / f"{made}.master"), "vault": str(folder / f"{made}.keys"), "seal": True}
                return server.database(), keys
            return str(folder / f"{made}.db"), {"seal": store == "sqlite"}

        yield another


def langgraph(store: str) -> Verdict:
    """`langgraph-checkpoint-conformance`: every capability detected and passed."""
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    from perdure.adapters.langgraph import PerdureSaver

    started, handed = time.monotonic(), 0
    with addresses(store) as another:

        @checkpointer_test(name=f"perdure on {store}")
        async def ours() -> AsyncIterator[Any]:
            nonlocal handed
            handed += 1
            place, settings = another()
            async with await perdure.aopen(place, **settings) as db:
                yield PerdureSaver(db)

        report = asyncio.run(validate(ours))
    results = report.results.values()
    detected = sum(item.detected for item in results)
    passed = sum(item.tests_passed for item in results)
    failed = sum(item.tests_failed for item in results) + (CAPABILITIES - detected)
    said = f"{detected} of {CAPABILITIES} capabilities detected, {passed} tests passed, {failed} failed"
    return Verdict(
        "langgraph-checkpoint-conformance", store, passed, failed, 0, handed, time.monotonic() - started, said
    )


def claude(store: str) -> Verdict:
    """The Claude Agent SDK's contracts for session stores, none skipped."""
    from claude_agent_sdk.testing import run_session_store_conformance

    from perdure.adapters.claude_agent import PerdureSessionStore

    started, handed = time.monotonic(), 0
    opened: list[perdure.AsyncPerdure] = []

    async def judge(another: Callable[[], tuple[str, dict[str, Any]]]) -> None:
        async def ours() -> Any:
            nonlocal handed
            handed += 1
            place, settings = another()
            opened.append(await perdure.aopen(place, **settings))
            return PerdureSessionStore(opened[-1])

        await run_session_store_conformance(ours)
        for db in opened:
            await db.close()

    with addresses(store) as another:
        failure = _failure(judge(another))
    said = "every contract holds" if failure is None else failure
    passed = 0 if failure else handed
    return Verdict(
        "claude_agent_sdk.testing", store, passed, int(failure is not None), 0, handed, time.monotonic() - started, said
    )


def _failure(judging: Awaitable[None]) -> str | None:
    async def judged() -> None:
        await judging

    try:
        asyncio.run(judged())
    except AssertionError as failed:
        return str(failed) or "a contract does not hold"
    return None
