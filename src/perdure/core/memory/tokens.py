"""The words, numbers and marks of a memory, each with the term it stands for: where paraphrases meet."""

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from perdure.core.memory.lexicon import DENIALS, EXACT, FILLERS, MONTHS, NUMBERS, OPPOSITE, SAME, SCALES, UNITS
from perdure.core.memory.words import stem

_TOKEN: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?)"
    r"|(?P<time>\d{1,2}(?::\d{2})?\s?(?P<half>[ap])\.?m\b\.?|\d{1,2}:\d{2}(?![:\d]))"
    r"|(?P<code>\d+(?:(?:-\d+)+|(?:\.\d+){2,})(?!\w))"
    r"|(?P<sign>[$€£])?(?P<number>(?<![\w.])\.\d+|\d[\d,]*(?:\.\d+)?)"
    r"(?:\s*(?P<percent>%|percent\b|per cent\b|pct\b|bps\b)"
    r"|\s?(?P<scale>(?:k|m|mn|b|bn)\b|thousand\b|million\b|billion\b|hundred\b))?(?:(?!\w)|(?=[a-z]{1,4}\b))"
    r"|(?P<word>[^\W_]+(?:['’.\-/_][^\W_]+)*)"
    r"|(?P<mark>[:=,.;()#–-])",
    re.IGNORECASE,
)
_PHRASES: Final = tuple(
    (re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE), instead)
    for phrase, instead in (
        (r"rather than|instead of|as opposed to", "than"),
        (r"(?:no more|not more|less|lower|fewer) than|at most|up to|not exceeding", "maximum"),
        (r"(?:under|below)(?= [\d$€£])", "maximum"),
        (r"(?:more|greater|higher) than|in excess of", "above"),
        (r"(?:no less|not less) than|at least", "minimum"),
        (r"no longer|not anymore", "not"),
        (r"would like|would love", "wants"),
        (r"(?:takes|take) place", "is"),
        (r"(?:left|quit) [\w ]{1,40}? and(?: now)?(?= (?:works?|lives?)\b)", ""),
        (r"(?:left|quit) [\w ]{1,40}? (?:and|to)(?: now)? join(?:ed|s)?", "works at"),
        (r"(?<=prefers )((?!to )[\w -]{1,40}?) (?:over|to|above)", r"\1 than"),
        (r"(?<=prefer )((?!to )[\w -]{1,40}?) (?:over|to|above)", r"\1 than"),
        (r"per annum|per year|a year|each year|every year", "yearly"),
        (r"per month|a month|each month|every month", "monthly"),
        (r"per week|a week|each week|every week", "weekly"),
        (r"per day|a day|each day|every day", "daily"),
        (r"(?:last )?(?:updated|checked|verified|seen)(?: on| at)? (?=\d{4}-)|as of (?=\d{4}-)", "asof "),
        (r"does not|did not|do not|is not|are not|was not", "not"),
    )
)
_ASIDE: Final = re.compile(
    r"^(?:(?:(?:\w+ )?note|reminder|remember|fyi|(?:\w+ )?update|apparently|heads[- ]up|noted|btw|for the record|memo"
    r"|(?:minor |quick |small )?(?:correction|change)|(?:new |latest |more )?(?:info|information|news)|just so you know"
    r"|for reference|latest|new|revised|confirmed|important|context|background"
    r"|still (?:true|valid|so|current|applies|holds)|to repeat|repeating|unchanged|same as before"
    r"|as (?:before|ever|always|(?:already )?(?:said|noted|mentioned)(?: before| already| earlier)?)"
    r"|(?:it |this )?(?:bears|(?:is )?worth) (?:repeating|noting|mentioning))\b(?: that)?[:,] "
    r"|(?:note|reminder|remember|fyi|apparently|heads[- ]up|noted|btw) (?:that )?"
    r"|(?:the )?user (?:says|said|mentioned|noted|confirmed|told us|reports|reported|added|explained)\b(?: that)?[:,]? "
    r"(?!(?:that )?(?:they|he|she|it)\b)"
    r"|as of (?:now|today|yesterday|recently|(?:this|last) (?:week|month|quarter|year))[:,] "
    r"|(?:from|in|as of|per|after) (?:today's|the|a|this|our|the last) "
    r"(?:chat|call|conversation|talk|session|meeting|e-?mail)[:,] )"
    r"|(?<=[.!;]) (?:(?:worth|good to|to be|please)? ?(?:keep(?:ing)?|kept|know|remember|bear)(?: in mind)?"
    r"|noted for later|mentioned in passing|confirmed(?: by [\w ]{1,20})?|(?:[\w]+ )?confirmed (?:it|this|that))\.?$"
    r"| \((?:from|as|per|via|noted|said|mentioned|confirmed|according|came up|told|heard|source|verified|checked|seen"
    r"|asked|discussed|repeated|reported)\b[^()]{0,40}\)\.?$",
    re.IGNORECASE,
)
"""What is said about a note and not by it, before and after it."""
_EMPHASIS: Final = re.compile(r"(?<![\w*`])(\*{1,3}|`{1,3})(?=[\w$€£\"'(-])([^*`\n]+)(?<=[\w%)\"'.!?])\1(?![\w*`])")
"""Words that are set in bold, slanted or as code."""
_LONGEST: Final = 20
"""Digits of a number; what has more is a name."""
_SIGNS: Final = {"$": "usd", "€": "eur", "£": "gbp"}


