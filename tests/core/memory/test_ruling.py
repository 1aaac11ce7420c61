"""What rules would do is told by pairs of memories, the older first."""

from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, MemoryType
from perdure.core.memory.ruling import RULES, ruled


def memory(id: str, content: str, day: int) -> Memory:
    return Memory(id=id, content=content, type=MemoryType.FACT, recorded_at=day * DAY, version=day)


def test_each_pair_has_the_number_of_its_reason() -> None:
    found = ruled(
        [
            memory("new", "Ana lives in Rome", 5),
            memory("old", "Ana lives in Oslo", 1),
            memory("one", "The night train leaves at ten", 2),
            memory("two", "The night train leaves at ten.", 3),
            memory("off", "Omar likes ramen", 4),
        ]
    )
    assert {pair: RULES[number - 1] for pair, number in found.items()} == {
        ("old", "new"): "a later statement gives another value",
        ("one", "two"): "another one says the same",
    }


def test_where_there_is_nothing_to_do_nothing_is_told() -> None:
    assert ruled([]) == {}
    assert ruled([memory("a", "Ana lives in Oslo", 1), memory("b", "Omar lives in Oslo", 2)]) == {}
