"""Two tenants on one server: whatever one of them asks, not one byte of the other comes back (R25, R27).

Every endpoint of the table is asked by every kind of actor of one tenant with every id of the other, in its path, its
query and its body, while the other tenant writes. Each request goes out twice, with the ids of things that are another
tenant's and with ids of nothing at all, and the two answers must be the same. `PERDURE_PROBES` says how many (a small
share unless it is set), `PERDURE_SEED` which.
"""

import asyncio
import hashlib
import json
import os
import random
import re
import string
from collections import Counter
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

from perdure.core.access.roles import Role
from perdure.core.access.rules import OPEN, Condition, Policy, Rule
from perdure.edge.http.building import endpoints
from perdure.edge.http.remembering import Remembering
from perdure.edge.http.routes import MUTATING, Endpoint
from perdure.edge.http.wire import EXACT
from tests.edge.http.world import Client, Reply, World, world

PROBES = int(os.environ.get("PERDURE_PROBES", "2000"))
SEED = int(os.environ.get("PERDURE_SEED", "5"))
LIFE = 5000
"""Probes of one server; then another one is begun, so that what is listed does not grow for ever."""
MARK = "qxzmark"
"""Begins every text that the other tenant planted."""
OURS, THEIRS = "acme", f"{MARK}-tenant"
SAME = b"words that both tenants keep"
VARYING = {"date", "etag", "x-new-session-token"}
FREE: dict[str, Any] = {"rate": 1e6, "burst": 10**9, "session_rate": 1e6, "session_burst": 10**9, "anomaly": "off"} | {
    "memory": Remembering(embedder="none"),
    "stranger_rate": 1e6,
    "stranger_burst": 10**9,
}
WAYS_IN = ("owner", "agent", "viewer", "auditor", "admin", "breaking", "everything", "bare", "token", "nobody")
SLOTS = tuple("session checkpoint conflict blob key principal person webhook cursor family jti memory".split())
SLOTS += ("clade", "run", "proposal")


def mark(rng: random.Random, what: str) -> str:
    """A text nobody else would write."""
    return f"{MARK}-{what}-{rng.getrandbits(48):012x}"


