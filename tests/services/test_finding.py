"""Pages of sessions with what is passed over in between."""

import pytest

from perdure.compose.memory import MemorySettings
from perdure.compose.wiring import embedded
from perdure.core.memory.parts import vault
from perdure.core.session import commands as do
from perdure.services import finding as module


@pytest.mark.parametrize("by_activity", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
async def test_every_session_is_found_once_however_many_logs_of_memories_lie_between(
    monkeypatch: pytest.MonkeyPatch, limit: int, by_activity: bool
) -> None:
    monkeypatch.setattr(module, "PASSED", 4)
    services = embedded(":memory:", memory=MemorySettings(embedder="none"))
    made = []
    for number in range(9):
        made.append((await services.sessions.create(do.Create(title=f"session {number}"))).session)
        for one in range(number):
            await services.memories.shelves.begin(vault(f"agent {number} {one}"))
    finding, seen, cursor = services.finding, [], None
    query = finding.query(limit=limit, by_activity=by_activity)
    while True:
        page = await finding.page(query, cursor, memories=False)
        assert len(page.items) == limit or page.cursor is None
        seen += [row.session for row in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == made[::-1]
    assert await finding.count(query, memories=False) == 9
    assert await finding.count(query) == 9 + 36
