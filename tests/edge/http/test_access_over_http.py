"""What the server answers is what was decided: every endpoint, role and relation to a session, and every hidden field.

The decision is pure and tested by itself; here it is held against what comes back over HTTP (R25), and what a policy
hides is looked for in everything that a reader can have of a session (R26).
"""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from perdure.core.access.decide import decide
from perdure.core.access.roles import Actor, Context, Resource, Role
from perdure.core.access.rules import OPEN, FieldRule, Policy
from perdure.core.memory.owning import vault_of
from perdure.core.memory.parts import Space
from perdure.core.memory.requests import Keeping
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Isolation
from perdure.edge.http.building import endpoints
from perdure.edge.http.remembering import Remembering
from perdure.edge.http.routes import Endpoint
from perdure.edge.http.wire import EXACT
from perdure.edge.library import AsyncPerdure
from tests.edge.http.world import Client, Reply, World, world

OURS, THEIRS = "acme", "globex"
RELATIONS = ("own", "named", "foreign", "other tenant", "missing")
REFUSED = (401, 403, 404)
NOWHERE = "0192f0c4-7d1e-7abc-8def-0123456789ab"
FREE: dict[str, Any] = {"rate": 1e6, "burst": 10**9, "session_rate": 1e6, "session_burst": 10**9, "anomaly": "off"}
FREE["memory"] = Remembering(embedder="none")


class Place:
    """A server with somebody in every role, and whatever requests need to be about."""

    def __init__(self, there: World) -> None:
        self.there = there
        self.clients: dict[Role, Client] = {}
        self.actors: dict[Role, Actor] = {}
        self._made = 0

    async def arrive(self) -> None:
        """Let everybody in."""
        directory = self.there.store.directory
        for role in Role:
            client = await self.there.principal(f"{role.value}-us", role, tenant=OURS)
            assert client.credential is not None
            self.clients[role] = client
            self.actors[role] = await directory.identify(client.credential)
        for name in ("zoe", "ana"):
            await directory.add_principal(OURS, name, by=None, roles=(Role.OWNER,))
        self.bob = await self.there.principal("bob", *Role, tenant=THEIRS)
        self.zoe = await self.there.principal("zed", *Role, tenant=OURS)

    async def session(self, relation: str, actor: Actor) -> tuple[dict[str, str], Resource]:
        """A session that stands so to an actor: the ids that lead into it, and what it is to a decision."""
        owner = actor.name if relation == "own" else "zoe"
        users = (actor.name,) if relation == "named" else ()
        if relation == "missing":
            ids = dict.fromkeys(("session_id", "checkpoint_id", "conflict_id"), NOWHERE)
            return ids, Resource(tenant=OURS, session=NOWHERE, owner="zoe", exists=False)
        maker = self.bob if relation == "other tenant" else self.zoe
        isolation = {"model": "per_user", "users": list(users)}
        id = await maker.begun(owner=owner, vars={"city": "Rome"}, isolation=isolation)
        tenant = THEIRS if relation == "other tenant" else OURS
        db = self.there.store.services(tenant)
        session = await AsyncPerdure(db).session(id)
        point = await session.checkpoint("here")
        branch = await session.branch()
        await session.patch_vars(city="Oslo")
        await branch.patch_vars(city="Bern")
        report = await session.merge(branch)
        assert report.conflict_id is not None
        await session.reserve("call-1", 1)
        await session.settle("call-1", 1, estimated=True)
        await session.reserve("call-1", 1)
        for words in ("hello", "and then", "well"):
            async with session.turn(words):
                pass
        resource = Resource(tenant=tenant, session=id, owner=owner, model="per_user", users=users, phase="active")
        if tenant == THEIRS:  # to everybody here it is not there
            resource = Resource(tenant=OURS, session=id, owner="zoe", exists=False)
        return {"session_id": id, "checkpoint_id": point.id, "conflict_id": report.conflict_id}, resource

    async def thing(self, actor: Actor) -> dict[str, str]:
        """Ids of the tenant's own, fresh ones: of what belongs to no session. What is remembered is the actor's."""
        directory = self.there.store.directory
        self._made += 1
        somebody = await directory.add_principal(OURS, f"p{self._made}", by=None, roles=(Role.VIEWER,))
        key = await directory.add_key(OURS, somebody.id, by=None)
        hook = await directory.add_webhook(OURS, f"https://example.com/{self._made}", ("*",), by=None)
        blob = await self.zoe.post("/v1/blobs", raw=b"words")
        ids = {"principal_id": somebody.id, "name": somebody.name, "key_id": key.key.id, "webhook_id": hook.hook.id}
        memories = self.there.store.services(OURS).memories
        asked = [Keeping(content=f"memory {self._made}")]
        kept = await memories.keep(vault_of(actor.name), asked, owner=actor.name)
        return ids | {"sha256": blob.json["sha256"], "memory_id": kept[0].id} | await self.remembered(actor, kept[0].id)

    async def remembered(self, actor: Actor, memory: str) -> dict[str, str]:
        """Ids of what was made of an actor's memories, and of a session to learn from."""
        services, clade = self.there.store.services(OURS), Space("clade", "desk")
        run = await services.consolidating.run(vault_of(actor.name))
        await services.memories.shelves.begin(clade, owner=actor.name)
        proposal = await services.promoting.propose(vault_of(actor.name), memory, to=clade)
        session = await AsyncPerdure(services).create(owner=actor.name)
        return {"run_id": run.id, "proposal_id": proposal.id, "own_session": session.id, "clade": "desk"}

    async def ask(self, client: Client, endpoint: Endpoint, ids: dict[str, str], **more: Any) -> Reply:
        """One request, well formed as far as its row tells."""
        target = endpoint.path
        for name, id in ids.items():
            target = target.replace(f"{{{name}}}", id)
        if endpoint.name == "diff_state":
            target += "?from=1"
        if endpoint.name == "attach_surface":
            target += "?surface=web"
        return await client.ask(endpoint.method, target, _body(endpoint, ids), **more)


