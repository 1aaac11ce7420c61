"""The local upstream speaks the providers' forms: their own clients, unchanged, understand all of it."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import Request, urlopen

import anthropic
import openai
import pytest

from upstream.server import Server, serving

ROOT = Path(__file__).resolve().parent.parent.parent
SAID = [{"role": "user", "content": 'dig here {"deep": true}'}]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


@pytest.fixture
async def claude(server: Server) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(server: Server) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        yield client


async def test_anthropics_client_reads_messages_and_streams(claude: anthropic.AsyncAnthropic) -> None:
    whole = await claude.messages.create(model="think+tokens-3", max_tokens=10, messages=SAID)  # type: ignore[arg-type]
    async with claude.messages.stream(model="think+tokens-3", max_tokens=10, messages=SAID) as stream:  # type: ignore[arg-type]
        streamed = await stream.get_final_message()
    assert [block.type for block in whole.content] == ["thinking", "text"]
    assert [block.model_dump() for block in streamed.content] == [block.model_dump() for block in whole.content]
    assert streamed.usage.output_tokens == whole.usage.output_tokens == 6
    assert streamed.stop_reason == whole.stop_reason == "end_turn"


async def test_anthropics_client_reads_calls(claude: anthropic.AsyncAnthropic) -> None:
    async with claude.messages.stream(model="tool:dig", max_tokens=10, messages=SAID) as stream:  # type: ignore[arg-type]
        message = await stream.get_final_message()
    assert message.stop_reason == "tool_use"
    assert [(block.name, block.input) for block in message.content if block.type == "tool_use"] == [
        ("dig", {"deep": True})
    ]


async def test_openais_client_reads_completions_and_streams(gpt: openai.AsyncOpenAI) -> None:
    whole = await gpt.chat.completions.create(model="tool:dig", messages=SAID)  # type: ignore[arg-type]
    call = (whole.choices[0].message.tool_calls or [])[0]
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"deep": True}
    stream = await gpt.chat.completions.create(
        model="tokens-3",
        messages=SAID,  # type: ignore[arg-type]
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "w0 w1 w2 "
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3


@pytest.mark.parametrize("model", ["tokens-3", "tool:dig"])
async def test_openais_client_reads_responses_and_streams(gpt: openai.AsyncOpenAI, model: str) -> None:
    whole = await gpt.responses.create(model=model, input="dig")
    async with gpt.responses.stream(model=model, input="dig") as stream:
        numbers = [event.sequence_number async for event in stream]
        streamed = await stream.get_final_response()
    assert numbers == sorted(numbers)
    assert [item.type for item in whole.output] == [item.type for item in streamed.output]
    assert whole.output_text == streamed.output_text == ("w0 w1 w2 " if model == "tokens-3" else "")
    assert streamed.usage == whole.usage


async def test_their_clients_know_the_errors(claude: anthropic.AsyncAnthropic, gpt: openai.AsyncOpenAI) -> None:
    with pytest.raises(anthropic.RateLimitError) as limited:
        await claude.messages.create(model="429", max_tokens=10, messages=SAID)  # type: ignore[arg-type]
    assert limited.value.response.headers["retry-after"] == "1"
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: "):
        await claude.messages.create(model="window-1", max_tokens=10, messages=SAID)  # type: ignore[arg-type]
    with pytest.raises(openai.BadRequestError) as long:
        await gpt.chat.completions.create(model="window-1", messages=SAID)  # type: ignore[arg-type]
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.InternalServerError):
        await gpt.responses.create(model="500", input="x")


def test_as_a_process_it_tells_its_port_counts_by_key_and_goes_with_its_parent() -> None:
    command = [sys.executable, "-m", "upstream", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        body = json.dumps({"model": "echo", "input": "hello"}).encode()
        for _ in range(2):
            urlopen(Request(f"{url}/v1/responses", body, {"idempotency-key": "k"})).read()
        counts = json.loads(urlopen(f"{url}/counts").read())
        process.communicate()
    assert process.returncode == 0
    assert (counts["requests"], counts["keys"], counts["models"]) == (2, {"k": 2}, {"echo": 2})
