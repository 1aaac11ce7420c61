"""Nobody has a byte of what somebody else remembers: probes of every endpoint about memory, from every kind of actor.

Two tenants have people of the same names, with vaults, clades and lethe full of marks. Whoever is not let into a space
asks for it in every way there is; the same is asked of a space, or a memory, that does not exist, and the two answers
must be the same. `PERDURE_PROBES` says how many (a small share unless it is set), `PERDURE_SEED` which.
"""

import json
import os
import random
from collections import Counter
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from perdure.core.access.decide import decide
from perdure.core.access.roles import Action, Context, Resource, Role, Thing, Verb
from perdure.core.access.rules import OPEN, Condition, FieldRule, Policy, Rule
from perdure.core.memory.owning import vault_of
from perdure.core.memory.parts import Space
from perdure.edge.http.building import endpoints
from perdure.edge.http.remembering import Remembering
from perdure.edge.http.routes import MUTATING, Endpoint
from tests.edge.http.world import Client, Reply, World
from tests.edge.http.world import world as any_world

world = partial(any_world, memory=Remembering(embedder="none"))
PROBES = int(os.environ.get("PERDURE_PROBES", "1500"))
SEED = int(os.environ.get("PERDURE_SEED", "7"))
TENANTS = ("acme", "globex")
MARK = "qxzmark"
FREE: dict[str, Any] = {"rate": 1e6, "burst": 10**9, "session_rate": 1e6, "session_burst": 10**9, "anomaly": "off"}
ADMINS = ("root", "boss")
ABOUT = tuple(endpoint for endpoint in endpoints() if endpoint.path.startswith("/v1/memory"))
PEOPLE: dict[str, dict[str, Any]] = {
    "ana": {"roles": (Role.OWNER,)},
    "bob": {"roles": (Role.OWNER,)},
    "bot": {"roles": (Role.AGENT,), "kind": "agent", "acting_for": "ana"},
    "cal": {"roles": (Role.OWNER, Role.AGENT)},
    "eve": {"roles": (Role.OWNER, Role.AGENT, Role.VIEWER)},
    "vic": {"roles": (Role.VIEWER,)},
    "aud": {"roles": (Role.AUDITOR,)},
    "root": {"roles": (Role.ADMIN,)},
    "boss": {"roles": (Role.ADMIN, Role.OWNER)},
}
SPACES: dict[str, tuple[str, dict[str, str], set[str]]] = {
    "ana's": ("ana", {"owner": "ana"}, {"ana", "bot"}),
    "her trader's": ("ana", {"owner": "ana", "agent": "trader"}, {"ana", "bot"}),
    "bob's": ("bob", {"owner": "bob"}, {"bob"}),
    "his trader's": ("bob", {"owner": "bob", "agent": "trader"}, {"bob"}),
    "the desk's": ("ana", {"clade": "desk"}, {"ana", "bot", "cal"}),
    "the lab's": ("bob", {"clade": "lab"}, {"bob", "bot"}),
    "everybody's": ("boss", {"namespace": "lethe"}, {"ana", "bob", "bot", "cal", "eve", "vic", "boss"}),
}
"""Who writes there, how it is asked for, and who may read it."""
CLADES = {"desk": {"users": ["cal"]}, "lab": {"agents": {"bot": "read"}}}


class Planted(NamedTuple):
    """A memory of somebody's: where, its id, and the words that must stay there; and a run there."""

    tenant: str
    space: str
    id: str
    mark: str
    run: str
    proposal: str
    session: str


