"""Hooks of the clean-up have a time-out: one that takes longer has failed, and is tried again as any that fails."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.core.errors import DeliveryFailed, Invalid
from perdure.core.session.cleanup import CleanupFailed
from perdure.edge.session import AsyncSession
from perdure.services import webhooks
from perdure.services.cleanup import TIMEOUT, CleanupCall
from perdure.services.timeouts import LEASE
from perdure.services.webhooks import Webhooks, webhook
from perdure.testing import FixedAmbient
from tests.services.conftest import open_store
from tests.services.test_cleanup import SECRET, notes, sleeping
from tests.services.test_timeouts import LIMITS, Place, did, phase

SHORT = 0.02


@pytest.fixture
async def place(engine: str, tmp_path: Path) -> AsyncIterator[Place]:
    store = open_store(engine, tmp_path)
    yield Place(store)
    await store.close()


class Hanging:
    """A plain hook that blocks until it is released."""

    def __init__(self) -> None:
        self.release, self.calls = threading.Event(), 0
        self.ended = threading.Semaphore(0)

    def __call__(self, session: Any, call: CleanupCall) -> None:
        self.calls += 1
        self.release.wait()
        self.ended.release()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hook = Hanging()
    yield hook
    hook.release.set()


async def failures(session: AsyncSession) -> list[tuple[str, str | None]]:
    return [
        (item.data.hook, item.data.error) for item in await session.events() if isinstance(item.data, CleanupFailed)
    ]


def test_a_session_stays_its_sweepers_for_as_long_as_a_hook_may_take() -> None:
    assert TIMEOUT <= LEASE / 2  # a lease of which less than half is left is put off before a hook is called


async def test_a_plain_hook_that_hangs_has_failed_and_stops_nobody(place: Place, hanging: Hanging) -> None:
    session, other = await sleeping(place), await place.db.create()
    place.db.cleanup("analytics", hanging, name="slow", timeout=SHORT)
    report = await place.sweep()
    assert did(report) == [("waiting", "grace")]
    assert report.done[0].error == "analytics/slow: it took longer than 0.02 seconds"
    assert await failures(session) == [("slow", "it took longer than 0.02 seconds")]
    assert await phase(session) == "suspended"
    assert await phase(other) == "active"


async def test_it_is_not_called_again_while_it_runs_and_counts_once_it_is_through(
    place: Place, hanging: Hanging
) -> None:
    session = await sleeping(place)
    place.db.cleanup("analytics", hanging, name="slow", timeout=SHORT)
    await place.sweep()
    assert did(await place.sweep(60)) == [("waiting", "grace")]
    assert hanging.calls == 1
    hanging.release.set()
    (ticket,) = place.db._services.cleanup._attempts._late.values()
    await asyncio.to_thread(ticket.wait)
    assert did(await place.sweep(120)) == [("ended", "grace")]
    assert (hanging.calls, await failures(session)) == (1, [("slow", "it took longer than 0.02 seconds")])
    assert ("analytics", "slow", None) in await notes(session)


async def test_a_hook_that_hangs_for_good_is_given_up(place: Place, hanging: Hanging) -> None:
    session = await sleeping(place)
    place.db.cleanup("analytics", hanging, name="slow", timeout=SHORT)
    await place.sweep()
    assert did(await place.sweep(3600, give_up=3600)) == [("ended", "grace")]
    assert ("analytics", "slow", "it took longer than 0.02 seconds") in await notes(session)


async def test_an_async_hook_that_hangs_is_cancelled_and_called_again(place: Place) -> None:
    session, cancelled, keys = await sleeping(place), [], []

    async def hangs(_: AsyncSession, call: CleanupCall) -> None:
        keys.append(call.key)
        if len(keys) > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(call.key)

    place.db.cleanup("promote", hangs, timeout=SHORT)
    assert did(await place.sweep()) == [("waiting", "grace")]
    assert cancelled == keys
    assert did(await place.sweep(60)) == [("ended", "grace")]
    assert (len(keys), len(set(keys))) == (2, 1)
    assert await phase(session) == "terminated"


async def test_a_hook_that_cancels_itself_has_failed(place: Place) -> None:
    session = await sleeping(place)

    async def gives_up(_: AsyncSession, call: CleanupCall) -> None:
        raise asyncio.CancelledError

    place.db.cleanup("promote", gives_up, timeout=None)
    assert did(await place.sweep()) == [("waiting", "grace")]
    assert "cancelled from within" in str(await failures(session))


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_blocking_program_does_not_hang_either(hanging: Hanging, colour: str) -> None:
    async def later(session: perdure.Session, call: CleanupCall) -> None:
        await asyncio.to_thread(hanging, session, call)

    ambient = FixedAmbient()
    with perdure.open(":memory:", ambient=ambient) as db:
        db.cleanup("analytics", hanging if colour == "plain" else later, name="slow", timeout=SHORT)
        db.create(config={"timeouts": LIMITS}).suspend()
        ambient.advance(120)
        assert [item.error for item in db.sweep().done] == ["analytics/slow: it took longer than 0.02 seconds"]
        hanging.release.set()


def test_without_a_time_out_a_hook_runs_on_the_thread_that_sweeps() -> None:
    ambient, where = FixedAmbient(), []
    with perdure.open(":memory:", ambient=ambient) as db:
        db.cleanup("analytics", lambda *_: where.append(threading.get_ident()), name="here", timeout=None)
        db.cleanup("analytics", lambda *_: where.append(threading.get_ident()), name="aside")
        db.create(config={"timeouts": LIMITS}).suspend()
        ambient.advance(120)
        assert db.sweep().count("ended") == 1
    assert [thread == threading.get_ident() for thread in where] == [True, False]


@pytest.mark.parametrize("seconds", [0, -1, "5", True, float("nan"), float("inf"), 1e12])
async def test_a_time_out_is_a_length_of_time(place: Place, seconds: Any) -> None:
    with pytest.raises(Invalid, match="timeout"):
        place.db.cleanup("analytics", lambda *_: None, timeout=seconds)
    with pytest.raises(Invalid, match="timeout"):
        place.db.webhook("analytics", "https://example.org", SECRET, timeout=seconds)


# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where somebody answers the telephone, begins to speak and never comes to the point."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                held.append(caller)
                caller.sendall(b"HTTP/1.1 2")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for caller in held:
            caller.close()


async def test_a_receiver_that_never_comes_to_the_point_is_not_waited_for(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT", SHORT)
    with pytest.raises(DeliveryFailed, match=r"no answer within 0\.02 seconds|timed out"):
        await Webhooks(FixedAmbient()).deliver(webhook(silent, SECRET), "id", b"{}")


async def test_no_attempt_is_begun_that_the_time_out_would_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    ambient, begun = FixedAmbient(), []

    def refused(url: str, headers: dict[str, str], body: bytes, seconds: float) -> tuple[int, str]:
        begun.append((ambient.now(), seconds))
        ambient.advance(7)
        return 503, "status 503"

    monkeypatch.setattr(webhooks, "post", refused)
    first = ambient.now()
    with pytest.raises(DeliveryFailed, match="status 503"):
        await Webhooks(ambient).deliver(webhook("https://example.org", SECRET), "id", b"{}", seconds=15.0)
    assert len(begun) == 2
    assert begun[0] == (first, webhooks.TIMEOUT)
    assert begun[1][1] == pytest.approx(15 - (begun[1][0] - first) / 1e6)


async def test_a_webhook_that_takes_too_long_is_sent_again_later(place: Place, silent: str) -> None:
    session = await sleeping(place)
    place.db.webhook("notify", silent, SECRET, name="silent", timeout=SHORT)
    assert did(await place.sweep()) == [("waiting", "grace")]
    assert await phase(session) == "suspended"
    ((hook, error),) = await failures(session)
    assert hook == "silent"
    assert "0.02 seconds" in (error or "")
