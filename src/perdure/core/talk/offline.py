r"""The built-in model: it needs no key and no network, and says the same whenever it is asked the same.

Without a script it shows that it heard: it repeats the question and says how to get a real model. A line that begins
with `call`, a tool's name and the arguments makes it call that tool, if it is offered, and answer from the result:

    call weather {"city": "Rome"}
    call weather Rome

The second form is for a tool with one text to give. A script, a list of `Step`s, says exactly what comes: one given
to the constructor has a step for every answer of a conversation, one in the ask's metadata, under `offline_script` (a
list, or its JSON), a step for every answer of a turn. After the last step the model answers by itself.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec

from perdure.core.errors import BadScript, Invalid
from perdure.core.talk.parts import (
    Ask,
    Began,
    Block,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Failed,
    Piece,
    Result,
    Said,
    Stop,
    Text,
    Thought,
    Tool,
    Usage,
)
from perdure.core.talk.tokens import estimate, estimate_ask, fitting

MODEL: Final = "offline"
SCRIPT: Final = "offline_script"
HINT: Final = (
    "I am perdure's offline model: I repeat and I call tools, but I do not think. "
    "For real answers configure a provider (Anthropic, or anything that speaks OpenAI's API) and name a model of it."
)
SHOWN: Final = 300
"""Characters of a question or a result that are repeated."""
FRAGMENT: Final = 24
"""Characters of a call's arguments in a piece, unless a script says otherwise."""

_ASKED: Final = re.compile(r"^[ \t]*call[ \t]+`?(?P<name>[\w.:-]+)`?(?:[ \t]+(?P<rest>.*))?$", re.IGNORECASE)
_WORDS: Final = re.compile(r"\S+\s*|\s+")
_TAGGED: Final = re.compile(r"\s*<(?P<tag>[a-z_]+)>.*</(?P=tag)>\s*", re.DOTALL)
"""What is put beside the question: memories, follow-ups, the scratchpad."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool to call. `raw` is sent instead of the arguments, to be no JSON object."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str = ""
    id: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One answer: what is thought, said and called, in this order; then it fails, or ends.

    `fail` is the type of a provider's error; with nothing said before, it is all that comes. `split` is the number of
    characters in a piece; 0 is a word. `stop` and `usage` are reported instead of what is true.
    """

    think: str = ""
    say: str = ""
    calls: tuple[Wanted, ...] = ()
    fail: str = ""
    message: str = ""
    stop: Stop | None = None
    split: Annotated[int, msgspec.Meta(ge=0)] = 0
    usage: Usage | None = None


def script(steps: Any) -> tuple[Step, ...]:
    """Steps from plain data, or from JSON. Raises `BadScript`, which names the place."""
    try:
        if isinstance(steps, str | bytes):
            return msgspec.json.decode(steps, type=tuple[Step, ...])
        return tuple(msgspec.convert(list(steps), tuple[Step, ...]))
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise BadScript(f"this is no script: {error}; it is a list of steps like {{'say': 'hello'}}") from error


class Offline:
    """The model, with or without a script."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps = tuple(steps)

    def pieces(self, ask: Ask) -> list[Piece]:
        """The answer to an ask, piece by piece. Raises `BadScript` where the metadata has one that is none."""
        step = self._step(ask)
        if step.fail and not (step.think or step.say or step.calls):
            return [Failed(type=step.fail, message=step.message)]
        return _Writing(ask, step).written()

    def _step(self, ask: Ask) -> Step:
        steps, messages = self._steps, ask.messages
        if SCRIPT in ask.metadata:
            steps, messages = script(ask.metadata[SCRIPT]), messages[_beginning(messages) :]
        answered = sum(said.role == "assistant" for said in messages)
        return steps[answered] if answered < len(steps) else _answer(ask)


# ── deciding what to say ──


def _beginning(messages: Sequence[Said]) -> int:
    """Where the turn begins: at the last message of the user's that is not there to give results."""
    for index in range(len(messages) - 1, -1, -1):
        said = messages[index]
        if said.role == "user" and not any(isinstance(block, Result) for block in said.blocks):
            return index
    return 0


def _answer(ask: Ask) -> Step:
    """What the model does by itself."""
    last = next((said for said in reversed(ask.messages) if said.role == "user"), None)
    if last is None:
        return Step(say=f"You said nothing. {HINT}")
    question = _question(last)
    results = [block for block in last.blocks if isinstance(block, Result)]
    if results:
        told = " ".join(_told(result, ask.messages) for result in results)
        return Step(say=f"{told} You said: “{_short(question)}”" if question else told)
    calls, problems = _wanted(question, ask.tools)
    if calls or problems:
        return Step(say=" ".join(problems), calls=tuple(calls))
    return Step(say=f"You said: “{_short(question)}” {HINT}" if question else f"You said no words. {HINT}")


def _question(said: Said) -> str:
    """The words of a message, without what is put beside them."""
    return "\n".join(
        block.text for block in said.blocks if isinstance(block, Text) and not _TAGGED.fullmatch(block.text)
    ).strip()


