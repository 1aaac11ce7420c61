"""What is not worth remembering: junk, secrets, questions, and what was only recalled.

Each gate tells by a stable name why it does not let something pass, and nothing when it does. What comes back from
memory is not learnt a second time: neither what is quoted between the tags of a recall, nor what says nearly the same
as a memory that was shown.
"""

import re
from collections.abc import Iterable
from typing import Final

from perdure.core.memory.suspecting import holds_secret
from perdure.core.memory.words import stem, terms, words

EMPTY: Final = "empty"
SHORT: Final = "too_short"
LONG: Final = "too_long"
GREETING: Final = "greeting"
BOILERPLATE: Final = "boilerplate"
CODE: Final = "code"
SECRET: Final = "secret"
QUESTION: Final = "question"
RECALLED: Final = "recalled"
KNOWN: Final = "known"
REASONS: Final = (EMPTY, SHORT, LONG, GREETING, BOILERPLATE, CODE, SECRET, QUESTION, RECALLED, KNOWN)

FEWEST: Final = 2
"""Words that say something, of which a memory has at least so many."""
MOST: Final = 2_000
"""Characters of a statement; what is longer is a document."""
ALIKE: Final = 0.8
"""Share of their terms that two texts have in common which say the same."""
WITHIN: Final = 0.9
"""Share of a text's terms that are another's, when it only repeats a part of it."""

_TAGS: Final = ("agent_memory", "memory", "search_result", "search_results", "recalled_memories")
_QUOTED: Final = re.compile(
    "|".join(rf"<{tag}\b[^>]{{0,400}}>.*?(?:</{tag}\s*>|\Z)" for tag in _TAGS), re.DOTALL | re.IGNORECASE
)
_POLITE: Final = frozenset(
    """
    hi hello hey hiya howdy yo greetings good morning afternoon evening night day thanks thank thx ty cheers welcome
    please sorry ok okay okey kk k yes yep yeah yup no nope nah sure right correct exactly indeed great nice cool
    perfect
    awesome excellent fine good done got it agreed understood roger absolutely definitely certainly wow lol haha hehe
    hmm hm oh ah uh um well bye goodbye later see you soon tomorrow so very much a lot the that this is was i you we me
    my your all too and for now then there again to have know makes sense sounds looks lgtm ack np problem worries
    continue proceed go ahead on next stop wait carry do just let try help everyone team folks guys again really works
    """.split()
)
_STOCK: Final = re.compile(
    r"^(?:as an? (?:ai|large language model|language model)|i(?:'m| am) (?:just )?an? (?:ai|language model|assistant)|"
    r"i(?:'m| am) sorry,? (?:but )?i (?:can't|cannot|can not)|i (?:can't|cannot) (?:help|assist) with|"
    r"(?:is there|let me know if there(?:'s| is)) anything else|let me know (?:if|how|what|whether|when)|"
    r"(?:i )?hope (?:this|that) helps|feel free to|happy to help|how (?:can|may) i (?:help|assist)|"
    r"(?:sure|certainly|of course)[,!.] (?:here|i can|i'll|let me)|here(?:'s| is| are) (?:the|your|a|an|"
    r"some) [^.]{0,60}:$|"
    r"you(?:'re| are) welcome[.! ]*$|unsubscribe|all rights reserved|copyright (?:\(c\)|©|\d)|this e-?mail and any|"
    r"click here|terms (?:of service|and conditions)|(?:sent|get outlook) (?:from|for) (?:my )?\w+|"
    r"lorem ipsum|(?:loading|please wait)\b|cookies? (?:policy|settings|help us)|sign (?:in|up) to continue|"
    r"traceback \(most recent|\[?(?:info|debug|warn(?:ing)?|error|trace)\]?[: ]\s?\S{0,40}\d{2}:\d{2})",
    re.IGNORECASE,
)
_FENCE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_CODE_LINE: Final = re.compile(
    r"^\s*(?:def |class |import |from \S+ import|return\b|if .*:$|for .*:$|while .*:$|elif |else:|try:|"
    r"except|with .*:$|@\w|"
    r"(?:pub |async |export |const |let |var |function |fn |impl |struct |enum |interface |package |using |#include|"
    r"public |private |protected |static )|(?:select|insert into|update|delete from|create "
    r"table)\b.*\b(?:from|values|set|"
    r"\()|[{}()\[\];,]+$|//|/\*|\*/|<\/?[a-z][^>]*>$|[+-]{3} [ab]/|@@ |\$ |>>> |at \w[\w.$]*\(|file \".*\", line \d|"
    r"\"[\w$-]+\"\s*:|.*[;{}]$|\w[\w.]* ?(?:=|:=|\+=) ?\S+$|\w[\w.]*\(.*\)$)",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"^(?:(?:and|so|but|or|hey|hi|ok|okay|well|now|then|please),? )*(?:who|what|when|where|why|how|which|"
    r"whose|whom|can|"
    r"could|would|will|shall|should|do|does|did|is|are|was|were|have|has|had|may|might|am|isn't|aren't|don't|doesn't|"
    r"didn't|won't|can't|couldn't|wouldn't) ",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"[-+]?\$?\d+(?:[.,:/-]\d+)*\s?(?:%|[a-z]{0,2}\b)?", re.IGNORECASE)
