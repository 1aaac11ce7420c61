"""What marks a statement as one about somebody or something else, whatever else it says: somebody's mother is not that
person, a left knee is not the right one, and a junior is not the senior.
"""

import re
from typing import Final, NamedTuple

_KIN: Final = (
    r"(?:['’]s?|\b(?:my|your|his|her|their|our))\s+(?:\w+\s+)?"
    r"(\w+-in-law|mother|father|mum|mom|dad|parents?|sister|brother|sibling|son|daughter|child|children|kids?|husband|wife|"
    r"spouse|fianc[eé]e?|boyfriend|girlfriend|uncle|aunt|cousin|niece|nephew|(?:grand|step)\w{3,}|"
    r"ex-\w+|roommate|flatmate|neighbou?r)\b"
)
_SIDE: Final = (
    r"\b(left|right)[- ](?:hand|knee|leg|arm|eye|ear|foot|shoulder|hip|ankle|wrist|elbow|thumb|side|lung|kidney|wing|"
    r"lane|bank|door|wheel|shoe|glove|speaker|channel)\b"
)
_LATER: Final = r"\b(jr|sr|junior|senior|the (?:elder|younger))\b"
_LETTER: Final = re.compile(r"(?<=[a-z] )([A-HJ-Z])(?=[ .,:;!?]|$)")
"""A letter that is a name: line A, plan B."""
_MARKS: Final = re.compile(f"{_KIN}|{_SIDE}|{_LATER}", re.IGNORECASE)
_WORDS: Final = re.compile(r"[\w-]+")


class Marks(NamedTuple):
    """What marks a statement, letters that are names apart, and all its words."""

    marks: frozenset[str]
    letters: frozenset[str]
    words: frozenset[str]

    def fit(self, other: "Marks") -> bool:
        """Whether two statements may be about the same one: what marks one of them is a word of the other."""
        return self.marks <= other.words and other.marks <= self.words and self.letters == other.letters


def marks_of(text: str) -> Marks:
    """What marks a statement."""
    return Marks(
        marks=frozenset(mark.lower() for found in _MARKS.findall(text) for mark in found if mark),
        letters=frozenset(_LETTER.findall(text)),
        words=frozenset(_WORDS.findall(text.lower())),
    )