def _body(endpoint: Endpoint, ids: dict[str, str]) -> Any:
    if endpoint.name == "merge":
        return {"source": ids["session_id"]}
    if endpoint.name == "resume":
        return {"checkpoint_id": ids["checkpoint_id"]}
    if endpoint.name == "review_proposal":
        return {"accept": True, "clade": "desk"}
    if endpoint.name == "promote_memory":
        return {"memory_id": ids["memory_id"]}
    if endpoint.name == "extract_memories":
        return {"session_id": ids["own_session"]}
    return {} if endpoint.name in ("branch", "find_sessions") else endpoint.example


GUARDED = tuple(endpoint for endpoint in endpoints() if endpoint.action is not None)
ABOUT_ONE = tuple(endpoint for endpoint in GUARDED if endpoint.scoped)
ABOUT_ALL = tuple(endpoint for endpoint in GUARDED if not endpoint.scoped)
CONTEXT = Context(at=1, address="127.0.0.1")


def agrees(status: int, allowed: bool, concealed: bool) -> bool:
    """Whether a status says what was decided."""
    return status not in REFUSED and status < 500 if allowed else status == (404 if concealed else 403)


def only_its_owner(reply: Reply) -> bool:
    """Whether a session has said itself that this is its owner's to do, whoever else was let in."""
    return reply.status == 403 and reply.json["code"] == "not_owner"


@pytest.mark.slow
@pytest.mark.parametrize("role", Role)
async def test_every_endpoint_about_a_session_answers_as_was_decided(role: Role) -> None:
    async with world(**FREE) as there:
        feed = asyncio.create_task(there.node.hub.run())
        place = Place(there)
        await place.arrive()
        client, actor = place.clients[role], place.actors[role]
        wrong, refusals = [], []
        for endpoint in ABOUT_ONE:
            told: dict[str, tuple[int, dict[str, str], str]] = {}
            for relation in RELATIONS:
                ids, resource = await place.session(relation, actor)
                assert endpoint.action is not None
                decision = decide(actor, endpoint.action, resource, CONTEXT, OPEN)
                reply = await place.ask(client, endpoint, ids)
                if not agrees(reply.status, decision.allowed, decision.concealed) and not only_its_owner(reply):
                    wrong.append(f"{endpoint.method} {endpoint.path} to {relation}: {decision} but {reply}")
                if not decision.allowed and relation in ("own", "named", "foreign"):
                    refusals.append((endpoint.name, ids["session_id"], str(decision.reason)))
                text = reply.body.decode()
                for id in ids.values():
                    text = text.replace(id, "ID")
                told[relation] = reply.status, reply.headers, text
            if told["other tenant"] != told["missing"] or (
                told["foreign"][0] == 404 and told["foreign"] != told["missing"]
            ):
                wrong.append(f"{endpoint.method} {endpoint.path} tells foreign from missing: {told}")
        assert wrong == []
        noted = await entries(there, actor)
        assert [item for item in refusals if item not in noted] == []
        assert refusals
        feed.cancel()