class Planted:
    """What the other tenant has, and goes on writing."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ids: dict[str, list[str]] = {slot: [] for slot in SLOTS}
        self.secrets: list[str] = []
        """What nobody else may ever see, beside what is marked."""
        self.clients: dict[str, Client] = {}

    async def plant(self, there: World) -> None:
        """Marks wherever a tenant can write."""
        rng, directory = self.rng, there.store.directory
        for name, roles in (("beth", (Role.OWNER,)), ("bert", tuple(Role))):
            made = await directory.add_principal(THEIRS, name, by=None, roles=roles)
            key = await directory.add_key(THEIRS, made.id, by=None, label=mark(rng, "label"))
            self.clients[name] = Client(there, key.spelled)
            self._ids(principal=made.id, person=name, key=key.key.id)
            self.secrets.append(key.spelled)
        marked = await directory.add_principal(THEIRS, mark(rng, "name"), by=None, roles=(Role.OWNER,))
        self._ids(principal=marked.id)
        hook = await directory.add_webhook(THEIRS, f"https://{mark(rng, 'host')}.example/", ("*",), by=None)
        self._ids(webhook=hook.hook.id)
        self.secrets.append(hook.secret)
        rule = Rule(effect="deny", name=mark(rng, "rule"), when=Condition(names=(mark(rng, "who"),)))
        await directory.set_policy(THEIRS, Policy(rules=(rule,)), by=None)
        for _ in range(3):
            await self.session()
            await self.memories()
        asked_for = {name: list(found) for name, found in self.ids.items()}
        await self.session()  # nobody ever asks for what is in this one
        self.secrets += [id for name, found in self.ids.items() for id in found if id not in asked_for[name]]
        self.ids = asked_for
        await self.ok(self.clients["beth"].post(f"/v1/blobs?name={mark(rng, 'file')}", raw=SAME))
        glass = {"perdure-override": mark(rng, "reason")}
        assert (await self.clients["bert"].get(f"/v1/sessions/{self.ids['session'][0]}", headers=glass)).status == 200
        page = await self.clients["beth"].get("/v1/sessions?limit=1")
        self._ids(cursor=page.json["cursor"])
        assert all(self.ids.values()), f"nothing planted: {[slot for slot, found in self.ids.items() if not found]}"

    def _ids(self, **found: str) -> None:
        for slot, id in found.items():
            self.ids[slot].append(id)

    async def session(self) -> str:
        """A session full of marks."""
        rng, beth = self.rng, self.clients["beth"]
        id = await beth.begun(
            title=mark(rng, "title"),
            name=mark(rng, "called"),
            tags=[mark(rng, "tag")],
            metadata={mark(rng, "field"): mark(rng, "value")},
            vars={"city": mark(rng, "var")},
            config={"system_prompt": mark(rng, "prompt"), "max_cost": 5_000_000},
            isolation={"model": "per_user", "users": [mark(rng, "user")]},
        )
        at = f"/v1/sessions/{id}"
        await self.said(id)
        await self.ok(beth.patch(f"{at}/scratchpad", {"content": mark(rng, "pad")}))
        label = {"label": mark(rng, "point"), "metadata": {"note": mark(rng, "note")}}
        point = await self.ok(beth.post(f"{at}/checkpoint", label))
        token = await self.ok(beth.post(f"{at}/tokens"))
        self.secrets.append(token["refresh_token"])
        content = mark(rng, "content").encode() * 20
        await self.ok(beth.post(f"/v1/blobs?name={mark(rng, 'file')}", raw=content))
        branch = (await self.ok(beth.post(f"{at}/branch")))["session_id"]
        await self.ok(beth.patch(f"{at}/state", {"city": mark(rng, "ours")}))
        await self.ok(beth.patch(f"/v1/sessions/{branch}/state", {"city": mark(rng, "theirs")}))
        merged = await self.ok(beth.post(f"{at}/merge", {"source": branch}))
        assert merged["conflict_id"], merged
        self._ids(session=id, checkpoint=point["checkpoint_id"], conflict=merged["conflict_id"])
        self._ids(family=token["family"], jti=token["access_token"], blob=hashlib.sha256(content).hexdigest())
        self.ids["session"].append(branch)
        return id

    async def memories(self) -> None:
        """Spaces full of marks."""
        rng, beth = self.rng, self.clients["beth"]
        clade = f"clade-{rng.getrandbits(48):012x}"  # strangers may have heard of this one, and write its name down
        for name in (clade, mark(rng, "clade")):
            await self.ok(beth.post("/v1/memory/clades", {"name": name, "users": [mark(rng, "user")]}))
        lethe, own = {"namespace": "lethe"}, dict[str, str]()
        for who, place in (("beth", own), ("beth", {"clade": clade}), ("bert", lethe), ("beth", {"agent": "ours"})):
            words = {"content": f"ours {mark(rng, 'memory')}", "metadata": {"city": mark(rng, "metadata")}}
            kept = await self.ok(self.clients[who].post("/v1/memory", words | place))
            run = await self.ok(self.clients[who].post("/v1/memory/consolidate", place))
            self._ids(memory=kept["id"], run=run["id"])
            if place != lethe:
                proposed = self.clients[who].post("/v1/memory/promote", place | {"memory_id": kept["id"]})
                self._ids(proposal=(await self.ok(proposed))["id"])
        self._ids(clade=clade)

    async def said(self, id: str) -> None:
        """One more exchange."""
        said = [{"kind": "message", "data": {"role": "user", "content": mark(self.rng, "said")}}]
        await self.ok(self.clients["beth"].post(f"/v1/sessions/{id}/events", {"events": said, "arrange": True}))

    async def goes_on(self) -> None:
        """Something the tenant does while it is asked about by strangers."""
        id = self.rng.choice(self.ids["session"])
        if self.rng.random() < 0.5:
            await self.said(id)
        else:
            change = {"n": mark(self.rng, "more")}
            await self.ok(self.clients["beth"].patch(f"/v1/sessions/{id}/state", change))

    async def ok(self, asked: Any) -> Any:
        reply = await asked
        assert reply.status in (200, 201), reply
        return reply.json


class Asking:
    """The tenant who asks: actors of every kind, with sessions of their own."""

    def __init__(self, there: World) -> None:
        self.there = there
        self.clients: dict[str, Client] = {}
        self.own: str = ""

    async def arrive(self) -> None:
        """Let everybody in."""
        for role in Role:
            self.clients[role.value] = await self.there.principal(f"{role.value}-us", role, tenant=OURS)
        self.clients["breaking"] = self.clients["admin"]
        self.clients["everything"] = await self.there.principal("all-us", *Role, tenant=OURS)
        self.clients["bare"] = await self.there.principal("bare-us", Role.OWNER, tenant=OURS, scopes=("read:session",))
        self.clients["nobody"] = Client(self.there)
        await self.begin()

    async def begin(self) -> None:
        """A session of ours, and a token for it."""
        everything = self.clients["everything"]
        users = [f"{role.value}-us" for role in Role]
        self.own = await everything.begun(title="ours", isolation={"model": "per_user", "users": users})
        token = await everything.post(f"/v1/sessions/{self.own}/tokens", {"ttl": 900})
        self.clients["token"] = Client(self.there, token.json["access_token"])

    async def right(self) -> None:
        """Undo what a probe did to the ways in."""
        directory = self.there.store.directory
        if await directory.policy(OURS) != OPEN:
            await directory.set_policy(OURS, OPEN, by=None)
        if (await self.clients["token"].get(f"/v1/sessions/{self.own}")).status != 200:
            await self.begin()


# ── requests, made up ──


def slot(name: str) -> str:
    """Where an id goes when it is known whose."""
    return f"@{name}@"


OWN = slot("own")
IDS = tuple(name for name in SLOTS if name != "cursor")
BY_PARAMETER = {
    "session_id": "session",
    "checkpoint_id": "checkpoint",
    "conflict_id": "conflict",
    "sha256": "blob",
    "name": "person",
    "principal_id": "principal",
    "key_id": "key",
    "webhook_id": "webhook",
    "turn": "session",
    "call": "session",
    "memory_id": "memory",
    "clade": "clade",
    "run_id": "run",
    "proposal_id": "proposal",
}
BY_FIELD = {
    "source": "session",
    "parent": "session",
    "other": "session",
    "session": "session",
    "checkpoint_id": "checkpoint",
    "principal": "principal",
    "actor": "principal",
    "acting_for": "person",
    "owner": "person",
    "credential": "key",
    "cursor": "cursor",
    "family": "family",
    "token": "jti",
    "refresh_token": "jti",
    "code": "jti",
    "digest": "blob",
    "clade": "clade",
    "clades": "clade",
    "supersedes": "memory",
    "session_id": "session",
    "memory_id": "memory",
}


class Probe(msgspec.Struct, kw_only=True):
    """A request with places for ids."""

    endpoint: Endpoint
    way: str
    path: str
    query: list[tuple[str, str]]
    body: str | bytes | None
    headers: dict[str, str]

    def filled(self, ids: dict[str, str]) -> tuple[str, bytes | None, dict[str, str]]:
        """The request with these ids: its target, body and headers."""

        def put(text: str) -> str:
            for name, id in ids.items():
                text = text.replace(slot(name), id)
            return text

        target = "/".join(quote(put(piece), safe="") for piece in self.path.split("/"))
        if self.query:
            target += "?" + urlencode([(name, put(value)) for name, value in self.query])
        body = put(self.body).encode() if isinstance(self.body, str) else self.body
        return target, body, {name: put(value) for name, value in self.headers.items()}


class Maker:
    """Makes probes from the table, by chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.table = endpoints()
        self._left: list[tuple[Endpoint, str]] = []

    def probe(self) -> Probe:
        """The next one. Every endpoint comes with every way in before any comes again."""
        if not self._left:
            self._left = [(endpoint, way) for endpoint in self.table for way in WAYS_IN]
            self.rng.shuffle(self._left)
        endpoint, way = self._left.pop()
        rng = self.rng
        inside = rng.random() < 0.4
        pieces = [
            piece
            if not piece.startswith("{")
            else OWN
            if inside and piece == "{session_id}"
            else slot(BY_PARAMETER[piece[1:-1]] if rng.random() < 0.9 else rng.choice(IDS))
            for piece in endpoint.path.split("/")
        ]
        headers: dict[str, str] = {"perdure-override": "looking into it"} if way == "breaking" else {}
        if rng.random() < 0.15:
            headers["accept"] = rng.choice([EXACT, "text/event-stream"])
        if rng.random() < 0.1:
            headers["if-match"] = f'"{rng.randrange(9)}"'
        if rng.random() < 0.2:
            headers["idempotency-key"] = slot("once")
        if rng.random() < 0.05:
            headers["last-event-id"] = str(rng.randrange(99))
        if endpoint.form:
            headers["perdure-session"] = slot("session")
            headers["perdure-mode"] = rng.choice(["record", "manage"])
        return Probe(
            endpoint=endpoint,
            way=way,
            path="/".join(pieces),
            query=self._query(endpoint),
            body=self._body(endpoint, headers),
            headers=headers,
        )

    def _query(self, endpoint: Endpoint) -> list[tuple[str, str]]:
        rng = self.rng
        if endpoint.query is None:
            return [("cursor", slot("cursor"))] if rng.random() < 0.03 else []
        chosen = self._value(msgspec.inspect.type_info(endpoint.query))
        flat = [(name, item) for name, value in chosen.items() for item in (value if type(value) is list else [value])]
        return [(name, _told(value)) for name, value in flat]

    def _body(self, endpoint: Endpoint, headers: dict[str, str]) -> str | bytes | None:
        if endpoint.body is None:
            return None
        if endpoint.body is bytes:
            return self.rng.choice([SAME, b"ours", b'{"header": 1}\n'])
        headers["content-type"] = "application/json"
        if endpoint.example is not None and self.rng.random() < 0.3:
            return json.dumps(endpoint.example)
        return json.dumps(self._value(msgspec.inspect.type_info(endpoint.body)))

    def _value(self, kind: msgspec.inspect.Type, field: str = "", depth: int = 0) -> Any:
        """A value of a kind."""
        rng, kinds = self.rng, msgspec.inspect
        match kind:
            case kinds.StructType():
                return {
                    item.encode_name: self._value(item.type, item.encode_name, depth + 1)
                    for item in kind.fields
                    if item.required or rng.random() < 0.35
                }
            case kinds.UnionType():
                return self._value(rng.choice(kind.types), field, depth)
            case kinds.StrType():
                return slot(BY_FIELD[field]) if field in BY_FIELD and rng.random() < 0.8 else self._word()
            case kinds.IntType():
                return rng.choice([0, 1, 2, 3, 50, 10**15])
            case kinds.FloatType():
                return rng.choice([0.5, 1, 60])
            case kinds.BoolType():
                return rng.random() < 0.5
            case kinds.NoneType():
                return None
            case kinds.LiteralType():
                return rng.choice(kind.values)
            case kinds.EnumType():
                return rng.choice([member.value for member in kind.cls])
            case kinds.VarTupleType() | kinds.ListType():
                return [self._value(kind.item_type, field, depth + 1) for _ in range(rng.randrange(3))]
            case kinds.DictType():
                return {self._word(): self._value(kind.value_type, "", depth + 1) for _ in range(rng.randrange(3))}
            case _:
                return self._any(depth)

    def _any(self, depth: int) -> Any:
        choices: list[Any] = [self._word(), 7, None, slot("session")]
        return self.rng.choice(choices if depth > 3 else [*choices, {self._word(): self._word()}, [self._word()]])

    def _word(self) -> str:
        rng = self.rng
        if rng.random() < 0.35:
            return slot(rng.choice(SLOTS))
        words = ["ours", "user", "city", "created", "message", "suspend", "read:*", "owner", "_perdure"]
        return rng.choice([*words, "/city", "add", "audit:acme", "directory", f"perdure:blob/{slot('blob')}"])


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def foreign(rng: random.Random, planted: Planted) -> dict[str, str]:
    """An id of the other tenant's for every place."""
    return {name: rng.choice(found) for name, found in planted.ids.items()}