class Scene:
    """Two tenants, and what their people remember."""

    def __init__(self, there: World, rng: random.Random) -> None:
        self.there = there
        self.rng = rng
        self.clients: dict[tuple[str, str], Client] = {}
        self.planted: list[Planted] = []

    async def set(self) -> None:
        """Everybody comes, and writes down what only some may know."""
        for tenant in TENANTS:
            for name, facts in PEOPLE.items():
                given = dict(facts)
                client = await self.there.principal(name, *given.pop("roles"), tenant=tenant, **given)
                self.clients[tenant, name] = client
            for name, let in CLADES.items():
                owner = "ana" if name == "desk" else "bob"
                made = await self.clients[tenant, owner].post("/v1/memory/clades", {"name": name, **let})
                assert made.status == 201, made
            for space in SPACES:
                for number in range(3):
                    await self.plant(tenant, space, number)

    async def plant(self, tenant: str, space: str, number: int) -> None:
        """One memory, marked wherever words can stand."""
        mark = f"{MARK}{self.rng.getrandbits(48):012x}"
        who, place, _ = SPACES[space]
        body = {
            "content": f"what is remembered {mark} of {space} {number}",
            "metadata": {"city": mark, mark: 1},
            "author": mark,
            "thread": mark,
            "subjects": [mark],
            "source": {"kind": "tool", "session": mark, "uri": mark},
        }
        kept = await self.clients[tenant, who].post("/v1/memory", body | _own(who, place))
        assert kept.status == 201, kept
        run = await self.clients[tenant, who].post("/v1/memory/consolidate", _own(who, place))
        assert run.status == 200, run
        session = await self.clients[tenant, who].begun()
        said = [{"kind": "message", "data": {"role": "user", "content": f"I always prefer {mark} to anything else."}}]
        heard = await self.clients[tenant, who].post(
            f"/v1/sessions/{session}/events", {"events": said, "arrange": True}
        )
        assert heard.status == 201, heard
        proposal = run.json["id"]  # of the same form, and no proposal's
        if who == "bob" and "owner" in place:
            to = {"memory_id": kept.json["id"], "to": "clade/lab", **_own(who, place)}
            made = await self.clients[tenant, who].post("/v1/memory/promote", to)
            assert made.status == 201, made
            proposal = made.json["id"]
        self.planted.append(Planted(tenant, space, kept.json["id"], mark, run.json["id"], proposal, session))

    def closed(self, tenant: str, name: str) -> list[Planted]:
        """What somebody must not have."""
        return [one for one in self.planted if one.tenant != tenant or name not in SPACES[one.space][2]]

    async def as_it_was(self, one: Planted) -> bool:
        """Whether a memory is still what it was."""
        memories = self.there.store.services(one.tenant).memories
        shelf = (await memories.shelves.look(space_of(one.space))).shelf
        memory = shelf.memories.get(one.id)
        return memory is not None and one.mark in memory.content and memory.status == "live"


def _own(who: str, place: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in place.items() if (name, value) != ("owner", who)}


def space_of(name: str) -> Space:
    place = SPACES[name][1]
    if "owner" in place:
        return vault_of(place["owner"], place.get("agent", ""))
    return Space("clade", place["clade"]) if "clade" in place else Space("lethe")


# ── probes ──


class Probe(NamedTuple):
    """What is asked, of which space and memory."""

    endpoint: Endpoint
    place: dict[str, str]
    id: str
    run: str
    proposal: str
    session: str
    words: str

    def told(self) -> tuple[str, bytes, dict[str, str]]:
        """Target, body and headers."""
        endpoint, headers = self.endpoint, dict[str, str]()
        filled = {"{memory_id}": self.id, "{run_id}": self.run, "{proposal_id}": self.proposal}
        filled["{clade}"] = self.place.get("clade", "nobody's")
        target = "/".join(filled.get(piece, piece) for piece in endpoint.path.split("/"))
        if endpoint.query is not None:
            known = set(endpoint.query.__struct_fields__)
            asked = {name: value for name, value in self.place.items() if name in known}
            target += "?" + urlencode(asked) if asked else ""
        if endpoint.body is None:
            return target, b"", headers
        if endpoint.body is bytes:
            return (
                target,
                json.dumps({"content": "what we remember"}).encode(),
                {"content-type": "application/x-ndjson"},
            )
        body = dict(endpoint.example or {}) if endpoint.name != "share_clade" else {}  # those let in stay
        known = set(endpoint.body.__struct_fields__)
        body |= {name: value for name, value in self.place.items() if name in known}
        if "query" in known:
            body |= {"query": self.words, "top_k": 100, "statuses": ["live", "archived", "superseded", "quarantined"]}
            body |= {"beyond": 50}
            for name in ("type_filter", "min_importance"):
                body.pop(name, None)
        if "supersedes" in known:
            body["supersedes"] = [self.id]
        for name, id in (("memory_id", self.id), ("session_id", self.session)):
            body |= {name: id} if name in known else {}
        if "source" in known:
            body["source"] = {"session": self.session}
        return target, json.dumps(body).encode(), {"content-type": "application/json"}


def made_up(rng: random.Random, probe: Probe) -> Probe:
    """The same of what is nowhere."""
    nobody = f"n{rng.getrandbits(40):010x}"
    place = {name: value if name in ("namespace", "agent") else nobody for name, value in probe.place.items()}
    ids = {name: _another(rng, getattr(probe, name)) for name in ("id", "run", "proposal", "session")}
    return probe._replace(place=place, **ids)


def _another(rng: random.Random, id: str) -> str:
    return id[:14] + "".join(rng.choice("0123456789abcdef") if sign in "0123456789abcdef" else sign for sign in id[14:])


