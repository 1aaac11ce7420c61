"""What turns with models need, wired: once for all tenants what is shared, and per tenant the rest."""

from typing import TYPE_CHECKING

import msgspec

from perdure.compose.pricing import loaded
from perdure.core.talk.routes import OFFLINE, Models

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.core.talk.templates import Template
    from perdure.ports.ambient import Ambient
    from perdure.services.compacting import Hook
    from perdure.services.desk import Desk, TurnSettings
    from perdure.services.lifecycle import Lifecycle
    from perdure.services.remembering import Remembering
    from perdure.services.sessions import Sessions
    from perdure.services.tooling import Tooling


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions talk: to which models, with which prefix, templates and bounds. Each of `before_compact` is told
    what a compaction is about to sum up; see `perdure.services.compacting`.
    """

    models: Models = OFFLINE
    prefix: str = ""
    templates: "tuple[Template, ...]" = ()
    settings: "TurnSettings | None" = None
    before_compact: "tuple[Hook, ...]" = ()


class Common:
    """What all tenants of a process share: connections to providers, tools, caches, prices."""

    def __init__(self, talk: Talk, ambient: "Ambient", tooling: "Tooling | None" = None) -> None:
        from perdure.services.caching import Caching
        from perdure.services.calling import Calling
        from perdure.services.nodes import this_node
        from perdure.services.pricing import Pricing
        from perdure.services.tooling import Tooling

        self.prices = loaded()
        self.talk = talk
        self.ambient = ambient
        self.node = this_node(ambient.random(4))
        self.calling = Calling(talk.models, ambient, prices=self.prices)
        self.pricing = Pricing(self.prices, talk.models)
        self.tooling = tooling or Tooling()
        self.caching = Caching(ambient.now)

    def anew(self) -> "Common":
        """The same for another event loop, or for the child of a fork, where no connection can be used."""
        made = Common(self.talk, self.ambient, self.tooling.anew())
        made.caching = self.caching
        return made

    async def close(self) -> None:
        """Let go of connections."""
        await self.calling.close()
        await self.tooling.close()


def desk(
    sessions: "Sessions",
    lifecycle: "Lifecycle",
    common: Common,
    remembering: "Callable[[], Remembering] | None" = None,
) -> "Desk":
    """The services that a tenant's turns call on; what remembers is made when a session wants it."""
    from perdure.services.blobs import Blobs
    from perdure.services.compacting import BEFORE, Compacting
    from perdure.services.contexts import Contexts
    from perdure.services.desk import DEFAULTS, Desk
    from perdure.services.leases import Leases
    from perdure.services.pictures import Pictures
    from perdure.services.running import Runners

    pictures = Pictures(lambda: Blobs(sessions))
    compacting = Compacting(sessions, common.calling, common.prices, node=common.node)
    for hook in common.talk.before_compact:
        compacting.hook(BEFORE, hook)
    runners, contexts = Runners(), Contexts(sessions, pictures, common.talk.prefix, common.talk.templates)
    tenant = sessions.identity.tenant
    sessions.loader.forgetting += [
        contexts.forget,
        lambda session: common.caching.forget(tenant, session=session),
    ]
    return Desk(
        sessions=sessions,
        lifecycle=lifecycle,
        calling=common.calling,
        contexts=contexts,
        tooling=common.tooling,
        caching=common.caching,
        compacting=compacting,
        pricing=common.pricing,
        ambient=common.ambient,
        node=common.node,
        runners=runners,
        leases=Leases(sessions.store, common.ambient, common.node, runners),
        settings=common.talk.settings or DEFAULTS,
        remembering=remembering,
    )