def missing(rng: random.Random, like: dict[str, str]) -> dict[str, str]:
    """Ids of the same form, of nothing; a cursor is no id, and stays."""
    return {name: id if name == "cursor" else _another(rng, id) for name, id in like.items()}


def _another(rng: random.Random, id: str) -> str:
    begin = len(id.split("_", maxsplit=1)[0]) + 1 if "_" in id else 14 if len(id) == 36 else 0
    return id[:begin] + "".join(_sign(rng, sign) for sign in id[begin:])


def _sign(rng: random.Random, sign: str) -> str:
    if sign in "0123456789abcdef":
        return rng.choice("0123456789abcdef")
    return rng.choice(string.ascii_letters) if sign.isalpha() else sign


# ── what must hold ──


class Watch:
    """Looks at answers, and counts them."""

    def __init__(self, planted: Planted) -> None:
        self.planted = planted
        self.seen: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()

    def leaks(self, reply: Reply, sent: str) -> list[str]:
        """What an answer holds that is the other tenant's; a token or a name that was sent may be spoken of."""
        told = json.dumps(reply.headers) + reply.body.decode("utf-8", "backslashreplace")
        found = [word for word in re.findall(rf"{MARK}[\w-]*", told) if word not in sent]
        found += [secret for secret in self.planted.secrets if secret in told and secret not in sent]
        return found

    @staticmethod
    def shape(reply: Reply, ids: dict[str, str], sent: str) -> tuple[int, dict[str, str], str]:
        """An answer without what differs between any two: which ids were sent, and when it was."""
        text = reply.body.decode("utf-8", "backslashreplace")
        headers = {name: value for name, value in reply.headers.items() if name not in VARYING}
        told = json.dumps(headers)
        for name, id in ids.items():
            if id not in sent:
                continue
            begun = re.escape(id[:40]) + r"[\w.-]*"  # long ones are not repeated whole
            text, told = re.sub(begun, slot(name), text), re.sub(begun, slot(name), told)
        return reply.status, json.loads(told), text


