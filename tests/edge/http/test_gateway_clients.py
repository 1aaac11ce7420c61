"""The official clients, unchanged but for their base URL: a server in its own process, and a provider's in another."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import anthropic
import openai
import pytest

from tests.edge.http.crowd import Served, served
from tests.edge.http.gatehouse import KEY

ROOT = Path(__file__).resolve().parents[3]
SAID: Any = [{"role": "user", "content": "hello there"}]
TOOL: Any = {"name": "weather", "description": "Tells it.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION: Any = {"name": "weather", "description": "Tells it.", "parameters": {"type": "object", "properties": {}}}
CONFIG = """
default_model = "a/echo"
cheap_model = "off/any"

[aliases]
quick = "c/echo"

[fallbacks]
"bad/500" = ["c/echo"]

[turns]
max_tokens = 300

[upstreams.a]
kind = "anthropic"
base_url = "{url}"
key_file = "provider.key"

[upstreams.c]
kind = "openai-chat"
base_url = "{url}/v1"
key_file = "provider.key"
retries = 0

[upstreams.r]
kind = "openai-responses"
base_url = "{url}/v1"
key_file = "provider.key"

[upstreams.bad]
kind = "openai-chat"
base_url = "{url}/v1"
key_file = "provider.key"
retries = 0

[upstreams.off]
kind = "offline"
"""


@contextmanager
def provider() -> Iterator[str]:
    """A provider's server in its own process."""
    command = [sys.executable, "-m", "upstream", "--port", "0", "--key", KEY]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("gateway")
    with provider() as url:
        (folder / "provider.key").write_text(f"{KEY}\n")
        (folder / "perdure.toml").write_text(CONFIG.format(url=url))
        with served(folder, "--no-seal", "--burst", "100000", "--session-burst", "100000") as found:
            yield found


def look(here: Served, path: str) -> Any:
    """What the ordinary interface says."""
    request = Request(here.url.rstrip("/") + path, headers={"x-api-key": here.key})
    with urlopen(request) as reply:
        return json.load(reply)


def said_in(here: Served, session: str) -> list[str]:
    items = look(here, f"/v1/sessions/{session}/conversation")["items"]
    return [payload["data"]["role"] for item in items for payload in item["payloads"] if payload["kind"] == "message"]


def named(name: str) -> dict[str, str]:
    return {"perdure-session": f"{name} {uuid4()}"}


def a_client(here: Served, **more: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=here.url.rstrip("/"), api_key=here.key, max_retries=0, **more)


def o_client(here: Served, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=here.url.rstrip("/") + "/v1", api_key=here.key, max_retries=0, **more)


# ── anthropic ──


@pytest.mark.parametrize("model", ["a/echo", "r/echo", "off/any", "quick", "bad/500"])
def test_anthropic_talks_whole_and_in_a_stream(here: Served, model: str) -> None:
    with a_client(here, default_headers=named("trip")) as client:
        raw = client.messages.with_raw_response.create(model=model, max_tokens=500, messages=SAID)
        session, message = raw.headers["perdure-session"], raw.parse()
        first = message.content[0]
        assert first.type == "text"
        assert "hello there" in first.text
        more = [*SAID, {"role": "assistant", "content": message.content}, {"role": "user", "content": "and now"}]
        with client.messages.stream(model=model, max_tokens=500, messages=more) as stream:
            text = "".join(stream.text_stream)
            last = stream.get_final_message()
        assert "and now" in text
        assert last.stop_reason == "end_turn"
        assert last.usage.output_tokens > 0
        assert said_in(here, session) == ["user", "assistant", "user", "assistant"]


def test_anthropic_brings_its_key_in_either_header_and_lists_and_counts(here: Served) -> None:
    url = here.url.rstrip("/")
    with anthropic.Anthropic(base_url=url, auth_token=here.key, max_retries=0) as client:
        assert "a/echo" in [model.id for model in client.models.list()]
        counted = client.messages.count_tokens(model="a/echo", messages=SAID)
        assert 0 < counted.input_tokens < 50


