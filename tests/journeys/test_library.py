"""The journeys of someone who builds agents, blocking and async: what each call promises, seen from outside."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import perdure
from perdure import Adaptive, CheckpointPolicy, Config, SnapshotPolicy
from perdure import events as ev
from perdure.core.errors import (
    AlreadyExists,
    BadCursor,
    BranchRefused,
    BudgetExhausted,
    CheckpointExpired,
    GuardFailed,
    HookRefused,
    Invalid,
    KeyInFlight,
    KeyReused,
    MoveRefused,
    NotFound,
    StoreClosed,
    Suspended,
    Terminal,
    TurnRefused,
    VersionConflict,
)
from perdure.core.session.state import to_bytes
from perdure.testing import FixedAmbient
from tests.journeys.both import Awaited

Opens = Callable[..., Awaitable[Any]]


def said(content: Any = "hello", role: str = "user") -> ev.Message:
    return ev.Message(role=role, content=content)


async def texts(session: Any) -> list[Any]:
    return [message.content for turn in await session.turns() for message in turn.messages]


async def kinds(session: Any) -> list[str]:
    return [event.kind for event in await session.events()]


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_conversation_is_there_again_after_reopening(opens: Opens) -> None:
    db = await opens()
    session = await db.create("Lisbon trip", owner="ana")
    async with session.turn("Find me a flight", model="large") as turn:
        call = await turn.ask("search", {"to": "LIS"})
        await turn.start(call, key="k1")
        await turn.finish(call, ["TP 567"])
        await turn.answer("TP 567 leaves at noon")
        turn.count(100, 20)
    await db.close()
    session = await (await opens()).session(session.id)
    (found,) = await session.turns()
    assert (found.number, found.status) == (1, "finished")
    assert await texts(session) == ["Find me a flight", "TP 567 leaves at noon"]
    assert [(one.name, one.arguments, one.result, one.done) for one in found.calls] == [
        ("search", {"to": "LIS"}, ["TP 567"], True)
    ]
    state = await session.state()
    assert (state.turns.tokens_in, state.turns.tokens_out, state.turns.open) == (100, 20, None)


async def test_an_exception_leaves_the_turn_interrupted_with_its_tools_to_retry(db: Any) -> None:
    session = await db.create()

    async def fail() -> None:
        async with session.turn("go") as turn:
            await turn.start(await turn.ask("pay", call="c1"), key="pay-once")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    (found,) = await session.turns()
    assert found.status == "interrupted"
    event = (await session.events())[-1]
    assert event.data.reason == "ZeroDivisionError"
    assert [(item.call, item.key, item.started) for item in event.data.unfinished] == [("c1", "pay-once", True)]


async def test_a_turn_whose_writer_died_is_recovered_with_its_tools_to_retry(opens: Opens) -> None:
    session = await (await opens()).create()
    turn = session.turn("go")
    await turn.__aenter__()
    await turn.start(await turn.ask("pay", call="c1"), key="pay-once")
    db = await opens()
    assert [row.session for row in (await db.find(open_turn=True)).items] == [session.id]
    (recovered,) = await db.recover()
    assert (recovered.session, recovered.turn) == (session.id, 1)
    assert [(item.call, item.key) for item in recovered.unfinished] == [("c1", "pay-once")]
    assert await db.recover() == []
    assert await (await db.session(session.id)).recover() is None


async def test_a_turn_left_with_a_call_unanswered_is_interrupted_and_says_so(db: Any) -> None:
    session = await db.create()
    turn = session.turn("go")
    await turn.__aenter__()
    call = await turn.ask("look")
    with pytest.raises(TurnRefused, match=call):
        await turn.__aexit__(None, None, None)
    (found,) = await session.turns()
    assert found.status == "interrupted"
    with pytest.raises(TurnRefused, match="turn 1 is over"):
        await turn.answer("too late")
    async with session.turn("again"):
        pass


async def test_two_turns_at_once_are_refused(db: Any) -> None:
    session = await db.create()
    async with session.turn("one"):
        with pytest.raises(TurnRefused, match="turn 1 is still open"):
            async with session.turn("two"):
                pass
    assert await texts(session) == ["one"]


async def test_a_rolled_back_turn_is_as_if_never_said(db: Any) -> None:
    session = await db.create()
    turn = session.turn("forget this")
    await turn.__aenter__()
    await session.roll_back("wrong room")
    async with session.turn("hello"):
        pass
    assert await texts(session) == ["hello"]
    assert (await session.state()).turns.count == 2


@pytest.mark.parametrize("noise", [0, 1, 40])
async def test_the_last_turns_never_cut_a_tool_call_from_its_result(db: Any, noise: int) -> None:
    session = await db.create()
    for number in range(6):
        turn = session.turn(f"question {number}")
        await turn.__aenter__()
        call = await turn.ask("look", {"n": number})
        for count in range(noise if number == 4 else 1):
            await session.set_vars({"n": number, "count": count})
            await turn.say("system", f"thinking {count}")
        await turn.finish(call, number)
        await turn.__aexit__(None, None, None)
        await session.append(said("between", "system"))
    whole = [turn for turn in await session.turns() if turn.number is not None]
    assert [turn.number for turn in whole] == [1, 2, 3, 4, 5, 6]
    for last in range(1, 9):
        found = [turn for turn in await session.turns(last=last) if turn.number is not None]
        assert [turn.number for turn in found] == [turn.number for turn in whole[-last:]]
        for one, other in zip(found, whole[-last:], strict=True):
            assert one.events == other.events
            assert all(call.done for call in one.calls)


async def test_the_last_turns_of_a_branch_reach_into_its_parent(db: Any) -> None:
    session = await db.create()
    for text in ("a", "b"):
        async with session.turn(text):
            pass
    branch = await session.branch()
    async with branch.turn("c"):
        pass
    assert [turn.number for turn in await branch.turns(last=2)] == [2, 3]
    assert [turn.number for turn in await branch.turns(last=9)] == [1, 2, 3]


async def test_an_agents_tail_is_what_the_agent_lived(db: Any) -> None:
    session = await db.create()
    await session.append(
        [
            ev.Draft(said("by scout"), agent="scout"),
            ev.Draft(said("by scribe"), agent="scribe"),
            ev.Draft(ev.Delegation(id="d", to="scout", task="look"), agent="scribe"),
            ev.Draft(said("through scout"), agent="scribe", child_agent="scout"),
        ]
    )
    assert [event.version for event in await session.tail("scout")] == [3, 5, 6]
    assert [event.version for event in await session.tail("scout", depth=2)] == [5, 6]
    assert await session.tail("nobody") == ()


# ── keys and versions ─────────────────────────────────────────────────────────────────────────────


async def test_the_same_key_and_body_append_once(opens: Opens) -> None:
    session = await (await opens()).create()
    first = await session.append(said("pay"), key="k")
    await session.append(said("other"))
    again = await (await opens()).session(session.id)
    assert await again.append(said("pay"), key="k") == first
    assert await texts(again) == ["pay", "other"]


async def test_the_same_key_with_another_body_is_refused(db: Any) -> None:
    session = await db.create()
    await session.append(said("pay 5"), key="k")
    for other in ([said("pay 6")], [said("pay 5"), said("pay 5")], [said("pay 5", "system")]):
        with pytest.raises(KeyReused, match="fresh key"):
            await session.append(other, key="k")
    with pytest.raises(KeyReused):
        await session.reserve("k", 5, key="k")
    assert await texts(session) == ["pay 5"]


async def test_a_used_key_is_noticed_whatever_else_is_wrong_with_the_call(opens: Opens) -> None:
    session = await (await opens()).create()
    first = await session.append(said("gone"), key="k")
    await session.retract(first)
    await session.append(said("more"))
    again = await (await opens()).session(session.id)
    for seen in (session, again):
        assert await seen.append(said("gone"), key="k") == first
        with pytest.raises(KeyReused):
            await seen.retract(first, first, key="k")
        with pytest.raises(KeyReused):
            await seen.append(ev.TurnFinished(), key="k")
        with pytest.raises(KeyReused):
            await seen.append(said("stale"), expected=1, key="k")
    assert await texts(session) == ["more"]


async def test_a_key_belongs_to_its_session_and_its_actor(opens: Opens) -> None:
    db = await opens()
    one, other = await db.create(), await db.create()
    await one.append(said("a"), key="k")
    await other.append(said("b"), key="k")
    somebody = await (await opens(actor="somebody")).session(one.id)
    await somebody.append(said("c"), key="k")
    assert await texts(one) == ["a", "c"]
    assert await texts(other) == ["b"]


async def test_a_refused_call_leaves_its_key_free(db: Any) -> None:
    session = await db.create()
    with pytest.raises(TurnRefused):
        await session.append(ev.TurnFinished(), key="k")
    await session.append(ev.TurnStarted(), key="k")
    assert (await session.info()).open_turn == 1


@pytest.mark.parametrize("fields", [{}, {"config": {"max_cost": 100}}, {"vars": {"a": 1}, "tags": ["x"]}])
async def test_creating_with_the_same_key_gives_the_same_session(opens: Opens, fields: dict[str, Any]) -> None:
    session = await (await opens()).create("trip", key="k", **fields)
    await session.append(said())
    again = await (await opens()).create("trip", key="k", **fields)
    assert again.id == session.id
    with pytest.raises(KeyReused):
        await (await opens()).create("another trip", key="k", **fields)
    assert await (await opens()).count() == 1


async def test_an_erased_session_frees_the_key_it_was_created_with(db: Any) -> None:
    session = await db.create(key="k")
    await session.erase()
    assert (await db.create(key="k")).id != session.id


async def test_branching_with_the_same_key_gives_the_same_branch_wherever_the_parent_stands(db: Any) -> None:
    calls: list[int] = []
    db.before_branch(lambda session, version, kind: calls.append(version))
    session = await db.create("trip")
    checkpoint = await session.checkpoint("here")
    branch, resumed = await session.branch(key="k"), await session.resume(checkpoint.id, key="r")
    await session.append(said())
    await session.configure(title="renamed")
    assert (await session.branch(key="k")).id == branch.id
    await session.drop_checkpoint(checkpoint.id)
    assert (await session.resume(checkpoint.id, key="r")).id == resumed.id
    assert len(calls) == 2
    for other in ({"at": 1}, {"kind": "sim"}, {"title": "x"}, {"config": {"model": "m"}}):
        with pytest.raises(KeyReused):
            await session.branch(key="k", **other)


async def test_other_calls_take_keys_too(db: Any) -> None:
    session = await db.create(config={"max_cost": 100})
    calls: list[str] = []
    db.before("*", lambda session, moved: calls.append(moved.event))
    checkpoint = await session.checkpoint("a", key="c")
    assert (await session.checkpoint("a", key="c")) == checkpoint
    assert await session.reserve("r", 5, key="r") == await session.reserve("r", 5, key="r")
    assert await session.settle("r", 3, key="s") == await session.settle("r", 3, key="s")
    assert await session.move("suspend", key="m") == await session.move("suspend", key="m")
    await session.resume(key="w")
    await session.append(said())
    await session.resume(key="w")
    assert (await session.info()).phase == "active"
    assert calls == ["suspend", "resume", "reactivate"]
    assert (await session.account()).spent == 3
    await session.drop_checkpoint(checkpoint.id)
    with pytest.raises(CheckpointExpired):
        await session.checkpoint("a", key="c")


async def test_a_stale_append_changes_nothing_and_names_the_current_version(opens: Opens) -> None:
    session = await (await opens()).create()
    seen = await session.version()
    await (await (await opens()).session(session.id)).append(said("first"))
    with pytest.raises(VersionConflict, match="reload") as conflict:
        await session.append(said("second"), expected=seen)
    assert (conflict.value.expected, conflict.value.found) == (seen, seen + 1)
    assert await texts(session) == ["first"]
    assert await session.append(said("second"), expected=seen + 1) == seen + 2


@pytest.mark.parametrize("act", ["configure", "set_vars", "write_scratchpad", "move"])
async def test_every_write_can_name_the_version_it_saw(opens: Opens, act: str) -> None:
    session = await (await opens()).create()
    acts: dict[str, Callable[[int], Awaitable[int]]] = {
        "configure": lambda version: session.configure(title="x", expected=version),
        "set_vars": lambda version: session.set_vars({"a": 1}, expected=version),
        "write_scratchpad": lambda version: session.write_scratchpad("x", expected=version),
        "move": lambda version: session.move("suspend", expected=version),
    }
    with pytest.raises(VersionConflict):
        await acts[act](1)
    assert await acts[act](2) > 2


async def test_what_another_process_did_counts_when_a_command_is_decided(opens: Opens) -> None:
    """A handle's memory may be stale: it must neither refuse by it nor think there is nothing to do."""
    here = await (await opens()).create(vars={"a": 1})
    there = await (await opens()).session(here.id)
    await there.state()
    await here.append(ev.TurnStarted())
    await there.append(ev.TurnFinished())
    await here.append(ev.TurnStarted())
    await here.suspend()
    await here.resume()
    await there.append([said(), ev.TurnStarted()])
    await here.recover()
    await there.configure(title="a")
    await here.configure(title="b")
    await there.configure(title="a")
    assert (await here.info()).title == "a"
    await here.terminate()
    with pytest.raises(Terminal):
        await there.append(said())


