"""Memories at rest: sealed to the last byte, and whole after a backup, an export, an archive; never pruned away."""

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

import perdure
from perdure.compose import copying
from perdure.compose.wiring import Services, embedded
from perdure.core.errors import PruneRefused
from perdure.core.memory.parts import LETHE, Source, Space, Status, vault
from perdure.core.memory.requests import Changing, Keeping, Seeking
from perdure.ports.memory import Item
from perdure.sealing.given import Given
from perdure.services.backup import Backups
from perdure.services.memories import Memories
from perdure.services.restore import Restores
from perdure.services.shelves import Shelves
from perdure.stores import packing
from perdure.testing import FixedAmbient
from perdure.waiting import drive
from tests.sealing.test_raw_bytes import PREFIX, found
from tests.services.shelved import Hashing, WordIndex, everything, much, no_flags, remembering

ANA = vault("ana")
MARKERS = {
    what: f"{PREFIX}{what}{number:04d}zz"
    for number, what in enumerate(
        """content changed metadatakey metadatavalue changedvalue author subject thread uri vector query reason agent
        clade forgotten""".split()
    )
}


class Marked(WordIndex):
    """An index whose vectors can be told from all others."""

    def add(self, items: Sequence[Item], vectors: Sequence[bytes] = ()) -> list[bytes]:
        return super().add(items, [each or MARKERS["vector"].encode() for each in vectors])


def opened(place: Path, sealed: bool = True) -> Services:
    keys = Given(True, f"{place}.master", f"{place}.keys") if sealed else Given(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a key was made
        return embedded(str(place), ambient=FixedAmbient(), keys=keys)


def work(services: Services) -> None:
    """Put every marker where memory keeps something."""
    m = MARKERS
    memories = Memories(Shelves(services.sessions, Hashing, Marked, much()), services.erasure, no_flags)
    asked = Keeping(
        content=m["content"],
        metadata={m["metadatakey"]: m["metadatavalue"]},
        author=m["author"],
        subjects=(m["subject"],),
        thread=m["thread"],
        source=Source(kind="document", uri=m["uri"]),
    )
    one, other = drive(memories.keep(ANA, [asked, Keeping(content=m["forgotten"])], agent=m["agent"], key="k"))
    drive(memories.update(ANA, one.id, Changing(metadata={"x": m["changedvalue"]}, reason=m["reason"])))
    drive(memories.update(ANA, one.id, Changing(content=m["changed"])))
    drive(memories.keep(Space("clade", m["clade"]), [asked]))
    assert drive(memories.search(ANA, Seeking(query=m["changed"] + " " + m["query"])))
    drive(memories.move(ANA, [other.id], Status.ARCHIVED, m["reason"]))
    drive(memories.forget(ANA, [other.id]))
    drive(memories.close())


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_no_word_and_no_vector_of_a_memory_is_in_any_file_of_a_sealed_store(tmp_path: Path) -> None:
    services = opened(tmp_path / "agent.db")
    work(services)
    during = files(tmp_path)
    assert {"agent.db", "agent.db-wal"} <= during.keys()
    assert found(during, MARKERS) == []
    drive(services.store.close())
    assert found(files(tmp_path), MARKERS) == []


def test_the_same_store_in_the_clear_holds_them_so_the_search_can_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing.squeeze, "__defaults__", (1 << 30,))  # nothing is worth compressing
    services = opened(tmp_path / "agent.db", sealed=False)
    work(services)
    drive(services.store.close())
    seen = {what for _, what in found(files(tmp_path), MARKERS)}
    assert seen == {"a marker", *MARKERS} - {"query", "forgotten"}, "what is asked or forgotten is kept nowhere"


# ── moved about ──


def lived(services: Services) -> Memories:
    """Memories with a life behind them."""
    memories = remembering(services.sessions, services.erasure, embedder=Hashing())
    made = drive(memories.keep(ANA, [Keeping(content=f"tea {number}") for number in range(30)]))
    drive(memories.update(ANA, made[0].id, Changing(content="coffee")))
    drive(memories.move(ANA, [made[1].id], Status.QUARANTINED, "odd"))
    drive(memories.forget(ANA, [made[2].id]))
    drive(memories.keep(LETHE, [Keeping(content="rain")]))
    drive(memories.search(ANA, Seeking(query="tea")))
    drive(memories.plan(ANA, "standard"))
    drive(memories.close())
    return memories


def told(services: Services, space: Space = ANA) -> object:
    """Everything a reader knows who has nothing at hand."""
    memories = remembering(services.sessions, services.erasure, embedder=Hashing())
    known = drive(memories.shelves.look(space))
    assert isinstance(known.index, WordIndex)
    return everything(known.shelf), known.index.items


