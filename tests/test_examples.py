"""Examples are promises: every one in a docstring, in the README and in the pages under docs/ runs as it stands.

A block that cannot run has `<!-- not run -->` on the line above its fence.
"""

import doctest
import importlib
import pkgutil
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^(?P<above>[^\n]*)\n```python[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "<!-- not run -->"


def modules() -> list[str]:
    """Every module there is; `__main__` would start the command line."""
    found = [item.name for item in pkgutil.walk_packages(perdure.__path__, "perdure.")]
    return ["perdure", *(name for name in found if not name.endswith("__main__"))]


def blocks() -> Iterator[tuple[str, str]]:
    """Where each runnable block stands, and its code."""
    for page in PAGES:
        text = "\n" + page.read_text("utf-8")
        for found in BLOCK.finditer(text):
            if found["above"].strip() != NOT_RUN:
                line = text.count("\n", 0, found.start("code"))
                yield f"{page.relative_to(ROOT).as_posix()}:{line}", found["code"]


EXAMPLES = dict(blocks())


@pytest.mark.parametrize("name", modules())
def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_the_first_thing_a_reader_sees_is_an_example() -> None:
    assert doctest.DocTestFinder().find(perdure)[0].examples
    assert any(place.startswith("README.md") for place in EXAMPLES)


@pytest.mark.parametrize("place", EXAMPLES)
def test_page_examples_run(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[place], "utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def test_examples_may_share_a_folder_and_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader tries one after the other, in one place, and comes back."""
    monkeypatch.chdir(tmp_path)
    for index, (_, code) in enumerate(2 * sorted(EXAMPLES.items())):
        script = tmp_path / f"example_{index}.py"
        script.write_text(code, "utf-8")
        runpy.run_path(str(script), run_name="__main__")