_TURNS: Final = frozenset(
    """
    not no never none cannot can't don't doesn't didn't won't isn't aren't wasn't weren't shouldn't couldn't wouldn't
    without stopped longer instead unless except
    """.split()
)


def junk(content: str) -> str:
    """Why a text is not worth keeping; empty when it is."""
    text = content.strip()
    if not any(one.isalnum() for one in text):
        return EMPTY
    if holds_secret(text):
        return SECRET
    found = words(text)
    if all(word in _POLITE for word in found):
        return GREETING
    if _STOCK.match(text):
        return BOILERPLATE
    if is_code(text):
        return CODE
    if is_question(text):
        return QUESTION
    if len(text) > MOST:
        return LONG
    return SHORT if _is_short(text, found) else ""


def _is_short(text: str, found: list[str]) -> bool:
    if not text.isascii() and len(text) >= 6 and sum(ord(one) >= 0x2E80 for one in text) * 2 > len(text):
        return False  # a script without spaces between words
    return len(found) < FEWEST or len(set(terms(text))) < FEWEST


def is_question(text: str) -> bool:
    """Whether a sentence asks and states nothing."""
    bare = text.rstrip("\"'”’)* ")
    if bare.endswith(("?", "\uff1f", "\u061f")):
        return True
    return _ASKS.match(text) is not None and not bare.endswith((".", "!")) and len(text) < 200


def is_code(text: str) -> bool:
    """Whether a text is mostly a program, a log or data, and not said in words."""
    outside = _FENCE.sub("", text)
    if outside is not text and len(outside.strip()) < len(text) // 2:
        return True
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return sum(_CODE_LINE.match(line) is not None for line in lines) * 2 >= len(lines)
    signs = sum(one in "{}[]();=<>|\\`$#&*" for one in text)
    return signs * 6 > len(text) or (text[:1] in "{[" and text[-1:] in "}]")


def without_recalled(text: str) -> str:
    """A text without what it quotes from memory."""
    return _QUOTED.sub(" ", text) if "<" in text else text


def is_recalled(content: str, shown: Iterable[str]) -> bool:
    """Whether a text says again what one of these memories says."""
    return any(says_again(content, memory) for memory in shown)


def says_again(content: str, other: str) -> bool:
    """Whether a text says nearly the same as another, or a part of it. Other numbers, or a no that the other has not,
    say something else.
    """
    mine, its = set(terms(content)), set(terms(other))
    if not mine or not its:
        return _plain(content) == _plain(other)
    both = len(mine & its)
    alike = both >= ALIKE * len(mine | its)
    within = len(mine) >= FEWEST and both >= WITHIN * len(mine)
    return (alike or within) and numbers(content) <= numbers(other) and _turns(content) == _turns(other)


def _plain(text: str) -> str:
    return " ".join(words(text)) or text.strip().casefold()


def numbers(text: str) -> set[str]:
    """The numbers that a text names, however they are grouped."""
    return {match[0].replace(",", "").replace(" ", "").strip("+").lower() for match in _NUMBER.finditer(text)}


def _turns(text: str) -> bool:
    return any(word in _TURNS for word in words(text))


def key_of(content: str) -> str:
    """What texts have in common that say the same in other order, case or form: to count how often it was said."""
    return " ".join(sorted({*terms(content)} or {stem(word) for word in words(content)}))
