"""Provenance: what an answer cites, what it resembles, what was shown for nothing, and what is missing."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.injecting import address_of
from perdure.core.memory.provenance import (
    ALIKE,
    Citation,
    citations_in,
    cited_in,
    claims,
    overlap,
    provenance_of,
    without_citations,
)
from perdure.core.session.memories import CitedMemory, ShownMemory
from perdure.core.talk import anthropic
from perdure.core.talk.folding import folded, pieces_of
from perdure.core.talk.history import answered
from perdure.core.talk.parts import Answer, Foreign, Text
from perdure.core.talk.wire import rest, rest_in

GOLD = (ShownMemory(id="g", space="vault/a", type="fact"), "Gold is dug in the northern hills near Velm")
SALT = (ShownMemory(id="s", space="lethe", type="fact"), "Salt comes from the sea at 3 percent")


def location(id_: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "search_result_location",
        "source": address_of("vault/a", "fact", id_),
        "title": "[FACT] x",
        "cited_text": "SECRET WORDS",
        "search_result_index": 0,
        "start_block_index": 0,
        "end_block_index": 1,
        **fields,
    }


def streamed(*blocks: tuple[str, list[dict[str, Any]]]) -> Answer:
    """An answer as Anthropic streams it, its citations one by one."""
    reading, pieces = anthropic.Reading(), list[Any]()

    def feed(**data: Any) -> None:
        pieces.extend(reading.feed(data["type"], data))

    feed(type="message_start", message={"id": "m", "model": "x", "usage": {"input_tokens": 1}})
    for index, (text, citations) in enumerate(blocks):
        block = {"type": "text", "text": "", "citations": []} if citations else {"type": "text", "text": ""}
        feed(type="content_block_start", index=index, content_block=block)
        for part in text:
            feed(type="content_block_delta", index=index, delta={"type": "text_delta", "text": part})
        for item in citations:
            feed(type="content_block_delta", index=index, delta={"type": "citations_delta", "citation": item})
        feed(type="content_block_stop", index=index)
    feed(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
    return folded([*pieces, *reading.end()])


# ── citations ──


def test_streamed_and_whole_citations_are_the_same() -> None:
    web = {"type": "web_search_result_location", "url": "https://x.example", "cited_text": "w"}
    blocks = [("I looked. ", []), ("Gold is north.", [location("g"), web]), (" And salt", [location("s")])]
    whole = anthropic.answer_from(
        {
            "id": "m",
            "model": "x",
            "content": [
                {"type": "text", "text": text, **({"citations": cited} if cited else {})} for text, cited in blocks
            ],
        }
    )
    wanted = (
        Citation(source=address_of("vault/a", "fact", "g"), start=10, end=24),
        Citation(source=address_of("vault/a", "fact", "s"), start=24, end=33),
    )
    assert citations_in(streamed(*blocks).blocks) == citations_in(whole.blocks) == wanted


def test_what_is_streamed_on_cites_the_same_within_its_blocks() -> None:
    answer = streamed(("I looked. ", []), ("Gold is north.", [location("g"), location("s")]), (" Bye.", []))
    writing, reading, pieces, kinds = anthropic.Writing(), anthropic.Reading(), list[Any](), list[str]()
    for piece in pieces_of(answer):
        for frame in writing.written(piece):
            event, data = frame.decode().strip().split("\n")
            body = msgspec.json.decode(data.removeprefix("data: "))
            kinds.append(body.get("delta", {}).get("type", body["type"]))
            pieces += reading.feed(event.removeprefix("event: "), body)
    again = folded([*pieces, *reading.end()])
    assert citations_in(again.blocks) == citations_in(answer.blocks) != ()
    assert again.blocks == answer.blocks
    at = kinds.index("citations_delta")
    assert kinds[at - 1 : at + 3] == ["text_delta", "citations_delta", "citations_delta", "content_block_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3
    assert kinds[-1] == "message_stop"


def test_only_what_was_shown_can_be_cited() -> None:
    answer = streamed(("Gold. ", [location("g"), location("g"), location("nobody")]), ("Salt.", []))
    assert cited_in(answer.blocks, [GOLD[0], SALT[0]]) == (CitedMemory(id="g", space="vault/a", start=0, end=6),)
    assert cited_in(answer.blocks, []) == ()


def test_the_log_keeps_no_words_of_what_was_cited_and_all_else() -> None:
    web = {"type": "web_search_result_location", "url": "https://x.example", "cited_text": "w"}
    answer = streamed(("Gold.", [location("g"), web]), ("Salt.", [location("s")]))
    bare = without_citations(answer)
    told = msgspec.json.encode([msgspec.to_builtins(payload) for payload in answered(bare)])
    assert b"SECRET WORDS" not in told
    assert [block.text for block in bare.blocks if isinstance(block, Text)] == ["Gold.", "Salt."]
    assert [rest_in(block) for block in bare.blocks if isinstance(block, Foreign)] == [{"citations": [web]}]
    plain = streamed(("Gold.", []))
    assert without_citations(plain) is plain


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["type", "source", "citations", "x"]), inner),
        max_leaves=8,
    )
)
def test_whatever_stands_where_citations_do_breaks_nothing(junk: Any) -> None:
    for kept in ({"citations": junk}, {"citations": [junk]}):
        blocks = (Text(text="a"), *rest("anthropic", kept))
        assert citations_in(blocks) == ()
        assert without_citations(Answer(id="m", model="x", blocks=blocks)).blocks == blocks


# ── likeness ──


def test_cited_is_of_use_and_uncited_is_not() -> None:
    cited = [CitedMemory(id="g", space="vault/a", start=0, end=4), CitedMemory(id="gone", space="lethe")]
    found = provenance_of("It is up north in 1887.", [GOLD, SALT], cited)
    assert (found.used, found.unused, found.missing) == (("g",), ("s",), False)
    assert found.supports[0].how == "cited"


def test_by_words_a_sentence_supports_what_it_repeats() -> None:
    text = "Let me see. They say gold is dug in the northern hills, near Velm! Salt is another matter."
    found = provenance_of(text, [GOLD, SALT])
    assert (found.used, found.unused, found.missing) == (("g",), ("s",), False)
    [support] = found.supports
    assert text[support.start : support.end].startswith("They say gold")
    assert (support.how, support.space) == ("words", "vault/a")


def test_other_numbers_are_other_facts() -> None:
    assert overlap("Salt comes from the sea at 3 percent", "Salt comes from the sea at 3 percent, he said") > 0.9
    assert overlap("Salt comes from the sea at 3 percent", "Salt comes from the sea at 9 percent") == 0.0
    assert overlap("Salt", "Salt") == 0.0


def test_by_vectors_only_what_is_alike_enough_supports() -> None:
    def alike(first: Sequence[str], second: Sequence[str]) -> list[list[float]]:
        assert (len(first), len(second)) == (2, 2)
        return [[ALIKE, 0.1], [0.0, 0.93]]

    found = provenance_of("One thing. Another thing.", [GOLD, SALT], None, alike)
    assert [(item.memory, item.how, item.score, item.start) for item in found.supports] == [("s", "alike", 0.93, 11)]
    assert found.unused == ("g",)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("I do not know.", False),
        ("Well, it depends on the weather.", False),
        ("Was it in 1887?", False),
        ("It was found in 1887.", True),
        ("Somebody called Ada Brandt found it.", True),
        ("Gold is dug in the northern hills near Velm. Ada Brandt found it in 1887.", False),
        ("", False),
    ],
)
def test_something_is_missing_only_when_names_or_numbers_have_no_support_at_all(text: str, missing: bool) -> None:
    assert provenance_of(text, [GOLD, SALT]).missing is missing
    assert provenance_of(text, []).missing is False


def test_a_sentence_claims_something_by_a_name_or_a_number() -> None:
    assert claims("The vault pays 2.3%.")
    assert claims("Ask Ada about it, said Bert.")
    assert not claims("The vault pays well.")
    assert not claims("I think I do.")


@given(st.text(max_size=200), st.lists(st.text(max_size=40), max_size=4))
def test_every_support_has_its_place_and_every_memory_its_verdict(text: str, contents: list[str]) -> None:
    shown = [(ShownMemory(id=str(at), space="vault/a"), content) for at, content in enumerate(contents)]
    found = provenance_of(text, shown)
    assert sorted([*found.used, *found.unused]) == sorted(item.id for item, _ in shown)
    assert all(0 <= support.start < support.end <= len(text) for support in found.supports)
