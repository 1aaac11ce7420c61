"""Whether two statements that look alike are contrary: then the later one counts, however alike they are."""

import re
from typing import Final

from perdure.core.memory.lexicon import DENIALS
from perdure.core.memory.statements import Statement

_SIDES: Final[dict[str, set[str]]] = {}
"""What each word is contrary to."""
for _line in """
may can|avoid cannot must never refuse
may must|need
positive|negative
safe harmless fine|dangerous harmful risky avoid
always|never
up|down
over above|under below
on|off
increase increases raise raises rose|decrease decreases lower lowers fell cut
valid|invalid
trust trusts|distrust distrusts
buy buys|sell sells
encrypt encrypts|decrypt decrypts
include includes including|exclude excludes excluding
ahead|behind
nobody|anybody everybody
allow allows allowed|forbid forbids forbidden ban banned
friend|enemy
welcome welcomes|refuse refuses
maximum max most|minimum min least
morning|evening night
benign|malignant
all every|some
eat eats|avoid avoids
drink drinks|avoid avoids
like likes love loves|hate hates dislike dislikes
""".strip().splitlines():
    _one, _other = (set(_words.split()) for _words in _line.split("|"))
    for _word in _one:
        _SIDES.setdefault(_word, set()).update(_other)
    for _word in _other:
        _SIDES.setdefault(_word, set()).update(_one)
_UNITS: Final = frozenset(
    """
    mcg mg g kg lb lbs oz ml l litre litres liter liters gallon gallons unit units iu mm cm m km metre metres meter
    meters mile miles mi mph km/h foot feet ft inch inches kb mb gb tb $ € £ usd eur gbp dollar dollars euro euros pound
    pounds second seconds minute minutes hour hours day days week weeks month months year years daily weekly monthly
    yearly percent % celsius fahrenheit eu us uk
    """.split()
)
_WORDS: Final = re.compile(r"[a-z]+(?:/[a-z]+)?|[$€£%]")


def contrary(one: Statement, other: Statement) -> bool:
    """Whether one denies what the other says, has the opposite of one of its words, or measures otherwise."""
    if one.denied != other.denied:
        return True
    first, second = ({word for token in each.tokens for word in _WORDS.findall(token.raw)} for each in (one, other))
    mine, theirs = first - second, second - first
    if any(not theirs.isdisjoint(_SIDES.get(word, ())) for word in mine):
        return True
    return not mine.isdisjoint(_UNITS) and not theirs.isdisjoint(_UNITS)


def denies_else(one: Statement, other: Statement) -> bool:
    """Whether one denies something, and nothing of what the other says: who is `not married` may well be `single`."""
    if one.denied == other.denied:
        return False
    denying, told = (one, other) if one.denied else (other, one)
    denied = _denied(denying)
    return bool(denied) and denied.isdisjoint(told.bag)


def _denied(statement: Statement) -> set[str]:
    """What comes after the first word that denies; and words that deny what others say."""
    at = next((at for at, token in enumerate(statement.tokens) if token.raw in DENIALS), len(statement.tokens))
    after = {token.term.removeprefix("!") for token in statement.tokens[at + 1 :] if token.term}
    return after | {token.term[1:] for token in statement.tokens if token.term.startswith("!")}
