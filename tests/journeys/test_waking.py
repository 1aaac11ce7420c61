"""Waking through the library: blocking and async, with plain and async functions, and over the death of processes."""

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure import events as ev
from perdure.core.session.waking import Question, Scope
from perdure.testing import FixedAmbient

SEARCH = ev.ToolBound(name="search", constraint="^1.2", required=True)
PENDING = ev.Retrieval(id="fish", query="price of fish", source="web", pending=True)


def asleep(db: perdure.Perdure, *payloads: Any) -> perdure.Session:
    session = db.create("trip", owner="ana", vars={"city": "Faro"})
    session.append([ev.TurnStarted(content="go"), ev.TurnFinished(content="gone"), *payloads])
    session.suspend()
    return session


def price(question: Question) -> dict[str, Any]:
    return {"for": question.query, "owner": question.scope.owner}


async def price_later(question: Question) -> dict[str, Any]:
    await asyncio.sleep(0)
    return price(question)


class Later:
    """Something to call that is no function."""

    async def __call__(self, question: Question) -> dict[str, Any]:
        return await price_later(question)


@pytest.mark.parametrize("retriever", [price, price_later, Later()])
def test_a_blocking_program_wakes_with_plain_and_with_async_functions(retriever: Any) -> None:
    async def allow(scope: Scope) -> bool:
        await asyncio.sleep(0)
        return scope.owner == "ana"

    with perdure.open(":memory:", ambient=FixedAmbient()) as db:
        session = asleep(db, SEARCH, PENDING)
        db.tools.register("search", "1.4", len, allow=allow)
        db.retriever("web", retriever)
        woken = session.wake()
        assert woken.tools["search"].call is len
        assert woken.evidence[0].results == {"for": "price of fish", "owner": "ana"}
        assert session.info().phase == "active"


@pytest.mark.parametrize("retriever", [price, price_later, Later()])
async def test_an_async_program_does_too(retriever: Any) -> None:
    loop = threading.get_ident()
    where: list[int] = []

    def allow(scope: Scope) -> bool:
        where.append(threading.get_ident())
        return True

    async with await perdure.aopen(":memory:", ambient=FixedAmbient()) as db:
        session = await db.create("trip", owner="ana")
        await session.append([SEARCH, PENDING])
        await session.suspend()
        db.tools.register("search", "1.4", allow=allow)
        db.retriever("*", retriever)
        woken = await session.wake()
        assert woken.evidence[0].results == {"for": "price of fish", "owner": "ana"}
        assert where == [loop]


async def test_a_plain_retriever_does_not_hold_up_the_event_loop() -> None:
    release = threading.Event()

    def waits(question: Question) -> str:
        release.wait()
        return "at last"

    async with await perdure.aopen(":memory:") as db:
        session = await db.create()
        await session.append(PENDING)
        await session.suspend()
        db.retriever("web", waits)
        waking = asyncio.create_task(session.wake())
        other = await db.create()  # the loop goes on meanwhile
        await other.append(ev.Feedback(comment="still here"))
        assert not waking.done()
        release.set()
        assert (await waking).evidence[0].results == "at last"


def test_a_blocking_program_does_not_wait_past_the_deadline() -> None:
    release = threading.Event()

    def waits(question: Question) -> None:
        release.wait()

    with perdure.open(":memory:", ambient=FixedAmbient()) as db:
        session = asleep(db, PENDING)
        db.retriever("web", waits)
        try:
            woken = session.wake(perdure.WakePolicy(deadline=0.05))
        finally:
            release.set()
        assert woken.evidence[0].reason == "there was no answer within 0.05 seconds"


def test_resume_runs_the_protocol_and_gives_the_session(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "a.db") as db:
        session = asleep(db, SEARCH)
        with pytest.raises(errors.RequiredToolUnavailable, match="register it in the program"):
            session.resume()
        assert session.info().phase == "suspended"
        db.tools.register("search", "1.2.0")
        assert session.resume().id == session.id
        assert session.state().tools.bindings["search"].version == "1.2.0"
        assert session.verify().ok


