"""Compaction as a service: what is asked, paid, written, refused, and a conversation that never ends."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import pytest

from perdure.core.errors import HookRefused, Invalid, PerdureError, ProviderBusy, ProviderCut, ProviderRefused
from perdure.core.session import commands as do
from perdure.core.session.asking import ModelAnswered, ModelAsked
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Compaction, Config
from perdure.core.session.recording import Noted
from perdure.core.session.turns import Compacted, ToolAsked, ToolFinished, TurnFinished, TurnStarted
from perdure.core.talk.context import Fixed, Passing, Rendering, assembled, begun, grown
from perdure.core.talk.parts import Answer, Foreign, Text, Usage
from perdure.core.talk.prices import Prices, read
from perdure.core.talk.routes import Form, Models, Upstream
from perdure.core.talk.tokens import estimate
from perdure.ports.provider import Frame, Sending, Whole
from perdure.services.calling import Calling
from perdure.services.compacting import Compacting
from tests.services.world import World

RATES = {"input": 1_000_000, "output": 2_000_000, "cache_read": 100_000, "cache_write": 1_000_000}
PRICES: Prices = read(
    {
        "as_of": "2026-01-01",
        "prices": [
            {"provider": "small", "models": ["*"], "rates": RATES, "window": 100_000, "max_output": 4_000},
            {"provider": "anthropic", "models": ["claude-*"], "rates": RATES, "window": 200_000},
        ],
    }
)


class Stub:
    """A provider that answers what it is told to, and remembers what it was asked."""

    def __init__(self, name: str, form: Form, answer: Answer | PerdureError | None = None) -> None:
        self.name = name
        self.form = form
        self.answer = answer
        self.heard: list[Sending] = []
        self.meanwhile: Any = None

    async def whole(self, sending: Sending) -> Whole:
        self.heard.append(sending)
        if self.meanwhile is not None:
            await self.meanwhile()
        if isinstance(self.answer, PerdureError):
            raise self.answer
        assert self.answer is not None
        return Whole(self.answer)

    async def stream(self, sending: Sending) -> AsyncGenerator[Frame, None]:
        raise AssertionError("a summary is asked for whole")
        yield Frame()

    async def close(self) -> None:
        pass


class House:
    """A world with compaction over two providers: a small one, and one that speaks Anthropic's form."""

    TOLD: ClassVar[Answer] = Answer(
        id="1", model="m", blocks=(Text(text="They talked."),), usage=Usage(input=70, output=5)
    )

    def __init__(self, world: World) -> None:
        self.world = world
        self.small = Stub("small", "", self.TOLD)
        self.claude = Stub("anthropic", "anthropic", self.TOLD)
        models = Models(
            upstreams={
                "small": Upstream(name="small", kind="offline", retries=0),
                "anthropic": Upstream(name="anthropic", kind="anthropic", retries=0),
            },
            default="small/tiny",
            cheap="small/tiny",
        )
        calling = Calling(models, world.ambient, {"small": self.small, "anthropic": self.claude})
        self.compacting = Compacting(world.sessions, calling, PRICES, node="here")

    async def talk(self, turns: int = 6, **config: Any) -> SessionId:
        compaction = Compaction(**{"keep_last": 2} | config.pop("compaction", {}))
        session = await self.world.create(config=Config(compaction=compaction, **config), account="purse")
        for number in range(turns):
            await self.turn(session, f"Question {number} with some words.")
        return session

    async def turn(self, session: SessionId, text: str, answer: str = "Yes.") -> None:
        await self.world.append(session, TurnStarted(role="user", content=text), TurnFinished(content=answer))

    async def found(self, session: SessionId, kind: Any) -> list[Any]:
        return [event.data for event in await self.world.events(session) if isinstance(event.data, kind)]

    async def rendered(self, session: SessionId, before: Rendering | None) -> Rendering:
        """The context as it stands, grown from the last one if there is one."""
        log, upto = self.world.sessions.log, (await self.state(session)).turns.compacted_to
        events = await log.events(await log.head(session), upto if before is None else before.history.version)
        return (grown(before, events, estimate) if before is not None else None) or begun(Fixed(), events, estimate)

    async def state(self, session: SessionId) -> Any:
        return (await self.world.sessions.loader.load(session)).state


@pytest.fixture
def house(world: World) -> House:
    return House(world)


# ── when ──


