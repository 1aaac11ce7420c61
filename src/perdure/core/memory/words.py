"""Texts as terms: words cut to their stems, without those that say nothing; and texts as sentences.

The stems serve English and leave other languages' words whole. They need not be words: what counts is that forms of
one word meet and different words do not.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:['.][^\W_]+)*")
_PLAIN_WORD: Final = re.compile(r"[a-z0-9]+(?:['.][a-z0-9]+)*")
"""The same in small ASCII letters: most texts have no others, and this is quicker."""
_SENTENCE: Final = re.compile(r"(?<=[.!?…。\uff01\uff1f])[\"'”’)\]]*\s+|\n+")
_LONGEST: Final = 40
"""Characters of a term that count; longer ones are no words."""
_MET: Final = 65_536
"""Words whose terms are at hand."""
_VOWELS: Final = frozenset("aeiouy")

STOP: Final = frozenset(
    """
    a about above after again against all also am an and any anyone anything are aren't as at be became because become
    been before being below between both but by came can can't cannot come could couldn't did didn't do does doesn't
    doing don't done down during each either else ever every everyone everything few for from further gave get gets
    getting give given go goes going gone got had hadn't has hasn't have haven't having he her here hers herself hey hi
    him himself his how i if in into is isn't it its itself i'm i've i'd i'll it's just let let's lot made make makes
    many may me might more most much must my myself no nor not now of off oh ok okay on once one only onto or other our
    ours ourselves out over own per put really said same say says see seem she should shouldn't since so some someone
    something such than that that's the their theirs them themselves then there there's these they they're they've this
    those though through thus to too under until up upon us very was wasn't we we're we've well went were weren't what
    what's when where which while who whom whose why will with within without won't would wouldn't yeah yes yet you
    you're you've your yours yourself yourselves
    """.split()
)
"""Words that are in every other sentence, as they are written."""

_IRREGULAR: Final = {
    form: stem
    for stem, forms in {
        "begin": "began begun beginning",
        "bring": "brought",
        "build": "built",
        "buy": "bought",
        "catch": "caught",
        "child": "children",
        "choose": "chose chosen choosing choice",
        "draw": "drew drawn",
        "drive": "drove driven driving",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "feel": "felt",
        "fight": "fought",
        "find": "found",
        "fly": "flew flown",
        "foot": "feet",
        "forget": "forgot forgotten",
        "grow": "grew grown",
        "hear": "heard",
        "hold": "held",
        "keep": "kept",
        "know": "knew known",
        "lead": "led",
        "learn": "learnt",
        "leave": "left leaving",
        "life": "lives",
        "lose": "lost losing loss",
        "man": "men",
        "mean": "meant",
        "meet": "met",
        "mouse": "mice",
        "pay": "paid",
        "person": "people persons",
        "ride": "rode ridden riding",
        "rise": "rose risen rising",
        "run": "ran",
        "sell": "sold",
        "send": "sent",
        "sing": "sang sung",
        "sit": "sat",
        "sleep": "slept",
        "speak": "spoke spoken",
        "spend": "spent",
        "stand": "stood",
        "swim": "swam swum",
        "take": "took taken taking",
        "teach": "taught",
        "tell": "told",
        "think": "thought",
        "throw": "threw thrown",
        "tooth": "teeth",
        "wear": "wore worn",
        "win": "won",
        "woman": "women",
        "write": "wrote written writing",
    }.items()
    for form in forms.split()
}
_WHOLE: Final = frozenset("always analysis lens mathematics news perhaps physics politics series species".split())
"""Words whose ending is none."""
_ENDINGS: Final = (  # the longest first; with what stands in their place
    ("ational", "ate"), ("ization", "ize"), ("isation", "ize"), ("fulness", "ful"), ("ousness", "ous"),
    ("iveness", "ive"), ("ically", "ic"), ("ation", "ate"), ("ingly", ""), ("ments", ""), ("ement", "e"), ("ment", ""),
    ("ness", ""), ("edly", ""), ("ably", "able"), ("ally", "al"), ("ful", ""), ("ly", ""),
)  # fmt: skip


def stem(word: str) -> str:
    """What the forms of a word have in common; `word` is in small letters."""
    word = _IRREGULAR.get(word, word)
    if word in _WHOLE or len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    return _end(_suffixes(_inflections(_plurals(word))))


def _plurals(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _inflections(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("eed"):
        return word[:-1] if len(word) > 5 else word
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) > 2 and not _VOWELS.isdisjoint(base):
            if base[-1] == base[-2] and base[-1] not in "lsz":
                return base[:-1]
            return base
    return word


def _suffixes(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word[: -len(ending)] + instead
    return word


def _end(word: str) -> str:
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("y") and word[-2] not in _VOWELS:
        word = word[:-1] + "i"
    return word


def words(text: str) -> list[str]:
    """The words as written, in small letters; accents go, so that both spellings meet."""
    if text.isascii():
        return _PLAIN_WORD.findall(text.lower())
    plain = unicodedata.normalize("NFKD", text.replace("’", "'"))
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)).lower())


def terms_of(said: Iterable[str]) -> list[str]:
    """The stems of those words that say something, in order."""
    return list(filter(None, map(_TERMS.__getitem__, said)))


def terms(text: str) -> list[str]:
    """The stems of the words of a text that say something, in order."""
    return terms_of(words(text))


class _Terms(dict[str, str]):
    """The terms of words that were met; of a word without one, nothing. Too many are as good as none."""

    def __missing__(self, word: str) -> str:
        bare = word.removesuffix("'s")[:_LONGEST]
        term = "" if word in STOP or bare in STOP else stem(bare)
        if len(word) <= _LONGEST:
            if len(self) >= _MET:
                self.clear()
            self[word] = term
        return term


_TERMS: Final = _Terms()


def sentences(text: str) -> list[str]:
    """The sentences of a text, roughly; what has no end is one."""
    return [part for part in (piece.strip() for piece in _SENTENCE.split(text)) if part]
