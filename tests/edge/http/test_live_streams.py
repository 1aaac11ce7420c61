"""Server-sent events: every event once, in order, whoever joins when; nobody costs more than they should."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from perdure.core.access.claims import Request as Seen
from perdure.core.access.roles import Role
from perdure.core.access.rules import FieldRule, Policy
from perdure.core.errors import Unauthenticated
from perdure.core.session.event import Event
from perdure.core.session.kinds import KINDS
from perdure.edge.http.live import channel as channels
from perdure.edge.http.live import ending
from tests.edge.http.attached import Follower, live, said, turns, until
from tests.edge.http.world import Client, World


async def begun(here: World, name: str = "ana") -> tuple[Client, str]:
    """Somebody, and a session of theirs."""
    client = await here.principal(name)
    return client, await client.begun(title="trip")


def of(session: str, **query: Any) -> str:
    return f"/v1/sessions/{session}/events" + "".join(f"?{name}={value}" for name, value in query.items())


# ── what is told ──


async def test_the_log_is_told_and_then_what_follows() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        first = await said(client, session, "one", "two")
        follower = Follower(client, of(session))
        await follower.upto(first)
        last = await said(client, session, "three")
        told = await follower.upto(last)
        assert [item.id for item in told] == list(range(1, last + 1))
        assert told[-1].event == "noted"
        assert told[-1].data["data"]["data"] == {"text": "three"}
        page = (await client.get(of(session))).json["items"]
        assert [item.data for item in told] == page
        await follower.hang_up()


async def test_one_who_comes_back_gets_what_they_missed_and_nothing_twice() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        seen = await said(client, session, "one")
        last = await said(client, session, "two", "three")
        by_header = Follower(client, of(session, after=0), {"last-event-id": str(seen)})
        by_query = Follower(client, of(session, after=seen))
        by_count = Follower(client, of(session, last=2))
        for follower in (by_header, by_query, by_count):
            await follower.upto(last)
            assert follower.ids() == [seen + 1, seen + 2]
            await follower.hang_up()


async def test_whoever_joins_while_others_write_misses_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with live(str(tmp_path / "a.db"), seal=False, session_burst=10_000) as (here, _):
        client, session = await begun(here)
        followers: list[tuple[int, Follower]] = []
        version = await said(client, session, "first")
        for number in range(150):
            version = await said(client, session, *(f"{number}.{index}" for index in range(chance.randrange(1, 5))))
            if number % 5 == 0:
                after = chance.randrange(version + 1)
                followers.append((after, Follower(client, of(session, after=after))))
            if number % 15 == 7:
                _, leaving = followers.pop(chance.randrange(len(followers)))
                await leaving.hang_up()
        for after, follower in followers:
            await follower.upto(version)
            assert follower.ids() == list(range(after + 1, version + 1))


async def test_two_nodes_over_one_store_tell_the_same(tmp_path: Path) -> None:
    store = str(tmp_path / "a.db")
    async with live(store, seal=False) as (here, _), live(store, seal=False) as (there, _):
        client, session = await begun(here)
        elsewhere = Client(there, client.credential)
        followers = [Follower(client, of(session)), Follower(elsewhere, of(session))]
        await said(elsewhere, session, "from there")
        last = await said(client, session, "from here")
        bodies = [[item.data for item in await follower.upto(last)] for follower in followers]
        assert bodies[0] == bodies[1]
        assert followers[0].ids() == list(range(1, last + 1))


async def test_an_event_is_read_and_encoded_once_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        start = await said(client, session, "before")
        followers = [Follower(client, of(session, after=start)) for _ in range(50)]
        channel = here.node.hub.channels
        await until(lambda: channel and len(next(iter(channel.values())).surfaces) == 50)
        encoded: list[int] = []
        real = channels.frame

        def counted(event: Event, flavour: channels.Flavour) -> bytes:
            encoded.append(event.version)
            return real(event, flavour)

        monkeypatch.setattr(channels, "frame", counted)
        last = await said(client, session, "one", "two")
        for follower in followers:
            await follower.upto(last)
        assert encoded == [last - 1, last]


async def test_exact_and_plain_followers_each_get_their_own_spelling() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        plain = Follower(client, of(session))
        exact = Follower(client, of(session), {"accept": "text/event-stream, application/vnd.perdure+json"})
        last = await said(client, session, "one")
        assert "blind" not in (await plain.upto(last))[-1].data
        line = (await exact.upto(last))[-1].data
        assert line["blind"]
        assert line["session"] == session


async def test_hidden_fields_stay_hidden_and_a_new_policy_holds_for_streams_that_are_open() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        first = await client.patch(f"/v1/sessions/{session}/state", {"salary": 10, "city": "Porto"})
        await follower.upto(first.json["version"])
        assert b"salary" in follower.body
        rule = FieldRule(path="vars.salary", read=(Role.ADMIN,))
        await here.store.directory.set_policy("local", Policy(fields=(rule,)), by=None)
        await clock.pass_by(1)
        seen = len(follower.pieces)
        here.store.services("local")
        second = await client.patch(f"/v1/sessions/{session}/state", {"city": "Faro"})
        await follower.upto(second.json["version"])
        later = b"".join(follower.pieces[seen:])
        assert b"Faro" in later
        assert b"salary" not in later


def test_no_kind_of_event_is_called_like_a_word_of_the_stream() -> None:
    assert set(ending.WORDS) & set(KINDS) == set()


# ── who does not keep up ──


async def test_one_who_takes_nothing_keeps_nobody_waiting_and_no_memory_and_gets_all_in_the_end() -> None:
    async with live(session_burst=10_000) as (here, clock):
        client, session = await begun(here)
        slow, quick = Follower(client, of(session)), Follower(client, of(session))
        await quick.upto(1)
        slow.open.clear()
        for _ in range(60):
            last = await said(client, session, *["x" * 2000] * 20)
        await quick.upto(last)
        (channel,) = here.node.hub.channels.values()
        await clock.pass_by(1)
        kept = sum(entry.size for entry in channel._ring)
        assert kept <= channels.KEPT_BYTES
        assert len(channel._ring) <= channels.KEPT
        assert len(slow.ids()) < last - channels.KEPT
        slow.open.set()
        await slow.upto(last)
        assert slow.ids() == list(range(1, last + 1))


async def test_whoever_is_how_far_behind_gets_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "KEPT", 7)
    async with live() as (here, _):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        await follower.upto(1)
        last = 0
        for _ in range(6):
            last = await said(client, session, "one", "two", "three")
        await follower.upto(last)
        (channel,) = here.node.hub.channels.values()
        (attached,) = channel.surfaces
        attached.version = 0  # so that nothing is forgotten because everybody has it
        last = await said(client, session, *"abcdefghij")
        await follower.upto(last)
        flavour, kept = channels.Flavour(False, (), False), 0
        for start in range(last + 1):
            version, told = start, b""
            while version < last:
                found = channel.batch(version, flavour)
                kept += found is not None
                found = found or await channel.read(version, flavour)
                assert found.upto > version
                version, told = found.upto, told + b"".join(found.frames)
            ids = [int(line[4:]) for line in told.splitlines() if line.startswith(b"id: ")]
            assert ids == list(range(start + 1, last + 1))
        assert kept


async def test_what_everybody_has_is_kept_no_longer() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        await follower.upto(await said(client, session, "one", "two"))
        await clock.pass_by(1)
        (channel,) = here.node.hub.channels.values()
        assert not channel._ring


async def test_one_who_takes_nothing_for_a_minute_is_cut_off() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        stuck = Follower(client, of(session))
        await stuck.upto(1)
        stuck.open.clear()
        await said(client, session, "one")
        await turns(20)
        await clock.pass_by(62)
        await asyncio.wait_for(stuck.task, 10)
        assert here.node.hub.surfaces == set()


async def test_a_session_nobody_follows_costs_nothing_and_neither_do_those_who_left() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        other = await client.begun(title="other")
        follower = Follower(client, of(session))
        await follower.upto(1)
        hub = here.node.hub
        await said(client, other, "one")
        await clock.pass_by(1)
        assert list(hub.channels) == [session]
        await follower.hang_up()
        assert (hub.surfaces, hub.channels, hub.passes._passes) == (set(), {}, {})
        await clock.pass_by(1)
        again = Follower(client, of(session))
        await again.upto(await said(client, session, "after a rest"))


async def test_silence_is_broken_by_heartbeats() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        await follower.upto(1)
        await clock.pass_by(14)
        assert b"\n: " not in follower.body
        await clock.pass_by(1)
        await until(lambda: follower.body.endswith(b": still here\n\n"))
        assert follower.body.startswith(b"retry: 1000\n\n")


# ── how it ends ──


async def test_an_erased_session_ends_its_streams() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        await follower.upto(1)
        assert (await client.delete(f"/v1/sessions/{session}")).status == 200
        assert (await follower.ended()).event == "erased"
        assert (await client.get(of(session), headers={"accept": "text/event-stream"})).status == 404


async def test_a_revoked_key_hears_nothing_more() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        spare = await here.store.directory.add_key("local", "ana", by=None)
        follower, other = Follower(Client(here, spare.spelled), of(session)), Follower(client, of(session))
        await follower.upto(1)
        await other.upto(1)
        await here.store.directory.revoke_key("local", spare.key.id, by=None)
        await clock.pass_by(1)
        last = await said(client, session, "secret")
        end = await follower.ended()
        assert (end.event, end.data["code"]) == ("access", "unauthenticated")
        assert b"secret" not in follower.body
        await other.upto(last)


async def test_a_key_revoked_while_nothing_happens_is_noticed_at_the_next_heartbeat() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        await follower.upto(1)
        await here.store.directory.disable_principal("local", "ana", by=None)
        await clock.pass_by(15)
        assert (await follower.ended()).event == "access"


async def test_another_role_may_end_a_stream() -> None:
    async with live() as (here, clock):
        await here.principal("root", Role.ADMIN)
        client, session = await begun(here)
        follower = Follower(client, of(session))
        await follower.upto(1)
        await here.store.directory.change_principal("local", "ana", by=None, roles=(Role.AUDITOR,))
        await clock.pass_by(15)
        end = await follower.ended()
        assert end.event == "access"


async def test_a_token_ends_its_stream_with_its_time() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        token = (await client.post(f"/v1/sessions/{session}/tokens", {"ttl": 5})).json["access_token"]
        holder = Client(here, token)
        follower = Follower(holder, of(session))
        await follower.upto(1)
        await clock.pass_by(3)
        await follower.upto(await said(client, session, "in time"))
        await clock.pass_by(3)
        end = await follower.ended()
        assert (end.event, end.data["code"]) == ("access", "token_expired")


async def test_a_revoked_token_ends_its_stream() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        token = (await client.post(f"/v1/sessions/{session}/tokens", {})).json["access_token"]
        follower = Follower(Client(here, token), of(session))
        await follower.upto(1)
        assert (await client.delete(f"/v1/sessions/{session}/tokens")).status in (200, 204)
        await clock.pass_by(1)
        await said(client, session, "secret")
        assert (await follower.ended()).event == "access"
        assert b"secret" not in follower.body


async def test_a_token_that_goes_on_is_neither_counted_nor_proven_again() -> None:
    async with live(session_burst=2, session_rate=0.001) as (here, _):
        client, session = await begun(here)
        actor = await here.store.directory.identify(client.credential or "")
        tokens = here.node.entrance.entry.tokens
        bound = (await tokens.issue(actor, session, cnf="A" * 43)).access
        for _ in range(5):
            again = await tokens.validate(bound, Seen(target=session, operation="read_events", again=True))
            assert again.actor.principal == actor.principal
        with pytest.raises(Unauthenticated):
            await tokens.validate(bound, Seen(target=session, operation="read_events"))
        await tokens.revoke(session)
        with pytest.raises(Unauthenticated):
            await tokens.validate(bound, Seen(target=session, operation="read_events", again=True))


async def test_a_server_that_leaves_says_so_and_the_rest_is_had_elsewhere(tmp_path: Path) -> None:
    store = str(tmp_path / "a.db")
    async with live(store, seal=False) as (here, _), live(store, seal=False) as (there, _):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        seen = await said(client, session, "one")
        await follower.upto(seen)
        await here.node.hub.leave()
        assert (await follower.ended()).event == "leaving"
        assert (await client.get(of(session), headers={"accept": "text/event-stream"})).status == 429
        again = Follower(Client(there, client.credential), of(session), {"last-event-id": str(seen)})
        last = await said(client, session, "two")
        await again.upto(last)
        assert again.ids() == [last]


# ── what is refused ──


@pytest.mark.parametrize("header", ["x", "-1", "1.5", "9" * 50, "7"])
async def test_what_is_no_id_of_this_log_is_refused(header: str) -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        follower = Follower(client, of(session), {"last-event-id": header})
        await follower.task
        assert follower.status == 422


async def test_a_stream_has_no_end_to_ask_for() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        follower = Follower(client, of(session, upto=3))
        await follower.task
        assert follower.status == 422


async def test_a_stranger_and_a_neighbour_are_told_what_they_are_told_elsewhere() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        neighbour = await here.principal("bo", tenant="other")
        follower = Follower(neighbour, of(session))
        await follower.task
        missing = Follower(client, of("0192f0c4-7d1e-7abc-8def-0123456789ab"))
        await missing.task
        assert (follower.status, follower.body) == (missing.status, missing.body)
        nobody = Follower(Client(here), of(session))
        await nobody.task
        assert nobody.status == 401


async def test_no_more_are_attached_than_there_is_room_for() -> None:
    async with live(max_surfaces=3, max_session_surfaces=2) as (here, _):
        client, session = await begun(here)
        other = await client.begun(title="other")
        for target in (session, session, other):
            await Follower(client, of(target)).upto(1)
        full = Follower(client, of(session))
        await full.task
        assert full.status == 429


async def test_head_asks_for_nothing_but_the_head() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        reply = await client.ask("HEAD", of(session), headers={"accept": "text/event-stream"})
        assert (reply.status, reply.body) == (200, b"")
        assert reply.headers["content-type"].startswith("text/event-stream")


async def test_what_was_pruned_is_told_of() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        for text in ("one", "two", "three"):
            last = await said(client, session, text)
        pruned = await client.post(f"/v1/sessions/{session}/prune", {"upto": last - 1})
        assert pruned.status == 200, pruned
        upto = pruned.json["upto"]
        assert upto > 1
        follower = Follower(client, of(session, after=0))
        told = await follower.upto(last)
        assert (told[0].event, told[0].data) == ("pruned", {"upto": upto})
        assert follower.ids() == list(range(upto + 1, last + 1))


# ── the change feed ──


async def test_the_feed_tells_of_the_sessions_one_may_see() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        other, foreign = await begun(here, "bo")
        neighbour = await here.principal("cy", tenant="other")
        watcher, watched = Follower(client, "/v1/changes"), Follower(neighbour, "/v1/changes")
        await until(lambda: len(here.node.hub.watchers) == 2)
        await said(other, foreign, "not yours")
        last = await said(client, session, "yours")
        await until(lambda: watcher.ids() != [])
        (told,) = watcher.told()
        assert (told.event, told.data["session_id"], told.data["last"]) == ("change", session, last)
        await said(neighbour, await neighbour.begun(title="far"), "far")
        await until(lambda: watched.ids() != [])
        assert session not in watched.body.decode()
        assert foreign not in watched.body.decode() + watcher.body.decode()


async def test_the_feed_is_rejoined_by_position_and_tells_of_erasure() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        start = (await client.get("/v1/position")).json["position"]
        await said(client, session, "one")
        await said(client, session, "two")
        first = Follower(client, f"/v1/changes?after={start}")
        await until(lambda: len(first.ids()) == 2)
        again = Follower(client, "/v1/changes?after=0", {"last-event-id": str(first.ids()[0])})
        await until(lambda: again.ids() == first.ids()[1:])
        await client.delete(f"/v1/sessions/{session}")
        await until(lambda: first.told()[-1].data["erased"])
        assert first.told()[-1].data["session_id"] == session
        late = Follower(client, "/v1/changes?after=" + str(10**9))
        await late.task
        assert late.status == 422


async def test_an_erasure_is_not_told_to_those_who_did_not_know() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        neighbour = await here.principal("cy", tenant="other")
        watched = Follower(neighbour, "/v1/changes")
        await until(lambda: len(here.node.hub.watchers) == 1)
        await client.delete(f"/v1/sessions/{session}")
        known = await neighbour.begun(title="far")
        await until(lambda: known in watched.body.decode())
        assert session not in watched.body.decode()


async def test_one_who_is_told_nothing_still_learns_how_far_the_feed_is() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        neighbour = await here.principal("cy", tenant="other")
        watched = Follower(neighbour, "/v1/changes")
        await until(lambda: len(here.node.hub.watchers) == 1)
        await said(client, session, "not for them")
        position = (await client.get("/v1/position")).json["position"]
        await clock.pass_by(15)
        await until(lambda: watched.body.endswith(f"id: {position}\n: still here\n\n".encode()))


async def test_what_is_told_is_counted() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        follower = Follower(client, of(session))
        last = await said(client, session, "one")
        await follower.upto(last)
        await clock.pass_by(1)
        shown = here.node.measures.shown().decode()
        assert f"perdure_deliveries_total {last}.0" in shown
        assert "perdure_surfaces 1.0" in shown
