"""What is refused over HTTP: in which words, what no longer counts, and in whose audit log it stands."""

from pathlib import Path
from typing import Any

import pytest

from perdure.core.access.entries import STRANGERS, AuditEntry
from perdure.core.access.roles import Role
from perdure.testing import FixedAmbient
from tests.edge.http.world import Client, World, world

NOWHERE = "0192f0c4-7d1e-7abc-8def-0123456789ab"
FREE: dict[str, Any] = {"rate": 1e6, "burst": 10**9, "stranger_rate": 1e6, "stranger_burst": 10**9, "anomaly": "off"}


async def logged(there: World, tenant: str = "local") -> list[AuditEntry]:
    """What a tenant's audit log says, the oldest first."""
    await there.store.auditing.flush()
    page = await there.store.auditing.page(tenant)
    return [line.entry for line in page.items if isinstance(line.entry, AuditEntry)]


async def token_of(client: Client, session: str) -> tuple[Client, str]:
    """Somebody with a token for a session, and what the next one is had with."""
    made = (await client.post(f"/v1/sessions/{session}/tokens")).json
    return Client(client.world, made["access_token"]), made["refresh_token"]


async def refreshed(there: World, token: str) -> int:
    return (await Client(there).post("/v1/tokens/refresh", {"refresh_token": token})).status


# ── a token does not outlive what it was issued under ──


async def test_a_token_counts_no_more_when_its_key_is_revoked_and_others_go_on() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        other = Client(there, (await there.store.directory.add_key("local", "ana", by=None)).spelled)
        session = await ana.begun()
        (one, renewing), (two, remaining) = await token_of(ana, session), await token_of(other, session)
        assert (await one.get(f"/v1/sessions/{session}")).status == 200
        held = await there.store.directory.keys("local", "ana")
        await there.store.directory.revoke_key("local", held[0].id, by=None)
        gone = await one.get(f"/v1/sessions/{session}")
        assert (gone.status, gone.json["code"]) == (401, "token_revoked")
        assert await refreshed(there, renewing) == 401
        assert (await two.get(f"/v1/sessions/{session}")).status == 200
        assert await refreshed(there, remaining) == 200


