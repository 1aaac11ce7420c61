"""The lightest embedder: the mean of static word vectors, from the table and the tokenizer in the package wordllama.

Its code is not imported: that would load pydantic and requests and set up logging.
"""

from collections.abc import Sequence
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.embedders.weights import folder_of, tensors, verify

_INSTALL: Final = "pip install 'perdure[memory]'"
_TABLE: Final = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_TOKENIZER: Final = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
_LONGEST: Final = 20_000
"""Characters of a text that count: beyond them a mean says nothing."""


class WordLlama:
    """An embedder without a network, without threads, and without a model to run."""

    name = "wordllama-l2-supercat-256"
    dimensions = 256

    def __init__(self) -> None:
        folder = folder_of("wordllama", install=_INSTALL)
        try:
            import numpy as np
            from tokenizers import Tokenizer
        except ImportError as missing:
            raise Invalid(f"this embedder needs more: {_INSTALL}", missing=missing.name) from None
        table = folder / "weights" / "l2_supercat_256.safetensors"
        tokenizer = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
        verify(table, _TABLE)
        verify(tokenizer, _TOKENIZER)
        self._numpy = np
        self._table = np.asarray(tensors(table)["embedding.weight"], dtype=np.float32)
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: Sequence[str]) -> Any:
        """A row for each text, of length one; a text without words has a row of zeros."""
        np = self._numpy
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        ids = [encoded.ids for encoded in self._encoded(texts)]
        for at, its in enumerate(ids):
            if its:
                self._table.take(its, axis=0, mode="clip").sum(axis=0, out=vectors[at])
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.where(lengths > 0, lengths, 1)[:, None]
        return vectors

    def _encoded(self, texts: Sequence[str]) -> Any:
        cut = [text[:_LONGEST] for text in texts]
        if len(cut) == 1:  # a batch of one would wake threads
            return [self._tokenizer.encode(cut[0], add_special_tokens=False)]
        return self._tokenizer.encode_batch_fast(cut, add_special_tokens=False)