def shape(reply: Reply, probe: Probe) -> tuple[int, dict[str, str], str]:
    """An answer without the names that were sent."""
    text = reply.body.decode()
    for name in ("id", "run", "proposal", "session"):
        text = text.replace(getattr(probe, name), name)
    for name, value in probe.place.items():
        text = text if name == "namespace" else text.replace(value, name)
    return reply.status, {name: value for name, value in reply.headers.items() if name != "date"}, text


async def asked(client: Client, probe: Probe) -> Reply:
    target, body, headers = probe.told()
    return await client.ask(probe.endpoint.method, target, raw=body, headers=headers)


@pytest.mark.slow
async def test_not_one_byte_of_another_s_memory_comes_back_and_foreign_looks_as_missing() -> None:
    rng = random.Random(SEED)
    async with world(**FREE) as there:
        scene = Scene(there, rng)
        await scene.set()
        statuses: Counter[int] = Counter()
        seen: Counter[str] = Counter()
        moved: set[str] = set()
        """What admins have put away without reading it, as they may."""
        for number in range(PROBES):
            endpoint = ABOUT[number % len(ABOUT)]
            tenant, name = rng.choice(TENANTS), rng.choice([*PEOPLE])
            closed = scene.closed(tenant, name)
            one = rng.choice(closed)
            place = dict(SPACES[one.space][1]) if one.space != "everybody's" else {}
            if rng.random() < 0.3:
                place = {}  # another's memory, asked for in one's own vault
            if rng.random() < 0.1:
                place = {"namespace": "lethe"}
            words = f"what is remembered {one.mark if number % 2 else ''}"
            probe = Probe(endpoint, place, one.id, one.run, one.proposal, one.session, words)
            client = scene.clients[tenant, name]
            reply = await asked(client, probe)
            sent = str(probe)
            where = f"probe {number} of seed {SEED}: {name} of {tenant} {endpoint.method} {endpoint.path} {probe.place}"
            told = json.dumps(reply.headers) + reply.body.decode()
            leaks = [other for other in closed if other.mark in told and other.mark not in sent]
            assert leaks == [], f"{where} → {reply}"
            assert reply.status < 500, f"{where} → {reply}"
            statuses[reply.status] += 1
            seen[endpoint.name] += 1
            if name in ADMINS:
                moved |= {one.id} if endpoint.name == "move_memory" and reply.status < 300 else set()
            elif tenant == one.tenant and reply.status >= 400:
                nothing = made_up(rng, probe)
                other = await asked(client, nothing)
                assert shape(reply, probe) == shape(other, nothing), f"{where}:\n{reply}\n{other}"
        assert {200, 201, 403, 404} <= set(statuses), f"too little was tried: {statuses}"
        assert set(seen) == {endpoint.name for endpoint in ABOUT}
        assert [one for one in scene.planted if one.id not in moved and not await scene.as_it_was(one)] == []
        assert all([await readable(scene, one) for one in scene.planted]), "the marks were not there"


async def readable(scene: Scene, one: Planted) -> bool:
    """Whether whoever wrote a memory can still read it, whatever admins made of its standing."""
    who, place, _ = SPACES[one.space]
    client = scene.clients[one.tenant, who]
    reply = await client.get(f"/v1/memory/{one.id}?" + urlencode(_own(who, place)))
    return reply.status == 200 and one.mark in reply.body.decode()


@pytest.mark.slow
async def test_those_who_are_let_in_find_what_is_there() -> None:
    """The other side: whoever may read a space does, by every way of reading it."""
    async with world(**FREE) as there:
        scene = Scene(there, random.Random(SEED))
        await scene.set()
        for one in scene.planted:
            for name in SPACES[one.space][2]:
                client, place = scene.clients[one.tenant, name], SPACES[one.space][1]
                asked_for = urlencode(place)
                for reply in (
                    await client.get(f"/v1/memory/{one.id}?{asked_for}"),
                    await client.get(f"/v1/memory/{one.id}/history?{asked_for}"),
                    await client.get(f"/v1/memory?{asked_for}"),
                    await client.post("/v1/memory/search", {"query": f"remembered {one.mark}", **place}),
                ):
                    assert one.mark in reply.body.decode(), f"{name} in {one.space}: {reply}"


# ── the sessions behind it ──


