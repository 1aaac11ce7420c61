"""What a sentence states, by its words: a constraint, a preference, an outcome, an episode, a fact, or nothing."""

import re
from collections.abc import Iterator
from typing import Final

from perdure.core.memory import gates
from perdure.core.memory.parts import MemoryType
from perdure.core.memory.words import sentences

REMEMBER: Final = re.compile(
    r"^(?:(?:please|and|also|so|ok|okay),? )*(?:remember|note|keep in mind|bear in mind|don't forget|do not forget|fyi|"
    r"for the record|for future reference|for next time|lesson learned|lesson|learned|learnt|takeaway|insight)"
    r"(?:[:,]| that\b|,? that\b)\s*",
    re.IGNORECASE,
)
LESSON: Final = re.compile(
    r"^(?:lessons?(?: learned)?|learned|learnt|takeaway|insight|outcome|result)\s*:", re.IGNORECASE
)
_TYPES: Final = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            MemoryType.CONSTRAINT,
            (
                r"^(?:(?:please|and|also|so|but),? )*(?:never|always|do not|don't|avoid|make sure|be sure|only (?:use|"
                r"ever|buy|"
                r"sell|deploy|send|trade|write|call|run|accept)|no more than|at most|at least|under no circumstances|"
                r"stop \w+ing|refrain from|it is forbidden|must\b)|\b(?:must|may|shall|should|can) (?:not|never|"
                r"always|only)\b|"
                r"\b(?:mustn't|shouldn't|is not allowed|are not allowed|is forbidden|is required|are required|is "
                r"mandatory|"
                r"needs? (?:my|our|the \w+'s) approval|limit (?:is|of)|no longer allowed|off limits)\b|"
                r"\b(?:i'm|i am|is|she's|he's) allergic to\b|\b(?:i|we) (?:can't|cannot|must|have to|need to) (?:eat|"
                r"drink|use|"
                r"take|spend|exceed|keep|stay|avoid|comply|be)\b|\b(?:must|has to|have to|needs to) (?:be|stay|have|"
                r"use|pass)\b"
            ),
        ),
        (
            MemoryType.PREFERENCE,
            (
                r"\b(?:i|we|he|she|they) (?:really |much |always |usually |generally |strongly |don't |do not |would )*"
                r"(?:prefer|like|love|hate|dislike|enjoy|favou?r|rather|want (?:you to|answers|it)|tend to|can't "
                r"stand)\w*\b|"
                r"\bi'd (?:rather|prefer|like)\b|\bmy (?:favou?rite|preferred|preference|go-to)\b|\bprefers?\b|"
                r"\b(?:please )?call me\b|^(?:please,? )?(?:answer|reply|respond|write|speak|talk|keep (?:answers|"
                r"responses|it|"
                r"replies)|stick (?:to|with)|use) .{0,80}\b(?:instead|rather than|not|by default|whenever|from now on|"
                r"in future|"
                r"going forward|every time|short|brief|in (?:english|german|french|spanish|italian|portuguese|dutch|"
                r"japanese|"
                r"chinese|korean|russian|metric|euros?|dollars?))\b|\b(?:from now on|going forward|in (?:the )?future|"
                r"by "
                r"default|every time|whenever)\b.{0,80}\b(?:use|write|answer|reply|call|show|give|add|keep|speak|"
                r"start|ask)\b"
            ),
        ),
        (
            MemoryType.STRATEGY_OUTCOME,
            (
                r"\b(?:yield(?:ed|s)?|return(?:ed|s)|outperform\w*|underperform\w*|gained|lost|earned|made|saved|"
                r"improv\w+|"
                r"reduc\w+|increas\w+|cut|dropped|rose|fell|grew|paid|beat|raised|lowered|sped up|slowed)\b.{0,80}"
                r"(?:\d[\d.,]*\s?(?:%|x\b|percent|bps|basis points|ms\b|times)|[$€£]\s?\d)|"
                r"\b(?:strategy|approach|plan|experiment|method|fix|change|workaround|rebalance|dca|hedge|trick|"
                r"attempt|idea)\b"
                r".{0,80}\b(?:worked|failed|helped|didn't (?:work|help)|did not (?:work|help)|paid off|backfired|"
                r"succeeded|"
                r"solved|fixed|broke|was worth)\b|\b(?:worked|failed|helped|paid off|backfired|"
                r"succeeded)\b.{0,60}\b(?:because|"
                r"when|after|with|by|due to|once)\b|\b(?:solved|fixed) (?:it|this|that|the \w+(?: \w+)?) (?:by|with)\b"
            ),
        ),
        (
            MemoryType.EPISODE,
            (
                r"\b(?:yesterday|last (?:night|week|month|year|summer|winter|spring|autumn|fall|weekend|\w+day)|this "
                r"morning|"
                r"ago|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|in (?:january|february|march|april|may|june|july|"
                r"august|"
                r"september|october|november|december)|(?:in|since) (?:19|20)\d\d|\d{4}-\d\d-\d\d|the other day|back "
                r"in)\b"
            ),
        ),
        (
            MemoryType.FACT,
            (
                r"^(?:my|our) [\w' -]{2,40} (?:is|are|was|has|have|runs?|lives?|works?|uses?|needs?|starts?|ends?|"
                r"costs?)\b|"
                r"\bmy name is\b|\b(?:i|we) (?:am|'m|are|live|work|study|have|own|use|run|moved|was born|grew up|"
                r"speak|teach|"
                r"drive|host|deploy|keep|store|manage|started|joined|left|bought|sold|married|play|code|maintain|"
                r"support)\b|"
                r"\bi'm (?:an?|the|from|based|in|working|living|currently|at|on|\d+|married|vegetarian|vegan|new)\b|"
                r"\bi've (?:been|got|lived|worked|moved|had)\b|\bwe're (?:an?|based|on|using|in)\b|"
                r"^(?:the |an? )?[\w'’./$%&-]+(?: [\w'’./$%&-]+){0,7} (?:is|are|has|have|had|runs|lives|works|uses|"
                r"costs|pays|"
                r"needs|takes|contains|supports|requires|expires|starts|ends|opens|closes|belongs|equals|means|"
                r"happens)\b"
            ),
        ),
    )
)
VAGUE: Final = re.compile(
    r"^(?:(?:and|but|so|well|yes|no|ok|okay|then|oh),? )*(?:it|this|that|these|those|they|he|she|there|"
    r"here|which|who)\b"
    r"(?!'s (?:my|our)\b)",
    re.IGNORECASE,
)
DEICTIC: Final = re.compile(
    r"\b(?:this|that one|these|those|here|it (?:again|now|yet)|(?<!from )now|just|yet|first|for me|at once|"
    r"immediately|the other one|"
    r"go back|try again|undo)\b",
    re.IGNORECASE,
)
_SHORTENED: Final = re.compile(
    r"(?:^|\s)\(?(?:vs|e\.g|i\.e|dr|mr|mrs|ms|prof|st|approx|ca|cf|inc|ltd|no|vol|fig|min|max|avg)\.$", re.IGNORECASE
)


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a text; one that seems to end in an abbreviation goes on."""
    begun = ""
    for part in sentences(text):
        begun = f"{begun} {part}" if begun else part
        if _SHORTENED.search(begun) is None:
            yield begun
            begun = ""
    if begun:
        yield begun


def type_of(sentence: str) -> MemoryType | None:
    """What kind of thing a sentence states; None when it states nothing that lasts."""
    if gates.is_question(sentence):
        return None
    found = next((kind for kind, pattern in _TYPES if pattern.search(sentence)), None)
    return None if found in (MemoryType.FACT, MemoryType.EPISODE) and VAGUE.match(sentence) is not None else found