class Token(msgspec.Struct, frozen=True, gc=False):
    """A word, number or mark: as it is written (in small letters), and the term it stands for, if any."""

    raw: str
    term: str = ""
    name: bool = False
    """Whether it names something: written large within a sentence, or with digits in it."""
    large: bool = False
    """Whether it is written large, be it only because it begins a sentence."""


def unadorned(text: str) -> str:
    """A text without what sets words off: they say the same in bold."""
    return _EMPHASIS.sub(r"\2", text)


def tokens_of(text: str) -> list[Token]:
    """A text in its order."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    text = _ASIDE.sub("", text)
    for phrase, instead in _PHRASES:
        text = phrase.sub(instead, text)
    found: list[Token] = []
    first, stamped = True, False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        written = match[0]
        if match["date"]:
            if not stamped:
                found.append(Token(written, f"@{written[:10]}", True))
        elif match["time"]:
            found.append(_time(written, match["half"]))
        elif match["code"]:
            found.append(Token(written, written, True))
        elif match["number"]:
            found += [Token(written, written, True)] if _is_code(match, found) else _number(match)
        elif kind == "mark":
            found.append(Token(written))
        elif written == "asof":
            stamped = True
            continue
        elif found and found[-1].term.startswith("#") and written.lower() in ("st", "nd", "rd", "th"):
            continue
        elif found and found[-1].term.startswith("#") and written.lower() in UNITS:
            found.append(Token(written.lower(), UNITS[written.lower()]))
        else:
            found.append(_word(written, first))
        first, stamped = written in ".!?;", False
    return _dated(found)


def _time(written: str, half: str | None) -> Token:
    hour, _, minute = written.partition(":")
    hours, minutes = int("".join(filter(str.isdigit, hour))), "".join(filter(str.isdigit, minute)) or "00"
    if half:
        hours = hours % 12 + (12 if half in "pP" else 0)
    return Token(written, f"@{hours}:{minutes}", True)


def _is_code(match: re.Match[str], before: list[Token]) -> bool:
    """Whether a number is a name, of which every digit counts: a version, a postcode, a serial number."""
    digits = match["number"]
    if match["sign"] or match["percent"] or match["scale"]:
        return False
    if len(digits) > _LONGEST or (digits[0] == "0" and digits[1:].isdecimal()):
        return True
    named = bool(before) and (before[-1].name or before[-1].large or before[-1].raw in ("version", "v", "release"))
    return named and digits.endswith("0") and "." in digits


def _number(match: re.Match[str]) -> list[Token]:
    digits = match["number"].rstrip(",")
    head, _, tail = digits.rpartition(",")
    if head and len(tail) != 3 and "." not in digits and "," not in head:
        digits = f"{head}.{tail}"
    try:
        value = Decimal(digits.replace(",", ""))
    except InvalidOperation:
        return [Token(match[0], match[0])]
    unit = (match["percent"] or "").lower()
    if scale := (match["scale"] or "").lower():
        value *= SCALES[scale]
    if unit == "bps":
        value /= 100
    term = f"#{value.normalize():f}{'%' if unit else ''}"
    made = [Token(match[0].lower(), term)]
    return [*made, Token(match["sign"], _SIGNS[match["sign"]])] if match["sign"] else made


def _word(written: str, first: bool) -> Token:
    raw = written.lower().replace("’", "'").removesuffix("'s")
    if raw in NUMBERS:
        return Token(raw, f"#{NUMBERS[raw]}")
    if raw in FILLERS or raw in DENIALS:
        return Token(raw)
    named = any(c.isdigit() for c in raw) or (written[0].isupper() and (not first or written.isupper()))
    cut = stem(raw)
    if cut in OPPOSITE:
        plain = OPPOSITE[cut]
        return Token(raw, "!" + SAME.get(plain, plain))
    return Token(raw, EXACT.get(raw) or SAME.get(cut, cut), named, named or written[0].isupper())


def _dated(tokens: list[Token]) -> list[Token]:
    """Dates written with the month's name, as one."""
    found: list[Token] = []
    skip = 0
    for index, token in enumerate(tokens):
        if skip:
            skip -= 1
            continue
        around = [other for other in tokens[index : index + 5] if other.raw not in (",", "of")][:3]
        date = _date([other.raw.rstrip(",") for other in around])
        if date:
            last = around[2] if date.count("-") > 1 else around[1]
            skip = tokens.index(last, index + 1) - index
            found.append(Token(token.raw, date, True))
        else:
            found.append(token)
    return found


def _date(raw: list[str]) -> str:
    if len(raw) < 2:
        return ""
    day, month = (raw[1], raw[0]) if raw[0] in MONTHS else (raw[0], raw[1])
    if month not in MONTHS or not day.isdecimal() or len(day) > 2:
        return ""
    year = f"{raw[2]}-" if len(raw) > 2 and raw[2].isdecimal() and len(raw[2]) == 4 else ""
    return f"@{year}{MONTHS[month]:02}-{int(day):02}"
