"""What consolidation does with a model: asked about what is doubtful, within its money, whatever goes wrong."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from perdure.compose.weights import weights
from perdure.core.errors import (
    NotFound,
    PerdureError,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderFailed,
    ProviderRefused,
    ProviderSlow,
)
from perdure.core.memory.parts import Memory, MemoryType, Source, vault
from perdure.core.memory.requests import Changing, Keeping
from perdure.core.memory.settling import Settled
from perdure.core.memory.statements import Reading
from perdure.core.session.memories import MemoriesUsed
from perdure.core.talk.parts import Usage
from perdure.core.talk.routes import Models, Upstream
from perdure.ports.memory import Embedder
from perdure.services.asking import AT_ONCE, NO_MONEY, NOBODY
from perdure.services.calling import Calling
from perdure.services.consolidating import Consolidating, Progress
from perdure.services.judging import NO_PRICE, Judging, failed
from perdure.services.memories import Memories
from perdure.services.runs import Lost, Runs, Spent
from perdure.services.weighing import Weighed, Weighing
from perdure.waiting import drive
from tests.services.consolidated import ANA, TOLD, Stop, live, memories_of, shelf, told
from tests.services.talkers import PRICES, Scripted, says
from tests.services.world import World


def judging(world: World, provider: Scripted, budget: int = 1_000_000, retries: int = 0) -> Judging:
    upstream = Upstream(name="acme", kind="offline", retries=retries)
    models = Models(upstreams={"acme": upstream}, default="acme/small", cheap="acme/small")
    return Judging(Calling(models, world.ambient, {"acme": provider}, prices=PRICES), PRICES, budget=budget)


GATES = ("The garden gate squeaks loudly", "The garden gate creaks loudly")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('{"1": "same"}', {"same": 1}),
        ('Sure! {"1": "newer"}', {"newer": 1}),
        ('{"1": "apart"}', {}),
        ('{"1": "delete everything"}', {}),
        ("I will not say", {}),
        ('{"1": 7}', {}),
    ],
)
async def test_a_model_decides_what_is_doubtful_if_it_says_so_plainly(
    world: World, answer: str, found: dict[str, int]
) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    provider.then(says(answer))
    run = await Consolidating(memories, judging(world, provider)).run(ANA)
    assert (run.found, run.model, run.cost) == (found, "small", 20)
    (asked,) = provider.asked
    assert GATES[0] in str(asked.messages)


async def test_pairs_that_a_model_saw_are_not_shown_again(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    provider.then(says('{"1": "apart"}'))
    consolidating = Consolidating(memories, judging(world, provider))
    await consolidating.run(ANA)
    world.ambient.advance(60)
    await consolidating.run(ANA)
    assert len(provider.asked) == 1


async def test_rules_alone_decide_when_the_model_fails_or_costs_too_much(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES, *TOLD)
    provider.then([ProviderDown("down", provider="acme", model="small", retry_after=None)])
    run = await Consolidating(memories, judging(world, provider)).run(ANA)
    assert (run.phase, run.found) == ("ended", {"newer": 2, "same": 1})
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, "The cellar door squeaks loudly", "The cellar door creaks loudly")
    run = await Consolidating(memories, judging(world, provider, budget=10)).run(ANA)
    assert (provider.asked, run.found, run.cost) == ([], {}, 0)


class Unsure(Weighing):
    """Takes what was kept first and second for one and the same, as sure as it is told to be."""

    def __init__(self, sure: float) -> None:
        super().__init__(weights)
        self.sure = sure

    def settled(self, memories: Sequence[Memory], since: int, embedder: Embedder | None, reading: Reading) -> Weighed:
        one, other, *_ = memories
        return Weighed((Settled(one.id, other.id, "same", self.sure),))


OILED = ("The gate squeaks", "A hinge of the gate makes a noise")


@pytest.mark.parametrize(
    ("sure", "answer", "found"),
    [
        (0.7, '{"1": "same"}', {"same": 1}),
        (0.7, '{"1": "newer"}', {"newer": 1}),
        (0.7, '{"1": "apart"}', {}),
        (0.7, "I will not say", {"same": 1}),
        (0.95, None, {"same": 1}),
    ],
)
async def test_a_model_is_asked_about_what_is_settled_but_not_for_certain(
    world: World, sure: float, answer: str | None, found: dict[str, int]
) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *OILED)
    provider.then(says(answer or ""))
    run = await Consolidating(memories, judging(world, provider), weighing=Unsure(sure)).run(ANA)
    assert (run.phase, run.found, len(provider.asked)) == ("ended", found, 0 if answer is None else 1)


async def test_what_nobody_could_be_asked_about_is_done_as_without_a_model(world: World) -> None:
    for budget, failing in ((10, False), (1_000_000, True)):
        memories, provider = memories_of(world), Scripted()
        space = vault(f"ana-{budget}")
        await memories.keep(space, [Keeping(content=OILED[0])])
        await memories.keep(space, [Keeping(content=OILED[1])])
        if failing:
            provider.then([ProviderDown("down", provider="acme", model="small", retry_after=None)])
        run = await Consolidating(memories, judging(world, provider, budget), weighing=Unsure(0.7)).run(space)
        assert (run.phase, run.found, len(provider.asked)) == ("ended", {"same": 1}, int(failing))


class Many(Unsure):
    """Takes what was kept by twos for one and the same."""

    def settled(self, memories: Sequence[Memory], *_: Any) -> Weighed:
        pairs = zip(memories[::2], memories[1::2], strict=True)
        return Weighed(tuple(Settled(one.id, other.id, "same", 0.7) for one, other in pairs))


async def many(memories: Memories) -> None:
    """Fifty, of which rules doubt none."""
    await memories.keep(ANA, [kept(text, n) for n in range(25) for text in BOTH])


def kept(text: str, n: int, **fields: Any) -> Keeping:
    """One of what is told of a gate; of another gate it can't be."""
    return Keeping(content=text.format(n), metadata={"gate": str(n)}, **fields)