async def entries(there: World, actor: Actor) -> set[tuple[str, str | None, str]]:
    """What the audit log says was refused to somebody."""
    auditing = there.store.auditing
    await auditing.flush()
    found, after = set(), 0
    while True:
        page = await auditing.page(OURS, after, 1000)
        for line in page.items:
            entry: Any = line.entry
            if entry.actor == actor.principal and entry.outcome == "denied":
                found.add((entry.what, entry.session, entry.reason))
        if page.next is None:
            return found
        after = page.next


@pytest.mark.parametrize("role", Role)
async def test_every_endpoint_about_a_tenant_answers_as_was_decided(role: Role) -> None:
    async with world(**FREE) as there:
        feed = asyncio.create_task(there.node.hub.run())
        place = Place(there)
        await place.arrive()
        client, actor = place.clients[role], place.actors[role]
        wrong, refusals = [], []
        for endpoint in ABOUT_ALL:
            assert endpoint.action is not None
            resource = Resource(tenant=OURS, session="", owner=actor.name)
            decision = decide(actor, endpoint.action, resource, CONTEXT, OPEN)
            reply = await place.ask(client, endpoint, await place.thing(actor))
            if not agrees(reply.status, decision.allowed, decision.concealed):
                wrong.append(f"{endpoint.method} {endpoint.path}: {decision} but {reply}")
            if not decision.allowed:
                refusals.append((endpoint.name, None, str(decision.reason)))
        assert wrong == []
        noted = await entries(there, actor)
        assert [item for item in refusals if item not in noted] == []
        feed.cancel()


async def test_what_is_open_to_all_who_are_known_is_open_to_every_role_and_to_nobody_else() -> None:
    async with world(**FREE) as there:
        place = Place(there)
        await place.arrive()
        known = [endpoint for endpoint in endpoints() if endpoint.known]
        assert known
        for endpoint in known:
            for client in place.clients.values():
                assert (await place.ask(client, endpoint, {})).status in (200, 204)
            assert (await place.ask(Client(there), endpoint, {})).status == 401


async def test_a_credential_that_counts_for_nothing_opens_no_endpoint() -> None:
    async with world(**FREE, stranger_rate=1e6, stranger_burst=10**9) as there:
        place = Place(there)
        await place.arrive()
        actor = place.actors[Role.OWNER]
        ids = (await place.session("own", actor))[0] | await place.thing(actor)
        key = str(place.clients[Role.OWNER].credential)
        for endpoint in GUARDED:
            for shown in (None, "", "pdk_", key[:-1] + ("a" if key[-1] != "a" else "b"), key[:-1], "null", "e30.e30."):
                reply = await place.ask(Client(there, shown), endpoint, ids)
                assert reply.status == 401, f"{endpoint.name} with {shown!r}: {reply}"


# ── hidden fields ──

SALARY, SECRET, PROMPT, PAD = "qxz-salary", "qxz-secret", "qxz-prompt", "qxz-pad"
HIDDEN = {
    "vars.salary": SALARY,
    "metadata.secret": SECRET,
    "config.system_prompt": PROMPT,
    "scratchpad": PAD,
}


def hiding(*readers: Role) -> Policy:
    """A policy that shows the fields to these roles alone."""
    return Policy(fields=tuple(FieldRule(path=path, read=readers, write=tuple(Role)) for path in HIDDEN))


