"""Pages that are drawn from code say what the code says."""

from pathlib import Path

from perdure.core.session.kinds import KINDS
from perdure.core.session.lifecycle import diagram

ROOT = Path(__file__).parent.parent


def test_the_lifecycle_diagram_is_drawn_from_the_table() -> None:
    assert diagram() in (ROOT / "docs" / "ARCHITECTURE.md").read_text()


def test_the_format_page_lists_every_event_kind() -> None:
    page = (ROOT / "docs" / "FORMAT.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []
