"""Waking with ports that misbehave: what they answer is checked, and what is wrong with it is told by name."""

import asyncio
from itertools import count
from typing import Any

import pytest

from perdure.core.errors import Invalid, MemoryUnavailable, RequiredToolUnavailable, RetrievalFailed, ToolUnauthorized
from perdure.core.errors import ToolUnbound as Unbound
from perdure.core.session import admission
from perdure.core.session.lifecycle import Phase
from perdure.core.session.quality import Retrieval
from perdure.core.session.tools import ToolBound
from perdure.core.session.waking import Found, Question, Scope, Tool, ToolSpec, WakePolicy
from perdure.core.session.woken import EvidenceOutcome, ToolOutcome, Woken
from perdure.services.rehydration import VolatileCache
from perdure.testing import FixedAmbient
from tests.services.test_waking import Sleeper, answering
from tests.services.world import World

SEARCH = ToolBound(name="search", constraint="^1.2", required=True, version="1.2.0")
MAPS = ToolBound(name="maps", constraint=">=2,<4", version="2.0.0")
PENDING = Retrieval(id="fish", query="price of fish", source="web", pending=True)
REQUIRED = Retrieval(id="fish", query="price of fish", source="web", pending=True, required=True)
TOO_MUCH = "x" * (17 << 20)


@pytest.fixture
def sleeper(world: World) -> Sleeper:
    return Sleeper(world)


class Registry:
    """A tool registry that answers as told."""

    def __init__(self, resolved: Any = None, substitute: Any = None, allowed: Any = True) -> None:
        self.resolved, self.substitute, self.allowed = resolved, substitute, allowed

    def resolve(self, name: str, constraint: str) -> Any:
        return self.resolved(name) if callable(self.resolved) else self.resolved

    def find_substitute(self, spec: ToolSpec) -> Any:
        return self.substitute

    def authorize(self, tool: Tool, scope: Scope) -> Any:
        return self.allowed() if callable(self.allowed) else self.allowed


class Half:
    """A tool that is not all there."""

    name = "maps"


class Moody:
    """Looking at it is enough to have it fail."""

    name = "maps"

    @property
    def version(self) -> str:
        raise ConnectionError("no version today")


JUNK = [
    ("maps", "with str"),
    ({"name": "maps", "version": "2.0.0"}, "with dict"),
    (True, "with bool"),
    (Half(), "has no version"),
    (Moody(), "no version today"),
    (Tool(name=None, version="2.0.0"), "its name is None"),  # type: ignore[arg-type]
    (Tool(name="maps", version=None), "its version is None"),  # type: ignore[arg-type]
    (Tool(name="maps", version=2), "its version is 2"),  # type: ignore[arg-type]
    (Tool(name="maps", version="latest"), "latest"),
    (Tool(name="", version="2.0.0"), "its name is ''"),
]


# ── the tool registry ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("junk", "what"), JUNK)
async def test_junk_from_a_registry_is_no_tool_and_told(sleeper: Sleeper, junk: Any, what: str) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.tools = Registry(resolved=junk)
    woken = await sleeper.wake()
    assert woken.degraded == ("maps",)
    assert "tool registry: resolve" in woken.tools["maps"].reason
    assert what in woken.tools["maps"].reason


@pytest.mark.parametrize(("junk", "what"), JUNK)
async def test_junk_for_a_substitute_is_none_and_told(sleeper: Sleeper, junk: Any, what: str) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.tools = Registry(substitute=junk)
    refusal = await sleeper.refused(RequiredToolUnavailable)
    assert "tool registry: find_substitute" in refusal.message
    assert what in refusal.message


