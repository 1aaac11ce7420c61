"""The protocol of waking: every step of it, every way it can fail, on every engine. What is refused stays asleep."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.errors import (
    CheckpointIntegrity,
    HookRefused,
    InsufficientTokenBudget,
    Invalid,
    KeyReused,
    MemoryUnavailable,
    MoveRefused,
    NoCheckpoint,
    NoFullCheckpoint,
    RequiredToolUnavailable,
    RetrievalFailed,
    SessionIntegrity,
    ToolUnauthorized,
    VersionConflict,
)
from perdure.core.session import commands as do
from perdure.core.session import decide
from perdure.core.session import state as states
from perdure.core.session.budget import AccountMove
from perdure.core.session.children import Spawned
from perdure.core.session.event import draft
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Moved, Phase
from perdure.core.session.origin import Config, Isolation
from perdure.core.session.quality import Retrieval
from perdure.core.session.tools import ToolBound
from perdure.core.session.turns import ToolAsked, ToolStarted, TurnStarted
from perdure.core.session.waking import Found, Question, Scope, Tool, ToolSpec, WakePolicy
from perdure.core.session.woken import EvidenceOutcome, ToolOutcome, Woken
from perdure.services.lifecycle import Lifecycle
from perdure.services.sessions import Extra
from perdure.services.waking import Waking
from tests.services.conftest import open_store
from tests.services.world import World

MINUTE = 60
STRICT = WakePolicy(allow_fallback=False)
NEEDED = WakePolicy(require_checkpoint=True)


class Sleeper:
    """A world with waking in it, and a session that sleeps."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lifecycle = Lifecycle(world.sessions)
        self.waking = Waking(world.sessions, self.lifecycle)
        self.session = SessionId("")

    async def lies_down(self, *payloads: Any, **fields: Any) -> SessionId:
        """Make a session, have it do something, put it to sleep."""
        self.session = await self.world.create(**fields)
        await self.world.turn(self.session, "first")
        await self.world.set_vars(self.session, {"count": 1})
        if payloads:
            await self.world.append(self.session, *payloads)
        await self.lifecycle.move(self.session, "suspend")
        return self.session

    async def wake(self, policy: WakePolicy | None = None, **how: Any) -> Woken:
        return await self.waking.wake(self.session, policy, **how)

    async def state(self) -> states.State:
        return (await self.world.sessions.loader.load(self.session)).state

    async def moves(self) -> list[str]:
        return [event.data.event for event in await self.world.events(self.session) if isinstance(event.data, Moved)]

    async def kinds(self, after: int) -> list[str]:
        return [event.kind for event in await self.world.events(self.session) if event.version > after]

    async def refused(self, error: type[Exception], policy: WakePolicy | None = None) -> Any:
        """Waking is refused so, and nothing at all is written; the refusal."""
        before = await self.world.told(self.session)
        with pytest.raises(error) as refusal:
            await self.wake(policy)
        assert await self.world.told(self.session) == before
        assert (await self.state()).phase is Phase.SUSPENDED
        return refusal.value

    async def spoil(self, seq: int, **changes: Any) -> None:
        """Change a kept checkpoint, as a failing disk would."""
        kept = {item.seq: item for item in await self.world.store.checkpoints(self.session)}
        await self.world.store.save_checkpoints(self.session, [msgspec.structs.replace(kept[seq], **changes)])

    async def lose(self, *ids: str) -> None:
        """Have checkpoints go without a trace of care."""

        async def carry(_: Any) -> Extra:
            return Extra(dropped_checkpoints=ids)

        await self.world.sessions.handle(self.session, do.ExpireCheckpoints(ids=ids), extra=carry)


@pytest.fixture
def sleeper(world: World) -> Sleeper:
    return Sleeper(world)


@pytest.fixture
async def elsewhere_awake(engine: str, tmp_path: Path, world: World) -> AsyncIterator[World]:
    """The same store as another process sees it: caches of its own; on SQLite, connections of its own too."""
    store = open_store(engine, tmp_path) if engine == "sqlite" else world.store
    yield World(store, seed=b"another")
    await store.close()


def rival_of(sleeper: Sleeper, world: World) -> Sleeper:
    """Somebody else who means to wake the same session."""
    rival = Sleeper(world)
    rival.session = sleeper.session
    return rival


# ── the state ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_without_anything_special_simply_goes_on(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    before = await sleeper.state()
    woken = await sleeper.wake()
    assert await sleeper.moves() == ["activate", "suspend", "resume", "reactivate"]
    assert await sleeper.kinds(before.version) == ["moved", "moved"]
    assert (woken.session, woken.version, woken.phase) == (sleeper.session, before.version + 2, Phase.ACTIVE)
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.full, woken.restored.deltas, woken.restored.replayed) == (1, 1, 0, 2)
    assert (woken.restored.fallback, woken.restored.rebuilt, woken.repeated) == (False, (), False)
    assert (woken.evidence, woken.tools, woken.degraded, woken.warnings) == ((), {}, (), ())
    assert [check.name for check in woken.checks if check.ok] == [
        "chain",
        "state",
        "turn",
        "tools",
        "budget",
        "children",
    ]


async def test_full_checkpoint_and_deltas_lead_to_the_state_of_the_log(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.world.set_vars(sleeper.session, {"count": 2})
    await sleeper.world.checkpoints.take(sleeper.session, "a")
    await sleeper.world.set_vars(sleeper.session, {"count": 3})
    await sleeper.world.checkpoints.take(sleeper.session, "b")
    await sleeper.world.set_vars(sleeper.session, {"count": 4})
    woken = await sleeper.wake(NEEDED)
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.full, woken.restored.deltas) == (3, 1, 2)
    assert woken.restored.replayed == 2
    assert woken.memory.session.vars == {"count": 4}