async def test_nothing_is_done_before_it_is_due(house: House) -> None:
    session = await house.talk()
    assert await house.compacting.compact(session, window=100_000) is None
    assert await house.compacting.compact(session, window=100_000, tokens=79_999) is None
    assert (await house.state(session)).turns.compactions == 0


async def test_a_compaction_is_written_and_counted(house: House) -> None:
    session = await house.talk()
    compacted = await house.compacting.compact(session, window=100_000, tokens=80_000)
    assert compacted is not None
    state = await house.state(session)
    assert (state.turns.compactions, state.turns.compacted_to) == (1, compacted.upto)
    assert "Question 3" in compacted.summary
    assert "Question 4" not in compacted.summary
    assert await house.found(session, Compacted) == [compacted]
    assert house.small.heard == []


async def test_it_is_not_done_twice_for_the_same_turns(house: House) -> None:
    session = await house.talk()
    assert await house.compacting.compact(session, window=100, force=True) is not None
    for _ in range(3):
        assert await house.compacting.compact(session, window=100, force=True) is None
    await house.turn(session, "One more.")
    assert await house.compacting.compact(session, window=100, force=True) is not None


async def test_two_at_once_make_one_compaction(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model"})
    done = await asyncio.gather(*[house.compacting.compact(session, window=100, force=True) for _ in range(5)])
    assert sum(item is not None for item in done) == 1
    other = House(house.world).compacting
    await house.turn(session, "One more.")
    both = await asyncio.gather(*[each.compact(session, window=100, force=True) for each in (house.compacting, other)])
    assert sum(item is not None for item in both) == 1
    assert (await house.state(session)).turns.compactions == 2
    assert (await house.state(session)).budget.open == {}


async def test_a_strategy_or_a_profile_that_is_not_there_is_refused(house: House) -> None:
    for wrong in ({"strategy": "magic"}, {"preserve": "golf"}):
        session = await house.talk(1, compaction=wrong)
        with pytest.raises(Invalid, match="use one of"):
            await house.compacting.compact(session, window=100, force=True)


async def test_a_redacted_compaction_is_made_anew_from_the_log(house: House) -> None:
    session = await house.talk()
    await house.compacting.compact(session, window=100_000, force=True)
    version = (await house.world.versions_of(session, Compacted.kind))[0]
    await house.world.erasure.redact(session, [version], "asked for")
    await house.turn(session, "One more.")
    again = await house.compacting.compact(session, window=100_000, force=True)
    assert again is not None
    assert "Question 0" in again.summary


# ── asking a model ──


async def test_a_model_is_asked_reserved_for_and_settled(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model"}, max_cost=10_000_000)
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert compacted.summary == "They talked."
    (asked,), (answered,) = await house.found(session, ModelAsked), await house.found(session, ModelAnswered)
    assert (asked.purpose, asked.provider, asked.model, asked.node) == ("compaction", "small", "tiny", "here")
    assert (answered.ask, answered.cost, answered.tokens_in, answered.tokens_out) == (asked.ask, 80, 70, 5)
    budget = (await house.state(session)).budget
    assert (budget.spent, budget.open, budget.asked, budget.overrun) == (80, {}, {}, 0)
    (sending,) = house.small.heard
    assert "Question 3" in sending.ask.messages[0].blocks[0].text  # type: ignore[union-attr]
    assert "Question 4" not in sending.ask.messages[0].blocks[0].text  # type: ignore[union-attr]
    kinds = [event.kind for event in await house.world.events(session)][-4:]
    assert kinds == ["reserved", "settled", "model_answered", "compacted"]


@pytest.mark.parametrize(
    ("error", "spent"),
    [
        (ProviderBusy("busy", retry_after=None), False),
        (ProviderRefused("no"), False),
        (ProviderCut("cut", retry_after=None), True),
    ],
)
async def test_a_provider_that_fails_leaves_the_extractive_summary(
    house: House, error: PerdureError, spent: bool
) -> None:
    session = await house.talk(compaction={"strategy": "model"})
    house.small.answer = error
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert "Question 3" in compacted.summary
    budget = (await house.state(session)).budget
    assert (bool(budget.spent), bool(budget.estimated), budget.open, budget.asked) == (spent, spent, {}, {})
    assert (await house.found(session, ModelAnswered))[0].error


async def test_without_the_money_nobody_is_asked(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model"}, max_cost=5)
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert "Question 3" in compacted.summary
    assert house.small.heard == []
    assert (await house.state(session)).budget.spent == 0


async def test_a_model_without_a_price_is_not_asked(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model", "model": "anthropic/gpt"})
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert house.claude.heard == []


async def test_an_empty_answer_is_paid_for_and_passed_over(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model"})
    house.small.answer = Answer(id="1", model="m", blocks=(), stop="refused", usage=Usage(input=10))
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert "Question 3" in compacted.summary
    assert (await house.state(session)).budget.spent == 10


async def test_what_goes_on_meanwhile_does_no_harm(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model"})
    house.small.meanwhile = lambda: house.turn(session, "Meanwhile.")
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert "Meanwhile" not in str(compacted)
    house.small.meanwhile = lambda: house.world.sessions.handle(session, do.Retract(first=8, upto=9))
    await house.turn(session, "One more.")
    assert await house.compacting.compact(session, window=10_000, force=True) is None
    state = await house.state(session)
    assert (state.turns.compactions, state.budget.open, state.budget.spent) == (1, {}, 160)


async def test_a_turn_that_is_interrupted_meanwhile_is_charged_the_true_cost_once(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model"})
    await house.world.append(session, TurnStarted(role="user", content="go"))
    house.small.meanwhile = lambda: house.world.sessions.handle(session, do.Recover(reason="steer"))
    assert await house.compacting.compact(session, window=10_000, force=True) is None
    budget = (await house.state(session)).budget
    assert (budget.spent, budget.open, budget.asked, budget.estimated) == (80, {}, {}, {})


async def test_whoever_is_cancelled_leaves_no_request_open(house: House) -> None:
    session = await house.talk(compaction={"strategy": "model"})
    waiting = asyncio.Event()

    async def hang() -> None:
        waiting.set()
        await asyncio.Event().wait()

    house.small.meanwhile = hang
    task = asyncio.create_task(house.compacting.compact(session, window=10_000, force=True))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    budget = (await house.state(session)).budget
    assert (budget.open, budget.asked) == ({}, {})
    assert budget.spent > 0
    house.small.meanwhile = None
    assert await house.compacting.compact(session, window=10_000, force=True) is not None


# ── the provider's own ──


async def test_anthropic_compacts_on_demand_and_its_iterations_are_paid(house: House) -> None:
    session = await house.talk(
        compaction={"strategy": "provider", "preserve": "defi"}, model="anthropic/claude-x", system_prompt="Be brief."
    )
    iterations = {"usage": {"iterations": [{"type": "compaction", "input_tokens": 500, "output_tokens": 50}]}}
    block = Foreign(provider="anthropic", block={"type": "compaction", "content": "All told.", "signature": "s"})
    house.claude.answer = Answer(id="1", model="claude-x", blocks=(block,), extra={"anthropic": iterations})
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert compacted.summary == "All told."
    (sending,) = house.claude.heard
    assert sending.headers == {"anthropic-beta": "compact-2026-09-04"}
    assert sending.ask.extra["anthropic"]["compaction"]["type"] == "summarize"
    assert (await house.state(session)).budget.spent == 600


async def test_an_answer_of_anthropics_without_the_block_is_no_summary(house: House) -> None:
    session = await house.talk(compaction={"strategy": "provider"}, model="anthropic/claude-x")
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert "Question 3" in compacted.summary
    assert house.small.heard == []


async def test_elsewhere_the_cheap_model_is_asked(house: House) -> None:
    session = await house.talk(compaction={"strategy": "provider"}, model="small/large")
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert compacted.summary == "They talked."
    assert house.claude.heard == []


# ── hooks ──


async def test_hooks_plain_and_async_add_to_what_is_preserved(house: House) -> None:
    session = await house.talk()
    seen: list[Any] = []

    async def later(going: Any) -> dict[str, Any]:
        seen.append(going)
        return {"positions": [{"id": 1, "size": "2.50"}]}

    house.compacting.hook("before_compact", lambda going: ["the exact word"])
    house.compacting.hook("before_compact", later)
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert [item[0] for item in compacted.preserved["explicit"]] == ["the exact word"]
    assert compacted.preserved["documents"] == {"positions": [{"id": 1, "size": "2.50"}]}
    assert (seen[0].session, seen[0].upto, seen[0].turns) == (session, compacted.upto, 4)


async def test_a_hook_may_say_no(house: House) -> None:
    session = await house.talk()
    answers: list[Any] = [False, HookRefused("not now"), None]

    def veto(going: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    house.compacting.hook("before_compact", veto)
    assert await house.compacting.compact(session, window=10_000, force=True) is None
    assert await house.compacting.compact(session, window=10_000, force=True) is None
    assert await house.compacting.compact(session, window=10_000, force=True) is not None


async def test_a_hook_that_fails_is_noted_and_passed_over(house: House) -> None:
    session = await house.talk()

    def broken(going: Any) -> None:
        raise KeyError("oops")

    async def endless(going: Any) -> None:
        await asyncio.Event().wait()

    house.compacting.hook("before_compact", broken)
    house.compacting.hook("before_compact", endless, timeout=0.01)
    house.compacting.hook("before_compact", lambda going: {"odd": object()})
    house.compacting.hook("before_compact", lambda going: "kept")
    compacted = await house.compacting.compact(session, window=10_000, force=True)
    assert compacted is not None
    assert [item[0] for item in compacted.preserved["explicit"]] == ["kept"]
    errors = [note.data["error"] for note in await house.found(session, Noted)]
    assert ["KeyError" in errors[0], "0.01 seconds" in errors[1], "Invalid" in errors[2]] == [True] * 3
    with pytest.raises(Invalid, match="before_compact"):
        house.compacting.hook("after", broken)


# ── a conversation that never ends ──

PLANTED = {
    "vault_state": "0x52908400098527886E0F7030069857D2E4169EE7",
    "pending_actions": "permit-00017",
    "strategy_parameters": "0.02750",
    "risk_state": "amber-2",
    "emotional_state": "PAD: [0.12, -0.40, 0.330]",
    "mortality_state": "0.7310",
}
PLANTING = (
    "Vault: 0x52908400098527886E0F7030069857D2E4169EE7\nI signed permit-00017.\nRebalance threshold: 0.02750\n"
    "Risk tier: amber-2\nPAD: [0.12, -0.40, 0.330]\nVitality: 0.7310\npreserve: the  owner is 'Ada'\t№7\n"
    "We decided to stay in the pool."
)


async def test_two_thousand_turns_stay_within_a_small_window_and_lose_no_value(house: House) -> None:
    if type(house.world.store).__name__ != "VolatileStore":
        pytest.skip("the store makes no difference here, but takes its time")
    window, turns = 4_000, 2_000
    config = Config(compaction=Compaction(preserve="defi", keep_last=10), extra={"preserve": ["vault"]})
    session = await house.world.create(config=config)
    await house.world.set_vars(session, {"vault": {"shares": "1000000.000000000001", "nested": [1, {"a": "b"}]}})
    await house.turn(session, PLANTING)
    work = [0] * 4  # events that each quarter of the compactions had to read
    compactions: list[Compacted] = []
    rendering: Rendering | None = None
    for number in range(turns):
        await house.world.append(
            session,
            TurnStarted(role="user", content=f"Tick {number}: what does the pool hold, and is it worth staying in it?"),
            ToolAsked(call=f"c{number}", name="pool", arguments={"tick": number}),
            ToolFinished(call=f"c{number}", result={"address": f"0x{number:040x}", "note": "steady " * 10}),
            TurnFinished(content=f"It holds as much as it did at tick {number}. Nothing needs to be done about that."),
        )
        before = (await house.state(session)).turns.compacted_to
        rendering = await house.rendered(session, rendering)
        tokens = assembled(rendering, Passing(), estimate).tokens
        assert tokens <= window
        compacted = await house.compacting.compact(session, window=window, tokens=tokens)
        if compacted is not None:
            rendering = await house.rendered(session, None)
            assert assembled(rendering, Passing(), estimate).tokens <= 0.75 * 0.8 * window
            compactions.append(compacted)
            work[number * 4 // turns] += (await house.state(session)).version - before
    assert len(compactions) < turns / 5
    assert max(work) < 1.3 * min(work)
    sizes = [estimate(item.summary) for item in compactions]
    assert max(sizes) <= window // 8
    final = compactions[-1].preserved
    for category, value in PLANTED.items():
        if category != "vault_state":
            assert value in [item[0] for item in final["values"][category]]
    assert final["explicit"] == [["the  owner is 'Ada'\t№7", final["explicit"][0][1]]]
    assert final["documents"] == {"vault": {"shares": "1000000.000000000001", "nested": [1, {"a": "b"}]}}
    newest = int(final["values"]["vault_state"][0][0], 16)
    assert newest > turns - 100
