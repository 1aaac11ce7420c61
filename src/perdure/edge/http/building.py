"""A node put together: the store opened, everything beside it made, the table of endpoints complete."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from perdure.compose.memory import MemorySettings, checked
from perdure.compose.tenants import Tenants, tenants
from perdure.edge.http.api import (
    access,
    approvals,
    audit,
    caches,
    children,
    documents,
    finding,
    gateway,
    grounding,
    health,
    keeping,
    live,
    logs,
    memory,
    memory_clades,
    memory_learning,
    memory_runs,
    memory_sources,
    memory_spaces,
    money,
    points,
    sessions,
    signing,
    tokens,
    turns,
    webhooks,
)
from perdure.edge.http.app import Application
from perdure.edge.http.entrance import Entrance
from perdure.edge.http.live.hub import Hub
from perdure.edge.http.live.surfaces import Surfaces
from perdure.edge.http.measures import Measures
from perdure.edge.http.node import Node
from perdure.edge.http.pacing import Pace
from perdure.edge.http.routes import Endpoint, Router
from perdure.edge.http.settings import Settings
from perdure.edge.http.talks import talk_of
from perdure.edge.http.toolservers import offer, servers_of
from perdure.edge.timing import timeouts_of
from perdure.ports.ambient import Ambient
from perdure.sealing.given import Given

if TYPE_CHECKING:
    from perdure.edge.http.asgi import App

MODULES = (
    health,
    sessions,
    finding,
    logs,
    documents,
    turns,
    grounding,
    approvals,
    caches,
    children,
    points,
    keeping,
    memory,
    memory_learning,
    memory_sources,
    memory_runs,
    memory_spaces,
    memory_clades,
    money,
    gateway,
    live,
    access,
    webhooks,
    tokens,
    audit,
    signing,
)


def endpoints() -> tuple[Endpoint, ...]:
    """Every endpoint there is."""
    return tuple(endpoint for module in MODULES for endpoint in module.table.endpoints)


def opened(settings: Settings, ambient: Ambient | None = None) -> Tenants:
    """The store that the settings name, and the models that its sessions talk to, with their tools."""
    talk, servers = talk_of(settings), servers_of(settings.tools)
    memory = checked(MemorySettings(**msgspec.structs.asdict(settings.memory)))
    found = tenants(
        settings.store,
        ambient=ambient,
        cold=settings.cold,
        keys=Given(settings.seal, settings.key, settings.vault),
        timeouts=timeouts_of(settings.timeouts),
        masks=None if settings.scrub == "off" else settings.scrub,
        private=settings.webhook_private,
    )
    found.talk = talk
    found.memory = memory
    if servers:
        offer(found.common.tooling, settings.tools, servers)
    return found


def build(settings: Settings, store: Tenants, lifespan: "Callable[[Node], App]") -> Application:
    """The application over an open store."""
    measures = Measures(store.ambient, settings.metrics)
    entrance = Entrance(store, Pace(settings, store.ambient), settings)
    router = Router(endpoints())
    hub = Hub(store, settings, store.ambient, measures)
    node = Node(store, settings, entrance, hub, measures, router)
    return Application(node, router, Surfaces(node), lifespan(node))