async def test_two_handles_taking_turns_lose_nothing(opens: Opens) -> None:
    one = await (await opens(snapshots=SnapshotPolicy(events=3))).create()
    other = await (await opens(snapshots=SnapshotPolicy(events=2))).session(one.id)
    for count in range(12):
        await (one if count % 2 else other).append(said(count))
    assert await texts(one) == await texts(other) == list(range(12))
    assert to_bytes(await one.state()) == to_bytes(await other.state())


# ── vars, scratchpad, settings ────────────────────────────────────────────────────────────────────


async def test_a_state_handed_out_is_the_callers_to_change(opens: Opens) -> None:
    session = await (await opens()).create(vars={"n": 1, "list": [1]}, metadata={"m": {"a": 1}})
    state = await session.state()
    state.vars.document["n"] = 2
    state.vars.document["list"].append(2)
    state.origin.metadata["m"]["a"] = 2
    assert (await session.state()).vars.document == {"n": 1, "list": [1]}
    assert (await session.state()).origin.metadata == {"m": {"a": 1}}
    await session.set_vars(state.vars.document)
    again = await (await opens()).session(session.id)
    assert (await again.state()).vars.document == {"n": 2, "list": [1, 2]}


async def test_what_was_handed_in_is_the_callers_to_change(opens: Opens) -> None:
    document: dict[str, Any] = {"list": [1]}
    metadata: dict[str, Any] = {"m": [1]}
    session = await (await opens()).create(vars=document, metadata=metadata)
    document["list"].append(2)
    metadata["m"].append(2)
    for handle in (session, await (await opens()).session(session.id)):
        state = await handle.state()
        assert (state.vars.document, state.origin.metadata) == ({"list": [1]}, {"m": [1]})


