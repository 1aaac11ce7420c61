"""A few kills of `python -m torture.memory`, and that it finds what it looks for."""

from pathlib import Path

from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.shelf import Shelf
from torture.memory import QUICK_KILLS, Siege, Told, batch_of, besiege


def test_kills_lose_and_double_nothing_and_what_is_undone_is_restored() -> None:
    siege = besiege(QUICK_KILLS, seed=11)
    assert siege.problems == []
    assert siege.kills == QUICK_KILLS
    assert siege.broken


def test_a_lost_doubled_or_orphaned_memory_is_found(tmp_path: Path) -> None:
    siege, shelf = Siege(tmp_path, 1), Shelf()
    for place, asked in enumerate(batch_of(3)):
        for again in range(1 + (place == 5)):
            id = f"{place}-{again}"
            status = Status.SUPERSEDED if place == 7 else Status.LIVE
            shelf.memories[id] = Memory(
                id=id, type=MemoryType.FACT, content=asked.content, metadata=asked.metadata, status=status
            )
    siege.told.append(Told(batch=3, ids=("0-0", "gone")))
    siege._judge_kept(shelf)
    assert [problem.split(":")[0] for problem in siege.problems] == ["batch 3", "kept twice", "7-0 gave way to nobody"]
