"""Named SQL from the files beside this module. Values are always bound, never spliced."""

import os
from typing import Any, Final, Protocol

_HERE = os.path.dirname(__file__)


def _load(name: str) -> str:
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        return file.read()


def _named(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split("-- name: ")[1:]:
        name, _, body = part.partition("\n")
        found[name.strip()] = body.strip()
    return found


class Asks(Protocol):
    """A connection as this package uses it. Columns are `Any`: they become values one line further on."""

    def execute(self, statement: str, values: Any = ...) -> Any:
        """Run a statement; its cursor."""
        ...


QUERIES: Final = _named(_load("queries.sql")) | _named(_load("blobs.sql"))


def migrations() -> list[tuple[int, str]]:
    """Every migration's number and text, in order."""
    names = sorted(name for name in os.listdir(os.path.join(_HERE, "migrations")) if name.endswith(".sql"))
    return [(int(name[:4]), _load(os.path.join("migrations", name))) for name in names]
