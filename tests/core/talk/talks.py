"""Conversations for the tests of talking: turns as they really go, and events as wild as they come."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from perdure.core.session.event import Event, Payload
from perdure.core.session.steering import Steered
from perdure.core.session.turns import (
    Compacted,
    Message,
    Retracted,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    TurnStarted,
)
from perdure.core.talk.parts import Block, Call, Result, Said
from tests.core.session.logbook import event_of

WORDS = st.text("ab é<&\n", min_size=1, max_size=6).map(lambda text: f"w{text}w")
ARGUMENTS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9) | WORDS, max_size=2)


@st.composite
def rounds(draw: Any) -> list[Payload]:
    """What an assistant says and asks, and what comes of it, in any order of finishing."""
    number = draw(st.integers(1, 3))
    calls = [f"c{draw(st.integers(0, 10**9))}-{index}" for index in range(number)]
    asked = [
        ToolAsked(call=call, name=draw(st.sampled_from(["look", "dig"])), arguments=draw(ARGUMENTS)) for call in calls
    ]
    done = [ToolFinished(call=call, result=draw(WORDS)) for call in draw(st.permutations(calls))]
    words = [Message(role="assistant", content=draw(WORDS))] if draw(st.booleans()) else []
    return [*words, *asked, *done]


@st.composite
def turns(draw: Any) -> list[Payload]:
    """One whole turn."""
    begun = [TurnStarted(role="user", content=draw(WORDS))]
    done = [payload for item in draw(st.lists(rounds(), max_size=2)) for payload in item]
    return [*begun, *done, TurnFinished(content=draw(WORDS))]


TALKS = st.lists(turns(), min_size=1, max_size=5)

NAMES = st.sampled_from(["a", "b", "c"])
CONTENT: Any = st.sampled_from(
    [
        "hello",
        "",
        None,
        [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}}],
        [{"type": "tool_result", "tool_use_id": "b", "content": "found"}, {"type": "text", "text": "so"}],
        [{"type": "thinking", "thinking": "hm", "signature": "s"}],
        {"odd": [1, 2.5]},
    ]
)
WILD: Any = st.one_of(
    st.builds(
        lambda role, content: Message(role=role, content=content),
        st.sampled_from(["user", "assistant", "system", "tool"]),
        CONTENT,
    ),
    st.builds(lambda content: TurnStarted(content=content), CONTENT),
    st.builds(lambda content: TurnFinished(content=content), CONTENT),
    st.builds(lambda call: ToolAsked(call=call, name="look", arguments={"x": 1}), NAMES),
    st.builds(
        lambda call, error: ToolFinished(call=call, result="found", error=error), NAMES, st.none() | st.just("no")
    ),
    st.builds(lambda text: TurnInterrupted(text=text), st.sampled_from(["", "half"])),
    st.builds(lambda text: Steered(text=text), st.sampled_from(["", "left", "right"])),
)
BACK = st.one_of(
    st.builds(lambda first, more: Retracted(first=first, upto=first + more), st.integers(1, 20), st.integers(0, 3)),
    st.builds(lambda upto: Compacted(upto=upto, summary="long ago"), st.integers(0, 20)),
    st.just(TurnRolledBack()),
)


def log(payloads: list[Payload], first: int = 1) -> list[Event]:
    """Payloads as events, each in the turn that is open."""
    found: list[Event] = []
    turn, count = None, 0
    for version, payload in enumerate(payloads, first):
        if isinstance(payload, TurnStarted):
            count += 1
            turn = count
        found.append(event_of(payload, version, turn=turn))
        if isinstance(payload, TurnFinished | TurnInterrupted | TurnRolledBack):
            turn = None
    return found


def flat(messages: tuple[Said, ...]) -> list[tuple[str, Block]]:
    """The blocks one after another, each with its speaker, without the marks of breakpoints."""
    return [
        (message.role, msgspec.structs.replace(block, cached=False)) for message in messages for block in message.blocks
    ]


def assert_acceptable(messages: tuple[Said, ...]) -> None:
    """What every provider asks of messages."""
    roles = [message.role for message in messages]
    assert roles == [("user", "assistant")[index % 2] for index in range(len(roles))]
    ids = [block.id for message in messages for block in message.blocks if isinstance(block, Call)]
    assert len(ids) == len(set(ids))
    waiting: list[str] = []
    for message in messages:
        assert message.blocks
        results = [block.call for block in message.blocks if isinstance(block, Result)]
        assert sorted(results) == sorted(waiting)
        assert all(isinstance(block, Result) for block in message.blocks[: len(results)])
        waiting = [block.id for block in message.blocks if isinstance(block, Call)]
    assert waiting == []