async def test_patching_vars_leaves_the_rest_alone(db: Any) -> None:
    session = await db.create(vars={"a": 1, "b": [1, 2]})
    await session.patch_vars(a=2, c=None)
    assert (await session.state()).vars.document == {"a": 2, "b": [1, 2], "c": None}


async def test_setting_what_is_there_writes_nothing(db: Any) -> None:
    session = await db.create(vars={"a": 1}, title="x")
    version = await session.version()
    assert await session.set_vars({"a": 1}) == version
    assert await session.patch_vars(a=1) == version
    assert await session.configure(title="x") == version
    assert await session.version() == version


async def test_each_agent_has_a_scratchpad_of_its_own(db: Any) -> None:
    session = await db.create()
    await session.write_scratchpad("ours")
    await session.write_scratchpad("mine", agent="scout")
    assert (await session.scratchpad(), await session.scratchpad("scout"), await session.scratchpad("x")) == (
        "ours",
        "mine",
        "",
    )


async def test_settings_can_be_changed_one_by_one(db: Any) -> None:
    session = await db.create("a", tags=["x"], metadata={"n": 1}, config=Config(model="m"))
    await session.configure(tags=["y", "z"])
    await session.configure(config={"model": "n", "system_prompt": "be brief"})
    row, state = await session.info(), await session.state()
    assert (row.title, row.tags, row.metadata) == ("a", ("y", "z"), {"n": 1})
    assert (state.config.model, state.config.system_prompt) == ("n", "be brief")


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


async def many(db: Any, ambient: FixedAmbient) -> dict[str, str]:
    """Five sessions a minute apart, by title."""
    found = {}
    for number, (title, owner) in enumerate([("a", "ana"), ("b", "ana"), ("c", "bo"), ("d", "bo"), ("Éclair", "ana")]):
        ambient.advance(60)
        session = await db.create(title, owner=owner, tags=[f"t{number % 2}", "all"], metadata={"n": number, "é": [1]})
        found[title] = session.id
    await (await db.session(found["b"])).suspend()
    await (await db.session(found["c"])).append([ev.TurnStarted(), said("The quick brown fox")])
    await (await db.session(found["d"])).complete()
    branch = await (await db.session(found["a"])).branch(title="twig")
    return found | {"twig": branch.id}


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["twig", "Éclair", "d", "c", "b", "a"]),
    ({"owner": "bo"}, ["d", "c"]),
    ({"phase": "suspended"}, ["b"]),
    ({"phase": ("suspended", "completed")}, ["d", "b"]),
    ({"phase": ["init"]}, []),
    ({"tags": ["t1"]}, ["d", "b"]),
    ({"tags": ["t1", "all"], "owner": "ana"}, ["b"]),
    ({"metadata": {"n": 2}}, ["c"]),
    ({"metadata": {"n": 2.0}}, []),
    ({"metadata": {"n": True}}, []),
    ({"metadata": {"é": [1]}, "phase": "completed"}, ["d"]),
    ({"title": "écl"}, ["Éclair"]),
    ({"title": "%"}, []),
    ({"text": "fox QUICK"}, ["c"]),
    ({"text": "fox hound"}, []),
    ({"text": "éclair"}, ["Éclair"]),
    ({"open_turn": True}, ["c"]),
    ({"open_turn": False, "owner": "bo"}, ["d"]),
    ({"owner": "nobody"}, []),
]


