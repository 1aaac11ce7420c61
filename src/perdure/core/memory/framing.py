"""Of what a statement gives the value: something of which there is one at a time.

Two statements with one key and different values cannot both hold; the later one does.
"""

from typing import Final

import msgspec

from perdure.core.memory.lexicon import (
    ATTRIBUTES,
    BOUNDARIES,
    CHANGES,
    ENDS,
    EXCLUSIVE,
    HAPPENED,
    LINKS,
    NUMBERED,
    TIMED,
    UNITS,
    WANTING,
)
from perdure.core.memory.tokens import Token
from perdure.core.memory.words import stem

ALONE: Final = "alone"
"""In the key of a preference that does not say among what."""
SELF: Final = "self"
"""In a key: whoever speaks."""
PRONOUNS: Final = frozenset("i me my mine myself i'm i've i'd i'll we our us".split())
_PLANNED: Final = frozenset("planned scheduled due expected slated booked".split())
_SETS: Final = frozenset("is are : = was equals became becomes moved moves".split())
_BEING: Final = frozenset("is are be been was were the a an not : =".split())
_IS: Final = frozenset("is are was were : =".split())
_SERVING: Final = frozenset({"use", "choose", "have", "keep"})
_QUANTITIES: Final = frozenset(UNITS.values())
_SEVERAL: Final = frozenset(
    map(
        stem,
        """
        one part kind sort type member friend fan half rest example result reason way most many thing subject point
        cost purpose date day time guest speaker winner story name
        """.split(),
    )
)
"""What there may be several of, or nobody is."""
_HOW: Final = frozenset("at by for from in of on to with".split())
_DONE: Final = frozenset("built made run led held kept sent put set paid taught sold bought told".split())
_ANY: Final = frozenset("a an his her their its".split())
_FEW: Final = 4
"""Words that tell who it is, at most."""
_SHORT: Final = 3
"""Words of a name at most."""
_TINY: Final = 6
"""Terms that a value may have at most."""


class Frame(msgspec.Struct, frozen=True):
    """Of what a statement gives the value, and the value."""

    key: frozenset[str]
    value: frozenset[str]


def frame_of(tokens: tuple[Token, ...]) -> Frame | None:
    """The frame of a statement that has one."""
    if happened(tokens):
        return None
    tokens = _without_origin(tokens)
    for find in (_lives, _works, _wants, _amount, _serves, _linked, _holds):
        frame = find(tokens)
        if frame is not None and frame.key and frame.value and len(frame.value) <= _TINY:
            return frame
    return None


def happened(tokens: tuple[Token, ...]) -> bool:
    """Whether it tells what happened once, and not how something is."""
    return deed_of(tokens) is not None


def deed_of(tokens: tuple[Token, ...]) -> int | None:
    """Where the verb stands that tells what happened once; nowhere if it tells how something is."""
    before = ""
    for index, token in enumerate(tokens):
        raw, after = token.raw, tokens[index + 1].raw if index + 1 < len(tokens) else ""
        past = raw in HAPPENED or (len(raw) > 4 and raw.endswith("ed") and not raw.endswith("eed"))
        lasting = token.term in CHANGES or token.term in ("", "live", "favourite", "work")
        if past and not lasting and before not in _BEING and after not in _IS and after != "by":
            return index
        before = raw
    return None


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
    found = {token.term for token in tokens if token.term and token.term not in CHANGES}
    return frozenset(found | {SELF} if any(token.raw in PRONOUNS for token in tokens) else found)


