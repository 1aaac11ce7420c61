"""Erasing what is in several spaces: wherever it breaks off, the next call finishes it."""

from typing import Any

import pytest

from perdure.core.memory.parts import LETHE, Memory, Source, Space, vault
from perdure.core.memory.requests import Keeping
from perdure.core.memory.sourcing import By
from perdure.core.memory.tracing import in_order
from perdure.services.erasure import Erasure
from perdure.services.memories import Memories
from perdure.services.promoting import Promoting
from perdure.services.sourcing import Sourcing
from tests.services.shelved import remembering
from tests.services.world import World

ANA, DESK = vault("ana"), Space("clade", "desk")
SECRET = "sarsaparilla is brewed at night"


class Crash(Exception):
    """The process dies here."""


async def promoted(memories: Memories, memory: Memory, space: Space, to: Space) -> Memory:
    promoting = Promoting(memories)
    proposal = await promoting.propose(space, memory.id, to=to, ttl=1_000_000)
    reviewed = await promoting.review(to, proposal.id, True)
    return await memories.get(to, reviewed.became)


async def spread(memories: Memories) -> None:
    """Said in a vault, merged with something there, promoted to a clade and on to lethe, and from there back again."""
    (first,) = await memories.keep(ANA, [Keeping(content=SECRET, source=Source(kind="document", uri="doc:1"))])
    (other,) = await memories.keep(ANA, [Keeping(content="tea is fine")])
    merged = Keeping(
        content=f"{SECRET}, tea is fine", source=Source(kind="consolidation"), supersedes=(first.id, other.id)
    )
    (both,) = await memories.keep(ANA, [merged])
    desk = await promoted(memories, both, ANA, DESK)
    lethe = await promoted(memories, desk, DESK, LETHE)
    await promoted(memories, lethe, LETHE, ANA)


async def logs(world: World, memories: Memories) -> bytes:
    lines = [await world.lines(memories.shelves.session_of(space)) for space in (ANA, DESK, LETHE)]
    return b"".join(b"".join(each) for each in lines)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("cut", range(5))
async def test_what_breaks_off_at_any_step_is_finished_by_the_next_call(
    world: World, cut: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = remembering(world.sessions, world.erasure)
    await spread(memories)
    assert SECRET.encode() in await logs(world, memories)
    calls, whole = 0, Erasure.redact

    async def dies(self: Erasure, *words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == cut and not after:
            raise Crash
        outcome = await whole(self, *words, **more)
        if calls == cut:
            raise Crash
        return outcome

    with monkeypatch.context() as patched:
        patched.setattr(Erasure, "redact", dies)
        if cut:
            with pytest.raises(Crash):
                await Sourcing(memories, world.erasure).erase(By(uri="doc:1"))
    anew = remembering(world.sessions, world.erasure)
    await Sourcing(anew, world.erasure).erase(By(uri="doc:1"))
    assert SECRET.encode() not in await logs(world, anew)
    assert (await Sourcing(anew, world.erasure).report(By(uri="doc:1"))).spaces == {}
    assert [one.content for one in (await anew.list(ANA)).items] == ["tea is fine"]


async def test_what_was_promoted_while_it_is_erased_goes_along(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    memories = remembering(world.sessions, world.erasure)
    (first,) = await memories.keep(ANA, [Keeping(content=SECRET, source=Source(kind="document", uri="doc:1"))])
    await promoted(memories, first, ANA, LETHE)
    whole, once = Erasure.redact, [DESK]

    async def beside(self: Erasure, *words: Any, **more: Any) -> Any:
        outcome = await whole(self, *words, **more)
        if once:
            await promoted(memories, first, ANA, once.pop())
        return outcome

    monkeypatch.setattr(Erasure, "redact", beside)
    done = await Sourcing(memories, world.erasure).erase(By(uri="doc:1"))
    assert set(done.spaces) == {"vault/ana", "clade/desk", "lethe"}
    assert SECRET.encode() not in await logs(world, memories)


async def test_with_the_log_of_a_space_goes_what_was_promoted_out_of_it(world: World) -> None:
    memories = remembering(world.sessions, world.erasure)
    (first,) = await memories.keep(ANA, [Keeping(content=SECRET)])
    await promoted(memories, first, ANA, LETHE)
    await memories.keep(LETHE, [Keeping(content="tea is fine")])
    gone = await Sourcing(memories, world.erasure).erase_session(memories.shelves.session_of(ANA))
    assert gone.memories == 2  # the proposal, and what it became
    assert [one.content for one in (await memories.list(LETHE)).items] == ["tea is fine"]


def test_nothing_goes_before_what_was_made_of_it_elsewhere() -> None:
    found = {"vault": {"a", "b", "back"}, "lethe": {"copy"}}
    made = [("b", "a"), ("copy", "b"), ("back", "copy")]
    assert [*in_order(found, made)] == [("vault", {"back"}), ("lethe", {"copy"}), ("vault", {"a", "b"})]
    assert found["vault"] == {"a", "b", "back"}


def test_a_ring_ends_too() -> None:
    assert [*in_order({"one": {"a"}, "two": {"b"}}, [("a", "b"), ("b", "a")])] == [("one", {"a"}), ("two", {"b"})]
    assert [*in_order({"one": {"a", "b"}}, [("a", "b"), ("b", "a")])] == [("one", {"a", "b"})]
