"""What marks a statement as one about somebody or something else, whatever else it says: somebody's mother is not that
person, a left knee is not the right one, a junior is not the senior, and the way back is not the way there.
"""

import re
from typing import Final, NamedTuple

from perdure.core.memory.lexicon import EXCLUSIVE
from perdure.core.memory.moods import PLAINLY, mood_of
from perdure.core.memory.topics import term_of

_PARTNERS: Final = r"husband|wife|spouse|fianc[eé]e?|boyfriend|girlfriend|roommate|flatmate|neighbou?r"
_RELATIVES: Final = (
    r"\w+-in-law|mother|father|mum|mom|dad|parents?|sister|brother|sibling|son|daughter|child|children|kids?|uncle|aunt|"
    rf"cousin|niece|nephew|gran(?:ny|d?ma|d?pa|dad)?|nana|(?:grand|step)\w{{3,}}|ex-\w+|{_PARTNERS}"
)
_WHOSE: Final = r"\b(?:my|your|his|her|their|our)"
_KIN: Final = rf"(?:['’]s?|{_WHOSE})\s+(?:\w+\s+)?({_RELATIVES})\b(?!-in-law| (?-i:[A-Z])[a-z])"
"""Unless it is named: who somebody's neighbour Carol is, her name tells."""
_TOLD: Final = re.compile(rf"(?<=\w)\s+{_WHOSE}\s+(?:\w+\s+)?(?:{_RELATIVES})(?=\s*(?:[.,;!]|$))", re.IGNORECASE)
"""Kin at the end is what a statement tells of somebody: in an emergency one is to call her father."""
_BESIDE: Final = re.compile(
    rf"(\b(?-i:[A-Z])\w*) \((?:(?:the|an?|my|your|his|her|their|our|[\w-]+['’]s?) )+(?:[\w-]+ )?(?:{_RELATIVES})\)",
    re.IGNORECASE,
)
"""Who somebody is, told beside the name: Clarissa (User's stepsister)."""
_PARTNER: Final = re.compile(rf"['’]s?\s+({_PARTNERS})(?= is (?-i:[A-Z])[a-z])", re.IGNORECASE)
"""Who somebody's partner is can be told without such a word: they are married, they share a flat."""
_RELATIVE: Final = re.compile(rf"\b(?:{_RELATIVES})\b", re.IGNORECASE)
_KIN_AS: Final = {
    "mum": "mother", "mom": "mother", "dad": "father", "kid": "child", "boy": "son", "girl": "daughter",
    "gran": "grandmother", "granny": "grandmother", "grandma": "grandmother", "nana": "grandmother",
    "grandpa": "grandfather", "granddad": "grandfather", "grandad": "grandfather",
}  # fmt: skip
_SIDE: Final = (
    r"\b(left|right)[- ](?:hand|knee|leg|arm|eye|ear|foot|shoulder|hip|ankle|wrist|elbow|thumb|side|lung|kidney|wing|"
    r"lane|bank|door|wheel|shoe|glove|speaker|channel)\b"
)
_APART: Final = re.compile(
    r"(?:^(?:the |an? )?|\b(?:the|his|her|their|my|our|its) |['’]s? )"
    r"(left|right|front|rear|upper|lower|inner|outer|morning|afternoon|evening|night|summer|winter|weekday|weekend|"
    r"primary|secondary|staging|production)[- ](?!and\b|or\b)[a-z]",
    re.IGNORECASE,
)
"""Of things that differ in this there are several: the left valve, the evening dose."""
_LATER: Final = r"\b(jr|sr|junior|senior|the (?:elder|younger))\b"
_AFTER: Final = r"(?=[ .,:;!?)]|['’][sS]\b|$)"
_LETTER: Final = re.compile(
    rf"(?:(?<=[a-z] )|(?<=[a-z] \())([A-HJ-Z]){_AFTER}|(?:(?<=[A-Z] )|^)([B-HJ-Z]){_AFTER}"
    r"|(?<=[A-Z] )(A)(?= (?:IS|ARE|WAS|HAS|AND|OR)\b|[.,:;!?]|['’][sS]\b|$)"
)
"""A letter that is a name: line A, plan B. Among capitals an A may be no name."""
_MARKS: Final = re.compile(f"{_KIN}|{_SIDE}|{_LATER}", re.IGNORECASE)
_WORDS: Final = re.compile(r"[\w-]+")
_LARGE: Final = r"[A-Z][\w-]*(?: [A-Z\d][\w-]*){0,2}"
_PLACE: Final = rf"(?:the |an? |our )?({_LARGE}|[a-z][\w-]*(?: (?!to\b|from\b)[\w-]+)?)"
_FROM: Final = re.compile(rf"\b[Ff]rom {_PLACE}|({_LARGE})(?= to [A-Z])")
_TO: Final = re.compile(rf"\bto {_PLACE}")
_BACK: Final = re.compile(r"\b(?:prefer|mov(?:e|ing)|switch|chang|relocat|migrat|convert|revert)", re.IGNORECASE)
"""What can be done and then the other way round: what was done last is how it is."""
_NOWHERE: Final = (frozenset[str](), frozenset[str]())


