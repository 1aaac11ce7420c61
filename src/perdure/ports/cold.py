"""Cold storage: named objects, written once and whole, read from their beginning, a piece at a time."""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec


class Kept(msgspec.Struct, frozen=True):
    """An object that is there: its name and how many bytes it has."""

    name: str
    size: int


class Cold(Protocol):
    """A place for objects. Names are parts joined by `/`; each part has letters, digits, `-`, `_` and `.`, and does not
    begin with a point. All methods may raise `ColdUnreachable` and the world's other errors of `perdure.core.errors`.
    """

    place: str
    """Where it is, for people."""

    async def put(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        """Keep an object, whole and durable before this returns, or not at all; how many bytes it has.

        One of the same name is replaced in one step.
        """
        ...

    def get(self, name: str) -> AsyncIterator[bytes]:
        """The bytes of an object, piece by piece; `BundleMissing` when there is none."""
        ...

    async def stat(self, name: str) -> Kept | None:
        """The object of this name, or None."""
        ...

    async def delete(self, name: str) -> bool:
        """Forget an object for good; False when there was none."""
        ...

    async def reach(self) -> None:
        """`ColdUnreachable` when what was put there cannot be seen now: a share that is not mounted looks empty."""
        ...

    def list(self, folder: str = "") -> AsyncIterator[Kept]:
        """All objects, or those whose name begins with this and `/`, by name."""
        ...
