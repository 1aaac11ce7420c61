"""Notes of the server's own: written once whoever else writes, believed only when fresh."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.errors import Damaged, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session.event import Draft
from perdure.core.session.ids import named
from perdure.core.session.lifecycle import Phase
from perdure.core.session.recording import Noted
from perdure.services import notes
from perdure.services.notes import BY, Kept, Notes
from tests.services.nodes import Node, Secrets


class Added(msgspec.Struct, frozen=True, tag="added"):
    word: str


class All(msgspec.Struct, frozen=True, tag="all"):
    words: tuple[str, ...]


def fold(book: tuple[str, ...], entry: Added | All) -> tuple[str, ...]:
    return entry.words if isinstance(entry, All) else (*book, entry.word)


WORDS: Kept[Any, Any] = Kept((), fold, lambda data: msgspec.convert(data, Added | All), All, lambda book, _: All(book))
SESSION = named("_perdure", "words")


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    made = [Node(tmp_path, Secrets(), name) for name in ("one", "two")]
    yield made
    for node in made:
        await node.store.close()


@pytest.fixture
def kept(nodes: list[Node]) -> list[Notes[Any, Any]]:
    return [Notes(node.system, "words", WORDS) for node in nodes]


async def test_before_anything_is_written_the_book_is_blank(kept: list[Notes[Any, Any]]) -> None:
    assert (await kept[0].fresh()).book == ()


async def test_many_writers_on_two_nodes_each_decide_on_what_stands(kept: list[Notes[Any, Any]]) -> None:
    async def count(book: Notes[Any, Any]) -> None:
        await book.decided(lambda words: [Added(str(len(words)))])

    await asyncio.gather(*(count(kept[number % 2]) for number in range(20)))
    for book in kept:
        assert (await book.fresh()).book == tuple(map(str, range(20)))


async def test_what_was_decided_on_an_old_book_is_not_written(kept: list[Notes[Any, Any]]) -> None:
    blank, old = await kept[0].fresh(), await kept[1].fresh()
    await kept[0].add([Added("a")], blank)
    with pytest.raises(VersionConflict):
        await kept[1].add([Added("b")], old)
    seen = await kept[1].fresh()
    await kept[0].add([Added("c")], await kept[0].fresh())
    with pytest.raises(VersionConflict):
        await kept[1].add([Added("d")], seen)
    assert (await kept[1].fresh()).book == ("a", "c")


async def test_deciding_nothing_writes_nothing(kept: list[Notes[Any, Any]]) -> None:
    assert await kept[0].decided(lambda _: []) == ()
    assert (await kept[0].fresh()).version == 0


@pytest.mark.parametrize("page", [1, 4, 64])
async def test_sums_change_nothing(kept: list[Notes[Any, Any]], monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    monkeypatch.setattr(notes, "EVERY", 7)
    monkeypatch.setattr(notes, "_PAGE", page)
    for number in range(40):
        after = await kept[0].decided(lambda words: [Added(str(len(words)))])
        assert after == tuple(map(str, range(number + 1)))
        if number % 10 == 9:
            assert (await kept[1].fresh()).book == after
    seen = await kept[0].fresh()
    assert seen.version - seen.summed < 10


async def test_notes_never_end_by_themselves(nodes: list[Node], kept: list[Notes[Any, Any]]) -> None:
    await kept[0].decided(lambda _: [Added("a")])
    loaded = await nodes[0].system.loader.load(SESSION)
    assert loaded.state.phase is Phase.ACTIVE
    limits = loaded.state.origin.config.timeouts
    assert limits is not None
    assert {limits.idle, limits.absolute, limits.max_active, limits.grace, limits.expiry} == {0}


async def test_notes_of_others_are_passed_over_and_unreadable_ones_are_damage(
    nodes: list[Node], kept: list[Notes[Any, Any]]
) -> None:
    await kept[0].decided(lambda _: [Added("a")])
    for draft in (Draft(Noted(by="another", about="added", data={"type": "odd"})), Draft(Noted(by=BY, about="added"))):
        await nodes[0].system.handle(SESSION, do.Append(drafts=(draft,)))
    assert (await kept[1].fresh()).book == ("a",)
    odd = Draft(Noted(by=BY, about="odd", data={"type": "odd"}))
    await nodes[0].system.handle(SESSION, do.Append(drafts=(odd,)))
    with pytest.raises(Damaged):
        await kept[1].fresh()
