"""Whether two memories say the same, or one what is no longer true because of the other.

Rules decide what words can decide. What they cannot is doubtful: it is weighed (`settling`), or a model is asked.
"""

from typing import Any, Final, Literal, TypeAlias

from perdure.core.memory.booking import are_two
from perdure.core.memory.framing import ALONE, happened
from perdure.core.memory.importance import DAY
from perdure.core.memory.lexicon import BOUNDARIES, DENIALS, EXCLUSIVE
from perdure.core.memory.marking import marks_of
from perdure.core.memory.parts import Memory, MemoryType, people, person
from perdure.core.memory.slips import is_slip
from perdure.core.memory.statements import Statement, exchanged
from perdure.core.memory.tokens import Token
from perdure.core.memory.turning import turns

Likeness: TypeAlias = Literal["same", "fuller", "doubtful", "apart"]
"""What one statement is to another: `fuller` says all that the other says, and a little more."""
LEVELS: Final = {"low": 0, "medium": 1, "high": 2}
HALF: Final = 0.5
"""Share of terms in common from which two statements may be about the same thing."""
MORE: Final = 6
"""Terms by which a fuller statement may be longer."""
BEYOND: Final = 3
"""Terms that a statement may have beside those that are said to be over."""
ANYBODY: Final = frozenset({"user", "us"})
"""Who is meant when nobody is named."""
_NOTED: Final = frozenset(
    "at block count index line message offset page position round seq step time timestamp ts turn version".split()
)
"""Names of metadata whose numbers say when or where something was noted."""
_MOMENTS: Final = ("_at", "_on", "_ts", "time", "date")
"""What names of moments end with."""
_ONCE: Final = (MemoryType.EPISODE, MemoryType.STRATEGY_OUTCOME)
_LIMITS: Final = frozenset({"but", "except", "unless", "only", "though", "although"})
"""What is denied after these is only part of what is said."""
_JOINING: Final = DENIALS | _LIMITS | {"then", "while"}
_WHOLLY: Final = frozenset("always never must all every free nothing nobody".split())
_SPANS: Final = frozenset(
    """
    minute hour day night morning noon afternoon evening week weekday weekend month quarter season year spring summer
    autumn fall winter monday tuesday wednesday thursday friday saturday sunday
    """.split()
)
"""What is so every day may be so at ten: `every` tells how often then, and leaves nothing out."""
_BEING: Final = frozenset({"is", "are", "was", "were", "be", "been", "by", "has", "have", ":", ","})
_PLAIN: Final = (MemoryType.FACT, MemoryType.PREFERENCE)


def since(memory: Memory) -> int:
    """When it began to be true."""
    return memory.recorded_at if memory.valid_from is None else memory.valid_from


def later(memory: Memory) -> tuple[int, int]:
    """What says which of two memories is the later one."""
    return since(memory), memory.version


def may_meet(one: Memory, other: Memory) -> bool:
    """Whether two memories can be about the same thing: they come from one corner, and tell of the same one as far as
    they say.
    """
    return are_alike(one, other) and marks_of(one.content).fit(marks_of(other.content))


def are_alike(one: Memory, other: Memory) -> bool:
    """Whether two memories were said by the same person, are of one kind, and have like metadata."""
    if one.type is not other.type and not (one.type in _PLAIN and other.type in _PLAIN):
        return False
    if person(one.author) != person(other.author) or _of_others(one, other):
        return False
    shared = one.metadata.keys() & other.metadata.keys()
    return all(_agree(name, one.metadata[name], other.metadata[name]) for name in shared)


def _of_others(one: Memory, other: Memory) -> bool:
    """Whether it is said whom they are about, and that is somebody else."""
    whom, whose = people(one.subjects), people(other.subjects)
    return bool(whom and whose) and whom.isdisjoint(whose)


def is_fresh(memory: Memory, after: int) -> bool:
    """Whether it was kept after a time, or began to be true after it."""
    return memory.recorded_at > after or since(memory) > after


def holds(memory: Memory, now: int) -> bool:
    """Whether it is true at that time, as far as it says: neither over nor still to come."""
    return (memory.valid_to is None or memory.valid_to > now) and (
        memory.valid_from is None or memory.valid_from <= now
    )


def may_repeat(one: Memory, other: Memory) -> bool:
    """Whether one can be the other said again."""
    return may_recur(one, other) and marks_of(one.content).fit(marks_of(other.content))


