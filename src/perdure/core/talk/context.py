"""What a model is asked with, put together in one order and in parts that can be inspected.

Before the history: tools, the global prefix, the template, and memories that stay the same until the next compaction
(`Fixed`). Then the history with the user's message. Then, behind the last cache breakpoint, what holds for this turn
alone and is never history (`Passing`): memories found for it, follow-ups that are due, and the scratchpad last. These
are blocks of the user's last message, so they follow tool results without a message of their own.

Invariant: as a session goes on, everything up to the last breakpoint stays as it was, block for block, until a
compaction, a retraction or a cut to the window. Breakpoints are marks and no part of that.

A `Rendering` is all that need not be done again for the next turn. It is a value: keep it beside the version it is for.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec

from perdure.core.session.event import Event
from perdure.core.talk.content import MEDIA_TOKENS, json_text, media_in, words_of
from perdure.core.talk.history import OPENING, History, closed, fenced, history_of, with_summary
from perdure.core.talk.history import grown as grown_history
from perdure.core.talk.parts import Block, Foreign, Said, Text, Thought, Tool
from perdure.core.talk.remembered import Memory, memories_text, results_of
from perdure.core.talk.rests import results_end
from perdure.core.talk.window import WHOLE, Cut, cut_of, has_words, kept, without_results
from perdure.core.talk.wire import rest_in

Count: TypeAlias = Callable[[str], int]
"""How many tokens a text has."""
_CHOSEN: Final = "chosen for the session; the same until the next compaction"
_FOUND: Final = "found for this message"


class Fixed(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before the history. The memories were chosen once and stay until the next compaction; with `cites`
    they are search results at the beginning of the first message, where models can cite them.
    """

    prefix: str = ""
    template: str = ""
    memories: tuple[Memory, ...] = ()
    tools: tuple[Tool, ...] = ()
    cites: bool = False


