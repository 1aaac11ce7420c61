"""What a memory states, read by its words: its terms, what is denied, and of what it is a value."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from perdure.core.memory.booking import times_of
from perdure.core.memory.framing import PRONOUNS, Frame, frame_of
from perdure.core.memory.lexicon import DENIALS, DIRECTIONS, NOW
from perdure.core.memory.marking import Marks, marks_of
from perdure.core.memory.tokens import Token, tokens_of, unadorned

LONGEST: Final = 2_000
"""Characters of a memory that are read as one statement; longer ones are compared as they are written."""
_SCOPES: Final = frozenset({"not", "never", "without", "only", "except"})
"""Words that count for the one after them."""
_SYMBOL: Final = re.compile(
    r"[=!<>]=+|(?<!\S)--?[A-Za-z][\w-]*|(?<![\w.])/(?=\w)|\b\d+/\d+\b|\b(?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])\w{5,}\b|"
    r"(?<=[A-Za-z])[+#-](?![\w-])|(?<![\w.)-])[-\u2212](?=[\d.])|[<>|*^~\\°¥₹]|[\u2190-\u2bff\U0001f000-\U0001faff]|\+\+"
)
_ENDED: Final = re.compile(r"\b(?:no longer|any ?more|stopped|quit|ceased)\b", re.IGNORECASE)


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
    symbols: tuple[str, ...]
    """What tells things apart by signs that are neither letters nor digits, or by letters large and small: O+ is not
    O-, nor is 5 -5, `>` `>=`, or one key another.
    """
    personal: bool
    changed: bool
    """Whether it says that something is another way than before."""
    over: frozenset[str]
    """Terms of what it says is over; nothing if it does not say so."""
    booked: frozenset[str]
    """When something is booked that can be booked at other times too."""
    frame: Frame | None
    marks: Marks


Reading: TypeAlias = Callable[[str], Statement]
"""`read`, or what remembers what it has read."""


def read(text: str) -> Statement:
    """What a text states."""
    text = unadorned(text)
    tokens = tuple(tokens_of(text))
    said = [token for token in tokens if token.term]
    terms = tuple(token.term.removeprefix("!") for token in _listed(tokens) if token.term)
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
        symbols=tuple(sorted(_SYMBOL.findall(text))),
        personal=any(token.raw in PRONOUNS for token in tokens),
        changed=any(token.raw in NOW for token in tokens),
        over=_over(text, tokens, denied=denied),
        booked=times_of(tokens),
        frame=None if denied or len(text) > LONGEST else frame_of(tokens),
        marks=marks_of(text),
    )


def exchanged(one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> bool:
    """Whether somebody or something has another part: from one to another is not from another to one."""
    theirs = {word for word, _ in other}
    return any(part[0] in theirs and part not in other for part in one)


def _listed(tokens: tuple[Token, ...]) -> list[Token]:
    """The tokens, with lists (`tennis, chess and golf`) in an order of their own: it says nothing."""
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        end = index + 1
        if tokens[index].term:
            while end + 1 < len(tokens) and tokens[end].raw in (",", "and", "or") and tokens[end + 1].term:
                end += 2
        some = tokens[index:end]
        listed = any(token.raw in ("and", "or") for token in some) and not any(token.term[:1] == "#" for token in some)
        found += sorted(some, key=lambda token: token.term) if listed else some
        index = end
    return found


def _over(text: str, tokens: tuple[Token, ...], *, denied: bool) -> frozenset[str]:
    if denied and _ENDED.search(text):
        return frozenset(token.term.removeprefix("!") for token in tokens if token.term)
    raws = [token.raw for token in tokens]
    at = next((index for index, token in enumerate(tokens) if token.term == "switch"), None)
    if at is None or "from" not in raws[at:]:
        return frozenset()
    since = raws.index("from", at)
    until = raws.index("to", since) if "to" in raws[since:] else len(raws)
    return frozenset(token.term for token in (*tokens[:at], *tokens[since:until]) if token.term)


def _parts(tokens: tuple[Token, ...]) -> list[tuple[str, str]]:
    found = []
    for index, token in enumerate(tokens):
        if token.raw in DIRECTIONS or token.raw in _SCOPES:
            after = next((other.term for other in tokens[index + 1 : index + 4] if other.term), "")
            found.append((token.raw, after))
    return found
