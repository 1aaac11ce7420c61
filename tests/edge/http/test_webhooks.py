"""Webhooks over HTTP: only to addresses that may be told, tried out on request, and how they fare."""

import pytest

from perdure.core.access.roles import Role
from tests.edge.http.world import world
from tests.services.test_posting import Receiver
from tests.services.test_posting import receiver as receiver  # noqa: PLC0414 - a fixture

INSIDE = ["http://127.0.0.1:9/", "https://127.0.0.1/", "https://[::1]/", "https://2130706433/", "http://0.0.0.0/"]


@pytest.mark.parametrize("url", [*INSIDE, "http://169.254.169.254/latest", "ftp://example.org/", "http://a@b/", "x"])
async def test_an_address_that_cannot_be_told_is_refused_with_a_word(url: str) -> None:
    async with world() as there:
        admin = await there.principal("ada", Role.ADMIN)
        reply = await admin.post("/v1/webhooks", {"url": url})
        assert (reply.status, reply.json["code"]) == (422, "invalid")
        assert "address" in reply.json["detail"]
        assert (await admin.get("/v1/webhooks")).json["items"] == []


async def test_an_event_that_does_not_exist_is_refused_and_those_there_are_named() -> None:
    async with world() as there:
        admin = await there.principal("ada", Role.ADMIN)
        reply = await admin.post("/v1/webhooks", {"url": "https://example.com/", "events": ["completed"]})
        assert reply.status == 422
        assert "complete," in reply.json["detail"]


async def test_moves_are_delivered_and_one_sees_how_it_goes(receiver: Receiver) -> None:
    async with world(webhook_private=True) as there:
        admin, zoe = await there.principal("ada", Role.ADMIN), await there.principal("zoe")
        made = await admin.post("/v1/webhooks", {"url": receiver.url(), "events": ["suspend"]})
        assert made.status == 201, made
        assert made.json["secret"].startswith("whsec_")
        id, posting = made.json["webhook_id"], there.store.posting
        session = await zoe.begun()
        moved = await zoe.post(f"/v1/sessions/{session}/transitions", {"event": "suspend"})
        assert moved.status == 200, moved
        receiver.answers["/hook"] = [410]
        await posting.round()
        await posting.idle()
        (shown,) = (await admin.get("/v1/webhooks")).json["items"]
        assert (shown["waiting"], shown["last_problem"], shown["last_success_at"]) == (1, "status 410", None)
        assert shown["last_failure_at"]
        assert shown.get("secret") is None
        (told,) = receiver.told()
        assert (told["type"], told["session_id"], told["tenant"]) == ("session.suspended", session, "local")
        assert (await admin.delete(f"/v1/webhooks/{id}")).status == 204


async def test_a_test_delivery_tells_its_outcome_to_those_who_may_ask(receiver: Receiver) -> None:
    async with world(webhook_private=True) as there:
        admin, zoe = await there.principal("ada", Role.ADMIN), await there.principal("zoe")
        other = await there.principal("eve", Role.ADMIN, tenant="other")
        id = (await admin.post("/v1/webhooks", {"url": receiver.url()})).json["webhook_id"]
        receiver.answers["/hook"] = [200, 500]
        good, bad = [await admin.post(f"/v1/webhooks/{id}/test") for _ in range(2)]
        assert (good.status, good.json["delivered"], good.json["problem"]) == (200, True, None)
        assert (bad.status, bad.json["delivered"], bad.json["problem"]) == (200, False, "status 500")
        assert receiver.requests[0][1]["webhook-id"] == good.json["delivery_id"]
        assert (await zoe.post(f"/v1/webhooks/{id}/test")).status == 403
        assert (await other.post(f"/v1/webhooks/{id}/test")).status == 404
        assert (await admin.post("/v1/webhooks/whk_none/test")).status == 404
        assert len(receiver.requests) == 2


async def test_what_was_added_while_it_was_allowed_is_not_told_once_it_is_not(receiver: Receiver) -> None:
    async with world() as there:
        admin = await there.principal("ada", Role.ADMIN)
        hook = await there.store.directory.add_webhook("local", receiver.url(), ("*",), by=None)
        reply = await admin.post(f"/v1/webhooks/{hook.hook.id}/test")
        assert not reply.json["delivered"]
        assert "private address" in reply.json["problem"]
        assert receiver.requests == []