def alike(probe: Probe, one: tuple[int, Any, str], other: tuple[int, Any, str]) -> bool:
    """Whether two answers tell the same, as far as they must: what changed something for the whole tenant stands in the
    way of the next who would, what was made anew has another id each time, and the audit log grows by the asking.
    """
    endpoint = probe.endpoint
    if endpoint.name in NAMING and {one[0], other[0]} & {200, 201, 204, 409}:
        return True
    if endpoint.name == "watch_changes":  # which says where the feed stands, as anybody may know
        return one[0] == other[0]
    if endpoint.name == "read_context":  # which counts the tokens of what is sent with it
        one, other = ((told[0], told[1], _TOKENS.sub("", told[2])) for told in (one, other))
    if one[0] >= 300:
        return one == other
    if endpoint.name in READS and "event-stream" not in one[1].get("content-type", ""):
        searched = not endpoint.scoped and [*probe.query, probe.body]  # finds what an earlier probe wrote
        return one[0] == other[0] if searched and "@" in str(searched) else one == other
    return one[0] == other[0]


NAMING = {endpoint.name for endpoint in endpoints() if endpoint.method in MUTATING and not endpoint.parameters}
NAMING |= {"branch"}
"""What gives names that no other of the tenant may have then."""
READS = {endpoint.name for endpoint in endpoints() if endpoint.method == "GET"} | {"find_sessions", "count_sessions"}
_TOKENS = re.compile(r'"tokens":\d+')
READS -= {"read_audit", "export_audit", "metrics", "position"}
"""What answers alike when it is asked twice."""


