"""The weights that pairs of memories are judged by, as `python -m evals.pairs` learnt them."""

import gzip
from functools import cache
from importlib.resources import files

from perdure.core.memory.pairing import Weights, weights_of


@cache
def weights() -> Weights:
    """The weights that come with the package."""
    packed = (files("perdure.compose") / "pairs.tsv.gz").read_bytes()
    return weights_of(gzip.decompress(packed).decode().splitlines())