@pytest.mark.parametrize(("conditions", "expected"), FILTERS)
async def test_finding_gives_what_fits_every_condition_newest_first(
    db: Any, ambient: FixedAmbient, conditions: dict[str, Any], expected: list[str]
) -> None:
    names = {name: title for title, name in (await many(db, ambient)).items()}
    page = await db.find(**conditions)
    assert [names[row.session] for row in page.items] == expected
    assert page.cursor is None
    assert await db.count(**conditions) == len(expected)


async def test_finding_looks_between_times_and_at_parents(db: Any, ambient: FixedAmbient) -> None:
    start = ambient.now()
    ids = await many(db, ambient)
    third = datetime.fromtimestamp((start + 180_000_000) / 1e6, UTC)
    assert await db.count(created_after=third) == 3
    assert await db.count(created_before=third) == 2
    assert await db.count(created_after=start, created_before=start + 60_000_001) == 1
    assert [row.session for row in (await db.find(parent=ids["a"])).items] == [ids["twig"]]
    ambient.advance(60)
    await (await db.session(ids["a"])).append(said())
    active = await db.find(order="active", limit=1)
    assert [row.session for row in active.items] == [ids["a"]]
    assert await db.count(active_after=ambient.now() - 1) == 1
    assert await db.count(active_before=ambient.now()) == 5


