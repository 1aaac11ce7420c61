"""Cleaning up: every step in order, noted once, tried again when it fails; webhooks; and what scrubbing destroys."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import events as ev
from perdure.core import scrub
from perdure.core.errors import DeliveryFailed, Invalid, NotFound, VersionConflict
from perdure.core.session.children import Spawned
from perdure.core.session.cleanup import ORDER, Cleaned, CleanupFailed, OtherEnded
from perdure.core.session.event import Draft, draft
from perdure.core.session.ids import SessionId
from perdure.edge.session import AsyncSession
from perdure.ports.store import Commit
from perdure.projections.row import row_of
from perdure.services import webhooks
from perdure.services.cleanup import CleanupCall
from perdure.services.webhooks import ATTEMPTS, Webhooks, signature, webhook
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient
from tests.services.conftest import open_store
from tests.services.test_timeouts import LIMITS, Place, did, phase

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
MAIL = "ana.lopez@example.org"
KEY = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
async def place(engine: str, tmp_path: Path) -> AsyncIterator[Place]:
    store = open_store(engine, tmp_path)
    yield Place(store)
    await store.close()


async def sleeping(place: Place, **fields: Any) -> AsyncSession:
    """A session that is to be ended at the next sweep."""
    session = await place.session(**fields)
    await session.suspend()
    place.ambient.advance(120)
    return session


async def notes(session: AsyncSession) -> list[tuple[str, str, str | None]]:
    return [
        (event.data.step, event.data.hook, event.data.error)
        for event in await session.events()
        if isinstance(event.data, Cleaned)
    ]


async def kinds(session: AsyncSession) -> list[str]:
    return [event.kind for event in await session.events()]


# ── hooks that end more than themselves ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", [None, 60.0])
async def test_a_hook_that_exits_has_failed_and_holds_up_nobody(place: Place, seconds: float | None) -> None:
    sessions = [await place.session() for _ in range(3)]
    for session in sessions:
        await session.suspend()
    bad = sessions[1].id

    def exits(_: AsyncSession, call: CleanupCall) -> None:
        if call.session == bad:
            raise SystemExit(3)

    place.db.cleanup("promote", exits, timeout=seconds)
    assert sorted(did(await place.sweep(120))) == [("ended", "grace"), ("ended", "grace"), ("waiting", "grace")]
    assert "it raised SystemExit: 3" in str([event.data for event in await sessions[1].events()])
    assert ("ended", "grace") in did(await place.sweep(2 * 86_400))  # given up


async def test_of_an_endless_error_only_the_beginning_is_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, masked = await sleeping(place), []
    find = scrub.find
    monkeypatch.setattr(scrub, "find", lambda text, what: masked.append(len(text)) or find(text, what))

    def fails(*_: Any) -> None:
        raise ValueError(f"{KEY} and {MAIL} " * 60_000)

    place.db.cleanup("promote", fails)
    await place.sweep()
    (error,) = [event.data.error for event in await session.events() if isinstance(event.data, CleanupFailed)]
    assert len(error) == 500
    assert KEY[:8] not in error
    assert max(masked) < 20_000


# ── order and notes ───────────────────────────────────────────────────────────────────────────────


async def test_every_step_runs_in_the_seeds_order_and_is_noted_once(place: Place) -> None:
    other = await place.db.create()
    session = await place.session(config={"scrub": "all"})
    await session.append([ev.ToolBound(name="t", version="1"), ev.Linked(other=other.id, relation=ev.Relation.PEER)])
    await session.suspend()
    ran: list[str] = []
    for step in reversed(ORDER):  # registered in any order
        place.db.cleanup(step.value, lambda _, call: ran.append(call.step), name="first")
        place.db.cleanup(step.value, lambda _, call: ran.append(call.step), name="second")
    assert did(await place.sweep(120)) == [("ended", "grace")]
    assert ran == [step.value for step in ORDER for _ in range(2)]
    built_in = {"flush", "release", "notify", "scrub"}
    expected = [
        (step.value, hook, None) for step in ORDER for hook in ("", "first", "second") if hook or step.value in built_in
    ]
    assert await notes(session) == expected
    assert (await kinds(session))[-1] == "moved"
    assert (await session.verify()).ok


async def test_a_session_without_anything_to_clean_up_is_flushed_and_ended(place: Place) -> None:
    session = await sleeping(place)
    await place.sweep()
    assert await notes(session) == [("flush", "", None)]
    assert [item.label for item in await session.checkpoints()] == ["suspend", "cleanup", "expire"]


async def test_a_hook_is_told_why_and_what_to_know_repetitions_by(place: Place) -> None:
    session = await sleeping(place, owner="ana")
    calls: list[CleanupCall] = []
    place.db.cleanup("promote", lambda held, call: calls.append(call) or held.info())
    await place.sweep()
    (call,) = calls
    assert (call.session, call.step, call.reason, call.phase, call.owner) == (
        session.id, "promote", "grace", "suspended", "ana",
    )  # fmt: skip
    assert call.key.startswith("promote-")


async def test_no_hook_runs_for_a_session_that_somebody_ends(place: Place) -> None:
    session = await place.session()
    place.db.cleanup("analytics", lambda *_: pytest.fail("not asked"))
    await session.terminate()
    assert await notes(session) == []


async def test_cleaning_up_can_be_asked_for_and_is_done_once(place: Place) -> None:
    session = await place.session(config={"scrub": "pii"})
    await session.append(ev.Message(role="user", content=MAIL))
    ran: list[str] = []
    place.db.cleanup("promote", lambda _, call: ran.append(call.key))
    with pytest.raises(VersionConflict, match="moved on to active"):
        await session.clean_up()
    await session.complete()
    assert await session.clean_up() is None
    assert await session.clean_up() is None
    assert len(ran) == 1
    assert [step for step, *_ in await notes(session)] == ["promote", "scrub"]


async def test_a_session_that_is_resumed_is_cleaned_up_anew_under_other_keys(place: Place) -> None:
    session = await sleeping(place)
    keys: list[str] = []
    place.db.cleanup("analytics", lambda _, call: keys.append(call.key))
    await session.clean_up()
    await session.resume()
    await session.suspend()
    await place.sweep(120)
    assert len(set(keys)) == len(keys) == 2
    assert [step for step, *_ in await notes(session)] == ["flush", "analytics"] * 2


# ── failing ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_failing_hook_holds_the_session_back_and_is_tried_again_under_the_same_key(place: Place) -> None:
    session = await sleeping(place)
    keys: list[str] = []
    later: list[str] = []

    def hook(_: AsyncSession, call: CleanupCall) -> None:
        keys.append(call.key)
        if len(keys) < 4:
            raise OSError(f"no answer for {MAIL}")

    place.db.cleanup("analytics", hook)
    place.db.cleanup("promote", lambda _, call: later.append(call.key))
    report = await place.sweep()
    assert did(report) == [("waiting", "grace")]
    assert "[email]" in (report.done[0].error or "")
    assert (await phase(session), later) == ("suspended", [])
    for pause in (60, 60, 120):
        assert (await place.sweep(pause - 1)).looked == 0
        report = await place.sweep(1)
    assert did(report) == [("ended", "grace")]
    assert (len(keys), len(set(keys)), len(later)) == (4, 1, 1)
    failed = [event.data for event in await session.events() if isinstance(event.data, CleanupFailed)]
    assert [(item.step, item.error) for item in failed] == [("analytics", "OSError: no answer for [email]")]
    assert await notes(session) == [("flush", "", None), ("analytics", "hook", None), ("promote", "<lambda>", None)]


async def test_a_hook_that_keeps_failing_is_given_up_with_its_error_noted(place: Place) -> None:
    session = await sleeping(place)
    place.db.cleanup("analytics", failing)
    tries = 0
    while await phase(session) != "terminated":
        await place.sweep(3600, give_up=86_400)
        tries += 1
    assert 20 <= tries <= 26
    assert ("analytics", "failing", "ConnectionError: down") in await notes(session)
    assert (await kinds(session)).count("cleanup_failed") == 1


def failing(*_: object) -> None:
    raise ConnectionError("down")


async def test_the_first_failure_counts_however_late_the_sweep(place: Place) -> None:
    session = await sleeping(place)
    place.db.cleanup("analytics", failing)
    await place.sweep(10 * 86_400)
    assert await phase(session) == "suspended"


async def test_a_crash_between_doing_and_noting_repeats_that_step_alone(place: Place) -> None:
    session = await sleeping(place)
    ran: list[str] = []
    sessions, handle = place.db._services.sessions, place.db._services.sessions.handle

    async def crash(name: SessionId, command: Any, **options: Any) -> Any:
        if getattr(command, "hook", "") == "second" and len(ran) == 2:
            raise KeyboardInterrupt
        return await handle(name, command, **options)

    for name in ("first", "second", "third"):
        place.db.cleanup("analytics", lambda _, call: ran.append(f"{call.hook} {call.key}"), name=name)
    sessions.handle = crash  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        await place.sweep()
    assert (await place.sweep()).looked == 0  # it is still under the dead one's lease
    assert did(await place.sweep(300)) == [("ended", "grace")]
    assert [word.split()[0] for word in ran] == ["first", "second", "second", "third"]
    assert ran[1] == ran[2]
    assert [hook for _, hook, _ in await notes(session)] == ["", "first", "second", "third"]


async def test_a_slow_hook_keeps_its_session_for_as_long_as_it_takes(place: Place) -> None:
    session = await sleeping(place)
    rival = place.handle()
    looked = []

    async def slow(_: AsyncSession, call: CleanupCall) -> None:
        place.ambient.advance(250)
        looked.append((await rival.sweep()).looked)

    for name in "abc":
        place.db.cleanup("analytics", slow, name=name)
    assert did(await place.sweep(lease=300)) == [("ended", "grace")]
    assert looked == [0, 0, 0]
    assert await phase(session) == "terminated"


async def test_a_hook_that_outlives_its_lease_leaves_the_rest_to_whoever_comes_next(place: Place) -> None:
    session, behind = await sleeping(place), await sleeping(place)
    ran: list[str] = []

    def slow(held: AsyncSession, call: CleanupCall) -> None:
        ran.append(f"{call.hook} {held.id}")
        place.ambient.advance(400 if call.hook == "a" and held.id == session.id else 0)

    for name in "ab":
        place.db.cleanup("analytics", slow, name=name)
    report = await place.sweep(lease=300)
    assert (report.looked, did(report)) == (4, [("ended", "grace")] * 2)  # both were claimed a second time
    assert sorted(ran) == sorted(f"{name} {each.id}" for name in "ab" for each in (session, behind))


@pytest.mark.parametrize("wrong", ["", "flushing", "FLUSH", None])
async def test_hooks_belong_to_a_step_there_is(place: Place, wrong: Any) -> None:
    with pytest.raises(Invalid, match="flush, release, notify, analytics, promote, scrub"):
        place.db.cleanup(wrong, lambda *_: None)


async def test_two_hooks_of_one_name_are_a_mistake(place: Place) -> None:
    place.db.cleanup("analytics", lambda *_: None)
    with pytest.raises(Invalid, match="name="):
        place.db.cleanup("analytics", lambda *_: None)
    with pytest.raises(Invalid, match="name"):
        place.db.cleanup("analytics", lambda *_: None, name="")
    with pytest.raises(Invalid, match="something to call"):
        place.db.cleanup("analytics", 5)  # type: ignore[arg-type]


def test_hooks_of_blocking_programs_get_a_blocking_session() -> None:
    ambient = FixedAmbient()
    with perdure.open(":memory:", ambient=ambient) as db:
        session = db.create("trip", config={"timeouts": LIMITS})
        titles: list[str] = []

        def hook(held: perdure.Session, call: CleanupCall) -> None:
            titles.append(f"{held.info().title} {call.step}")

        async def other(held: perdure.Session, call: CleanupCall) -> None:
            titles.append(call.hook)

        db.cleanup("analytics", hook)
        db.cleanup("promote", other)
        session.suspend()
        ambient.advance(120)
        assert db.sweep().count("ended") == 1
        assert titles == ["trip analytics", "other"]


# ── release and notify ────────────────────────────────────────────────────────────────────────────


async def test_tools_are_released_and_still_known(place: Place) -> None:
    session = await place.session()
    await session.append(
        [
            ev.ToolBound(name="search", constraint=">=1", required=True, version="1.2"),
            ev.ToolBound(name="free"),
        ]
    )
    await session.suspend()
    await place.sweep(120)
    bindings = (await session.state()).tools.bindings
    assert (bindings["search"].version, bindings["search"].required, bindings["search"].constraint) == (
        None, True, ">=1",
    )  # fmt: skip
    assert (await kinds(session)).count("tool_bound") == 3


async def test_the_sessions_around_are_told_once(place: Place) -> None:
    peer, parent, gone, away = [await place.db.create() for _ in range(4)]
    session = await parent.branch(config={"timeouts": LIMITS})
    for other in (peer, gone, away):
        await session.append(ev.Linked(other=other.id, relation=ev.Relation.REFERENCE))
    await session.append(ev.Linked(other="no such id", relation=ev.Relation.PEER))
    await gone.erase()
    await away.complete()
    await away.move("archive")
    await session.suspend()
    assert (await place.sweep(120)).count("ended") == 1
    for other in (peer, parent):
        (word,) = [event for event in await other.events() if isinstance(event.data, OtherEnded)]
        assert (word.data.other, word.data.reason, word.target) == (session.id, "grace", session.id)
    assert "other_ended" not in await kinds(away)
    with pytest.raises(NotFound):
        await gone.info()


async def test_a_parent_learns_that_its_child_has_finished(place: Place) -> None:
    parent, child = await place.db.create(), await place.session()
    await child.append(ev.Linked(other=parent.id, relation=ev.Relation.PARENT_CHILD))
    await spawned(place, parent, draft(Spawned(child=child.id, slice=5)))
    await child.suspend()
    await place.sweep(120)
    state = await parent.state()
    assert (state.children.open, state.children.finished) == ({}, 1)
    assert (await kinds(parent))[-1] == "child_finished"


async def spawned(place: Place, session: AsyncSession, draft: Draft) -> None:
    """Write an event that no command writes yet."""
    sessions = place.db._services.sessions
    loaded = await sessions.loader.load(session.id)
    written = await sessions._write(session.id, loaded, (draft,), None)
    row = row_of(written.state, digest=written.digest, at=written.record.at)
    await place.store.append([Commit(row=row, expected=loaded.state.version, record=written.record)])


async def test_two_sessions_that_end_at_once_tell_each_other(place: Place) -> None:
    one, two = await place.session(), await place.session()
    await one.append(ev.Linked(other=two.id, relation=ev.Relation.PEER))
    await two.append(ev.Linked(other=one.id, relation=ev.Relation.PEER))
    await one.suspend()
    await two.suspend()
    assert (await place.sweep(120)).count("ended") == 2
    for each in (one, two):
        assert (await kinds(each)).count("other_ended") == 1


async def test_a_neighbour_that_goes_on_meanwhile_is_told_all_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, busy = await place.session(), await place.db.create()
    await session.append(ev.Linked(other=busy.id, relation=ev.Relation.PEER))
    await session.suspend()
    sessions = place.db._services.sessions
    prepared, rival = sessions.prepared, await place.handle().session(busy.id)
    interferences = []

    async def late(*words: Any) -> Commit:
        commit = await prepared(*words)
        if len(interferences) < 3:
            interferences.append(await rival.append(ev.Message(role="user", content="busy")))
        return commit

    monkeypatch.setattr(sessions, "prepared", late)
    assert (await place.sweep(120)).count("ended") == 1
    assert (await kinds(busy)).count("other_ended") == 1
    assert len(interferences) == 3


# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────


class Receiver(HTTPServer):
    """Takes down what is posted and answers as told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?token=s3cr3t"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers, body))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quietly."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def verified(headers: dict[str, str], body: bytes, secret: str, now: int) -> bool:
    """What the documentation tells receivers to do."""
    if abs(now - int(headers["webhook-timestamp"])) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(expected, each) for each in headers["webhook-signature"].split(" "))


