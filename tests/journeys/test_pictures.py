"""A picture in a blob on its way to each provider, and the answer on its way to people: words, and nothing else."""

import json
from typing import Any

import pytest

import perdure
from perdure.models import Models, Talk, Upstream
from upstream.server import serving

PICTURE = b"\x89PNG...."
SENT = "iVBORy4uLi4="


@pytest.mark.parametrize(
    ("kind", "path", "spelled"),
    [
        ("anthropic", "", {"type": "base64", "media_type": "image/png", "data": SENT}),
        ("openai-chat", "/v1", {"url": f"data:image/png;base64,{SENT}"}),
        ("openai-responses", "/v1", {"type": "input_image", "image_url": f"data:image/png;base64,{SENT}"}),
    ],
)
async def test_a_picture_reaches_every_provider_and_an_answer_is_its_words(
    kind: Any, path: str, spelled: dict[str, Any]
) -> None:
    async with serving() as provider:
        there = Upstream(name="there", kind=kind, base_url=f"{provider.url}{path}", key="k")
        talk = Talk(models=Models(upstreams={"there": there}, default="there/echo"))
        async with perdure.aopen(":memory:", talk=talk) as db:
            session = await db.create("cats")
            picture = await session.attach(PICTURE, media_type="image/png")
            outcome = await session.send(["Hello", {"type": "image", "source": picture}])
            assert [type(block).__name__ for block in outcome.content] == ["Text"]
            await session.send("Again")
            turns = await session.turns()
            assert [turn.messages[-1].content for turn in turns] == ["Hello", "Again"]
    bodies = [json.dumps(seen.body, sort_keys=True) for seen in provider.seen]
    assert len(bodies) == 2
    assert all(json.dumps(spelled, sort_keys=True) in body for body in bodies)
    assert ('"id": "msg_' in bodies[1]) == (kind == "openai-responses")
