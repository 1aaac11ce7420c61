"""The days that a query speaks of: dates, months and years as English writes them, and days counted from now."""

import re
from collections.abc import Iterable
from datetime import date, timedelta
from math import exp
from typing import Final, NamedTuple

_NAMES: Final = "january february march april may june july august september october november december".split()
_MONTHS: Final = {name: at for at, name in enumerate(_NAMES, 1)} | {name[:3]: at for at, name in enumerate(_NAMES, 1)}
_MONTH: Final = "|".join(sorted({*_MONTHS, "sept"}, key=len, reverse=True))
_ISO: Final = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_WRITTEN: Final = re.compile(
    rf"(?:\b(?P<before>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+)?\b(?P<month>{_MONTH})\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+(?:of\s+)?(?P<year>(?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_RELATIVE: Final = re.compile(r"\b(?:yesterday|today|(?:last|this) (?:week|month|year))\b")
_AMBIGUOUS: Final = frozenset({"may", "march", "mar", "dec", "sep", "jan"})
"""Words or names that are months only in a month's place."""
_LEADS: Final = re.compile(
    r"\b(?:in|of|since|until|till|during|by|before|after|last|next|this|early|late|mid)\s+$", re.I
)
_DAY: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1).toordinal()
_TOLERANCE: Final = 7.0
_TOLERANCE_LONG: Final = 3.0
"""For months and years, whose edges are meant less loosely."""
_YEAR_ONLY: Final = 0.75
"""What a bare year counts for, beside a day or a month."""


class Span(NamedTuple):
    """Days that are meant, first to last, counted from 1970, and how much it counts to be among them."""

    first: int
    last: int
    weight: float = 1.0


def day(at: int) -> int:
    """The day of a moment in microseconds, counted from 1970."""
    return at // _DAY


def closeness(days: int, spans: Iterable[Span]) -> float:
    """How well a day fits what is meant: 1 inside, less and less outside."""
    best = 0.0
    for span in spans:
        away = max(span.first - days, days - span.last, 0)
        best = max(best, span.weight * exp(-away / tolerance(span)))
    return best


def tolerance(span: Span) -> float:
    """Days outside a span at which it counts for a third: things are told some days after they happened."""
    return _TOLERANCE if span.first == span.last else _TOLERANCE_LONG


def spans(query: str, *, first: int, last: int, now: int = 0) -> list[Span]:
    """The days that a query means. A date without a year is meant in each year from the day `first` to `last`."""
    years = range(_date(first).year, _date(last).year + 1)
    found: list[Span] = []
    rest = query
    for match in _ISO.finditer(query):
        _put(found, int(match[1]), int(match[2]), int(match[3] or 0))
        rest = _without(rest, match)
    for match in _WRITTEN.finditer(rest):
        if not _is_month(match):
            continue
        number = int(match["before"] or match["after"] or 0)
        for year in [int(match["year"])] if match["year"] else years:
            _put(found, year, _MONTHS[match["month"].lower()[:3]], number)
        rest = _without(rest, match)
    if not found:
        for match in _YEAR.finditer(rest):
            year = int(match[0])
            found.append(Span(_ordinal(date(year, 1, 1)), _ordinal(date(year, 12, 31)), _YEAR_ONLY))
    if now and not found:
        found += _relative(query.lower(), _date(day(now)))
    return found


def _relative(query: str, today: date) -> list[Span]:
    said = {match[0] for match in _RELATIVE.finditer(query)}
    if not said:
        return []
    monday = today - timedelta(days=today.weekday())
    first = today.replace(day=1)
    before = (first - timedelta(days=1)).replace(day=1)
    phrases = {
        "yesterday": (today - timedelta(days=1), today - timedelta(days=1)),
        "today": (today, today),
        "last week": (monday - timedelta(days=7), monday - timedelta(days=1)),
        "this week": (monday, today),
        "last month": (before, first - timedelta(days=1)),
        "this month": (first, today),
        "last year": (date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)),
        "this year": (date(today.year, 1, 1), today),
    }
    return [Span(_ordinal(a), _ordinal(b)) for phrase, (a, b) in phrases.items() if phrase in said]


def _put(found: list[Span], year: int, month: int, number: int) -> None:
    try:
        if number:
            one = _ordinal(date(year, month, number))
            found.append(Span(one, one))
        else:
            following = date(year + month // 12, month % 12 + 1, 1)
            found.append(Span(_ordinal(date(year, month, 1)), _ordinal(following) - 1))
    except ValueError:
        return  # no such day: it was something else


def _is_month(match: re.Match[str]) -> bool:
    word = match["month"]
    if match["before"] or match["after"] or match["year"] or word.lower() not in _AMBIGUOUS:
        return True
    ahead = match.string[: match.start("month")]
    return bool(_LEADS.search(ahead)) or (word[0].isupper() and bool(ahead.strip()))


def _without(text: str, match: re.Match[str]) -> str:
    return text[: match.start()] + " " * (match.end() - match.start()) + text[match.end() :]


def _date(days: int) -> date:
    return date.fromordinal(min(max(days + _EPOCH, 1), date.max.toordinal()))


def _ordinal(at: date) -> int:
    return at.toordinal() - _EPOCH