async def test_the_logs_behind_memory_open_to_nobody_else_as_sessions() -> None:
    async with world(**FREE) as there:
        scene = Scene(there, random.Random(SEED))
        await scene.set()
        scoped = [endpoint for endpoint in endpoints() if endpoint.scoped and "/{" not in endpoint.path[27:]]
        for space in SPACES:
            log = there.store.services("acme").memories.shelves.session_of(space_of(space))
            for name in PEOPLE:
                client, closed = scene.clients["acme", name], scene.closed("acme", name)
                for endpoint in scoped:
                    if endpoint.live or endpoint.name == "erase_session":
                        continue
                    target = endpoint.path.replace("{session_id}", log)
                    raw = json.dumps(endpoint.example).encode() if endpoint.example is not None else b""
                    headers = {"content-type": "application/json"} if raw else {}
                    reply = await client.ask(endpoint.method, target, raw=raw, headers=headers)
                    told = reply.body.decode()
                    assert [one for one in closed if one.mark in told] == [], f"{name} {endpoint.name}: {reply}"
                    assert reply.status < 500, f"{name} {endpoint.name} {space}: {reply}"
                    writes = endpoint.method in MUTATING and endpoint.name != "verify_session"
                    assert not (writes and reply.status < 300), f"{name} {endpoint.name} {space}: {reply}"
        for one in scene.planted:
            assert await scene.as_it_was(one)


async def test_lists_of_sessions_tell_nothing_of_what_others_remember() -> None:
    async with world(**FREE) as there:
        scene = Scene(there, random.Random(SEED))
        await scene.set()
        for (tenant, name), client in scene.clients.items():
            closed = scene.closed(tenant, name)
            for reply in (
                await client.get("/v1/sessions?limit=1000"),
                await client.get("/v1/sessions?tag=memory"),
                await client.get("/v1/sessions?name=memory:vault:bob"),
                await client.post("/v1/sessions/find", {"text": closed[0].mark}),
            ):
                assert [one for one in closed if one.mark in reply.body.decode()] == [], reply
                for item in reply.json.get("items", []):
                    assert item["owner"] in (name, PEOPLE[name].get("acting_for")) or name in (
                        "root",
                        "boss",
                        "cal",
                        "bot",
                    )


# ── what sessions are shown and learn ──


async def test_whoever_is_let_into_a_session_does_not_see_by_its_context_what_its_owner_remembers() -> None:
    async with world() as there:
        ben, olga = await there.principal("ben"), await there.principal("olga", Role.VIEWER)
        await ben.post("/v1/memory", {"content": f"the code is {MARK}", "agent": "priv"})
        for memory, status in ({"agent": "priv"}, 403), (None, 200):
            config = {"model": "offline/echo", "memory": memory}
            made = await ben.post("/v1/sessions", {"isolation": {"users": ["olga"]}, "config": config})
            where = f"/v1/sessions/{made.json['session_id']}/context?content=which+code"
            assert (await ben.get(where)).status == 200
            seen = await olga.get(where)
            assert seen.status == status, seen
            assert MARK not in seen.body.decode()


@pytest.mark.parametrize("agent", ["bob", "bob:trader", "trader", "ana:bob", "vault/bob", "memory:vault:bob"])
async def test_no_session_is_shown_what_its_owner_may_not_read(agent: str) -> None:
    async with world(**FREE) as there:
        scene = Scene(there, random.Random(SEED))
        await scene.set()
        for name in ("eve", "cal"):
            client, closed = scene.clients["acme", name], scene.closed("acme", name)
            shown = {"agent": agent, "clades": ["lab", "desk"], "lethe": True, "top_k": 100, "beyond": 100}
            id = await client.begun(config={"memory": shown, "model": "offline/echo"})
            words = "what is remembered " + " ".join(one.space for one in closed)
            told = [
                await client.post(f"/v1/sessions/{id}/messages", {"content": words}),
                await client.get(f"/v1/sessions/{id}/context?content=what+is+remembered"),
                await client.get(f"/v1/sessions/{id}/events"),
                await client.get(f"/v1/sessions/{id}/export"),
            ]
            assert [reply.status for reply in told] == [200] * 4, told
            for reply in told:
                assert [one for one in closed if one.mark in reply.body.decode()] == [], reply
            mine = [one for one in scene.planted if one not in closed]
            assert any(one.mark in told[1].body.decode() for one in mine), "nothing was shown at all"