async def test_a_webhook_is_signed_and_says_what_happens(place: Place, receiver: Receiver) -> None:
    session = await sleeping(place, owner="ana")
    place.db.webhook("notify", receiver.url, SECRET)
    assert (await place.sweep()).count("ended") == 1
    ((path, headers, body),) = receiver.requests
    assert path == "/hook?token=s3cr3t"
    assert verified(headers, body, SECRET, place.ambient.now() // 1_000_000)
    assert not verified(headers, body + b" ", SECRET, place.ambient.now() // 1_000_000)
    document = json.loads(body)
    assert (document["type"], document["session"], document["reason"], document["owner"]) == (
        "session.cleanup.notify", session.id, "grace", "ana",
    )  # fmt: skip
    assert document["key"] == headers["webhook-id"]
    assert "s3cr3t" not in str(await notes(session))


async def test_a_webhook_is_tried_a_few_times_under_one_id(place: Place, receiver: Receiver) -> None:
    await sleeping(place)
    receiver.answers = [500, 503, 429]
    place.db.webhook("analytics", receiver.url, SECRET)
    begun = place.ambient.now()
    assert (await place.sweep()).count("ended") == 1
    assert len(receiver.requests) == 4
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    assert len({body for *_, body in receiver.requests}) == 1
    assert 1.5 <= (place.ambient.now() - begun) / 1e6 <= 6


async def test_a_webhook_nobody_takes_is_sent_again_at_a_later_sweep(place: Place, receiver: Receiver) -> None:
    session = await sleeping(place)
    receiver.answers = [500] * ATTEMPTS
    place.db.webhook("analytics", receiver.url, SECRET)
    report = await place.sweep()
    assert did(report) == [("waiting", "grace")]
    assert "s3cr3t" not in (report.done[0].error or "")
    assert did(await place.sweep(120)) == [("ended", "grace")]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    assert await phase(session) == "terminated"


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 404, 410])
async def test_redirects_and_refusals_are_answers_and_not_followed(receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    with pytest.raises(DeliveryFailed, match=f"status {status}"):
        await Webhooks(FixedAmbient()).deliver(webhook(receiver.url, SECRET), "id", b"{}")
    assert [path for path, *_ in receiver.requests] == ["/hook?token=s3cr3t"]


async def test_nobody_at_the_address_is_a_failure_that_names_no_secret() -> None:
    nobody = webhook("http://127.0.0.1:9/x?token=s3cr3t", SECRET)
    with pytest.raises(DeliveryFailed, match=r"127\.0\.0\.1 did not take") as failure:
        await Webhooks(FixedAmbient()).deliver(nobody, "id", b"{}")
    assert "s3cr3t" not in str(failure.value) + repr(nobody)


def test_a_blocking_program_delivers_too(receiver: Receiver) -> None:
    ambient = FixedAmbient()
    with perdure.open(":memory:", ambient=ambient) as db:
        db.webhook("promote", receiver.url, SECRET)
        db.create(config={"timeouts": LIMITS}).suspend()
        ambient.advance(120)
        assert db.sweep().count("ended") == 1
    assert len(receiver.requests) == 1


def test_pauses_grow_and_differ() -> None:
    sender = Webhooks(FixedAmbient())
    pauses = [[sender._delay(attempt) for attempt in (1, 2, 3)] for _ in range(20)]
    assert all(0.25 <= one < 0.75 and 0.5 <= two < 1.5 and 1 <= three < 3 for one, two, three in pauses)
    assert len({pause for each in pauses for pause in each}) == 60


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("ftp://example.org/x", SECRET),
        ("file:///etc/passwd", SECRET),
        ("https://", SECRET),
        ("https://user:pass@example.org/", SECRET),
        ("http://[::1", SECRET),
        ("https://ex\0/", SECRET),
        ("https://exa mple/", SECRET),
        ("https://example.org/a\n", SECRET),
        ("https://example.org:99999/", SECRET),
        ("https://example.org:0/", SECRET),
        (5, SECRET),
        ("https://example.org", "short"),
        ("https://example.org", "whsec_!!!"),
        ("https://example.org", 5),
    ],
)
def test_a_webhook_is_checked_when_it_is_named(url: Any, secret: Any) -> None:
    with pytest.raises(Invalid):
        webhook(url, secret)


