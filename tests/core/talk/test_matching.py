"""A client's whole history beside the log: what is known, what is new, where they part."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.core.session.event import Event, Payload
from perdure.core.session.refs import blob_ref
from perdure.core.session.steering import Steered
from perdure.core.session.turns import (
    Compacted,
    Message,
    Retracted,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnStarted,
)
from perdure.core.talk.history import history_of, messages_of, payloads_of
from perdure.core.talk.matching import Match, Trail, grown, matched, trail_of
from perdure.core.talk.parts import Block, Call, Foreign, Media, Result, Said, Text, Thought
from perdure.core.talk.wire import rest
from tests.core.session.logbook import event_of
from tests.core.talk.talks import TALKS, WILD, log

TURN: list[Payload] = [TurnStarted(content="hello"), TurnFinished(content="hi")]


def joined(talk: list[list[Payload]]) -> list[Payload]:
    return [payload for turn in talk for payload in turn]


def sent(*payloads: Payload) -> tuple[Said, ...]:
    return messages_of(history_of(log(list(payloads))))


def user(*blocks: Block | str) -> Said:
    return Said(role="user", blocks=tuple(Text(text=block) if isinstance(block, str) else block for block in blocks))


def assistant(*blocks: Block | str) -> Said:
    return msgspec.structs.replace(user(*blocks), role="assistant")


def compared(payloads: list[Payload], *messages: Said) -> Match:
    return matched(trail_of(log(payloads)), messages)


# ── what clients change without meaning ──


@st.composite
def disguised(draw: Any, messages: tuple[Said, ...]) -> tuple[Said, ...]:
    """The same conversation as another client might send it."""
    salt = draw(st.sampled_from(["", "x", "toolu_"]))
    found: list[Said] = []
    for message in messages:
        blocks = [block for item in message.blocks for block in draw(_disguised(item, salt))]
        results = [block for block in blocks if isinstance(block, Result)]
        blocks = draw(st.permutations(results)) + [block for block in blocks if not isinstance(block, Result)]
        if message.role == "assistant" and draw(st.booleans()):
            blocks = [Thought(text="hm"), *blocks, Foreign(provider="chat", block={"refusal": None})]
        if message.role == "assistant" and len(blocks) > 1 and draw(st.booleans()):
            found += [Said(role="assistant", blocks=(block,)) for block in blocks]
        elif results and draw(st.booleans()):
            found += [user(block) for block in results]
            found += [user(*rest)] if (rest := [block for block in blocks if block not in results]) else []
        else:
            found.append(
                msgspec.structs.replace(message, blocks=tuple(blocks), name=draw(st.sampled_from(["", "ann"])))
            )
    return tuple(found)


@st.composite
def _disguised(draw: Any, block: Block, salt: str) -> list[Block]:
    mark = draw(st.booleans())
    match block:
        case Text(text=text):
            at = draw(st.integers(0, len(text)))
            space = draw(st.sampled_from(["", " ", "\n"]))
            return [Text(text=space + text[:at]), Text(text=""), Text(text=text[at:] + space, cached=mark)]
        case Call():
            arguments = {name: float(item) if type(item) is int else item for name, item in block.arguments.items()}
            given = dict(reversed(arguments.items())) if draw(st.booleans()) else block.arguments
            spelled = msgspec.json.format(msgspec.json.encode(given)).decode()
            if draw(st.booleans()):
                return [Call(id=salt + block.id, name=block.name, raw=spelled, cached=mark)]
            return [Call(id=salt + block.id, name=block.name, arguments=given, cached=mark)]
        case Result():
            failed = draw(st.booleans())
            return [msgspec.structs.replace(block, call=salt + block.call, failed=failed, cached=mark)]
        case _:
            return [block]


@given(TALKS, st.data())
def test_a_client_that_has_what_the_log_has_brings_nothing_new(talk: list[list[Payload]], data: Any) -> None:
    payloads = joined(talk)
    messages = data.draw(disguised(sent(*payloads)))
    found = compared(payloads, *messages)
    assert found == Match(known=len(messages), suffix=(), at=len(payloads), diverged=False)


@given(TALKS, st.integers(0, 4), st.data())
def test_what_a_client_has_beyond_the_log_is_the_suffix(talk: list[list[Payload]], at: int, data: Any) -> None:
    assume(at <= len(talk))
    before = joined(talk[:at])
    head = data.draw(disguised(sent(*before)))
    tail = sent(*joined(talk[at:]))
    assert compared(before, *head, *tail) == Match(known=len(head), suffix=tail, at=len(before), diverged=False)


@given(TALKS, st.integers(0, 50), st.data())
def test_where_a_client_says_something_else_a_branch_takes_it_up(talk: list[list[Payload]], at: int, data: Any) -> None:
    payloads = joined(talk)
    messages = list(sent(*payloads))
    at %= len(messages)
    blocks = list(messages[at].blocks)
    index = data.draw(st.integers(0, len(blocks) - 1))
    blocks[index] = _other(blocks[index])
    messages[at] = msgspec.structs.replace(messages[at], blocks=tuple(blocks))
    found = compared(payloads, *messages)
    assert found.diverged
    assert found.known <= at
    shared = payloads[: found.at]
    assert compared(shared, *messages) == Match(known=found.known, suffix=found.suffix, at=found.at, diverged=False)
    branch = [*shared, *(payload for message in found.suffix for payload in payloads_of(message))]
    again = compared(branch, *messages)
    assert (again.known, again.suffix, again.diverged) == (len(messages), (), False)
    assert found.at >= _said_before(payloads, at)


def _other(block: Block) -> Block:
    match block:
        case Text(text=text):
            return Text(text=text + " else")
        case Call():
            return msgspec.structs.replace(block, arguments={"other": 1})
        case Result():
            return msgspec.structs.replace(block, content=(Text(text="other"),))
        case _:
            raise AssertionError(block)


def _said_before(payloads: list[Payload], at: int) -> int:
    """The version with which the message before this one was whole."""
    return history_of(log(payloads)).ends[at - 1] if at else 0


@given(st.lists(WILD, max_size=25), st.integers(0, 25))
def test_a_trail_that_grew_is_the_one_made_at_once(payloads: list[Payload], at: int) -> None:
    events = log(payloads)
    assert grown(trail_of(events[:at]), events) == trail_of(events)


@given(st.lists(WILD, max_size=20), st.lists(WILD, max_size=20))
def test_known_messages_and_suffix_are_all_that_the_client_sent(one: list[Payload], two: list[Payload]) -> None:
    messages = sent(*two)
    found = compared(one, *messages)
    assert 0 <= found.at <= len(one)
    assert found.diverged or found.at == len(one)
    assert len(messages) - found.known == len(found.suffix)
    if found.suffix:
        assert nameless(found.suffix[1:]) == nameless(messages[found.known + 1 :])
        ours, theirs = nameless(found.suffix[:1])[0], nameless(messages[found.known :])[0]
        assert all(block in theirs for block in ours)


def nameless(messages: tuple[Said, ...]) -> list[list[Block]]:
    """The blocks without the names of the calls that results belong to: those may become the log's."""
    return [
        [msgspec.structs.replace(block, call="") if isinstance(block, Result) else block for block in message.blocks]
        for message in messages
    ]


