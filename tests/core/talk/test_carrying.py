"""What survives between two forms: carried over, left out where it changes nothing, and else refused by its name."""

from typing import Any

import pytest

from perdure.core.talk import anthropic, chat, responses
from perdure.core.talk.carrying import lost
from perdure.core.talk.parts import Ask, Said, Text

SAID = [{"role": "user", "content": "hello"}]
SCHEMA = {"name": "place", "schema": {"type": "object"}, "strict": True}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CHAT, RESPONSES, ANTHROPIC = "openai-chat", "openai-responses", "anthropic"


def asked(form: str, **more: Any) -> Ask:
    if form == ANTHROPIC:
        return anthropic.ask_from({"model": "m", "max_tokens": 9, "messages": SAID, **more})
    if form == CHAT:
        return chat.ask_from({"model": "m", "messages": SAID, **more})
    return responses.ask_from({"model": "m", "input": SAID, **more})


def test_the_shape_of_an_answer_crosses_between_openais_forms() -> None:
    nested = {"type": "json_schema", "json_schema": SCHEMA}
    flat = {"type": "json_schema", **SCHEMA}
    there = responses.ask_to(asked(CHAT, response_format=nested, reasoning_effort="low", verbosity="high"))
    assert there["text"] == {"format": flat, "verbosity": "high"}
    assert there["reasoning"] == {"effort": "low"}
    back = chat.ask_to(
        asked(RESPONSES, text={"format": flat, "verbosity": "low"}, reasoning={"effort": "high", "summary": "auto"})
    )
    assert (back["response_format"], back["reasoning_effort"], back["verbosity"]) == (nested, "high", "low")
    assert responses.ask_to(asked(CHAT, response_format={"type": "json_object"}))["text"] == {
        "format": {"type": "json_object"}
    }


def test_a_tool_that_is_strict_stays_so_between_openais_forms() -> None:
    strict = {"type": "function", "function": {**FUNCTION["function"], "strict": True}}  # type: ignore[dict-item]
    assert responses.ask_to(asked(CHAT, tools=[strict]))["tools"][0]["strict"] is True
    assert responses.ask_to(asked(CHAT, tools=[FUNCTION]))["tools"][0]["strict"] is False
    flat = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
    assert chat.ask_to(asked(RESPONSES, tools=[flat]))["tools"][0]["function"]["strict"] is True


@pytest.mark.parametrize(
    ("form", "to", "more", "named"),
    [
        (CHAT, ANTHROPIC, {"response_format": {"type": "json_object"}}, "response_format"),
        (CHAT, ANTHROPIC, {"reasoning_effort": "high"}, "reasoning_effort"),
        (CHAT, ANTHROPIC, {"n": 2}, "n"),
        (CHAT, RESPONSES, {"n": 2}, "n"),
        (CHAT, RESPONSES, {"seed": 0}, "seed"),
        (CHAT, RESPONSES, {"logprobs": True}, "logprobs"),
        (CHAT, RESPONSES, {"stop": ["."]}, "stop"),
        (CHAT, ANTHROPIC, {"frequency_penalty": 0.5}, "frequency_penalty"),
        (CHAT, ANTHROPIC, {"unheard_of": True}, "unheard_of"),
        (RESPONSES, CHAT, {"tools": [{"type": "web_search"}]}, "tools[0] (web_search)"),
        (RESPONSES, ANTHROPIC, {"text": {"format": {"type": "json_schema", **SCHEMA}}}, "text.format"),
        (RESPONSES, ANTHROPIC, {"reasoning": {"effort": "low"}}, "reasoning.effort"),
        (RESPONSES, CHAT, {"background": True}, "background"),
        (RESPONSES, CHAT, {"include": ["message.output_text.logprobs"]}, "include"),
        (RESPONSES, CHAT, {"prompt": {"id": "p"}}, "prompt"),
        (ANTHROPIC, CHAT, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
        (ANTHROPIC, RESPONSES, {"mcp_servers": [{"type": "url", "url": "x", "name": "y"}]}, "mcp_servers"),
        (ANTHROPIC, CHAT, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        (ANTHROPIC, RESPONSES, {"top_k": 4}, "top_k"),
        (ANTHROPIC, RESPONSES, {"stop_sequences": ["."]}, "stop_sequences"),
        (
            CHAT,
            ANTHROPIC,
            {"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
            "tool_choice",
        ),
    ],
)
def test_what_changes_the_answer_and_cannot_be_said_is_named(
    form: str, to: str, more: dict[str, Any], named: str
) -> None:
    ask = asked(form, **more)
    found = lost(ask, to)
    assert found is not None
    assert named in found.message.partition(" cannot")[0]
    assert form in found.message.partition("speaks; ")[2], "which says whom to ask instead"
    assert lost(ask, form) is None, "who speaks the same form hears it all"
    assert lost(ask, "") is None, "the built-in model hears none of it"


@pytest.mark.parametrize(
    ("form", "more"),
    [
        (
            CHAT,
            {
                "user": "u",
                "store": True,
                "metadata": {"a": "b"},
                "service_tier": "auto",
                "stream_options": {"include_usage": True},
                "prompt_cache_key": "k",
                "safety_identifier": "s",
                "n": 1,
                "logprobs": False,
                "presence_penalty": 0.0,
                "seed": None,
                "logit_bias": {},
                "response_format": {"type": "text"},
                "max_tokens": 5,
                "parallel_tool_calls": True,
                "tools": [FUNCTION],
                "tool_choice": "required",
            },
        ),
        (
            RESPONSES,
            {
                "store": False,
                "include": ["reasoning.encrypted_content"],
                "reasoning": {"summary": "auto", "effort": None},
                "text": {"format": {"type": "text"}},
                "truncation": "disabled",
                "prompt_cache_key": "k",
                "background": False,
            },
        ),
        (
            ANTHROPIC,
            {
                "metadata": {"user_id": "u"},
                "service_tier": "auto",
                "thinking": {"type": "disabled"},
                "tool_choice": {"type": "any"},
                "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
                "mcp_servers": [],
            },
        ),
    ],
)
def test_what_changes_nothing_stands_in_nobodys_way(form: str, more: dict[str, Any]) -> None:
    for to in (ANTHROPIC, CHAT, RESPONSES, ""):
        assert lost(asked(form, **more), to) is None


def test_what_is_asked_by_ourselves_is_said_to_everybody() -> None:
    ask = Ask(model="m", messages=(Said(role="user", blocks=(Text(text="hello"),)),), stop=(".",))
    assert [lost(ask, to) for to in (ANTHROPIC, CHAT, RESPONSES, "")] == [None] * 4
