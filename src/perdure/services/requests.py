"""What edges ask services for, where it takes more than a few arguments."""

from typing import Any

import msgspec

from perdure.core.session.ids import SessionId


class BranchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch shall be. `config` holds only the fields that replace inherited ones."""

    kind: str = "checkpoint"
    name: str = ""
    title: str | None = None
    config: dict[str, Any] = {}
    checkpoint: str | None = None
    id: SessionId | None = None
    key: str | None = None
