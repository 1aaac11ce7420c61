"""The seal of a file, found when the file is opened."""

from collections.abc import Callable

from perdure.ports.seal import CLEAR, Seal


class Joining:
    """Finds the seal of a store when its mark is known, with the connection that has to read it anyway."""

    def __init__(self, seal: Seal | Callable[[str | None], Seal]) -> None:
        self._find = seal if callable(seal) else None
        self.seal: Seal = CLEAR if callable(seal) else seal

    def join(self, mark: str | None) -> str:
        """What a store with this mark has to carry."""
        if self._find is not None:
            self.seal, self._find = self._find(mark), None
        return self.seal.join(mark)

    def give_up(self) -> None:
        """Let go of the seal."""
        self.seal.close()
