"""Views that adapters keep of a log: they fold every event once, and start anew when the log is not what it was."""

from collections.abc import Sequence
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.adapters.parts.following import Following
from perdure.events import Event, Noted


class Seen:
    """Every note, in order."""

    def __init__(self) -> None:
        self.data: list[Any] = []

    def fold(self, events: Sequence[Event]) -> None:
        self.data += [event.data.data for event in events if isinstance(event.data, Noted)]


@pytest.fixture
async def db() -> Any:
    async with await perdure.aopen(":memory:") as opened:
        yield opened


async def note(session: perdure.AsyncSession, *data: Any) -> int:
    return await session.record([Noted(by="here", data=item) for item in data])


async def test_a_view_follows_its_log(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen)
    assert await following.present(db.named("a")) is None
    session = await db.create(name="a")
    await note(session, 1, 2)
    view = await following.present(session)
    await note(session, 3)
    assert await following.present(session) is view
    assert view is not None
    assert view.data == [1, 2, 3]
    assert await following.at(session) == (view, await session.version())


async def test_what_was_redacted_is_not_seen_any_more(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen)
    session = await db.create(name="a")
    version = await note(session, 1, 2)
    await following.present(session)
    await session.redact(version)
    view = await following.present(session)
    assert view is not None
    assert view.data == [1, None]


async def test_a_session_made_anew_under_its_name_is_another_one(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen)
    await note(await db.create(name="a"), 1, 2)
    await following.present(db.named("a"))
    await db.named("a").erase()
    assert await following.present(db.named("a")) is None
    await note(await db.create(name="a"), 9)
    view = await following.present(db.named("a"))
    assert view is not None
    assert view.data == [9]


async def test_a_pruned_log_shows_what_is_left(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen)
    session = await db.create(name="a")
    first = await note(session, 1)
    await note(session, 2)
    await session.prune(first)
    view = await following.present(session)
    assert view is not None
    assert view.data == [2]


async def test_only_the_views_used_last_are_kept(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen, kept=2)
    for name in "abc":
        await note(await db.create(name=name), name)
    views = {name: await following.present(db.named(name)) for name in "abc"}
    assert await following.present(db.named("c")) is views["c"]
    again = await following.present(db.named("a"))
    assert again is not views["a"]
    assert again is not None
    assert again.data == ["a"]


async def test_a_view_is_had_without_reading_where_it_is_known_to_stand(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen)
    session = await db.create(name="a")
    row = await session.info()
    assert following.standing(row.session, row.created_at, row.version) is None
    view = await following.present(session)
    assert following.standing(row.session, row.created_at, row.version) is view
    assert following.standing(row.session, row.created_at + 1, row.version) is None
    await note(session, 1)
    assert following.standing(row.session, row.created_at, row.version + 1) is None


async def test_what_one_has_just_written_is_not_read_again(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen)
    session = await db.create(name="a")
    await note(session, 1)
    view = await following.present(session)
    following.take(session.id, await session.recorded(Noted(by="here", data=2)))
    assert view is not None
    assert view.data == [1, 2]
    await note(session, 3)
    following.take(session.id, await session.recorded(Noted(by="here", data=4)))
    assert view.data == [1, 2]
    assert await following.present(session) is view
    assert view.data == [1, 2, 3, 4]


async def test_who_writes_upon_what_was_last_seen_is_told_when_it_is_stale(db: perdure.AsyncPerdure) -> None:
    following = Following(Seen)
    session = await db.create(name="a")
    assert following.recent(session.id) is None
    await note(session, 1)
    await following.present(session)
    seen = following.recent(session.id)
    assert seen is not None
    events = await session.recorded(Noted(by="here", data=2), expected=seen[2])
    following.take(session.id, events)
    assert following.recent(session.id) == (seen[0], events[-1].version, events[-1].digest)
    with pytest.raises(errors.VersionConflict):
        await session.recorded(Noted(by="here", data=3), expected=seen[2])
    await session.erase()
    await note(await db.create(name="a"), 1, 2)  # another log, just as long
    assert await session.version() == events[-1].version
    with pytest.raises(errors.VersionConflict):
        await session.recorded(Noted(by="here", data=3), expected=events[-1].digest)
