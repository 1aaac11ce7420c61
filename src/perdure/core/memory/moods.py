"""How something is told, if not as what simply is so: as others say, wished for, gone, to come, at times or in part."""

import re
from typing import Final

_MOODS: Final = {
    mood: re.compile(rf"\b(?:{told})\b", re.IGNORECASE)
    for mood, told in {
        "said": r"(?<!user )(?:said|says|claims?|claimed|heard|told \w+) that|(?<!what )i heard"
        r"|according to (?!its|the|their|his|her|our)\w+",
        "supposed": r"(?:thinks?|believes?|assumes?|suspects?) that|(?:someone|somebody) (?:said|says?|told)|i think"
        r"|(?:said|says|claims?) that (?-i:[A-Z])\w+|according to (?-i:[A-Z])\w+, (?-i:[A-Z])\w+"
        r"|rumou?r(?:s|ed)?|supposedly|allegedly|reportedly|pretends?",
        "wished": r"(?:would (?:like|love)|wants?|hopes?|wishes|dreams|tries|tried|trying) (?:to|of) "
        r"(?:live|living|move|moving|work|working|own|owning|buy|buying|become|becoming|have|having|quit)"
        r"|considering|thinking (?:of|about)|hopes? (?:to|that|for)",
        "perhaps": r"might|maybe|perhaps|probably|possibly|could|if (?:i|we|he|she|they)",
        "ought": r"should|ought to|to be (?:signed|paid|done|decided)",
        "to come": r"will|going to|plans? to",
        "next": r"next (?:week|month|year|summer|winter)",
        "gone": r"(?<!is )(?<!are )(?<!was )(?<!be )used to(?!.* (?:now|but|instead|today)\b)|until \d{4}|formerly"
        r"|as a child|back then|my old",
        "was": r"worked|lived|was living|were living|(?:was|were)(?! (?:\w+(?:ed|en)|born)\b)|took|had",
        "in season": r"in (?:the )?(?:summer|winter|spring|autumn|fall)",
        "at times": r"on (?:weekends|weekdays|(?:mon|tues|wednes|thurs|fri|satur|sun)days)",
        "in part": r"some|(?<!at )most|several|certain|a few|not all",
        "of another": r"(?:my|his|her|their|our) other",
    }.items()
} | {"asked": re.compile(r"\?\s*$")}
PLAINLY: Final = frozenset({"supposed", "wished", "perhaps", "next", "gone", "in season", "of another", "asked"})
"""How something is told that never makes untrue, nor repeats, what is told otherwise."""


def mood_of(text: str) -> frozenset[str]:
    """How it is told; nothing for what simply is so."""
    return frozenset(mood for mood, told in _MOODS.items() if told.search(text))
