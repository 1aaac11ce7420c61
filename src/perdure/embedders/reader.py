"""Reads two texts beside each other: whether the later one says the same as the earlier one, or makes it untrue.

The better embedder's network, given both texts at once. To each of its matrices a small product of two is added, which
`python -m evals.reader` learnt; these come with perdure, the network with its own package.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from perdure.embedders.encoding import Encoder, Tensors
from perdure.embedders.weights import tensors

DOWN, UP = ".down", ".up"
"""What the names of the two factors end with."""
_LEARNT: Final = "reader.safetensors"
_BATCH: Final = 1_024
"""Tokens that are read at once: more would take memory, and no less time."""


class PairReader:
    """A pair of short texts costs some milliseconds."""

    def __init__(self, folder: Path | None = None, learnt: Tensors | None = None, *, threads: int = 1) -> None:
        if learnt is None:
            with as_file(files("perdure.embedders") / _LEARNT) as path:
                learnt = {name: _plain(array) for name, array in tensors(path).items()}
        self._weight, self._bias = learnt["head.weight"], learnt["head.bias"]
        self._encoder = Encoder(folder, threads=threads, batch=_BATCH, turned=lambda weights: Turned(weights, learnt))

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
        """What speaks for `same` and for `newer`, beside nothing for neither, of pairs of an earlier and a later
        text.
        """
        import numpy as np

        sums = np.concatenate(self._encoder(pairs), axis=1) @ self._weight.T + self._bias
        return [(round(same - apart, 4), round(newer - apart, 4)) for apart, same, newer in sums.tolist()]


class Turned(Mapping[str, Any]):
    """The network's weights with what was learnt: a matrix instead of another, or factors whose product is added, made
    when it is asked for.
    """

    def __init__(self, weights: Tensors, learnt: Tensors) -> None:
        self._weights, self._learnt = weights, learnt

    def __getitem__(self, name: str) -> Any:
        if name in self._learnt:
            return self._learnt[name]
        its = self._weights[name]
        return its + self._learnt[name + UP] @ self._learnt[name + DOWN] if name + UP in self._learnt else its

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def _plain(array: Any) -> Any:
    import numpy as np

    return np.asarray(array, dtype=np.float32)
