"""An embedder elsewhere that is away: memories are kept and found by their words, and their vectors are made later."""

from collections.abc import Sequence

import pytest

from perdure.core.errors import PerdureError, ProviderDenied, ProviderDown, ProviderGarbled, ProviderRefused
from perdure.core.memory.parts import vault
from perdure.core.memory.requests import Changing, Keeping, Seeking
from perdure.core.memory.scoring import NO_VECTORS
from perdure.indexes.ram import RamIndex
from perdure.ports.memory import Embedder
from perdure.services.memories import Memories
from perdure.services.patience import PAUSE, Patient
from perdure.services.shelves import Shelves
from tests.services.shelved import Hashing, much, no_flags
from tests.services.world import World

ANA, BEN = vault("ana"), vault("ben")


class Elsewhere(Hashing):
    """Away until it is told to be there."""

    def __init__(self, fails: type[PerdureError] | None = ProviderDown) -> None:
        super().__init__()
        self.fails = fails
        self.asked = 0

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.asked += 1
        if self.fails is not None:
            raise self.fails("the embedder is away", provider="there")
        return super().embed(texts)


def node(world: World, embedder: Elsewhere) -> Memories:
    patient = Patient(embedder, world.ambient.now)

    def index(given: Embedder | None) -> RamIndex:
        return RamIndex(given)

    return Memories(Shelves(world.sessions, lambda: patient, index, much()), world.erasure, no_flags)


async def keep(memories: Memories, *texts: str) -> list[str]:
    return [memory.id for memory in await memories.keep(ANA, [Keeping(content=text) for text in texts])]


ERRORS = pytest.mark.parametrize("fails", [ProviderDown, ProviderDenied, ProviderGarbled, ProviderRefused])


@ERRORS
async def test_memories_are_kept_and_found_by_words_and_their_vectors_made_later(
    world: World, fails: type[PerdureError]
) -> None:
    there = Elsewhere(fails)
    memories = node(world, there)
    tea, _ = await keep(memories, "tea at five", "rain at six")
    changed = await memories.update(ANA, tea, Changing(content="tea at four"))
    await memories.update(ANA, changed.id, Changing(valid_from=1))
    (best, *_) = await memories.search(ANA, Seeking(query="tea"))
    assert (best.memory.content, best.lacking) == ("tea at four", NO_VECTORS)
    assert (await memories.stats(ANA)).embedded == 0
    with pytest.raises(fails):
        await memories.reembedding.run(ANA)
    there.fails = None
    done = await memories.reembedding.run(ANA)
    assert (done.made, done.left) == (3, 0)
    (best, *_) = await memories.search(ANA, Seeking(query="tea"))
    assert (best.memory.content, best.lacking) == ("tea at four", "")


async def test_a_sweep_asks_once_for_all_spaces_and_makes_what_lacks_when_it_is_there(world: World) -> None:
    there = Elsewhere()
    memories = node(world, there)
    await keep(memories, "tea")
    await memories.keep(BEN, [Keeping(content="rain")])
    before = there.asked
    assert len((await memories.reembedding.sweep()).failed) == 1
    assert there.asked == before  # it was away just now
    world.ambient.advance(PAUSE / 1e6)
    assert len((await memories.reembedding.sweep()).failed) == 1
    assert there.asked == before + 1
    world.ambient.advance(PAUSE / 1e6)
    there.fails = None
    assert (await memories.reembedding.sweep()).made == {"vault/ana": 1, "vault/ben": 1}


async def test_a_space_that_lacked_nothing_is_seen_to_when_something_was_kept_without_vectors(world: World) -> None:
    there = Elsewhere(None)
    memories = node(world, there)
    await keep(memories, "tea")
    memories.shelves.forget()
    assert (await memories.reembedding.sweep()).made == {}
    there.fails = ProviderDown
    await keep(memories, "rain")
    memories.shelves.forget()
    there.fails = None
    world.ambient.advance(PAUSE / 1e6)
    assert (await memories.reembedding.sweep()).made == {"vault/ana": 1}
    memories.shelves.forget()
    assert (await memories.reembedding.sweep()).made == {}
    assert memories.shelves.known(ANA) is None


async def test_searches_ask_who_is_away_once_and_then_not_for_a_while(world: World) -> None:
    there = Elsewhere(None)
    memories = node(world, there)
    await keep(memories, "tea")
    there.fails, there.asked = ProviderDown, 0
    for _ in range(5):
        assert [one.lacking for one in await memories.search(ANA, Seeking(query="tea"))] == [NO_VECTORS]
    assert there.asked == 1
    there.fails = None
    world.ambient.advance(PAUSE / 1e6)
    assert [one.lacking for one in await memories.search(ANA, Seeking(query="tea"))] == [""]


async def test_what_is_forgotten_goes_though_the_vectors_of_others_cannot_be_made_again(world: World) -> None:
    there = Elsewhere(None)
    memories = node(world, there)
    kept = await memories.keep(ANA, [Keeping(content=text, thread="t") for text in ("tea", "rain")])
    there.fails = ProviderDown
    assert await memories.forget(ANA, [kept[0].id]) == 1
    assert [one.memory.content for one in await memories.search(ANA, Seeking(query="rain"))] == ["rain"]
    assert (await memories.stats(ANA)).embedded == 0
