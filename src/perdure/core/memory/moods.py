"""How something is told, if not as what simply is so: as others say, wished for, gone, to come, at times or in part."""

import re
from typing import Final

_MOODS: Final = {
    mood: re.compile(rf"\b(?:{told})\b", re.IGNORECASE)
    for mood, told in {
        "said": r"(?<!user )(?:thinks?|believes?|said|says|claims?|claimed|heard|assumes?|suspects?|told \w+) that",
        "wished": r"(?:would (?:like|love)|wants?|hopes?|wishes|dreams) (?:to|of) "
        r"(?:live|living|move|moving|work|working|own|owning|buy|buying|become|becoming|have|having)",
        "to come": r"will|going to|plans? to",
        "next": r"next (?:week|month|year|summer|winter)",
        "gone": r"used to|until \d{4}|formerly|worked|lived",
        "in season": r"in (?:the )?(?:summer|winter|spring|autumn|fall)",
        "at times": r"on (?:weekends|weekdays|(?:mon|tues|wednes|thurs|fri|satur|sun)days)",
        "in part": r"some|most|several|certain|a few",
    }.items()
}


def mood_of(text: str) -> frozenset[str]:
    """How it is told; nothing for what simply is so."""
    return frozenset(mood for mood, told in _MOODS.items() if told.search(text))
