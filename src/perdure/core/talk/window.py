"""Which messages go when not all fit: the oldest turns first, and never a call without its result.

A context may begin at any message in which the user has words: results beside those words belong to calls that are
gone, and go with them. When not even the last of these fits with all that followed, the oldest rounds after it go: an
assistant's message and the results of its calls. The user's last words and the latest round always stay.

What goes is rounded up to a quarter of the window. So the next turns fit behind what stayed, and find it unchanged.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.talk.parts import Block, Result, Said
from perdure.core.talk.wire import rest_in

STEPS: Final = 4


class Cut(msgspec.Struct, frozen=True):
    """What stays of some messages: the one at `first`, without results if others went before it, and all from `rest`
    on.
    """

    first: int
    rest: int


WHOLE: Final = Cut(0, 1)


def cut_of(messages: Sequence[Said], sums: Sequence[int], room: int, window: int) -> Cut:
    """What stays within `room` tokens; `sums[i]` are the tokens of the first i messages. More than the room stays only
    when the least that must stay is more.
    """
    excess = sums[-1] - room
    if excess <= 0 or not messages:
        return WHOLE
    for target in (_rounded(excess, window), excess):
        start = _next_start(messages, bisect_left(sums, target))
        if start is not None:
            return Cut(start, start + 1)
    return _cut_inside(messages, sums, _last_start(messages), room, window)


def kept(messages: tuple[Said, ...], cut: Cut) -> tuple[Said, ...]:
    """The messages that stay."""
    if cut.first == 0:
        return messages if cut.rest <= 1 else (*messages[:1], *messages[cut.rest :])
    return (without_results(messages[cut.first]), *messages[cut.rest :])


def without_results(message: Said) -> Said:
    """The message with its words alone: the rest of a result goes with it."""
    words: list[Block] = []
    gone = False
    for block in message.blocks:
        gone = isinstance(block, Result) or (gone and rest_in(block) is not None)
        words += () if gone else (block,)
    return message if len(words) == len(message.blocks) else msgspec.structs.replace(message, blocks=tuple(words))


def has_words(message: Said) -> bool:
    """Whether the user says something in it, beyond the results of tools."""
    return message.role == "user" and any(
        not isinstance(block, Result) and rest_in(block) is None for block in message.blocks
    )


def _rounded(excess: int, window: int) -> int:
    step = max(1, window // STEPS)
    return -(-excess // step) * step


def _next_start(messages: Sequence[Said], at: int) -> int | None:
    return next((index for index in range(at, len(messages)) if has_words(messages[index])), None)


def _last_start(messages: Sequence[Said]) -> int:
    return next((index for index in range(len(messages) - 1, 0, -1) if has_words(messages[index])), 0)


def _cut_inside(messages: Sequence[Said], sums: Sequence[int], start: int, room: int, window: int) -> Cut:
    """What stays of the last turn: its beginning and its latest rounds."""
    rounds = [index for index in range(start + 1, len(messages)) if messages[index].role == "assistant"]
    excess = sums[-1] - sums[start] - room
    for target in (_rounded(excess, window), excess) if excess > 0 else (0,):
        for index in rounds:
            if sums[index] - sums[start + 1] >= target:
                return Cut(start, index)
    return Cut(start, rounds[-1] if rounds else start + 1)