async def test_without_a_checkpoint_the_log_speaks_alone(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.lose(*[item.id for item in await sleeper.world.store.checkpoints(sleeper.session)])
    woken = await sleeper.wake()
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.replayed) == (None, woken.version - 2)


async def test_no_checkpoint_is_an_error_where_one_is_required(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.lose(*[item.id for item in await sleeper.world.store.checkpoints(sleeper.session)])
    refusal = await sleeper.refused(NoCheckpoint, NEEDED)
    assert type(refusal) is NoCheckpoint
    assert refusal.session == sleeper.session
    assert (await sleeper.wake()).phase is Phase.ACTIVE


async def test_no_full_checkpoint_is_an_error_where_one_is_required(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    delta = await sleeper.world.checkpoints.take(sleeper.session, "delta")
    assert not delta.full
    full = [item.id for item in await sleeper.world.store.checkpoints(sleeper.session) if item.full]
    await sleeper.lose(*full)
    refusal = await sleeper.refused(NoFullCheckpoint, NEEDED)
    assert refusal.checkpoints == (delta.id,)
    woken = await sleeper.wake()
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.damaged, woken.restored.rebuilt) == (None, (2,), (2,))


async def test_a_damaged_delta_is_passed_over_rebuilt_and_told(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.world.checkpoints.take(sleeper.session, "delta")
    await sleeper.spoil(2, payload=b"\x90 not what was written")
    woken = await sleeper.wake()
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.fallback) == (1, True)
    assert (woken.restored.damaged, woken.restored.rebuilt) == ((2,), (2,))
    assert woken.warnings == ("checkpoint 2 was damaged",)
    again = (await sleeper.world.store.checkpoints(sleeper.session))[1]
    assert not (await sleeper.world.checkpoints.restore(again.id)).rebuilt
    assert (await sleeper.world.verifying.verify(sleeper.session)).ok


async def test_a_damaged_delta_is_an_error_where_no_fallback_is_allowed(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.world.checkpoints.take(sleeper.session, "delta")
    await sleeper.spoil(2, payload=b"\x90 not what was written")
    kept = await sleeper.world.store.checkpoints(sleeper.session)
    refusal = await sleeper.refused(CheckpointIntegrity, STRICT)
    assert (refusal.seq, refusal.session) == (2, sleeper.session)
    assert await sleeper.world.store.checkpoints(sleeper.session) == kept


async def test_a_damaged_base_takes_its_deltas_with_it_and_an_older_full_one_serves(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.wake()
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    await sleeper.world.checkpoints.take(sleeper.session, "delta")
    assert [item.full for item in await sleeper.world.store.checkpoints(sleeper.session)] == [True, True, False]
    await sleeper.spoil(2, payload=b"\x80")
    woken = await sleeper.wake(NEEDED)
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.damaged, woken.restored.rebuilt) == (1, (3, 2), (2, 3))
    assert (await sleeper.world.verifying.verify(sleeper.session)).ok


async def test_when_every_checkpoint_is_damaged_a_required_one_cannot_be_had(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.spoil(1, payload=b"\x80")
    assert (await sleeper.refused(CheckpointIntegrity, NEEDED)).seq == 1
    woken = await sleeper.wake()
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.damaged, woken.restored.rebuilt) == (None, (1,), (1,))


async def test_a_checkpoint_of_another_state_is_not_believed_though_its_digests_fit(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    (kept,) = await sleeper.world.store.checkpoints(sleeper.session)
    document = states.to_document(states.from_bytes(kept.payload))
    document["vars"] = {"document": {"count": 99}}
    forged = states.document_bytes(document)
    sha = sha256(forged).digest()
    await sleeper.spoil(1, payload=forged, payload_sha=sha, state_sha=sha)
    woken = await sleeper.wake()
    assert woken.restored is not None
    assert woken.restored.damaged == (1,)
    assert woken.memory.session.vars == {"count": 1}


async def test_a_checkpoint_that_waits_to_be_rebuilt_is_made_anew_and_no_damage(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.spoil(1, payload=b"", payload_sha=b"", state_sha=b"")
    woken = await sleeper.wake(STRICT)
    assert woken.restored is not None
    assert (woken.restored.damaged, woken.restored.rebuilt, woken.restored.fallback) == ((), (1,), False)


async def test_an_expired_checkpoint_is_not_used(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    await sleeper.world.checkpoints.take(sleeper.session, "for a day")
    sleeper.world.ambient.advance(25 * 60 * MINUTE)
    woken = await sleeper.wake()
    assert woken.restored is not None
    assert (woken.restored.seq, woken.restored.damaged) == (1, ())


async def test_a_cached_state_that_the_log_contradicts_is_dropped(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    sessions = sleeper.world.sessions
    loaded = await sessions.loader.load(sleeper.session)
    vars = msgspec.structs.replace(loaded.state.vars, document={"count": 99})
    wrong = msgspec.structs.replace(loaded, state=msgspec.structs.replace(loaded.state, vars=vars))
    sessions.loader.remember(sleeper.session, wrong)
    woken = await sleeper.wake()
    assert woken.restored is not None
    assert (woken.restored.snapshot_dropped, woken.restored.seq) == (True, 1)
    assert woken.memory.session.vars == {"count": 1}
    assert (await sleeper.world.verifying.verify(sleeper.session)).ok


# ── the token budget ──────────────────────────────────────────────────────────────────────────────


async def test_the_token_budget_is_recomputed(sleeper: Sleeper) -> None:
    await sleeper.lies_down(config=Config(max_tokens=100))
    woken = await sleeper.wake(WakePolicy(min_tokens=97))
    assert (woken.tokens.limit, woken.tokens.consumed, woken.tokens.left) == (100, 3, 97)


async def test_too_small_a_token_budget_leaves_the_session_asleep_until_it_is_raised(sleeper: Sleeper) -> None:
    await sleeper.lies_down(config=Config(max_tokens=100))
    refusal = await sleeper.refused(InsufficientTokenBudget, WakePolicy(min_tokens=98))
    assert (refusal.left, refusal.needed) == (97, 98)
    await sleeper.refused(InsufficientTokenBudget, WakePolicy(max_tokens=3))
    raised = do.Configure(config=Config(max_tokens=200), fields=("max_tokens",))
    await sleeper.world.sessions.handle(sleeper.session, raised)
    assert (await sleeper.wake(WakePolicy(min_tokens=98))).tokens.left == 197


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────

SEARCH = ToolBound(name="search", constraint="^1.2", required=True, version="1.2.0")
MAPS = ToolBound(name="maps", constraint=">=2,<4", version="2.0.0")


async def test_tools_are_rebound_to_the_best_version_that_will_do(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH, MAPS)
    tools = sleeper.waking.toolbox
    for version in ("1.1.0", "1.2.0", "1.9.0", "2.0.0"):
        tools.register("search", version, f"search {version}")
    tools.register("maps", "3.5.0")
    asleep = await sleeper.state()
    woken = await sleeper.wake()
    assert {name: (tool.outcome, tool.version) for name, tool in woken.tools.items()} == {
        "search": (ToolOutcome.REBOUND, "1.9.0"),
        "maps": (ToolOutcome.REBOUND, "3.5.0"),
    }
    assert woken.tools["search"].call == "search 1.9.0"
    assert await sleeper.kinds(asleep.version) == ["moved", "tool_bound", "tool_bound", "moved"]
    assert {name: item.version for name, item in (await sleeper.state()).tools.bindings.items()} == {
        "search": "1.9.0",
        "maps": "3.5.0",
    }


async def test_a_required_tool_that_is_gone_leaves_the_session_asleep(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.toolbox.register("search", "2.0.0")
    refusal = await sleeper.refused(RequiredToolUnavailable)
    assert (refusal.tool, refusal.constraint) == ("search", "^1.2")
    sleeper.waking.toolbox.register("search", "1.3.0")
    assert (await sleeper.wake()).tools["search"].version == "1.3.0"


async def test_a_required_tool_that_is_not_allowed_leaves_the_session_asleep(sleeper: Sleeper) -> None:
    asked: list[Scope] = []

    def only_for_bo(scope: Scope) -> bool:
        asked.append(scope)
        return scope.owner == "bo"

    await sleeper.lies_down(SEARCH, owner="ana", isolation=Isolation(task="tax"))
    sleeper.waking.toolbox.register("search", "1.3.0", allow=only_for_bo)
    refusal = await sleeper.refused(ToolUnauthorized)
    assert (refusal.tool, refusal.version) == ("search", "1.3.0")
    assert [(scope.owner, scope.actor, scope.isolation.task) for scope in asked] == [("ana", "someone", "tax")]


@pytest.mark.parametrize("allow", [False, lambda scope: None, lambda scope: 1 / 0])
async def test_an_optional_tool_that_is_not_allowed_is_degraded(sleeper: Sleeper, allow: Any) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.toolbox.register("maps", "2.0.0", allow=allow)
    woken = await sleeper.wake()
    assert woken.degraded == ("maps",)
    assert "not allowed" in woken.tools["maps"].reason
    assert not woken.tools["maps"].call
    binding = (await sleeper.state()).tools.bindings["maps"]
    assert (binding.version, binding.substitute, binding.constraint) == (None, None, ">=2,<4")


async def test_an_optional_tool_that_is_gone_is_degraded_and_bound_again_once_it_is_back(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    woken = await sleeper.wake()
    assert woken.degraded == ("maps",)
    assert woken.warnings == ("tool maps is not bound: no version of it is there",)
    (bound,) = [event.data for event in await sleeper.world.events(sleeper.session) if event.kind == "tool_bound"][1:]
    assert bound.reason == "no version of it is there"
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    sleeper.waking.toolbox.register("maps", "2.1.0")
    assert (await sleeper.wake()).degraded == ()


async def test_a_substitute_is_bound_and_told(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.toolbox.register("grep", "3.1.0", "grep!", substitutes_for=("search", "find"))
    sleeper.waking.toolbox.register("grep", "3.2.0", "grep 3.2!", substitutes_for="search")
    woken = await sleeper.wake()
    tool = woken.tools["search"]
    assert (tool.outcome, tool.substitute, tool.version, tool.call) == (
        ToolOutcome.SUBSTITUTED,
        "grep",
        "3.2.0",
        "grep 3.2!",
    )
    assert woken.substituted == {"search": "grep"}
    assert woken.warnings == ("tool search was substituted by grep 3.2.0",)
    bound = (await sleeper.world.events(sleeper.session))[-2].data
    assert isinstance(bound, ToolBound)
    assert (bound.substitute, bound.version, bound.constraint) == ("grep", "3.2.0", "^1.2")
    assert bound.reason == "search ^1.2 is not there"


async def test_a_substitute_has_to_be_allowed_too(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH, MAPS)
    sleeper.waking.toolbox.register("search", "1.2.0")
    sleeper.waking.toolbox.register("atlas", "1.0.0", substitutes_for="maps", allow=False)
    assert (await sleeper.wake()).degraded == ("maps",)
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    sleeper.waking.toolbox.remove("search")
    sleeper.waking.toolbox.register("grep", "1.0.0", substitutes_for="search", allow=False)
    assert (await sleeper.refused(ToolUnauthorized)).offered == "grep"


async def test_a_registry_of_ones_own_may_answer_asynchronously_and_fail(sleeper: Sleeper) -> None:
    class Registry:
        async def resolve(self, name: str, constraint: str) -> Tool | None:
            if name == "search":
                return Tool(name=name, version="1.5.0")
            raise ConnectionError("no route")

        async def find_substitute(self, spec: ToolSpec) -> Tool | None:
            return None

        async def authorize(self, tool: Tool, scope: Scope) -> bool:
            return scope.session == sleeper.session

    await sleeper.lies_down(SEARCH, MAPS)
    sleeper.waking.tools = Registry()
    woken = await sleeper.wake()
    assert woken.tools["search"].version == "1.5.0"
    assert "no route" in woken.tools["maps"].reason


@pytest.mark.parametrize(
    "given",
    [{"name": ""}, {"name": 5}, {"version": "latest"}, {"version": None}, {"allow": "yes"}, {"substitutes_for": [""]}],
)
def test_a_tool_that_makes_no_sense_is_not_registered(given: dict[str, Any]) -> None:
    from perdure.services.toolbox import Toolbox

    with pytest.raises(Invalid):
        Toolbox().register(**{"name": "x", "version": "1.0.0"} | given)


# ── evidence ──────────────────────────────────────────────────────────────────────────────────────

PENDING = Retrieval(id="fish", query="price of fish", source="web", pending=True)
REQUIRED = msgspec.structs.replace(PENDING, required=True)


def answering(*answers: Any) -> tuple[Callable[[Question], Any], list[Question]]:
    """A retriever that gives these answers, one after the other, and what it was asked."""
    left, questions = list(answers), []

    def retrieve(question: Question) -> Any:
        questions.append(question)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return retrieve, questions


async def test_a_pending_retrieval_is_made_and_written_down(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING, owner="ana")
    retrieve, questions = answering([{"kilo": 12}])
    sleeper.waking.rehydration.retrievers.register("web", retrieve)
    woken = await sleeper.wake()
    (evidence,) = woken.evidence
    assert (evidence.id, evidence.outcome, evidence.results) == ("fish", EvidenceOutcome.RETRIEVED, [{"kilo": 12}])
    assert (evidence.freshness, evidence.fetched_at) == (1.0, sleeper.world.ambient.now())
    assert [(item.query, item.source, item.scope.owner) for item in questions] == [("price of fish", "web", "ana")]
    (written,) = [event for event in await sleeper.world.events(sleeper.session) if event.kind == "retrieval"][1:]
    assert isinstance(written.data, Retrieval)
    assert (written.data.results, written.data.keep, written.target) == ([{"kilo": 12}], True, "fish")
    wanted = (await sleeper.state()).quality.wanted["fish"]
    assert (wanted.version, wanted.answered) == (written.version, evidence.fetched_at)


async def test_fresh_evidence_is_used_again(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    retrieve, questions = answering(["old"])
    sleeper.waking.rehydration.retrievers.register("*", retrieve)
    await sleeper.wake()
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    sleeper.world.ambient.advance(59 * MINUTE)
    asleep = await sleeper.state()
    woken = await sleeper.wake(WakePolicy(half_life=3600, threshold=0.5))
    (evidence,) = woken.evidence
    assert (evidence.outcome, evidence.results) == (EvidenceOutcome.REUSED, ["old"])
    assert 0.5 < evidence.freshness < 0.51
    assert len(questions) == 1
    assert await sleeper.kinds(asleep.version) == ["moved", "moved"]


async def test_stale_evidence_is_retrieved_again(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    retrieve, questions = answering(["old"], ["new"])
    sleeper.waking.rehydration.retrievers.register("web", retrieve)
    await sleeper.wake()
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    sleeper.world.ambient.advance(61 * MINUTE)
    (evidence,) = (await sleeper.wake()).evidence
    assert (evidence.outcome, evidence.results, len(questions)) == (EvidenceOutcome.RETRIEVED, ["new"], 2)
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    (evidence,) = (await sleeper.wake()).evidence
    assert (evidence.outcome, evidence.results) == (EvidenceOutcome.REUSED, ["new"])


async def test_evidence_in_the_log_outlives_the_process_that_retrieved_it(
    sleeper: Sleeper, elsewhere_awake: World
) -> None:
    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.retrievers.register("web", answering(["kept"])[0])
    await sleeper.wake()
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    rival = rival_of(sleeper, elsewhere_awake)
    (evidence,) = (await rival.wake()).evidence
    assert (evidence.outcome, evidence.results) == (EvidenceOutcome.REUSED, ["kept"])


async def test_sessions_of_one_owner_share_a_cache_and_others_do_not(sleeper: Sleeper) -> None:
    retrieve, questions = answering(["ana's"], ["bo's"], ["ana's own tax"])
    sleeper.waking.rehydration.retrievers.register("web", retrieve)
    found = []
    for fields in (
        {"owner": "ana"},
        {"owner": "ana"},
        {"owner": "bo"},
        {"owner": "ana", "isolation": Isolation(task="t")},
    ):
        await sleeper.lies_down(PENDING, **fields)
        (evidence,) = (await sleeper.wake()).evidence
        found.append((evidence.outcome.value, evidence.results))
        assert (await sleeper.state()).quality.wanted["fish"].answered == evidence.fetched_at
    assert found == [
        ("retrieved", ["ana's"]),
        ("reused", ["ana's"]),
        ("retrieved", ["bo's"]),
        ("retrieved", ["ana's own tax"]),
    ]
    assert len(questions) == 3


async def test_evidence_is_cached_no_longer_than_its_time(sleeper: Sleeper) -> None:
    retrieve, questions = answering(["first"], ["second"])
    sleeper.waking.rehydration.retrievers.register("web", retrieve)
    policy = WakePolicy(cache_ttl=10, half_life=1e6)
    for seconds in (0, 11):
        sleeper.world.ambient.advance(seconds)
        await sleeper.lies_down(PENDING)
        await sleeper.wake(policy)
    assert len(questions) == 2


async def test_what_is_not_to_be_written_down_is_not(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    asleep = await sleeper.state()
    sleeper.waking.rehydration.retrievers.register("web", answering(["brief"])[0])
    woken = await sleeper.wake(WakePolicy(record_evidence=False))
    assert woken.evidence[0].results == ["brief"]
    assert await sleeper.kinds(asleep.version) == ["moved", "moved"]
    assert (await sleeper.state()).quality.wanted["fish"].answered is None


@pytest.mark.parametrize("answer", [OSError("no network"), object(), float("nan")])
async def test_optional_evidence_that_cannot_be_had_is_told_and_still_wanted(sleeper: Sleeper, answer: Any) -> None:
    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.retrievers.register("web", answering(answer)[0])
    woken = await sleeper.wake()
    (evidence,) = woken.evidence
    assert (evidence.outcome, evidence.results, evidence.freshness) == (EvidenceOutcome.FAILED, None, 0.0)
    assert evidence.reason
    assert "evidence fish" in woken.warnings[0]
    assert (await sleeper.state()).quality.wanted["fish"].answered is None


async def test_required_evidence_that_cannot_be_had_leaves_the_session_asleep(sleeper: Sleeper) -> None:
    await sleeper.lies_down(REQUIRED)
    refusal = await sleeper.refused(RetrievalFailed)
    assert (refusal.retrieval, refusal.source) == ("fish", "web")
    assert "no retriever for source 'web'" in refusal.reason
    sleeper.waking.rehydration.retrievers.register("*", answering(OSError("no network"), [])[0])
    assert "no network" in (await sleeper.refused(RetrievalFailed)).reason
    assert (await sleeper.wake()).evidence[0].results == []


@pytest.mark.parametrize("colour", ["plain", "async"])
async def test_a_retrieval_past_its_deadline_is_not_waited_for(sleeper: Sleeper, colour: str) -> None:
    release, begun, stopped = threading.Event(), threading.Event(), asyncio.Event()

    def plain(question: Question) -> Any:
        begun.set()
        release.wait()

    async def patient(question: Question) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    await sleeper.lies_down(REQUIRED)
    sleeper.waking.rehydration.retrievers.register("web", plain if colour == "plain" else patient)
    try:
        refusal = await sleeper.refused(RetrievalFailed, WakePolicy(deadline=0.05))
    finally:
        release.set()
    assert begun.is_set()
    assert stopped.is_set() == (colour == "async")
    assert refusal.reason == "there was no answer within 0.05 seconds"


async def test_a_timeout_of_the_retriever_itself_is_its_own_failure(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.retrievers.register("web", answering(TimeoutError("upstream"))[0])
    assert (await sleeper.wake()).evidence[0].reason == "TimeoutError: upstream"


async def test_a_cache_that_fails_is_passed_over(sleeper: Sleeper) -> None:
    class Broken:
        def get(self, key: bytes) -> Found | None:
            raise ConnectionError

        async def put(self, key: bytes, found: Found, ttl: float) -> None:
            raise ConnectionError

    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.cache = Broken()
    sleeper.waking.rehydration.retrievers.register("web", answering([1])[0])
    assert (await sleeper.wake()).evidence[0].results == [1]


async def test_evidence_that_was_pruned_away_is_retrieved_again(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.retrievers.register("web", answering(["one"], ["two"])[0])
    woken = await sleeper.wake()
    for item in await sleeper.world.checkpoints.list(sleeper.session):
        await sleeper.world.checkpoints.drop(item.id)
    await sleeper.world.erasure.prune(sleeper.session, woken.version)
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    sleeper.waking.rehydration.cache.put = lambda *_: None  # type: ignore[method-assign]
    sleeper.waking.rehydration.cache.get = lambda _: None  # type: ignore[method-assign]
    (evidence,) = (await sleeper.wake()).evidence
    assert (evidence.outcome, evidence.results) == (EvidenceOutcome.RETRIEVED, ["two"])


# ── layers of memory ──────────────────────────────────────────────────────────────────────────────


class Library:
    """A provider of memory that lacks one layer."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    def episodic(self, scope: Scope) -> list[str]:
        self.scopes.append(scope)
        return ["we met", "we parted"]

    async def semantic(self, scope: Scope) -> tuple[str, ...]:
        return ("fish swim",)


async def test_layers_of_memory_are_reset_restored_and_loaded(sleeper: Sleeper) -> None:
    await sleeper.lies_down(owner="ana")
    await sleeper.world.sessions.handle(sleeper.session, do.WriteScratchpad(content="note", agent="scout"))
    library = Library()
    sleeper.waking.memory = library  # type: ignore[assignment]
    memory = (await sleeper.wake()).memory
    assert memory.counts == {"working": 0, "session": 2, "episodic": 2, "semantic": 1, "procedural": 0}
    assert (memory.session.vars, memory.session.scratchpads) == ({"count": 1}, {"scout": "note"})
    assert (memory.episodic, memory.semantic, memory.failed) == (("we met", "we parted"), ("fish swim",), {})
    assert [scope.owner for scope in library.scopes] == ["ana"]


async def test_without_a_provider_the_layers_beyond_the_session_are_empty(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    assert (await sleeper.wake()).memory.counts == {
        "working": 0, "session": 1, "episodic": 0, "semantic": 0, "procedural": 0,
    }  # fmt: skip


async def test_a_layer_that_cannot_be_loaded_is_told_or_refused(sleeper: Sleeper) -> None:
    class Broken(Library):
        def procedural(self, scope: Scope) -> list[str]:
            raise ConnectionError("no route")

    await sleeper.lies_down()
    sleeper.waking.memory = Broken()
    refusal = await sleeper.refused(MemoryUnavailable, WakePolicy(require_memory=True))
    assert refusal.layers == ("procedural",)
    woken = await sleeper.wake()
    assert woken.memory.failed == {"procedural": "ConnectionError: no route"}
    assert "procedural" in woken.warnings[0]


# ── integrity ─────────────────────────────────────────────────────────────────────────────────────


Spawns = Callable[[Sleeper, str], Awaitable[None]]


@pytest.fixture
def spawns(monkeypatch: pytest.MonkeyPatch) -> Spawns:
    """Has a session know of a child, as spawning will."""

    async def spawn(sleeper: Sleeper, child: str) -> None:
        monkeypatch.setitem(decide._RULES, do.RollBack, lambda *_: (draft(Spawned(child=child)),))
        await sleeper.world.sessions.handle(sleeper.session, do.RollBack())

    return spawn


async def test_a_child_that_is_gone_is_an_integrity_failure_that_can_be_excused(
    sleeper: Sleeper, spawns: Spawns
) -> None:
    await sleeper.lies_down()
    child = await sleeper.world.create()
    await spawns(sleeper, child)
    await sleeper.world.erasure.erase(child)
    refusal = await sleeper.refused(SessionIntegrity)
    assert refusal.failures == ("children",)
    assert child in refusal.message
    woken = await sleeper.wake(WakePolicy(excuse=("children",)))
    assert [check.name for check in woken.checks if not check.ok] == ["children"]
    assert "check children was excused" in woken.warnings[0]


async def test_a_child_that_is_there_is_fine(sleeper: Sleeper, spawns: Spawns) -> None:
    await sleeper.lies_down()
    await spawns(sleeper, await sleeper.world.create())
    assert (await sleeper.wake()).phase is Phase.ACTIVE


async def test_an_account_that_knows_less_than_its_session_is_an_integrity_failure(sleeper: Sleeper) -> None:
    sessions = sleeper.world.sessions
    name = SessionId(sessions.fresh_id())
    command = do.Create(activate=True, account=name, config=Config(max_cost=100))
    cap = AccountMove(account=name, cap=100, sets_cap=True)
    await sessions.create(command, session=name, accounts=(cap,))
    sleeper.session = name
    await sessions.handle(name, do.Reserve(reservation="r", amount=10))
    await sessions.handle(name, do.Settle(reservation="r", cost=10))
    await sessions.handle(name, do.Reserve(reservation="s", amount=7))
    await sleeper.lifecycle.move(name, "suspend")
    woken = await sleeper.wake()
    assert woken.reserved == {"s": 7}
    await sleeper.lifecycle.move(name, "suspend")

    async def carry(_: Any) -> Extra:
        return Extra(accounts=(AccountMove(account=name, release=7),))

    await sessions.handle(name, do.Configure(title="x"), extra=carry)
    assert (await sleeper.refused(SessionIntegrity)).failures == ("budget",)


async def test_a_log_that_does_not_prove_itself_is_an_integrity_failure(world: World, sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    world.sessions.loader.forget()
    real = world.store.run

    async def bent(source: SessionId, **asked: Any) -> Any:
        run = await real(source, **asked)
        records = list(run.records)
        last = records[-1]
        entries = (*last.record.entries[:-1], msgspec.structs.replace(last.record.entries[-1], data=b"\x80"))
        records[-1] = msgspec.structs.replace(last, record=msgspec.structs.replace(last.record, entries=entries))
        return msgspec.structs.replace(run, records=tuple(records))

    world.store.run = bent  # type: ignore[method-assign]
    with pytest.raises(SessionIntegrity, match="were changed") as refusal:
        await sleeper.waking._ground(sleeper.session, WakePolicy())
    assert refusal.value.failures == ("chain",)
    world.store.run = real  # type: ignore[method-assign]
    assert (await sleeper.wake()).phase is Phase.ACTIVE


# ── the turn a crash left open ────────────────────────────────────────────────────────────────────


async def test_the_turn_that_was_cut_short_is_named_with_the_tools_to_retry(sleeper: Sleeper) -> None:
    session = await sleeper.world.create()
    sleeper.session = session
    await sleeper.world.append(
        session, TurnStarted(), ToolAsked(call="c", name="book"), ToolStarted(call="c", key="booking-1")
    )
    await sleeper.lifecycle.move(session, "suspend")
    interrupted = (await sleeper.wake()).interrupted
    assert interrupted is not None
    assert (interrupted.turn, interrupted.reason) == (1, "suspend")
    assert [(item.call, item.name, item.key, item.started) for item in interrupted.unfinished] == [
        ("c", "book", "booking-1", True)
    ]
    await sleeper.world.turn(session, "done at last")
    await sleeper.lifecycle.move(session, "suspend")
    assert (await sleeper.wake()).interrupted is None


# ── crashes, keys, several at once ────────────────────────────────────────────────────────────────


class Crash(BaseException):
    """Stands for the death of a process where a real one cannot be had."""


async def test_a_crash_between_the_steps_is_gone_on_from(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH, PENDING)
    sleeper.waking.toolbox.register("search", "1.2.0")
    sleeper.waking.rehydration.retrievers.register("web", answering([1])[0])

    async def die(session: SessionId, moved: Moved) -> None:
        raise Crash

    sleeper.lifecycle.hook("after", "resume", die)
    with pytest.raises(Crash):
        await sleeper.wake(key="k")
    assert (await sleeper.state()).phase is Phase.RESUMED
    survivor = rival_of(sleeper, sleeper.world)
    survivor.waking.toolbox.register("search", "1.3.0")
    woken = await survivor.wake(key="k")
    assert (woken.phase, woken.repeated, woken.tools["search"].version) == (Phase.ACTIVE, False, "1.3.0")
    assert woken.evidence[0].outcome is EvidenceOutcome.REUSED
    assert await sleeper.moves() == ["activate", "suspend", "resume", "reactivate"]
    assert (await sleeper.state()).tools.bindings["search"].version == "1.3.0"


@pytest.mark.parametrize("where", ["retriever", "before resume"])
async def test_a_crash_before_the_steps_leaves_nothing_behind(sleeper: Sleeper, where: str) -> None:
    await sleeper.lies_down(PENDING)
    before = await sleeper.world.told(sleeper.session)

    async def die(*_: Any) -> None:
        raise KeyboardInterrupt

    if where == "retriever":
        sleeper.waking.rehydration.retrievers.register("web", die)
    else:
        sleeper.lifecycle.hook("before", "resume", die)
    with pytest.raises(KeyboardInterrupt):
        await sleeper.wake()
    assert await sleeper.world.told(sleeper.session) == before


async def test_a_hook_may_refuse_either_step(sleeper: Sleeper) -> None:
    await sleeper.lies_down()

    async def no(session: SessionId, moved: Moved) -> None:
        raise PermissionError("not on a Sunday")

    sleeper.lifecycle.hook("before", "reactivate", no)
    with pytest.raises(HookRefused):
        await sleeper.wake()
    assert (await sleeper.state()).phase is Phase.RESUMED
    sleeper.lifecycle.hook("before", "resume", no)
    again = rival_of(sleeper, sleeper.world)
    assert (await again.wake()).phase is Phase.ACTIVE
    await sleeper.lifecycle.move(sleeper.session, "suspend")
    await sleeper.refused(HookRefused)


async def test_a_hook_may_write_while_the_session_is_resumed(sleeper: Sleeper) -> None:
    await sleeper.lies_down()

    async def note(session: SessionId, moved: Moved) -> None:
        await sleeper.world.set_vars(session, {"woken": True})

    sleeper.lifecycle.hook("after", "resume", note)
    assert (await sleeper.wake()).phase is Phase.ACTIVE
    assert (await sleeper.state()).vars.document == {"woken": True}


async def test_the_same_key_wakes_once_and_tells_how_things_stand(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH, MAPS, PENDING)
    sleeper.waking.toolbox.register("search", "1.2.0", "run me")
    sleeper.waking.rehydration.retrievers.register("web", answering(["x"])[0])
    first = await sleeper.wake(key="k")
    again = await sleeper.wake(key="k")
    assert (again.repeated, again.version, again.phase) == (True, first.version, Phase.ACTIVE)
    assert again.evidence[0].results == first.evidence[0].results == ["x"]
    assert {name: (tool.outcome, tool.version, tool.call or None) for name, tool in again.tools.items()} == {
        "search": (ToolOutcome.REBOUND, "1.2.0", "run me"),
        "maps": (ToolOutcome.DEGRADED, None, None),
    }
    assert (again.tokens, again.memory) == (first.tokens, first.memory)
    assert await sleeper.moves() == ["activate", "suspend", "resume", "reactivate"]
    with pytest.raises(KeyReused):
        await sleeper.lifecycle.move(sleeper.session, "suspend", key="k")


async def test_a_version_that_is_stale_wakes_nobody(sleeper: Sleeper) -> None:
    await sleeper.lies_down()
    version = (await sleeper.state()).version
    with pytest.raises(VersionConflict) as conflict:
        await sleeper.wake(expected=version - 1)
    assert (conflict.value.found, conflict.value.phase) == (version, "suspended")
    assert (await sleeper.wake(expected=version)).version == version + 2


@pytest.mark.parametrize("move", ["resume", "complete", "terminate"])
async def test_what_is_not_asleep_is_not_woken_and_nobody_outside_is_asked(sleeper: Sleeper, move: str) -> None:
    await sleeper.lies_down(PENDING)
    retrieve, questions = answering([1])
    sleeper.waking.rehydration.retrievers.register("web", retrieve)
    await sleeper.wake()
    if move != "resume":
        await sleeper.lifecycle.move(sleeper.session, move)
    with pytest.raises(MoveRefused):
        await sleeper.wake()
    assert len(questions) == 1


async def test_of_two_who_wake_a_session_at_once_one_does(sleeper: Sleeper, elsewhere_awake: World) -> None:
    await sleeper.lies_down()
    rival = rival_of(sleeper, elsewhere_awake)
    outcomes = await asyncio.gather(sleeper.wake(), rival.wake(), sleeper.wake(), return_exceptions=True)
    woken = [item for item in outcomes if isinstance(item, Woken)]
    refused = [item for item in outcomes if isinstance(item, VersionConflict | MoveRefused)]
    assert (len(woken), len(refused)) == (1, 2)
    assert await sleeper.moves() == ["activate", "suspend", "resume", "reactivate"]
    assert woken[0].version == (await sleeper.state()).version


async def test_whoever_loses_while_still_asking_gets_a_conflict(sleeper: Sleeper, elsewhere_awake: World) -> None:
    await sleeper.lies_down(PENDING)
    rival = rival_of(sleeper, elsewhere_awake)
    rival.waking.rehydration.retrievers.register("web", answering(["rival's"])[0])

    async def while_somebody_else_wakes_it(question: Question) -> list[str]:
        await rival.wake()
        return ["late"]

    sleeper.waking.rehydration.retrievers.register("web", while_somebody_else_wakes_it)
    with pytest.raises(VersionConflict, match="somebody else") as conflict:
        await sleeper.wake()
    assert conflict.value.phase == "active"
    assert await sleeper.moves() == ["activate", "suspend", "resume", "reactivate"]
    held = [event.data for event in await sleeper.world.events(sleeper.session) if event.kind == "retrieval"]
    assert [item.results for item in held] == [None, ["rival's"]]


async def test_whoever_is_overtaken_between_the_steps_gets_a_conflict(sleeper: Sleeper, elsewhere_awake: World) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.toolbox.register("search", "1.2.0")
    rival = rival_of(sleeper, elsewhere_awake)
    rival.waking.toolbox.register("search", "1.9.0")
    overtaken: list[Woken] = []

    async def overtake(session: SessionId, moved: Moved) -> None:
        overtaken.append(await rival.wake())

    sleeper.lifecycle.hook("after", "resume", overtake)
    with pytest.raises(VersionConflict, match="somebody else"):
        await sleeper.wake()
    assert overtaken[0].tools["search"].version == "1.9.0"
    assert (await sleeper.state()).tools.bindings["search"].version == "1.9.0"
    assert await sleeper.moves() == ["activate", "suspend", "resume", "reactivate"]


async def test_whoever_finds_tools_bound_by_somebody_else_does_not_go_on(
    sleeper: Sleeper, elsewhere_awake: World
) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.toolbox.register("search", "1.2.0")
    rival = rival_of(sleeper, elsewhere_awake)
    rival.waking.toolbox.register("search", "1.9.0")

    async def die(session: SessionId, moved: Moved) -> None:
        raise Crash

    async def halfway(session: SessionId, moved: Moved) -> None:
        with pytest.raises(Crash):
            await rival.wake()

    rival.lifecycle.hook("before", "reactivate", die)
    sleeper.lifecycle.hook("after", "resume", halfway)
    with pytest.raises(VersionConflict, match="somebody else") as conflict:
        await sleeper.wake()
    assert conflict.value.phase == "resumed"
    assert (await sleeper.wake()).tools["search"].version == "1.2.0"
    assert (await sleeper.state()).tools.bindings["search"].version == "1.2.0"


async def test_somebody_who_writes_meanwhile_is_a_conflict_for_whoever_named_the_version(
    sleeper: Sleeper, elsewhere_awake: World
) -> None:
    await sleeper.lies_down(PENDING)

    async def while_somebody_writes(question: Question) -> list[str]:
        await elsewhere_awake.set_vars(sleeper.session, {"count": 2})
        return ["x"]

    sleeper.waking.rehydration.retrievers.register("web", while_somebody_writes)
    with pytest.raises(VersionConflict, match="reload and decide again"):
        await sleeper.wake(expected=(await sleeper.state()).version)
    assert (await sleeper.state()).phase is Phase.SUSPENDED


async def test_two_with_one_key_get_the_same_report(sleeper: Sleeper, elsewhere_awake: World) -> None:
    await sleeper.lies_down(PENDING)
    rival = rival_of(sleeper, elsewhere_awake)
    rival.waking.rehydration.retrievers.register("web", answering(["the one"])[0])
    reports: list[Woken] = []

    async def while_the_same_request_runs_elsewhere(question: Question) -> list[str]:
        reports.append(await rival.wake(key="k"))
        return ["late"]

    sleeper.waking.rehydration.retrievers.register("web", while_the_same_request_runs_elsewhere)
    woken = await sleeper.wake(key="k")
    assert (woken.repeated, woken.version) == (True, reports[0].version)
    assert woken.evidence[0].results == ["the one"]


async def test_an_append_that_comes_between_does_not_stop_waking(sleeper: Sleeper, elsewhere_awake: World) -> None:
    await sleeper.lies_down(PENDING)
    asked = []

    async def while_somebody_writes(question: Question) -> list[str]:
        asked.append(question)
        await elsewhere_awake.set_vars(sleeper.session, {"count": len(asked) + 1})
        return ["x"]

    sleeper.waking.rehydration.retrievers.register("web", while_somebody_writes)
    woken = await sleeper.wake()
    assert len(asked) == 1
    assert woken.memory.session.vars == {"count": 2}
    assert (woken.evidence[0].outcome, woken.evidence[0].results) == (EvidenceOutcome.REUSED, ["x"])
