"""Why a memory was moved goes with it when it is forgotten; by itself a move stays, for the memory stands on it."""

from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import RedactionRefused
from perdure.core.memory.parts import Memory, Source, Space, Status, vault
from perdure.core.memory.requests import Changing, Keeping
from perdure.core.memory.sourcing import By
from perdure.core.session.memories import MemoryMoved
from perdure.services.memories import Memories
from perdure.services.scrubbing import Scrubbing
from perdure.services.sourcing import Sourcing
from tests.services.shelved import everything, remembering
from tests.services.world import World

ANA, BEN = vault("ana"), vault("ben")
WHY = "Ada said so to ada@example.com"


@pytest.fixture
def memories(world: World) -> Memories:
    return remembering(world.sessions, world.erasure)


async def kept(memories: Memories, content: str, space: Space = ANA, session: str = "") -> Memory:
    return (await memories.keep(space, [Keeping(content=content, source=Source(session=session))]))[0]


async def told(world: World, memories: Memories, space: Space = ANA) -> bytes:
    """Whatever the log of a space says."""
    return b"".join(event.entry.data for event in await world.events(memories.shelves.session_of(space)))


async def moves(world: World, memories: Memories) -> list[int]:
    return await world.versions_of(memories.shelves.session_of(ANA), MemoryMoved.kind)


async def test_why_a_memory_was_moved_is_forgotten_with_it(
    world: World, elsewhere: World, memories: Memories, tmp_path: Path
) -> None:
    one, other = await kept(memories, "tea"), await kept(memories, "rain")
    for status in (Status.ARCHIVED, Status.LIVE, Status.QUARANTINED):
        await memories.move(ANA, [one.id], status, WHY)
    await memories.move(ANA, [other.id], Status.ARCHIVED, "it rains no more")
    session, fresh = memories.shelves.session_of(ANA), remembering(world.sessions, world.erasure)
    assert (await told(world, memories)).count(b"Ada") == 3
    assert await memories.forget(ANA, [one.id]) == 1
    assert b"Ada" not in await told(world, memories)
    assert b"it rains no more" in await told(world, memories)
    assert b"Ada" not in b"".join(await world.lines(session))
    assert (await world.verifying.verify(session)).ok
    shelf = (await memories.shelves.look(ANA)).shelf
    assert everything(shelf) == everything((await fresh.shelves.look(ANA)).shelf)
    assert (await fresh.get(ANA, other.id)).status is Status.ARCHIVED
    assert await fresh.forget(ANA, [one.id]) == 0
    await elsewhere.take(await world.lines(session))
    assert (await elsewhere.verifying.verify(session)).ok
    assert [event.redacted for event in await elsewhere.events(session)] == [
        event.redacted for event in await world.events(session)
    ]
    await world.store.close()
    assert not any(b"Ada" in content for content in files(tmp_path))


def files(folder: Path) -> list[bytes]:
    """What lies there, whole."""
    return [file.read_bytes() for file in folder.iterdir()]


async def test_why_a_source_was_quarantined_is_erased_with_what_came_from_it(world: World, memories: Memories) -> None:
    sourcing, bad = Sourcing(memories, world.erasure), By(session="bad")
    for space in (ANA, BEN):
        await kept(memories, "tea is poison", space, "bad")
        await kept(memories, "tea is fine", space, "good")
    await sourcing.quarantine(bad, WHY)
    assert (await sourcing.erase(bad)).memories == 2
    for space in (ANA, BEN):
        assert b"Ada" not in await told(world, memories, space)
        assert [memory.content for memory in (await memories.list(space)).items] == ["tea is fine"]


async def test_why_others_came_back_stays_with_them(world: World, memories: Memories) -> None:
    old = await kept(memories, "Ana lives in Lisbon")
    (new,) = await memories.keep(
        ANA, [Keeping(content="Ana moved to Porto", source=Source(session="bad"), supersedes=(old.id,))]
    )
    await memories.move(ANA, [new.id], Status.ARCHIVED, WHY)
    await memories.forgetting.forget_source("bad", "the source was wrong")
    for each in (memories, remembering(world.sessions, world.erasure)):
        assert [(one.id, one.status) for one in (await each.shelves.look(ANA)).shelf] == [(old.id, Status.LIVE)]
    assert b"Ada" not in await told(world, memories)
    (left,) = [event.data for event in await world.events(memories.shelves.session_of(ANA)) if is_move(event.data)]
    assert (left.id, left.reason) == (old.id, "the source was wrong")


def is_move(data: Any) -> bool:
    return isinstance(data, MemoryMoved) and bool(data.id)


async def test_what_is_moved_while_it_is_forgotten_says_no_longer_why(world: World, memories: Memories) -> None:
    one = await kept(memories, "tea")
    other, whole, meddled = remembering(world.sessions, world.erasure), world.erasure.redact, False

    async def redact(*words: Any, **more: Any) -> Any:
        nonlocal meddled
        if not meddled:
            meddled = True
            await other.move(ANA, [one.id], Status.ARCHIVED, WHY)
        return await whole(*words, **more)

    world.erasure.redact = redact  # type: ignore[method-assign]
    await memories.forget(ANA, [one.id])
    assert meddled
    assert b"Ada" not in await told(world, memories)


async def test_a_move_is_not_taken_out_of_the_log_while_its_memory_stands_on_it(
    world: World, memories: Memories
) -> None:
    one = await kept(memories, "tea")
    await memories.update(ANA, one.id, Changing(importance=0.9))
    await memories.move(ANA, [one.id], Status.QUARANTINED, WHY)
    session, (version,) = memories.shelves.session_of(ANA), await moves(world, memories)
    with pytest.raises(RedactionRefused, match="forget the memory") as refusal:
        await world.erasure.redact(session, [version - 1, version])
    assert (refusal.value.version, refusal.value.memory) == (version, one.id)
    assert (await memories.get(ANA, one.id)).status is Status.QUARANTINED
    scrubbed = await Scrubbing(world.sessions, world.erasure).scrub(session, "pii")
    assert (scrubbed.found, scrubbed.redacted, scrubbed.kept) == (1, 0, 1)
    for each in (memories, remembering(world.sessions, world.erasure)):
        assert (await each.get(ANA, one.id)).status is Status.QUARANTINED
