"""Memory for tests of services: an index too simple to be wrong, an embedder that counts, and memories over both."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from perdure.core.memory.shelf import Shelf
from perdure.ports.memory import Embedder, Found, Item
from perdure.services.allowance import Allowance
from perdure.services.erasure import Erasure
from perdure.services.memories import Memories
from perdure.services.sessions import Sessions
from perdure.services.shelves import Shelves


class Hashing:
    """Makes four numbers of a text, and notes which texts it was given."""

    name = "hashing"
    dimensions = 4

    def __init__(self) -> None:
        self.given: list[str] = []

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.given += texts
        return [[byte / 255 for byte in sha256(text.encode()).digest()[:4]] for text in texts]


class WordIndex:
    """Ranks by words in common; of equals, those that came first. It knows everything that it was given."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder
        self.items: dict[str, tuple[Item, bytes]] = {}
        self.added = 0

    def add(self, items: Sequence[Item], vectors: Sequence[bytes] = ()) -> list[bytes]:
        made: list[bytes] = []
        self.added += len(items)
        for item, given in zip(items, vectors or [b""] * len(items), strict=True):
            vector = given
            if not vector and self.embedder is not None:
                vector = bytes(round(number * 255) for number in self.embedder.embed([item.text])[0])
            self.items[item.id] = (item, vector)
            made.append(vector)
        return made

    def drop(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.items.pop(id, None)

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        among: Callable[[str], bool] | None = None,
        prior: Callable[[str], float] | None = None,
        now: int = 0,
    ) -> list[Found]:
        del now
        asked = set(query.split())
        found = [
            (len(asked & set(item.text.split())), 0.0 if prior is None else prior(id), id)
            for id, (item, _) in self.items.items()
            if among is None or among(id)
        ]
        best = sorted((one for one in found if one[0]), key=lambda one: (-one[0], -one[1], one[2]))
        return [Found(id, float(shared), {}) for shared, _, id in best[:k]]

    def near(self, text: str, *, k: int = 10) -> list[tuple[str, float]]:
        return [(one.id, one.score) for one in self.search(text, k=k)]

    def __len__(self) -> int:
        return len(self.items)

    @property
    def size(self) -> int:
        return 100 * len(self.items)


def much() -> Allowance:
    """RAM for whatever a test keeps."""
    return Allowance(1 << 30)


def no_flags(_: str) -> tuple[str, ...]:
    """Nothing is suspicious here."""
    return ()


def remembering(
    sessions: Sessions,
    erasure: Erasure,
    *,
    embedder: Embedder | None = None,
    allowance: Allowance | None = None,
    plan: str = "unlimited",
) -> Memories:
    """Memories as one node has them."""
    shelves = Shelves(sessions, lambda: embedder, WordIndex, allowance or much(), plan=plan)
    return Memories(shelves, erasure, no_flags)


def everything(shelf: Shelf) -> dict[str, Any]:
    """All that a shelf tells, in a form that compares."""
    ids = {*shelf.memories, *shelf.proposals}
    return {
        "version": (shelf.version, shelf.digest),
        "memories": [*shelf.memories.items()],
        "runs": shelf.runs,
        "proposals": [*shelf.proposals.items()],
        "plan": shelf.plan,
        "queries": shelf.queries,
        "missing": shelf.missing,
        "counts": {status: shelf.count(status) for status in {memory.status for memory in shelf}},
        "versions": {id: shelf.versions_of(id) for id in ids},
    }
