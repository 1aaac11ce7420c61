"""Embedders made by name; each is loaded when it is first made."""

from importlib.util import find_spec
from typing import Final

from perdure.core.errors import Invalid
from perdure.ports.memory import Embedder

_KNOWN: Final = (
    "auto, none, wordllama, minilm, sentence-transformers:MODEL, or an address with a model: https://…#MODEL"
)
_NAMES: Final = frozenset(("", "auto", "none", "wordllama", "minilm"))


def made(name: str, *, key: str = "") -> Embedder | None:
    """The embedder of this name, or None for words alone. `key` is for an endpoint elsewhere.

    `auto` takes the lightest one if it is installed. `Invalid` says what to install, or which names there are.
    """
    kind, _, model = name.partition(":")
    if name in {"", "none"} or (name == "auto" and not _is_light_installed()):
        return None
    if name in {"auto", "wordllama"}:
        from perdure.embedders.wordllama import WordLlama

        return WordLlama()
    if name == "minilm":
        from perdure.embedders.minilm import MiniLM

        return MiniLM()
    if kind == "sentence-transformers" and model:
        from perdure.embedders.sentence_transformers import SentenceTransformers

        return SentenceTransformers(model)
    if is_elsewhere(name):
        from perdure.embedders.endpoint import Endpoint

        address, _, model = name.rpartition("#")
        return Endpoint(address, model, key=key)
    raise _unknown(name)


def must_be_known(name: str) -> None:
    """`Invalid` where no embedder has this name, be it installed or not."""
    kind, _, model = name.partition(":")
    if is_elsewhere(name):
        made(name)
    elif name not in _NAMES and not (kind == "sentence-transformers" and model):
        raise _unknown(name)


def _unknown(name: str) -> Invalid:
    return Invalid(f"there is no embedder {name[:200]!r}; name one of: {_KNOWN}", embedder=name[:200])


def is_elsewhere(name: str) -> bool:
    """Whether it is an address, which is asked over the network."""
    return name.startswith(("http://", "https://")) and "#" in name


def _is_light_installed() -> bool:
    return all(find_spec(package) is not None for package in ("wordllama", "tokenizers", "numpy"))
