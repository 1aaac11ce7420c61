"""The public names, pinned: adding or removing one is a decision, made here and told in CHANGELOG.md."""

import pytest

import perdure

PUBLIC: tuple[str, ...] = ()

pytestmark = pytest.mark.skipif(
    not hasattr(perdure, "__all__"), reason="perdure.__all__ is not written yet, so there is nothing to pin"
)


def test_the_root_exports_exactly_the_pinned_names() -> None:
    assert sorted(perdure.__all__) == sorted(PUBLIC)


def test_every_exported_name_is_there() -> None:
    assert [name for name in perdure.__all__ if not hasattr(perdure, name)] == []
