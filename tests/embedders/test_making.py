"""Embedders by name."""

import pytest

from perdure.core.errors import Invalid
from perdure.embedders import making
from perdure.embedders.making import made, must_be_known


def test_none_is_words_alone() -> None:
    assert made("none") is None
    assert made("") is None


def test_auto_without_the_extra_is_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "find_spec", lambda _: None)
    assert made("auto") is None


@pytest.mark.parametrize(
    "name", ["nonsense", "sentence-transformers:", "ftp://host#model", "https://host/v1", "https://#m"]
)
def test_an_unknown_name_is_told_which_there_are(name: str) -> None:
    with pytest.raises(Invalid, match="https://"):
        made(name)


@pytest.mark.parametrize(
    "name", ["nonsense", "sentence-transformers:", "ftp://host#model", "https://host/v1", "https://#m"]
)
def test_an_unknown_name_is_told_before_anything_is_made(name: str) -> None:
    with pytest.raises(Invalid, match="https://"):
        must_be_known(name)


@pytest.mark.parametrize(
    "name", ["", "auto", "none", "wordllama", "minilm", "sentence-transformers:any", "http://127.0.0.1:9/v1#m"]
)
def test_a_known_name_is_taken_whatever_is_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "find_spec", lambda _: None)
    must_be_known(name)


def test_a_missing_package_is_named() -> None:
    try:
        import sentence_transformers  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(Invalid, match="pip install sentence-transformers"):
            made("sentence-transformers:any")
