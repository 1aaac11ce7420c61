"""An agent's tail: by the agent, through the agent, handed to the agent; nothing else, and no further than asked."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.session.agents import Delegation
from perdure.core.session.event import Event
from perdure.core.session.tails import DEFAULT_DEPTH, concerns, tail
from perdure.core.session.turns import Message, ToolAsked
from tests.core.session.logbook import event_of

agents = st.sampled_from([None, "scout", "scribe", ""])
envelopes = st.fixed_dictionaries({"agent": agents, "child_agent": agents, "target": agents})
events = st.builds(
    lambda payload, entry: (payload, entry), st.sampled_from([Message(role="user"), Delegation()]), envelopes
)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (event_of(Message(role="user"), agent="scout"), True),
        (event_of(Message(role="user"), agent="scribe", child_agent="scout"), True),
        (event_of(Delegation(to="scout"), agent="scribe"), True),
        (event_of(Message(role="user"), agent="scribe"), False),
        (event_of(Message(role="user")), False),
        (event_of(Delegation(to="scribe"), agent="scribe"), False),
        (event_of(Message(role="user"), agent="scribe", target="scout"), False),
        (event_of(ToolAsked(call="scout"), agent="scribe"), False),
        (event_of(Delegation(), redacted=True, target="scout"), True),
    ],
)
def test_three_rules_say_what_concerns_an_agent(event: Event, expected: bool) -> None:
    assert concerns(event, "scout") is expected


@given(st.lists(events, max_size=30), st.integers(0, 12))
def test_the_tail_is_the_last_of_what_concerns_the_agent_oldest_first(drawn: list[Any], depth: int) -> None:
    log = [event_of(payload, version, **entry) for version, (payload, entry) in enumerate(drawn, 1)]
    mine = [event.version for event in log if concerns(event, "scout")]
    found = tail(reversed(log), "scout", depth)
    assert [event.version for event in found] == mine[len(mine) - depth if depth < len(mine) else 0 :]


def test_the_tail_reads_no_further_back_than_needed() -> None:
    def newest_first() -> Iterator[Event]:
        for version in range(200, 100, -1):
            yield event_of(Message(role="user"), version, agent="scout")
        pytest.fail("read past the depth")

    assert len(tail(newest_first(), "scout")) == DEFAULT_DEPTH == 50
