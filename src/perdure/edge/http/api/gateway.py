"""What stands in for the providers' own endpoints: official clients work with no change but their base URL.

A header names the session, or the metadata does; without one a request passes through, and is charged. The history that
such clients send with every request is matched with the session's log, and only what is new is appended.
"""

from typing import Any

import msgspec

from perdure.core.access.roles import Thing, Verb
from perdure.edge.http import shaping
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table

table = Table()
_SAID = [{"role": "user", "content": "What did we decide about the budget?"}]


@table.add(
    "POST",
    "/v1/messages",
    (Verb.WRITE, Thing.TURNS),
    body=Any,
    answer=bytes,
    form="anthropic",
    example={"model": "claude-sonnet-5-5", "max_tokens": 1024, "messages": _SAID},
)
async def create_message(ask: Ask) -> Answer:
    """Anthropic's Messages, in a session or past all."""
    from perdure.edge.http.relaying import answered  # loaded with the first request, so that a server starts quickly

    return await answered(ask, "anthropic")


@table.add(
    "POST",
    "/v1/chat/completions",
    (Verb.WRITE, Thing.TURNS),
    body=Any,
    answer=bytes,
    form="openai-chat",
    example={"model": "gpt-5", "messages": _SAID},
)
async def create_chat_completion(ask: Ask) -> Answer:
    """OpenAI's Chat Completions, in a session or past all."""
    from perdure.edge.http.relaying import answered  # loaded with the first request, so that a server starts quickly

    return await answered(ask, "openai-chat")


@table.add(
    "POST",
    "/v1/responses",
    (Verb.WRITE, Thing.TURNS),
    body=Any,
    answer=bytes,
    form="openai-responses",
    example={"model": "gpt-5", "input": "What did we decide about the budget?"},
)
async def create_response(ask: Ask) -> Answer:
    """OpenAI's Responses, in a session or past all."""
    from perdure.edge.http.relaying import answered  # loaded with the first request, so that a server starts quickly

    return await answered(ask, "openai-responses")


@table.add(
    "POST",
    "/v1/messages/count_tokens",
    None,
    known=True,
    body=Any,
    answer=bytes,
    form="anthropic",
    example={"model": "claude-sonnet-5-5", "messages": _SAID},
)
async def count_message_tokens(ask: Ask) -> Answer:
    """How many tokens a message of Anthropic's has, by an estimate: nobody is asked."""
    from perdure.core.talk.tokens import estimate_ask
    from perdure.edge.http.relaying import body_of
    from perdure.edge.http.replying import read

    asked = read("anthropic", {"max_tokens": 1, **await body_of(ask)})
    ask.services.desk.calling.route(asked.model)
    return Answer(200, msgspec.json.encode({"input_tokens": estimate_ask(asked)}))


@table.add("GET", "/v1/models", None, known=True, answer=bytes, form=shaping.EITHER)
async def list_models(ask: Ask) -> Answer:
    """The models that can be asked for: in Anthropic's form for its clients, else in OpenAI's."""
    from perdure.edge.http.listing import anthropics, openais

    common = ask.services.common
    written = anthropics if shaping.spoken(ask.endpoint, ask.request.headers) == "anthropic" else openais
    return Answer(200, msgspec.json.encode(written(common.calling.models, common.prices)))
