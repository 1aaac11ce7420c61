"""Recognising what a profile preserves, in texts and in documents.

What is found is the exact text that stands there: a number in JSON keeps its very digits. Limits: a text is read up to
`SCANNED` characters from either end, a document up to `LEAVES` values; a sentence or a line counts up to `LONGEST`
characters, any other value below `WIDEST`.
"""

import re
from collections.abc import Iterator
from functools import cache
from json import JSONDecoder
from typing import Any, Final, Literal, TypeAlias

import msgspec

from perdure.core.talk.content import json_text
from perdure.core.talk.profiles import DECISIONS, MOMENT, NUMBER, START, Category, Profile

SCANNED: Final = 50_000
LEAVES: Final = 20_000
LONGEST: Final = 400
WIDEST: Final = 2_000
EXPLICIT: Final = "explicit"
"""The category of what somebody asked to preserve, in a line `preserve: …`; tools cannot ask for that."""
Speaker: TypeAlias = Literal["user", "assistant", ""]
"""Who says a text; "" is a tool, or a document."""


class Found(msgspec.Struct, frozen=True):
    """A value, its category, and the name it stands under, if it has one."""

    category: str
    value: str
    name: str = ""


# ── texts ──

_LINE: Final = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?[\"'`*_]{0,3}(?P<name>[A-Za-z][\w .\-/()]{0,60}?)[\"'`*_]{0,3}"
    r"[ \t]*[:=][ \t]*(?P<value>[^\s:=][^\n]*)$",
    re.MULTILINE,
)
_NUMBERS: Final = re.compile(rf"{START}{MOMENT}|{START}{NUMBER}")
_NEAR: Final = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z_]{0,30}(?:[ -][A-Za-z]{1,30})?)(?: (?:is|of|at|was|now|to))?[\s:=]{1,3}\Z"
)
"""The words right before a number."""
NEAR: Final = 80
_PAIR: Final = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_][\w.\-]{1,60})=(?P<value>[^\s,;)\]}\"'=]+)")
_PRESERVE: Final = re.compile(r"^[ \t]*(?:[-*•][ \t]+)?preserve[ \t]*:[ \t]*(?P<value>\S[^\n]{0,999})$", re.I | re.M)
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def in_text(profile: Profile, text: str, speaker: Speaker = "") -> Iterator[Found]:
    """The values in a text. Sentences, and what is asked to be preserved, count only where somebody says them."""
    for part in _parts(text):
        document = _document(part)
        if document is not None:
            yield from in_document(profile, document)
        yield from _by_form(profile, part)
        if document is None:
            yield from _by_name(profile, part)
        if speaker:
            yield from _by_sentence(profile, part, speaker)
            yield from (Found(EXPLICIT, item["value"].rstrip()) for item in _PRESERVE.finditer(part))


def _parts(text: str) -> tuple[str, ...]:
    """The text, or of a long one its beginning and its end, both whole words."""
    if len(text) <= 2 * SCANNED:
        return (text,) if text else ()
    head, tail = text[:SCANNED].rsplit(None, 1), text[-SCANNED:].split(None, 1)
    return tuple(part for part in (*head[:-1], *tail[1:]) if part)


def _by_form(profile: Profile, text: str) -> Iterator[Found]:
    for category in profile.categories:
        for form in _forms(category):
            for item in form.finditer(text):
                groups = item.groupdict()
                value = (groups.get("value") or item[0]).rstrip()
                if len(value) < WIDEST:
                    yield Found(category.name, value, groups.get("name") or "")


def _by_name(profile: Profile, text: str) -> Iterator[Found]:
    """Values in lines such as `name: value`, in pairs such as `name=value`, and numbers right behind a name."""
    for number in _NUMBERS.finditer(text):
        near = _NEAR.search(text, max(0, number.start() - NEAR), number.start())
        category = _named(profile, (near["name"],)) if near is not None else None
        if near is not None and category is not None:
            yield Found(category, number[0], near["name"])
    for pattern in (_LINE, _PAIR):
        for item in pattern.finditer(text):
            value = _unquoted(item["value"].rstrip())
            category = _named(profile, (item["name"],)) if 0 < len(value) <= LONGEST else None
            if category is not None:
                yield Found(category, value, item["name"])


def _unquoted(text: str) -> str:
    bare = text.removesuffix(",")
    quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'`"
    return bare[1:-1] if quoted else text


def _by_sentence(profile: Profile, text: str, speaker: Speaker) -> Iterator[Found]:
    signs = [(category, _signs(category)) for category in profile.categories if category.signs or category.questions]
    for sentence in sentences(text):
        if len(sentence) > LONGEST:
            continue
        for category, pattern in signs:
            asks = category.questions and speaker == "user" and sentence.endswith("?")
            if asks or (category.signs and pattern.search(sentence)):
                yield Found(category.name, sentence)


def sentences(text: str) -> list[str]:
    """The sentences of a text; every line ends one."""
    return [piece.strip() for piece in _SENTENCES.split(text) if piece.strip()]


def decisions_in(text: str) -> list[str]:
    """Its sentences that tell of a decision."""
    return [sentence for sentence in sentences(text) if _signs(DECISIONS).search(sentence)]


@cache
def _forms(category: Category) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(form) for form in category.forms)


@cache
def _signs(category: Category) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(category.signs)})\b", re.IGNORECASE)


# ── documents ──


class _Lexeme(str):
    """A number in JSON, as it is written there."""

    __slots__ = ()


_EXACT: Final = JSONDecoder(parse_float=_Lexeme, parse_int=_Lexeme, parse_constant=_Lexeme)


def _document(text: str) -> Any:
    """The document that a text is, with every number as it is written; None if it is none."""
    bare = text.strip()
    if not bare.startswith(("{", "[")):
        return None
    try:
        return _EXACT.decode(bare)
    except (ValueError, RecursionError):
        return None


def in_document(profile: Profile, document: Any) -> Iterator[Found]:
    """The values in a document: those whose keys say what they are, and those in its texts that have a form."""
    for path, leaf in _leaves(document):
        text = leaf if isinstance(leaf, str) else json_text(leaf)
        category = _named(profile, path) if path and 0 < len(text) <= LONGEST else None
        if category is not None:
            yield Found(category, str(text), path[-1])
        if type(leaf) is str:
            for part in _parts(leaf):
                yield from _by_form(profile, part)


def _leaves(document: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is no list and no object and says something, with the keys that lead to it."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), document)]
    seen = 0
    while waiting and seen < LEAVES:
        path, value = waiting.pop()
        seen += 1
        if isinstance(value, dict):
            waiting += [((*path, str(key)), item) for key, item in reversed(value.items())]
        elif isinstance(value, list | tuple | frozenset | set):
            waiting += [(path, item) for item in reversed(list(value))]
        elif value is not None and value != "":
            yield path, value


def _named(profile: Profile, path: tuple[str, ...]) -> str | None:
    """The category that the last key belongs to, or else the keys above it."""
    for depth in range(1, min(len(path), 4) + 1):
        words = _words(path[-depth])
        for category in profile.categories:
            if any(_within(name, words) for name in _phrases(category)):
                return category.name
    return None


def _within(phrase: tuple[str, ...], words: tuple[str, ...]) -> bool:
    size = len(phrase)
    return any(words[at : at + size] == phrase for at in range(len(words) - size + 1))


@cache
def _phrases(category: Category) -> tuple[tuple[str, ...], ...]:
    return tuple(_words(name) for name in category.names)


def _words(name: str) -> tuple[str, ...]:
    """The words of a key, however it is written, each in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(name[:100]))


def _singular(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