@pytest.mark.parametrize("agent", ["bob", "newcomer"])
async def test_no_session_teaches_a_vault_that_is_not_its_owner_s(agent: str) -> None:
    async with world(**FREE) as there:
        scene = Scene(there, random.Random(SEED))
        await scene.set()
        eve, bob = scene.clients["acme", "eve"], scene.clients["acme", "bob"]
        before = (await bob.get("/v1/memory?limit=1000")).json
        id = await eve.begun(config={"memory": {"agent": agent, "learn": True}, "model": "offline/echo"})
        said = {"content": "I always prefer orders from eve."}
        assert (await eve.post(f"/v1/sessions/{id}/messages", said)).status == 200
        done = await eve.post(f"/v1/sessions/{id}/transitions", {"event": "complete"})
        assert done.status == 200, done
        assert (await bob.get("/v1/memory?limit=1000")).json == before
        assert len((await eve.get(f"/v1/memory?agent={agent}")).json["items"]) == 1
        other = await there.principal("newcomer", tenant="acme")
        assert (await other.get("/v1/memory")).json["items"] == []
        assert (await other.post("/v1/memory", {"content": "mine"})).status == 201


async def test_an_admin_begins_no_session_that_is_shown_another_s_memory() -> None:
    async with world() as there:
        await there.principal("ana")
        boss = await there.principal("boss", Role.ADMIN, Role.OWNER, Role.AGENT)
        isolation = {"model": "per_user", "users": ["boss"]}
        body = {"owner": "ana", "isolation": isolation, "config": {"memory": {"lethe": True}}}
        reply = await boss.post("/v1/sessions", body)
        assert (reply.status, reply.json["fields"]["reason"]) == (403, "memory")
        assert (await boss.post("/v1/sessions", body | {"config": {}})).status == 201


# ── policies ──


@pytest.mark.parametrize("verb", ["read", "create", "list"])
async def test_a_rule_of_the_tenant_s_closes_memory(verb: str) -> None:
    async with world() as there:
        ana = await there.principal("ana")
        assert (await ana.post("/v1/memory", {"content": "x"})).status == 201
        rule = Rule(effect="deny", actions=(f"{verb}:memory",), when=Condition(names=("ana",)))
        await there.store.directory.set_policy("local", Policy(rules=(rule,)), by=None)
        told = {
            "read": (await ana.get("/v1/memory")).status,
            "create": (await ana.post("/v1/memory", {"content": "y"})).status,
            "list": (await ana.get("/v1/memory/stats")).status,
        }
        closed = {"read", "list"} if verb == "read" else {verb}  # who may not read something may not list it
        assert {name for name, status in told.items() if status == 403} == closed


async def test_what_a_policy_hides_of_memory_is_closed() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        await ana.post("/v1/memory", {"content": "x"})
        hidden = Policy(fields=(FieldRule(path="memory", read=(Role.ADMIN,)),))
        await there.store.directory.set_policy("local", hidden, by=None)
        for reply in (
            await ana.get("/v1/memory"),
            await ana.get("/v1/memory/export"),
            await ana.post("/v1/memory/search", {"query": "x"}),
        ):
            assert (reply.status, reply.json["fields"]["reason"]) == (403, "field")


async def test_a_key_with_a_narrow_scope_opens_no_more_than_it_says() -> None:
    async with world() as there:
        reader = await there.principal("ana", Role.OWNER, scopes=("read:memory",))
        assert (await reader.get("/v1/memory")).status == 200
        assert (await reader.get("/v1/memory/stats")).status == 200
        assert (await reader.post("/v1/memory", {"content": "x"})).status == 403
        assert (await reader.get("/v1/memory/export")).status == 403


async def test_a_session_token_opens_no_memory() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        token = (await ana.post(f"/v1/sessions/{await ana.begun()}/tokens")).json["access_token"]
        assert (await Client(there, token).get("/v1/memory")).status in (403, 404)


def test_an_admin_s_role_reaches_no_content_of_memory() -> None:
    from tests.core.access.asking import actor, session

    for verb in Verb:
        allowed = decide(actor(Role.ADMIN), Action(verb, Thing.MEMORY), session("bob"), Context(), OPEN).allowed
        assert allowed == (verb in (Verb.LIST, Verb.MOVE, Verb.ISSUE, Verb.OVERRIDE))
    nothing = Resource(tenant="t", session="s", owner="bob", exists=False)
    assert decide(actor(Role.OWNER), Action(Verb.READ, Thing.MEMORY), nothing, Context(), OPEN).concealed


# ── names of vaults ──


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ana", "bob"), ("ana:bob", "")),
        (("a:b", "c"), ("a", "b:c")),
        (("a%3Ab", "c"), ("a:b", "c")),
        (("x" * 200, ""), ("x" * 201, "")),
        (("https://issuer/#ana", ""), ("https:", "/issuer/#ana")),
        (("~a", ""), ("%7Ea", "")),
    ],
)
def test_no_two_have_one_vault(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert vault_of(*one) != vault_of(*other)
    assert vault_of("ana", "ana") == vault_of("ana") == Space("vault", "ana")