def may_recur(one: Memory, other: Memory) -> bool:
    """The same but for what marks their statements: what happened once happens again another day."""
    if one.type not in _ONCE:
        return are_alike(one, other)
    shared = one.metadata.keys() & other.metadata.keys()
    at_once = all(_when(one.metadata[name]) == _when(other.metadata[name]) for name in shared)
    return at_once and are_alike(one, other) and abs(since(one) - since(other)) < DAY


def _when(value: Any) -> Any:
    """What metadata says about when something was: the day of a date, or a number; nothing else."""
    if _is_date(value):
        return value[:10]
    return value if isinstance(value, int | float) else None


def may_replace(newer: Memory, older: Memory) -> bool:
    """Whether one may take the place of the other: never of what is trusted more, nor of what holds for longer."""
    return LEVELS[newer.trust] >= LEVELS[older.trust] and newer.id != older.id and lasts(newer, older)


def lasts(one: Memory, other: Memory) -> bool:
    """Whether one holds for as long as the other, as far as they say."""
    return one.valid_to is None or (other.valid_to is not None and other.valid_to <= one.valid_to)


def may_change(memory: Memory) -> bool:
    """Whether it states something that can be another way later; what happened has happened."""
    return memory.type not in _ONCE


def likeness(one: Statement, other: Statement) -> Likeness:
    """What one is to the other."""
    if one.denied != other.denied or len(one.bag) < 2 or len(other.bag) < 2 or one.symbols != other.symbols:
        return "apart"
    if is_slip(one.tokens, other.tokens):
        return "same"
    if one.bag == other.bag:
        return "same" if _in_order(one, other) else "doubtful"
    if one.bag > other.bag:
        if one.bag - other.bag == {"work"} and one.frame is not None and "work as" in one.frame.key:
            return "fuller"  # who works as something is that
        return "fuller" if _adds(one, other) else "doubtful"
    if one.bag < other.bag:
        return "apart"  # the other one is fuller: it is asked the other way round
    shared = one.bag & other.bag
    share = len(shared) / len(one.bag | other.bag)
    if share < HALF:
        return "apart"
    if one.frame is None and one.numbers == other.numbers:
        return "doubtful"
    names = {*one.names, *other.names}
    both = not names.isdisjoint(one.bag - other.bag) and not names.isdisjoint(other.bag - one.bag)
    return "apart" if both else "doubtful"


def tells_less(one: Statement, other: Statement) -> bool:
    """Whether one has nothing to say that the other has not, only less of it."""
    limited = any(token.raw in _LIMITS for token in other.tokens)
    return one.bag < other.bag and (one.denied == other.denied or limited)


def is_whole(statement: Statement) -> bool:
    """Whether it says that something never is so, or always: whoever adds where or when says less."""
    after = (*statement.tokens[1:], Token(""))
    return statement.denied or any(
        token.raw in _WHOLLY and not (token.raw == "every" and then.raw in _SPANS)
        for token, then in zip(statement.tokens, after, strict=True)
    )


def opposed(one: Statement, other: Statement) -> bool:
    """Whether one denies what the other says."""
    return one.denied != other.denied and bool(one.bag) and one.bag == other.bag and _in_order(one, other)


def ended(older: Statement, newer: Statement) -> bool:
    """Whether the newer one says that what the older one states, perhaps more fully, is over."""
    if older.denied or not newer.over or not newer.over <= older.bag or len(older.bag - newer.over) > BEYOND:
        return False
    first = older.terms[0]  # of whom or what it is said: what one has quit, others have not
    return first in newer.over or first in ANYBODY


def turned(older: Statement, newer: Statement) -> bool:
    """Whether the newer one says that it is another way now: the same with another value, or all but one word, for a
    state of which there is one.
    """
    if not newer.changed or older.denied or newer.denied:
        return False
    if not happened(newer.tokens) and turns(older.tokens, newer.tokens):
        return True
    if len(older.terms) != len(newer.terms):
        return False
    differing = [pair for pair in zip(older.terms, newer.terms, strict=True) if pair[0] != pair[1]]
    states = [{EXCLUSIVE.get(term) for term in pair} for pair in differing]
    return len(states) == 1 and len(states[0]) == 1 and None not in states[0]


def outdone(older: Statement, newer: Statement) -> bool:
    """Whether the newer one gives another value to the same thing; what is only less exact does not."""
    before, after = older.frame, newer.frame
    if before is None or after is None or before.key != after.key:
        return False
    if after.value <= before.value or (ALONE in after.key and not newer.changed):
        return False
    if are_two(older.booked, newer.booked) and not newer.changed:
        return False
    if "live" in before.key or "work at" in before.key:
        return before.value.isdisjoint(older.names) == after.value.isdisjoint(newer.names)
    return True


