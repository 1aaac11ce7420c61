"""Asking models: each request is an event before it is sent and another when its answer is in, or never will be.

Between the two the worst case is reserved under the request's own name. So a crash at any moment leaves a request that
is known, and closing it settles what it may have cost.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from perdure.core.session.budget import Budget, OpenAsk
from perdure.core.session.event import Event, Payload
from perdure.core.session.values import storable

SHARES: Final = 256
"""How many names costs are attributed to; what is beyond them is attributed to `OTHERS`."""
OTHERS: Final = "*"


class ModelAsked(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A model is about to be asked, for a turn unless `purpose` says else; `tokens` are about those of the question.
    `node` names the process that asks, which alone hears the answer.
    """

    kind: ClassVar[str] = "model_asked"
    ask: str = ""
    provider: str = ""
    model: str = ""
    purpose: str = ""
    tokens: int = 0
    node: str = ""

    def aim(self) -> str | None:
        return self.ask or None


class ModelAnswered(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What came of it: how it stopped, what it took, what it cost. `estimated` when nobody said what it took, `error`
    when there is no answer, `cached` when no provider was asked (exact, semantic).
    """

    kind: ClassVar[str] = "model_answered"
    ask: str = ""
    provider: str = ""
    model: str = ""
    stop: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: int = 0
    estimated: bool = False
    micros: int = 0
    error: str | None = None
    cached: str = ""
    strategy: str = ""

    def aim(self) -> str | None:
        return self.ask or None


def given_up(part: Budget, reason: str) -> Iterator[ModelAnswered]:
    """What is noted of requests whose answer nobody will hear; what was reserved for them counts as spent."""
    for name, item in part.asked.items():
        cost = part.open.get(name, 0)
        yield ModelAnswered(ask=name, provider=item.provider, model=item.model, cost=cost, estimated=True, error=reason)


def evolve(part: Budget, event: Event) -> Budget:
    """Fold one event into the requests that are open, and into what they took."""
    data, name = event.data, event.target or ""
    match data:
        case ModelAsked():
            asked = OpenAsk(provider=data.provider, model=data.model, since=event.at, node=data.node)
            return msgspec.structs.replace(part, asked={**part.asked, name: asked}, rounds=part.rounds + 1)
        case ModelAnswered():
            return msgspec.structs.replace(
                part,
                asked={other: item for other, item in part.asked.items() if other != name},
                tokens_in=storable(part.tokens_in + data.tokens_in + data.cache_read + data.cache_write),
                tokens_out=storable(part.tokens_out + data.tokens_out),
                cache_read=storable(part.cache_read + data.cache_read),
                shares=_attributed(part.shares, data, event.agent),
            )
        case _:
            return part


def _attributed(shares: dict[str, int], data: ModelAnswered, agent: str | None) -> dict[str, int]:
    """Costs by model, agent and strategy."""
    if not data.cost:
        return shares
    found = dict(shares)
    for kind, name in (("model", data.model), ("agent", agent or ""), ("strategy", data.strategy)):
        if name:
            share = f"{kind}:{name}"
            share = share if share in found or len(found) < SHARES else f"{kind}:{OTHERS}"
            found[share] = storable(found.get(share, 0) + data.cost)
    return found