def test_the_signature_is_that_of_the_standard() -> None:
    """The worked example of the Standard Webhooks convention."""
    key = webhook("https://example.org", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").secret
    body = b'{"test": 2432232314}'
    found = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_two_addresses_of_one_host_have_names_of_their_own() -> None:
    one, two = (webhook(f"https://example.org/{path}", SECRET) for path in "ab")
    assert one.label != two.label
    assert one.label.startswith("example.org-")
    assert webhooks.TIMEOUT > 0


# ── scrubbing ─────────────────────────────────────────────────────────────────────────────────────


def everything(path: Path) -> bytes:
    return b"".join(item.read_bytes() for item in sorted(path.parent.glob(f"{path.name}*")))


async def test_what_was_asked_for_is_destroyed_everywhere_and_the_chain_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    place = Place(SqliteStore(str(path), FixedAmbient()))
    vars = {"mail": MAIL, "port": 5432, "deep": [{"token": KEY}], "plain": "words"}
    session = await place.session(config={"scrub": "all"}, vars=vars)
    await session.append([ev.Message(role="user", content=f"I am {MAIL}"), ev.Message(role="user", content="weather?")])
    await session.append(
        [
            ev.TurnStarted(),
            ev.ToolAsked(call="c", name="login", arguments={"password": "hunter2!"}),
            ev.ToolFinished(call="c", result={"authorization": f"Bearer {KEY}"}),
            ev.TurnFinished(content="done"),
        ]
    )
    await session.write_scratchpad(f"remember {KEY}")
    await session.write_scratchpad("call +49 30 901820", agent="scout")
    await session.checkpoint("mine")
    await session.patch_vars(more=1)
    await session.suspend()
    secrets = [MAIL, KEY, "hunter2!", "901820"]
    assert [secret for secret in secrets if secret.encode() not in everything(path)] == []
    assert (await place.sweep(120)).count("ended") == 1
    assert await session.vars() == {
        "mail": "[email]", "port": 5432, "deep": [{"token": "[api_key]"}], "plain": "words", "more": 1,
    }  # fmt: skip
    assert await session.scratchpad() == "remember [api_key]"
    assert await session.scratchpad("scout") == "call [phone]"
    said = [event.data.content for event in await session.events() if event.kind == "message"]
    assert said == [None, "weather?"]
    assert (await session.verify()).ok
    for checkpoint in await session.checkpoints():
        assert MAIL not in str((await session.restore(checkpoint.id)).state)
    (note,) = [event.data for event in await session.events() if getattr(event.data, "step", "") == "scrub"]
    assert note.counts == {"found": 6, "redacted": 6, "masked": 3}
    await place.store.close()
    assert [secret for secret in secrets if secret.encode() in everything(path)] == []


async def test_only_what_was_asked_for_is_destroyed(place: Place) -> None:
    for what, expected in (("pii", ["[email]", KEY]), ("credentials", [MAIL, "[api_key]"]), (None, [MAIL, KEY])):
        session = await sleeping(place, config={"scrub": what}, vars={"a": [MAIL, KEY]})
        await place.sweep()
        assert (await session.vars())["a"] == expected


async def test_a_living_branch_keeps_what_it_shares_and_the_last_to_end_scrubs_it(place: Place) -> None:
    parent = await place.session(config={"scrub": "pii"}, vars={"mail": MAIL})
    await parent.append(ev.Message(role="user", content=f"shared {MAIL}"))
    branch = await parent.branch()
    await parent.append(ev.Message(role="user", content=f"own {MAIL}"))
    await parent.suspend()
    await branch.append(ev.Message(role="user", content=f"branched {MAIL}"))
    place.ambient.advance(59)
    await branch.append(ev.Message(role="user", content="still here"))
    await place.sweep(61)
    assert (await phase(parent), await phase(branch)) == ("terminated", "suspended")
    assert (await branch.vars())["mail"] == MAIL
    assert [event.redacted for event in await branch.events() if event.kind == "message"] == [False] * 3
    assert [event.redacted for event in await parent.events() if event.kind == "message"] == [False, True]
    assert (await parent.vars())["mail"] == "[email]"
    await place.sweep(120)
    assert await phase(branch) == "terminated"
    assert [event.redacted for event in await branch.events() if event.kind == "message"] == [True, True, False]
    assert [event.redacted for event in await parent.events() if event.kind == "message"] == [True, True]
    assert ((await branch.vars())["mail"], (await parent.vars())["mail"]) == ("[email]", "[email]")
    assert (await parent.verify()).ok
    assert (await branch.verify()).ok


async def test_what_carries_structure_is_kept_and_counted(place: Place) -> None:
    session = await sleeping(place, config={"scrub": "pii", "system_prompt": f"write to {MAIL}"})
    await place.sweep()
    (note,) = [event.data for event in await session.events() if getattr(event.data, "step", "") == "scrub"]
    assert note.counts == {"found": 1, "kept": 1}


async def test_a_pruned_log_is_scrubbed_as_far_as_it_goes(place: Place) -> None:
    session = await place.session(config={"scrub": "pii"}, vars={"mail": MAIL, "n": 1})
    for number in range(4):
        await session.append(ev.Message(role="user", content=f"{number} {MAIL}"))
    await session.prune(4)
    await session.patch_vars(n=2)
    await session.suspend()
    await place.sweep(120)
    assert await session.vars() == {"mail": "[email]", "n": 2}
    assert all(event.redacted for event in await session.events() if event.kind == "message")
    assert (await session.verify()).ok


async def test_what_is_written_while_it_is_looked_through_is_found_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await sleeping(place, config={"scrub": "pii"}, vars={"a": MAIL})
    scrubbing = place.db._services.cleanup._scrubbing
    look, rival, written = scrubbing._look, await place.handle().session(session.id), []

    async def meddled(*words: Any) -> Any:
        found = await look(*words)
        if not written:
            written.append(await rival.set_vars({"a": MAIL, "b": ["+49 30 901820", "kept"]}))
        return found

    monkeypatch.setattr(scrubbing, "_look", meddled)
    await place.sweep()
    assert await session.vars() == {"a": "[email]", "b": ["[phone]", "kept"]}


async def test_many_events_are_destroyed_piece_by_piece(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.services.scrubbing.CHUNK", 7)
    session = await place.session(config={"scrub": "pii"})
    for number in range(20):
        await session.append(ev.Message(role="user", content=f"{number} {MAIL}"))
    await session.suspend()
    await place.sweep(120)
    assert all(event.redacted for event in await session.events() if event.kind == "message")
    assert (await kinds(session)).count("redacted") == 3


def test_whatever_a_foreign_error_says_can_be_stored() -> None:
    from perdure.core.session import values
    from perdure.core.session.shown import told

    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    for error in (Exception("\ud800"), Mute(), ValueError("plain")):
        values.check(told(error))
    assert told(ValueError("plain")) == "ValueError: plain"