async def test_a_key_revoked_at_one_node_ends_its_tokens_at_every_other(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    async with world(store, **FREE) as one, world(store, **FREE) as two:
        ana, root = await one.principal("ana"), await one.principal("root", Role.ADMIN)
        session = await ana.begun()
        holder, renewing = await token_of(ana, session)
        there = Client(two, holder.credential)
        assert (await there.get(f"/v1/sessions/{session}")).status == 200
        (key,) = await one.store.directory.keys("local", "ana")
        assert (await root.delete(f"/v1/keys/{key.id}")).status == 200
        assert (await there.get(f"/v1/sessions/{session}")).status == 401
        assert await refreshed(two, renewing) == 401


async def test_a_token_counts_no_more_when_its_key_has_expired() -> None:
    ambient = FixedAmbient()
    async with world(ambient=ambient, **FREE) as there:
        await there.principal("ana")
        until = ambient.now() + 60_000_000
        key = await there.store.directory.add_key("local", "ana", by=None, expires_at=until)
        ana = Client(there, key.spelled)
        session = await ana.begun()
        one, renewing = await token_of(ana, session)
        assert (await one.get(f"/v1/sessions/{session}")).status == 200
        ambient.advance(60)
        assert (await one.get(f"/v1/sessions/{session}")).status == 401
        assert await refreshed(there, renewing) == 401


async def test_a_token_counts_no_more_when_its_sign_in_has_ended() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        signin = there.node.entry.signin
        principal = await there.store.directory.principal("local", "ana")
        cookies = [(await signin.enter(await signin.code(principal.id))).cookie for _ in range(2)]
        shown = [{"cookie": f"perdure={cookie}"} for cookie in cookies]
        issued = [await Client(there).post(f"/v1/sessions/{session}/tokens", headers=each) for each in shown]
        one, two = (Client(there, each.json["access_token"]) for each in issued)
        assert (await one.get(f"/v1/sessions/{session}")).status == 200
        assert (await Client(there).post("/signout", headers=shown[0])).status == 204
        assert (await one.get(f"/v1/sessions/{session}")).status == 401
        assert await refreshed(there, issued[0].json["refresh_token"]) == 401
        assert (await two.get(f"/v1/sessions/{session}")).status == 200
        assert await refreshed(there, issued[1].json["refresh_token"]) == 200


# ── what is said ──


async def test_a_token_says_what_it_opens_wherever_else_it_is_shown() -> None:
    async with world(**FREE) as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        session, own, theirs = await ana.begun(), await ana.begun(), await bob.begun()
        holder, _ = await token_of(ana, session)
        told = [await holder.get(f"/v1/sessions/{id}") for id in (own, theirs, NOWHERE, "nothing")]
        told += [await holder.get("/v1/sessions"), await holder.post("/v1/sessions", {})]
        for reply in told:
            assert reply.status == 403, reply
            assert f"this token opens session {session} and nothing else" in reply.json["detail"]
        assert len({reply.body for reply in told[:4]}) == 1, "what is foreign looks as what is missing"
        assert (await holder.get("/v1/whoami")).status == 200
        entries = await logged(there)
        assert sum(each.count for each in entries if each.reason == "other_session") == len(told)
        assert await logged(there, STRANGERS) == [], "whoever shows a good token is no stranger"


async def test_what_is_neither_a_key_nor_a_token_is_told_both_ways() -> None:
    async with world(**FREE) as there:
        reply = await Client(there, "sk-something-else").get("/v1/sessions")
        assert reply.status == 401
        assert "pdk_" in reply.json["detail"]
        assert "token" in reply.json["detail"]
        (entry,) = await logged(there, STRANGERS)
        assert (entry.actor, entry.outcome, entry.reason) == (None, "denied", "invalid_token_signature")


# ── what is written down ──


async def test_refused_keys_of_a_tenant_stand_in_its_own_log_with_whose_they_are() -> None:
    ambient = FixedAmbient()
    async with world(ambient=ambient, **FREE) as there:
        directory, reasons = there.store.directory, ("revoked_key", "expired_key", "wrong_secret", "disabled_principal")
        ids = {}
        for reason in reasons:
            someone = await directory.add_principal("local", reason, by=None, roles=(Role.OWNER,))
            until = ambient.now() + 1_000_000 if reason == "expired_key" else None
            key = await directory.add_key("local", someone.id, by=None, expires_at=until)
            ids[reason] = (someone.id, key.key.id)
            if reason == "revoked_key":
                await directory.revoke_key("local", key.key.id, by=None)
            if reason == "disabled_principal":
                await directory.disable_principal("local", someone.id, by=None)
            ambient.advance(2)
            shown = key.spelled[:-1] + ("0" if key.spelled[-1] != "0" else "1")
            reply = await Client(there, shown if reason == "wrong_secret" else key.spelled).get("/v1/sessions")
            assert (reply.status, reply.json["code"]) == (401, "unauthenticated"), reason
            assert reason not in str(reply.json), "which it was, only the audit log hears"
        found = {each.reason: (each.actor, each.credential) for each in await logged(there) if each.outcome == "denied"}
        assert found == ids
        assert await logged(there, STRANGERS) == []
        assert (await Client(there, f"pdk_{'a' * 22}_{'b' * 43}").get("/v1/sessions")).status == 401
        (stranger,) = await logged(there, STRANGERS)
        assert (stranger.actor, stranger.credential, stranger.outcome) == (None, None, "denied")


async def test_what_an_endpoint_refuses_itself_is_written_down_too() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana", Role.OWNER)
        assert (await ana.post("/v1/sessions", {"owner": "bob"})).status == 403
        (entry,) = await logged(there)
        assert (entry.what, entry.outcome, entry.reason) == ("create_session", "denied", "owner")
        assert entry.actor == (await there.store.directory.principal("local", "ana")).id
        assert (await ana.get(f"/v1/sessions/{await ana.begun()}/checkpoints/{NOWHERE}")).status == 404
        assert len(await logged(there)) == 1, "what is merely missing is no refusal"


async def test_a_refresh_that_succeeds_is_written_down() -> None:
    async with world(**FREE) as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        _, renewing = await token_of(ana, session)
        assert await refreshed(there, renewing) == 200
        last = (await logged(there))[-1]
        principal = await there.store.directory.principal("local", "ana")
        assert (last.what, last.outcome, last.actor) == ("refresh_token", "allowed", principal.id)
        assert last.session == session
        assert renewing not in str(await logged(there))


@pytest.mark.parametrize(("anomaly", "outcome"), [("flag", "flagged"), ("block", "denied")])
async def test_an_unusual_request_with_a_token_is_said_to_be_denied_only_when_it_was(
    anomaly: str, outcome: str
) -> None:
    ambient = FixedAmbient()
    async with world(ambient=ambient, **FREE | {"anomaly": anomaly, "bind_ip": False}) as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        holder, _ = await token_of(ana, session)
        for _ in range(100):
            ambient.advance(2)
            assert (await holder.get(f"/v1/sessions/{session}")).status == 200
        thief = Client(there, holder.credential, address="203.0.113.9")
        replies = [await thief.get(f"/v1/sessions/{session}/events") for _ in range(50)]
        found = [each for each in await logged(there) if each.reason == "anomalous_request"]
        assert {(each.outcome, each.session) for each in found} == {(outcome, session)}
        refused = [reply for reply in replies if reply.status == 403]
        assert len(refused) == (0 if anomaly == "flag" else sum(each.count for each in found))
        assert all(reply.status == 200 for reply in replies if reply not in refused)
