"""The scratchpad: one per session and one per agent, the last words count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import TooLarge
from perdure.core.session.scratchpad import MAX_BYTES, Pad, Scratchpads, ScratchpadWritten, evolve, write
from perdure.core.session.turns import Message
from tests.core.session.logbook import NOON, event_of

agents = st.sampled_from([None, "", "scout", "scribe"])


@given(st.lists(st.tuples(agents, st.text(max_size=9)), max_size=12))
def test_each_pad_says_what_was_last_written_to_it(writings: list[tuple[str | None, str]]) -> None:
    part, expected = Scratchpads(), {}
    for version, (agent, content) in enumerate(writings, 1):
        part = evolve(part, event_of(write(content), version, at=NOON + version, agent=agent))
        expected[agent or ""] = Pad(content=content, at=NOON + version, tokens=-(-len(content.encode()) // 4))
    assert part.pads == expected


@pytest.mark.parametrize(
    ("content", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 2, 1), ("é" * 3, 2)]
)
def test_tokens_are_estimated_at_four_bytes_each(content: str, tokens: int) -> None:
    assert write(content) == ScratchpadWritten(content=content, tokens=tokens)


def test_a_pad_holds_a_mebibyte_and_no_more() -> None:
    assert write("x" * MAX_BYTES).tokens == MAX_BYTES // 4
    with pytest.raises(TooLarge, match="shorten it") as refusal:
        write("é" * (MAX_BYTES // 2) + "x")
    assert refusal.value.limit == MAX_BYTES


def test_a_redacted_writing_empties_the_pad_until_the_next() -> None:
    part = evolve(Scratchpads(), event_of(write("secret"), agent="scout"))
    part = evolve(part, event_of(ScratchpadWritten(), 2, agent="scout", redacted=True))
    assert part.pads["scout"].content == ""


def test_other_events_leave_the_pads_alone() -> None:
    part = Scratchpads(pads={"": Pad(content="x")})
    assert evolve(part, event_of(Message(role="user"))) is part
