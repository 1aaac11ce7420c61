"""What a question cost, also when its answer never came to its end."""

from typing import Final

import msgspec

from perdure.core.errors import PerdureError, ProviderCut, ProviderGarbled, ProviderSlow
from perdure.core.session import commands as do
from perdure.core.talk.parts import NOTHING, Answer, Usage
from perdure.core.talk.routes import Candidate
from perdure.core.talk.tokens import estimate_blocks
from perdure.services.pricing import Pricing
from perdure.services.questions import Question

_MAY_CHARGE: Final = (str, ProviderSlow, ProviderCut, ProviderGarbled)
"""After these a provider may want money: it had the question, and perhaps answered. A text is why somebody hung up."""


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be paid for a question."""

    settle: do.Settle
    usage: Usage
    cost: int
    estimated: bool


def charged(
    pricing: Pricing,
    candidate: Candidate | None,
    question: Question,
    answer: Answer,
    *,
    error: PerdureError | str | None,
) -> Bill:
    """What the provider reported counts, and of an answer that was cut short what came of it. Without a report, whoever
    refused to answer gets nothing, and whoever may have answered gets what was reserved: an estimate.
    """
    usage, estimated, cost = answer.usage, False, 0
    if usage != NOTHING and error is not None:
        usage = msgspec.structs.replace(usage, output=max(usage.output, estimate_blocks(answer.blocks)))
    tokens = usage.input + usage.output + usage.cache_read + usage.cache_write
    if error is None or usage != NOTHING:
        cost, estimated = pricing.cost(candidate or question.route.candidates[0], usage)
        estimated = estimated or error is not None
    elif isinstance(error, _MAY_CHARGE):
        cost, estimated, tokens = question.money, True, question.tokens
    settle = do.Settle(reservation=question.name, cost=cost, estimated=estimated, tokens=tokens, rounds=1)
    return Bill(settle=settle, usage=usage, cost=cost, estimated=estimated)
