"""RAM for spaces at hand: one bound, whoever takes of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.compose.machine import memory
from perdure.compose.memory import MemorySettings
from perdure.compose.tenants import tenants
from perdure.core.memory.parts import vault
from perdure.core.memory.requests import Keeping, Seeking
from perdure.services.allowance import LEAST, MOST, Allowance, usual

GUESTS = "abcdef"


@given(
    st.integers(0, 100),
    st.lists(st.tuples(st.sampled_from(["take", "back", "left"]), st.sampled_from(GUESTS), st.integers(0, 60))),
)
def test_never_more_is_taken_than_there_is_but_by_one_alone(size: int, steps: list[tuple[str, str, int]]) -> None:
    allowance = Allowance(size)
    there: dict[str, int] = {}  # those who came back longest ago first
    gone, told = list[str](), list[str]()
    for what, guest, much in steps:
        if what == "take":
            there.pop(guest, None)
            there[guest] = much
            while sum(there.values()) > size and len(there) > 1:
                gone.append(next(iter(there)))
                del there[gone[-1]]
            allowance.take(guest, much, _noting(told, guest))
        elif what == "back" and guest in there:
            there[guest] = there.pop(guest)
            allowance.back(guest)
        elif what == "left":
            there.pop(guest, None)
            allowance.left(guest)
        assert (allowance.taken, told) == (sum(there.values()), gone)


def _noting(told: list[str], name: str) -> Callable[[], None]:
    return lambda: told.append(name)


def test_who_makes_room_is_told_the_one_who_came_back_longest_ago_first() -> None:
    allowance, gone = Allowance(10), list[str]()
    for name in "abc":
        allowance.take(name, 3, _noting(gone, name))
    allowance.back("a")
    allowance.take("d", 6, _noting(gone, "d"))
    assert gone == ["b", "c"]
    allowance.take("e", 50, _noting(gone, "e"))
    assert gone == ["b", "c", "a", "d"]
    assert allowance.taken == 50


async def test_all_tenants_of_a_server_share_it(tmp_path: Path) -> None:
    house = tenants(tmp_path / "store.db")
    house.memory = MemorySettings(embedder="none", room=3_000)
    try:
        for tenant in ("acme", "other", "third"):
            memories = house.services(tenant).memories
            await memories.keep(vault("ana"), [Keeping(content=f"tea of {tenant}")])
        at_hand = [bool(house.services(tenant).memories.shelves.known(vault("ana"))) for tenant in ("acme", "third")]
        assert at_hand == [False, True]
        assert house.allowance.taken <= 3_000
        found = await house.services("acme").memories.search(vault("ana"), Seeking(query="tea"))
        assert [one.memory.content for one in found] == ["tea of acme"]
    finally:
        await house.close()


@pytest.mark.parametrize(
    ("machine", "size"),
    [(None, 1 << 30), (1 << 20, LEAST), (2 << 30, 512 << 20), (8 << 30, 2 << 30), (1 << 40, MOST)],
)
def test_it_is_a_quarter_of_the_machine(machine: int | None, size: int) -> None:
    assert usual(machine) == size


def test_a_container_has_no_more_memory_than_it_is_given(tmp_path: Path) -> None:
    whole = memory(())
    limit, none, broken = tmp_path / "limit", tmp_path / "none", tmp_path / "broken"
    limit.write_text("1048576\n")
    none.write_text("max\n")
    broken.write_bytes(b"\xff")
    assert memory((str(none), str(broken), str(tmp_path / "missing"))) == whole
    assert memory((str(none), str(limit))) == 1 << 20