# ── where they part ──


def test_a_client_whose_history_ends_earlier_asks_again_there() -> None:
    found = compared([*TURN, *TURN], user("hello"), assistant("hi"), user("hello"))
    assert found == Match(known=3, suffix=(), at=3, diverged=True)


def test_a_client_with_a_history_of_its_own_agrees_with_nothing() -> None:
    found = compared(TURN, user("summary of what was"))
    assert found == Match(known=0, suffix=(user("summary of what was"),), at=0, diverged=True)
    assert matched(Trail(), [user("hello")]) == Match(known=0, suffix=(user("hello"),), at=0, diverged=False)


def test_a_branch_never_begins_in_the_middle_of_an_event() -> None:
    block = {"type": "tool_result", "tool_use_id": "a", "content": "gold"}
    payloads = [*TURN, Message(role="user", content=[block, {"type": "text", "text": "and?"}])]
    theirs = user(Result(call="a", content=(Text(text="gold"),)), "but?")
    found = compared(payloads, user("hello"), assistant("hi"), theirs)
    assert found == Match(known=2, suffix=(theirs,), at=2, diverged=True)


@pytest.mark.parametrize("change", ["Hi", "hi there", "h i"])
def test_words_that_differ_are_different(change: str) -> None:
    assert compared(TURN, user("hello"), assistant(change)).diverged


