"""A server in this process that talks to a provider's server, also here: both without anything pretended."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from perdure.edge.http.upstreams import Provider
from tests.edge.http.world import Client, Reply, World, world
from upstream.server import Server, serving

KEY = "sk-upstream-0123456789"
FORMS = ("anthropic", "openai-chat", "openai-responses")
PATHS = {"anthropic": "/v1/messages", "openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses"}
Said = list[dict[str, Any]]


@asynccontextmanager
async def gatehouse(**facts: Any) -> AsyncIterator[tuple[World, Server]]:
    """Both servers: `a/…` speaks Anthropic's form, `c/…` and `r/…` OpenAI's two, `off/…` is the built-in model. What
    has a price is `anthropic/…`, which goes by a name that the price list knows.
    """
    async with serving(key=KEY) as up, world(upstreams=upstreams(up.url), default_model="a/echo", **facts) as here:
        yield here, up


def upstreams(url: str, **facts: Any) -> dict[str, Provider]:
    """The provider's server by each of its forms."""
    patience: dict[str, Any] = {"retries": 0, "first_byte_timeout": 5.0, "idle_timeout": 5.0, "key": KEY} | facts
    return {
        "a": Provider(kind="anthropic", base_url=url, **patience),
        "c": Provider(kind="openai-chat", base_url=f"{url}/v1", **patience),
        "r": Provider(kind="openai-responses", base_url=f"{url}/v1", **patience),
        "off": Provider(kind="offline"),
        "anthropic": Provider(kind="anthropic", base_url=url, **patience),
    }


def body(form: str, model: str, said: Said, **more: Any) -> dict[str, Any]:
    """A request in a form that says this."""
    head = {"model": model, **more}
    if form == "anthropic":
        return {"max_tokens": 200, "messages": said, **head}
    return {"input": said, **head} if form == "openai-responses" else {"messages": said, **head}


async def say(client: Client, form: str, model: str, said: Said, session: str | None = None, **more: Any) -> Reply:
    """One request in a session, or past all; headers are given as `headers`."""
    headers = {**more.pop("headers", {}), **({"perdure-session": session} if session else {})}
    return await client.post(PATHS[form], body(form, model, said, **more), headers=headers)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def words(form: str, reply: Reply) -> str:
    """What a whole answer says."""
    found = reply.json
    if form == "anthropic":
        return "".join(part["text"] for part in found["content"] if part["type"] == "text")
    if form == "openai-chat":
        return str(found["choices"][0]["message"]["content"])
    return "".join(part["text"] for item in found["output"] if item["type"] == "message" for part in item["content"])


def frames(reply: Reply) -> list[dict[str, Any]]:
    """The documents of a stream."""
    lines = [line.removeprefix(b"data: ") for line in reply.body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


async def conversation(client: Client, session: str) -> list[tuple[str, str]]:
    """What a session's log says was said, as anybody reads it."""
    reply = await client.get(f"/v1/sessions/{session}/conversation")
    assert reply.status == 200, reply
    said = [payload for item in reply.json["items"] for payload in item["payloads"] if payload["kind"] == "message"]
    return [(payload["data"]["role"], spoken(payload["data"]["content"])) for payload in said]


def spoken(content: Any) -> str:
    """The words of a message's content."""
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)