def _in_order(one: Statement, other: Statement) -> bool:
    """Whether who does what to whom is the same in both, as far as the order of words says."""
    if one.denied == other.denied and _rescoped(one, other):
        return False
    if one.terms == other.terms:
        return True
    if _swapped(one, other) or exchanged(one.parts, other.parts):
        return False
    amounts = [[term for term in each.terms if term[0] == "#"] for each in (one, other)]
    framed = one.frame is not None and one.frame == other.frame and amounts[0] == amounts[1]
    return framed or _ordered(one.terms, other.terms, _marks(one, other))


def _rescoped(one: Statement, other: Statement) -> bool:
    """Whether what denies, limits or joins counts for other words."""
    return _scopes(one) != _scopes(other)


def _scopes(statement: Statement) -> list[tuple[str, str]]:
    """The words before and after each word that denies, limits or joins; where it is in a word, that one is after."""
    terms = [token.term for token in statement.tokens]
    found = list[tuple[str, str]]()
    for index, token in enumerate(statement.tokens):
        within = token.term.startswith("!")
        if within or token.raw in _JOINING:
            before = next((term for term in reversed(terms[:index]) if term), "")
            after = next((term for term in terms[index if within else index + 1 :] if term), "")
            found.append((before, after.removeprefix("!")))
    return sorted(found)


def _swapped(one: Statement, other: Statement) -> bool:
    """Whether who did it and whom it was done to have changed places: a verb is between them, and nothing else."""
    plain = not any(token.raw in _BEING for each in (one, other) for token in each.tokens)
    return len(one.terms) == 3 and one.terms == other.terms[::-1] and plain


def _marks(one: Statement, other: Statement) -> frozenset[str]:
    """The names and numbers of both."""
    return one.numbers | other.numbers | {*one.names, *other.names}


def _ordered(one: tuple[str, ...], other: tuple[str, ...], marks: frozenset[str]) -> bool:
    """Whether names and numbers come in the same order (when something is may stand anywhere), or one is the other
    with its end put first.
    """
    placed = frozenset(term for term in marks if term[0] != "@" and term not in EXCLUSIVE)
    first, second = (list(dict.fromkeys(term for term in terms if term in placed)) for terms in (one, other))
    return first == second or _turned(one, other)


def _turned(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one is the other with its end put first."""
    return len(one) == len(other) and any(one[cut:] + one[:cut] == other for cut in range(1, len(one)))


def _adds(fuller: Statement, other: Statement) -> bool:
    """Whether the fuller one is the other with something put before or after it that changes none of it."""
    more = len(fuller.terms) - len(other.terms)
    if not 0 < more <= MORE or is_whole(other):
        return False
    added, framed = fuller.bag - other.bag, fuller.frame is not None and fuller.frame == other.frame
    if not framed and any(
        term.startswith("#") or (term in fuller.names and not term.startswith("@")) for term in added
    ):
        return False
    marks, places = _marks(fuller, other), [index for index, token in enumerate(fuller.tokens) if token.term]
    if (rest := fuller.terms[:-more]) == other.terms or ({*rest} == other.bag and _ordered(rest, other.terms, marks)):
        between = fuller.tokens[places[-more - 1] + 1 : places[-more] + 1]
        return any(token.raw in BOUNDARIES for token in between)
    if (rest := fuller.terms[more:]) == other.terms or ({*rest} == other.bag and _ordered(rest, other.terms, marks)):
        between = fuller.tokens[places[more - 1] + 1 : places[more]]
        return any(token.raw in (",", ":", "that") for token in between)
    return False


def _agree(name: str, one: Any, other: Any) -> bool:
    """Whether two values of metadata can belong to one statement: words, lists of them, whole numbers and what is made
    of these tell things apart; when and where something was noted, and measures, do not.
    """
    if isinstance(one, str) and isinstance(other, str):
        return one.casefold() == other.casefold() or (_is_date(one) and _is_date(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return not {*map(str, one)}.isdisjoint(map(str, other)) or not one or not other
    if isinstance(one, int | dict) and isinstance(other, int | dict):
        return one == other or name.casefold() in _NOTED or name.casefold().endswith(_MOMENTS)
    return True


def _is_date(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= 10 and value[:4].isdecimal() and value[4] == "-" and value[7] == "-"


def worth(memory: Memory) -> tuple[int, float, int, tuple[int, int]]:
    """By what of two that say the same the one that stays is chosen."""
    return LEVELS[memory.trust], memory.importance, memory.accesses, later(memory)
