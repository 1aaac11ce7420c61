"""What turns with models need, in one place."""

from typing import TYPE_CHECKING, Final

import msgspec

from perdure.core.talk.routes import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.core.talk.routing import Option
    from perdure.ports.ambient import Ambient
    from perdure.services.caching import Caching
    from perdure.services.calling import Calling
    from perdure.services.compacting import Compacting
    from perdure.services.contexts import Contexts
    from perdure.services.leases import Leases
    from perdure.services.lifecycle import Lifecycle
    from perdure.services.pricing import Pricing
    from perdure.services.remembering import Remembering
    from perdure.services.running import Runners
    from perdure.services.sessions import Sessions
    from perdure.services.tooling import Tooling


class TurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of every turn. Times are seconds."""

    max_tokens: int = 4096
    """Of an answer, where nobody says."""
    window: int = 128_000
    """Of a model that nobody knows."""
    max_rounds: int = 64
    """Answers in one turn."""
    timeout: float = 600.0
    tool_timeout: float = 60.0
    queue_timeout: float = 120.0


DEFAULTS: Final = TurnSettings()


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The services that a turn calls on."""

    sessions: "Sessions"
    lifecycle: "Lifecycle"
    calling: "Calling"
    contexts: "Contexts"
    tooling: "Tooling"
    caching: "Caching"
    compacting: "Compacting"
    pricing: "Pricing"
    ambient: "Ambient"
    node: str
    runners: "Runners"
    leases: "Leases"
    settings: TurnSettings = DEFAULTS
    remembering: "Callable[[], Remembering] | None" = None

    def options(self) -> "list[Option]":
        """The models that `auto` chooses from: the cheap one and the default one."""
        from perdure.core.talk.routing import Option

        models, found = self.calling.models, list[Option]()
        for name in dict.fromkeys(filter(None, (models.cheap, models.default))):
            if name != AUTO:
                price = self.pricing.of(self.calling.route(name).candidates[0])
                found.append(Option(model=name, rates=price.rates, window=price.window))
        return found