async def test_a_registry_without_the_methods_is_told_and_offers_nothing(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.tools = object()  # type: ignore[assignment]
    woken = await sleeper.wake()
    assert "resolve" in woken.tools["maps"].reason
    assert "find_substitute" in woken.tools["maps"].reason


async def test_a_registry_may_have_tools_of_its_own_make(sleeper: Sleeper) -> None:
    class Own:
        name, version = "maps", "3.0.0"

        def call(self) -> str:
            return "mapped"

    own, asked = Own(), []
    registry = Registry(resolved=own)
    registry.authorize = lambda tool, scope: asked.append(tool) or True  # type: ignore[method-assign,func-returns-value]
    await sleeper.lies_down(MAPS)
    sleeper.waking.tools = registry
    woken = await sleeper.wake()
    assert (woken.tools["maps"].outcome, woken.tools["maps"].call()) == (ToolOutcome.REBOUND, "mapped")
    assert asked == [own]


async def test_a_tool_of_another_name_is_not_the_one_that_was_asked_for(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.tools = Registry(resolved=Tool(name="format_disk", version="2.0.0"))
    assert "format_disk" in (await sleeper.wake()).tools["maps"].reason


@pytest.mark.parametrize("version", ["1.1.9", "2.0.0", "1.3.0-rc.1"])
async def test_a_version_outside_the_constraint_counts_as_not_found(sleeper: Sleeper, version: str) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.tools = Registry(resolved=Tool(name="search", version=version))
    refusal = await sleeper.refused(RequiredToolUnavailable)
    assert f"search {version}" in refusal.message
    assert "^1.2" in refusal.message
    sleeper.waking.tools = Registry(Tool(name="search", version=version), Tool(name="grep", version="3.0.0"))
    assert (await sleeper.wake()).substituted == {"search": "grep"}


async def test_an_optional_tool_outside_its_constraint_is_degraded(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.tools = Registry(resolved=Tool(name="maps", version="4.0.0"))
    woken = await sleeper.wake()
    assert woken.degraded == ("maps",)
    assert "maps 4.0.0" in woken.tools["maps"].reason


async def test_a_substitute_keeps_to_no_constraint_but_its_own(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.tools = Registry(substitute=Tool(name="grep", version="0.1"))
    assert (await sleeper.wake()).tools["search"].version == "0.1"


@pytest.mark.parametrize("answer", ["no", "yes", 1, None, [True], object()])
async def test_only_true_is_a_yes(sleeper: Sleeper, answer: Any) -> None:
    await sleeper.lies_down(SEARCH, MAPS)
    sleeper.waking.tools = Registry(lambda name: Tool(name=name, version="2.0.0" if name == "maps" else "1.2.0"))
    sleeper.waking.tools.allowed = answer  # type: ignore[attr-defined]
    refusal = await sleeper.refused(ToolUnauthorized)
    assert "tool registry: authorize" in refusal.message
    assert "True or False" in refusal.message


async def test_an_optional_tool_with_no_clear_yes_is_degraded(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.toolbox.register("maps", "2.0.0", allow=lambda scope: "no")  # type: ignore[arg-type,return-value]
    woken = await sleeper.wake()
    assert woken.degraded == ("maps",)
    assert "not 'no'" in woken.tools["maps"].reason


@pytest.mark.parametrize("where", ["resolved", "allowed"])
async def test_a_registry_that_gives_up_by_itself_has_failed(sleeper: Sleeper, where: str) -> None:
    def gives_up(*_: Any) -> Any:
        raise asyncio.CancelledError

    await sleeper.lies_down(MAPS)
    sleeper.waking.tools = Registry(**{"resolved": Tool(name="maps", version="2.0.0"), where: gives_up})
    woken = await sleeper.wake()
    assert woken.degraded == ("maps",)
    assert "cancelled" in woken.tools["maps"].reason


# ── what is not bound, and which versions there are ───────────────────────────────────────────────


async def test_calling_a_degraded_tool_says_that_it_is_and_why(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    maps = (await sleeper.wake(key="k")).tools["maps"]
    assert not maps.call
    with pytest.raises(Unbound, match=r"degraded.*no version of it is there") as refusal:
        maps.call("Lisbon", zoom=3)
    assert (refusal.value.tool, refusal.value.reason) == ("maps", "no version of it is there")
    again = (await sleeper.wake(key="k")).tools["maps"]
    with pytest.raises(Unbound, match="degraded"):
        again.call()


async def test_a_tool_that_only_another_process_can_run_says_so_when_called(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH)
    sleeper.waking.toolbox.register("search", "1.2.0", len)
    await sleeper.wake(key="k")
    sleeper.waking.toolbox.remove("search")
    search = (await sleeper.wake(key="k")).tools["search"]
    assert (search.outcome, search.version) == (ToolOutcome.REBOUND, "1.2.0")
    with pytest.raises(Unbound, match=r"search 1\.2\.0.*register"):
        search.call("x")


async def test_whoever_misses_a_tool_is_told_the_versions_there_are(sleeper: Sleeper) -> None:
    await sleeper.lies_down(SEARCH)
    for version in ("1.10.0", "2.0.0", "1.1.0"):
        sleeper.waking.toolbox.register("search", version)
    sleeper.waking.toolbox.remove("search", "1.10.0")
    refusal = await sleeper.refused(RequiredToolUnavailable)
    assert "1.1.0, 2.0.0" in refusal.message
    assert refusal.versions == ("1.1.0", "2.0.0")


async def test_a_degraded_tool_tells_them_too(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.toolbox.register("maps", "5.0.0")
    assert (await sleeper.wake()).tools["maps"].reason == "no version of it that will do is there, only 5.0.0"


@pytest.mark.parametrize("listed", [5, "1.0.0", [None], None, ["1.0.0"] * 1000])
async def test_a_list_of_versions_is_foreign_too(sleeper: Sleeper, listed: Any) -> None:
    registry = Registry()
    registry.versions = lambda name: listed  # type: ignore[attr-defined]
    await sleeper.lies_down(SEARCH)
    sleeper.waking.tools = registry
    refusal = await sleeper.refused(RequiredToolUnavailable)
    assert len(refusal.message) < 1000


# ── constraints ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("constraint", ["the newest", ">=", "1.2.x", "^", 5])
async def test_a_constraint_nobody_can_read_is_refused_when_it_is_written(sleeper: Sleeper, constraint: Any) -> None:
    session = await sleeper.world.create()
    with pytest.raises(Invalid, match=r"tool maps.*version constraint"):
        await sleeper.world.append(session, ToolBound(name="maps", constraint=constraint))
    assert await sleeper.world.append(session, ToolBound(name="maps", constraint="~1.4"))


async def test_a_log_that_holds_one_from_before_still_loads_and_wakes(
    sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(admission._ADMIT, ToolBound)  # as it was written once
    await sleeper.lies_down(ToolBound(name="maps", constraint="the newest"))
    monkeypatch.undo()
    sleeper.world.sessions.loader.forget()
    sleeper.waking.toolbox.register("maps", "2.0.0")
    woken = await sleeper.wake()
    assert "is not a version constraint" in woken.tools["maps"].reason
    assert (await sleeper.state()).tools.bindings["maps"].constraint == "the newest"
    assert (await sleeper.world.verifying.verify(sleeper.session)).ok


# ── the retrieval cache ───────────────────────────────────────────────────────────────────────────


class Cache:
    """A cache that answers as told."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def get(self, key: bytes) -> Any:
        return self.kept() if callable(self.kept) else self.kept

    def put(self, key: bytes, found: Found, ttl: float) -> None:
        self.kept = None


def gives_up(*_: Any) -> Any:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("kept", "what"),
    [
        ({"results": [1]}, "with dict"),
        ("cached", "with str"),
        (Half(), "with Half"),
        (Found(results=[1], fetched_at=None), "fetched_at is None"),  # type: ignore[arg-type]
        (Found(results=[1], fetched_at=True), "fetched_at is True"),
        (Found(results=[1], fetched_at=-1), "fetched_at is -1"),
        (Found(results=[1], fetched_at=1 << 70), "fetched_at is"),
        (Found(results=object(), fetched_at=5), "not plain data"),
        (gives_up, "cancelled"),
    ],
)
async def test_junk_from_a_cache_counts_as_nothing_and_is_told(sleeper: Sleeper, kept: Any, what: str) -> None:
    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.cache = Cache(kept)
    sleeper.waking.rehydration.retrievers.register("web", answering(["anew"])[0])
    woken = await sleeper.wake()
    (evidence,) = woken.evidence
    assert (evidence.outcome, evidence.results) == (EvidenceOutcome.RETRIEVED, ["anew"])
    (warning,) = woken.warnings
    assert "retrieval cache: get" in warning
    assert what in warning


async def test_a_cache_that_cannot_keep_is_told(sleeper: Sleeper) -> None:
    class Full(Cache):
        def put(self, key: bytes, found: Found, ttl: float) -> None:
            raise OSError("full")

    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.cache = Full(None)
    sleeper.waking.rehydration.retrievers.register("web", answering(["anew"])[0])
    woken = await sleeper.wake()
    assert woken.evidence[0].results == ["anew"]
    assert "retrieval cache: put: OSError: full" in woken.warnings[0]


async def test_what_a_cache_claims_to_have_fetched_tomorrow_was_fetched_now_at_the_latest(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    now = sleeper.world.ambient.now()
    sleeper.waking.rehydration.cache = Cache(Found(results=["early"], fetched_at=now + 86_400_000_000))
    (evidence,) = (await sleeper.wake()).evidence
    assert (evidence.outcome, evidence.fetched_at) == (EvidenceOutcome.REUSED, now)


def test_a_clock_set_back_does_not_prolong_the_cache() -> None:
    ambient = FixedAmbient()
    cache = VolatileCache(ambient)
    cache.put(b"k", Found(results=1, fetched_at=ambient.now()), 10)
    assert cache.get(b"k") is not None
    ambient._now -= 3600 * 1_000_000
    assert cache.get(b"k") is None


# ── evidence that is too much ─────────────────────────────────────────────────────────────────────


async def test_optional_evidence_that_no_log_can_hold_is_dropped_with_a_remark(sleeper: Sleeper) -> None:
    other = Retrieval(id="bread", query="price of bread", source="web", pending=True)
    await sleeper.lies_down(PENDING, other)
    sleeper.waking.rehydration.retrievers.register("web", answering(TOO_MUCH, ["crumbs"])[0])
    woken = await sleeper.wake()
    assert [(item.id, item.outcome.value, item.results) for item in woken.evidence] == [
        ("fish", "failed", None),
        ("bread", "retrieved", ["crumbs"]),
    ]
    assert "the limit is 16777216" in woken.evidence[0].reason
    assert any("evidence fish" in warning and "16777216" in warning for warning in woken.warnings)
    assert (await sleeper.state()).phase is Phase.ACTIVE


async def test_required_evidence_that_no_log_can_hold_is_a_typed_refusal(sleeper: Sleeper) -> None:
    await sleeper.lies_down(REQUIRED)
    sleeper.waking.rehydration.retrievers.register("web", answering(TOO_MUCH)[0])
    assert "the limit is 16777216" in (await sleeper.refused(RetrievalFailed)).reason


async def test_what_is_too_much_for_the_log_may_be_used_by_who_does_not_write_it(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.retrievers.register("web", answering(TOO_MUCH)[0])
    woken = await sleeper.wake(WakePolicy(record_evidence=False))
    assert woken.evidence[0].results == TOO_MUCH


async def test_cached_evidence_that_is_too_much_is_retrieved_again(sleeper: Sleeper) -> None:
    await sleeper.lies_down(PENDING)
    now = sleeper.world.ambient.now()
    sleeper.waking.rehydration.cache = Cache(Found(results=TOO_MUCH, fetched_at=now))
    sleeper.waking.rehydration.retrievers.register("web", answering(["less"])[0])
    woken = await sleeper.wake()
    assert woken.evidence[0].results == ["less"]
    assert "16777216" in woken.warnings[0]


# ── giving up by themselves ───────────────────────────────────────────────────────────────────────


async def gives_up_later(*_: Any) -> Any:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


@pytest.mark.parametrize("retriever", [gives_up, gives_up_later])
async def test_a_retriever_that_cancels_itself_has_failed(sleeper: Sleeper, retriever: Any) -> None:
    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.retrievers.register("web", retriever)
    woken = await sleeper.wake()
    assert woken.evidence[0].outcome is EvidenceOutcome.FAILED
    assert "cancelled" in woken.evidence[0].reason


async def test_a_retriever_may_wait_for_something_that_was_cancelled(sleeper: Sleeper) -> None:
    async def waits(question: Question) -> Any:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        return await task

    await sleeper.lies_down(REQUIRED)
    sleeper.waking.rehydration.retrievers.register("web", waits)
    assert "cancelled" in (await sleeper.refused(RetrievalFailed)).reason


async def test_a_cancellation_from_outside_cancels_the_waking(sleeper: Sleeper) -> None:
    begun = asyncio.Event()

    async def waits(question: Question) -> Any:
        begun.set()
        await asyncio.Event().wait()

    await sleeper.lies_down(PENDING)
    before = await sleeper.world.told(sleeper.session)
    sleeper.waking.rehydration.retrievers.register("web", waits)
    task = asyncio.ensure_future(sleeper.wake(WakePolicy(deadline=None)))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await sleeper.world.told(sleeper.session) == before


async def test_a_time_limit_around_the_waking_holds(sleeper: Sleeper) -> None:
    async def waits(question: Question) -> Any:
        await asyncio.Event().wait()

    await sleeper.lies_down(PENDING)
    sleeper.waking.rehydration.retrievers.register("web", waits)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await sleeper.wake(WakePolicy(deadline=None))
    assert (await sleeper.state()).phase is Phase.SUSPENDED


# ── memory ────────────────────────────────────────────────────────────────────────────────────────


class Notes:
    """Memory that answers as told."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def episodic(self, scope: Scope) -> Any:
        return self.layer() if callable(self.layer) else self.layer


@pytest.mark.parametrize(
    ("layer", "what"),
    [("we met", "with str"), (b"we met", "with bytes"), ({"we": "met"}, "with dict"), (5, "with int"),
     (gives_up, "cancelled")],
)  # fmt: skip
async def test_a_layer_that_is_no_list_has_failed(sleeper: Sleeper, layer: Any, what: str) -> None:
    await sleeper.lies_down()
    sleeper.waking.memory = Notes(layer)  # type: ignore[assignment]
    refusal = await sleeper.refused(MemoryUnavailable, WakePolicy(require_memory=True))
    assert what in refusal.message
    woken: Woken = await sleeper.wake()
    assert woken.memory.episodic == ()
    assert what in woken.memory.failed["episodic"]


@pytest.mark.parametrize("layer", [None, [], ["a"], ("a", "b"), iter("ab")])
async def test_a_layer_is_anything_that_can_be_listed(sleeper: Sleeper, layer: Any) -> None:
    await sleeper.lies_down()
    sleeper.waking.memory = Notes(layer)  # type: ignore[assignment]
    woken = await sleeper.wake()
    assert woken.memory.failed == {}
    assert isinstance(woken.memory.episodic, tuple)


def endless() -> Any:
    return (f"1.0.{number}" for number in count())


def leaves() -> Any:
    yield "a"
    raise SystemExit(3)


def closes() -> Any:
    raise GeneratorExit


@pytest.mark.parametrize(
    ("layer", "what"), [(endless, "more than"), (leaves, "raised SystemExit: 3"), (closes, "raised GeneratorExit")]
)
async def test_a_layer_without_an_end_has_failed_and_so_has_one_that_exits(
    sleeper: Sleeper, layer: Any, what: str
) -> None:
    await sleeper.lies_down()
    sleeper.waking.memory = Notes(layer)  # type: ignore[assignment]
    woken = await sleeper.wake()
    assert what in woken.memory.failed["episodic"]


@pytest.mark.parametrize("listed", [endless, leaves, closes])
async def test_a_registry_that_lists_without_an_end_offers_nothing(sleeper: Sleeper, listed: Any) -> None:
    registry = Registry()
    registry.versions = lambda name: listed()  # type: ignore[attr-defined]
    await sleeper.lies_down(SEARCH)
    sleeper.waking.tools = registry  # type: ignore[assignment]
    await sleeper.refused(RequiredToolUnavailable)


async def test_a_registry_that_closes_generators_is_told(sleeper: Sleeper) -> None:
    await sleeper.lies_down(MAPS)
    sleeper.waking.tools = Registry(resolved=lambda _: closes())  # type: ignore[assignment]
    woken = await sleeper.wake()
    assert "raised GeneratorExit" in woken.tools["maps"].reason


# ── the policy ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("field", ["half_life", "cache_ttl", "deadline"])
@pytest.mark.parametrize("seconds", [0, -1, True, float("nan"), float("inf"), 1e11, 1 << 80, "5"])
def test_lengths_of_time_are_bounded(field: str, seconds: Any) -> None:
    with pytest.raises(Invalid, match="seconds"):
        WakePolicy(**{field: seconds})