async def probed(rng: random.Random, maker: Maker, numbers: range) -> tuple[Counter[str], Counter[int]]:
    """Probe a server; which endpoints were asked, and how often which status came back."""
    async with world(**FREE) as there:
        feed = asyncio.create_task(there.node.hub.run())
        planted, us = Planted(rng), Asking(there)
        await planted.plant(there)
        await us.arrive()
        watch = Watch(planted)
        for number in numbers:
            probe = maker.probe()
            theirs = foreign(rng, planted)
            nothing = missing(rng, theirs)
            if probe.endpoint.name in ("add_principal", "make_clade"):
                theirs = missing(rng, theirs)  # nothing of ours is called as one of theirs, or both would be found
            told, where = [], ""
            for once, ids in (("first", theirs), ("again", nothing)):
                if probe.endpoint.method in MUTATING and OWN in probe.path:
                    await us.begin()
                ids |= {"own": us.own, "once": f"{once}-{number}"}
                target, body, headers = probe.filled(ids)
                asked = us.clients[probe.way].ask(probe.endpoint.method, target, raw=body or b"", headers=headers)
                writing = planted.goes_on() if rng.random() < 0.2 else asyncio.sleep(0)
                reply, _ = await asyncio.gather(asked, writing)
                sent = f"{target} {body!r} {headers}"
                where = f"probe {number} of seed {SEED}: {probe.way} {probe.endpoint.method} {sent[:600]}"
                assert watch.leaks(reply, sent) == [], f"{where} → {reply}"
                assert reply.status < 500, f"{where} → {reply}"
                told.append(watch.shape(reply, ids, sent))
                watch.statuses[reply.status] += 1
            assert alike(probe, told[0], told[1]), f"{where}:\n{told[0]}\n{told[1]}"
            watch.seen[probe.endpoint.name] += 1
            if probe.endpoint.method in MUTATING:
                await us.right()
        assert (await planted.ok(planted.clients["beth"].get("/v1/sessions")))["items"], "the marks were not there"
        feed.cancel()
        return watch.seen, watch.statuses


@pytest.mark.slow
async def test_not_one_byte_of_another_tenant_comes_back_and_foreign_looks_as_missing() -> None:
    rng = random.Random(SEED)
    maker = Maker(rng)
    seen: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    for first in range(0, PROBES, LIFE):
        found = await probed(rng, maker, range(first, min(first + LIFE, PROBES)))
        seen += found[0]
        statuses += found[1]
    assert {200, 201, 401, 403, 404, 422} <= set(statuses), f"too little was tried: {statuses}"
    if len(WAYS_IN) * len(maker.table) <= PROBES:
        assert set(seen) == {endpoint.name for endpoint in maker.table}
