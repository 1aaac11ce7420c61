"""What memory takes: an embedder that turns texts into vectors, and an index that is searched.

Both are plain calls that neither wait nor touch a disk, but for an embedder that asks an endpoint. What an index says
of a text is derived: it can always be made again from the items and their kept vectors.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from perdure.core.errors import ProviderFailed, ProviderRefused

__all__ = ["UNANSWERED", "UNMADE", "Embedder", "Found", "Item", "MemoryIndex"]

UNMADE: Final = b"\x00"
"""Given as an item's vectors: it is taken in without any, and found by its words until they are handed in."""
UNANSWERED: Final = (ProviderFailed, ProviderRefused)
"""What an embedder raises that asks an endpoint, and is given no vectors."""


class Embedder(Protocol):
    """Turns texts into vectors whose cosines tell how near the texts are."""

    name: str
    """What it is, version included: vectors of different names never meet."""

    @property
    def dimensions(self) -> int:
        """Numbers of a vector; 0 until the first is made, where nobody knows before."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector of length one for each text, in order; a text that says nothing may have one of zeros. One that
        asks an endpoint raises what is `UNANSWERED` when there are none to be had.
        """
        ...


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A memory as the index sees it."""

    id: str
    text: str
    author: str = ""
    """Who said it. A query that names one author prefers what they said."""
    at: int = 0
    """When it was said or true, in microseconds UTC; 0 if nobody knows."""
    thread: str = ""
    """Items of one thread are neighbours, in the order they are added; without a thread an item stands alone."""


class Found(msgspec.Struct, frozen=True):
    """An item that was found, its score, and what each signal added to it. `lacking`: who had no say, and should."""

    id: str
    score: float
    signals: dict[str, float]
    lacking: str = ""


class MemoryIndex(Protocol):
    """What is searched. The same items, added in the same order, give the same answers, however they were batched."""

    def add(self, items: Sequence[Item], vectors: Sequence[bytes] = ()) -> list[bytes]:
        """Take items in, and give the packed vectors of each, to be kept and handed in the next time.

        Vectors are made where none are given (`b""`, or none at all) or where they are another embedder's. Without an
        embedder each is `b""`. An item that is given `UNMADE` has none. One whose id is there takes that one's place.
        """
        ...

    def drop(self, ids: Iterable[str]) -> None:
        """Forget items; ids that are not there do no harm."""
        ...

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        among: Callable[[str], bool] | None = None,
        prior: Callable[[str], float] | None = None,
        now: int = 0,
    ) -> list[Found]:
        """The `k` best items, best first, of those that `among` lets pass; equals in the order they were added.

        `prior` (0 to 1, such as an importance) is one weak signal. `now`, if told, gives words like "yesterday" a day.
        While the embedder gives no vector of the query, words alone decide, and what is found says so (`lacking`).
        """
        ...

    def near(self, text: str, *, k: int = 10) -> list[tuple[str, float]]:
        """The items most like a text and how like they are: the cosine, or without vectors the share of words."""
        ...

    def __len__(self) -> int:
        """How many items there are."""
        ...

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        ...
