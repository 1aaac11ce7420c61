"""What of a statement a pair is judged by: what it is about, its names and values, and whether it tells of a change."""

import re
from itertools import pairwise
from typing import Final

import msgspec

from perdure.core.memory.framing import counts, happened
from perdure.core.memory.lexicon import EXCLUSIVE, UNITS
from perdure.core.memory.statements import Statement
from perdure.core.memory.tokens import Token
from perdure.core.memory.topics import LIGHT, topics_of

_ENDING: Final = re.compile(
    r"\b(?:no longer|any ?more|any longer|stopped|quits?|ga?i?ven? up|giv(?:es|ing) up|dropped|left|sold|cancel\w*|"
    r"called off|revoked|ended|back (?:from|in|at)|returned|done with|discontinued|shut ?down|decommissioned|retired|"
    r"removed|used to|broke up|split up|abandoned|scrapped|got rid|parted with|after all|resigned|terminated|"
    r"stepped down|unsubscribed|deprecated|won't|recovered|lifted|resolved|fixed|finished|completed|closed|lapsed?|"
    r"expired|withdrew|shelved|ditched|ceased|deleted|disbanded|dissolved|swore off|cut out|is over|fell through|"
    r"backed out|pulled out|let go|laid off|passed away|died|lost|repaid|paid (?:off|back)|gave .{1,30} away|healed|"
    r"switched off|turned off|taken down|phased out|decided against|off the market)\b",
    re.IGNORECASE,
)
_CHANGING: Final = re.compile(
    r"\b(?:now|instead|rather than|chang\w+|switch\w+|mov(?:ed|es|ing)|relocat\w+|replac\w+|new|transferr\w+|"
    r"migrat\w+|upgrad\w+|downgrad\w+|renam\w+|reschedul\w+|pushed|postpon\w+|brought forward|shift\w+|"
    r"rais\w+|lowered|cut|resiz\w+|extended|shorten\w+|promot\w+|again|these days|nowadays|became|becomes|turned|"
    r"went|passed|handed|took over|taken over|increas\w+|decreas\w+|reduc\w+|bump\w+|doubled|halved|"
    r"down to|up to|updat\w+|revis\w+|correct\w+|actually|convert\w+|swapp\w+|traded|since|as of|"
    r"lately|recently|joined|resumed|grew|grown|rose|risen|fell|fallen|climbed|settled|got|made|"
    r"currently|at present|for good|took up|has become|turns out|re-?[a-z]{3,}ed)\b",
    re.IGNORECASE,
)
_ALSO: Final = re.compile(r"\b(?:also|too|as well|in addition|another|besides)\b", re.IGNORECASE)
_NUMBERED: Final = frozenset(
    """
    ticket order invoice incident badge case chapter request contract rack room response asset shipment pr issue pull
    batch lot claim
    """.split()
)
"""What has a number for a name wherever it stands."""
_VERBS: Final = frozenset(
    """
    is are was were has have had will can does do gets uses runs needs wants prefers likes lives works listens starts
    ends opens closes costs takes stores keeps sends accepts requires supports belongs goes comes holds expires renews
    """.split()
)
_AFTER: Final = frozenset(
    "the a an in on at to for with by as from into up out off over his her its their our my every all no more".split()
)
"""What often stands after a verb."""
_CODE: Final = re.compile(r"\w[-_./]\w")
_QUANTITIES: Final = frozenset(UNITS.values())
_PAST: Final = frozenset({"was", "were", "had", "went", "held", "dealt"})


class Gist(msgspec.Struct, frozen=True):
    """What of a statement pairs are judged by."""

    said: Statement
    subject: frozenset[str]
    """What it is about: terms of its first name, or of what stands before the verb."""
    runs: tuple[frozenset[str], ...]
    """Names of more than one word."""
    names: frozenset[str]
    ids: frozenset[str]
    """Numbers that are names."""
    codes: frozenset[str]
    """Words that are made of several, with signs between: names of machines and files, but also `left-handed`."""
    head: frozenset[str]
    """What stands before the verb."""
    kinds: dict[str, str]
    """What kind of value each term is."""
    words: frozenset[str]
    """Its words, those too that have no term; a mark for each kind of value."""
    pairs: frozenset[str]
    """Words that stand next to each other."""
    bare: str
    """The text without what it names, and without its values: what it says of them."""
    topics: frozenset[str]
    event: bool
    """Whether it tells what happened once."""
    ending: bool
    changing: bool


