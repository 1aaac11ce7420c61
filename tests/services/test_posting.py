"""Webhooks are told what happens to sessions: at least once, in order, by one node at a time, and safely."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perdure.compose.tenants import Tenants, tenants
from perdure.core.access import postings
from perdure.core.access.book import Hook
from perdure.core.errors import DiskFull, Invalid
from perdure.core.session import commands as do
from perdure.core.session.ids import SessionId
from perdure.sealing.given import Given
from perdure.services import notes, posting
from perdure.services.outbound import Outbound
from perdure.services.posting import Posting
from perdure.services.webhooks import signature
from perdure.testing import FixedAmbient

SECRET = "whsec_" + "c2VjcmV0" * 4


class Receiver(ThreadingHTTPServer):
    """Takes down what is posted and answers as told, per path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, list[int]] = {}
        self.always: dict[str, int] = {}
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.held = threading.Event()
        self.held.set()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def told(self, path: str = "/hook") -> list[Any]:
        return [json.loads(body) for where, _, body in self.requests if where == path]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Receiver)
        body = self.rfile.read(int(self.headers["content-length"]))
        server.requests.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
        if self.path == "/hangs":
            server.held.wait()
        waiting = server.answers.get(self.path)
        status = waiting.pop(0) if waiting else server.always.get(self.path, 204)
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", server.url("/elsewhere"))
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
    server.held.set()
    server.shutdown()
    thread.join()
    server.server_close()


