"""What is suspicious about a text that is to be remembered: it may be meant for a model to obey.

A flag is a reason to look, not a verdict: memories are quoted and never obeyed, flagged or not. The names of flags are
stable. A text is read as it is written and once more as it would be understood: without what cannot be seen, with
letters of other alphabets that look like ours taken for ours, with entities and spaced-out words put together.

Every pattern is bounded or free of nested choice, so the time to look grows with the length of a text and no faster.
"""

import re
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Iterator
from html import unescape
from itertools import pairwise
from typing import Final

from perdure.core import scrub
from perdure.core.memory.phrases import (
    ANY,
    BEFORE,
    BESIDE,
    CREDENTIALS,
    ENCODED,
    FLAGS,
    HIDDEN,
    LITTLE,
    PASSWORD,
    PHRASE,
    RULES,
    SAID,
    UNITS,
    Rule,
)

_NEGATED: Final = re.compile(
    r"(?:\bnever|\bnot|n't|\bcannot|\bnobody|\bno one|\bwithout|\bavoid|\brefus\w{1,3}|\bwho(?:ever)?|\bforbidden)"
    r"(?: (?:to|may|can|should|must|let|ever|simply|just|anyone|anybody|people|requests|that|which|try|"
    r"tries|attempt)){0,4}"
    r"\s$"
)
_INVISIBLE: Final = re.compile("[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
                               "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]")  # fmt: skip
_NEVER_SEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164\uffa0"
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"
    "|(?<!^)\ufeff|[\U000e0100-\U000e01ef]{2}|\u00ad[^\u00ad]{0,2}\u00ad"
    "|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]"
    "|[\ufe00-\ufe0f]{2}|[ \t\u00a0]{160}|(?:\n[ \t]{0,4}){24}|<!--"
)
_JOINERS: Final = re.compile("(.?)([\u200c\u200d\u200e\u200f])(.?)", re.DOTALL)
_STACKED: Final = re.compile("[\u0300-\u036f]{6}")
_SPACED: Final = re.compile(r"(?<![^\W_])(?:[^\W\d_][ .\-_*|]{1,2}){5,200}[^\W\d_](?![^\W_])")
_SPACERS: Final = re.compile(r"[.\-_*|]| (?! )")
_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_=-])")
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:0x)?((?:[0-9A-Fa-f]{2}){20,})(?![0-9A-Za-z])")
_ESCAPED: Final = re.compile(
    r"(?:%[0-9A-Fa-f]{2}){8}|(?:\\x[0-9A-Fa-f]{2}){6}|(?:\\u[0-9A-Fa-f]{4}){6}|(?:&#x?[0-9A-Fa-f]{2,6};){6}|"
    r"(?:\b[01]{8} ){7}[01]{8}\b|(?:[.-]{1,5}[ /]{1,3}){14}"
)
_LONG: Final = 160
"""Characters of something encoded that need not be readable to be told."""
_LOOKALIKES: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u04cf\u043a\u043c\u0442\u0432"
    "\u043d\u043f\u0433\u044c\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406"
    "\u0408\u0405\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c4\u03b5\u03b7\u03c5\u03c7\u0391\u0392\u0395\u0397"
    "\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0396\u2018\u2019\u201c\u201d\u0131\u0261\u0251",
    "aeopcyxijsdhlkmtbhnrbabekmhopctyxijsaopviktenuxabehikmnoptyxz''\"\"iga",
)
"""Cyrillic and Greek letters, quotes and others that are taken for ours."""
_LEET: Final = str.maketrans("013457@$", "oieastas")
_CARDS: Final = tuple(detector for detector in scrub.DETECTORS if detector.kind == "card")
_CARD_WORDS: Final = re.compile(
    r"\b(?:cards?|visa|master ?card|amex|american express|maestro|cvv|cvc)\b", re.IGNORECASE
)
_NUMBER_OF: Final = re.compile(
    r"\b(?:order|tracking|invoice|ticket|reference|parcel|phone|customer|serial)(?: (?:no|nr|number|id|code))?"
    r"\W{0,4}(?:(?:is|was) )?$",
    re.IGNORECASE,
)
_TOLD_BY: Final = tuple([word] for word in ("from", "that", "which", "i", "we", "he", "she", "they", "you"))
_ENDINGS: Final = ("ed", "ing", "able", "ible", "less", "'s")
_AROUND: Final = ".,;:!?()'*\u2026\u2018\u2019"
_AMOUNT: Final = re.compile(r"\d+(?:[-\u2013.,]\d+)?\+?")
_STANDARD: Final = re.compile(
    r"(?:sha|md|aes|rsa|utf|base|argon|oauth|tls|cve|rfc|iso|nist|fips|v)-?\d|1password|"
    r"\d+[-\u2013](?:char|digit|bit|byte|day|week|month|year|hour|word|letter)"
)
_ELSEWHERE: Final = re.compile(r"[<{\[/]|[a-z_][\w.]*\(|\$\{|\$\w*_|\$[a-z]+\W*$|%\w+%")


