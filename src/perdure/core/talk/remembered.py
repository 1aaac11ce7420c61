"""Memories as a model is shown them: quoted as data, in tags or as search results that can be cited.

Invariant: whatever a memory says, it cannot end its quote. Marks that could, and signs that look like them, are spelled
as entities; so are signs that nobody sees. Every line is indented, so none begins like a message of somebody else's.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from perdure.core.talk.parts import Block, Foreign, Media, Result, Said

INDENT: Final = "\n    "
TITLE: Final = 60
"""Characters of a memory that its title has."""
_MARKS: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_ALIKE: Final = frozenset(
    map(
        chr,
        (
            *(0x2C2, 0x2C3, 0x1433, 0x1438, 0x16B2, 0x2039, 0x203A, 0x227A, 0x227B, 0x22D6, 0x22D7, 0x2329, 0x232A),
            *(*range(0x276C, 0x2772), 0x27E8, 0x27E9, 0x29FC, 0x29FD, 0x3008, 0x3009, 0x1D236, 0x1D237),
        ),
    )
)
"""Signs that look like the marks of tags and do not turn into them by themselves."""
_BLANK: Final = frozenset(
    (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2065, 0x2800, 0x3164, *range(0xFE00, 0xFE0E))
) | frozenset((0xFFA0, *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)))
"""Letters and marks that are shown as nothing; those that choose how an emoji looks are left out."""
_JOINERS: Final = "\u200c\u200d"
_PLAIN: Final = re.compile(r"[\t\n\x20\x21\x23-\x25\x27-\x3b\x3d\x3f-\x7e]*")
_UNSEEN: Final = frozenset({"Cf", "Zl", "Zp"})
_LOST: Final = "\N{REPLACEMENT CHARACTER}"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Something remembered, as it is shown: `age` in words such as `2d`. `source` is its address, for citations."""

    type: str
    content: str
    importance: float = 0.0
    age: str = ""
    id: str = ""
    source: str = ""


def memories_text(memories: Iterable[Memory]) -> str:
    """Memories as quoted data, or nothing: what they say cannot end the quote."""
    told = [
        f'  <memory type="{_line(item.type)}" importance="{item.importance:.2f}" age="{_line(item.age)}">'
        f"{INDENT}{_body(item.content)}\n  </memory>\n"
        for item in memories
    ]
    return f"<agent_memory>\n{''.join(told)}</agent_memory>" if told else ""


def results_of(memories: Iterable[Memory]) -> tuple[Foreign, ...]:
    """Memories as search results that Anthropic's models can cite."""
    return tuple(Foreign(provider="anthropic", block=_result(item)) for item in memories)


def _result(item: Memory) -> dict[str, Any]:
    gist = " ".join(item.content.split())
    gist = gist if len(gist) <= TITLE else f"{gist[: TITLE - 1]}…"
    return {
        "type": "search_result",
        "source": item.source,
        "title": f"[{_line(item.type).upper()}] {_line(gist) or item.id}",
        "content": [{"type": "text", "text": _body(item.content) or "-"}],
        "citations": {"enabled": True},
    }


def quoted(text: str) -> str:
    """A text that ends no quote. Read as XML it says the same, but for what XML has no place for."""
    if _PLAIN.fullmatch(text):
        return text
    last = len(text) - 1
    found = []
    for at, sign in enumerate(text):
        if sign in _JOINERS and 0 < at < last and _joined(text[at - 1], text[at + 1]):
            found.append(sign)
        else:
            found.append(_spelled(sign))
    return "".join(found)


def _body(text: str) -> str:
    """Every line of it, indented but for the first."""
    return INDENT.join(quoted(line) for line in text.splitlines())


def _line(text: str) -> str:
    return quoted(" ".join(text.splitlines()))


@lru_cache(maxsize=4_096)
def _spelled(sign: str) -> str:
    if sign in _MARKS:
        return _MARKS[sign]
    code, kind = ord(sign), unicodedata.category(sign)
    if kind == "Cs" or code & 0xFFFE == 0xFFFE or (kind == "Cc" and sign not in "\t\n" and code < 0x7F):
        return _LOST
    hidden = kind in _UNSEEN or (kind == "Cc" and sign not in "\t\n") or code in _BLANK
    if hidden or sign in _ALIKE or (code > 0x7F and not _MARKS.keys().isdisjoint(unicodedata.normalize("NFKD", sign))):
        return f"&#x{code:X};"
    return sign


def _joined(before: str, after: str) -> bool:
    """Whether a joiner between these belongs to a script or to a picture, where it is no hidden sign."""
    return all(ord(sign) > 0x7F and unicodedata.category(sign) not in _UNSEEN for sign in (before, after))


def is_citable(said: Said) -> bool:
    """Whether search results with citations may stand beside a message: providers want all or none of them cited, so
    nothing in it may be a document, or a result that is not.
    """
    return not any(map(_clashes, said.blocks))


def _clashes(block: Block) -> bool:
    if isinstance(block, Result):
        return any(map(_clashes, block.content))
    if isinstance(block, Media):
        return not block.media_type.startswith("image/")
    if not isinstance(block, Foreign) or block.block.get("type") not in ("search_result", "document"):
        return False
    return block.block.get("citations") != {"enabled": True}
