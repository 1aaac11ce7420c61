"""Where the turns of a library live: on the caller's loop, or on a thread that is there as long as it is needed."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

import perdure
from perdure.core.errors import Invalid, ProviderFailed, Refused, TurnRefused, UnknownModel
from perdure.edge.cli.app import perdure as command_line
from perdure.models import Models, Talk, TurnBroke, TurnEnded, Upstream

THREAD = "perdure-turns"


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == THREAD]


def test_a_thread_is_there_from_the_first_turn_until_the_store_is_closed() -> None:
    with perdure.open(":memory:") as db:
        session = db.create("trip")
        session.turns()
        assert threads() == []
        session.send("Hello")
        db.create("other").send("Hello")
        assert threads() == [THREAD]
    assert threads() == []


def test_async_callers_need_no_thread() -> None:
    async def talk() -> None:
        async with perdure.aopen(":memory:") as db:
            assert (await (await db.create("trip")).send("Hello")).status == "finished"
            assert threads() == []

    asyncio.run(talk())


def test_a_store_may_be_talked_to_from_one_loop_after_the_other() -> None:
    db = perdure.open(":memory:")
    session = db.create("trip")

    async def talk() -> str:
        return (await (await db.aio.session(session.id)).send("Hello")).status

    assert [asyncio.run(talk()) for _ in range(3)] == ["finished"] * 3
    assert session.send("Hello").status == "finished"
    assert asyncio.run(talk()) == "finished"
    assert len(session.turns()) == 5
    db.close()


def test_threads_share_one_home() -> None:
    with perdure.open(":memory:") as db:
        statuses: list[str] = []

        def talk() -> None:
            statuses.append(db.create("trip").send("Hello").status)

        workers = [Thread(target=talk) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert statuses == ["finished"] * 8
        assert threads() == [THREAD]


def test_a_blocking_call_that_would_wait_for_its_own_loop_is_refused() -> None:
    db = perdure.open(":memory:")

    async def talk() -> None:
        session = await db.aio.create("trip")
        await session.send("Hello")
        with pytest.raises(Refused, match="await it"):
            db.session(session.id).send("Hello")

    asyncio.run(talk())
    db.close()


def test_a_stream_that_is_left_early_leaves_the_turn_to_its_end() -> None:
    with perdure.open(":memory:") as db:
        session = db.create("trip")
        for _ in session.stream("Hello"):
            break
        assert session.send("And?", busy="enqueue").turn == 2
        assert [turn.status for turn in session.turns()] == ["finished", "finished"]


def test_the_child_of_a_fork_begins_anew(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, perdure\n"
        f"db = perdure.open({str(tmp_path / 'store.db')!r}, seal=False)\n"
        "def twice(n: int) -> int: return 2 * n\n"
        "db.tools.register('twice', twice)\n"
        "session = db.create('trip')\n"
        "session.send('before')\n"
        "pid = os.fork()\n"
        "said = 'call twice {\"n\": 4}'\n"
        "print(session.send(said, busy='enqueue').text, flush=True) if pid == 0 else os.waitpid(pid, 0)\n"
        "if pid == 0: db.close(); os._exit(0)\n"
        "print(session.send('after', busy='enqueue').status, len(session.turns()))\n"
        "db.close()\n"
    )
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout.split(), found.stderr) == (["twice", "answered:", "8.", "finished", "3"], "")


def test_a_store_left_open_does_not_keep_the_process(tmp_path: Path) -> None:
    code = "import perdure; db = perdure.open(':memory:'); print(db.create('trip').send('Hello').status)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout.strip(), found.returncode) == ("finished", 0)


# ── what is given ──


def test_a_library_talks_to_the_models_it_is_given() -> None:
    models = Models(
        upstreams={"here": Upstream(name="here", kind="offline")},
        default="here/big",
        cheap="here/small",
        aliases={"best": "here/big"},
    )
    with perdure.open(":memory:", talk=Talk(models=models, prefix="You are a pilot.")) as db:
        session = db.create("trip")
        assert session.send("Hello").model == "big"
        assert session.send("Hello", model="best").model == "big"
        assert session.spawn("Hello", wait=True).model == "here/small"
        assert "You are a pilot." in session.context().system[0].text  # type: ignore[union-attr]
    with pytest.raises(Invalid, match=r"perdure\.models\.Talk"):
        perdure.open(":memory:", talk={"models": {}})  # type: ignore[arg-type]


def test_functions_are_tools_for_models_and_with_a_version_for_sessions_that_wake() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def shout(text: str) -> str:
        return text.upper()

    with perdure.open(":memory:") as db:
        db.tools.register("add", add, timeout=5)
        db.tools.register("shout", "1.2.0", shout)
        session = db.create("trip")
        assert session.send('call add {"a": 2, "b": 3}').text == "add answered: 5."
        assert session.send("call shout hello").text == "shout answered: HELLO."
        assert db.tools.versions("shout") == ("1.2.0",)
        wrong: list[tuple[Any, ...]] = [("x", 5), ("add", add), ("y", add, add)]
        for arguments in wrong:
            with pytest.raises(Invalid):
                db.tools.register(*arguments)
        with pytest.raises(Invalid, match="without a version"):
            db.tools.register("x", "1.0.0", add, approval=True)


def test_a_tool_that_needs_a_person_parks_the_turn_until_it_is_answered() -> None:
    paid: list[int] = []

    def noted(amount: int) -> str:
        paid.append(amount)
        return "paid"

    with perdure.open(":memory:") as db:
        db.tools.register("pay", noted, approval=True)
        session = db.create("trip")
        outcome = session.send('call pay {"amount": 5}')
        assert (outcome.status, paid) == ("parked", [])
        [waiting] = session.approvals()
        assert session.approve(waiting.id).text == "pay answered: paid."
        assert paid == [5]
        [waiting] = session.send('call pay {"amount": 7}').waiting
        assert session.approve(waiting.id, allowed=False, note="no").text == "pay failed: denied: no."
        assert paid == [5]


def test_a_turn_that_runs_when_the_store_is_closed_can_go_on_later(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    started: list[int] = []
    with perdure.open(path, seal=False) as db:

        async def wait() -> str:
            started.append(1)
            await asyncio.sleep(60)
            return "never"

        db.tools.register("wait", wait)
        session = db.create("trip")
        for event in session.stream("call wait {}"):
            if not isinstance(event, TurnEnded) and started:
                break
    with perdure.open(path, seal=False) as db:
        again = db.session(session.id)
        assert [turn.status for turn in again.turns()] == ["interrupted"]
        assert again.send("Hello").status == "finished"


async def test_a_turn_that_is_interrupted_says_why_and_the_session_goes_on() -> None:
    async with perdure.aopen(":memory:") as db:
        started = asyncio.Event()

        async def wait() -> str:
            started.set()
            await asyncio.sleep(60)
            return "never"

        db.tools.register("wait", wait)
        session = await db.create("trip")
        turn = asyncio.create_task(session.send("call wait {}"))
        await started.wait()
        assert await session.interrupt("changed my mind") is True
        outcome = await turn
        assert (outcome.status, outcome.reason) == ("interrupted", "changed my mind")
        assert (await session.send("Hello")).status == "finished"


async def test_a_steer_cuts_short_what_runs_and_the_turn_goes_on_with_it() -> None:
    async with perdure.aopen(":memory:") as db:
        started = asyncio.Event()

        async def wait() -> str:
            started.set()
            await asyncio.sleep(60)
            return "never"

        db.tools.register("wait", wait)
        session = await db.create("trip")
        turn = asyncio.create_task(session.send("call wait {}"))
        await started.wait()
        await session.steer("Forget it, say hello")
        outcome = await turn
        assert (outcome.status, outcome.turn) == ("finished", 1)
        assert [event.kind for event in await session.events()].count("steered") == 1


# ── what is wrong is told at once ──


def test_an_upstream_has_the_name_under_which_it_stands() -> None:
    models = Models(upstreams={"here": Upstream(kind="offline")}, default="here/big")
    with perdure.open(":memory:", talk=Talk(models=models)) as db:
        assert db.create("trip").send("Hello").model == "big"


@pytest.mark.parametrize(
    ("models", "told"),
    [
        (Models(upstreams={"here": Upstream(name="there", kind="offline")}), "its name must be that"),
        (Models(upstreams={"here": Upstream(kind="offline")}, default="nobody/x"), "there is no model 'nobody/x'"),
        (Models(upstreams={"here": Upstream(kind="offline")}, aliases={"best": "nobody/x"}), "'nobody/x'"),
        (Models(upstreams={}), "name at least one"),
        (Models(upstreams={"here": Upstream(kind="morse")}), "its kind must be one of"),  # type: ignore[arg-type]
        (Models(upstreams={"here": "offline"}), "Upstream objects"),  # type: ignore[dict-item]
        ({"upstreams": {}}, "perdure.models.Models"),
    ],
)
async def test_models_that_lead_nowhere_are_told_when_the_store_is_opened(models: Any, told: str) -> None:
    with pytest.raises((Invalid, UnknownModel), match=told):
        perdure.open(":memory:", talk=Talk(models=models))
    with pytest.raises((Invalid, UnknownModel), match=told):
        await perdure.aopen(":memory:", talk=Talk(models=models))


def test_what_is_not_there_is_not_among_what_is() -> None:
    models = Models(upstreams={"here": Upstream(kind="offline")}, default="nobody/x", aliases={"best": "nobody/x"})
    with pytest.raises(UnknownModel) as wrong:
        perdure.open(":memory:", talk=Talk(models=models))
    assert "there are here/…;" in wrong.value.message


# ── going on ──


def broken(db: perdure.Perdure, words: str = "Hello") -> perdure.Session:
    """A session whose first turn broke."""
    session = db.create("trip")
    with pytest.raises(ProviderFailed, match=r"go on with send\(\) without words"):
        session.send(words, model="down/x")
    return session


DOWN = Models(
    upstreams={
        "down": Upstream(kind="openai-chat", base_url="http://127.0.0.1:9/v1", retries=0),
        "offline": Upstream(kind="offline"),
    },
    default="offline/offline",
)


def test_a_turn_that_broke_says_how_to_go_on_and_goes_on_so() -> None:
    with perdure.open(":memory:", talk=Talk(models=DOWN)) as db:
        session = broken(db)
        assert "Hello" in session.send().text
        *_, last = db.create("other").stream("Hello", model="down/x")
        assert isinstance(last, TurnBroke)
        assert "send() without words" in last.detail


def test_a_child_that_broke_is_not_told_to_go_on() -> None:
    with perdure.open(":memory:", talk=Talk(models=DOWN)) as db:
        child = db.create("trip").spawn("Look", model="down/x", wait=True)
        assert child.status == "failed"
        assert child.error
        assert "send()" not in child.error


def test_without_words_there_must_be_something_to_go_on_with() -> None:
    with perdure.open(":memory:", talk=Talk(models=DOWN)) as db:
        session = db.create("trip")
        for _ in range(2):
            with pytest.raises(TurnRefused, match="say something"):
                session.send()
            assert session.send("Hello").status == "finished"
        assert len(session.turns()) == 2
        session.steer("Take the train")
        assert session.send().status == "finished"
        session.follow_up("Look at the prices")
        assert session.send().status == "finished"
        with pytest.raises(TurnRefused, match="say something"):
            session.send()
        session.spawn("Look", wait=True)
        assert session.send().status == "finished"


def test_whoever_speaks_while_a_person_is_asked_is_told_whom_to_ask(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    with perdure.open(path, seal=False) as db:
        db.tools.register("pay", pay, approval=True)
        session = db.create("trip")
        [call] = session.send('call pay {"amount": 5}').waiting
        with pytest.raises(TurnRefused, match=rf"waits for a person to allow .*perdure approvals {session.id}"):
            session.send("And?")
        assert session.approve(call.id).status == "finished"
        [call] = session.send('call pay {"amount": 5}').waiting
        runner = CliRunner().invoke(command_line, ["approvals", str(session.id), "--allow", call.id, "--store", path])
        assert "goes on with send() without words where its tools are" in runner.stderr
        with pytest.raises(TurnRefused, match="where its tools are"):
            session.send("And?")
        assert session.send().text == "pay answered: paid 5."


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


# ── what is told of tools, configuration and money ──


def test_a_tool_that_does_not_say_what_it_takes_is_refused() -> None:
    with perdure.open(":memory:") as db:
        for tool in (len, lambda where: where, print):
            with pytest.raises(Invalid, match=r"annotate|wrap"):
                db.tools.register("look", tool)
        db.tools.register("now", lambda: "noon")


def test_an_unknown_field_of_a_configuration_is_told_with_those_there_are() -> None:
    with perdure.open(":memory:") as db, pytest.raises(Invalid, match=r"there are model, system_prompt, .*max_cost"):
        db.create("trip", config={"max_price": 5})


def test_without_a_cap_the_account_shows_what_the_session_spent() -> None:
    with perdure.open(":memory:") as db:
        session = db.create("trip")
        session.reserve("a", 10)
        session.settle("a", 7)
        session.reserve("b", 5)
        assert (session.account().spent, session.account().reserved, session.account().left) == (7, 5, None)


def test_somebody_is_told_before_a_compaction_and_adds_to_what_is_preserved() -> None:
    def keep(going: Any) -> str:
        return f"Of {going.turns} turns the fares count."

    with perdure.open(":memory:", talk=Talk(before_compact=(keep,))) as db:
        session = db.create("trip", config={"compaction": {"threshold": 0.05, "keep_last": 2}})
        for number in range(20):
            session.send(f"Ticket TRIP-{number}. " + "It is a slow train. " * 100)
        compacted: list[Any] = [event.data for event in session.events() if event.kind == "compacted"]
        assert "the fares count" in str(compacted[0].preserved)
