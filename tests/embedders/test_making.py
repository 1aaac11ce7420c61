"""Embedders by name."""

import pytest

from perdure.core.errors import Invalid
from perdure.embedders import making
from perdure.embedders.making import made


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


def test_a_missing_package_is_named() -> None:
    try:
        import sentence_transformers  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(Invalid, match="pip install sentence-transformers"):
            made("sentence-transformers:any")
