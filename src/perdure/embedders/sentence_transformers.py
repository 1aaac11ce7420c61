"""Any model of the package sentence-transformers, run by it."""

from collections.abc import Sequence
from typing import Any

from perdure.core.errors import Invalid


class SentenceTransformers:
    """An embedder over a model that is there, or that the package fetches."""

    def __init__(self, model: str) -> None:
        try:
            import sentence_transformers  # type: ignore[import-not-found, unused-ignore]
        except ImportError as missing:
            raise Invalid(
                "this embedder needs the package sentence-transformers: pip install sentence-transformers",
                missing=missing.name,
            ) from None
        self._model = sentence_transformers.SentenceTransformer(model)
        self.name = f"sentence-transformers:{model}"
        self.dimensions = int(self._model.get_sentence_embedding_dimension() or 0)

    def embed(self, texts: Sequence[str]) -> Any:
        """A row for each text, of length one."""
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