class Passing(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for this turn alone. `notes` say why memories are missing that might be there."""

    memories: tuple[Memory, ...] = ()
    notes: tuple[str, ...] = ()
    follow_ups: tuple[str, ...] = ()
    scratchpad: str = ""


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a context for people to see. `cached` says whether it is before the last breakpoint."""

    name: str
    role: str
    tokens: int
    why: str
    cached: bool = False
    messages: int = 0


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that did not fit, with the versions of the log that they tell of."""

    first: int
    last: int
    messages: int
    tokens: int


class Rendering(msgspec.Struct, frozen=True, kw_only=True):
    """A session as far as it has been put together. `sums[i]` are the tokens of the first i messages."""

    fixed: Fixed
    history: History
    system: tuple[Text | Foreign, ...]
    tools: tuple[Tool, ...]
    head: tuple[Portion, ...]
    messages: tuple[Said, ...]
    sums: tuple[int, ...]


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask with, and what it is made of. `over` are the tokens beyond the window, if the least that must stay
    does not fit; `cites` says that memories are shown so that they can be cited.
    """

    system: tuple[Text | Foreign, ...]
    messages: tuple[Said, ...]
    tools: tuple[Tool, ...]
    portions: tuple[Portion, ...]
    tokens: int
    left_out: tuple[LeftOut, ...] = ()
    over: int = 0
    cites: bool = False


def begun(fixed: Fixed, events: Iterable[Event], count: Count) -> Rendering:
    """A session from its events: at first, and again after a compaction with memories chosen anew."""
    history = history_of(events)
    head, system = _head(fixed, history, count)
    tools = _tools(fixed, system)
    messages = closed(history).messages
    sums = tuple(accumulate((tokens_of(message, count) for message in messages), initial=0))
    return Rendering(fixed=fixed, history=history, system=system, tools=tools, head=head, messages=messages, sums=sums)


def fitted(before: Rendering, fixed: Fixed, count: Count) -> Rendering:
    """The same history behind another beginning."""
    if before.fixed == fixed:
        return before
    head, system = _head(fixed, before.history, count)
    return msgspec.structs.replace(before, fixed=fixed, system=system, tools=_tools(fixed, system), head=head)


def grown(before: Rendering, events: Sequence[Event], count: Count) -> Rendering | None:
    """The rendering with the events that have come since, counting only what is new; None when they compact the
    session or take something back, and it must be begun again.
    """
    history = grown_history(before.history, events)
    if history is None:
        return None
    same = history.kept  # answering a call touches the message in which it was closed for the time being
    messages = closed(history).messages
    fresh = accumulate((tokens_of(item, count) for item in messages[same:]), initial=before.sums[same])
    return msgspec.structs.replace(before, history=history, messages=messages, sums=(*before.sums[:same], *fresh))


def assembled(rendering: Rendering, passing: Passing, count: Count, window: int | None = None) -> Context:
    """The context for the next request. With a `window`, the oldest messages go until it fits; see `window`."""
    tail, blocks = _tail(passing, count, cites=rendering.fixed.cites)
    apart = sum(portion.tokens for portion in (*rendering.head, *tail))
    messages, sums = rendering.messages, rendering.sums
    cut = WHOLE if window is None else cut_of(messages, sums, window - apart, window)
    shown = kept(messages, cut)
    middle = _middle(messages, sums, cut, count)
    tokens = apart + sum(portion.tokens for portion in middle)
    if rendering.history.summary:
        shown = with_summary(rendering.history.summary, shown)
    shown = _with_results(rendering.fixed, _with_breakpoints(shown))
    return Context(
        system=rendering.system,
        messages=_joined(shown, blocks),
        tools=rendering.tools,
        portions=(*rendering.head, *middle, *tail),
        tokens=tokens,
        left_out=_left_out(rendering, cut, count),
        over=0 if window is None else max(0, tokens - window),
        cites=rendering.fixed.cites,
    )


def tokens_of(message: Said, count: Count) -> int:
    """The tokens of a message, block by block."""
    return sum(count(words_of(block)) + MEDIA_TOKENS * media_in(block) for block in message.blocks)


# ── before the history ──


def _head(fixed: Fixed, history: History, count: Count) -> tuple[tuple[Portion, ...], tuple[Text | Foreign, ...]]:
    texts = [
        ("global prefix", fixed.prefix, "the same for every session"),
        ("template", fixed.template, "what the session is configured to say"),
        ("memories", "" if fixed.cites else memories_text(fixed.memories), _CHOSEN),
    ]
    there = [(name, text, why) for name, text, why in texts if text]
    portions = [
        Portion(name=name, role="system", tokens=count(text), why=why, cached=True) for name, text, why in there
    ]
    if fixed.cites and fixed.memories:
        tokens = count(_results_text(fixed.memories))
        portions.append(Portion(name="memories", role="user", tokens=tokens, why=_CHOSEN, cached=True))
    if fixed.tools:
        told = "".join(json_text(msgspec.to_builtins(tool)) for tool in fixed.tools)
        why = "tools that the model may ask for"
        portions.insert(0, Portion(name="tools", role="tools", tokens=count(told), why=why, cached=True))
    if history.summary:
        why = f"stands for older turns since the compaction at version {history.since}"
        tokens = count(history.summary)
        portions.append(Portion(name="summary", role="user", tokens=tokens, why=why, cached=True))
    system = [Text(text=text, cached=index == len(there)) for index, (_, text, _) in enumerate(there, 1)]
    return tuple(portions), tuple(system)


def _tools(fixed: Fixed, system: tuple[Text | Foreign, ...]) -> tuple[Tool, ...]:
    """The tools; the last one is marked where nothing of the system's can be."""
    if system or not fixed.tools:
        return fixed.tools
    return (*fixed.tools[:-1], msgspec.structs.replace(fixed.tools[-1], cached=True))


def _with_results(fixed: Fixed, messages: tuple[Said, ...]) -> tuple[Said, ...]:
    """The messages with memories that can be cited before all else; after tool results, for those must come first."""
    if not fixed.cites or not fixed.memories or not messages:
        return messages
    blocks, at = messages[0].blocks, results_end(messages[0].blocks)
    first = msgspec.structs.replace(messages[0], blocks=(*blocks[:at], *results_of(fixed.memories), *blocks[at:]))
    return (first, *messages[1:])


def _results_text(memories: Iterable[Memory]) -> str:
    return "".join(words_of(block) for block in results_of(memories))


# ── the history and the user's message ──


def _middle(messages: Sequence[Said], sums: Sequence[int], cut: Cut, count: Count) -> tuple[Portion, ...]:
    """The history in three parts: before the user's last message, that message, and the rounds since."""
    size = len(messages)
    if not size:
        return ()
    last = next((index for index in range(size - 1, cut.first, -1) if has_words(messages[index])), cut.first)
    last = cut.first if last < cut.rest else last
    begins = tokens_of(without_results(messages[cut.first]), count) if cut.first else sums[1]
    whole = begins if last == cut.first else sums[last + 1] - sums[last]
    before = 0 if last == cut.first else begins + sums[last] - sums[cut.rest]
    since = max(last + 1, cut.rest)
    parts = [
        ("history", before, 0 if last == cut.first else 1 + last - cut.rest, "what was said before"),
        ("user message", whole, 1, "what the model is asked"),
        ("this turn", sums[-1] - sums[since], size - since, "calls, results and words since the user's message"),
    ]
    return tuple(
        Portion(
            name=name,
            role="user" if name == "user message" else "both",
            tokens=tokens,
            why=why,
            cached=True,
            messages=number,
        )
        for name, tokens, number, why in parts
        if number > 0
    )


def _left_out(rendering: Rendering, cut: Cut, count: Count) -> tuple[LeftOut, ...]:
    """What a cut leaves out: what is before its first message, and what is between that and the rest."""
    ends, sums, messages = rendering.history.ends, rendering.sums, rendering.messages
    found: list[LeftOut] = []
    if cut.first:
        stripped = messages[cut.first], without_results(messages[cut.first])
        lost = sums[cut.first] + tokens_of(stripped[0], count) - tokens_of(stripped[1], count)
        found.append(LeftOut(first=1, last=ends[cut.first - 1], messages=cut.first, tokens=lost))
    if cut.rest > cut.first + 1:
        lost = sums[cut.rest] - sums[cut.first + 1]
        first, last = ends[cut.first] + 1, ends[cut.rest - 1]
        found.append(LeftOut(first=first, last=last, messages=cut.rest - cut.first - 1, tokens=lost))
    return tuple(found)


def _with_breakpoints(messages: tuple[Said, ...]) -> tuple[Said, ...]:
    """The messages with a breakpoint at the end, and one where the request before this one had it."""
    size = len(messages)
    if not size:
        return messages
    earlier = next((index for index in range(size - 2, -1, -1) if messages[index].role == "user"), None)
    found = list(messages)
    for index in {size - 1} if earlier is None else {size - 1, earlier}:
        found[index] = _marked(found[index])
    return tuple(found)


def _marked(message: Said) -> Said:
    """The message with a breakpoint at its last block; thoughts and rests take none."""
    blocks = list(message.blocks)
    for index in range(len(blocks) - 1, -1, -1):
        if not isinstance(blocks[index], Thought) and rest_in(blocks[index]) is None:
            blocks[index] = msgspec.structs.replace(blocks[index], cached=True)
            break
    return msgspec.structs.replace(message, blocks=tuple(blocks))


# ── after it ──


def _tail(passing: Passing, count: Count, *, cites: bool) -> tuple[tuple[Portion, ...], tuple[Block, ...]]:
    follow_ups = "\n".join(fenced("follow_up", text) for text in passing.follow_ups if text)
    pad = fenced("working_memory", passing.scratchpad) if passing.scratchpad else ""
    texts = [
        ("turn memories", "" if cites else memories_text(passing.memories), _FOUND),
        ("follow-ups", follow_ups, "people asked to consider them next"),
        ("scratchpad", pad, "the working memory, last where it is read best"),
    ]
    there = [(name, text, why) for name, text, why in texts if text]
    portions = [Portion(name=name, role="user", tokens=count(text), why=why) for name, text, why in there]
    results = results_of(passing.memories) if cites else ()
    if results:
        tokens = count(_results_text(passing.memories))
        portions.insert(0, Portion(name="turn memories", role="user", tokens=tokens, why=_FOUND))
    noted = [Portion(name="memories left out", role="user", tokens=0, why=note) for note in passing.notes]
    return (*noted, *portions), (*results, *(Text(text=text) for _, text, _ in there))


def user_last(messages: tuple[Said, ...]) -> tuple[Said, ...]:
    """The messages with the user's turn to speak last: a model that was cut short is told to go on."""
    if not messages or messages[-1].role == "user":
        return messages
    return (*messages, Said(role="user", blocks=(OPENING,)))


def _joined(messages: tuple[Said, ...], blocks: tuple[Block, ...]) -> tuple[Said, ...]:
    """The messages with these blocks last: in the user's last message, or in one of their own after an assistant's."""
    if not blocks:
        return messages
    if not messages or messages[-1].role != "user":
        return (*messages, Said(role="user", blocks=blocks))
    last = msgspec.structs.replace(messages[-1], blocks=(*messages[-1].blocks, *blocks))
    return (*messages[:-1], last)