async def secretive(place: Place, owner: str, *users: str) -> dict[str, str]:
    """A session with something to hide in every version of it."""
    db = AsyncPerdure(place.there.store.services(OURS))
    session = await db.create(
        "open to all",
        owner=owner,
        metadata={"secret": f"{SECRET}-0", "plain": "shown"},
        vars={"salary": f"{SALARY}-0", "city": "Rome"},
        config={"system_prompt": f"{PROMPT}-0"},
        isolation=Isolation(model="per_user", users=users),
    )
    await session.write_scratchpad(f"{PAD}-0")
    point = await session.checkpoint("before")
    branch = await session.branch()
    for number in (1, 2):
        await session.patch_vars(salary=f"{SALARY}-{number}", city=f"Oslo {number}")
        await session.configure(
            metadata={"secret": f"{SECRET}-{number}"}, config={"system_prompt": f"{PROMPT}-{number}"}
        )
        await session.write_scratchpad(f"{PAD}-{number}")
    await branch.patch_vars(salary=f"{SALARY}-b", city="Bern")
    await branch.write_scratchpad(f"{PAD}-b")
    report = await session.merge(branch)
    assert report.conflict_id is not None
    return {"session_id": session.id, "checkpoint_id": point.id, "conflict_id": report.conflict_id}


def shown(reply: bytes) -> set[str]:
    """Which of the hidden fields an answer tells."""
    return {path for path, mark in HIDDEN.items() if mark.encode() in reply}


VOICES: tuple[dict[str, str], ...] = ({}, {"accept": EXACT})
EXTRA = {
    "diff_state": ("?from=2", "?from=2&to=5", "?from=6"),
    "read_state": ("", "?at=2", "?at=5"),
    "read_events": ("", "?last=3", "?after=2&limit=2"),
    "read_turns": ("", "?last=1"),
    "attach_surface": ("?surface=web",),
    "list_sessions": ("", "?limit=1", "?title=open"),
}


async def readings(place: Place, client: Client, ids: dict[str, str]) -> dict[str, set[str]]:
    """What each reading endpoint tells of the hidden fields."""
    told: dict[str, set[str]] = {}
    reads = [endpoint for endpoint in GUARDED if endpoint.method == "GET" or endpoint.name in ("find_sessions",)]
    for endpoint in reads:
        target = endpoint.path
        for name, id in (ids | {"principal_id": "zoe", "sha256": "0" * 64}).items():
            target = target.replace(f"{{{name}}}", id)
        for query in EXTRA.get(endpoint.name, ("",)):
            for headers in VOICES:
                reply = await client.ask(endpoint.method, target + query, headers=headers)
                assert reply.status < 500, reply
                assert not shown(json.dumps(reply.headers).encode())
                if reply.status < 300:
                    told.setdefault(endpoint.name, set()).update(shown(reply.body))
    for headers in VOICES:
        told["stream"] = told.get("stream", set()) | shown(await streamed(place, client, ids["session_id"], headers))
        told["socket"] = told.get("socket", set()) | shown(await attached(place, client, ids["session_id"], headers))
    return told


async def versions(place: Place, id: str) -> int:
    head = await place.there.store.services(OURS).sessions.log.head(SessionId(id))
    return int(head.row.version)


async def streamed(place: Place, client: Client, id: str, more: dict[str, str]) -> bytes:
    """Everything that server-sent events tell of a session, from its beginning; nothing when they are refused."""
    last, told, done = await versions(place, id), b"", asyncio.Event()
    accept = "text/event-stream" + (f", {more['accept']}" if more else "")
    headers = [(b"host", b"127.0.0.1"), (b"accept", accept.encode()), (b"last-event-id", b"0")]
    headers.append((b"authorization", f"Bearer {client.credential}".encode()))
    path = f"/v1/sessions/{id}/events"
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
    }

    async def receive() -> Any:
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal told
        told += message.get("body", b"")
        if f"id: {last}\n".encode() in told or message.get("status", 200) != 200:
            done.set()

    scope |= {"headers": headers, "client": ("127.0.0.1", 1), "scheme": "http"}
    await asyncio.wait_for(place.there.application(scope, receive, send), 20)
    return told


