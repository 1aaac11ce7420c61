"""The models there are, as Anthropic's and OpenAI's clients list them.

Listed is what is configured: the default, the cheap one, every alias, who is asked instead, and what an upstream says
that it has. Of one that is where its form comes from, also what the price list knows.
"""

from typing import Any

from perdure.core.talk.prices import Prices
from perdure.core.talk.routes import FAMILIES, Models

ANYTIME = "1970-01-01T00:00:00Z"
"""When a model was made is not known here."""


def names(models: Models, prices: Prices) -> dict[str, str]:
    """Every name that can be asked for, and whose it is."""
    found: dict[str, str] = {}
    for name in (models.default, models.cheap):
        if name:
            found.setdefault(name, name.partition("/")[0])
    found |= {alias: meant.partition("/")[0] for alias, meant in models.aliases.items()}
    for others in models.fallbacks.values():
        found |= {name: name.partition("/")[0] for name in others if name not in found}
    for upstream in models.upstreams.values():
        found |= {f"{upstream.name}/{model}": upstream.name for model in upstream.models}
        if not upstream.public:
            continue
        sellers = {upstream.name, FAMILIES[upstream.form]}
        for seller, model in sorted(prices.table):
            if seller in sellers and "*" not in model:
                found.setdefault(f"{upstream.name}/{model}", upstream.name)
    return found


def openais(models: Models, prices: Prices) -> dict[str, Any]:
    """The models in OpenAI's form."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": owner}
        for name, owner in names(models, prices).items()
    ]
    return {"object": "list", "data": data}


def anthropics(models: Models, prices: Prices) -> dict[str, Any]:
    """The models in Anthropic's form, all on one page."""
    data = [
        {"type": "model", "id": name, "display_name": name, "created_at": ANYTIME} for name in names(models, prices)
    ]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}
