"""Reads two texts beside each other: whether the later one says the same as the earlier one, or makes it untrue.

The better embedder's network, given both texts at once. To each of its matrices a small product of two is added, which
`python -m evals.reader` learnt; these come with perdure, the network with its own package.
"""

from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from perdure.embedders.encoding import Encoder, Tensors
from perdure.embedders.weights import tensors

DOWN, UP = ".down", ".up"
"""What the names of the two factors end with."""
_LEARNT: Final = "reader.safetensors"


class PairReader:
    """A pair of short texts costs some milliseconds."""

    def __init__(self, folder: Path | None = None, learnt: Tensors | None = None, *, threads: int = 1) -> None:
        if learnt is None:
            with as_file(files("perdure.embedders") / _LEARNT) as path:
                learnt = {name: _plain(array) for name, array in tensors(path).items()}
        self._weight, self._bias = learnt["head.weight"], learnt["head.bias"]
        self._encoder = Encoder(folder, threads=threads, turned=lambda weights: turned(weights, learnt))

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
        """What speaks for `same` and for `newer`, beside nothing for neither, of pairs of an earlier and a later
        text.
        """
        import numpy as np

        sums = np.concatenate(self._encoder(pairs), axis=1) @ self._weight.T + self._bias
        return [(round(same - apart, 4), round(newer - apart, 4)) for apart, same, newer in sums.tolist()]


def turned(weights: Tensors, learnt: Tensors) -> Tensors:
    """The network's weights with what was learnt: a matrix instead of another, or factors whose product is added."""
    found = dict(weights) | {name: array for name, array in learnt.items() if name in weights}
    for name, down in learnt.items():
        if name.endswith(DOWN):
            its = name.removesuffix(DOWN)
            found[its] = weights[its] + learnt[its + UP] @ down
    return found


def _plain(array: Any) -> Any:
    import numpy as np

    return np.asarray(array, dtype=np.float32)
