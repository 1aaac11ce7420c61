"""What a memory states, read by its words: terms in which paraphrases meet, what is denied, and of what it is a value.

A statement of which something has one value at a time has a **frame**: a key, which says of what, and the value. Two
statements with one key and different values cannot both hold; the later one does.
"""

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from perdure.core.memory.lexicon import (
    ATTRIBUTES,
    BOUNDARIES,
    CHANGES,
    DENIALS,
    DIRECTIONS,
    ENDS,
    EXACT,
    EXCLUSIVE,
    FILLERS,
    HAPPENED,
    LINKS,
    MONTHS,
    NOW,
    NUMBERS,
    OPPOSITE,
    SAME,
    SCALES,
    TIMED,
    UNITS,
    WANTING,
)
from perdure.core.memory.words import stem

ALONE: Final = "alone"
"""In the key of a preference that does not say among what."""
LONGEST: Final = 2_000
"""Characters of a memory that are read as one statement; longer ones are compared as they are written."""
_TOKEN: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?)"
    r"|(?P<code>\d+(?:-\d+)+(?!\w))"
    r"|(?P<sign>[$€£])?(?P<number>\d[\d,]*(?:\.\d+)?)(?:\s*(?P<percent>%|percent\b|per cent\b|pct\b|bps\b)"
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
        (r"(?:more|greater|higher) than|in excess of", "above"),
        (r"(?:no less|not less) than|at least", "minimum"),
        (r"no longer|not anymore", "not"),
        (r"would like|would love", "wants"),
        (r"(?:takes|take) place", "is"),
        (r"(?:left|quit) [\w ]{1,40}? and(?: now)?(?= (?:works?|lives?)\b)", ""),
        (r"per annum|per year|a year|each year|every year", "yearly"),
        (r"per month|a month|each month|every month", "monthly"),
        (r"per week|a week|each week|every week", "weekly"),
        (r"per day|a day|each day|every day", "daily"),
        (r"(?:last )?(?:updated|checked|verified|seen)(?: on| at)? (?=\d{4}-)|as of (?=\d{4}-)", "asof "),
        (r"does not|did not|do not|is not|are not|was not", "not"),
    )
)
_SIGNS: Final = {"$": "usd", "€": "eur", "£": "gbp"}
_PRONOUNS: Final = frozenset("i me my mine myself i'm i've i'd i'll we our us".split())
_SETS: Final = frozenset("is are : = was equals became becomes moved moves".split())
_BEING: Final = frozenset("is are be been was were the a an not : =".split())
_TINY: Final = 6
"""Terms that a value may have at most."""


class Token(msgspec.Struct, frozen=True, gc=False):
    """A word, number or mark: as it is written (in small letters), and the term it stands for, if any."""

    raw: str
    term: str = ""
    name: bool = False
    """Whether it names something: written large within a sentence, or with digits in it."""


class Frame(msgspec.Struct, frozen=True):
    """Of what a statement gives the value, and the value."""

    key: frozenset[str]
    value: frozenset[str]


class Statement(msgspec.Struct, frozen=True):
    """A memory's content, read."""

    tokens: tuple[Token, ...]
    terms: tuple[str, ...]
    bag: frozenset[str]
    denied: bool
    numbers: frozenset[str]
    names: tuple[str, ...]
    parts: frozenset[tuple[str, str]]
    """Words that give the next one its part, with that."""
    personal: bool
    changed: bool
    """Whether it says that something is another way than before."""
    frame: Frame | None


