"""The better embedder: the mean of what the network of all-MiniLM-L6-v2 makes of a text's tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from perdure.embedders.encoding import WIDTH, Encoder

_LONGEST: Final = 4_000
"""Characters of a text that are looked at for the tokens that count."""


class MiniLM:
    """An embedder of 384 dimensions; a short text costs some milliseconds."""

    name = "all-minilm-l6-v2-int8"
    dimensions = WIDTH

    def __init__(self, folder: Path | None = None, *, threads: int = 1) -> None:
        self._encoder = Encoder(folder, threads=threads)

    def embed(self, texts: Sequence[str]) -> Any:
        """A row for each text, of length one."""
        import numpy as np

        _, means = self._encoder([text[:_LONGEST] for text in texts])
        return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