@pytest.mark.parametrize("order", ["created", "active"])
@pytest.mark.parametrize("limit", [1, 2, 5, 6, 7])
async def test_pages_give_every_session_once(db: Any, ambient: FixedAmbient, order: str, limit: int) -> None:
    await many(db, ambient)
    whole = [row.session for row in (await db.find(order=order)).items]
    found: list[str] = []
    cursor = None
    while True:
        page = await db.find(order=order, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [row.session for row in page.items]
        cursor = page.cursor
        if cursor is None:
            break
        await db.create("newer than the page")
        if order == "active":
            break
    assert found == whole[: len(found)]
    assert order == "active" or len(found) == len(whole)


async def test_a_cursor_fits_only_the_query_that_made_it(db: Any, ambient: FixedAmbient) -> None:
    await many(db, ambient)
    cursor = (await db.find(limit=2, owner="ana")).cursor
    assert cursor is not None
    await db.find(limit=1, owner="ana", cursor=cursor)
    foreign: list[dict[str, Any]] = [
        {"owner": "bo"},
        {},
        {"owner": "ana", "order": "active"},
        {"owner": "ana", "tags": ["x"]},
    ]
    for conditions in foreign:
        with pytest.raises(BadCursor, match="start without one"):
            await db.find(cursor=cursor, **conditions)
    for wrong in ("", "nonsense", cursor[:-4], cursor + "AAAA", "é", "A" * 44, cursor.encode(), 5):
        with pytest.raises(BadCursor):
            await db.find(owner="ana", cursor=wrong)


async def test_another_tenants_session_is_not_there(opens: Opens) -> None:
    ours, theirs = await opens(tenant="a"), await opens(tenant="b")
    session = await ours.create("of a", key="k", vars={"a": 1})
    checkpoint = await session.checkpoint()
    other = await theirs.create("of b", key="k")
    assert other.id != session.id
    assert [row.title for row in (await theirs.find()).items] == ["of b"]
    assert await theirs.count(parent=session.id) == 0
    with pytest.raises(NotFound):
        await theirs.session(session.id)
    acts: list[Callable[[], Awaitable[Any]]] = [
        lambda: other.restore(checkpoint.id),
        lambda: other.resume(checkpoint.id),
        lambda: other.pin(checkpoint.id),
        lambda: other.drop_checkpoint(checkpoint.id),
    ]
    for act in acts:
        with pytest.raises(NotFound, match="no checkpoint"):
            await act()
    assert (await session.verify()).ok
    assert len(await session.checkpoints()) == 1


# ── life ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_lives_along_the_table(db: Any, ambient: FixedAmbient) -> None:
    session = await db.create(activate=False)
    phases = [(await session.info()).phase]
    for move in ("activate", "suspend", "resume", "complete", "archive"):
        ambient.advance(10)
        await getattr(session, move)()
        phases.append((await session.info()).phase)
    assert phases == ["init", "active", "suspended", "active", "completed", "archived"]
    life = (await session.state()).life
    assert {name: spent // 1_000_000 for name, spent in life.spent.items()} == {
        "init": 10,
        "active": 20,
        "suspended": 10,
        "resumed": 0,
        "completed": 10,
    }
    assert life.suspensions == 1
    with pytest.raises(MoveRefused, match="nothing leads on"):
        await session.archive()


async def test_a_sleeping_session_asks_to_be_resumed_and_an_ended_one_to_be_branched(db: Any) -> None:
    session = await db.create()
    await session.suspend("lunch")
    with pytest.raises(Suspended, match="resume it first"):
        await session.append(said())
    await session.resume()
    await session.terminate("enough")
    with pytest.raises(Terminal, match="branch it"):
        await session.append(said())
    await session.append(ev.Feedback(rating=1, comment="too short"))
    assert (await session.state()).life.reason == "enough"
    branch = await session.branch()
    await branch.append(said())
    assert (await branch.info()).phase == "active"


async def test_resuming_a_session_that_is_awake_changes_nothing(db: Any) -> None:
    session = await db.create()
    await session.append(ev.TurnStarted())
    with pytest.raises(MoveRefused, match="'resume' is not a move from active"):
        await session.resume()
    assert (await session.info()).open_turn == 1


async def test_completing_waits_for_the_exit_criteria(db: Any) -> None:
    session = await db.create(exit_criteria=["booked", "paid"])
    await session.append(ev.ExitCriterion(name="booked", met=True, evidence="#42"))
    with pytest.raises(GuardFailed, match="paid"):
        await session.complete()
    async with session.turn("pay"):
        await session.append(ev.ExitCriterion(name="paid", met=True))
        with pytest.raises(GuardFailed, match="turn is open"):
            await session.complete()
    await session.complete()


async def test_hooks_see_every_move_before_and_after(db: Any) -> None:
    seen: list[tuple[Any, ...]] = []
    db.before("*", lambda session, moved: seen.append(("before", moved.event, session.id)))
    db.after("suspend", lambda session, moved: seen.append(("after", moved.to.value, moved.reason)))
    session = await db.create()
    await session.suspend("lunch")
    await session.resume()
    assert seen == [
        ("before", "suspend", session.id),
        ("after", "suspended", "lunch"),
        ("before", "resume", session.id),
        ("before", "reactivate", session.id),
    ]


async def test_a_hook_that_raises_before_a_move_stops_it(db: Any) -> None:
    def refuse(session: Any, moved: Any) -> None:
        raise PermissionError("not on a Sunday")

    db.before("complete", refuse)
    session = await db.create()
    version = await session.version()
    with pytest.raises(HookRefused, match="not on a Sunday") as refusal:
        await session.complete()
    assert isinstance(refusal.value.__cause__, PermissionError)
    assert await session.version() == version


async def test_hooks_are_not_asked_about_moves_that_would_be_refused(db: Any) -> None:
    asked: list[str] = []
    db.before("*", lambda session, moved: asked.append(moved.event))
    session = await db.create(exit_criteria=["done"])
    for move, error in (("resume", MoveRefused), ("complete", GuardFailed)):
        with pytest.raises(error):
            await session.move(move)
    assert asked == []


async def test_a_hook_before_branching_may_refuse(db: Any) -> None:
    asked: list[tuple[Any, ...]] = []

    def refuse_dreams(session: Any, version: int, kind: str) -> None:
        asked.append((session.id, version, kind))
        if kind == "dream":
            raise PermissionError("no dreaming")

    db.before_branch(refuse_dreams)
    session = await db.create()
    await session.branch(at=1)
    with pytest.raises(PermissionError):
        await session.branch(kind="dream")
    assert asked == [(session.id, 1, "checkpoint"), (session.id, 2, "dream")]
    assert await db.count() == 2


async def test_terminating_compensates_in_reverse_and_notes_each(db: Any) -> None:
    undone: list[Any] = []

    def undo(session: Any, arguments: dict[str, Any]) -> None:
        undone.append(arguments["n"])
        if arguments["n"] == 2:
            raise RuntimeError("too late")

    db.compensation("cancel", undo)
    session = await db.create()
    for number in (1, 2, 3):
        await session.append(ev.CompensationRegistered(name="cancel", arguments={"n": number}))
    await session.append(ev.CompensationRegistered(name="unheard of"))
    await session.terminate()
    assert undone == [3, 2, 1]
    noted = [event.data for event in await session.events() if event.kind == "compensated"]
    assert [(item.index, item.error) for item in noted] == [(2, None), (1, "RuntimeError: too late"), (0, None)]
    assert [item.done for item in (await session.state()).life.compensations] == [True, True, True, False]


async def test_completing_compensates_nothing(db: Any) -> None:
    undone: list[Any] = []
    db.compensation("cancel", lambda session, arguments: undone.append(1))
    session = await db.create()
    await session.append(ev.CompensationRegistered(name="cancel"))
    await session.complete()
    assert undone == []


async def test_compensations_a_crash_left_undone_are_run_later_and_only_those(opens: Opens) -> None:
    class Crash(KeyboardInterrupt):
        pass

    undone: list[int] = []

    def dying(session: Any, arguments: dict[str, Any]) -> None:
        if arguments["n"] == 2:
            raise Crash
        undone.append(arguments["n"])

    db = await opens()
    db.compensation("cancel", dying)
    session = await db.create()
    for number in (1, 2, 3):
        await session.append(ev.CompensationRegistered(name="cancel", arguments={"n": number}))
    with pytest.raises(Crash):
        await session.terminate()
    assert undone == [3]
    db = await opens()
    session = await db.session(session.id)
    assert await session.compensate() == ("cancel", "cancel")
    db.compensation("cancel", lambda session, arguments: undone.append(arguments["n"]))
    assert await session.compensate() == ()
    assert undone == [3, 2, 1]
    assert await session.compensate() == ()
    assert undone == [3, 2, 1]


# ── checkpoints ───────────────────────────────────────────────────────────────────────────────────


async def triggers(session: Any) -> list[str]:
    return [item.trigger for item in await session.checkpoints()]


def policy(**fields: Any) -> dict[str, Any]:
    return {"config": Config(checkpoints=CheckpointPolicy(**fields))}


async def test_a_checkpoint_restores_the_state_it_was_taken_of(opens: Opens) -> None:
    session = await (await opens()).create(vars={"a": 1})
    checkpoint = await session.checkpoint("before the storm", {"why": "clouds"})
    before = to_bytes(await session.state(at=checkpoint.version))
    await session.set_vars({"a": 2})
    for handle in (session, await (await opens()).session(session.id)):
        restored = await handle.restore(checkpoint.id)
        assert to_bytes(restored.state) == before
        assert not restored.rebuilt
        assert (restored.checkpoint.label, restored.checkpoint.metadata) == ("before the storm", {"why": "clouds"})
    assert (checkpoint.trigger, checkpoint.full, checkpoint.seq) == ("manual", True, 1)


async def test_lifecycle_moves_checkpoint_for_good(db: Any, ambient: FixedAmbient) -> None:
    session = await db.create()
    await session.suspend()
    await session.resume()
    await session.complete()
    ambient.advance(10 * 86_400)
    assert [(item.trigger, item.label, item.full, item.expires_at) for item in await session.checkpoints()] == [
        ("lifecycle", "suspend", True, None),
        ("lifecycle", "complete", True, None),
    ]


async def test_policies_take_checkpoints_by_themselves(db: Any, ambient: FixedAmbient) -> None:
    session = await db.create(**policy(on_kinds=("feedback",)))
    await session.append(said())
    await session.append(ev.Feedback(rating=5))
    assert await triggers(session) == ["event"]

    session = await db.create(**policy(pre_mutation=True))
    await session.append(said())
    await session.set_vars({"a": 1})
    await session.write_scratchpad("x")
    assert await triggers(session) == ["pre_mutation", "pre_mutation"]
    first = (await session.checkpoints())[0]
    assert (await session.restore(first.id)).state.vars.document == {}

    session = await db.create(**policy(periodic=60))
    await session.checkpoint()
    for _ in range(4):
        ambient.advance(30)
        await session.append(said())
    assert await triggers(session) == ["manual", "periodic", "periodic"]

    session = await db.create(**policy(adaptive=Adaptive(base=100, least=5, most=1000, reference_rate=0.01)))
    await session.checkpoint()
    for count in range(40):
        ambient.advance(1)
        await session.set_vars({"n": count})
    assert (await triggers(session)).count("adaptive") >= 2


async def test_deltas_are_small_and_every_kth_checkpoint_is_full(db: Any) -> None:
    session = await db.create(vars={"big": ["x" * 100] * 100}, **policy(full_every=3))
    for count in range(7):
        await session.patch_vars(n=count)
        await session.checkpoint(str(count))
    found = await session.checkpoints()
    assert [item.full for item in found] == [True, False, False, True, False, False, True]
    assert all(item.size < found[0].size / 10 for item in found if not item.full)
    for item in found:
        restored = await session.restore(item.id)
        assert to_bytes(restored.state) == to_bytes(await session.state(at=item.version))
        assert not restored.rebuilt


async def test_a_delta_whose_base_goes_becomes_full(db: Any) -> None:
    session = await db.create(vars={"n": 0})
    taken = []
    for count in range(4):
        await session.patch_vars(n=count)
        taken.append(await session.checkpoint(str(count)))
    await session.drop_checkpoint(taken[0].id)
    await session.drop_checkpoint(taken[2].id)
    assert [(item.label, item.full) for item in await session.checkpoints()] == [("1", True), ("3", True)]
    for item in (taken[1], taken[3]):
        restored = await session.restore(item.id)
        assert (restored.rebuilt, to_bytes(restored.state)) == (False, to_bytes(await session.state(at=item.version)))
    await session.patch_vars(n=9)
    assert not (await session.checkpoint("4")).full


async def test_checkpoints_expire_unless_pinned_and_the_version_stays(db: Any, ambient: FixedAmbient) -> None:
    session = await db.create(**policy(ttl=60))
    one, other = await session.checkpoint("one"), await session.checkpoint("other")
    await session.pin(other.id)
    ambient.advance(60)
    with pytest.raises(CheckpointExpired, match=f"branch at version {one.version} instead"):
        await session.restore(one.id)
    with pytest.raises(CheckpointExpired):
        await session.resume(one.id)
    assert [item.id for item in await session.checkpoints()] == [other.id]
    assert await db.expire_checkpoints() == 1
    assert await db.expire_checkpoints() == 0
    with pytest.raises(NotFound):
        await session.restore(one.id)
    assert not (await session.restore(other.id)).rebuilt
    assert (await (await session.branch(at=one.version)).info()).branched_at == one.version
    await session.unpin(other.id)
    with pytest.raises(CheckpointExpired):
        await session.restore(other.id)


async def test_resuming_from_a_checkpoint_is_a_branch_with_other_settings(db: Any) -> None:
    session = await db.create("trip", config=Config(model="large", system_prompt="be brief", max_tokens=100))
    async with session.turn("hello"):
        pass
    checkpoint = await session.checkpoint("here")
    await session.append(said("later"))
    branch = await session.resume(
        checkpoint.id, title="again", config={"model": "small", "max_cost": 500, "system_prompt": None}
    )
    assert branch.id != session.id
    assert await texts(branch) == ["hello"]
    config = (await branch.state()).config
    assert (config.model, config.max_cost, config.system_prompt, config.max_tokens) == ("small", 500, None, 100)
    lineage = await branch.lineage()
    assert lineage is not None
    assert (lineage.parent, lineage.version, lineage.checkpoint) == (session.id, checkpoint.version, checkpoint.id)
    assert (await branch.info()).title == "again"
    assert (await session.state()).config.model == "large"
    with pytest.raises(BudgetExhausted):
        await branch.reserve("r", 501)


# ── branches ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_branch_shares_the_past_and_not_the_future(db: Any) -> None:
    session = await db.create("trip", vars={"a": 1})
    at = await session.append(said("shared"))
    await session.append(said("parent"))
    branch = await session.branch(at=at)
    await branch.append(said("branch"))
    assert await texts(session) == ["shared", "parent"]
    assert await texts(branch) == ["shared", "branch"]
    assert (await branch.events())[at - 1] == (await session.events())[at - 1]
    assert [row.session for row in await session.branches()] == [branch.id]
    assert (await branch.verify()).ok


@pytest.mark.parametrize("kind", ["checkpoint", "sim", "pre_steer", "dream"])
async def test_only_checkpoint_branches_branch_again_and_keep_vars(db: Any, kind: str) -> None:
    session = await db.create(vars={"a": 1})
    await session.write_scratchpad("notes")
    branch = await session.branch(kind=kind, name="try")
    assert await branch.scratchpad() == "notes"
    assert (await branch.info()).branch_kind == kind
    if kind == "checkpoint":
        assert (await branch.state()).vars.document == {"a": 1}
        twig = await branch.branch()
        assert (await twig.lineage()).parent == branch.id
        return
    assert (await branch.state()).vars.document == {}
    with pytest.raises(BranchRefused, match=f"{kind} branch, which cannot branch again; branch {session.id}"):
        await branch.branch()
    await branch.set_vars({"found": 7})
    report = await session.merge(branch, summary="the trial went well")
    assert report.merged
    assert (await session.state()).vars.document == {"a": 1, "found": 7}
    assert (await texts(session))[-1] == "the trial went well"


async def test_a_branch_at_an_open_turn_starts_without_it(db: Any) -> None:
    session = await db.create()
    turn = session.turn("one")
    await turn.__aenter__()
    await turn.ask("look")
    branch = await session.branch()
    assert (await branch.info()).open_turn is None
    async with branch.turn("two") as again:
        assert again.number == 2
    assert [(turn.number, turn.status) for turn in await branch.turns()] == [(1, "interrupted"), (2, "finished")]


async def test_rewinding_and_editing_are_branches_with_a_name(db: Any) -> None:
    session = await db.create()
    for text in ("a", "b", "c"):
        async with session.turn(text) as turn:
            await turn.answer(text.upper())
    assert await texts(await session.rewind()) == ["a", "A", "b", "B"]
    assert await texts(await session.rewind(2)) == ["a", "A"]
    assert await texts(await session.rewind(to=1)) == []
    edited = await session.edit(2, "bee", title="in other words")
    assert await texts(edited) == ["a", "A", "bee"]
    assert ((await edited.info()).title, (await edited.info()).open_turn) == ("in other words", 2)
    assert (await edited.lineage()).name == "edit"
    await edited.append([said("BEE", "assistant"), ev.TurnFinished()])
    assert await texts(session) == ["a", "A", "b", "B", "c", "C"]
    with pytest.raises(NotFound):
        await session.rewind(4)
    with pytest.raises(NotFound):
        await session.edit(4, "x")
    with pytest.raises(Invalid):
        await session.edit(1, float("nan"))
    assert await db.count() == 5


async def test_merging_takes_what_only_one_side_changed(db: Any) -> None:
    session = await db.create(vars={"a": 1, "b": 1, "list": [1]})
    branch = await session.branch()
    await branch.set_vars({"a": 1, "b": 2, "list": [1, 2], "new": True})
    await branch.write_scratchpad("found it")
    await session.patch_vars(a=5)
    report = await session.merge(branch)
    assert (report.merged, report.base_version, report.conflicts) == (True, 3, ())
    assert (await session.state()).vars.document == {"a": 5, "b": 2, "list": [1, 2], "new": True}
    assert await session.scratchpad() == "found it"
    assert (await session.diff(branch)) != ()


async def test_merging_again_takes_what_is_new_since_the_last_time(db: Any) -> None:
    session = await db.create(vars={"a": 0, "b": 0})
    branch = await session.branch()
    for count in (1, 2):
        await branch.patch_vars(a=count)
        assert (await session.merge(branch)).merged
        assert (await session.state()).vars.document == {"a": count, "b": 0}
    await session.patch_vars(b=5)
    await branch.patch_vars(b=6)
    assert not (await session.merge(branch)).merged


@pytest.mark.parametrize(("policy_name", "expected"), [("ours", 5), ("theirs", 2), ("last_writer_wins", 2)])
async def test_a_policy_settles_what_both_changed(
    db: Any, ambient: FixedAmbient, policy_name: str, expected: int
) -> None:
    session = await db.create(vars={"a": 1})
    branch = await session.branch()
    await session.set_vars({"a": 5})
    ambient.advance(1)
    await branch.set_vars({"a": 2})
    assert (await session.merge(branch, policy_name)).merged
    assert (await session.state()).vars.document == {"a": expected}


@pytest.mark.parametrize(("choice", "expected"), [("ours", 5), ("theirs", 2), ("base", 1), (7, 7), (None, None)])
async def test_an_escalated_conflict_waits_for_a_person(db: Any, choice: Any, expected: Any) -> None:
    session = await db.create(vars={"a": 1, "b": 1})
    branch = await session.branch()
    await session.patch_vars(a=5)
    await branch.set_vars({"a": 2, "b": 2})
    report = await session.merge(branch)
    assert not report.merged
    assert [item["path"] for item in report.conflicts] == [["vars", "a"]]
    assert (await session.state()).vars.document == {"a": 5, "b": 2}
    with pytest.raises(Invalid, match="no choice for"):
        await session.resolve(report.conflict_id, {})
    with pytest.raises(Invalid, match="not in conflict"):
        await session.resolve(report.conflict_id, {"vars.b": "ours"})
    settled = await session.resolve(report.conflict_id, {"vars.a": choice})
    assert settled.merged
    assert (await session.state()).vars.document == {"a": expected, "b": 2}
    with pytest.raises(NotFound):
        await session.resolve(report.conflict_id, {"vars.a": choice})


async def test_a_diff_says_what_leads_from_one_to_the_other(db: Any) -> None:
    session = await db.create(vars={"a": 1})
    first = await session.version()
    branch = await session.branch()
    await branch.set_vars({"a": 2})
    (op,) = await session.diff(branch)
    assert (op.path, op.old, op.new) == (("vars", "a"), 1, 2)
    await session.set_vars({"a": 3})
    (op,) = await session.diff(first)
    assert (op.old, op.new) == (1, 3)
    assert await session.diff(first, version=first) == ()


# ── money ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_cap_is_hard_and_reaching_it_pauses(db: Any) -> None:
    session = await db.create(config={"max_cost": 100})
    await session.reserve("a", 60)
    with pytest.raises(BudgetExhausted) as refusal:
        await session.reserve("b", 41)
    assert refusal.value.left == 40
    await session.settle("a", 10)
    await session.reserve("b", 90)
    await session.settle("b", 120)
    account = await session.account()
    assert (account.spent, account.reserved, account.paused) == (130, 0, True)
    with pytest.raises(BudgetExhausted):
        await session.reserve("c", 1)
    assert "overrun" in await kinds(session)
    await session.append(said("still talking"))


async def test_raising_the_cap_ends_the_pause(db: Any) -> None:
    session = await db.create(config=Config(max_cost=100))
    await session.reserve("a", 100)
    await session.settle("a", 130)
    await session.configure(config=Config(max_cost=200))
    assert not (await session.account()).paused
    await session.reserve("b", 70)
    with pytest.raises(BudgetExhausted):
        await session.reserve("c", 1)
    with pytest.raises(Invalid):
        await session.configure(config=Config(max_cost=-1))


async def test_a_branch_draws_on_its_parents_account(db: Any) -> None:
    session = await db.create(config={"max_cost": 100})
    branch = await session.branch()
    twig = await branch.branch()
    await session.reserve("a", 50)
    await branch.reserve("a", 30)
    with pytest.raises(BudgetExhausted):
        await twig.reserve("a", 21)
    await twig.reserve("a", 20)
    assert (await twig.account()) == (await session.account()) == (await db.account(session.id))
    assert (await session.account()).reserved == 100
    await branch.erase()
    assert (await session.account()).reserved == 70


async def test_a_branch_with_a_cap_of_its_own_keeps_both(db: Any) -> None:
    session = await db.create(config={"max_cost": 100})
    await session.reserve("a", 50)
    with pytest.raises(BudgetExhausted):
        await session.branch(config={"max_cost": 51})
    branch = await session.branch(config={"max_cost": 10})
    with pytest.raises(BudgetExhausted):
        await branch.reserve("a", 11)
    await branch.reserve("a", 10)
    assert (await session.account()).reserved == 60
    for wrong in (-1, 2**60, 1.5, "5"):
        with pytest.raises(Invalid):
            await session.branch(config={"max_cost": wrong})
    assert (await session.account()).reserved == 60


async def test_concurrent_branches_never_exceed_the_account(opens: Opens) -> None:
    db = await opens()
    session = await db.create(config={"max_cost": 100})
    branches = [session, *[await session.branch() for _ in range(7)]]
    others = [await (await opens()).session(branch.id) for branch in branches]

    async def spend(branch: Any, name: str) -> int:
        try:
            await branch.reserve(name, 7)
        except BudgetExhausted:
            return 0
        return 7

    work = [
        spend(branch, f"{kind}{n}")
        for n in range(3)
        for kind, group in (("a", branches), ("b", others))
        for branch in group
    ]
    reserved = sum(await asyncio.gather(*work))
    account = await session.account()
    assert account.reserved == reserved == 98
    assert not account.paused


# ── opening and closing ───────────────────────────────────────────────────────────────────────────


async def test_a_closed_store_says_so(opens: Opens) -> None:
    db = await opens()
    session = await db.create()
    await db.close()
    await db.close()
    for act in (lambda: session.append(said()), session.info, db.find, db.create):
        with pytest.raises(StoreClosed, match="open it again"):
            await act()


async def test_everything_works_in_ram_too(opens: Opens) -> None:
    db = await opens(":memory:")
    session = await db.create(vars={"a": 1})
    async with session.turn("hello"):
        pass
    branch = await session.branch()
    await session.erase()
    assert await texts(branch) == ["hello"]
    assert (await db.verify()).ok


async def test_an_id_can_be_chosen_once(db: Any) -> None:
    name = "01940c2e-7d1e-7abc-8def-0123456789ab"
    assert (await db.create(id=name.upper())).id == name
    with pytest.raises(AlreadyExists, match="choose another id"):
        await db.create(id=name)


async def test_an_export_rebuilds_the_session_elsewhere(opens: Opens) -> None:
    db, elsewhere = await opens(), await opens("there.db")
    session = await db.create("trip", vars={"a": 1})
    async with session.turn("hello") as turn:
        await turn.finish(await turn.ask("look"), {"found": [1, 2.0, b"x"]})
    branch = await session.branch()
    await branch.append(said("on"))
    made = await elsewhere.import_jsonl(await branch.export())
    assert made.id == branch.id
    assert await made.events() == await branch.events()
    assert to_bytes(await made.state()) == to_bytes(await branch.state())
    assert (await made.verify()).ok
    await made.append(said("elsewhere"))


async def test_a_key_in_flight_is_refused_and_a_finished_one_is_repeated(opens: Opens, style: str) -> None:
    if style == "blocking":
        pytest.skip("blocking calls on one thread are never in flight together; threads are tested apart")
    session = await (await opens()).create()
    outcomes = await asyncio.gather(*[session.append(said("pay"), key="k") for _ in range(5)], return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["KeyInFlight"] * 4 + ["int"]
    assert all(isinstance(outcome, int | KeyInFlight) for outcome in outcomes)
    assert await session.append(said("pay"), key="k") == 3
    assert await texts(session) == ["pay"]


async def test_a_handle_on_another_tenants_id_can_do_nothing(opens: Opens) -> None:
    session = await (await opens(tenant="a")).create(vars={"a": 1})
    await session.append(said())
    theirs = await (await opens(tenant="b")).create()
    foreign = on(theirs, session.id)
    acts: list[Callable[[], Awaitable[Any]]] = [
        *(getattr(foreign, name) for name in ("info", "events", "state", "turns", "branch", "suspend", "checkpoints")),
        *(getattr(foreign, name) for name in ("checkpoint", "erase", "export", "verify", "recover")),
        lambda: foreign.append(said()),
        lambda: foreign.redact(3),
        lambda: foreign.prune(2),
        lambda: theirs.merge(foreign),
    ]
    for act in acts:
        with pytest.raises(NotFound, match="no session"):
            await act()
    assert (await session.verify()).ok
    assert len(await session.events()) == 4


def on(session: Any, name: str) -> Any:
    """A handle on any id with the powers of another one, past the check that opening makes."""
    if isinstance(session, Awaited):
        return Awaited(on(session._behind, name))
    if isinstance(session, perdure.Session):
        return perdure.Session(on(session._behind, name))
    return perdure.AsyncSession(session._services, name)  # type: ignore[arg-type]
