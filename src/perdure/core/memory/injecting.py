"""Which memories a model is shown, in which order, and how much room they may take.

Some stand for a session: constraints and preferences hold whatever is talked about, so they are chosen once and stay
word for word until the next compaction. The others are found for a message. Nothing is shown twice, and all of it fits
one budget. What is told of a memory changes slowly: its writer's importance, and its age in whole days.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from perdure.core.memory.importance import DAY, weight
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.session.memories import ShownMemory
from perdure.core.session.origin import Recall
from perdure.core.talk.content import words_of
from perdure.core.talk.remembered import Memory as Shown
from perdure.core.talk.remembered import memories_text, results_of

ADDRESS: Final = "perdure://memory/"
"""What the addresses of memories begin with."""
STANDING: Final = frozenset({MemoryType.CONSTRAINT, MemoryType.PREFERENCE})
SHARE: Final = 3
"""One in so many of the memories of a turn, and of their tokens, may stand for the session."""
SHOWABLE: Final = frozenset({Status.LIVE, Status.SUPERSEDED, Status.ARCHIVED})
"""What stays where it was chosen; the next choice is made among those that are live."""
AROUND: Final = "<agent_memory>\n</agent_memory>"
_UNITS: Final = ((365, "y"), (30, "mo"), (1, "d"))
Count = Callable[[str], int]


def address_of(space: str, type: str, id: str) -> str:  # noqa: A002
    """Where a memory is, as citations name it."""
    return ADDRESS + "/".join(map(_spelled, (space.partition("/")[0], type, id)))


def _spelled(part: str) -> str:
    """A part of an address, with all that could end it in hexadecimal."""
    signs = (sign if sign.isascii() and (sign.isalnum() or sign in "-_.~") else None for sign in part)
    return "".join(
        "".join(f"%{byte:02X}" for byte in part[at].encode("utf-8", "surrogatepass")) if sign is None else sign
        for at, sign in enumerate(signs)
    )


def age_of(memory: Memory, now: int) -> str:
    """How old it is in whole days, months or years, so that it reads the same all day."""
    days = max(0, now - memory.recorded_at) // DAY
    return next((f"{days // unit}{letter}" for unit, letter in _UNITS if days >= unit), "today")


def told_of(memory: Memory, space: str, now: int) -> ShownMemory:
    """What is said of a memory beside its words."""
    importance = round(memory.importance, 2)
    return ShownMemory(
        id=memory.id, space=space, type=memory.type.value, importance=importance, age=age_of(memory, now)
    )


def shown_as(told: ShownMemory, content: str) -> Shown:
    """A memory as the model reads it."""
    return Shown(
        type=told.type,
        content=content,
        importance=told.importance,
        age=told.age,
        id=told.id,
        source=address_of(told.space, told.type, told.id),
    )


def standing_among(memories: Iterable[Memory], asked: Recall, now: int, count: Count) -> tuple[Memory, ...]:
    """What holds for a whole session, in the order in which it was learned: what counts most of what is so now, and was
    neither flagged nor little trusted.
    """
    fit = [
        memory
        for memory in memories
        if memory.type in STANDING and memory.counts(now) and not memory.flags and memory.trust != "low"
    ]
    fit.sort(key=lambda memory: (-round(weight(memory, now), 2), memory.version, memory.id))
    least = [(memory, shown_as(told_of(memory, "vault", now), memory.content)) for memory in fit]
    kept = fitting((shown for _, shown in least), asked.budget // SHARE, count, most=asked.top_k // SHARE)
    ids = {shown.id for shown in kept}
    return tuple(sorted((memory for memory in fit if memory.id in ids), key=lambda memory: (memory.version, memory.id)))


def fitting(
    memories: Iterable[Shown], budget: int, count: Count, *, most: int | None = None, without: Collection[str] = ()
) -> tuple[Shown, ...]:
    """As many of these as fit the budget of tokens, in either form, with the tags around them, best first. One that is
    too long for what is left gives way to the next.
    """
    left, found, known = budget - count(AROUND), list[Shown](), set(without)
    for item in memories:
        if most is not None and len(found) >= most:
            break
        cost = cost_of(item, count)
        if item.id in known or cost > left:
            continue
        left -= cost
        known.add(item.id)
        found.append(item)
    return tuple(found)


def cost_of(item: Shown, count: Count) -> int:
    """The tokens that a memory takes in the form in which it takes more."""
    text = memories_text([item])
    inner = text.removeprefix("<agent_memory>").removesuffix("</agent_memory>")
    return max(count(inner), *(count(words_of(block)) for block in results_of([item])))


def ordered(found: Sequence[tuple[str, Memory]], spaces: Sequence[str]) -> list[tuple[str, Memory]]:
    """Space by space, and in each in the order in which they were learned: the same ones always read the same."""
    places = {space: at for at, space in enumerate(spaces)}
    return sorted(found, key=lambda item: (places.get(item[0], len(places)), item[1].version, item[1].id))