def _cut(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Up to where something else begins."""
    for index, token in enumerate(tokens):
        if token.raw in ENDS or token.raw in ".;(," or (index > 1 and token.term.startswith("@")):
            return tokens[:index]
    return tokens


def _lives(tokens: tuple[Token, ...]) -> Frame | None:
    found = _at_place(tokens, "live", ("in", "to", "at"), "live")
    if found is None or any(term[0] in "#@" or term in EXCLUSIVE for term in found.value):
        return None  # what is moved to another day lives nowhere
    return found


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
    values = {index for index in amounts if counts(tokens, index)}
    if not values:
        return None
    key = _terms(tuple(token for index, token in enumerate(tokens) if index not in values))
    if len(key) < 2:
        return None
    units = frozenset(tokens[index].term[-1] for index in values if tokens[index].term.endswith("%"))
    return Frame(key | {f"amount{len(values)}"} | units, frozenset(tokens[index].term for index in values))


def counts(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether a number says how much, and is not the name of something: chapter 7, ticket #7."""
    before = tokens[index - 1] if index else Token("")
    after = tokens[index + 1] if index + 1 < len(tokens) else Token("")
    if before.raw == "#" or (index > 1 and before.raw == "-"):
        return False
    exact = not tokens[index].term[1:].isdecimal() or after.raw in ("$", "€", "£") or after.term in _QUANTITIES
    links = [at for at, token in enumerate(tokens) if token.raw in LINKS or token.term in CHANGES]
    linked = max((at for at in links if at < index), default=None)
    if linked is not None:
        between = any(token.term for token in tokens[linked + 1 : index])
        if between and tokens[linked].raw == "to":  # to run 5 km: to do something
            return False
        named = before.term and before.raw not in LINKS and before.term not in (ATTRIBUTES - NUMBERED) | CHANGES
        return exact or not (named or (between and tokens[linked].raw == "at"))
    if links:
        return False
    if index > 1 and tokens[index - 2].raw in ("in", "since", "until"):  # a bug in version 7: that one
        return False
    near = (*tokens[max(0, index - 2) : index], after)
    if exact:
        return any(token.term in ATTRIBUTES for token in near)
    return before.term in ATTRIBUTES and before.term not in NUMBERED


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


def _serves(tokens: tuple[Token, ...]) -> Frame | None:
    """What serves somebody as something there is one of: `uses Rust as the main language`."""
    at = next((index for index, token in enumerate(tokens) if token.term in _SERVING), None)
    part = next((index for index, token in enumerate(tokens) if token.raw == "as"), None)
    if at is None or part is None or part < at:
        return None
    served = _terms(_cut(tokens[part + 1 :]))
    if served.isdisjoint(ATTRIBUTES):
        return None
    return Frame(_terms(tokens[: at + 1]) | served | {"as"}, _terms(tokens[at + 1 : part]))


def _linked(tokens: tuple[Token, ...]) -> Frame | None:
    """An attribute and its value: `the deadline is Friday`, `theme: dark`, `is on the free plan`."""
    for index, token in enumerate(tokens):
        if token.raw in TIMED:
            key, value = _terms(tokens[: index + 1]), _terms(tokens[index + 1 :])
            return Frame(key, value) if len(value) == 1 and min(value)[0] == "@" else None
        if token.raw in _SETS or token.term in CHANGES:
            key = _terms(tokens[:index])
            said = [each for each in _cut(tokens[index + 1 :]) if each.raw not in _SETS | _PLANNED]
            value = _terms(tuple(said))
            if _is_done(said):  # who it is owned by is one thing, what it is written in another
                key, value = key | {said[0].raw}, value - {said[0].term}
            if "name" in value and all(each.raw != "call" for each in said):  # it is called so
                key, value = key | {"name"}, value - {"name"}
            if len(value) == 1 and (state := EXCLUSIVE.get(*value)):
                return Frame(key | {state}, value)
            dated = len(value) == 1 and min(value)[0] == "@"
            if dated or (len(key) > 1 and not key.isdisjoint(ATTRIBUTES)):
                return Frame(key | {"is"}, value)
            kind = next((each.term for each in reversed(said) if each.term), "")
            placed = any(each.raw in ("on", "to") for each in said[:2])
            return Frame(key | {kind, "on"}, value - {kind}) if placed and key and kind in ATTRIBUTES else None
    return None


def _is_done(said: list[Token]) -> bool:
    """Whether something is done to it, and the value says by whom, in or with what."""
    done = bool(said) and (said[0].raw.endswith(("ed", "en")) or said[0].raw in _DONE)
    return done and len(said) > 2 and said[1].raw in _HOW


def _holds(tokens: tuple[Token, ...]) -> Frame | None:
    """Who is the one: `Kim is the manager of the shop`, `the sponsor of Project Fern is Kim`."""
    tokens = tuple(token for token in tokens if token.raw not in ("now", "currently"))
    at = next((index for index, token in enumerate(tokens) if token.raw in ("is", "became")), None)
    if at is None or not 0 < at < len(tokens) - 1:
        return None
    before, after = tokens[:at], _cut(tokens[at + 1 :])
    for said, who in ((after, before), (before, after)):
        of = next((place for place, each in enumerate(said[:-1]) if each.raw in ("of", "for", "at")), None)
        if of is None or said[0].raw != "the" or said[of + 1].raw in _ANY or len(who) > _FEW:
            continue
        part, key = _terms(said[:of]), _terms(said)
        known = said is after and not part.isdisjoint(ATTRIBUTES | {"ceo"})
        if len(key) > 1 and (known or (_is_one(part) and any(map(_is_named, said[of:])) and _is_name(who))):
            return Frame(key | {"is"}, _terms(who))
    return None


def _is_one(part: frozenset[str]) -> bool:
    """Whether there is one such at a time, as far as can be told."""
    return bool(part) and part.isdisjoint(_SEVERAL)


def _is_name(tokens: tuple[Token, ...]) -> bool:
    """Whether it is a name and nothing else; the first word of a sentence has its capital anyhow."""
    told = [token for token in tokens if token.raw != "."]
    named = bool(told) and len(told) <= _SHORT and all(map(_is_named, told[1:]))
    named = named and not any(token.term[:1] in ("#", "@") for token in told)
    return named and (_is_named(told[0]) or (told[0] is tokens[0] and bool(told[0].term) and len(told) > 1))


def _is_named(token: Token) -> bool:
    return token.name or "-" in token.raw or any(sign.isdecimal() for sign in token.raw)
