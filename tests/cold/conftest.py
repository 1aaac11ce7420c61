"""Cold storage of both kinds, for claims that hold for either."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.cold.folder import FolderCold
from perdure.cold.s3 import S3Cold
from perdure.ports.cold import Cold
from tests.cold.s3_server import BUCKET, serving


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[dict[str, str]]:
    with serving() as environment:
        yield environment


@pytest.fixture
def s3(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A place in the bucket that nobody else uses, with the environment in which it is found."""
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture(params=["folder", "s3"])
def cold(request: pytest.FixtureRequest, tmp_path: Path) -> Cold:
    if request.param == "folder":
        return FolderCold(str(tmp_path / "cold"))
    return S3Cold(request.getfixturevalue("s3"))