async def attached(place: Place, client: Client, id: str, more: dict[str, str]) -> bytes:
    """Everything that a surface is told of a session, from its beginning; nothing when it is refused."""
    last, told, done = await versions(place, id), b"", asyncio.Event()
    path = f"/v1/sessions/{id}/attach"
    exact = b"&exact=true" if more else b""
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {client.credential}".encode())]
    asked = [{"type": "websocket.connect"}]

    async def receive() -> Any:
        if asked:
            return asked.pop()
        await done.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Any) -> None:
        nonlocal told
        text = message.get("text") or ""
        told += text.encode() + (message.get("bytes") or message.get("body") or b"")
        finished = f'"version":{last},'.encode() in told.partition(b'"type":"event"')[2]
        if finished or message["type"] in ("websocket.close", "websocket.http.response.body"):
            done.set()

    scope: dict[str, Any] = {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"surface=web&after=0" + exact,
    }
    scope |= {"headers": headers, "client": ("127.0.0.1", 1), "scheme": "ws", "subprotocols": []}
    scope["extensions"] = {"websocket.http.response": {}}
    await asyncio.wait_for(place.there.application(scope, receive, send), 20)
    return told


async def test_fields_show_to_those_they_are_meant_for_and_by_no_reading_to_anybody_else() -> None:
    async with world(**FREE) as there:
        feed = asyncio.create_task(there.node.hub.run())
        place = Place(there)
        await place.arrive()
        await there.store.directory.set_policy(OURS, hiding(Role.OWNER), by=None)
        ids = await secretive(place, "owner-us", *(f"{role.value}-us" for role in Role))
        seen = await readings(place, place.clients[Role.OWNER], ids)
        for name in ("get_session", "read_events", "export_session", "stream", "socket"):
            assert seen[name], f"the owner is not told by {name}, so nothing is tested"
        assert set().union(*seen.values()) == set(HIDDEN)
        told: Counter[str] = Counter()
        for role in (Role.AGENT, Role.VIEWER, Role.AUDITOR, Role.ADMIN):
            found = await readings(place, place.clients[role], ids)
            assert {name: paths for name, paths in found.items() if paths} == {}, role
            told.update(list(found))
        assert {"get_session", "read_events", "read_state", "read_turns", "list_branches"} <= set(told)
        feed.cancel()


