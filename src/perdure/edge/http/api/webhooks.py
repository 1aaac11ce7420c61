"""Webhooks: who is told of the moves of sessions, how that goes, and trying it out."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.book import Hook
from perdure.core.access.directory import find_webhook
from perdure.core.access.postings import EVENTS, Standing, fares, must_be_events
from perdure.core.access.roles import Thing, Verb
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table
from perdure.services.webhooks import webhook

table = Table()
Event = Annotated[str, Meta(max_length=256, description=f"`*`, or one of {', '.join(EVENTS)}")]


class WebhookBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to post, of which events (all when none is named), signed with which secret (a fresh one when left out)."""

    url: Annotated[str, Meta(max_length=2048)]
    events: Annotated[tuple[Event, ...], Meta(max_length=100)] = ()
    secret: Annotated[str, Meta(max_length=1024)] | None = None


class WebhookView(msgspec.Struct, kw_only=True):
    """A webhook and how it fares: `waiting` deliveries are still to be made, `given_up` ones never will. `secret` is
    shown only when it was just made.
    """

    webhook_id: str
    url: str
    events: tuple[str, ...]
    created_at: int
    secret: str | None = None
    last_success_at: int | None = None
    last_failure_at: int | None = None
    last_problem: str | None = None
    waiting: int = 0
    given_up: int = 0


class Webhooks(msgspec.Struct, kw_only=True):
    """Webhooks, the oldest first."""

    items: tuple[WebhookView, ...]


class WebhookTest(msgspec.Struct, kw_only=True):
    """What came of a test delivery; its `webhook-id` is `delivery_id`."""

    delivery_id: str
    delivered: bool
    problem: str | None


@table.add(
    "POST",
    "/v1/webhooks",
    (Verb.CREATE, Thing.WEBHOOKS),
    body=WebhookBody,
    answer=WebhookView,
    status=HTTPStatus.CREATED,
    sensitive=True,
    errors=(errors.AlreadyExists,),
    example={"url": "https://example.com/perdure", "events": ["complete", "terminate"]},
)
async def add_webhook(ask: Ask) -> Answer:
    """Be told of the moves of sessions by a signed POST."""
    body: WebhookBody = await ask.body()
    tenants = ask.node.tenants
    events = must_be_events(body.events)
    webhook(body.url, body.secret or bytes(32))
    await tenants.posting.outbound.must_reach(body.url)
    made = await tenants.directory.add_webhook(ask.actor.tenant, body.url, events, by=ask.actor, secret=body.secret)
    return ask.answer(_view(made.hook, secret=made.secret))


def _view(hook: Hook, how: Standing | None = None, waiting: int = 0, secret: str | None = None) -> WebhookView:
    known = how or Standing()
    return WebhookView(
        webhook_id=hook.id,
        url=hook.url,
        events=hook.events,
        created_at=hook.created_at,
        secret=secret,
        last_success_at=known.succeeded_at,
        last_failure_at=known.failed_at,
        last_problem=known.problem,
        waiting=waiting,
        given_up=known.given_up,
    )


@table.add("GET", "/v1/webhooks", (Verb.LIST, Thing.WEBHOOKS), answer=Webhooks)
async def list_webhooks(ask: Ask) -> Answer:
    """The tenant's webhooks and how they fare, without their secrets."""
    tenants = ask.node.tenants
    book = await tenants.posting.book()
    found = await tenants.directory.webhooks(ask.actor.tenant)
    return ask.answer(Webhooks(items=tuple(_view(hook, *fares(book, hook.id)) for hook in found)))


@table.add(
    "POST",
    "/v1/webhooks/{webhook_id}/test",
    (Verb.WRITE, Thing.WEBHOOKS),
    answer=WebhookTest,
    sensitive=True,
    errors=(errors.NotFound,),
)
async def test_webhook(ask: Ask) -> Answer:
    """Post a test delivery to a webhook, once, and tell what came of it."""
    tenants = ask.node.tenants
    hook = find_webhook(await tenants.directory.book(), ask.actor.tenant, ask.params["webhook_id"])
    tried = await tenants.posting.test(hook)
    return ask.answer(WebhookTest(delivery_id=tried.id, delivered=tried.delivered, problem=tried.problem))


@table.add(
    "DELETE",
    "/v1/webhooks/{webhook_id}",
    (Verb.DELETE, Thing.WEBHOOKS),
    status=HTTPStatus.NO_CONTENT,
    sensitive=True,
    errors=(errors.NotFound,),
)
async def remove_webhook(ask: Ask) -> Answer:
    """Be told no longer."""
    await ask.node.tenants.directory.remove_webhook(ask.actor.tenant, ask.params["webhook_id"], by=ask.actor)
    return Answer(HTTPStatus.NO_CONTENT, b"", b"", ask.headers)
