"""What lists, searches, counts, blobs, keys and policies over HTTP let nobody reach."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm

from perdure.core.access.decide import decide
from perdure.core.access.isolation import MODELS, PERMISSIONS
from perdure.core.access.roles import Action, Actor, Context, Resource, Role, Thing, Verb
from perdure.core.access.rules import Condition, FieldRule, Policy, Rule
from perdure.edge.http.api import finding
from perdure.edge.http.seeing import isolation_matters
from perdure.edge.http.settings import Issuer
from perdure.edge.library import AsyncPerdure
from perdure.testing import FixedAmbient
from tests.edge.http.world import Client, World, world

FREE: dict[str, Any] = {"rate": 1e6, "burst": 10**9, "stranger_rate": 1e6, "stranger_burst": 10**9, "anomaly": "off"}
SECOND = 1_000_000


async def titles(client: Client, **body: Any) -> list[str]:
    """What a search shows, the newest first, over all of its pages."""
    found: list[str] = []
    while True:
        reply = await client.post("/v1/sessions/find", body)
        assert reply.status == 200, reply
        found += [item["title"] for item in reply.json["items"]]
        if reply.json["cursor"] is None:
            return found
        body["cursor"] = reply.json["cursor"]


async def counted(client: Client, **body: Any) -> int:
    reply = await client.post("/v1/sessions/count", body)
    assert reply.status == 200, reply
    return int(reply.json["count"])


async def said(client: Client, session: str, words: str) -> None:
    event = {"kind": "message", "data": {"role": "user", "content": words}}
    reply = await client.post(f"/v1/sessions/{session}/events", {"arrange": True, "events": [event]})
    assert reply.status == 201 or reply.status == 200, reply


async def ruled(there: World, *rules: Rule, fields: tuple[FieldRule, ...] = ()) -> None:
    await there.store.directory.set_policy("local", Policy(rules=rules, fields=fields), by=None)


# ── lists show what may be read, and no more ──


async def test_an_agent_s_lists_show_only_sessions_that_let_it_in() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        clerk = await there.principal("clerk", Role.AGENT, kind="agent", acting_for="ana", task="T1")
        await ana.begun(title="mine", isolation={"model": "per_task", "task": "T1"})
        secret = await ana.begun(
            title="theirs", metadata={"m": "x"}, tags=["hush"], isolation={"model": "per_task", "task": "T2"}
        )
        await said(ana, secret, "zebra")
        assert (await clerk.get(f"/v1/sessions/{secret}")).status == 404
        assert await titles(clerk) == ["mine"]
        listed = await clerk.get("/v1/sessions")
        assert [item["title"] for item in listed.json["items"]] == ["mine"]
        assert await counted(clerk) == 1
        for asked in ({"text": "zebra"}, {"metadata": {"m": "x"}}, {"tag": ["hush"]}, {"title": "theirs"}):
            assert await titles(clerk, **asked) == []
            assert await counted(clerk, **asked) == 0
        assert await titles(ana) == ["theirs", "mine"]
        assert await counted(ana, text="zebra") == 1


async def test_a_name_leads_only_those_to_a_session_who_may_read_it() -> None:
    async with world(**FREE) as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        clerk = await there.principal("clerk", Role.AGENT, kind="agent", acting_for="ana", task="T1")
        await ana.begun(name="trip", isolation={"model": "per_task", "task": "T2"})
        for client, count in ((ana, 1), (bob, 0), (clerk, 0)):
            assert len((await client.get("/v1/sessions?name=trip")).json["items"]) == count
            assert (await client.get("/v1/sessions?name=nothing")).json["items"] == []


async def test_a_rule_that_denies_reading_or_listing_holds_for_every_row() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        clerk = await there.principal("clerk", Role.AGENT, kind="agent", acting_for="ana")
        await ana.begun(title="open")
        await ana.begun(title="closed", tags=["confidential"])
        assert await titles(clerk) == ["closed", "open"]
        when = Condition(tags=("confidential",), roles=(Role.AGENT,))
        for action in ("read:session", "list:session", "read:*"):
            await ruled(there, Rule(effect="deny", actions=(action,), when=when))
            assert await titles(clerk) == ["open"], action
            assert await counted(clerk) == 1
            assert await titles(ana) == ["closed", "open"]
        await ruled(there, Rule(effect="deny", actions=("read:session",), when=Condition(tags=("confidential",))))
        assert await titles(ana) == ["open"], "also of one's own"
        assert await counted(ana) == 1


async def test_a_row_that_was_tagged_later_is_denied_from_then_on() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        clerk = await there.principal("clerk", Role.AGENT, kind="agent", acting_for="ana")
        await ruled(there, Rule(effect="deny", when=Condition(tags=("hush",), roles=(Role.AGENT,))))
        session = await ana.begun(title="one")
        assert await titles(clerk) == ["one"]
        changed = await ana.patch(f"/v1/sessions/{session}", {"tags": ["hush"]})
        assert changed.status == 200, changed
        assert await titles(clerk) == []


async def test_fields_are_hidden_row_by_row_and_find_nothing_where_they_are() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        both = await there.principal("both", Role.OWNER, Role.AGENT, acting_for="ana")
        rules = (
            FieldRule(path="metadata.secret", read=(Role.OWNER,)),
            FieldRule(path="metadata.a\\.b", read=(Role.OWNER,)),
        )
        await ruled(there, fields=(*rules, FieldRule(path="metadata.deep.inside", read=(Role.OWNER,))))
        metadata = {"secret": "s", "a.b": "s", "deep": {"inside": "s"}, "x": 1}
        await ana.begun(title="hers", metadata=metadata)
        (hers,) = (await both.get("/v1/sessions")).json["items"]
        assert hers["metadata"] == {"deep": {}, "x": 1}
        for name in ("secret", "a.b", "deep"):
            asked = {"metadata": {name: metadata[name]}}
            assert await titles(both, **asked) == [], name
            assert await counted(both, **asked) == 0
            assert await titles(ana, **asked) == ["hers"]
        assert await titles(both, metadata={"x": 1}) == ["hers"]


async def test_an_admin_sees_what_there_is_and_by_breaking_the_glass_what_is_in_it() -> None:
    async with world(**FREE) as there:
        ana, root = await there.principal("ana"), await there.principal("root", Role.ADMIN)
        await ana.begun(title="hers", isolation={"model": "per_agent"})
        assert await titles(root) == [""]
        assert await counted(root) == 1
        broken = {"perdure-override": "an incident"}
        assert [item["title"] for item in (await root.get("/v1/sessions", headers=broken)).json["items"]] == ["hers"]
        await ruled(there, Rule(effect="deny", actions=("read:*",), when=Condition(owners=("ana",))))
        assert (await root.get("/v1/sessions", headers=broken)).json["items"] == []
        assert await counted(root) == 0


async def test_pages_are_filled_with_what_may_be_seen_and_their_cursors_tell_of_nothing_else(monkeypatch: Any) -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        clerk = await there.principal("clerk", Role.AGENT, kind="agent", acting_for="ana", task="T1")
        for number in range(30):
            task = "T1" if number % 6 == 5 else "T2"
            await ana.begun(title=f"{task}-{number}", isolation={"model": "per_task", "task": task})
        sizes, cursor = [], None
        while True:
            reply = await clerk.get("/v1/sessions?limit=2" + (f"&cursor={cursor}" if cursor else ""))
            sizes.append([item["title"] for item in reply.json["items"]])
            cursor = reply.json["cursor"]
            if cursor is None:
                break
        assert sizes == [["T1-29", "T1-23"], ["T1-17", "T1-11"], ["T1-5"]]
        whole = await clerk.get("/v1/sessions?limit=5")
        assert whole.json["cursor"] is None, "the five below it are not the clerk's to know of"
        monkeypatch.setattr(finding, "MOST_PASSED", 1)
        monkeypatch.setattr(finding, "BATCH", 1)
        assert await titles(clerk, limit=1) == ["T1-29", "T1-23", "T1-17", "T1-11", "T1-5"], "in more pages"
        monkeypatch.setattr(finding, "MOST_COUNTED", 10)
        monkeypatch.setattr(finding, "MAX_PAGE", 5)
        refused = await clerk.post("/v1/sessions/count", {})
        assert (refused.status, refused.json["code"]) == (409, "refused")
        assert await counted(ana) == 30, "hers are counted by the store"


ACTORS = st.builds(
    Actor,
    tenant=st.just("t"),
    principal=st.just("prn"),
    name=st.sampled_from(["ana", "clerk"]),
    kind=st.sampled_from(["person", "agent", "service"]),
    roles=st.frozensets(st.sampled_from(Role)),
    task=st.sampled_from([None, "T1", "T2"]),
    agent=st.sampled_from([None, "planner"]),
    acting_for=st.sampled_from([None, "ana"]),
)
RESOURCES = st.builds(
    Resource,
    tenant=st.just("t"),
    session=st.just("s"),
    owner=st.sampled_from(["ana", "bob"]),
    model=st.sampled_from([*MODELS, "odd"]),
    task=st.sampled_from([None, "T1", "T2"]),
    users=st.sampled_from([(), ("ana",), ("clerk",)]),
    agents=st.dictionaries(st.sampled_from(["planner", "clerk"]), st.sampled_from(PERMISSIONS)),
    phase=st.sampled_from(["active", "closed"]),
    tags=st.sampled_from([(), ("hush",)]),
)
CONDITIONS = st.builds(
    Condition,
    roles=st.sampled_from([(), (Role.AGENT,), (Role.OWNER,)]),
    owners=st.sampled_from([(), ("ana",)]),
    tags=st.sampled_from([(), ("hush",)]),
    phases=st.sampled_from([(), ("active",)]),
    tasks=st.sampled_from([(), ("T1",)]),
)
RULES = st.builds(Rule, effect=st.sampled_from(["allow", "deny"]), when=CONDITIONS, unless=st.none() | CONDITIONS)
FIELDS = st.sampled_from([(), (FieldRule(path="title", read=(Role.OWNER,)),)])
POLICIES = st.builds(Policy, rules=st.lists(RULES, max_size=2).map(tuple), fields=FIELDS)


@settings(max_examples=400, deadline=None)
@given(actor=ACTORS, full=RESOURCES, policy=POLICIES, verb=st.sampled_from([Verb.READ, Verb.LIST]))
def test_where_isolation_does_not_matter_the_row_alone_decides(
    actor: Actor, full: Resource, policy: Policy, verb: Verb
) -> None:
    if isolation_matters(actor, policy, own=full.owner == actor.name):
        return
    plain = Resource(tenant="t", session="s", owner=full.owner, phase=full.phase, tags=full.tags)
    for thing in (Thing.SESSION, Thing.TURNS):
        action, context = Action(verb, thing), Context()
        assert decide(actor, action, plain, context, policy) == decide(actor, action, full, context, policy)


# ── blobs belong to the tenant ──


async def test_blobs_are_listed_to_admins_and_read_by_those_who_know_their_digest() -> None:
    async with world(**FREE) as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        root = await there.principal("root", Role.ADMIN)
        clerk = await there.principal("clerk", Role.AGENT, kind="agent")
        put = await ana.post("/v1/blobs?name=passport.pdf", raw=b"hers", headers={"content-type": "application/pdf"})
        for client in (ana, bob, clerk):
            refused = await client.get("/v1/blobs")
            assert (refused.status, refused.json["code"]) == (403, "denied")
        listed = await root.get("/v1/blobs")
        assert [item["name"] for item in listed.json["items"]] == ["passport.pdf"]
        assert (await bob.get(f"/v1/blobs/{put.json['sha256']}")).body == b"hers"


async def test_what_a_blob_is_called_is_replaced_by_admins_alone() -> None:
    async with world(**FREE) as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        root = await there.principal("root", Role.ADMIN, Role.OWNER)
        put = await ana.post("/v1/blobs?name=passport.pdf", raw=b"hers")
        at, html = f"/v1/blobs/{put.json['sha256']}/info", {"content-type": "text/html"}
        for target in ("/v1/blobs?name=evil.html&replace=true", "/v1/blobs?name=evil.html"):
            await bob.post(target, raw=b"hers", headers=html)
            assert (await ana.get(at)).json["name"] == "passport.pdf"
        assert (await bob.post("/v1/blobs?replace=true", raw=b"hers")).status == 403
        assert (await root.post("/v1/blobs?name=a.html&replace=true", raw=b"hers", headers=html)).status == 201
        assert (await ana.get(at)).json["name"] == "a.html"


# ── keys, principals, policies ──


async def test_a_key_made_with_one_that_expires_does_not_outlive_it() -> None:
    ambient = FixedAmbient()
    async with world(ambient=ambient, **FREE) as there:
        await there.principal("ana")
        directory, ends = there.store.directory, ambient.now() + 60 * SECOND
        short = await directory.add_key("local", "ana", by=None, expires_at=ends)
        holder = await directory.identify(short.spelled)
        for asked, given_ in ((None, ends), (ends + SECOND, ends), (ends - SECOND, ends - SECOND)):
            made = await directory.add_key("local", "ana", by=holder, expires_at=asked)
            assert made.key.expires_at == given_
        (key, child) = Client(there, short.spelled), await directory.add_key("local", "ana", by=holder)
        assert (await key.get("/v1/whoami")).status == 200
        ambient.advance(60)
        for spelled in (short.spelled, child.spelled):
            assert (await Client(there, spelled).get("/v1/whoami")).status == 401
        assert (await directory.add_key("local", "ana", by=None)).key.expires_at is None


async def test_an_admin_s_key_that_expires_makes_none_for_others_that_lasts() -> None:
    ambient = FixedAmbient()
    async with world(ambient=ambient, **FREE) as there:
        await there.principal("ana")
        await there.principal("root", Role.ADMIN)
        ends = ambient.now() + 60 * SECOND
        short = await there.store.directory.add_key("local", "root", by=None, expires_at=ends)
        made = await Client(there, short.spelled).post("/v1/keys", {"principal": "ana"})
        assert (made.status, made.json["expires_at"]) == (201, ends)


async def test_a_principal_is_changed_whole_or_not_at_all() -> None:
    async with world(**FREE) as there:
        root = await there.principal("root", Role.ADMIN)
        ana = await there.principal("ana")
        before = (await root.get("/v1/principals/root")).json
        refused = await root.patch("/v1/principals/root", {"roles": ["admin", "owner"], "enabled": False})
        assert (refused.status, refused.json["code"]) == (409, "last_admin")
        assert (await root.get("/v1/principals/root")).json == before
        log = there.store.services("_perdure").sessions.log
        version = (await log.head(there.store.directory.session)).row.version
        changed = await root.patch("/v1/principals/ana", {"roles": ["viewer"], "enabled": False})
        assert (changed.json["roles"], changed.json["status"]) == (["viewer"], "disabled")
        assert (await log.head(there.store.directory.session)).row.version == version + 2
        assert (await ana.get("/v1/whoami")).status == 401
        back = await root.patch("/v1/principals/ana", {"enabled": True})
        assert (back.json["roles"], back.json["status"]) == (["viewer"], "active")
        assert (await root.patch("/v1/principals/nobody", {"enabled": True})).status == 404


async def test_a_policy_that_would_keep_its_setter_from_setting_another_is_refused() -> None:
    async with world(**FREE) as there:
        root = await there.principal("root", Role.ADMIN)
        inside = {"networks": ["127.0.0.0/8"]}
        for rule in (
            {"effect": "deny"},
            {"effect": "deny", "actions": ["write:policies"], "when": {"names": ["root"]}},
            {"effect": "deny", "actions": ["write:*"], "when": inside},
            {"effect": "deny", "unless": {"networks": ["10.0.0.0/8"]}},
        ):
            refused = await root.put("/v1/policies", {"rules": [rule]})
            assert (refused.status, refused.json["code"]) == (409, "refused"), rule
            assert "write:policies" in refused.json["detail"]
        assert (await root.get("/v1/policies")).json == {}
        for rule in ({"effect": "deny", "unless": inside}, {"effect": "deny", "when": {"names": ["ana"]}}):
            assert (await root.put("/v1/policies", {"rules": [rule]})).status == 200
        assert (await root.put("/v1/policies", {})).status == 200


async def test_one_who_asks_too_often_in_a_session_makes_nobody_else_wait() -> None:
    async with world(**FREE | {"session_rate": 0.001, "session_burst": 3}) as there:
        ana, eve = await there.principal("ana"), await there.principal("eve", Role.VIEWER)
        session = await ana.begun(isolation={"users": ["eve"]})
        found = [(await eve.get(f"/v1/sessions/{session}")).status for _ in range(5)]
        assert found == [200, 200, 200, 429, 429]
        assert (await ana.get(f"/v1/sessions/{session}")).status == 200
        token = (await ana.post(f"/v1/sessions/{session}/tokens")).json["access_token"]
        for _ in range(2):
            assert (await Client(there, token).get(f"/v1/sessions/{session}")).status == 200
        assert (await ana.get(f"/v1/sessions/{session}")).status == 429


# ── whom an issuer names ──


async def test_whom_an_issuer_calls_ana_is_not_the_ana_of_the_directory(tmp_path: Path) -> None:
    key, ambient = ec.generate_private_key(ec.SECP256R1()), FixedAmbient()
    public = json.loads(ECAlgorithm.to_jwk(key.public_key())) | {"kid": "k"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
    known = {
        "audience": "perdure",
        "jwks": str(tmp_path / "keys.json"),
        "algorithm": "ES256",
        "roles": {"eng": "owner"},
    }
    issuers = (
        Issuer(issuer="https://a.example", **known),
        Issuer(issuer="https://b.example", prefix="", **known),
    )
    now = ambient.now() // SECOND

    def signed(issuer: str, name: str) -> str:
        claims = {"iss": issuer, "aud": "perdure", "sub": name, "exp": now + 600, "iat": now, "roles": ["eng"]}
        return jwt.encode(claims, key, algorithm="ES256", headers={"kid": "k"})

    async with world(ambient=ambient, issuers=issuers, **FREE) as there:
        ana = await there.principal("ana")
        session = await ana.begun(title="hers")
        stranger = Client(there, signed("https://a.example", "ana"))
        assert (await stranger.get("/v1/whoami")).json["name"] == "https://a.example#ana"
        assert (await stranger.get(f"/v1/sessions/{session}")).status == 404
        trusted = Client(there, signed("https://b.example", "ana"))
        assert (await trusted.get(f"/v1/sessions/{session}")).json["title"] == "hers"
        own = await stranger.begun(title="its own")
        refused = await stranger.post(f"/v1/sessions/{own}/tokens")
        assert (refused.status, refused.json["code"]) == (403, "denied")
        assert "directory" in refused.json["detail"]
        assert (await Client(there, signed("https://a.example", "a\u202eb")).get("/v1/whoami")).status == 401


# ── what was decided once holds for as long as nothing that counts has changed ──


async def test_a_session_begun_anew_under_the_same_name_is_no_longer_its_former_owner_s() -> None:
    async with world(**FREE) as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        session = (await ana.post("/v1/sessions", {"name": "shared name"})).json["session_id"]
        for _ in range(2):
            assert (await ana.get(f"/v1/sessions/{session}")).status == 200
        await (await AsyncPerdure(there.store.services("local")).session(session)).erase()
        assert (await bob.post("/v1/sessions", {"name": "shared name"})).json["session_id"] == session
        await said(bob, session, "mine now")
        assert (await bob.get(f"/v1/sessions/{session}")).status == 200
        assert (await ana.get(f"/v1/sessions/{session}")).status == 404
        assert (await ana.get(f"/v1/sessions/{session}/turns")).status == 404


async def test_a_policy_counts_from_the_next_request_on() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        session = (await ana.post("/v1/sessions", {"title": "plans"})).json["session_id"]
        for _ in range(2):
            assert (await ana.get(f"/v1/sessions/{session}")).json["title"] == "plans"
        await ruled(there, fields=(FieldRule(path="title", read=(Role.AUDITOR,)),))
        assert (await ana.get(f"/v1/sessions/{session}")).json["title"] == ""
        await ruled(there, Rule(name="nothing", effect="deny", actions=("*",)))
        assert (await ana.get(f"/v1/sessions/{session}")).status in (403, 404)
        await ruled(there)
        assert (await ana.get(f"/v1/sessions/{session}")).json["title"] == "plans"


async def test_a_revoked_key_opens_nothing_that_it_opened_before() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        session = (await ana.post("/v1/sessions", {})).json["session_id"]
        for _ in range(2):
            assert (await ana.get(f"/v1/sessions/{session}")).status == 200
        key = next(iter(await there.store.directory.keys("local", "ana")))
        await there.store.directory.revoke_key("local", key.id, by=None)
        assert (await ana.get(f"/v1/sessions/{session}")).status == 401


async def test_on_another_node_a_session_begun_anew_is_its_new_owner_s_from_the_first_request_on(
    tmp_path: Path,
) -> None:
    store = str(tmp_path / "two.db")
    async with world(store=store, **FREE) as here, world(store=store, **FREE) as there:
        ana, bob = await here.principal("ana"), await here.principal("bob")
        session = (await ana.post("/v1/sessions", {"name": "n", "vars": {"old": "gone"}})).json["session_id"]
        for n in range(3):
            await said(ana, session, f"ana {n}")
        assert (await ana.get(f"/v1/sessions/{session}")).status == 200
        ana_there, bob_there = Client(there, ana.credential), Client(there, bob.credential)
        assert (await ana_there.ask("DELETE", f"/v1/sessions/{session}")).status in (200, 204)
        anew = await bob_there.post("/v1/sessions", {"name": "n", "vars": {"new": 1}})
        assert anew.json["session_id"] == session
        for n in range(9):
            await said(bob_there, session, f"bob {n}")
        event = {"kind": "message", "data": {"role": "user", "content": "still mine?"}}
        for path in ("", "/turns", "/conversation", "/events", "/export", "/state", "/checkpoints"):
            assert (await ana.get(f"/v1/sessions/{session}{path}")).status == 404, path
        for _ in range(2):
            tried = await ana.post(f"/v1/sessions/{session}/events", {"arrange": True, "events": [event]})
            assert tried.status == 404
        assert (await ana.ask("DELETE", f"/v1/sessions/{session}")).status == 404
        await said(bob, session, "at the other node")
        assert (await bob.get(f"/v1/sessions/{session}/state")).json["vars"] == {"new": 1}
        assert (await bob.get(f"/v1/sessions/{session}")).json["owner"] == "bob"


async def test_what_is_sent_late_does_not_reach_what_was_begun_anew_meanwhile() -> None:
    async with world(**FREE) as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        session = (await ana.post("/v1/sessions", {"name": "n"})).json["session_id"]
        await said(ana, session, "first")
        path = f"/v1/sessions/{session}/events"
        event = {"kind": "message", "data": {"role": "user", "content": "too late"}}
        body = json.dumps({"arrange": True, "events": [event]}).encode()
        headers = [(b"host", b"127.0.0.1:7464"), (b"authorization", f"Bearer {ana.credential}".encode())]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        scope = {"type": "http", "method": "POST", "scheme": "http", "path": path, "raw_path": path.encode()}
        scope |= {"query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}
        asked, sending, told = asyncio.Event(), asyncio.Event(), []

        async def receive() -> Any:
            asked.set()
            await sending.wait()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            told.append(message)

        late = asyncio.create_task(there.application(scope, receive, send))
        await asked.wait()
        await (await AsyncPerdure(there.store.services("local")).session(session)).erase()
        assert (await bob.post("/v1/sessions", {"name": "n"})).json["session_id"] == session
        await said(bob, session, "mine")
        sending.set()
        await late
        assert told[0]["status"] == 404
        turns = (await bob.get(f"/v1/sessions/{session}/turns")).json["items"]
        assert [message["content"] for turn in turns for message in turn["messages"]] == ["mine"]