def test_what_one_says_is_not_what_another_says() -> None:
    assert compared([Message(role="user", content="x")], assistant("x")).diverged
    assert compared([Message(role="user", content="x")], Said(role="system", blocks=(Text(text="x"),))).diverged


def test_images_are_told_apart() -> None:
    image = Media(media_type="image/png", data=b"one")
    payloads: list[Payload] = [*payloads_of(user("look", image))]
    assert not compared(payloads, user("look", image)).diverged
    assert compared(payloads, user("look", msgspec.structs.replace(image, data=b"two"))).diverged


# ── tools ──

CALLS = (Call(id="a", name="look", arguments={"x": 1}), Call(id="b", name="look", arguments={"x": 2}))
ASKED: list[Payload] = [TurnStarted(content="go"), *payloads_of(assistant(*CALLS))]


def result(call: str, text: str) -> Result:
    return Result(call=call, content=(Text(text=text),))


def test_a_result_that_the_log_lacks_is_new_beside_one_that_it_has() -> None:
    payloads = [*ASKED, ToolFinished(call="b", result="two")]
    both = user(result("a", "one"), result("b", "two"), "go on")
    found = compared(payloads, user("go"), assistant(*CALLS), both)
    assert found == Match(known=2, suffix=(user(result("a", "one"), "go on"),), at=4, diverged=False)


def test_a_result_that_the_log_went_on_without_is_a_divergence() -> None:
    payloads = [*ASKED, ToolFinished(call="b", result="two"), TurnInterrupted(), *TURN]
    both = user(result("a", "one"), result("b", "two"))
    found = compared(payloads, user("go"), assistant(*CALLS), both, user("hello"), assistant("hi"))
    assert found == Match(known=2, suffix=(both, user("hello"), assistant("hi")), at=3, diverged=True)


def test_a_new_result_names_its_call_as_the_log_does() -> None:
    theirs = [msgspec.structs.replace(call, id=f"x{call.id}") for call in CALLS]
    payloads = [*ASKED, ToolFinished(call="b", result="two")]
    new = Call(id="b", name="dig")
    tail = [user(result("xa", "one"), result("xb", "two")), assistant(new), user(result("b", "three"))]
    found = compared(payloads, user("go"), assistant(*theirs), *tail)
    assert found.suffix == (user(result("a", "one")), *tail[1:])
    branched = compared([*payloads, *TURN], user("go"), assistant(*theirs), user("no", result("xa", "one")))
    assert (branched.at, branched.suffix) == (3, (user("no", result("a", "one")),))


def test_results_that_change_places_are_different() -> None:
    payloads = [*ASKED, ToolFinished(call="a", result="one"), ToolFinished(call="b", result="two")]
    assert not compared(payloads, user("go"), assistant(*CALLS), user(result("b", "two"), result("a", "one"))).diverged
    crossed = compared(payloads, user("go"), assistant(*CALLS), user(result("a", "two"), result("b", "one")))
    assert (crossed.diverged, crossed.at, crossed.known) == (True, 3, 2)


def test_a_result_that_is_json_is_the_same_in_another_spelling() -> None:
    payloads = [*ASKED, ToolFinished(call="a", result={"n": [1, 2.0]}), ToolFinished(call="b", error="no")]
    theirs = user(result("a", '{ "n": [1.0, 2] }'), result("b", "no"))
    assert not compared(payloads, user("go"), assistant(*CALLS), theirs).diverged