def read(text: str) -> Statement:
    """What a text states."""
    tokens = tuple(_tokens(text))
    said = [token for token in tokens if token.term]
    terms = tuple(token.term.removeprefix("!") for token in said)
    turned = sum(token.term.startswith("!") for token in tokens) % 2 == 1
    denied = turned != any(token.raw in DENIALS for token in tokens)
    return Statement(
        tokens=tokens,
        terms=terms,
        bag=frozenset(terms),
        denied=denied,
        numbers=frozenset(term for term in terms if term[0] in "#@"),
        names=tuple(token.term for token in said if token.name),
        parts=frozenset(_parts(tokens)),
        personal=any(token.raw in _PRONOUNS for token in tokens),
        changed=any(token.raw in NOW for token in tokens),
        frame=None if denied or len(text) > LONGEST else _frame(tokens),
    )


def _tokens(text: str) -> list[Token]:
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
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
        elif match["code"]:
            found.append(Token(written, written, True))
        elif match["number"]:
            found += _number(match)
        elif kind == "mark":
            found.append(Token(written))
        elif written == "asof":
            stamped = True
            continue
        elif found and found[-1].term.startswith("#") and written.lower() in UNITS:
            found.append(Token(written.lower(), UNITS[written.lower()]))
        else:
            found.append(_word(written, first))
        first, stamped = written in ".!?;", False
    return _dated(found)


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
    return Token(raw, EXACT.get(raw) or SAME.get(cut, cut), named)


def _dated(tokens: list[Token]) -> list[Token]:
    """Dates written with the month's name, as one."""
    found: list[Token] = []
    skip = 0
    for index, token in enumerate(tokens):
        if skip:
            skip -= 1
            continue
        around = [other for other in tokens[index : index + 4] if other.raw != ","][:3]
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


def _parts(tokens: tuple[Token, ...]) -> list[tuple[str, str]]:
    found = []
    for index, token in enumerate(tokens):
        if token.raw in DIRECTIONS:
            after = next((other.term for other in tokens[index + 1 : index + 4] if other.term), "")
            found.append((token.raw, after))
    return found


# ── frames ──


def _frame(tokens: tuple[Token, ...]) -> Frame | None:
    if _happened(tokens):
        return None
    tokens = _without_origin(tokens)
    for find in (_lives, _works, _wants, _amount, _linked):
        frame = find(tokens)
        if frame is not None and frame.key and frame.value and len(frame.value) <= _TINY:
            return frame
    return None


def _happened(tokens: tuple[Token, ...]) -> bool:
    """Whether it tells what happened once, and not how something is."""
    before = ""
    for index, token in enumerate(tokens):
        raw, after = token.raw, tokens[index + 1].raw if index + 1 < len(tokens) else ""
        past = raw in HAPPENED or (len(raw) > 4 and raw.endswith("ed") and not raw.endswith("eed"))
        lasting = token.term in CHANGES or token.term in ("", "live", "favourite", "work")
        if past and not lasting and before not in _BEING and after not in _BEING and after != "by":
            return True
        before = raw
    return False


