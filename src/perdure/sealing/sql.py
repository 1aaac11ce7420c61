"""Named SQL from the files beside this module. Values are always bound, never spliced."""

import os
from typing import Any, Protocol


class Asks(Protocol):
    """A connection as the vaults use it. Columns are `Any`: they become values one line further on."""

    def execute(self, statement: str, values: Any = ...) -> Any:
        """Run a statement; its cursor."""
        ...


def named(file: str) -> dict[str, str]:
    """The statements of a file, by name."""
    with open(os.path.join(os.path.dirname(__file__), file), encoding="utf-8") as opened:
        parts = opened.read().split("-- name: ")[1:]
    return {name.strip(): body.strip() for name, _, body in (part.partition("\n") for part in parts)}