def test_words_between_calls_are_the_same_before_them() -> None:
    payloads = [TurnStarted(content="go"), *payloads_of(assistant("one ", CALLS[0], "two", CALLS[1]))]
    assert compared(payloads, user("go"), assistant("one two", *CALLS)) == Match(
        known=2, suffix=(), at=len(payloads), diverged=False
    )


def test_arguments_that_are_no_json_and_numbers_beyond_measure_are_told_apart() -> None:
    broken = Call(id="a", name="look", raw="{broken")
    payloads = [TurnStarted(content="go"), *payloads_of(assistant(broken))]
    assert not compared(payloads, user("go"), assistant(broken)).diverged
    assert compared(payloads, user("go"), assistant(Call(id="a", name="look", raw="{other"))).diverged
    huge = [user(Foreign(provider="chat", block={"n": 10**40 + number})) for number in range(2)]
    trail = trail_of(log(list(payloads_of(user("x")))))
    assert [matched(trail, [user("x"), item]).suffix for item in huge] == [(huge[0],), (huge[1],)]


# ── what the log has lost or never got ──


@pytest.mark.parametrize("had", [[], [assistant("I was sa")]])
def test_what_was_streamed_before_an_interruption_a_client_may_have_or_not(had: list[Said]) -> None:
    payloads: list[Payload] = [TurnStarted(content="go"), TurnInterrupted(text="I was sa")]
    assert compared(payloads, user("go"), *had) == Match(known=1 + len(had), suffix=(), at=2, diverged=False)
    found = compared([*payloads, *TURN], user("go"), *had, user("hello"), assistant("hi"), user("so"))
    assert found == Match(known=3 + len(had), suffix=(user("so"),), at=4, diverged=False)


def redacted(events: list[Event], *versions: int) -> list[Event]:
    return [
        event_of(type(event.data)(), event.version, target=event.target, turn=event.turn, redacted=True)
        if event.version in versions
        else event
        for event in events
    ]


def test_what_was_redacted_does_not_come_back_from_a_client_that_still_has_it() -> None:
    payloads = [*ASKED, ToolFinished(call="a", result="one"), ToolFinished(call="b", result="two")]
    payloads += [TurnFinished(content="done"), Message(role="user", content="thanks")]
    payloads += [Message(role="assistant", content="welcome"), *TURN]
    messages = sent(*payloads)
    events = log(payloads)
    for versions in [(1,), (2,), (4,), (6,), (7,), (8,), (1, 2, 3, 4, 5, 6, 7, 8)]:
        found = matched(trail_of(redacted(events, *versions)), [*messages, user("new")])
        assert found == Match(known=len(messages), suffix=(user("new"),), at=len(events), diverged=False), versions


def test_a_redacted_message_before_calls_was_the_assistants() -> None:
    payloads = [TurnStarted(content="go"), *payloads_of(assistant("let me see", *CALLS))]
    found = matched(trail_of(redacted(log(payloads), 2)), [user("go"), assistant("let me see", *CALLS), user("new")])
    assert (found.known, found.suffix, found.diverged) == (2, (user("new"),), False)


def test_the_log_matches_as_it_stands_and_compactions_change_nothing() -> None:
    payloads = [*TURN, *TURN, Compacted(upto=2, summary="greetings")]
    assert compared(payloads, user("hello"), assistant("hi"), user("hello"), assistant("hi")).at == 5
    assert not compared([*TURN, *TURN, Retracted(first=3, upto=4)], user("hello"), assistant("hi")).diverged
    events = log([*TURN, *TURN, Retracted(first=3, upto=4)])
    assert grown(trail_of(events[:4]), events) is None


def test_a_message_of_thoughts_alone_is_not_taken_twice() -> None:
    payloads = [TurnStarted(content="go"), *payloads_of(assistant(Thought(text="hm")))]
    found = compared(payloads, user("go"), assistant(Thought(text="hm")), user("well?"))
    assert found == Match(known=2, suffix=(user("well?"),), at=2, diverged=False)


# ── what says nothing of its own ──

LEFT = rest("anthropic", {"citations": {"enabled": True}})


