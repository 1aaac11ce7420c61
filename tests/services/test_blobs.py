"""Blobs through the services: streamed in and out, kept once, proven, spared while needed, and gone afterwards."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.core.errors import (
    BadCursor,
    BadExport,
    BlobMissing,
    Invalid,
    Refused,
    StoreClosed,
    Tampered,
    TooLarge,
)
from perdure.core.session.refs import blob_ref
from perdure.core.session.turns import Message
from perdure.core.session.values import Ref
from perdure.ports.blobs import CHUNK, Collected, Note
from perdure.services.blobs import GRACE, UPLOAD_GRACE, Blobs
from perdure.stores.blobs import _check
from perdure.stores.packing import squeeze
from perdure.stores.sqlite import SqliteStore
from tests.services.conftest import open_store
from tests.services.world import World

DAY = GRACE // 1_000_000
BIG = b"".join(number.to_bytes(4, "big") for number in range(190_000))  # not quite three chunks, no two alike
NOTHING = Note()


class Pieces:
    """A source that gives what it is told to, or raises it."""

    def __init__(self, *pieces: Any, repeatable: bool = False, size: int | None = None) -> None:
        self._pieces = pieces
        self.repeatable = repeatable
        self.size = size
        self.read = 0

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        self.read += 1
        for piece in self._pieces:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


@pytest.fixture
def blobs(world: World) -> Blobs:
    return Blobs(world.sessions)


def pointing(*found: Ref) -> Message:
    return Message(role="user", content=["look at", *found])


async def kept(world: World) -> Collected:
    """What there is to collect when no grace is given, an hour later."""
    world.ambient.advance(UPLOAD_GRACE // 1_000_000 + 1)
    return await Blobs(world.sessions).collect(0)


NONE_LEFT = Collected(blobs=0, bytes=0, uploads=0)


# ── in and out ──


@pytest.mark.parametrize("cut", [1000, CHUNK - 1, CHUNK, CHUNK + 1, len(BIG)])
async def test_content_comes_out_as_it_went_in_however_it_was_cut(blobs: Blobs, cut: int) -> None:
    pieces = [BIG[start : start + cut] for start in range(0, len(BIG), cut)]
    ref = await blobs.put(Pieces(*pieces), NOTHING)
    assert ref == blob_ref(sha256(BIG).digest())
    assert await blobs.get(ref) == BIG
    assert b"".join([piece async for piece in await blobs.open(ref)]) == BIG


@pytest.mark.parametrize("pieces", [(), (b"",), (b"", b"")])
async def test_empty_content_is_content(blobs: Blobs, pieces: tuple[bytes, ...]) -> None:
    ref = await blobs.put(Pieces(*pieces), NOTHING)
    assert (await blobs.get(ref), (await blobs.stat(ref)).size) == (b"", 0)
    assert [piece async for piece in await blobs.open(ref)] == []
    assert (await blobs.verify()).ok


@given(data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reading_anywhere_is_like_reading_a_file(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    asyncio.run(_read_anywhere(tmp_path_factory.mktemp("anywhere"), data))


async def _read_anywhere(folder: Path, data: st.DataObject) -> None:
    world = World(open_store(data.draw(st.sampled_from(["sqlite", "volatile"])), folder))
    blobs, file = Blobs(world.sessions), BytesIO(BIG)
    reader = await blobs.open(await blobs.put(Pieces(BIG), NOTHING))
    near = st.sampled_from([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, len(BIG) - 1, len(BIG), len(BIG) + 5])
    places = near | st.integers(0, len(BIG) + 10)
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            whence = data.draw(st.sampled_from([0, 2]))
            place = data.draw(places) * (1 if whence == 0 else -1)
            if whence == 2 and place < -len(BIG):
                continue
            assert reader.seek(place, whence) == file.seek(place, whence)
        count = data.draw(places | st.just(-1))
        assert await reader.read(count) == file.read(count)
        assert reader.tell() == file.tell()
    await world.store.close()


@pytest.mark.parametrize(("offset", "whence"), [(-1, 0), (0, 3), (0, -1), (1.5, 0), ("0", 0), (-len(BIG) - 1, 2)])
async def test_a_place_that_is_none_is_refused(blobs: Blobs, offset: Any, whence: Any) -> None:
    reader = await blobs.open(await blobs.put(Pieces(BIG), NOTHING))
    with pytest.raises(Invalid):
        reader.seek(offset, whence)
    assert reader.tell() == 0


async def test_a_range_costs_the_chunks_it_lies_in(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = await blobs.open(await blobs.put(Pieces(BIG), NOTHING))
    asked: list[int] = []
    whole = reader._blobs.read

    async def read(blob: Any, number: int) -> bytes:
        asked.append(number)
        return await whole(blob, number)

    monkeypatch.setattr(reader._blobs, "read", read)
    reader.seek(2 * CHUNK + 10)
    assert await reader.read(100) == BIG[2 * CHUNK + 10 : 2 * CHUNK + 110]
    assert asked == [2]


async def test_the_same_content_is_written_once(world: World, blobs: Blobs) -> None:
    once = await blobs.put(Pieces(BIG, repeatable=True), Note("text/plain", "a.txt"))
    source = Pieces(BIG, repeatable=True)
    assert await blobs.put(source, Note("", "b.txt")) == once
    assert source.read == 1  # it was only hashed
    assert await blobs.put(Pieces(BIG), NOTHING) == once
    info = await blobs.stat(once)
    assert (info.media_type, info.name, info.size, info.used) == ("text/plain", "b.txt", len(BIG), False)
    assert await kept(world) == Collected(blobs=1, bytes=len(BIG), uploads=0)


async def test_progress_tells_of_every_chunk(blobs: Blobs) -> None:
    told: list[tuple[int, int]] = []
    await blobs.put(Pieces(BIG, size=len(BIG)), NOTHING, progress=lambda *both: told.append(both))
    assert told == [(min(CHUNK * n, len(BIG)), len(BIG)) for n in (1, 2, 3)]
    await blobs.put(Pieces(b"of unknown size"), NOTHING, progress=lambda *both: told.append(both))
    assert told[-1] == (15, 0)


# ── what goes wrong ──


class Spilt(Exception):
    """The source broke."""


@pytest.mark.parametrize("before", [(), (b"x",), (BIG,), (BIG, BIG, BIG)])
async def test_a_source_that_breaks_leaves_nothing_behind(
    world: World, blobs: Blobs, before: tuple[bytes, ...]
) -> None:
    with pytest.raises(Spilt):
        await blobs.put(Pieces(*before, Spilt()), NOTHING)
    assert await kept(world) == NONE_LEFT
    assert (await blobs.page(10)).items == ()


@pytest.mark.parametrize("piece", ["text", None, 5, ["list"]])
async def test_content_that_is_not_bytes_is_refused(world: World, blobs: Blobs, piece: Any) -> None:
    with pytest.raises(Invalid, match="binary mode"):
        await blobs.put(Pieces(b"x" * CHUNK, piece), NOTHING)
    assert await kept(world) == NONE_LEFT


async def test_a_cancelled_put_leaves_nothing_behind(world: World, blobs: Blobs) -> None:
    reached, forever = asyncio.Event(), asyncio.Event()

    class Stuck(Pieces):
        async def pieces(self) -> AsyncGenerator[bytes, None]:
            for _ in range(5):
                yield b"x" * CHUNK
            reached.set()
            await forever.wait()

    task = asyncio.create_task(blobs.put(Stuck(), NOTHING))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await kept(world) == NONE_LEFT


async def test_content_that_is_not_the_expected_is_refused(world: World, blobs: Blobs) -> None:
    for repeatable in (True, False):
        with pytest.raises(BadExport, match="damaged on its way"):
            await blobs.put(Pieces(b"other", repeatable=repeatable), NOTHING, expected=sha256(b"one").digest())
    assert await kept(world) == NONE_LEFT


async def test_more_than_the_limit_is_refused(world: World, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.services.blobs.MAX_SIZE", len(BIG) - 1)
    with pytest.raises(TooLarge):
        await blobs.put(Pieces(BIG), NOTHING)
    assert await kept(world) == NONE_LEFT


async def test_getting_is_bounded_and_streaming_is_not(blobs: Blobs) -> None:
    ref = await blobs.put(Pieces(BIG), NOTHING)
    with pytest.raises(TooLarge, match="in pieces"):
        await blobs.get(ref, limit=len(BIG) - 1)
    assert await blobs.get(ref, limit=len(BIG)) == BIG


@pytest.mark.parametrize("wrong", [None, b"", 5, "perdure:blob/", Ref(uri="s3://b/k", sha256=bytes(32)), object()])
async def test_what_is_no_ref_to_a_blob_is_refused(blobs: Blobs, wrong: Any) -> None:
    for ask in (blobs.open, blobs.get, blobs.stat):
        with pytest.raises(Invalid, match="points to no blob"):
            await ask(wrong)


async def test_a_foreign_blob_looks_like_none(world: World, blobs: Blobs) -> None:
    other = Blobs(World(world.store, seed=b"other", tenant="other").sessions)
    ref = await other.put(Pieces(b"theirs"), NOTHING)
    never = blob_ref(bytes(32))
    for ask in (blobs.open, blobs.get, blobs.stat):
        said = []
        for wanted in (ref, never):
            with pytest.raises(BlobMissing) as refusal:
                await ask(wanted)
            said.append(refusal.value.message.replace(wanted.sha256.hex(), "…"))
        assert said[0] == said[1]
    assert (await blobs.page(10)).items == ()
    world.ambient.advance(DAY)
    assert await blobs.collect(0) == NONE_LEFT
    assert await other.get(ref) == b"theirs"


async def test_a_store_that_keeps_no_blobs_says_so(world: World) -> None:
    class Plain:
        """A store without blobs."""

    world.sessions.store = Plain()  # type: ignore[assignment]
    with pytest.raises(Refused, match="keeps no blobs"):
        Blobs(world.sessions)


async def test_a_closed_store_says_so(world: World, blobs: Blobs) -> None:
    ref = await blobs.put(Pieces(BIG), NOTHING)
    reader = await blobs.open(ref)
    await world.store.close()
    for attempt in (blobs.put(Pieces(b"x"), NOTHING), blobs.get(ref), reader.read(1), blobs.page(1), blobs.collect()):
        with pytest.raises(StoreClosed):
            await attempt


async def test_a_bad_page_is_refused(blobs: Blobs) -> None:
    for limit in (0, 1001, -1, "5", True):
        with pytest.raises(Invalid):
            await blobs.page(limit)  # type: ignore[arg-type]
    for cursor in ("", "x", "AAAA", 5, "é" * 40):
        with pytest.raises(BadCursor):
            await blobs.page(5, cursor)  # type: ignore[arg-type]


async def test_pages_go_through_all_blobs(world: World, blobs: Blobs) -> None:
    put = []
    for number in range(5):
        put.append(await blobs.put(Pieces(bytes([number])), Note("", f"{number}")))
        world.ambient.advance(1)
    session = await world.create()
    await world.append(session, pointing(put[2]))
    found, cursor = [], None
    while True:
        page = await blobs.page(2, cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert [(info.ref, info.name) for info in found] == [(put[n], str(n)) for n in (4, 3, 2, 1, 0)]
    assert [info.used for info in found] == [False, False, True, False, False]


# ── staying and going ──


async def test_a_ref_may_be_used_a_long_pause_after_the_put(world: World, blobs: Blobs) -> None:
    session = await world.create()
    ref = await blobs.put(Pieces(BIG), NOTHING)
    world.ambient.advance(DAY - 1)
    assert await blobs.collect() == NONE_LEFT
    await world.append(session, pointing(ref))
    world.ambient.advance(100 * DAY)
    assert await blobs.collect() == NONE_LEFT
    assert await blobs.get(ref) == BIG


async def test_too_late_is_an_error_that_says_what_to_do(world: World, blobs: Blobs) -> None:
    session = await world.create()
    ref = await blobs.put(Pieces(BIG), NOTHING)
    world.ambient.advance(DAY)
    assert (await blobs.collect()).blobs == 1
    version = (await world.sessions.log.head(session)).row.version
    with pytest.raises(BlobMissing, match="put the content again"):
        await world.append(session, pointing(ref))
    assert (await world.sessions.log.head(session)).row.version == version
    assert await blobs.put(Pieces(BIG), NOTHING) == ref
    await world.append(session, pointing(ref))


async def test_a_put_of_what_is_there_starts_its_grace_anew(world: World, blobs: Blobs) -> None:
    ref = await blobs.put(Pieces(BIG, repeatable=True), NOTHING)
    world.ambient.advance(DAY - 1)
    await blobs.put(Pieces(BIG, repeatable=True), NOTHING)
    world.ambient.advance(DAY - 1)
    assert await blobs.collect() == NONE_LEFT
    world.ambient.advance(1)
    assert (await blobs.collect()).blobs == 1
    with pytest.raises(BlobMissing):
        await blobs.get(ref)


async def test_no_grace_spares_an_upload_under_way(world: World, blobs: Blobs) -> None:
    class Sweeping(Pieces):
        async def pieces(self) -> AsyncGenerator[bytes, None]:
            for number in range(9):
                assert await blobs.collect(0) == NONE_LEFT
                world.ambient.advance(UPLOAD_GRACE // 1_000_000 // 10)
                yield bytes([number]) * CHUNK

    ref = await blobs.put(Sweeping(), NOTHING)
    assert await blobs.get(ref) == b"".join(bytes([number]) * CHUNK for number in range(9))


async def test_an_upload_that_was_given_up_on_says_so(world: World, blobs: Blobs) -> None:
    class Sleeping(Pieces):
        async def pieces(self) -> AsyncGenerator[bytes, None]:
            yield b"x" * (6 * CHUNK)
            world.ambient.advance(2 * DAY)
            assert (await blobs.collect()).uploads == 1
            yield b"y"

    with pytest.raises(BlobMissing, match="put the content again"):
        await blobs.put(Sleeping(), NOTHING)
    assert await kept(world) == NONE_LEFT


@pytest.mark.parametrize("grace", [-1, 1 << 63])
async def test_a_grace_out_of_range_is_refused(blobs: Blobs, grace: int) -> None:
    with pytest.raises(Invalid, match="grace"):
        await blobs.collect(grace)


async def test_vars_results_and_metadata_keep_blobs_alive(world: World, blobs: Blobs) -> None:
    found = [await blobs.put(Pieces(bytes([number])), NOTHING) for number in range(4)]
    first = await world.create(metadata={"logo": found[0]}, vars={"at": [found[1]]})
    await world.turn(first, {"result": found[2]})
    branch = await world.branch(first)
    await world.set_vars(branch, {"own": found[3]})
    assert (await kept(world)).blobs == 0
    await world.erasure.erase(first)
    assert (await kept(world)).blobs == 0
    assert await blobs.of_session(branch) == tuple(found)
    await world.erasure.erase(branch)
    assert (await kept(world)).blobs == 4


async def test_an_imported_session_keeps_blobs_that_come_after_it(world: World, elsewhere: World, blobs: Blobs) -> None:
    session = await world.create()
    ref = await blobs.put(Pieces(BIG), NOTHING)
    await world.append(session, pointing(ref))
    await elsewhere.take(await world.lines(session))
    there = Blobs(elsewhere.sessions)
    report = await there.verify()
    assert [problem.place for problem in report.problems] == ["blob"]
    assert str(session) in report.problems[0].what
    await there.put(Pieces(await blobs.get(ref)), NOTHING)
    assert (await kept(elsewhere)).blobs == 0
    assert (await there.verify()).ok
    assert await there.of_session(session) == (ref,)


async def test_an_append_goes_through_while_an_upload_is_under_way(world: World, blobs: Blobs) -> None:
    """The lock is not held between chunks: else this would wait for itself."""
    session = await world.create()
    appended: list[int] = []

    class Between(Pieces):
        async def pieces(self) -> AsyncGenerator[bytes, None]:
            for number in range(12):
                yield bytes([number]) * CHUNK
                appended.append(await world.append(session, Message(role="user", content=str(number))))

    await blobs.put(Between(), NOTHING)
    assert len(appended) == 12


async def test_several_writers_at_once_each_get_theirs(world: World, blobs: Blobs) -> None:
    contents = [bytes([number]) * (2 * CHUNK + number) for number in range(8)]
    found = await asyncio.gather(*(blobs.put(Pieces(content[:7], content[7:]), NOTHING) for content in contents * 2))
    assert found[:8] == found[8:]
    assert [await blobs.get(ref) for ref in found[:8]] == contents
    assert (await kept(world)).blobs == 8


# ── proving ──


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[World]:
    store = open_store("sqlite", tmp_path, "file")
    yield World(store)
    await store.close()


def change(world: World, statement: str, *values: Any) -> list[Any]:
    assert isinstance(world.store, SqliteStore)
    connection = apsw.Connection(world.store.path)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


async def test_content_that_was_exchanged_with_care_is_found_at_the_end(file: World) -> None:
    """In the clear a chunk can be forged together with its checksum; the hash of the whole cannot."""
    blobs = Blobs(file.sessions)
    ref = await blobs.put(Pieces(BIG), NOTHING)
    ((id,),) = change(file, "SELECT blob_id FROM blob")
    forged = b"forged" + BIG[6:CHUNK]
    change(file, "UPDATE blob_chunk SET body = ? WHERE number = 0", squeeze(_check(id, 0, False, forged) + forged))
    reader = await blobs.open(ref)
    assert (await reader.read(6), (await reader.read(2 * CHUNK - 6))[-1:]) == (
        b"forged",
        BIG[2 * CHUNK - 1 : 2 * CHUNK],
    )
    with pytest.raises(Tampered, match="not what was put"):
        await reader.read(1)
    with pytest.raises(Tampered):
        await blobs.get(ref)
    assert not (await blobs.verify()).ok
    await blobs.put(Pieces(BIG), NOTHING, replace=True)
    assert await blobs.get(ref) == BIG


DAMAGES: dict[str, str] = {
    "a chunk is gone": "DELETE FROM blob_chunk WHERE number = 1",
    "a chunk was changed": "UPDATE blob_chunk SET body = zeroblob(9) WHERE number = 0",
    "the card was changed": "UPDATE blob SET card = x'0001'",
    "the row is gone, with its use left": "DELETE FROM blob",
    "the use is gone": "DELETE FROM blob_use",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_verifying_finds(file: World, damage: str) -> None:
    blobs = Blobs(file.sessions)
    session = await file.create()
    await file.append(session, pointing(await blobs.put(Pieces(BIG), NOTHING)))
    assert (await file.verifying.verify_store()).ok
    change(file, DAMAGES[damage])
    report = await file.verifying.verify_store()
    told = [*report.problems, *(problem for damaged in report.damaged for problem in damaged.problems)]
    assert not report.ok
    assert {problem.place for problem in told} == {"blob"}
    assert all(problem.advice for problem in told)


async def test_verifying_passes_over_what_is_collected_meanwhile(file: World, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = Blobs(file.sessions)
    await blobs.put(Pieces(BIG), NOTHING)
    whole = blobs._blobs.page

    async def page(*arguments: Any) -> Any:
        found = await whole(*arguments)
        await kept(file)
        return found

    monkeypatch.setattr(blobs._blobs, "page", page)
    report = await blobs.verify()
    assert (report.ok, report.blobs) == (True, 1)