def _told(result: Result, messages: Sequence[Said]) -> str:
    """A result in words, with the name of its tool."""
    blocks = (block for said in messages for block in said.blocks)
    name = next((block.name for block in blocks if isinstance(block, Call) and block.id == result.call), result.call)
    words = _short("\n".join(block.text for block in result.content if isinstance(block, Text)).strip())
    return f"{name} {'failed' if result.failed else 'answered'}: {words or 'nothing in words'}."


def _wanted(question: str, tools: Sequence[Tool]) -> tuple[list[Wanted], list[str]]:
    """The calls that the user asks for, and what keeps the others from being made."""
    offered = {tool.name: tool for tool in tools if tool.foreign is None}
    calls: list[Wanted] = []
    problems: list[str] = []
    for line in question.splitlines():
        asked = _ASKED.match(line)
        if asked is None:
            continue
        name, rest = asked["name"], (asked["rest"] or "").strip()
        tool = offered.get(name)
        if tool is None:
            if "{" in rest or (offered and not rest):  # else they are words like any other
                there = f"these are: {', '.join(sorted(offered))}" if offered else "none is"
                problems.append(f"The tool {name} is not offered; {there}.")
            continue
        arguments = _arguments(rest, tool)
        if arguments is None:
            problems.append(f'I cannot read the arguments of {name}; write them like call {name} {{"key": "value"}}.')
        else:
            calls.append(Wanted(name=name, arguments=arguments))
    return calls, problems


def _arguments(rest: str, tool: Tool) -> dict[str, Any] | None:
    """A JSON object; or else a text for the only one that the tool takes; None where it is neither."""
    if not rest:
        return {}
    try:
        return msgspec.json.decode(rest, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        properties = tool.schema.get("properties")
    match list(properties.items()) if isinstance(properties, dict) else []:
        case [(str(name), {"type": "string"})] if not rest.startswith("{"):
            return {name: rest}
    return None


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN].rstrip()}…"


# ── saying it ──


def _key(ask: Ask) -> str:
    """A name for what is asked."""
    try:
        return sha256(msgspec.json.encode(ask, order="deterministic")).hexdigest()[:24]
    except UnicodeEncodeError as error:
        raise Invalid("the ask has half a character in it (a lone surrogate); correct its text") from error


class _Writing:
    """One answer being written, within what is left of max_tokens."""

    def __init__(self, ask: Ask, step: Step) -> None:
        self._ask = ask
        self._step = step
        self._key = _key(ask)
        self._left = ask.max_tokens
        self._used = 0
        self._index = 0
        self._stop: Stop | None = None
        self._sequence = ""
        self._pieces: list[Piece] = []

    def written(self) -> list[Piece]:
        step, sent = self._step, estimate_ask(self._ask)
        self._pieces.append(Began(id=f"{MODEL}_{self._key}", model=self._ask.model, usage=Usage(input=sent)))
        self._thought(step.think)
        self._said(step.say)
        for number, wanted in enumerate(step.calls):
            self._called(wanted, number)
        if step.fail:
            return [*self._pieces, Failed(type=step.fail, message=step.message)]
        done: Stop = step.stop or ("tools" if step.calls else "end")
        usage = step.usage or Usage(input=sent, output=self._used)
        return [*self._pieces, Ended(stop=self._stop or done, sequence=self._sequence, usage=usage)]

    def _thought(self, text: str) -> None:
        text = self._cut(text)
        if text:
            self._block(Thought(), [Delta(index=self._index, thought=part) for part in self._parts(text)])

    def _said(self, text: str) -> None:
        if self._stop is not None:
            return
        found = [(text.index(sequence), sequence) for sequence in self._ask.stop if sequence and sequence in text]
        at, sequence = min(found, key=lambda pair: pair[0], default=(len(text), ""))
        kept = self._cut(text[:at])
        if kept:
            self._block(Text(text=""), [Delta(index=self._index, text=part) for part in self._parts(kept)])
        if sequence and self._stop is None:
            self._stop, self._sequence = "sequence", sequence

    def _called(self, wanted: Wanted, number: int) -> None:
        """A call; like a real model's, its arguments break off where max_tokens is reached."""
        if self._stop is not None or self._cut(wanted.name) != wanted.name:
            return
        text = wanted.raw or msgspec.json.encode(wanted.arguments, order="deterministic").decode()
        name = wanted.id or f"call_{self._key}_{number}"
        size = self._step.split or FRAGMENT
        kept = self._cut(text)
        parts = [kept[at : at + size] for at in range(0, len(kept), size)]
        self._block(Call(id=name, name=wanted.name), [Delta(index=self._index, json=part) for part in parts])

    def _block(self, block: Block, deltas: Iterable[Delta]) -> None:
        self._pieces += [BlockBegan(index=self._index, block=block), *deltas, BlockEnded(index=self._index)]
        self._index += 1

    def _cut(self, text: str) -> str:
        """As much of a text as still fits; what does not ends the answer."""
        if self._stop is not None:
            return ""
        kept = text if self._left is None else fitting(text, self._left - self._used)
        self._used += estimate(kept)
        if kept != text:
            self._stop = "length"
        return kept

    def _parts(self, text: str) -> list[str]:
        size = self._step.split
        return [text[at : at + size] for at in range(0, len(text), size)] if size else _WORDS.findall(text)