def gist_of(text: str, said: Statement) -> Gist:
    """What of a text's statement pairs are judged by."""
    tokens = said.tokens
    runs = _runs(tokens)
    words = _words(tokens, frozenset(index for run in runs for index in run))
    long = [frozenset(tokens[index].term for index in run) for run in runs if len(run) > 1]
    names = frozenset(said.names).union(*long)
    return Gist(
        said=said,
        subject=_subject(tokens, runs),
        runs=tuple(long),
        names=names,
        ids=_ids(tokens),
        codes=frozenset(token.term for token in tokens if token.term and _CODE.search(token.raw)),
        head=_head(tokens),
        kinds={token.term.removeprefix("!"): _kind(tokens, index) for index, token in enumerate(tokens) if token.term},
        words=frozenset(words),
        pairs=frozenset(f"{one} {other}" for one, other in pairwise(words)),
        bare=_bare(tokens, frozenset(index for run in runs for index in run)),
        topics=frozenset(topic for term in said.bag - names for topic in topics_of(term)),
        event=happened(tokens) or _once(tokens),
        ending=said.denied or bool(_ENDING.search(text)),
        changing=bool(_CHANGING.search(text)) and not _ALSO.search(text),
    )


def _runs(tokens: tuple[Token, ...]) -> list[range]:
    """Where names stand; a word is not one only because it begins the sentence."""
    found: list[range] = []
    for index, token in enumerate(tokens):
        if not token.term or token.term[0] in "#@":
            continue
        opens = token.large and not token.name and not topics_of(token.term) and token.term not in LIGHT
        if token.name or opens:
            if found and found[-1].stop == index:
                found[-1] = range(found[-1].start, index + 1)
            else:
                found.append(range(index, index + 1))
    return found


def _words(tokens: tuple[Token, ...], names: frozenset[int]) -> list[str]:
    found: list[str] = []
    for index, token in enumerate(tokens):
        word = "N" if index in names else token.term[0] if token.term[:1] in ("#", "@") else token.term or token.raw
        if word != "N" or not found or found[-1] != "N":
            found.append(word)
    return found


def _bare(tokens: tuple[Token, ...], names: frozenset[int]) -> str:
    return " ".join(
        token.raw
        for index, token in enumerate(tokens)
        if index not in names and token.term[:1] not in ("#", "@") and not _CODE.search(token.raw)
    )


def _head(tokens: tuple[Token, ...]) -> frozenset[str]:
    verb = next((index for index, token in enumerate(tokens) if index and _is_verb(tokens, index)), 0)
    return frozenset(token.term for token in tokens[:verb] if token.term)


def _is_verb(tokens: tuple[Token, ...], index: int) -> bool:
    raw = tokens[index].raw
    if raw in _VERBS:
        return True
    after = tokens[index + 1].raw if index + 1 < len(tokens) else ""
    return raw.endswith(("s", "ed")) and not raw.endswith("ss") and not tokens[index].large and after in _AFTER


def _subject(tokens: tuple[Token, ...], runs: list[range]) -> frozenset[str]:
    """The name before the verb, or what else stands there; where the sentence is turned round (`Oslo is where Ana
    lives`) the last name.
    """
    verb = next((index for index, token in enumerate(tokens) if token.raw in _VERBS), 0)
    before = [run for run in runs if run.start < verb or not verb]
    if before:
        run = before[0]
        after = [token.raw for token in tokens[run.stop : run.stop + 2]]
        if len(runs) > 1 and run.start == 0 and len(after) > 1 and after[0] == "is" and after[1] in _TURNED:
            run = runs[-1]
        return frozenset(tokens[index].term for index in run)
    said = [token.term for token in tokens[:verb] if token.term]
    if not said and runs:
        return frozenset(tokens[index].term for index in runs[0])
    return frozenset(said or [token.term for token in tokens if token.term][:1])


_TURNED: Final = frozenset({"where", "what", "the", "who"})


def _ids(tokens: tuple[Token, ...]) -> frozenset[str]:
    """Numbers after what has a number for a name, and those at the beginning: room 7, ticket #7."""
    found = set()
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else Token("")
        named = before.term and (index < 3 or before.raw in _NUMBERED)
        if token.term[:1] == "#" and (before.raw == "#" or named):
            found.add(token.term)
    return frozenset(found)


def _kind(tokens: tuple[Token, ...], index: int) -> str:
    term = tokens[index].term
    if term[0] == "#":
        after = tokens[index + 1].term if index + 1 < len(tokens) else ""
        if term[-1] == "%" or after in _QUANTITIES:
            return "%" if term[-1] == "%" else f"#{after}"
        return "#" if counts(tokens, index) else "#name"
    if term[0] == "@":
        return "@:" if ":" in term else "@"
    return EXCLUSIVE.get(term) or ("name" if tokens[index].name else "word")


def _once(tokens: tuple[Token, ...]) -> bool:
    """Whether it was so on a day."""
    raws = [token.raw for token in tokens]
    dated = any(token.term[:1] == "@" and ":" not in token.term for token in tokens)
    return dated and not _PAST.isdisjoint(raws) and "to" not in raws