def test_the_parts_may_be_replaced() -> None:
    class Everything:
        """A registry, a retriever, a cache and memory in one."""

        def resolve(self, name: str, constraint: str) -> Any:
            from perdure.core.session.waking import Tool

            return Tool(name=name, version="1.9.9", call=self)

        def find_substitute(self, spec: Any) -> None:
            return None

        def authorize(self, tool: Any, scope: Scope) -> bool:
            return True

        def retrieve(self, question: Question) -> str:
            return "mine"

        def get(self, key: bytes) -> None:
            return None

        def put(self, key: bytes, found: Any, ttl: float) -> None:
            self.ttl = ttl

        def semantic(self, scope: Scope) -> list[str]:
            return ["fish swim"]

    mine = Everything()
    with perdure.open(":memory:", ambient=FixedAmbient()) as db:
        policy = perdure.WakePolicy(cache_ttl=7)
        db.wake_with(tools=mine, retriever=mine, cache=mine, memory=mine, policy=policy)
        woken = asleep(db, SEARCH, PENDING).wake()
    assert (woken.tools["search"].call, woken.evidence[0].results, mine.ttl) == (mine, "mine", 7)
    assert woken.memory.semantic == ("fish swim",)


@pytest.mark.parametrize(
    "act",
    [
        lambda db, session: session.wake({"min_tokens": 3}),
        lambda db, session: session.wake(expected="3"),
        lambda db, session: session.wake(key=""),
        lambda db, session: db.wake_with(policy=5),
        lambda db, session: db.retriever(5, len),
        lambda db, session: db.retriever("web", "not to call"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(act: Any) -> None:
    with perdure.open(":memory:") as db:
        session = asleep(db)
        with pytest.raises(errors.Invalid):
            act(db, session)
        assert session.info().phase == "suspended"


# ── the death of processes ────────────────────────────────────────────────────────────────────────

SCRIPT = """
import os, signal, sys, perdure

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

db = perdure.open(sys.argv[1])
where = sys.argv[3]
db.tools.register("search", "1.2.0", allow=die if where == "authorising" else True)
db.retriever("web", die if where == "retrieving" else lambda question: ["before the crash"])
if where in ("before resume", "after resume", "before reactivate", "after reactivate"):
    when, move = where.split()
    getattr(db, when)(move, die)
print(db.session(sys.argv[2]).wake(key="once").version)
"""
LEFT = {
    "authorising": "suspended",
    "retrieving": "suspended",
    "before resume": "suspended",
    "after resume": "resumed",
    "before reactivate": "resumed",
    "after reactivate": "active",
}


@pytest.mark.parametrize("where", LEFT)
def test_a_process_killed_while_waking_leaves_something_that_can_be_woken(tmp_path: Path, where: str) -> None:
    path = tmp_path / "sessions.db"
    with perdure.open(path) as db:
        name = asleep(db, SEARCH, PENDING).id
    command = [sys.executable, "-c", SCRIPT, path, name, where]
    killed = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with perdure.open(path) as db:
        session = db.session(name)
        assert session.info().phase == LEFT[where]
        db.tools.register("search", "1.3.0")
        db.retriever("web", lambda question: ["after the crash"])
        woken = session.wake(key="once")
        assert woken.repeated == (where == "after reactivate")
        assert woken.tools["search"].version == ("1.2.0" if woken.repeated else "1.3.0")
        written = LEFT[where] != "suspended"
        assert woken.evidence[0].results == ["before the crash" if written else "after the crash"]
        assert session.info().phase == "active"
        moves = [event.data.event for event in session.events() if event.kind == "moved"]  # type: ignore[attr-defined]
        assert moves == ["activate", "suspend", "resume", "reactivate"]
        assert session.verify().ok


def test_two_processes_wake_a_session_and_one_does(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    script = """
import sys, perdure
from perdure.core.errors import VersionConflict, MoveRefused
db = perdure.open(sys.argv[1])
session = db.session(sys.argv[2])
sys.stdin.readline()
try:
    print("woken", session.wake().version)
except (VersionConflict, MoveRefused) as lost:
    print("lost", lost.code)
"""
    with perdure.open(path) as db:
        session = asleep(db)
        for _ in range(3):
            running = [
                subprocess.Popen(
                    [sys.executable, "-c", script, path, session.id],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for _ in range(2)
            ]
            for process in running:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            told = sorted(process.communicate(timeout=60)[0].split()[0] for process in running)
            assert told == ["lost", "woken"]
            assert session.info().phase == "active"
            session.suspend()
        assert session.verify().ok
