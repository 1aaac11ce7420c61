"""Finding personal data and credentials in text and in plain data, and masking what is found.

Shapes are matched, and where a shape has a check (Luhn, mod 97, address ranges) the check must hold. What has no shape,
such as a name, a street or a password in prose, is not found: this lowers a risk, it does not end it.

Every pattern is bounded or free of nested choice, so the time to search a text grows with its length and no faster.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from perdure.core.session.values import Ref

PII: Final = "pii"
CREDENTIALS: Final = "credentials"
ALL: Final = "all"
MAX_NAME: Final = 80
_LOOKED_AT: Final = 16_384
"""Characters: what follows the part of a text that is shown, where a secret in it may have its end."""

Span = tuple[int, int]


class Found(NamedTuple):
    """A kind of thing, and where it stands in a text."""

    kind: str
    start: int
    end: int


class Detector(NamedTuple):
    """How one kind of thing is found. None of it is there unless one of the `hints` is."""

    kind: str
    group: str
    hints: tuple[str, ...]
    search: Callable[[str], Iterator[Span]]


@cache
def _pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(source, flags)


def _matching(
    source: str, proves: Callable[[str], bool] = lambda _: True, *, part: int = 0, flags: int = 0
) -> Callable[[str], Iterator[Span]]:
    """Search by a pattern; `part` is the group that is meant, `proves` the check it must pass."""

    def search(text: str) -> Iterator[Span]:
        for found in _pattern(source, flags).finditer(text):
            if proves(found[part]):
                yield found.span(part)

    return search


def _running(source: str, proves: Callable[[str], bool], fewest: int) -> Callable[[str], Iterator[Span]]:
    """Search for numbers written in groups: where others stand beside them, as many groups are left out as it takes."""

    def search(text: str) -> Iterator[Span]:
        place = 0
        while (found := _pattern(source).search(text, place)) is not None:
            end = _end(found[0], proves, fewest)
            if end:
                yield found.start(), found.start() + end
            place = found.start() + (end or _next_group(found[0]))

    return search


def _end(text: str, proves: Callable[[str], bool], fewest: int) -> int:
    """Where the longest number that begins a text ends; 0 when none does."""
    while sum(character.isdigit() for character in text) >= fewest:
        if proves(text):
            return len(text)
        text = _pattern(r"\D*\d+$").sub("", text)
    return 0


def _next_group(text: str) -> int:
    found = _pattern(r"\D+").search(text, 1)
    return len(text) if found is None else found.end()


# ── personal data ─────────────────────────────────────────────────────────────────────────────────

_EMAIL = (
    r"(?<![\w.+%-])(?!git@)[^\W_](?:[\w.+%'-]{0,62}[\w+%-])?@"
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])"
)
_PHONES = (
    r"\+\d{1,3}[ .\-/\u00a0]?(?:\(\d{1,4}\)[ .\-\u00a0]?)?\d[\d .\-/\u00a0]{4,18}\d",
    r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}",
    r"\(0\d{1,4}\)[ -]?\d[\d -]{3,10}\d|0\d{1,4}[ /-]\d[\d -]{3,10}\d",
)
_PHONE = rf"(?<![\w.+/@:=#-])(?:{'|'.join(_PHONES)})(?![\w@]|[.,-]\d)"
_DATE = r"\d{1,4}[-/. ]\d{1,2}[-/. ]\d{1,4}(?: .*)?"
_CARD = (
    r"(?<![\w.-])(?:\d{13,19}|\d{4}(?:[ -]\d{4}){2}[ -]\d{1,4}(?:[ -]\d{1,3})?|\d{4}[ -]\d{6}[ -]\d{4,5})(?![\w-]|\.\d)"
)
_SSN = r"(?<![\w-])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d\d\1(?!0000)\d{4}(?![\w-])"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"(?<![\w.-])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w-]|\.\d)"
_IPV6 = r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.\d{1,3}){0,3}(?![\w:])"
_NUMBERED = r"(?:version|release|build|section|chapter|clause|v|ver|§)[.:]?\s{0,2}$"
_IBAN = r"(?<![A-Za-z0-9])[A-Z]{2}\d\d"
_IBAN_LENGTHS: Final = dict(
    word.split(":")
    for word in (
        "AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DK:18 DO:28 "
        "EE:20 EG:29 ES:24 FI:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HR:21 HU:28 IE:22 IL:23 IQ:23 IS:26 "
        "IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 MK:19 MR:27 MT:31 MU:30 "
        "NL:18 NO:15 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 SA:24 SC:31 SE:24 SI:19 SK:24 SM:27 ST:25 SV:28 TL:23 "
        "TN:24 TR:26 UA:29 VA:22 VG:24 XK:20"
    ).split()
)


def _emails(text: str) -> Iterator[Span]:
    """Addresses, but for what stands before the host of a URL."""
    for found in _pattern(_EMAIL).finditer(text):
        if not _pattern(r"://[^\s/@]*$").search(text, max(0, found.start() - 100), found.start()):
            yield found.span()


def _is_phone(text: str) -> bool:
    digits = sum(character.isdigit() for character in text)
    return (
        8 <= digits <= 15
        and any(_pattern(shape).fullmatch(text) for shape in _PHONES)
        and not _pattern(_DATE).fullmatch(text)
    )


def _is_card(text: str) -> bool:
    digits = [int(character) for character in text if character.isdigit()]
    number = "".join(map(str, digits))
    lengths: dict[str, tuple[int, ...]] = {"3": (14, 15, 16), "4": (13, 16, 19), "5": (16,), "2": (16,), "6": (16, 19)}
    if len(digits) not in lengths.get(number[0], ()) or len(set(digits)) < 2:
        return False
    if number[0] == "2" and not 2221 <= int(number[:4]) <= 2720:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


def _ibans(text: str) -> Iterator[Span]:
    for found in _pattern(_IBAN).finditer(text):
        end = _iban_end(text, found.start())
        if end is not None:
            yield found.start(), end


def _iban_end(text: str, start: int) -> int | None:
    """Where the account number that begins here ends, if it is one; single spaces may stand in it."""
    wanted, held, place = int(_IBAN_LENGTHS.get(text[start : start + 2], 0)), "", start
    while len(held) < wanted and place < len(text):
        character = text[place]
        if character.isascii() and (character.isdigit() or character.isupper()):
            held += character
        elif character != " " or text[place - 1] == " ":
            return None
        place += 1
    if not wanted or len(held) < wanted or (place < len(text) and text[place].isalnum()):
        return None
    number = int("".join(str(int(character, 36)) for character in held[4:] + held[:4]))
    return place if number % 97 == 1 else None


def _addresses(text: str) -> Iterator[Span]:
    from ipaddress import ip_address

    for source in (_IPV4, _IPV6):
        for found in _pattern(source).finditer(text):
            if source is _IPV6 and not _is_wide(found[0]):
                continue
            try:
                address = ip_address(found[0])
            except ValueError:
                continue
            before = text[max(0, found.start() - 12) : found.start()].lower()
            if address.is_loopback or address.is_unspecified or _pattern(_NUMBERED).search(before):
                continue
            yield found.span()


def _is_wide(text: str) -> bool:
    """Rather an address than two names with colons between, or a time of day."""
    groups = [group for group in text.split(":") if group]
    return len(groups) > 1 and any(character.isdigit() for character in text) and ("::" in text or len(groups) == 8)


# ── credentials ───────────────────────────────────────────────────────────────────────────────────

_JWT = r"(?<![\w-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
_API_KEYS = (
    r"sk-ant-[A-Za-z0-9_-]{20,}",
    r"sk-(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{20,}",
    r"sk-[A-Za-z0-9]{32,}",
    r"gh[pousr]_[A-Za-z0-9]{36,}",
    r"github_pat_[A-Za-z0-9_]{22,}",
    r"glpat-[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"https://hooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{20,}",
    r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"whsec_[A-Za-z0-9+/]{24,}={0,2}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"SK[0-9a-f]{32}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgE[A-Za-z0-9_-]{40,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"r8_[A-Za-z0-9]{30,}",
    r"gsk_[A-Za-z0-9]{40,}",
    r"xai-[A-Za-z0-9]{40,}",
    r"dop_v1_[0-9a-f]{64}",
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    r"\d{8,10}:AA[A-Za-z0-9_-]{33}",
    r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
)
_API_KEY = rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_API_KEYS)})(?![A-Za-z0-9_])"
_AWS = r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
_AWS_SECRET = (
    r"(?i:aws\w{0,20}secret\w{0,20}|secret_?access_?key)[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
    r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
_PRIVATE_KEY = (
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_BEARER = (
    r"(?<![A-Za-z])(?i:bearer|authorization[\"']?:\s{0,3}[\"']?(?:basic|token))\s{1,3}"
    r"([A-Za-z0-9._~+/-]{16,}={0,2})"
)
_URL = r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@?#]{0,100}:([^\s/@?#]{1,200})@"
_SECRET_NAME = (
    r"(?:pass(?:word|wd|phrase)|pwd|(?:client|app|shared|signing)?[_-]?secret(?:[_-]?key)?|"
    r"(?:api|access|private|account|encryption)[_-]?key|(?:access|auth|refresh|api|bearer)[_-]?token)"
)
_ASSIGNED = rf"(?<![A-Za-z])(?i:{_SECRET_NAME})[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?([^\s\"',;&<>{{}}()]{{8,200}})"
_BLANKS: Final = frozenset({"password", "passwd", "secret", "changeme", "example", "redacted", "required", "undefined"})


def _is_secret(text: str) -> bool:
    """Neither a placeholder, nor a name of something else, nor what is left of something masked."""
    plain = text.strip("*xX.…-_ ")
    if not plain or plain.lower() in _BLANKS or text[0] in "$%[<{" or "://" in text:
        return False
    if _pattern(r"[A-Za-z_][A-Za-z_.]*\[.*").fullmatch(text):
        return False
    return any(character.isdigit() for character in text) or not _pattern(r"[A-Za-z_.-]*").fullmatch(text)


def _is_token(text: str) -> bool:
    return any(character.isdigit() for character in text)


def _is_password(text: str) -> bool:
    """In a URL anything stands for a password, but for a placeholder."""
    return text[0] not in "$%[<{*" and text.lower() not in {*_BLANKS, "pass", "pwd", "x", "xxx", "xxxx"}


DETECTORS: Final = (
    Detector("private_key", CREDENTIALS, ("PRIVATE KEY",), _matching(_PRIVATE_KEY, flags=re.DOTALL)),
    Detector("jwt", CREDENTIALS, ("eyJ",), _matching(_JWT)),
    Detector("api_key", CREDENTIALS, (), _matching(_API_KEY)),
    Detector("aws_key", CREDENTIALS, ("AKIA", "ASIA", "ABIA", "ACCA"), _matching(_AWS)),
    Detector("aws_key", CREDENTIALS, ("ecret", "ECRET"), _matching(_AWS_SECRET, part=1)),
    Detector("bearer", CREDENTIALS, ("earer", "EARER", "thoriz", "THORIZ"), _matching(_BEARER, _is_token, part=1)),
    Detector("url_password", CREDENTIALS, ("://",), _matching(_URL, _is_password, part=1)),
    Detector("secret", CREDENTIALS, (":", "="), _matching(_ASSIGNED, _is_secret, part=1)),
    Detector("email", PII, ("@",), _emails),
    Detector("iban", PII, (), _ibans),
    Detector("card", PII, (), _running(_CARD, _is_card, 13)),
    Detector("ssn", PII, (), _matching(_SSN)),
    Detector("ip", PII, (".", ":"), _addresses),
    Detector("phone", PII, (), _running(_PHONE, _is_phone, 8)),
)
KINDS: Final = tuple(dict.fromkeys(detector.kind for detector in DETECTORS))
_NAMED = rf"(?i:(?:\w{{0,40}}[_-])?{_SECRET_NAME})"


def find(text: str, what: str = ALL) -> list[Found]:
    """All that is found in a text, in order and apart; what overlaps is one, of the kind that begins first."""
    wanted = [item for item in DETECTORS if what in (ALL, item.group)]
    spans = [
        Found(item.kind, start, end)
        for item in wanted
        if not item.hints or any(hint in text for hint in item.hints)
        for start, end in item.search(text)
    ]
    apart: list[Found] = []
    for found in sorted(spans, key=lambda item: (item.start, -item.end)):
        if apart and found.start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(apart[-1].end, found.end))
        else:
            apart.append(found)
    return apart


def mask(text: str, what: str = ALL) -> str:
    """The text with the kind of each thing in its place: `write to [email]`."""
    for found in reversed(find(text, what)):
        text = f"{text[: found.start]}[{found.kind}]{text[found.end :]}"
    return text


def brief(text: str, longest: int, what: str = ALL) -> str:
    """The beginning of a text, masked; however long the text is, only so much is looked at that no half of a secret
    is left at the end.
    """
    return mask(text[: longest + _LOOKED_AT], what)[:longest]


def holds(value: Any, what: str = ALL) -> bool:
    """Whether something is found anywhere in a value: in its texts, its keys, under the name of a secret."""
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is dict:
            if any(_is_named(key, held, what) for key, held in item.items()):
                return True
            stack += [*item, *item.values()]
        elif kind in (list, tuple, set, frozenset):
            stack += item
        elif _is_number(item, what) or ((text := _text(item)) is not None and find(text, what)):
            return True
    return False


def masked(value: Any, what: str = ALL) -> Any:
    """The value with everything found in it masked; its shape, and the types of what it holds, stay."""
    kind = type(value)
    if kind is dict:
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = _unused(mask(key, what), made)
            made[name] = "[secret]" if _is_named(key, item, what) else masked(item, what)
        return made
    if kind in (list, tuple, set, frozenset):
        return kind(masked(item, what) for item in value)
    if _is_number(value, what):
        return 0
    text = _text(value)
    if text is None or not find(text, what):
        return value
    if kind is Ref:
        return Ref(mask(text, what), value.sha256)
    return mask(text, what) if kind is str else mask(text, what).encode()


def _unused(name: str, taken: dict[str, Any]) -> str:
    """Several keys may look alike once masked; none of what they hold is lost."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name} {number}", number + 1
    return found


def _text(value: Any) -> str | None:
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value.uri if type(value) is Ref else value if type(value) is str else None


def _is_named(key: Any, value: Any, what: str) -> bool:
    """A text under a key such as `password` or `api_key`."""
    if what == PII or type(value) is not str or not value or type(key) is not str or len(key) > MAX_NAME:
        return False
    return _pattern(_NAMED).fullmatch(key) is not None and _is_password(value)


def _is_number(value: Any, what: str) -> bool:
    """A card's number kept as one."""
    return type(value) is int and what != CREDENTIALS and 10**14 <= value < 10**16 and _is_card(str(value))