class House:
    """Nodes over one file, with one clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ambient = FixedAmbient()
        self.nodes: list[Tenants] = []

    def node(self) -> Tenants:
        made = tenants(str(self.path / "store.db"), ambient=self.ambient, keys=Given(False), private=True)
        self.nodes.append(made)
        return made


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path)
    yield made
    for node in made.nodes:
        await node.posting.leave()
        await node.close()


@pytest.fixture
async def node(house: House) -> Tenants:
    """A node that has looked once, before there was anything."""
    made = house.node()
    await made.posting.round()
    return made


async def hooked(node: Tenants, url: str, *events: str, tenant: str = "acme") -> Hook:
    return (await node.directory.add_webhook(tenant, url, events or ("*",), by=None, secret=SECRET)).hook


async def begun(node: Tenants, tenant: str = "acme", **facts: Any) -> SessionId:
    return (await node.services(tenant).sessions.create(do.Create(owner="ada", activate=True, **facts))).session


async def moved(node: Tenants, session: SessionId, *moves: str, tenant: str = "acme") -> None:
    for move in moves:
        await node.services(tenant).sessions.handle(session, do.MoveTo(event=move, reason="a secret reason"))


async def rounds(*nodes: Tenants, count: int = 6) -> None:
    for _ in range(count):
        for node in nodes:
            await node.posting.round()
            await node.posting.idle()


def moves(receiver: Receiver, path: str = "/hook") -> list[str]:
    return [told["move"] for told in receiver.told(path)]


async def test_moves_are_told_in_order_signed_and_without_content(node: Tenants, receiver: Receiver) -> None:
    hook = await hooked(node, receiver.url())
    session = await begun(node, title="private words")
    await moved(node, session, "suspend", "resume", "reactivate", "complete", "archive")
    await rounds(node)
    assert moves(receiver) == ["activate", "suspend", "resume", "reactivate", "complete", "archive"]
    for _, headers, body in receiver.requests:
        told = json.loads(body)
        assert headers["webhook-id"] == told["id"]
        assert headers["webhook-signature"] == signature(
            hook.secret, told["id"], int(headers["webhook-timestamp"]), body
        )
        assert (told["session_id"], told["tenant"]) == (session, "acme")
        assert b"secret reason" not in body
        assert b"private words" not in body
    last = receiver.told()[4]
    assert (last["type"], last["phase_before"], last["phase_after"]) == ("session.completed", "active", "completed")
    assert last["version"] > 1
    book = await node.posting.book()
    assert postings.fares(book, hook.id)[0].succeeded_at is not None
    assert not book.waiting


async def test_many_are_told_without_waiting_for_the_next_look(node: Tenants, receiver: Receiver) -> None:
    await hooked(node, receiver.url())
    for _ in range(3 * posting.AT_ONCE):
        await moved(node, await begun(node), "suspend")
    await rounds(node, count=1)
    assert len({told["id"] for told in receiver.told()}) == len(receiver.requests) == 6 * posting.AT_ONCE


async def test_only_what_is_wanted_of_ones_own_sessions_is_told(node: Tenants, receiver: Receiver) -> None:
    await hooked(node, receiver.url("/some"), "complete")
    await hooked(node, receiver.url("/theirs"), tenant="other")
    await moved(node, await begun(node), "complete")
    await rounds(node)
    assert moves(receiver, "/some") == ["complete"]
    assert receiver.told("/theirs") == []


async def test_what_happened_before_a_webhook_was_there_is_not_told(
    house: House, node: Tenants, receiver: Receiver
) -> None:
    session = await begun(node)
    house.ambient.advance(1)
    await hooked(node, receiver.url())
    await moved(node, session, "suspend")
    await rounds(node)
    assert moves(receiver) == ["suspend"]
    fresh = house.node()
    house.ambient.advance(posting.PAUSE + postings.LEASE)
    await rounds(fresh)
    assert moves(receiver) == ["suspend"]


async def test_a_node_that_comes_late_finds_what_nobody_has_told(house: House, receiver: Receiver) -> None:
    writer = house.node()
    await hooked(writer, receiver.url())
    await begun(writer)
    await rounds(house.node())
    assert moves(receiver) == ["activate"]


async def test_erased_sessions_are_told_of_where_they_were_known(node: Tenants, receiver: Receiver) -> None:
    await hooked(node, receiver.url(), "erased")
    session = await begun(node)
    await rounds(node, count=2)
    await node.services("acme").erasure.erase(session)
    await rounds(node, count=2)
    (told,) = receiver.told()
    assert (told["type"], told["session_id"], told["phase_after"]) == ("session.erased", session, None)


async def test_the_servers_own_affairs_are_told_nobody(node: Tenants, receiver: Receiver) -> None:
    await hooked(node, receiver.url())
    await begun(node, tenant="other")
    await rounds(node)
    assert receiver.requests == []


async def test_killed_between_delivery_and_writing_it_down_it_is_told_again_under_the_same_id(
    house: House, node: Tenants, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hooked(node, receiver.url())
    await begun(node)
    killed = 0

    async def die(self: Posting, hook: Hook, deliveries: Any) -> None:
        nonlocal killed
        await asyncio.gather(*(self._deliver(hook, each) for each in deliveries))
        killed += 1

    with monkeypatch.context() as patched:
        patched.setattr(Posting, "_serve", die)
        await node.posting.round()
        await node.posting.idle()
    assert killed == 1
    other = house.node()
    await rounds(other)
    assert len(receiver.requests) == 1, "its lease is not over"
    house.ambient.advance(postings.LEASE)
    await rounds(other)
    assert len(receiver.requests) == 2
    assert len({body for *_, body in receiver.requests}) == 1
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1


async def test_two_nodes_tell_each_thing_once(house: House, node: Tenants, receiver: Receiver) -> None:
    other = house.node()
    await other.posting.round()
    await hooked(node, receiver.url())
    for turn in range(6):
        session = await begun((node, other)[turn % 2])
        await moved(node, session, "suspend", "resume")
        await asyncio.gather(node.posting.round(), other.posting.round())
        await asyncio.gather(node.posting.idle(), other.posting.idle())
        house.ambient.advance(postings.LEASE if turn == 3 else 1)
    await rounds(node, other)
    ids = [told["id"] for told in receiver.told()]
    assert len(ids) == len(set(ids)) == 18
    for session in {told["session_id"] for told in receiver.told()}:
        mine = [told["move"] for told in receiver.told() if told["session_id"] == session]
        assert mine == ["activate", "suspend", "resume"]


async def test_what_another_node_told_meanwhile_is_not_told_again(
    house: House, node: Tenants, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = house.node()
    await hooked(node, receiver.url())
    await begun(node)
    found, overtaken = node.posting._found, 0

    async def late(*given: Any) -> Any:
        nonlocal overtaken
        mine = await found(*given)
        await rounds(other, count=2)
        await other.posting.leave()
        overtaken += 1
        return mine

    monkeypatch.setattr(node.posting, "_found", late)
    await rounds(node, count=2)
    assert overtaken
    assert moves(receiver) == ["activate"]


async def test_a_node_that_leaves_lets_the_next_go_on_at_once(house: House, node: Tenants, receiver: Receiver) -> None:
    other = house.node()
    await hooked(node, receiver.url())
    session = await begun(node)
    await rounds(node)
    await moved(node, session, "suspend")
    await rounds(other)
    assert moves(receiver) == ["activate"]
    await node.posting.leave()
    await rounds(other)
    assert moves(receiver) == ["activate", "suspend"]


async def test_one_that_hangs_holds_up_no_other(node: Tenants, receiver: Receiver) -> None:
    receiver.held.clear()
    await hooked(node, receiver.url("/hangs"))
    await hooked(node, receiver.url("/quick"))
    session = await begun(node)
    for move in ("suspend", "resume", "reactivate"):
        await node.posting.round()
        await moved(node, session, move)
    while len(receiver.told("/quick")) < 4:
        await node.posting.round()
        await asyncio.sleep(0.01)
    assert len(receiver.told("/hangs")) == 1
    receiver.held.set()


async def test_one_that_fails_is_tried_for_a_day_and_then_given_up(
    house: House, node: Tenants, receiver: Receiver
) -> None:
    hook = await hooked(node, receiver.url("/fails"), "activate")
    receiver.always["/fails"] = 500
    begun_at = house.ambient.now()
    session = await begun(node)
    await rounds(node, count=2)
    standing, waiting = postings.fares(await node.posting.book(), hook.id)
    assert (standing.problem, standing.succeeded_at, waiting) == ("status 500", None, 1)
    for _ in range(30):
        house.ambient.advance(3600)
        await rounds(node, count=1)
    standing, waiting = postings.fares(await node.posting.book(), hook.id)
    assert (standing.given_up, waiting) == (1, 0)
    assert house.ambient.now() - begun_at > 24 * 3600 * 1e6
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    told = (await node.auditing.page("acme")).items
    assert [(line.entry.what, line.entry.session, line.entry.reason) for line in told] == [  # type: ignore[union-attr]
        ("webhook_given_up", session, "undelivered")
    ]
    receiver.always.clear()
    await begun(node)
    await rounds(node)
    assert postings.fares(await node.posting.book(), hook.id)[0].succeeded_at is not None


async def test_a_delivery_that_is_refused_holds_up_only_its_own_session(
    house: House, node: Tenants, receiver: Receiver
) -> None:
    await hooked(node, receiver.url())
    receiver.answers["/hook"] = [410]
    first = await begun(node)
    await rounds(node, count=1)
    await moved(node, first, "suspend")
    second = await begun(node)
    await rounds(node)
    assert [(told["session_id"], told["move"]) for told in receiver.told()] == [
        (first, "activate"), (second, "activate"),
    ]  # fmt: skip
    house.ambient.advance(postings.DELAYS[0])
    await rounds(node)
    assert [(told["session_id"], told["move"]) for told in receiver.told()[2:]] == [
        (first, "activate"), (first, "suspend"),
    ]  # fmt: skip


async def test_nothing_waits_for_a_webhook_that_was_removed(node: Tenants, receiver: Receiver) -> None:
    hook = await hooked(node, receiver.url())
    receiver.always["/hook"] = 500
    await begun(node)
    await rounds(node)
    assert (await node.posting.book()).waiting
    await node.directory.remove_webhook("acme", hook.id, by=None)
    await rounds(node)
    book = await node.posting.book()
    assert not book.waiting
    assert not book.standings


async def test_what_is_crowded_out_is_told_in_the_audit_log(
    node: Tenants, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MOST", 3)
    receiver.always["/hook"] = 500
    await hooked(node, receiver.url())
    for _ in range(5):
        await begun(node)
    await rounds(node)
    assert len((await node.posting.book()).waiting) == 3
    await node.auditing.flush()
    entries = [line.entry for line in (await node.auditing.page("acme")).items]
    assert sum(entry.count for entry in entries) == 2
    assert {entry.reason for entry in entries} == {"crowded_out"}  # type: ignore[union-attr]


async def test_a_full_disk_after_a_delivery_means_that_it_is_told_again(
    house: House, node: Tenants, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hooked(node, receiver.url())
    await begun(node)
    await node.posting.round()
    full = 0

    async def append(*_: Any) -> None:
        nonlocal full
        full += 1
        raise DiskFull("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(node.store, "append", append)
        await node.posting.idle()
    assert full
    assert len(receiver.requests) == 1
    await rounds(node)
    assert len(receiver.requests) == 1, "it rests a little first"
    house.ambient.advance(posting.PATIENCE)
    await rounds(node)
    assert len(receiver.requests) == 2
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1


async def test_what_concerns_nobody_costs_no_writing(node: Tenants, receiver: Receiver) -> None:
    await begun(node)
    await rounds(node)
    assert (await node.posting.book()).position is None, "without webhooks nothing is written"
    await hooked(node, receiver.url(), "complete")
    await rounds(node)
    stands = await node.store.position()
    session = await begun(node)
    await moved(node, session, "suspend")
    since = await node.store.position()
    await rounds(node)
    assert await node.store.position() == since > stands


async def test_without_webhooks_the_feed_is_not_read(
    node: Tenants, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    changes = node.posting._store.changes

    async def noticed(after: int, limit: int) -> Any:
        read.append(after)
        return await changes(after, limit)

    monkeypatch.setattr(node.posting._store, "changes", noticed)
    session = await begun(node)
    await rounds(node)
    assert not read
    await hooked(node, receiver.url())
    await moved(node, session, "suspend")
    await rounds(node)
    assert read
    assert moves(receiver) == ["suspend"]


async def test_the_cursor_is_written_down_now_and_then_and_notes_are_summed_up(
    house: House, node: Tenants, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "LAG", 5)
    monkeypatch.setattr(notes, "EVERY", 8)
    await hooked(node, receiver.url(), "complete")
    for _ in range(6):
        await moved(node, await begun(node), "complete")
        await begun(node)
        await rounds(node, count=2)
    book = await node.posting.book()
    assert book.position is not None
    assert await house.node().posting.book() == book
    assert len(receiver.requests) == 6


async def test_trying_one_out_tells_what_came_of_it(node: Tenants, receiver: Receiver) -> None:
    hook = await hooked(node, receiver.url())
    receiver.answers["/hook"] = [204, 503]
    good, bad = await node.posting.test(hook), await node.posting.test(hook)
    assert (good.delivered, good.problem, bad.delivered, bad.problem) == (True, None, False, "status 503")
    (_, headers, body), _ = receiver.requests
    assert json.loads(body)["type"] == "webhook.test"
    assert headers["webhook-id"] == good.id


# ── where nothing is posted to ──


SPELLINGS = [
    "127.0.0.1", "[::1]", "localhost", "2130706433", "0177.0.0.1", "017700000001", "0x7f.1", "0x7f000001", "127.1",
    "10.1.2.3", "192.168.0.1", "172.31.0.1", "169.254.169.254", "[fd00::1]", "[fe80::1]", "0.0.0.0", "0", "[::]",
    "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "224.0.0.1", "[ff02::1]", "255.255.255.255",
]  # fmt: skip


@pytest.mark.parametrize("host", SPELLINGS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_by_default_nothing_inside_is_reached_however_it_is_spelled(
    host: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(*_: Any) -> None:
        raise AssertionError("it was connected to")

    monkeypatch.setattr(socket, "create_connection", connected)
    outbound = Outbound()
    with pytest.raises(Invalid):
        await outbound.must_reach(f"{scheme}://{host}:8080/x")
    status, problem = await asyncio.to_thread(outbound.post, f"{scheme}://{host}:8080/x", {}, b"", 1.0)
    assert status == 0
    assert "address" in problem


async def test_a_name_that_leads_inside_is_refused_whatever_else_it_leads_to(receiver: Receiver) -> None:
    for found in (["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:7f00:1"]):
        outbound = Outbound(resolve=lambda *_, found=found: found)
        with pytest.raises(Invalid, match="private address"):
            await outbound.must_reach("https://innocent.example/x")
        assert outbound.post("https://innocent.example/x", {}, b"", 1.0)[0] == 0
    assert receiver.requests == []


async def test_a_name_that_changes_its_mind_is_looked_at_with_each_delivery(receiver: Receiver) -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    outbound = Outbound(resolve=lambda *_: answers.pop(0))
    await outbound.must_reach("https://rebinding.example/x")
    assert "private address" in outbound.post("https://rebinding.example/x", {}, b"", 1.0)[1]


def test_the_connection_goes_to_the_address_that_was_looked_at(receiver: Receiver) -> None:
    asked: list[str] = []

    def resolve(host: str, _: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    outbound = Outbound(private=True, resolve=resolve)
    place = f"http://nowhere.invalid:{receiver.server_port}/hook?a=b"
    assert outbound.post(place, {"x": "y"}, b"{}", 5.0) == (204, "status 204")
    ((path, headers, _),) = receiver.requests
    assert (path, headers["host"]) == ("/hook?a=b", f"nowhere.invalid:{receiver.server_port}")
    assert asked == ["nowhere.invalid"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_answers_and_not_followed(receiver: Receiver, status: int) -> None:
    receiver.answers["/hook"] = [status]
    assert Outbound(private=True).post(receiver.url(), {}, b"{}", 5.0)[0] == status
    assert [path for path, *_ in receiver.requests] == ["/hook"]


async def test_a_proxy_of_the_environment_is_not_asked(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", receiver.url("/proxy"))
    outbound = Outbound(private=True, resolve=lambda *_: ["127.0.0.1"])
    assert outbound.post("http://inside.example:9/x", {}, b"{}", 1.0)[0] == 0
    assert receiver.requests == []


async def test_outside_a_private_network_only_tls_will_do() -> None:
    for private in (False, True):
        outbound = Outbound(private=private, resolve=lambda *_: ["93.184.216.34"])
        await outbound.must_reach("https://public.example/x")
        with pytest.raises(Invalid, match="https"):
            await outbound.must_reach("http://public.example/x")


async def test_a_name_that_leads_nowhere_yet_is_taken_and_not_delivered_to() -> None:
    def nowhere(*_: Any) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    outbound = Outbound(resolve=nowhere)
    await outbound.must_reach("https://later.example/x")
    with pytest.raises(Invalid):
        await outbound.must_reach("http://later.example/x")
    assert outbound.post("https://later.example/x", {}, b"", 1.0)[0] == 0
    assert Outbound(resolve=lambda *_: []).post("https://later.example/x", {}, b"", 1.0)[0] == 0
