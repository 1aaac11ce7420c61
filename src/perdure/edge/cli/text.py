"""Text made harmless, and numbers in words. Invariant: nothing that was stored can drive the terminal.

Control characters, bidirectional and invisible formatting and lone surrogates are shown as escapes (`\\x1b`).
Markup of rich is never read at all: every console here has it off.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_SPACE: Final = re.compile(r"\s+")
_PARAMETERS: Final = {
    "without seal, key and vault": "without --key-file and --vault",
    "without seal=False": "in a program, without seal=False",
    "make it with seal=False": "make it in a program, with seal=False",
    "key=": "--key-file",
    "vault=": "--vault",
    "cold=": "--cold",
    "overwrite=True": "--overwrite",
    "restore() brings it back": "perdure memory restore brings it back",
    "find lists those there are": "perdure sessions list shows those there are",
    "end it with complete() or terminate() first": (
        "end it first, for which there is no command: in a program, with complete() or terminate(); "
        'over HTTP, POST /v1/sessions/ID/transitions {"event": "terminate"}'
    ),
}
"""What the library's messages say, and what it is called here."""
_PARAMETER: Final = re.compile(rf"(?<![^ (])(?:{'|'.join(map(re.escape, _PARAMETERS))})(?![^ ,;:.)])")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, which is all that can be spelled."""


def clean(text: str) -> str:
    """The text with everything that acts instead of showing spelled out; newlines stay."""
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n")).expandtabs(4)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x1_0000 else f"\\U{code:08x}"


def one_line(text: str, width: int | None = None) -> str:
    """The text, clean, on one line and cut to a width."""
    line = _SPACE.sub(" ", clean(text)).strip()
    if width is not None and len(line) > width:
        return line[: max(0, width - 1)] + "…"
    return line


def few(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(one_line(name, 80) for name in names[:most]) + more


def as_options(message: str) -> str:
    """A message of the library in the words of the command line: `vault=` is `--vault` here. What is part of a path or
    a value stays as it is.
    """
    return _PARAMETER.sub(lambda found: _PARAMETERS[found.group()], message)


def moment(micros: int) -> str:
    """A time as RFC 3339 in UTC, to the microsecond: the spelling in every JSON document."""
    micros = min(max(micros, FIRST), LAST)
    return (
        datetime.fromtimestamp(micros // 1_000_000, UTC)
        .replace(microsecond=micros % 1_000_000)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def micros(spelled: Any) -> int | None:
    """The time that an ISO 8601 text in UTC spells, `2026-01-31T12:00:00Z`; None for whatever is none."""
    if type(spelled) is not str or not spelled.endswith("Z"):
        return None
    try:
        whole = datetime.fromisoformat(spelled) - datetime(1970, 1, 1, tzinfo=UTC)
    except ValueError:
        return None
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds


def day_and_time(micros: int) -> str:
    """A time for people, in UTC, to the second."""
    micros = min(max(micros, FIRST), LAST)
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(micros: int, now: int) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = (now - micros) // 1_000_000
    if seconds < 0:
        return f"in {span(-seconds)}"
    return f"{span(seconds)} ago" if seconds else "now"


def span(seconds: int) -> str:
    """A duration in its largest whole unit."""
    return next((f"{seconds // size} {unit}" for size, unit in _UNITS if seconds >= size), "0 s")


def size(count: int) -> str:
    """Bytes in the largest unit that fits."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def counted(number: int, word: str) -> str:
    """`1 turn`, `2 turns`, `2 branches`, `2 memories`."""
    if number == 1:
        return f"1 {word}"
    if word.endswith("ory"):
        return f"{number:,} {word[:-1]}ies"
    return f"{number:,} {word}{'es' if word.endswith(('s', 'h')) else 's'}"


def dollars(micros: int) -> str:
    """Micro-dollars as dollars, exactly."""
    whole, rest = divmod(micros, 1_000_000)
    return f"${whole}.{rest:06d}".rstrip("0").rstrip(".") if rest else f"${whole}"
