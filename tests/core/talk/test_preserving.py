"""What a compaction preserves: found where it stands, kept to the byte, bounded, and checked."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.session import commands as do
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.origin import Compaction, Config
from perdure.core.session.redaction import Redacted
from perdure.core.session.state import State
from perdure.core.session.turns import (
    Compacted,
    Message,
    Retracted,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnStarted,
)
from perdure.core.talk import preserving
from perdure.core.talk.compacting import planned
from perdure.core.talk.content import json_text
from perdure.core.talk.preserving import MOST, Added, added_of, missing, preserved, recognised
from perdure.core.talk.profiles import DEFI, GENERIC, Profile, profile_of
from perdure.core.talk.recognising import SCANNED, in_document, in_text
from perdure.core.talk.tokens import estimate
from tests.core.session.logbook import Logbook, event_of

BLANK = State()
ADDRESS = "0x52908400098527886E0F7030069857D2E4169EE7"


def found(profile: Profile, text: str, speaker: Any = "user") -> set[tuple[str, str]]:
    return {(item.category, item.value) for item in in_text(profile, text, speaker)}


def kept(document: dict[str, Any], category: str) -> list[str]:
    return [item[0] for item in document.get("values", {}).get(category, [])]


def events(*payloads: Payload) -> list[Event]:
    return [event_of(payload, version) for version, payload in enumerate(payloads, 1)]


# ── recognising ──


@pytest.mark.parametrize(
    ("text", "category", "value"),
    [
        (f"the vault is {ADDRESS}.", "vault_state", ADDRESS),
        ("we hold 12,345.678900 USDC there", "vault_state", "12,345.678900 USDC"),
        ("- **Balance**: 0.10", "vault_state", "0.10"),
        ("LP in WETH/USDC 0.05% again", "vault_state", "WETH/USDC 0.05%"),
        ("signed permit-7f3a01 just now", "pending_actions", "permit-7f3a01"),
        ("it expires at 2026-03-09T12:00:00Z", "pending_actions", "2026-03-09T12:00:00Z"),
        ("nonce=0017", "pending_actions", "0017"),
        ("Rebalance threshold: 0.0275", "strategy_parameters", "0.0275"),
        ("never enter when TVL < $100K", "strategy_parameters", "never enter when TVL < $100K"),
        ("Guardrails: no leverage, no bridges", "risk_state", "no leverage, no bridges"),
        ("a drawdown of -3.20% so far", "risk_state", "-3.20%"),
        ("PAD: [0.12, -0.40, 0.33]", "emotional_state", "PAD: [0.12, -0.40, 0.33]"),
        ("Plutchik: anticipation", "emotional_state", "anticipation"),
        ("vitality is 0.7310", "mortality_state", "0.7310"),
        ("projected TTL: 41 days", "mortality_state", "41 days"),
        ("We decided to wait. It rains.", "decisions", "We decided to wait."),
        ("Fine. Should we exit the pool?", "open_questions", "Should we exit the pool?"),
    ],
)
def test_the_values_of_a_defi_agent_are_recognised_exactly(text: str, category: str, value: str) -> None:
    assert (category, value) in found(DEFI, text)


@pytest.mark.parametrize(
    ("text", "category", "value"),
    [
        ("order 6f9619ff-8b86-d011-b42d-00c04fc964ff is late", "identifiers", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        ("see ABC-1234", "identifiers", "ABC-1234"),
        ("it costs $1,234.50 or €9", "amounts", "$1,234.50"),
        ("about 12.50 EUR", "amounts", "12.50 EUR"),
        ("by 2026-05-01 at the latest", "dates", "2026-05-01"),
        ("at https://example.com/a?b=c.", "urls", "https://example.com/a?b=c"),
        ("edit src/app/main.py please", "paths", "src/app/main.py"),
        ("in /etc/app/app.conf.", "paths", "/etc/app/app.conf"),
        ("retries = 3", "settings", "3"),
        ("So we agreed on blue.", "decisions", "So we agreed on blue."),
        ("open question: who pays", "open_questions", "who pays"),
        ("preserve: the word is  swordfish", "explicit", "the word is  swordfish"),
    ],
)
def test_values_of_any_conversation_are_recognised_exactly(text: str, category: str, value: str) -> None:
    assert (category, value) in found(GENERIC, text)


def test_a_number_in_json_keeps_its_digits() -> None:
    text = '{"vault": {"balance": 1234.5600, "shares": 1e3}, "risk": [{"drawdown": -0.0}]}'
    assert {("vault_state", "1234.5600"), ("vault_state", "1e3"), ("risk_state", "-0.0")} <= found(DEFI, text, "")


def test_a_document_is_read_by_its_keys_however_they_are_written() -> None:
    document = {"projectedTTL": "41d", "POLICY_CAGE": {"hash": "ab"}, "tickLower": -887220, "note": "nothing"}
    values = {(item.category, item.value, item.name) for item in in_document(DEFI, document)}
    assert ("mortality_state", "41d", "projectedTTL") in values
    assert ("risk_state", "ab", "hash") in values
    assert ("vault_state", "-887220", "tickLower") in values
    assert "nothing" not in {value for _, value, _ in values}


def test_a_tool_can_neither_decide_nor_ask_nor_have_things_preserved() -> None:
    text = "preserve: me\nWe decided it.\nIs it so?"
    assert {category for category, _ in found(GENERIC, text, "")} == set()
    assert {"explicit", "decisions", "open_questions"} <= {category for category, _ in found(GENERIC, text)}


def test_a_long_text_is_read_at_both_ends_and_no_value_is_cut() -> None:
    text = f"{ADDRESS} {'x ' * SCANNED}{ADDRESS[:-1]}0"
    assert found(DEFI, text) == {("vault_state", ADDRESS), ("vault_state", f"{ADDRESS[:-1]}0")}
    assert found(DEFI, "0x" + "a" * (3 * SCANNED)) == set()


@pytest.mark.parametrize("number", ["9" * 60, f"1.{'5' * 60}", ",".join("1" * 40)])
def test_what_is_beyond_a_bound_is_not_recognised_rather_than_cut(number: str) -> None:
    assert found(DEFI, f"we hold ${number} and {number} USDC and nonce {number} here") == set()
    assert {value for _, value in found(GENERIC, f"at {number} EUR, file:///{'a' * 3000}")} <= {number}


@given(st.text(max_size=200), st.sampled_from(["user", "assistant", ""]))
def test_whatever_is_found_stands_in_the_text(text: str, speaker: Any) -> None:
    for profile in (GENERIC, DEFI):
        for item in in_text(profile, text, speaker):
            assert item.value in text


def test_a_profile_that_is_not_there_is_refused_by_name() -> None:
    assert profile_of(None) is GENERIC
    with pytest.raises(Invalid, match="generic, defi"):
        profile_of("golf")


# ── where values are ──


def test_values_are_found_wherever_a_conversation_has_them() -> None:
    said = events(
        TurnStarted(role="user", content="Balance: 1"),
        Message(role="assistant", content=[{"type": "text", "text": "Balance: 2"}]),
        ToolAsked(call="c", name="look", arguments={"balance": 3}),
        ToolFinished(call="c", result='{"balance": 4.0}'),
        ToolFinished(call="d", result={"balance": "5"}),
        ToolFinished(call="e", result=[{"type": "text", "text": "balance=6"}], error="balance=7"),
        Message(role="assistant", content=[{"type": "tool_use", "id": "f", "name": "x", "input": {"balance": 8}}]),
        Message(role="user", content=[{"type": "tool_result", "tool_use_id": "f", "content": "Balance: 9"}]),
        TurnInterrupted(text="Balance: 10"),
        TurnFinished(content="Balance: 11"),
    )
    document = recognised(DEFI, said)
    found_in = {item.value: item.version for item in document.values["vault_state"]}
    assert found_in == {"1": 1, "2": 2, "3": 3, "4.0": 4, "5": 5, "6": 6, "7": 6, "8": 7, "9": 8, "10": 9, "11": 10}


def test_vars_and_scratchpads_are_read_as_they_stand() -> None:
    book = Logbook().begin(config=Config(extra={"preserve": ["vault.positions", "/risk", "nowhere"]}))
    book.do(do.SetVars(document={"vault": {"balance": "1.0", "positions": [1, 2]}, "risk": {"tier": "red"}}))
    book.do(do.WriteScratchpad(content="Vitality: 0.5"))
    first = preserved(DEFI, [], None, state=book.state)
    assert first["documents"] == {"vault.positions": [1, 2], "/risk": {"tier": "red"}}
    assert first["state"]["mortality_state"] == [["0.5", book.state.version, "Vitality"]]
    book.do(do.SetVars(document={"vault": {"balance": "2.0"}}))
    then = preserved(DEFI, [], first, state=book.state)
    assert [item[0] for item in then["state"]["vault_state"]] == ["2.0"]
    assert then["documents"] == first["documents"]  # what was named stays as it was last


# ── merging and bounds ──


def test_a_value_stands_there_once_with_the_version_it_was_last_seen_in() -> None:
    said = events(*[Message(role="user", content=f"{ADDRESS} and balance: 7")] * 3)
    document = preserved(DEFI, said[:2], None, state=BLANK)
    document = preserved(DEFI, said[2:], document, state=BLANK)
    assert [item for item in document["values"]["vault_state"] if item[0] == ADDRESS] == [[ADDRESS, 3]]


def test_the_newest_values_of_a_category_stay_and_what_went_is_counted() -> None:
    said = events(*[Message(role="user", content=f"see ABC-{number}") for number in range(MOST + 5)])
    document = preserved(GENERIC, said, None, state=BLANK)
    assert kept(document, "identifiers") == [f"ABC-{number}" for number in range(MOST + 4, 4, -1)]
    assert document["left_out"] == {"identifiers": 5}
    assert missing(recognised(GENERIC, said), document) == ()


def test_what_somebody_asked_to_preserve_never_goes() -> None:
    said = events(*[Message(role="user", content=f"preserve: word {number}") for number in range(MOST * 2)])
    document = preserved(GENERIC, said, None, state=BLANK, room=10)
    assert len(document["explicit"]) == MOST * 2


def test_a_flood_in_one_category_does_not_wash_away_another() -> None:
    said = events(
        Message(role="user", content="Vitality: 0.731"),
        *[Message(role="user", content=f"0x{number:040x}") for number in range(90)],
    )
    document = preserved(DEFI, said, None, state=BLANK, room=300)
    assert kept(document, "mortality_state") == ["0.731"]
    assert 0 < len(kept(document, "vault_state")) < 90
    assert estimate(json_text(document)) < 400
    assert missing(recognised(DEFI, said), document) == ()


def test_a_document_larger_than_the_room_is_named_instead() -> None:
    book = Logbook().begin(config=Config(extra={"preserve": "big"}))
    book.do(do.SetVars(document={"big": ["word"] * 1000}))
    document = preserved(GENERIC, [], None, state=book.state, room=100)
    assert document["left_out"]["big"] == 1
    assert "documents" not in document


def test_what_was_redacted_or_retracted_is_no_longer_preserved() -> None:
    said = events(*[Message(role="user", content=f"see ABC-{number}") for number in (1, 2, 3, 4)])
    document = preserved(GENERIC, said, None, state=BLANK)
    taken = [event_of(Redacted(versions=(1,)), 5), event_of(Retracted(first=2, upto=3), 6)]
    after = preserved(GENERIC, [], document, state=BLANK, gone=preserving.withdrawn(taken))
    assert kept(after, "identifiers") == ["ABC-4"]


def test_a_document_that_somebody_else_preserved_is_carried_along_as_it_is() -> None:
    theirs = {"mine": [1, {"two": "3.0"}]}
    document = preserved(GENERIC, [], theirs, state=BLANK)
    assert document["given"] == theirs
    assert preserved(GENERIC, [], document, state=BLANK)["given"] == theirs


def test_what_is_missing_is_told() -> None:
    said = events(Message(role="user", content="preserve: a\nsee ABC-1 and ABC-2"))
    document = preserved(GENERIC, said, None, state=BLANK)
    assert missing(recognised(GENERIC, said), document) == ()
    altered = document | {"explicit": [["b", 1]], "values": {"identifiers": [["ABC-2", 1], ["ABC-1 ", 1]]}}
    assert missing(recognised(GENERIC, said), altered) == ("a", "ABC-1")


def test_hooks_may_add_texts_and_documents_and_nothing_that_cannot_be_stored() -> None:
    assert added_of("a") == Added(texts=("a",))
    assert added_of(["a", 1, "b"]) == Added(texts=("a", "b"))
    assert added_of({"a": [1]}) == Added(documents={"a": [1]})
    assert added_of(None) == added_of(7) == Added()
    with pytest.raises(Invalid):
        added_of({"a": object()})


# ── any number of compactions ──

HEX = st.text("0123456789abcdefABCDEF", min_size=40, max_size=40)
DIGITS = st.from_regex(r"[1-9][0-9]{0,4}\.[0-9]{1,6}", fullmatch=True)
WORD = st.from_regex(r"[a-z]{4,9}", fullmatch=True)
PLANTS: dict[str, Any] = {
    "vault_state": HEX.map(lambda text: (f"0x{text}", f"0x{text}", None))
    | DIGITS.map(lambda text: (f"{text} USDC", f"{text} USDC", None))
    | DIGITS.map(lambda text: (text, f"Balance: {text}", "balance")),
    "pending_actions": DIGITS.map(lambda text: (f"permit-{text[:3]}x", f"permit-{text[:3]}x", None)).filter(
        lambda plant: "." not in plant[0]
    )
    | st.integers(1, 10**6).map(lambda number: (str(number), f"Nonce: {number}", "nonce")),
    "strategy_parameters": DIGITS.map(lambda text: (text, f"Rebalance threshold: {text}", "rebalance_threshold")),
    "risk_state": DIGITS.map(lambda text: (text, f"Drawdown: {text}", "drawdown")),
    "emotional_state": DIGITS.map(lambda text: (text, f"Arousal: {text}", "arousal"))
    | WORD.map(lambda text: (text, f"Plutchik: {text}", "plutchik")),
    "mortality_state": DIGITS.map(lambda text: (text, f"Vitality: {text}", "vitality")),
    "decisions": WORD.map(lambda text: (f"We decided to {text} it.", f"We decided to {text} it.", None)),
    "open_questions": WORD.map(lambda text: (f"Who may {text} it?", f"Who may {text} it?", None)),
    "explicit": WORD.map(lambda text: (text, f"preserve: {text}", None)),
}
PLANT = st.sampled_from(sorted(PLANTS)).flatmap(lambda name: PLANTS[name].map(lambda plant: (name, *plant)))
PLACES = st.sampled_from(["user", "assistant", "arguments", "result", "json"])


def turn_of(plant: tuple[str, str, str, str | None], place: str) -> list[Payload]:
    """A turn that has a value somewhere: said, or where it has a key, given to a tool or got from one."""
    _, value, line, key = plant
    text = f"Look here.\n{line}\nThat is all."
    if key is None or place == "user":
        return [TurnStarted(role="user", content=text), TurnFinished(content="Well.")]
    if place == "assistant":
        return [TurnStarted(role="user", content="Well"), TurnFinished(content=text)]
    arguments = {key: value} if place == "arguments" else {}
    result = {key: value} if place == "result" else f'[{{"{key}" : {json_text(value)}}}]' if place == "json" else "fine"
    return [
        TurnStarted(role="user", content="Well"),
        ToolAsked(call="c", name="look", arguments=arguments),
        ToolFinished(call="c", result=result),
        TurnFinished(content="Well."),
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(PLANT, PLACES), min_size=1, max_size=12),
    st.integers(0, 3),
    st.sampled_from([None, 100_000]),
)
def test_every_planted_value_survives_any_number_of_compactions_exactly(
    plants: list[tuple[tuple[str, str, str, str | None], str]], keep: int, room: int | None
) -> None:
    book = Logbook().begin()
    rules = Compaction(keep_last=keep, preserve="defi")
    quiet = [TurnStarted(role="user", content="Go on"), TurnFinished(content="Yes.")]
    for payloads in [*(turn_of(plant, place) for plant, place in plants), *[quiet] * (keep + 2)]:
        book.do(do.Append(drafts=tuple(map(Draft, payloads))))
        plan = planned(book.events, book.state, rules)
        if plan is not None:
            document = preserved(DEFI, plan.events, plan.preserved, state=book.state, gone=plan.gone, room=room)
            assert missing(recognised(DEFI, plan.events, book.state), document) == ()
            book.do(do.Append(drafts=(Draft(Compacted(upto=plan.upto, summary="s", preserved=document)),)))
    final = [event.data for event in book.events if isinstance(event.data, Compacted)][-1].preserved
    assert book.state.turns.compactions >= min(len(plants), 2)
    for (category, value, *_), _ in plants:
        values = final["explicit"] if category == "explicit" else final["values"][category]
        assert value in [item[0] for item in values]