class Marks(NamedTuple):
    """What marks a statement, letters that are names and partners who are named apart, which of several things it is
    about, all its words, whether some are of kin, how it is told, and words of where something goes from and to.
    """

    marks: frozenset[str]
    letters: frozenset[str]
    partners: frozenset[str]
    which: frozenset[str]
    words: frozenset[str]
    of_kin: bool
    mood: frozenset[str]
    origin: frozenset[str] = frozenset()
    goal: frozenset[str] = frozenset()

    def fit(self, other: "Marks") -> bool:
        """Whether two statements may be about the same one: what marks one of them is a word of the other, and it is
        not on its way back.
        """
        if not (self.marks <= other.words and other.marks <= self.words):
            return False
        if not (self._may_be_partners(other) and other._may_be_partners(self)):
            return False
        if (self.which and other.which and self.which.isdisjoint(other.which)) or (self.mood ^ other.mood) & PLAINLY:
            return False
        if self.letters != other.letters and self.letters and other.letters:
            return False
        return self.origin.isdisjoint(other.goal) or self.goal.isdisjoint(other.origin)

    def _may_be_partners(self, other: "Marks") -> bool:
        return self.partners <= other.words or not other.of_kin


def marks_of(text: str) -> Marks:
    """What marks a statement."""
    origin, goal = _way(text)
    partners = frozenset(_plain(partner.lower()) for partner in _PARTNER.findall(text))
    marks = (
        _plain(mark.lower())
        for found in _MARKS.findall(_TOLD.sub("", _BESIDE.sub(r"\1", text)))
        for mark in found
        if mark
    )
    return Marks(
        marks=frozenset(marks) - partners,
        letters=frozenset(letter for found in _LETTER.findall(text) for letter in found if letter),
        partners=partners,
        which=frozenset(map(str.lower, _APART.findall(text))),
        words=frozenset(map(_plain, _WORDS.findall(text.lower()))),
        of_kin=_RELATIVE.search(text) is not None,
        mood=mood_of(text),
        origin=origin - goal,
        goal=goal - origin,
    )


def _plain(word: str) -> str:
    return _KIN_AS.get(word, word)


def _way(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Words of where something goes from and to; of days and states there is no way back."""
    if " to " not in text or _BACK.search(text):
        return _NOWHERE
    origin, goal = _places(_FROM, text), _places(_TO, text)
    return _NOWHERE if any(term_of(word) in EXCLUSIVE for word in origin | goal) else (origin, goal)


def _places(pattern: re.Pattern[str], text: str) -> frozenset[str]:
    named = (found[found.lastindex or 0] for found in pattern.finditer(text))
    return frozenset(word for name in named for word in name.lower().split())
