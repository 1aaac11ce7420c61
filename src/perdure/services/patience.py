"""An embedder that is asked elsewhere, and may be away."""

from collections.abc import Callable, Sequence
from typing import Final

from perdure.core.errors import ProviderFailed
from perdure.ports.memory import Embedder

PAUSE: Final = 30 * 1_000_000
"""Microseconds for which one that has failed is not asked again."""


class Patient:
    """Implements `Embedder`. Whoever asks one that is known to be away is told so at once; after a while one of them
    asks it again, and the others need not wait for that. What it refuses of one text, it may take of the next.
    """

    def __init__(self, embedder: Embedder, now: Callable[[], int]) -> None:
        self.name = embedder.name
        self._embedder = embedder
        self._now = now
        self._away: ProviderFailed | None = None
        self._until = 0

    @property
    def dimensions(self) -> int:
        """As the embedder's."""
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See the port."""
        away = self._away
        if away is not None:
            if self._now() < self._until:
                raise type(away)(away.message, **away.fields)
            self._until = self._now() + PAUSE
        try:
            found = self._embedder.embed(texts)
        except ProviderFailed as failed:
            self._away, self._until = type(failed)(failed.message, **failed.fields), self._now() + PAUSE
            raise
        self._away = None
        return found

    def ask_again(self) -> None:
        """Whoever is next asks it, though it may be away."""
        self._until = 0
