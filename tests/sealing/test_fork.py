"""Forks: parent and child go on with one keyring, and never hand out the same salt."""

from pathlib import Path

import pytest

import perdure
from tests.torture.test_fork import run


def test_parent_and_child_never_use_the_same_salt(tmp_path: Path) -> None:
    run(
        """
made = [db.create() for _ in range(5)]  # and three salts in stock
def work():
    for n in range(20): db.create("child").append(turn("c"))
    db.close()
children = [fork(work) for _ in range(2)]
for n in range(20): db.create("parent").append(turn("p"))
for child in children: assert ended(child)
store = getattr(db._behind._services.store, "inner", db._behind._services.store)
from perdure.waiting import drive
salts = [salt for _, salt in drive(store.salts(None, 1000))]
assert None not in salts
assert len(salts) == len(set(salts)) == 1 + 5 + 60, (len(salts), len(set(salts)))
db.close()
""",
        tmp_path,
    )
    with perdure.open(tmp_path / "store.db") as db:
        assert (db.count(title="child"), db.count(title="parent"), db.count()) == (40, 20, 66)
        assert db.verify().ok


@pytest.mark.slow
def test_a_fork_amid_threads_that_need_the_vault_blocks_nobody(tmp_path: Path) -> None:
    """Reading cold sessions asks the vault, creating refills the stock, erasing destroys: all while forks come."""
    run(
        """
ids = [db.create(f"title {n}").id for n in range(30)]
stop = threading.Event()
store = getattr(db._behind._services.store, "inner", db._behind._services.store)
def reading():
    while not stop.is_set():
        store._packing.seal._keys.clear()
        db.find(limit=50)
def making():
    while not stop.is_set():
        made = [db.create("x") for _ in range(3)]
        made[0].branch().append(turn("b"))
        made[0].erase()
threads = [threading.Thread(target=work) for work in (reading, making, making)]
for thread in threads: thread.start()
def work():
    db.create("child").append(turn("c"))
    for id in ids[:5]: db.session(id).append(turn("c"))
    db.close()
well = True
for n in range(12): well = well and ended(fork(work), 10)
stop.set()
for thread in threads: thread.join()
assert well
db.close()
""",
        tmp_path,
    )
    with perdure.open(tmp_path / "store.db") as db:
        assert db.count(title="child") == 12
        assert db.verify().ok