def flags(content: str) -> tuple[str, ...]:
    """Names of what is suspicious, in the order of `FLAGS`; nothing for plain statements."""
    found = _found(content, FLAGS)
    return tuple(flag for flag in FLAGS if flag in found)


def holds_secret(content: str) -> bool:
    """Whether a text is flagged for its credentials."""
    return CREDENTIALS in _found(content, (CREDENTIALS,))


def _found(content: str, wanted: tuple[str, ...]) -> set[str]:
    found = {flag for flag, there in _SHAPES if flag in wanted and there(content)}
    rules = [rule for rule in RULES if rule.flag in wanted]
    for reading in _readings(content):
        for rule in rules:
            if rule.flag not in found and any(hint in reading for hint in rule.hints) and _says(rule, reading):
                found.add(rule.flag)
    return found


def _says(rule: Rule, reading: str) -> bool:
    """Whether the pattern is there, and not after a no that turns it round."""
    return any(
        not (rule.imperative and _NEGATED.search(reading[max(0, match.start() - 60) : match.start()]))
        for match in rule.pattern.finditer(reading)
    )


def _readings(content: str) -> Iterator[str]:
    """The text in small letters, and as it would be understood where that is something else."""
    plain, joined = _plain(content), _understood(content)
    yield plain
    seen = {plain}
    for reading in (joined, joined.replace("\n", " "), joined.translate(_LEET)):
        if reading not in seen:
            seen.add(reading)
            yield reading


def _plain(content: str) -> str:
    return content.lower().replace("’", "'")


def _understood(content: str) -> str:
    """The text in small letters of ours, without what cannot be seen, its spaced-out words put together."""
    bare = content if content.isascii() else _INVISIBLE.sub("", unicodedata.normalize("NFKC", content))
    if "&" in bare:
        bare = unescape(bare)
    folded = bare if bare.isascii() else _unmarked(bare).translate(_LOOKALIKES)
    return re.sub(r"[^\S\n]{1,400}", " ", _SPACED.sub(_together, folded.lower()))


