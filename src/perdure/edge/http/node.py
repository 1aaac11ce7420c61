"""A node: one server process over one store, with everything its endpoints share."""

from typing import Any, Protocol

from perdure.compose.entry import Entry
from perdure.compose.tenants import Tenants
from perdure.edge.http.measures import Measures
from perdure.edge.http.routes import Router
from perdure.edge.http.settings import Settings

SECRETS = ("access", "refresh", "signin")
"""What tokens are signed with, each kind with its own."""


class Live(Protocol):
    """Those who are attached to this node."""

    async def follow(self, ask: Any) -> Any:
        """The log from where a client is, and then what follows, as server-sent events."""
        ...

    async def watch(self, ask: Any) -> Any:
        """The changes of the tenant's sessions, as server-sent events."""
        ...

    async def run(self) -> None:
        """Hand on what happens, until cancelled."""
        ...

    async def leave(self) -> None:
        """Tell everybody that the node leaves, and let them go."""
        ...


class Door(Protocol):
    """Who comes in to this node, and what is written down of it."""

    @property
    def entry(self) -> Entry:
        """What people come in by."""
        ...

    async def admitted(self, ask: Any, target: str | None) -> Any:
        """Let a request in, or raise why not; what is known of a session token comes back."""
        ...

    async def decided(self, ask: Any) -> Any:
        """Whether a request may go on, decided anew."""
        ...

    def paced(self, actor: Any, endpoint: Any, request: Any, session: str) -> bool:
        """Take note of a request: whether it is unlike those before it."""
        ...

    def watched(self, actor: Any, endpoint: Any, request: Any, session: str) -> bool:
        """Take note of a request in a session that its path does not name: whether it is unlike those before it."""
        ...

    def turned_away(self, ask: Any, error: Any) -> None:
        """Have an error noted in the audit log if it is a refusal."""
        ...

    def strange(self, ask: Any, error: Any) -> None:
        """Have a failed attempt where anybody may try noted, and slow down those who keep trying."""
        ...

    def refused(self, ask: Any, error: Any) -> None:
        """Have a refusal noted in the audit log, soon."""
        ...

    def flagged(self, ask: Any) -> None:
        """Have an unusual request noted, soon."""
        ...

    async def noted(self, ask: Any, outcome: Any = "allowed", reason: str = "") -> None:
        """Write down what was asked, durably."""
        ...


class Node:
    """What endpoints reach beside the session they are about."""

    def __init__(
        self, tenants: Tenants, settings: Settings, entrance: Door, hub: Live, measures: Measures, router: Router
    ) -> None:
        self.tenants = tenants
        self.settings = settings
        self.entrance = entrance
        self.entry = entrance.entry
        self.hub = hub
        self.measures = measures
        self.ready = False
        self.leaving = False
        self.router = router

    async def begin(self) -> None:
        """Make ready what requests will need."""
        for kind in SECRETS:
            await self.tenants.directory.secret(kind)
        self.ready = True
