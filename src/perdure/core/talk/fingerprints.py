"""When two asks are the same, so that one may be answered with the other's answer; and when an answer may be kept.

Invariant: a fingerprint is a full hash over everything that may change the answer and over the scope it may be seen in.
What a client marks for caches, whether it streams, and who it says its user is, change no answer and are not in it.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from perdure.core.talk.parts import Answer, Ask, Block, Call, Foreign, Media, Result, Said, Text, Tool
from perdure.core.talk.wire import rest_in

QUESTION: Final = 1_000
"""Characters of the longest question that another may stand for: of longer ones, too much is alike by chance."""
_UNREADABLE: Final = (msgspec.MsgspecError, OverflowError, UnicodeError, RecursionError, TypeError)
_JSON: Final = msgspec.json.Encoder(order="deterministic")
_IDLE: Final = frozenset(
    {
        "cache_control",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "stream_options",
        "user",
    }
)
"""Fields of a request that change no answer."""
_ELSEWHERE: Final = frozenset(
    {
        "background",
        "container",
        "conversation",
        "mcp_servers",
        "previous_response_id",
        "prompt",
        "web_search_options",
    }
)
"""Fields of a request that let the answer depend on what is not in it."""
_BEYOND: Final = frozenset({"audio", "logprobs", "modalities", "top_logprobs"})
"""Fields of a request that ask for more than an answer of the common form holds."""
_PUNCTUATION: Final = ".,;:!?()[]{}<>\"'"
_REFERRING: Final = frozenset({"file_id", "file_url", "image_url"})
_WHOLE: Final = frozenset({"end", "sequence"})


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Who may see an answer again: those of a tenant within one access boundary (`access` names it: a principal, the
    owner of a session), from one provider.
    """

    tenant: str
    access: str
    provider: str


class Question(NamedTuple):
    """The user's last words, and the fingerprint of all that must be the same for others to stand for them."""

    text: str
    frame: bytes


# ── asks ──


def fingerprint(scope: Scope, ask: Ask) -> bytes | None:
    """The hash that an ask has in common only with those that ask the same; None for one that has no canonical form,
    such as one with half a character in it.
    """
    return _hashed("ask", scope, ask, ask.messages)


def question(scope: Scope, ask: Ask) -> Question | None:
    """The question that an ask ends with, if it is short and in words alone.

    In its frame is all the rest of the ask, the history included, and every figure and name in the question that has
    digits in it: whatever a likeness says, 2 + 2 is not 2 + 3.
    """
    *before, last = ask.messages or (Said(role="system", blocks=()),)
    texts = [block.text for block in last.blocks if isinstance(block, Text)]
    others = tuple(block for block in last.blocks if not isinstance(block, Text))
    text = "\n".join(texts).strip()
    if last.role != "user" or any(rest_in(block) is None for block in others) or not 0 < len(text) <= QUESTION:
        return None
    figures = [word.strip(_PUNCTUATION) for word in text.casefold().split() if any(map(str.isdigit, word))]
    frame = _hashed("question", scope, ask, [*before, msgspec.structs.replace(last, blocks=others)], figures)
    return None if frame is None else Question(text, frame)


def self_contained(ask: Ask) -> bool:
    """Whether the answer depends on nothing but the ask, and has all of it in the common form: no files or pages that
    the provider fetches, no state that it keeps, and one answer only.
    """
    for document in ask.extra.values():
        said = document if isinstance(document, dict) else {}
        if any(said.get(name) for name in _ELSEWHERE | _BEYOND) or said.get("n") not in (None, 1):
            return False
    return not any(map(_is_elsewhere, _blocks(ask)))


def is_sampled(ask: Ask) -> bool:
    """Whether the ask wants answers that differ: it names a temperature above zero."""
    return ask.temperature is not None and ask.temperature > 0


def _blocks(ask: Ask) -> Iterator[Block]:
    yield from ask.system
    for said in ask.messages:
        for block in said.blocks:
            yield block
            if isinstance(block, Result):
                yield from block.content


def _is_elsewhere(block: Block) -> bool:
    if isinstance(block, Media):
        return bool(block.url)
    return isinstance(block, Foreign) and _refers(block.block)


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        found = not _REFERRING.isdisjoint(value) or value.get("type") in ("url", "file")
        return found or any(map(_refers, value.values()))
    return isinstance(value, list | tuple) and any(map(_refers, value))


# ── answers ──


def is_keepable(answer: Answer) -> bool:
    """Whether an answer may be given again: it is whole and in words. One that calls tools, here or at the provider's,
    that refuses, or that was cut short may not.
    """
    if answer.stop not in _WHOLE or not any(isinstance(block, Text) and block.text.strip() for block in answer.blocks):
        return False
    return not any(
        isinstance(block, Call | Result) or (isinstance(block, Foreign) and rest_in(block) is None)
        for block in answer.blocks
    )


# ── the canonical form ──


def _hashed(kind: str, scope: Scope, ask: Ask, messages: Iterable[Said], more: object = None) -> bytes | None:
    numbers = [None if value is None else float(value) for value in (ask.temperature, ask.top_p)]
    told = [kind, scope, ask.model, ask.max_tokens, numbers, ask.stop, more]
    try:
        told += [list(_unmarked(ask.system)), [_tool(tool) for tool in ask.tools]]
        told += [[said.role, said.name, list(_unmarked(said.blocks))] for said in messages]
        return sha256(_JSON.encode([told, _said_beyond(ask.extra)])).digest()
    except _UNREADABLE:
        return None


def _said_beyond(extra: dict[str, Any]) -> dict[str, Any]:
    """What an ask says beyond the common form, and means: nothing, where a provider's document is empty."""
    found = {
        name: {key: value for key, value in document.items() if key not in _IDLE}
        for name, document in extra.items()
        if isinstance(document, dict)
    }
    return {name: document for name, document in {**extra, **found}.items() if document != {}}


def _tool(tool: Tool) -> list[Any]:
    foreign = _without_marks(tool.foreign or {})
    beyond = {name: document for name, document in foreign.items() if document != {}}
    return [tool.name, tool.description, tool.schema, beyond]


def _unmarked(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks without marks for caches; a rest that has nothing else is left out."""
    for block in blocks:
        plain = msgspec.structs.replace(block, cached=False) if block.cached else block
        if isinstance(plain, Result):
            content = tuple(inner for inner in _unmarked(plain.content) if isinstance(inner, Text | Media | Foreign))
            plain = msgspec.structs.replace(plain, content=content)
        elif isinstance(plain, Foreign):
            plain = msgspec.structs.replace(plain, block=_without_marks(plain.block))
            if rest_in(plain) == {}:
                continue
        yield plain


def _without_marks(value: Any) -> Any:
    """A provider's document without its marks for caches, however deep."""
    if isinstance(value, dict):
        return {key: _without_marks(item) for key, item in value.items() if not _is_mark(key, item)}
    return [_without_marks(item) for item in value] if isinstance(value, list | tuple) else value


def _is_mark(key: str, item: Any) -> bool:
    marks = item is None or (isinstance(item, dict) and item.get("type") == "ephemeral")
    return key == "cache_control" and marks