@given(TALKS, st.data())
def test_rests_on_either_side_are_no_difference(talk: list[list[Payload]], data: Any) -> None:
    payloads = joined(talk)
    messages = sent(*payloads)
    messages = tuple(data.draw(with_rests(message)) for message in messages)
    assert compared(payloads, *messages) == Match(known=len(messages), suffix=(), at=len(payloads), diverged=False)
    written = [payload for message in messages for payload in payloads_of(message)]
    plain = sent(*payloads)
    assert compared(written, *plain) == Match(known=len(plain), suffix=(), at=len(written), diverged=False)


@st.composite
def with_rests(draw: Any, message: Said) -> Said:
    blocks: list[Block] = list(LEFT) if draw(st.booleans()) else []
    for block in message.blocks:
        if isinstance(block, Result) and draw(st.booleans()):
            block = msgspec.structs.replace(block, content=(*LEFT, *block.content, *LEFT))
        blocks += [block, *(LEFT if draw(st.booleans()) else ())]
    return msgspec.structs.replace(message, blocks=tuple(blocks))


def test_a_rest_between_two_texts_does_not_part_them() -> None:
    assert not compared(TURN, user("hel", *LEFT, "lo", *LEFT), assistant("hi")).diverged


@given(TALKS, st.data())
def test_a_client_need_not_have_what_others_steered(talk: list[list[Payload]], data: Any) -> None:
    payloads: list[Payload] = []
    for payload in joined(talk):
        payloads += [payload, *data.draw(st.lists(st.builds(Steered, text=st.sampled_from(["left", " "])), max_size=2))]
    messages = data.draw(disguised(sent(*joined(talk))))
    found = compared(payloads, *messages, user("new"))
    assert found == Match(known=len(messages), suffix=(user("new"),), at=len(payloads), diverged=False)


def test_a_client_that_has_a_steer_has_what_the_log_has() -> None:
    steer = Steered(text="left")
    words = "<steer>\nleft\n</steer>"
    said: list[Payload] = [TurnStarted(content="go"), Message(role="assistant", content="one"), steer]
    said += [TurnFinished(content="two"), TurnStarted(content="and?")]
    theirs = [user("go"), assistant("one"), user(words), assistant("two"), user("and?")]
    assert compared(said, *theirs) == Match(known=5, suffix=(), at=5, diverged=False)
    assert compared(said, *theirs[:2], *theirs[3:]).diverged is False
    assert compared(said, theirs[0], assistant("one", "two"), theirs[4]).diverged is False
    assert compared(said, theirs[0], assistant("one", "three"), theirs[4]).diverged
    asked = [*ASKED, ToolFinished(call="a", result="one"), steer, ToolFinished(call="b", result="two")]
    both = (result("a", "one"), result("b", "two"))
    for last in (user(*both), user(*both, words)):
        assert not compared(asked, user("go"), assistant(*CALLS), last).diverged
    between = [*ASKED, steer, ToolFinished(call="a", result="one"), ToolFinished(call="b", result="two")]
    assert compared([*between, *TURN], user("go"), assistant(*CALLS), user(*both, words), *sent(*TURN)).at == 8


def test_a_branch_behind_a_steer_keeps_the_results_it_was_said_among() -> None:
    asked = [*ASKED, ToolFinished(call="a", result="one"), Steered(text="left"), ToolFinished(call="b", result="two")]
    both = user(result("a", "one"), result("b", "two"))
    found = compared([*asked, TurnFinished(content="so")], user("go"), assistant(*CALLS), both, user("no"))
    assert (found.known, found.suffix, found.at, found.diverged) == (3, (user("no"),), 6, True)


def test_a_picture_is_the_same_in_a_blob_and_in_a_request() -> None:
    blob = blob_ref(sha256(b"png").digest())
    log = [TurnStarted(content=[{"type": "image", "source": blob}]), TurnFinished(content="a cat")]
    theirs = [user(Media(media_type="image/png", data=b"png")), assistant("a cat"), user("whose?")]
    assert not compared(log, *theirs).diverged
    assert compared(log, user(Media(media_type="image/png", data=b"gif")), *theirs[1:]).diverged