async def test_what_is_hidden_from_the_owner_does_not_show_by_anything_the_owner_may_do() -> None:
    async with world(**FREE) as there:
        feed = asyncio.create_task(there.node.hub.run())
        place = Place(there)
        await place.arrive()
        await there.store.directory.set_policy(OURS, hiding(Role.AUDITOR), by=None)
        client = place.clients[Role.OWNER]
        ids = await secretive(place, "owner-us")
        found = await readings(place, client, ids)
        assert {name: paths for name, paths in found.items() if paths} == {}
        assert {"get_session", "read_events", "read_state"} <= set(found)
        statuses: Counter[int] = Counter()
        for endpoint in ABOUT_ONE:
            for headers in VOICES:
                ids = await secretive(place, "owner-us")
                reply = await place.ask(client, endpoint, ids, headers=headers)
                statuses[reply.status // 100] += 1
                assert shown(reply.body) == set(), f"{endpoint.name}: {reply}"
                if reply.status == 201 and endpoint.action is not None and endpoint.name != "issue_token":
                    made = ids | {"session_id": reply.json.get("session_id", ids["session_id"])}
                    assert all(not paths for paths in (await readings(place, client, made)).values()), endpoint.name
        assert statuses[2] > 20, statuses
        feed.cancel()


async def test_an_admin_sees_nothing_of_what_a_session_says_without_breaking_the_glass() -> None:
    async with world(**FREE) as there:
        feed = asyncio.create_task(there.node.hub.run())
        place = Place(there)
        await place.arrive()
        mark = "qxz-content"
        id = await place.zoe.begun(
            title=mark,
            tags=[mark],
            metadata={"a": mark},
            vars={"b": mark},
            config={"system_prompt": mark, "model": mark, "extra": {"c": mark}},
        )
        at = f"/v1/sessions/{id}"
        assert (await place.zoe.patch(f"{at}/scratchpad", {"content": mark})).status == 200
        said = [{"kind": "message", "data": {"role": "user", "content": mark}}]
        assert (await place.zoe.post(f"{at}/events", {"events": said, "arrange": True})).status == 201
        point = await place.zoe.post(f"{at}/checkpoint", {"label": mark, "metadata": {"d": mark}})
        ids = {"session_id": id, "checkpoint_id": point.json["checkpoint_id"], "conflict_id": NOWHERE}
        admin, told = place.clients[Role.ADMIN], {}
        for endpoint in GUARDED:
            if endpoint.method == "GET":
                for headers in VOICES:
                    reply = await place.ask(admin, endpoint, ids | {"sha256": "0" * 64}, headers=headers)
                    if mark.encode() in reply.body:
                        told[endpoint.name] = reply.body[:2000]
        assert told == {}
        glass = {"perdure-override": "a complaint"}
        assert mark.encode() in (await admin.get(at, headers=glass)).body
        feed.cancel()


async def test_what_a_role_may_not_read_by_its_own_address_it_is_not_told_by_another() -> None:
    async with world(**FREE) as there:
        place = Place(there)
        await place.arrive()
        session = await place.zoe.begun(isolation={"model": "per_user", "users": ["viewer-us"]})
        at = f"/v1/sessions/{session}"
        await place.zoe.patch(f"{at}/scratchpad", {"content": "qxz-pad"})
        await place.zoe.post(f"{at}/checkpoint", {"label": "qxz-point"})
        viewer = place.clients[Role.VIEWER]
        assert (await viewer.get(f"{at}/scratchpad")).status == 403
        assert (await viewer.get(f"{at}/checkpoints")).status == 403
        whole = await viewer.get(at)
        assert whole.status == 200
        assert b"qxz" not in whole.body, whole.json


async def test_a_webhook_that_names_no_events_is_told_of_all() -> None:
    async with world(**FREE) as there:
        place = Place(there)
        await place.arrive()
        made = await place.clients[Role.ADMIN].post("/v1/webhooks", {"url": "https://example.com/all"})
        assert made.status == 201, made
        assert made.json["events"] == ["*"]


@pytest.mark.parametrize("roles", [(Role.ADMIN,), (Role.ADMIN, Role.OWNER)], ids=["admin", "admin and owner"])
async def test_lists_and_searches_tell_an_admin_nothing_of_what_others_sessions_say(roles: tuple[Role, ...]) -> None:
    async with world(**FREE) as there:
        zoe, admin = await there.principal("zoe", Role.OWNER), await there.principal("adam", *roles)
        facts: dict[str, Any] = {"title": "qxz-title", "tags": ["qxz-tag"], "metadata": {"k": "qxz-meta"}}
        said = [{"kind": "message", "data": {"role": "user", "content": "qxzword"}}]
        theirs, made = await zoe.begun(**facts), []
        if Role.OWNER in roles:
            made = [await admin.begun(**facts)]
        for client, id in [(zoe, theirs), *((admin, id) for id in made)]:
            answer = await client.post(f"/v1/sessions/{id}/events", {"events": said, "arrange": True})
            assert answer.status == 201
        rows = {row["session_id"]: json.dumps(row) for row in (await admin.get("/v1/sessions")).json["items"]}
        assert "qxz" not in rows[theirs]
        assert all("qxz" in rows[id] for id in made), "one's own are shown"
        searches: tuple[dict[str, Any], ...] = ({"text": "qxzword"}, {"title": "qxz"}, {"tag": ["qxz-tag"]})
        for search in (*searches, {"metadata": {"k": "qxz-meta"}}):
            for more in ({}, {"owner": "zoe"}):
                found = await admin.post("/v1/sessions/find", search | more)
                listed = [row["session_id"] for row in found.json["items"]] if found.status == 200 else []
                assert listed == ([] if more else made), (search, more, found)
                counted = await admin.post("/v1/sessions/count", search | more)
                assert counted.status == 403 or counted.json["count"] == len(listed), (search, more, counted)
        glass = {"perdure-override": "a complaint"}
        assert "qxz-title" in (await admin.get("/v1/sessions?owner=zoe", headers=glass)).body.decode() or made