def _without_origin(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Without `from` and what follows it up to `to`: what a thing was before it changed."""
    raws = [token.raw for token in tokens]
    if "from" not in raws or not any(token.term in CHANGES or token.term == "live" for token in tokens):
        return tokens
    since = raws.index("from")
    if "to" in raws[since:]:
        until = raws.index("to", since)
        return tokens[:since] + tokens[until:]
    return tokens


def _terms(tokens: tuple[Token, ...]) -> frozenset[str]:
    return frozenset(token.term for token in tokens if token.term and token.term not in CHANGES)


def _cut(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Up to where something else begins."""
    for index, token in enumerate(tokens):
        if token.raw in ENDS or token.raw in ".;(," or (index > 1 and token.term.startswith("@")):
            return tokens[:index]
    return tokens


def _lives(tokens: tuple[Token, ...]) -> Frame | None:
    return _at_place(tokens, "live", ("in", "to", "at"), "live")


def _works(tokens: tuple[Token, ...]) -> Frame | None:
    return _at_place(tokens, "work", ("at", "for"), "work at") or _at_place(tokens, "work", ("as",), "work as")


def _at_place(tokens: tuple[Token, ...], verb: str, prepositions: tuple[str, ...], name: str) -> Frame | None:
    at = next((index for index, token in enumerate(tokens) if token.term == verb), None)
    if at is None:
        return None
    for index in range(at + 1, len(tokens)):
        if tokens[index].term:
            return None
        if tokens[index].raw in prepositions:
            subject = _terms(tokens[:at])
            if not subject.isdisjoint(ATTRIBUTES):
                return None
            rest = tokens[index + 1 :]
            return Frame(subject | {name}, _terms(_cut(rest))) if subject else None
    return None


def _amount(tokens: tuple[Token, ...]) -> Frame | None:
    """Amounts: numbers after what links them to their subject, or next to what there is one of at a time."""
    amounts = [index for index, token in enumerate(tokens) if token.term.startswith("#")]
    if not amounts or any(token.raw == "address" for token in tokens):
        return None
    linked = next((index for index, token in enumerate(tokens) if token.raw in LINKS or token.term in CHANGES), None)
    values = set[int]()
    for index in amounts:
        before = tokens[index - 1] if index else Token("")
        if before.raw == "#" or (index > 1 and before.raw == "-"):
            continue
        near = tokens[max(0, index - 2) : index] + tokens[index + 1 : index + 2]
        if linked < index if linked is not None else any(token.term in ATTRIBUTES for token in near):
            values.add(index)
    if not values:
        return None
    key = _terms(tuple(token for index, token in enumerate(tokens) if index not in values))
    if len(key) < 2:
        return None
    units = frozenset(tokens[index].term[-1] for index in values if tokens[index].term.endswith("%"))
    return Frame(key | {f"amount{len(values)}"} | units, frozenset(tokens[index].term for index in values))


def _wants(tokens: tuple[Token, ...]) -> Frame | None:
    """Somebody prefers one thing of a kind: the kind is the last word, or stands after a preposition."""
    at = next((index for index, token in enumerate(tokens) if token.term in WANTING), None)
    if at is None:
        return None
    said = _cut(tokens[at + 1 :])
    than = next((index for index, token in enumerate(said) if token.raw in ("than", "over")), None)
    if than is not None:
        chosen, other = _terms(said[:than]), _terms(said[than + 1 :])
        return Frame(_terms(tokens[: at + 1]) | chosen | other | {"than"}, frozenset(f"+{term}" for term in chosen))
    split = next((index for index, token in enumerate(said) if token.raw in BOUNDARIES), len(said))
    wanted = [token for token in said[:split] if token.term]
    beside = _terms(said[split:])
    if wanted and beside and said[split].raw in ("by", "via", "through"):
        return Frame(_terms(tokens[: at + 1]) | _terms(tuple(wanted)) | {"by"}, beside)
    if len(wanted) > 1:
        kind = beside | {wanted[-1].term}
        return Frame(_terms(tokens[: at + 1]) | kind | {"kind"}, _terms(tuple(wanted[:-1])))
    if wanted:
        return Frame(_terms(tokens[: at + 1]) | beside | {"for" if beside else ALONE}, _terms(tuple(wanted)))
    return None


def _linked(tokens: tuple[Token, ...]) -> Frame | None:
    """An attribute and its value: `the deadline is Friday`, `theme: dark`."""
    for index, token in enumerate(tokens):
        if token.raw in TIMED:
            key, value = _terms(tokens[: index + 1]), _terms(tokens[index + 1 :])
            return Frame(key, value) if len(value) == 1 and min(value)[0] == "@" else None
        if token.raw in _SETS or token.term in CHANGES:
            key, value = _terms(tokens[:index]), _terms(_cut(tokens[index + 1 :]))
            if len(value) == 1 and (state := EXCLUSIVE.get(*value)):
                return Frame(key | {state}, value)
            if len(key) < 2 or key.isdisjoint(ATTRIBUTES):
                return None
            return Frame(key | {"is"}, value)
    return None
