"""A mirror is always the beginning of an export, whatever happened to its writer."""
# ruff: noqa: ASYNC230, ASYNC240 - these tests look at small files of their own, and nothing else waits meanwhile

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadExport, DiskFull, NotFound, ReadOnly
from perdure.core.session import codec
from perdure.core.session.ids import SessionId
from perdure.core.session.turns import Message
from perdure.edge.files import DiskFiles
from perdure.services import mirrored
from perdure.services.mirroring import Mirroring
from perdure.waiting import drive
from tests.services.world import World


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mirror.jsonl"


async def mirror(world: World, session: SessionId, path: Path, **more: Any) -> int:
    return await world.mirroring.mirror(session, str(path), world.files, **more)


def forgetful(world: World) -> None:
    """What a new process knows: nothing."""
    world.mirroring = Mirroring(world.sessions)


def events_in(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)[1:]


async def in_step(world: World, session: SessionId, path: Path) -> None:
    """Assert that the file holds exactly the session's events."""
    assert events_in(path.read_bytes()) == (await world.lines(session))[1:-1]


async def test_a_new_mirror_has_the_header_and_every_event(world: World, path: Path) -> None:
    session = await world.story()
    lines = await world.lines(session)
    assert await mirror(world, session, path) == len(lines) - 1
    assert path.read_bytes() == b"".join(lines[:-1])


async def test_mirroring_again_appends_what_is_new_and_touches_nothing_else(world: World, path: Path) -> None:
    session = await world.create()
    await mirror(world, session, path)
    before = path.read_bytes()
    for renewed in (False, True):
        await world.turn(session)
        if renewed:
            forgetful(world)
        assert await mirror(world, session, path) == 7
        assert path.read_bytes().startswith(before)
        await in_step(world, session, path)
        assert await mirror(world, session, path) == 0


async def test_a_finished_mirror_is_an_export(world: World, elsewhere: World, path: Path) -> None:
    session = await world.create()
    await mirror(world, session, path)
    await world.turn(session)
    assert await mirror(world, session, path, finish=True) == 8
    assert await mirror(world, session, path, finish=True) == 0
    report = await elsewhere.take(path.read_bytes().splitlines())
    assert (report.session, report.version) == (session, 9)
    assert await elsewhere.states(session) == await world.states(session)


@pytest.mark.parametrize("renewed", [False, True])
async def test_a_finished_mirror_is_opened_again_when_the_session_goes_on(
    world: World, elsewhere: World, path: Path, renewed: bool
) -> None:
    session = await world.create()
    await mirror(world, session, path, finish=True)
    await world.turn(session)
    if renewed:
        forgetful(world)
    assert await mirror(world, session, path) == 7
    await in_step(world, session, path)
    assert await mirror(world, session, path, finish=True) == 1
    assert (await elsewhere.take(path.read_bytes().splitlines())).version == 9


async def test_wherever_a_crash_tore_the_file_the_mirror_goes_on(world: World, path: Path) -> None:
    session = await world.create()
    await world.turn(session)
    await mirror(world, session, path, finish=True)
    whole = path.read_bytes()
    for length in (*range(40), *range(40, len(whole), 97)):
        path.write_bytes(whole[:length])
        forgetful(world)
        await mirror(world, session, path, finish=True)
        assert path.read_bytes() == whole, length


async def test_a_hole_in_what_was_never_synced_is_filled(world: World, path: Path) -> None:
    session = await world.create()
    await world.turn(session)
    await mirror(world, session, path)
    whole = path.read_bytes()
    start = whole.index(b'"version":3,')
    path.write_bytes(whole[:start] + bytes(500) + whole[start + 500 :])
    forgetful(world)
    await mirror(world, session, path)
    assert path.read_bytes() == whole


