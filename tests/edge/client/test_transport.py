"""Requests that meet trouble: sent again only where that can do nothing twice, and told in the library's own errors."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure import events as ev
from perdure.ambient import RealAmbient
from perdure.core.errors import Invalid, PerdureError, Unreachable
from perdure.edge.certificates import make
from perdure.edge.client.failures import by_code, failure_of
from perdure.edge.http import problems
from perdure.edge.http.wire import EXACTLY
from perdure.testing import FixedAmbient
from tests.edge.client.scripted import DONE, answer, problem, scripted
from tests.edge.client.served import Served, served

SESSION = "0192f0c4-7d1e-7abc-8def-0123456789ab"
HELLO = ev.Message(role="user", content="hello")


def connected(server: Any, **settings: Any) -> perdure.Perdure:
    return perdure.connect(server.url, "pdk_key", **{"ambient": FixedAmbient()} | settings)


# ── again, or not ──


def test_a_write_whose_answer_was_lost_is_repeated_under_the_same_key() -> None:
    with scripted(None, None, DONE) as server, connected(server) as db:
        assert db.named(SESSION).append(HELLO) == 7
        keys = server.keys("/events")
        assert len(keys) == 3
        assert len(set(keys)) == 1
        assert keys[0].startswith('"auto-')


def test_every_write_has_a_key_of_its_own_or_the_one_it_was_given() -> None:
    with scripted(DONE, DONE, DONE) as server, connected(server) as db:
        session = db.named(SESSION)
        for key in (None, None, "mine"):
            session.append(HELLO, key=key)
        first, second, third = server.keys("/events")
        assert first != second
        assert third == '"mine"'


def test_a_write_without_a_key_is_not_repeated_when_its_answer_was_lost() -> None:
    with scripted(None, DONE) as server, connected(server) as db:
        with pytest.raises(Unreachable, match="look whether it was done"):
            db.named(SESSION).roll_back()
        assert server.count("/rollback") == 1


def test_reading_is_repeated() -> None:
    document = answer(200, {"cap": None, "spent": 3, "reserved": 0, "paused": False, "left": None})
    with scripted(None, document) as server, connected(server) as db:
        assert db.named(SESSION).account().spent == 3
        assert server.count("/account") == 2


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (503, "store_busy")])
def test_a_server_that_asks_for_patience_gets_it(status: int, code: str) -> None:
    ambient = FixedAmbient()
    with scripted(problem(status, code, "retry-after: 7"), DONE) as server, connected(server, ambient=ambient) as db:
        before = ambient.now()
        assert db.named(SESSION).append(HELLO) == 7
        assert 7 <= (ambient.now() - before) / 1e6 <= 8


def test_more_patience_than_anyone_has_is_told_to_the_caller() -> None:
    with (
        scripted(problem(429, "rate_limited", "retry-after: 3600", retry_after=3600)) as server,
        connected(server) as db,
    ):
        with pytest.raises(errors.RateLimited) as limited:
            db.named(SESSION).append(HELLO)
        assert limited.value.retry_after == 3600


def test_a_full_disk_is_not_asked_again() -> None:
    with scripted(problem(507, "disk_full", "retry-after: 30"), DONE) as server, connected(server) as db:
        with pytest.raises(errors.DiskFull):
            db.named(SESSION).append(HELLO)
        assert server.count("/events") == 1


def test_a_refusal_is_not_asked_again() -> None:
    refused = problem(409, "version_conflict", expected=1, found=9)
    with scripted(refused) as server, connected(server) as db:
        with pytest.raises(errors.VersionConflict) as conflict:
            db.named(SESSION).append(HELLO, expected=1)
        assert conflict.value.found == 9


def test_the_request_whose_answer_was_lost_may_still_be_under_way() -> None:
    with scripted(None, problem(409, "key_in_flight", "retry-after: 1"), DONE) as server, connected(server) as db:
        assert db.named(SESSION).append(HELLO) == 7


def test_a_key_in_flight_of_somebody_else_is_told() -> None:
    with (
        scripted(problem(409, "key_in_flight", "retry-after: 1")) as server,
        connected(server) as db,
        pytest.raises(errors.KeyInFlight),
    ):
        db.named(SESSION).append(HELLO, key="theirs")


def test_trying_again_ends() -> None:
    with scripted(None, None, None) as server, connected(server, retries=2) as db:
        with pytest.raises(Unreachable, match="does not answer"):
            db.named(SESSION).append(HELLO)
        assert server.count("/events") == 3


def test_a_connection_that_went_stale_is_opened_anew() -> None:
    document = answer(200, {"cap": None, "spent": 3, "reserved": 0, "paused": False, "left": None}, "connection: close")
    with scripted(document, document) as server, connected(server, retries=0) as db:
        assert [db.named(SESSION).account().spent for _ in range(2)] == [3, 3]
        assert server.connections == 2


# ── what no perdure says ──


@pytest.mark.parametrize("body", [b"<h1>Bad gateway</h1>", b"{}", b'{"code": 5}', b"[]", b"\xff", b""])
def test_an_answer_that_is_no_problem_is_unreachable(body: bytes) -> None:
    with (
        scripted(answer(502, body)) as server,
        connected(server, retries=0) as db,
        pytest.raises(Unreachable, match="answered 502"),
    ):
        db.named(SESSION).info()


@pytest.mark.parametrize("said", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf"])
def test_an_answer_that_is_not_http_or_ends_half_way_is_unreachable(said: bytes) -> None:
    with (
        scripted(lambda sock: sock.sendall(said)) as server,
        connected(server, retries=0) as db,
        pytest.raises(Unreachable),
    ):
        db.named(SESSION).info()


def test_an_answer_from_another_world_is_unreachable() -> None:
    with (
        scripted(answer(200, {"hello": 1})) as server,
        connected(server) as db,
        pytest.raises(Unreachable, match="the same version"),
    ):
        db.named(SESSION).info()


def test_a_server_that_falls_silent_is_unreachable() -> None:
    silence = threading.Event()
    with scripted(lambda _: silence.wait(20) and None) as server, connected(server, retries=0, timeout=0.2) as db:
        with pytest.raises(Unreachable, match="timed out"):
            db.named(SESSION).info()
        silence.set()


def test_nobody_at_the_address_is_unreachable() -> None:
    with scripted() as server:
        pass
    with pytest.raises(Unreachable, match="nothing was sent"):
        connected(server)


@pytest.mark.parametrize(
    "url", ["", "agent.db", "ftp://host", "http://", "http://a:b@host", "http://host?x", "http://host:99999", 5, None]
)
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(Invalid):
        perdure.connect(url, "pdk_key")


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "ключ", None, 5])
def test_what_is_no_key_is_refused(key: Any) -> None:
    with pytest.raises(Invalid, match="a key is the text"):
        perdure.connect("http://127.0.0.1:1", key)


def test_a_key_is_shown_nowhere() -> None:
    with scripted() as server, connected(server) as db:
        assert "pdk_key" not in repr(db.aio) + repr(db) + repr(vars(db.aio)["_transport"])


# ── errors ──


@pytest.mark.parametrize("kind", sorted(by_code().values(), key=lambda kind: kind.code))
def test_every_error_of_the_tree_comes_back_as_itself(kind: type[PerdureError]) -> None:
    told = problems.told(kind("do this next", session=SESSION, found=3, raw=b"\x00"), EXACTLY)
    found = failure_of(told.status, told.body, "http://here")
    assert type(found) is kind
    if not issubclass(kind, errors.WorldError):  # of what the world did, a server tells only what it was
        assert found.message == "do this next"
        assert found.fields == {"session": SESSION, "found": 3, "raw": b"\x00"}


def test_an_unknown_code_is_told_by_its_status() -> None:
    for status, kind in ((404, errors.CallerError), (409, errors.ConflictError), (500, errors.WorldError)):
        found = failure_of(status, b'{"code": "quite_new", "detail": "so"}', "http://here")
        assert (type(found), found.message, found.problem) == (kind, "so", "quite_new")


def test_a_wrong_key_is_unauthenticated(server: Served) -> None:
    with pytest.raises(errors.Unauthenticated):
        perdure.connect(server.url, "pdk_" + "0" * 60)


# ── threads, forks, TLS ──


def test_threads_share_a_connection_and_double_nothing(server: Served) -> None:
    with perdure.connect(server.url, server.key) as db:
        session = db.create()
        threads = [threading.Thread(target=lambda: [session.append(HELLO) for _ in range(10)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [event.kind for event in session.events()].count("message") == 80


async def test_tasks_share_a_connection_and_double_nothing(server: Served) -> None:
    import asyncio

    async with perdure.aconnect(server.url, server.key) as db:
        sessions = [await db.create() for _ in range(4)]
        await asyncio.gather(*[session.append(HELLO) for session in sessions for _ in range(20)])
        for session in sessions:
            assert [event.kind for event in await session.events()].count("message") == 20


async def test_a_cancelled_request_leaves_the_others_alone(server: Served) -> None:
    import asyncio

    async with perdure.aconnect(server.url, server.key) as db:
        session = await db.create()
        task = asyncio.create_task(session.append(HELLO))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        version = await session.append(HELLO)
        versions = [event.version for event in await session.events()]
        assert versions == list(range(1, len(versions) + 1))
        assert version in versions


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_parent_and_child_of_a_fork_both_go_on(server: Served) -> None:
    with perdure.connect(server.url, server.key) as db:
        session = db.create()
        child = os.fork()
        if not child:
            code = 1
            try:
                for _ in range(20):
                    session.append(ev.Message(role="user", content="child"))
                code = 0
            finally:
                os._exit(code)
        for _ in range(20):
            session.append(ev.Message(role="user", content="parent"))
        assert os.waitpid(child, 0)[1] == 0
        said = [event.data.content for event in session.events() if isinstance(event.data, ev.Message)]
        assert (said.count("child"), said.count("parent")) == (20, 20)


def test_tls_with_an_authority_and_a_certificate_of_ones_own(tmp_path: Path) -> None:
    make(str(tmp_path), ["127.0.0.1"], RealAmbient())
    ca, pair = tmp_path / "ca.pem", (tmp_path / "client.pem", tmp_path / "client.key")
    settings = {
        "tls_cert": str(tmp_path / "server.pem"),
        "tls_key": str(tmp_path / "server.key"),
        "tls_client_ca": str(ca),
        "mutual_tls": True,
    }
    with served(tmp_path, **settings) as server:
        assert server.url.startswith("https://")
        with perdure.connect(server.url, server.key, ca=ca, certificate=pair) as db:
            assert db.create("secured").info().title == "secured"
        for trust, advice in (({"ca": ca}, "certificate="), ({"certificate": pair}, "ca="), ({}, "ca=")):
            with pytest.raises(Unreachable) as told:
                perdure.connect(server.url, server.key, retries=0, **trust)  # type: ignore[arg-type]
            assert advice in str(told.value)


def test_a_certificate_that_nothing_vouches_for_is_told_at_once_with_what_to_give(tmp_path: Path) -> None:
    make(str(tmp_path), ["localhost"], RealAmbient())
    settings = {"tls_cert": str(tmp_path / "server.pem"), "tls_key": str(tmp_path / "server.key")}
    with served(tmp_path, **settings) as server:
        ambient = FixedAmbient()
        before = ambient.now()
        with pytest.raises(Unreachable, match=r"give the file of the authority .* ca=… .*CERTIFICATE_VERIFY_FAILED"):
            perdure.connect(server.url, server.key, ambient=ambient)
        assert ambient.now() == before  # nothing was waited for
        with pytest.raises(Unreachable, match="its certificate is for another name"):
            perdure.connect(server.url, server.key, ca=tmp_path / "ca.pem")


def test_tls_with_one_who_does_not_speak_it_is_told(server: Served) -> None:
    with pytest.raises(Unreachable, match="does not speak TLS; write http://"):
        perdure.connect(server.url.replace("http", "https"), "pdk_key", retries=0)


def test_one_who_speaks_tls_where_it_was_not_asked_for_is_told_in_the_end(tmp_path: Path) -> None:
    make(str(tmp_path), ["127.0.0.1"], RealAmbient())
    settings = {"tls_cert": str(tmp_path / "server.pem"), "tls_key": str(tmp_path / "server.key")}
    with served(tmp_path, **settings) as server, pytest.raises(Unreachable, match="speaks TLS; then write https://"):
        perdure.connect(server.url.replace("https", "http"), server.key, ambient=FixedAmbient())


def test_a_server_that_hangs_up_on_a_fresh_connection_is_asked_again_and_perhaps_speaks_tls() -> None:
    bye = "connection: close"
    account = answer(200, {"cap": None, "spent": 3, "reserved": 0, "paused": False, "left": None}, bye)
    with scripted(account, None, account, None, None) as server, connected(server, retries=1) as db:
        assert [db.named(SESSION).account().spent for _ in range(2)] == [3, 3]
        with pytest.raises(Unreachable, match=r"does not answer.* speaks TLS; then write https://"):
            db.named(SESSION).account()
        assert server.count("/account") == 5


def test_a_server_that_hangs_up_on_a_connection_it_answered_on_does_not_speak_tls() -> None:
    with scripted(None) as server, connected(server, retries=0) as db:
        with pytest.raises(Unreachable, match="does not answer") as told:
            db.named(SESSION).account()
        assert "TLS" not in str(told.value)


def test_an_alert_of_tls_is_told_at_once() -> None:
    alert = bytes.fromhex("15030300020246")
    with scripted(lambda sock: sock.sendall(alert)) as server, connected(server) as db:
        with pytest.raises(Unreachable, match="speaks TLS; write https://"):
            db.named(SESSION).account()
        assert server.count("/account") == 1


@pytest.mark.parametrize(
    ("url", "told"),
    [("localhost:7464", "write https://host:7464, or http://127"), ("http://localhost:7464/v1/", "leave /v1 out")],
)
def test_an_address_that_is_nearly_right_is_put_right(url: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        perdure.connect(url, "pdk_key")


def test_certificates_are_for_https(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="are for https"):
        perdure.connect("http://127.0.0.1:1", "pdk_key", ca="ca.pem")
    with pytest.raises(Invalid, match="there is no file"):
        perdure.connect("https://127.0.0.1:1", "pdk_key", ca=tmp_path / "none.pem")