@pytest.mark.parametrize("model", ["a/tool:weather", "c/tool:weather", "r/tool:weather"])
def test_anthropics_tools_go_round(here: Served, model: str) -> None:
    with a_client(here, default_headers=named("tools")) as client:
        asked: Any = {"model": model, "max_tokens": 50, "tools": [TOOL]}
        question: Any = [{"role": "user", "content": 'weather {"city": "Lisbon"}'}]
        with client.messages.stream(messages=question, **asked) as stream:
            message = stream.get_final_message()
        call = message.content[-1]
        assert call.type == "tool_use"
        assert call.input == {"city": "Lisbon"}
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        told = [*question, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
        raw = client.messages.with_raw_response.create(messages=told, **asked)
        assert "sunny" in raw.parse().content[0].text  # type: ignore[union-attr]
        session = raw.headers["perdure-session"]
        kinds = [item["kind"] for item in look(here, f"/v1/sessions/{session}/events")["items"]]
        assert (kinds.count("tool_asked"), kinds.count("tool_finished")) == (1, 1)


async def test_anthropic_without_blocking(here: Served) -> None:
    url = here.url.rstrip("/")
    async with anthropic.AsyncAnthropic(base_url=url, api_key=here.key, max_retries=0) as client:
        headers = named("async")
        message = await client.messages.create(
            model="a/echo", max_tokens=50, messages=SAID, extra_headers=headers, metadata={"user_id": "u"}
        )
        more: Any = [*SAID, {"role": "assistant", "content": message.content}, {"role": "user", "content": "again"}]
        asked: Any = {"model": "a/echo", "max_tokens": 50, "extra_headers": headers}
        async with client.messages.stream(messages=more, **asked) as stream:
            assert "".join([text async for text in stream.text_stream]) == "again"


def test_anthropic_knows_our_errors_for_its_own(here: Served) -> None:
    with a_client(here) as client:
        asked: Any = {"max_tokens": 50, "messages": SAID}
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(model="gone/model", **asked)
        with pytest.raises(anthropic.BadRequestError, match="too long"):
            client.messages.create(model="a/window-1", **asked)
        with pytest.raises(anthropic.RateLimitError):
            client.messages.create(model="bad/429", **asked)
        with pytest.raises(anthropic.InternalServerError) as busy:
            client.messages.create(model="bad/overloaded", **asked)
        assert busy.value.status_code == 529
        with (
            pytest.raises(anthropic.APIStatusError),
            client.messages.stream(model="a/overloaded-mid-stream", **asked) as stream,
        ):
            stream.until_done()
    with (
        anthropic.Anthropic(base_url=here.url.rstrip("/"), api_key="pdk_none", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(model="a/echo", **asked)


# ── openai ──


@pytest.mark.parametrize("model", ["c/echo", "a/echo", "off/any", "quick"])
def test_openais_completions_whole_and_in_a_stream(here: Served, model: str) -> None:
    with o_client(here, default_headers=named("chat")) as client:
        raw = client.chat.completions.with_raw_response.create(model=model, messages=SAID)
        session, found = raw.headers["perdure-session"], raw.parse()
        assert "hello there" in (found.choices[0].message.content or "")
        assert found.usage is not None
        more = [*SAID, found.choices[0].message, {"role": "user", "content": "and now"}]
        chunks = list(
            client.chat.completions.create(
                model=model, messages=more, stream=True, stream_options={"include_usage": True}
            )
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert "and now" in text
        assert chunks[-1].usage is not None
        assert said_in(here, session) == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("model", ["r/echo", "a/echo", "off/any"])
def test_openais_responses_whole_and_in_a_stream(here: Served, model: str) -> None:
    with o_client(here) as client:
        name = {"perdure_session": named("responses")["perdure-session"]}
        raw = client.responses.with_raw_response.create(model=model, input=SAID, metadata=name)
        session, found = raw.headers["perdure-session"], raw.parse()
        assert "hello there" in found.output_text
        more: Any = [*SAID, *found.output, {"role": "user", "content": "and now"}]
        with client.responses.stream(model=model, input=more, metadata=name) as stream:
            kinds = [event.type for event in stream]
            last = stream.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert "and now" in last.output_text
        assert said_in(here, session) == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("model", ["c/tool:weather", "a/tool:weather"])
def test_tools_of_completions_go_round(here: Served, model: str) -> None:
    with o_client(here, default_headers=named("tools")) as client:
        asked: Any = {"model": model, "tools": [{"type": "function", "function": FUNCTION}]}
        question: Any = [{"role": "user", "content": 'weather {"city": "Lisbon"}'}]
        message = client.chat.completions.create(messages=question, **asked).choices[0].message
        assert message.tool_calls
        call = message.tool_calls[0]
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"city": "Lisbon"}
        told = [*question, message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        stream = client.chat.completions.create(messages=told, stream=True, **asked)
        assert "sunny" in "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


@pytest.mark.parametrize("model", ["r/tool:weather", "a/tool:weather"])
def test_tools_of_responses_go_round(here: Served, model: str) -> None:
    with o_client(here, default_headers=named("tools")) as client:
        asked: Any = {"model": model, "tools": [{"type": "function", "strict": False, **FUNCTION}]}
        question: Any = [{"role": "user", "content": 'weather {"city": "Lisbon"}'}]
        with client.responses.stream(input=question, **asked) as stream:
            stream.until_done()
            found = stream.get_final_response()
        call = found.output[-1]
        assert call.type == "function_call"
        assert json.loads(call.arguments) == {"city": "Lisbon"}
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        last = client.responses.create(input=[*question, *found.output, result], **asked)
        assert "sunny" in last.output_text


async def test_openai_without_blocking(here: Served) -> None:
    url = here.url.rstrip("/") + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=here.key, max_retries=0) as client:
        headers = named("async")
        stream: Any = await client.chat.completions.create(
            model="c/echo", messages=SAID, stream=True, extra_headers=headers
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        assert text == "hello there"
        found = await client.responses.create(model="r/echo", input="hello there", extra_headers=headers)
        assert found.output_text == "hello there"
        assert "quick" in [model.id async for model in client.models.list()]


def test_who_has_the_wrong_address_or_wants_what_is_not_here_is_told_what_to_do(here: Served) -> None:
    bare = here.url.rstrip("/")
    with openai.OpenAI(base_url=bare, api_key=here.key, max_retries=0) as client:
        with pytest.raises(openai.NotFoundError, match="base_url must end in /v1"):
            client.chat.completions.create(model="c/echo", messages=SAID)
        with pytest.raises(openai.NotFoundError, match="base_url must end in /v1"):
            client.models.list()
    with o_client(here) as client:
        with pytest.raises(openai.NotFoundError, match=r"/v1/embeddings is not here; here are .*chat/completions"):
            client.embeddings.create(model="c/echo", input="x")
        with pytest.raises(openai.NotFoundError, match="cannot be fetched by their ids"):
            client.responses.retrieve("resp_1")
    with anthropic.Anthropic(base_url=f"{bare}/v1", api_key=here.key, max_retries=0) as wrong:
        with pytest.raises(anthropic.NotFoundError, match="leave it out of the end of base_url") as caught:
            wrong.messages.create(model="a/echo", max_tokens=5, messages=SAID)
        assert caught.value.body["error"]["type"] == "not_found_error"  # type: ignore[index,call-overload]


def test_openai_knows_our_errors_for_its_own(here: Served) -> None:
    with o_client(here) as client:
        with pytest.raises(openai.NotFoundError) as gone:
            client.chat.completions.create(model="gone/model", messages=SAID)
        assert gone.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as long:
            client.responses.create(model="r/window-1", input="far too many words for this")
        assert long.value.code == "context_length_exceeded"
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="bad/429", messages=SAID)
        with pytest.raises(openai.APIError):
            list(client.chat.completions.create(model="bad/overloaded-mid-stream", messages=SAID, stream=True))
        with pytest.raises(openai.APIError):
            list(client.chat.completions.create(model="a/cut-mid-stream", messages=SAID, stream=True))


def test_a_client_that_tries_again_by_itself_is_given_its_answer(here: Served) -> None:
    """What was written down the first time is not written down a second time."""
    with o_client(here).with_options(max_retries=2) as client:
        raw = client.chat.completions.with_raw_response.create(
            model="bad/flaky-1", messages=SAID, extra_headers=named("again")
        )
        assert raw.parse().choices[0].message.content == "hello there"
        assert "perdure-branched-from" not in raw.headers
        assert said_in(here, raw.headers["perdure-session"]) == ["user", "assistant"]


def test_a_managed_session_for_any_client(here: Served) -> None:
    headers = named("managed") | {"perdure-mode": "manage"}
    with a_client(here, default_headers=headers) as one, o_client(here, default_headers=headers) as two:
        with one.messages.stream(model="a/echo", max_tokens=50, messages=SAID) as stream:
            assert "".join(stream.text_stream) == "hello there"
        found = two.responses.create(model="a/echo", input="only this")
        assert found.output_text == "only this"
        chat = two.chat.completions.with_raw_response.create(model="a/echo", messages=SAID)
        assert chat.headers["perdure-turn"] == "3"
        assert said_in(here, chat.headers["perdure-session"]) == ["user", "assistant"] * 3


# ── Claude's own program ──


def cli() -> str:
    """The program that Claude's SDK brings along."""
    package = pytest.importorskip("claude_agent_sdk")
    found = Path(package.__file__).parent / "_bundled" / ("claude.exe" if os.name == "nt" else "claude")
    if not found.exists():
        pytest.skip("the SDK brings no program for this machine")
    return str(found)


@pytest.mark.slow
def test_claudes_own_program_talks_through_us_and_resumes(here: Served, tmp_path: Path) -> None:
    program, session = cli(), str(uuid4())
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "CLAUDE"))}
    environ |= {
        "ANTHROPIC_BASE_URL": here.url.rstrip("/"),
        "ANTHROPIC_API_KEY": here.key,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
    }

    def run(*words: str) -> Any:
        done = subprocess.run(
            [program, "-p", "--output-format", "json", "--model", "a/tokens-3", *words],
            check=False,
            env=environ,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    assert run("--session-id", session, "hello there")["result"].split() == ["w0", "w1", "w2"]
    assert run("--resume", session, "and now")["result"].split() == ["w0", "w1", "w2"]
    named_so = [item for item in look(here, "/v1/sessions")["items"] if item["title"] == f"claude-code:{session}"]
    assert len(named_so) == 1
    found = named_so[0]["session_id"]
    spoken = [role for role in said_in(here, found) if role != "system"]
    assert spoken == ["user", "assistant", "user", "assistant"]
    text = json.dumps(look(here, f"/v1/sessions/{found}/conversation"))
    assert text.count("hello there") == text.count("and now") == 1
