"""A PostgreSQL server for tests: where it cannot run, that is said before anything is made."""

import os
import tempfile
from pathlib import Path

import pytest

from perdure.testing import postgres


@pytest.mark.skipif(os.name != "posix", reason="folders have modes only there")
def test_as_root_a_folder_that_only_root_may_enter_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    (private / "inner").mkdir(parents=True)
    private.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(private / "inner"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(RuntimeError, match=r"may not enter .*; set TMPDIR"), postgres.running():
        pytest.fail("it must not come so far")
    assert list((private / "inner").iterdir()) == []