async def test_a_long_file_is_not_read_again_from_its_start(
    world: World, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await world.create()
    for _ in range(30):
        await world.turn(session)
    await mirror(world, session, path)
    monkeypatch.setattr(mirrored, "BATCH", 1000)
    await world.turn(session)
    forgetful(world)
    assert await mirror(world, session, path) == 7
    await in_step(world, session, path)


async def test_a_line_longer_than_a_batch_is_written_whole(world: World, path: Path) -> None:
    session = await world.create()
    for text in ("a" * 10, "b" * (3 << 20), "c" * 10):
        await world.append(session, Message(role="user", content=text))
    await mirror(world, session, path)
    await in_step(world, session, path)
    path.write_bytes(path.read_bytes()[: 2 << 20])
    forgetful(world)
    await mirror(world, session, path)
    await in_step(world, session, path)


@pytest.mark.parametrize("renewed", [False, True])
async def test_what_is_redacted_in_the_store_goes_from_the_file(world: World, path: Path, renewed: bool) -> None:
    session = await world.create()
    await world.turn(session, "secret")
    await mirror(world, session, path)
    assert b"secret" in path.read_bytes()
    redactable = [event.version for event in await world.events(session) if event.data.redactable]
    await world.erasure.redact(session, redactable)
    if renewed:
        forgetful(world)
    await mirror(world, session, path, finish=renewed)
    assert b"secret" not in path.read_bytes()
    assert events_in(path.read_bytes())[:10] == (await world.lines(session))[1:11]
    await world.turn(session)
    await mirror(world, session, path)
    await in_step(world, session, path)
    assert not list(path.parent.glob("*.writing"))


async def test_a_redaction_of_something_not_mirrored_yet_needs_no_new_file(world: World, path: Path) -> None:
    session = await world.create()
    await mirror(world, session, path)
    version = await world.append(session, Message(role="user", content="secret"))
    await world.erasure.redact(session, [version])
    assert await mirror(world, session, path) == 2
    await in_step(world, session, path)


@pytest.mark.parametrize("renewed", [False, True])
async def test_what_is_redacted_in_the_parent_goes_from_the_branchs_file(
    world: World, path: Path, renewed: bool
) -> None:
    parent = await world.create()
    version = await world.append(parent, Message(role="user", content="secret"))
    branch = await world.branch(parent)
    await world.turn(branch)
    await mirror(world, branch, path)
    await world.turn(parent)
    assert await mirror(world, branch, path) == 0
    await world.erasure.redact(parent, [version])
    if renewed:
        forgetful(world)
    await mirror(world, branch, path)
    assert b"secret" not in path.read_bytes()
    await in_step(world, branch, path)
    assert await mirror(world, branch, path) == 0


async def test_lines_from_before_a_prune_stay_in_the_file(world: World, elsewhere: World, path: Path) -> None:
    session = await world.create()
    await world.turn(session, "old")
    await mirror(world, session, path)
    await world.turn(session, "new")
    await mirror(world, session, path)
    await world.erasure.prune(session, 6)
    version = await world.append(session, Message(role="user", content="secret"))
    await mirror(world, session, path)
    await world.erasure.redact(session, [version])
    await mirror(world, session, path, finish=True)
    content = path.read_bytes()
    assert b"secret" not in content
    assert [codec.from_json(line)["version"] for line in events_in(content)[:-1]] == list(range(1, version + 2))
    assert (await elsewhere.take(content.splitlines())).events == version + 1
    assert (await elsewhere.verifying.verify(session)).ok


async def test_a_file_that_missed_what_was_pruned_is_refused(world: World, path: Path) -> None:
    session = await world.create()
    await mirror(world, session, path)
    before = path.read_bytes()
    await world.turn(session)
    await world.turn(session)
    await world.erasure.prune(session, 6)
    with pytest.raises(BadExport, match="pruned"):
        await mirror(world, session, path)
    assert path.read_bytes() == before


async def test_a_pruned_session_is_mirrored_from_its_anchor(world: World, elsewhere: World, path: Path) -> None:
    session = await world.create()
    await world.turn(session)
    await world.erasure.prune(session, 2)
    await mirror(world, session, path)
    await world.turn(session)
    forgetful(world)
    await mirror(world, session, path, finish=True)
    await elsewhere.take(path.read_bytes().splitlines())
    assert await elsewhere.states(session) == await world.states(session)


async def test_another_sessions_file_is_refused_and_left_alone(world: World, path: Path) -> None:
    one, other = await world.create(), await world.create()
    await mirror(world, one, path)
    before = path.read_bytes()
    with pytest.raises(BadExport, match=one):
        await mirror(world, other, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello\n", b"hello", b"{}\n", b'{"perdure":"end"}\n', b'{"perdure":"session"}\n'])
async def test_a_file_that_is_something_else_is_refused_and_left_alone(
    world: World, path: Path, content: bytes
) -> None:
    session = await world.create()
    path.write_bytes(content)
    with pytest.raises(BadExport):
        await mirror(world, session, path)
    assert path.read_bytes() == content


async def test_a_file_that_tells_another_history_is_refused(world: World, elsewhere: World, path: Path) -> None:
    session = await world.create()
    await elsewhere.take(await world.lines(session))
    await elsewhere.turn(session)
    await mirror(elsewhere, session, path)
    with pytest.raises(BadExport, match="ahead"):
        await mirror(world, session, path)
    await world.turn(session)
    await world.turn(session)
    with pytest.raises(BadExport, match="another history"):
        await mirror(world, session, path)


async def test_a_session_that_is_not_there_leaves_no_file(world: World, path: Path) -> None:
    with pytest.raises(NotFound):
        await mirror(world, SessionId(world.sessions.fresh_id()), path)
    assert not path.exists()


async def test_a_folder_that_is_not_there_is_said_to_be_missing(world: World, tmp_path: Path) -> None:
    session = await world.create()
    with pytest.raises(NotFound, match="folder"):
        await mirror(world, session, tmp_path / "no" / "mirror.jsonl")
    with pytest.raises(ReadOnly):
        await mirror(world, session, tmp_path)


class Failing(DiskFiles):
    """A disk that fails once it has taken a few writes."""

    def __init__(self, writes: int) -> None:
        self.writes = writes

    async def append(self, path: str, at: int, data: bytes) -> None:
        self.writes -= 1
        if self.writes < 0:
            with open(path, "ab") as file:
                file.write(data[: len(data) // 2])
            raise DiskFull("no space left; free some")
        await super().append(path, at, data)

    async def replace(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        async def until_full() -> AsyncIterator[bytes]:
            async for chunk in chunks:
                yield chunk[:10]
                raise DiskFull("no space left; free some")

        await super().replace(path, until_full())


async def test_a_full_disk_loses_nothing(world: World, path: Path) -> None:
    session = await world.create()
    await world.turn(session, "secret")
    for writes in (0, 1):
        with pytest.raises(DiskFull):
            await world.mirroring.mirror(session, str(path), Failing(writes), finish=True)
    await mirror(world, session, path, finish=True)
    assert path.read_bytes() == b"".join(await world.lines(session))
    before = path.read_bytes()
    await world.erasure.redact(session, await world.versions_of(session, "message"))
    with pytest.raises(DiskFull):
        await world.mirroring.mirror(session, str(path), Failing(0))
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.glob("mirror*")] == [path.name]
    await mirror(world, session, path)
    await in_step(world, session, path)


async def test_a_rewritten_file_keeps_its_mode_and_its_links(world: World, path: Path) -> None:
    session = await world.create()
    version = await world.append(session, Message(role="user", content="secret"))
    await mirror(world, session, path)
    path.chmod(0o600)
    link = path.parent / "link.jsonl"
    link.symlink_to(path)
    await world.erasure.redact(session, [version])
    await mirror(world, session, link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"secret" not in path.read_bytes()


async def test_progress_counts_versions(world: World, path: Path) -> None:
    session = await world.create()
    told: list[tuple[int, int]] = []
    await mirror(world, session, path, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 2)]


def test_it_works_without_an_event_loop(tmp_path: Path) -> None:
    from perdure.stores.volatile import VolatileStore

    async def blocking() -> None:
        world = World(VolatileStore())
        session = await world.story()
        await mirror(world, session, tmp_path / "it.jsonl")
        await in_step(world, session, tmp_path / "it.jsonl")

    drive(blocking())
