"""Items of the Responses API and what they say: exact for the SDK, storable for perdure, valid for a model."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.adapters.parts.histories import History, Place, entries_of
from perdure.adapters.parts.responses import HOLE, recorded, told, written
from perdure.events import Item, Message, Spoken, ToolAsked, ToolFinished, native

TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
KINDS = (
    "message reasoning function_call function_call_output computer_call computer_call_output web_search_call mcp_call"
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from([*KINDS.split(), "compaction", "shell_call", "new_one"]),
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool", "other"]),
        **dict.fromkeys(("content", "output", "arguments", "action", "summary", "error", "results"), JSON),
        **dict.fromkeys(("id", "call_id", "name", "status"), TEXT),
    },
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "document", "thinking", "tool_use", "tool_result", "else"])},
    optional=dict.fromkeys(("text", "id", "tool_use_id", "name", "content", "input", "source"), TEXT | JSON),
)
CALLS = st.sampled_from(["c1", "c2", "c3"])
SPOKEN: st.SearchStrategy[Spoken] = st.one_of(
    st.builds(Message, role=st.sampled_from(["user", "assistant", "system", "tool"]), content=TEXT | st.lists(BLOCKS)),
    st.builds(ToolAsked, call=CALLS, name=TEXT, arguments=JSON),
    st.builds(ToolFinished, call=CALLS, result=JSON, error=st.none() | TEXT),
)


def said(number: int, payloads: list[Spoken], by: str = "", item: Any = None) -> Item:
    return Item(
        first=number, last=number, at=0, turn=1, agent=None, payloads=tuple(payloads), by=by, native=item
    )  # fmt: skip


@given(st.lists(ITEMS, max_size=4))
def test_any_item_is_kept_exactly_and_says_something(items: list[dict[str, Any]]) -> None:
    groups = written(items)
    found = [
        said(number, group, "openai_agents", group[0].metadata["native"]["item"]) for number, group in enumerate(groups)
    ]
    history = History.of(Place(0, 99, b""), found, None)
    assert history.latest(None) == items
    assert json.dumps(history.latest(None)) == json.dumps(items)
    with perdure.open(":memory:") as db:
        session = db.create()
        for group in groups:
            session.record(group)
        assert [item.native for item in session.conversation()] == [item.native for item in found]


@given(st.lists(st.lists(SPOKEN, min_size=1, max_size=3), max_size=6), st.none() | st.integers(1, 6))
def test_whatever_others_said_is_valid_for_a_model(groups: list[list[Spoken]], limit: int | None) -> None:
    found = [said(number, list(native("other", None, group)), "other") for number, group in enumerate(groups)]
    asked = set()
    for item in History.of(Place(0, 99, b""), found, None).latest(limit):
        kind = item.get("type")
        if kind == "function_call":
            asked.add(item["call_id"])
            assert item["name"].replace("_", "").replace("-", "").isascii()
            assert isinstance(item["arguments"], str)
        elif kind == "function_call_output":
            assert item["call_id"] in asked
            assert isinstance(item["output"], str)
        else:
            assert item["role"] in ("user", "assistant", "system")
            assert isinstance(item["content"], str) or item["role"] != "assistant"


@given(ITEMS)
def test_what_an_item_says_can_be_said_back(item: dict[str, Any]) -> None:
    payloads = told(json.loads(json.dumps(item)))
    for entry in entries_of(said(1, payloads)):
        again = recorded(entry.text)
        assert [type(payload) for payload in again] in ([Message], [ToolAsked], [ToolFinished])


@given(st.lists(ITEMS, max_size=4), st.booleans())
def test_items_come_back_from_a_store_word_for_word(items: list[dict[str, Any]], asked: bool) -> None:
    calls = [{"type": "function_call", "call_id": item["call_id"]} for item in items if "call_id" in item and asked]
    known = [*calls, *items]
    with perdure.open(":memory:") as db:
        session = db.create()
        for group in written(known):
            session.record(group)
        entries = [entry for item in session.conversation() for entry in entries_of(item)]
    assert [json.dumps(json.loads(entry.text)) for entry in entries] == [json.dumps(item) for item in known]


@given(TEXT, st.sampled_from(["user", "assistant", "developer", "other"]))
def test_the_text_of_a_plain_message_is_stored_once(text: str, role: str) -> None:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": [HOLE, None, 1.5]}
    shapes: list[dict[str, Any]] = [
        {"role": role, "content": text},
        {"type": "message", "id": "m", "role": role, "content": [part]},
        {"output": text, "call_id": "c", "type": "function_call_output"},
    ]
    for item, group in zip(shapes, written(shapes), strict=True):
        kept = group[0].metadata["native"]["item"]
        sound = text.encode("utf-8", "replace").decode() == text
        assert (HOLE in kept) == (sound and "id" not in item)  # that one has a text like a hole
        [entry] = entries_of(said(1, group, "openai_agents", kept))
        assert json.dumps(json.loads(entry.text)) == json.dumps(item)
