"""The models there are, as Anthropic's and OpenAI's clients list them.

An upstream may have more models than anybody here knows of; those with a price are listed, and what has a name of its
own: the default, the cheap one, and every alias.
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
    for upstream in models.upstreams.values():
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