@pytest.mark.parametrize("sealed", [True, False])
def test_a_backup_brings_every_memory_back(tmp_path: Path, sealed: bool) -> None:
    services = opened(tmp_path / "agent.db", sealed)
    lived(services)
    before = told(services), told(services, LETHE)
    drive(services.store.close())
    drive(Backups(copying("1")).back_up(str(tmp_path / "agent.db"), str(tmp_path / "backup")))
    for suffix in (".master", ".keys") if sealed else ():
        shutil.copy(tmp_path / f"agent.db{suffix}", tmp_path / f"again.db{suffix}")
    drive(Restores(copying("1")).restore(str(tmp_path / "backup"), str(tmp_path / "again.db")))
    again = opened(tmp_path / "again.db", sealed)
    assert (told(again), told(again, LETHE)) == before
    drive(again.store.close())


def test_a_node_whose_store_was_restored_to_an_earlier_moment_forgets_what_came_after() -> None:
    services = embedded(":memory:", ambient=FixedAmbient(), keys=Given(False))
    memories = remembering(services.sessions, services.erasure)
    drive(memories.keep(ANA, [Keeping(content="tea")]))
    lines = drive(_exported(services, memories))
    drive(memories.keep(ANA, [Keeping(content="rain")]))
    drive(services.erasure.erase(memories.shelves.session_of(ANA)))
    drive(services.importing.import_lines(lines))
    assert [memory.content for memory in drive(memories.list(ANA)).items] == ["tea"]
    drive(memories.keep(ANA, [Keeping(content="pool")]))
    assert [memory.content for memory in drive(memories.list(ANA)).items] == ["tea", "pool"]
    drive(services.store.close())


async def _exported(services: Services, memories: Memories) -> list[bytes]:
    return [line async for line in services.exporting.export(memories.shelves.session_of(ANA))]


def test_a_space_is_exported_and_imported_like_any_log() -> None:
    here = embedded(":memory:", ambient=FixedAmbient(), keys=Given(False))
    there = embedded(":memory:", ambient=FixedAmbient(seed=b"there"), keys=Given(False))
    memories = lived(here)
    drive(there.importing.import_lines(drive(_exported(here, memories))))
    assert told(there) == told(here)
    other = remembering(there.sessions, there.erasure)
    assert drive(other.shelves.spaces()) == (ANA,)
    for services in (here, there):
        drive(services.store.close())


def test_memories_in_cold_storage_are_read_as_if_they_were_not(tmp_path: Path) -> None:
    services = embedded(":memory:", ambient=FixedAmbient(), keys=Given(False), cold=str(tmp_path / "cold"))
    memories = lived(services)
    before = told(services)
    session = memories.shelves.session_of(ANA)
    drive(services.lifecycle.move(session, "complete"))
    drive(services.archiving.archive(session))
    assert drive(services.store.head(session)).row.cold is not None  # type: ignore[union-attr]
    shelf, index = told(services)  # type: ignore[misc]
    assert [memory for _, memory in shelf["memories"]] == [memory for _, memory in before[0]["memories"]]  # type: ignore[index]
    assert index == before[1]  # type: ignore[index]
    drive(services.store.close())


@pytest.mark.parametrize("sealed", [True, False])
def test_the_log_of_a_space_is_never_pruned_and_others_are(tmp_path: Path, sealed: bool) -> None:
    services = opened(tmp_path / "agent.db", sealed)
    memories = lived(services)
    before = told(services)
    for space in (ANA, LETHE):
        with pytest.raises(PruneRefused, match="forget or archive") as refusal:
            drive(services.erasure.prune(memories.shelves.session_of(space), 2))
        assert refusal.value.fields["space"] == str(space)
    assert told(services) == before
    drive(services.store.close())
    with perdure.open(tmp_path / "other.db", seal=False) as db:
        session = db.create("vault/ana", tags=["memory"])
        for number in range(3):
            session.append(perdure.events.Message(role="user", content=str(number)))
        assert session.prune(3)


def test_reading_the_log_anew_gives_the_same_through_snapshots_and_checkpoints(tmp_path: Path) -> None:
    services = opened(tmp_path / "agent.db")
    memories = lived(services)
    drive(services.checkpoints.take(memories.shelves.session_of(ANA), "full"))
    before = told(services)
    drive(services.store.close())
    again = opened(tmp_path / "agent.db")
    assert told(again) == before
    drive(again.store.close())