def _unmarked(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _together(match: re.Match[str]) -> str:
    """A word that was written with something between its letters; two spaces part words."""
    return _SPACERS.sub("", match[0])


# ── what the form of a text tells ──


def _is_hidden(content: str) -> bool:
    if _NEVER_SEEN.search(content) is not None:
        return True
    if content.isascii():
        return False
    marks = unicodedata.normalize("NFD", content) if max(content) >= "\u0300" else content
    return _STACKED.search(marks) is not None or any(_is_idle(*match.groups()) for match in _JOINERS.finditer(content))


def _is_idle(before: str, mark: str, after: str) -> bool:
    """Whether a joiner or mark of direction stands where no script and no emoji needs it."""
    if mark in "\u200c\u200d":
        return not ((_joins(before) or before in "\ufe0f\u20e3") and (_joins(after) or not after))
    near = [unicodedata.bidirectional(one) for one in (before, after) if one]
    return not any(kind in ("R", "AL", "AN") for kind in near)


def _joins(one: str) -> bool:
    """Whether a character is of a script that joins, or a picture."""
    if not one:
        return False
    return ord(one) >= 0x1F000 or 0x2190 <= ord(one) <= 0x2BFF or 0x0600 <= ord(one) <= 0x109F


def _is_encoded(content: str) -> bool:
    if _ESCAPED.search(content) is not None:
        return True
    for match in _BASE64.finditer(content):
        if _mixed(match[0]) and (len(match[0]) >= _LONG or _decodes(match[0])):
            return True
    return any(len(match[1]) > 2 * _LONG or _reads(bytes.fromhex(match[1])) for match in _HEX.finditer(content))


def _mixed(text: str) -> bool:
    """Letters of both sizes and something else, as words and paths have them rarely."""
    changes = sum(one.isupper() != other.isupper() for one, other in pairwise(text))
    return changes >= len(text) // 6 and any(one.isdigit() or one in "+/=" for one in text)


def _decodes(text: str) -> bool:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _reads(b64decode(bare + "=" * (-len(bare) % 4)))
    except ValueError:
        return False


def _reads(data: bytes) -> bool:
    """Whether these bytes are words."""
    if len(data) < 12:
        return False
    readable = sum(32 <= byte < 127 or byte in (9, 10, 13) for byte in data)
    return readable >= 0.95 * len(data) and any(byte in b" \n{<" for byte in data)


# ── secrets ──


def _has_secret(content: str) -> bool:
    if scrub.find(content, scrub.CREDENTIALS) or _has_card(content):
        return True
    return any(_tells_password(reading) for reading in dict.fromkeys((_plain(content), _understood(content))))


def _has_card(content: str) -> bool:
    """Whether the number of a card is there: its check holds, and it is written in groups or called a card's."""
    called = _CARD_WORDS.search(content) is not None
    return any(
        called or (not content[start:end].isdigit() and not _NUMBER_OF.search(content[max(0, start - 40) : start]))
        for detector in _CARDS
        for start, end in detector.search(content)
    )


def _tells_password(reading: str) -> bool:
    if not any(hint in reading for hint in ("pass", "pwd")):
        return False
    return (
        any(_is_told(match, reading) for match in PASSWORD.finditer(reading))
        or any(_is_row(match["words"]) for match in PHRASE.finditer(reading))
        or any(_is_made_up(match["value"]) for beside in (BEFORE, BESIDE) for match in beside.finditer(reading))
    )


def _is_told(match: re.Match[str], reading: str) -> bool:
    """Whether what follows the name of a password is its value, and not something that is said about it."""
    verb = match["being"].lstrip()[:1].isalpha()
    if verb and ANY.search(reading[max(0, match.start() - 60) : match.start()]):
        return False
    if match["quoted"] is not None:
        first = match["quoted"].split()[:1]
        return bool(first) and not _is_blank(match["quoted"]) and not _is_said(first[0])
    value = match["value"]
    if _is_made_up(value):
        return not (_AMOUNT.fullmatch(value) and UNITS.match(reading, match.end()))
    if match["many"] or "\n" in match["gap"] or match["of"].split()[:1] in _TOLD_BY:
        return False
    word = value.strip(_AROUND)
    ends = match["end"] is not None or word != value.lstrip(_AROUND)
    return ends and len(word) >= 4 and not _is_blank(value) and not _is_said(word)


def _is_made_up(value: str) -> bool:
    """Whether it is no word: it has digits or signs in it, or is made of several words."""
    word = value.strip(_AROUND)
    if len(word) < 4 or _is_blank(value) or _is_said(word) or _STANDARD.match(word):
        return False
    parts = re.split(r"[-_]", word)
    return (
        any(one.isdigit() for one in word)
        or any(one in "!@#$%^&*~+=" for one in word)
        or (len(parts) > 2 and all(parts))
    )


def _is_blank(value: str) -> bool:
    """Whether it stands for a value that is elsewhere: masked, the name of a variable, an address."""
    return not value.strip("*x.\u2022\u2026-_ ") or "://" in value or _ELSEWHERE.match(value) is not None


def _is_said(word: str) -> bool:
    """Whether it is a word that people say about passwords."""
    parts = re.split(r"[-_]", word)
    last = parts[-1]
    return last in SAID or bool(LITTLE.intersection(parts)) or last.endswith(_ENDINGS)


def _is_row(words: str) -> bool:
    return not any(word in LITTLE or word.endswith(("ed", "ing", "ly")) for word in re.split("[ -]", words))


_SHAPES: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    (HIDDEN, _is_hidden),
    (ENCODED, _is_encoded),
    (CREDENTIALS, _has_secret),
)