BOTH = ("Gate {} opens", "Nobody has oiled latch {} since it rusted")


def first_are(word: str, count: int = AT_ONCE) -> list[Any]:
    return says(json.dumps({str(n): word for n in range(1, count + 1)}))


async def test_beyond_so_many_pairs_a_run_asks_no_more_and_does_what_is_done_without_a_model(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.services.asking.ASKED", AT_ONCE)
    memories, provider, seen = memories_of(world), Scripted(), list[Progress]()
    await many(memories)
    provider.then(first_are("apart"))
    run = await Consolidating(memories, judging(world, provider), weighing=Many(0.7)).run(ANA, told=seen.append)
    assert (run.found, len(provider.asked)) == ({"same": 5}, 1)
    assert [(one.phase, one.done, one.total) for one in seen] == [("same", AT_ONCE, AT_ONCE)]


async def test_a_run_that_stopped_while_it_asked_goes_on_with_what_was_not_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.services.asking.ASKED", 25)
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    provider.then(first_are("same"), first_are("newer", 5))

    def crash(_: Progress) -> None:
        raise Stop

    with pytest.raises(Stop):
        await Consolidating(memories, judging(world, provider), weighing=Many(0.7)).run(ANA, told=crash)
    elsewhere = memories_of(world)
    run = await Consolidating(elsewhere, judging(world, provider), weighing=Many(0.7)).run(ANA)
    assert (run.phase, run.found["same"], run.found["newer"]) == ("ended", 20, 5)
    first, second = (str(asked.messages) for asked in provider.asked[:2])
    assert ("Gate 19 " in first, "Gate 19 " in second, "Gate 20 " in second) == (True, False, True)
    assert await Consolidating(elsewhere).undo(ANA, run.id) == 50
    assert len(await live(elsewhere)) == 50


async def test_a_model_cannot_have_what_is_trusted_give_way(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, GATES[0], source=Source(kind="user"))
    await told(world, memories, GATES[1], source=Source(kind="tool"))
    provider.then(says('{"1": "newer"}'))
    run = await Consolidating(memories, judging(world, provider)).run(ANA)
    assert (len(provider.asked), run.found) == (1, {})


def test_blocking_callers_get_rules_alone(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    drive(told(world, memories, *GATES, *TOLD))
    run = drive(Consolidating(memories, judging(world, provider)).run(ANA))
    assert (provider.asked, run.found) == ([], {"newer": 2, "same": 1})


# ── killed, taken over, changed meanwhile ──


def pairs_in(asked: Any) -> list[str]:
    """What was shown first of each pair of a question."""
    text = asked.messages[0].blocks[0].text
    return [one["earlier"] for one in json.loads(text[text.index("[") : text.rindex("]") + 1])]


async def test_what_a_model_called_apart_stays_so_in_a_run_that_was_killed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    provider.then(first_are("apart"), first_are("apart", 5))

    def crash(_: Progress) -> None:
        raise Stop

    with pytest.raises(Stop):
        await Consolidating(memories, judging(world, provider), weighing=Many(0.7)).run(ANA, told=crash)
    run = await Consolidating(memories_of(world), judging(world, provider), weighing=Many(0.7)).run(ANA)
    assert (run.phase, run.found, run.cost) == ("ended", {}, 40)
    assert [len(pairs_in(asked)) for asked in provider.asked] == [20, 5]


async def test_what_a_question_may_cost_is_set_aside_before_it_is_asked(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)

    def die() -> None:
        raise Stop

    provider.then([die])
    consolidating = Consolidating(memories, judging(world, provider))
    with pytest.raises(Stop):
        await consolidating.run(ANA)
    (run,) = await consolidating.runs(ANA)
    assert (run.phase, run.cost > 100) == ("stepped", True)
    ended = await consolidating.run(ANA)
    assert (ended.cost, len(provider.asked)) == (run.cost + 20, 2)


async def begun(provider: Scripted) -> None:
    """Until it is asked."""
    while not provider.asked:  # noqa: ASYNC110 - a script has no event for it
        await asyncio.sleep(0.001)


async def asked_while(
    memories: Memories, consolidating: Consolidating, provider: Scripted, answer: str, do: Callable[[], Any]
) -> Any:
    """A run, and something that somebody does while a model thinks about its first question."""
    thought = asyncio.Event()
    provider.then([thought, *says(answer)])
    running = asyncio.ensure_future(consolidating.run(ANA))
    await begun(provider)
    await do()
    thought.set()
    return await running


async def test_what_is_forgotten_while_a_model_thinks_is_no_error(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    ids = list(await shelf(memories))
    provider_says = json.dumps({str(number): "same" for number in range(1, 21)})
    consolidating = Consolidating(memories, judging(world, provider), weighing=Many(0.7))

    async def forget() -> None:
        await memories_of(world).forget(ANA, [ids[0], ids[3], ids[49]])

    run = await asked_while(memories, consolidating, provider, provider_says, forget)
    assert (run.phase, run.found, run.place) == ("ended", {"same": 22}, "")
    assert [len(pairs_in(asked)) for asked in provider.asked] == [20, 4]
    assert len(await live(memories)) == 50 - 3 - 22


@pytest.mark.parametrize("answer", ["same", "newer"])
async def test_what_became_something_else_while_a_model_thought_is_left_as_it_is(world: World, answer: str) -> None:
    memories, provider = memories_of(world), Scripted()
    ids = await told(world, memories, *GATES)
    consolidating = Consolidating(memories, judging(world, provider))

    async def change() -> None:
        await memories_of(world).update(ANA, ids[0], Changing(memory_type=MemoryType.CONSTRAINT))

    run = await asked_while(memories, consolidating, provider, f'{{"1": "{answer}"}}', change)
    assert (run.phase, run.found, len(await live(memories))) == ("ended", {}, 2)


async def test_who_comes_while_a_model_thinks_goes_on_with_the_run_and_all_that_was_spent_is_told(world: World) -> None:
    memories, provider, other = memories_of(world), Scripted(), Scripted()
    await many(memories)
    first = Consolidating(memories, judging(world, provider), weighing=Many(0.7))
    second = Consolidating(memories_of(world), judging(world, other), weighing=Many(0.7))
    other.then(first_are("apart"), first_are("apart", 5))

    async def come() -> None:
        assert (await second.run(ANA)).phase == "ended"

    run = await asked_while(memories, first, provider, json.dumps({"1": "same"}), come)
    assert (run.phase, run.found, run.cost) == ("ended", {}, 60)
    assert (len(provider.asked), len(other.asked), len(await live(memories))) == (1, 2, 50)


async def test_who_has_lost_a_run_waits_for_its_end(world: World) -> None:
    memories, provider, other = memories_of(world), Scripted(), Scripted()
    await many(memories)
    second = Consolidating(memories_of(world), judging(world, other), weighing=Many(0.7))
    first = Consolidating(memories, judging(world, provider), weighing=Many(0.7), fresh=1 << 60)
    thought, coming = asyncio.Event(), list[Any]()
    other.then([thought, *first_are("apart")], first_are("apart", 5))

    async def come() -> None:
        coming.append(asyncio.ensure_future(second.run(ANA)))
        await begun(other)
        asyncio.get_running_loop().call_later(0.05, thought.set)

    run = await asked_while(memories, first, provider, json.dumps({"1": "same"}), come)
    assert (run, run.phase, run.found) == (await coming[0], "ended", {})


# ── what is asked in one question ──


async def test_what_is_trusted_less_stands_in_no_question_beside_what_is_trusted_more(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    for number in range(6):
        kind = "user" if number % 2 else "tool"
        for text in BOTH:
            await memories.keep(ANA, [kept(text, number, source=Source(kind=kind))])
    provider.then(first_are("apart", 3), first_are("apart", 3))
    await Consolidating(memories, judging(world, provider), weighing=Many(0.7)).run(ANA)
    asked = [{text.split()[1] for text in pairs_in(asked)} for asked in provider.asked]
    assert asked == [{"0", "2", "4"}, {"1", "3", "5"}]


async def test_nobody_is_asked_about_what_is_too_long_to_be_shown_whole(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    long = "word " * 200
    for text in (f"{long}Drew", f"{long}Thornton", *GATES):
        await memories.keep(ANA, [Keeping(content=text)])
    provider.then(says('{"1": "apart"}'))
    run = await Consolidating(memories, judging(world, provider), weighing=Many(0.7)).run(ANA)
    assert ([len(pairs_in(asked)) for asked in provider.asked], run.found) == ([1], {"same": 1})


# ── whatever goes wrong ──

DOWN = ProviderDown("down", provider="acme", model="small", retry_after=None)
REFUSED = ProviderRefused("refused", provider="acme", model="small", status=400)
CUT = ProviderCut("cut", provider="acme", model="small", retry_after=None)
UNREACHED = "not asked: acme/small cannot be reached"


async def test_a_run_whose_model_failed_says_so_and_the_next_one_asks(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    await told(world, memories, *GATES)
    provider.then([DOWN])
    consolidating = Consolidating(memories, judging(world, provider), weighing=Many(0.96))
    first = await consolidating.run(ANA)
    assert (first.place, first.model, first.cost, len(provider.asked)) == (UNREACHED, "", 0, 1)
    world.ambient.advance(600)
    provider.then(says('{"1": "apart"}'))
    again = await consolidating.run(ANA)
    assert (again.place, again.model, again.cost, len(provider.asked)) == ("", "small", 20, 2)


@pytest.mark.parametrize(("error", "cost", "why"), [(DOWN, False, "cannot be reached"), (CUT, True, "broke off")])
async def test_what_may_have_been_worked_on_in_vain_counts(world: World, error: Any, cost: bool, why: str) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    provider.then([error])
    run = await Consolidating(memories, judging(world, provider)).run(ANA)
    assert (run.cost > 0, run.place.startswith(f"not asked: acme/small {why}")) == (cost, True)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TimeoutError(), "acme/small did not answer in time"),
        (ProviderSlow("x", provider="local", model="qwen3", status=0), "local/qwen3 did not answer in time"),
        (ProviderDown("x", provider="local", model="qwen3", status=0), "local/qwen3 cannot be reached"),
        (ProviderDown("x", provider="local", model="qwen3", status=502), "local/qwen3 fails on its side (502)"),
        (ProviderDown("x", retry_after=None), "acme/small cannot be reached"),
        (ProviderBusy("x", provider="local", model="qwen3", status=429), "local/qwen3 has too much to do (429)"),
        (ProviderDenied("x", provider="local", model="qwen3", status=401), "local/qwen3 does not take our key (401)"),
        (ProviderFailed("x"), "acme/small fails on its side"),
        (REFUSED, "acme/small refuses what it is asked (400)"),
    ],
)
def test_who_failed_is_named_and_why_without_a_word_of_theirs(world: World, error: Exception, told: str) -> None:
    if isinstance(error, PerdureError):
        error.fields["told"] = "sk-secret is no key for: the garden gate squeaks"
    asked = judging(world, Scripted()).posed([])
    assert failed(error, asked.route) == f"not asked: {told}"


async def test_one_question_that_is_refused_keeps_no_other_from_being_asked(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    provider.then([REFUSED], first_are("apart", 5))
    run = await Consolidating(memories, judging(world, provider), weighing=Many(0.7)).run(ANA)
    assert (run.found, run.place, len(provider.asked)) == ({"same": 20}, "", 2)


@pytest.mark.parametrize(
    ("said", "why"), [([REFUSED], "refuses what it is asked"), (says("Well"), "answered nothing that counts")]
)
async def test_where_every_question_was_in_vain_the_run_says_so_and_the_next_one_asks(
    world: World, said: Any, why: str
) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    provider.then(said)
    consolidating = Consolidating(memories, judging(world, provider))
    first = await consolidating.run(ANA)
    assert why in first.place
    world.ambient.advance(600)
    provider.then(says('{"1": "apart"}'))
    again = await consolidating.run(ANA)
    assert (again.place, again.model, len(provider.asked)) == ("", "small", 2)


async def test_after_some_questions_in_vain_no_more_are_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.services.asking.AT_ONCE", 2)
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    provider.then(first_are("apart", 2), *[says("I will not say")] * 5)
    run = await Consolidating(memories, judging(world, provider), weighing=Many(0.7)).run(ANA)
    told = "not asked: acme/small answered nothing that counts"
    assert (run.found, run.place, len(provider.asked)) == ({"same": 23}, told, 4)


async def test_a_model_without_a_price_is_not_asked_and_the_run_says_so(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *OILED)
    upstream = Upstream(name="acme", kind="openai-chat", base_url="http://127.0.0.1:1", retries=0)
    models = Models(upstreams={"acme": upstream}, default="acme/unheard", cheap="acme/unheard")
    unpriced = Judging(Calling(models, world.ambient, {"acme": provider}, prices=PRICES), PRICES)
    run = await Consolidating(memories, unpriced, weighing=Unsure(0.7)).run(ANA)
    assert (run.place, run.found, provider.asked) == (NO_PRICE, {"same": 1}, [])


async def test_where_the_money_does_not_reach_for_one_question_the_run_says_so(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *OILED)
    run = await Consolidating(memories, judging(world, provider, 10), weighing=Unsure(0.7)).run(ANA)
    assert (run.place, run.found, provider.asked) == (NO_MONEY, {"same": 1}, [])


@pytest.mark.parametrize("usage", [Usage(), Usage(input=10**30, output=1)])
async def test_a_usage_that_cannot_be_costs_what_was_set_aside(world: World, usage: Usage) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    provider.then(says('{"1": "apart"}', usage=usage))
    run = await Consolidating(memories, judging(world, provider)).run(ANA)
    assert (run.phase, 100 < run.cost < 100_000) == ("ended", True)


async def test_all_that_may_be_tried_is_within_the_money(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    once = judging(world, provider).posed([tuple((await shelf(memories)).values())])  # type: ignore[list-item]
    thrice = judging(world, provider, retries=2)
    thrice.budget = 3 * once.worst - 1
    run = await Consolidating(memories, thrice).run(ANA)
    assert (run.place, run.cost, provider.asked) == (NO_MONEY, 0, [])


# ── undone ──


async def test_undoing_keeps_what_was_spent_and_asks_nobody_again(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    provider.then(says(json.dumps({str(number): "same" if number % 2 else "apart" for number in range(1, 21)})))
    provider.then(first_are("newer", 5))
    consolidating = Consolidating(memories, judging(world, provider), weighing=Many(0.7))
    run = await consolidating.run(ANA)
    await consolidating.undo(ANA, run.id)
    (undone,) = await consolidating.runs(ANA)
    assert (undone.phase, undone.model, undone.cost) == ("undone", "small", 40)
    again = await consolidating.run(ANA)
    assert (again.phase, again.found, len(provider.asked)) == ("ended", {}, 2)


async def test_who_has_lost_a_run_sets_nothing_aside_and_nobody_more_than_there_is(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories, *GATES)
    runs = Runs(memories.shelves, 1)
    first, _ = await runs.begun(ANA, "demand", asks=True)
    second = await runs.claimed(ANA, first)
    with pytest.raises(Lost):
        await runs.set_aside(ANA, first, 60, 100)
    assert (await runs.set_aside(ANA, second, 60, 100)).cost == 60
    with pytest.raises(Spent):
        await runs.set_aside(ANA, second, 60, 100)
    with pytest.raises(Lost):
        await runs.stepped(ANA, first, "same", lambda _: (), cost=-40)
    assert (await runs.ended(ANA, second)).cost == 20


# ── gone on with by somebody else ──


def stop_at(phase: str) -> Callable[[Progress], None]:
    """A crash after the first batch of a phase."""

    def crash(progress: Progress) -> None:
        if progress.phase == phase:
            raise Stop

    return crash


async def test_what_a_model_said_stands_whenever_a_pair_comes_up_again(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    provider.then(first_are("apart"), first_are("apart", 5))
    consolidating = Consolidating(memories, judging(world, provider), weighing=Many(0.7))
    assert (await consolidating.run(ANA)).phase == "ended"
    for id in await shelf(memories):  # true from later on: they are looked at once more
        world.ambient.advance(60)
        await memories.update(ANA, id, Changing(valid_from=world.ambient.now()))
    world.ambient.advance(60)
    for again in (consolidating, Consolidating(memories, weighing=Many(0.7))):
        run = await again.run(ANA)
        assert (run.phase, run.found, len(provider.asked)) == ("ended", {}, 2)


async def test_ranks_move_once_in_a_run_that_somebody_else_goes_on_with(world: World) -> None:
    memories = memories_of(world)
    await many(memories)
    ids = list(await shelf(memories))
    used = MemoriesUsed(counts=dict.fromkeys(ids, (0, 0, 10)))
    await memories.shelves.write(ANA, lambda _: [used])
    with pytest.raises(Stop):
        await Consolidating(memories, batch=20).run(ANA, told=stop_at("rank"))
    run = await Consolidating(memories_of(world), batch=20).run(ANA)
    assert run.found == {"rank": 50}
    assert {memory.importance for memory in (await shelf(memories)).values()} == {0.3}


async def test_what_was_lacking_is_not_forgotten_by_who_goes_on(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)
    provider.then([DOWN])
    consolidating = Consolidating(memories, judging(world, provider), weighing=Many(0.7))
    with pytest.raises(Stop):
        await consolidating.run(ANA, told=stop_at("same"))
    run = await Consolidating(memories_of(world), weighing=Many(0.7)).run(ANA)
    assert (run.phase, run.place, run.found) == ("ended", UNREACHED, {"same": 25})


async def test_what_was_held_back_to_be_asked_about_is_done_by_who_has_nobody_to_ask(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await many(memories)

    class Newer(Many):
        def settled(self, memories: Sequence[Memory], *_: Any) -> Weighed:
            pairs = super().settled(memories).settled
            return Weighed(tuple(Settled(pair.older, pair.newer, "newer", 0.7) for pair in pairs))

    def die() -> None:
        raise Stop

    provider.then([die])
    with pytest.raises(Stop):
        await Consolidating(memories, judging(world, provider), weighing=Newer(0.7)).run(ANA)
    run = await Consolidating(memories_of(world), weighing=Newer(0.7)).run(ANA)
    assert (run.phase, run.found, run.place) == ("ended", {"newer": 25}, NOBODY)


async def test_tries_in_vain_before_an_answer_are_counted(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    patient = judging(world, provider, retries=2)
    once = patient.posed([tuple((await shelf(memories)).values())]).once  # type: ignore[list-item]
    provider.then([CUT], [DOWN], says('{"1": "apart"}'))
    run = await Consolidating(memories, patient).run(ANA)
    assert (run.cost, len(provider.asked)) == (once + 20, 3)


async def test_who_waits_goes_on_when_nobody_is_at_the_run_any_more(world: World) -> None:
    memories, provider, other = memories_of(world), Scripted(), Scripted()
    await many(memories)
    first = Consolidating(memories, judging(world, provider), weighing=Many(0.7))
    second = Consolidating(memories_of(world), judging(world, other), weighing=Many(0.7))
    other.then([asyncio.Event()])

    async def come_and_go() -> None:
        provider.then(first_are("apart"), first_are("apart", 5))
        coming = asyncio.ensure_future(second.run(ANA))
        await begun(other)
        coming.cancel()

    run = await asked_while(memories, first, provider, json.dumps({"1": "same"}), come_and_go)
    assert (run.phase, run.place, len(await live(memories))) == ("ended", "", 50)


async def test_what_is_erased_while_a_model_thinks_is_not_found(world: World) -> None:
    memories, provider = memories_of(world), Scripted()
    await told(world, memories, *GATES)
    consolidating = Consolidating(memories, judging(world, provider))

    async def erase() -> None:
        await world.erasure.erase(memories.shelves.session_of(ANA))

    with pytest.raises(NotFound, match="erased"):
        await asked_while(memories, consolidating, provider, '{"1": "same"}', erase)


async def test_a_sweep_leaves_a_run_to_whoever_has_taken_it(world: World) -> None:
    memories, provider, other = memories_of(world), Scripted(), Scripted()
    await many(memories)
    world.ambient.advance(86_400)
    thought, coming = asyncio.Event(), list[Any]()
    other.then([thought, *first_are("apart")], first_are("apart", 5))
    sweeper = Consolidating(memories, judging(world, provider), weighing=Many(0.7))
    second = Consolidating(memories_of(world), judging(world, other), weighing=Many(0.7))
    mine = asyncio.Event()
    provider.then([mine, *says("{}")])
    sweeping = asyncio.ensure_future(sweeper.sweep())
    await begun(provider)
    coming.append(asyncio.ensure_future(second.run(ANA)))
    await begun(other)
    mine.set()
    swept = await sweeping
    assert (swept.ran, swept.failed) == ({}, {})
    thought.set()
    assert (await coming[0]).phase == "ended"
