"""Named SQL from files beside the modules that run it. Values are always bound, never spliced."""

import os
from typing import Any, Protocol


class Asks(Protocol):
    """A connection as statements see it. Columns are `Any`: they become values one line further on."""

    def execute(self, statement: str, values: Any = ...) -> Any:
        """Run a statement; its cursor."""
        ...


def named(beside: str, *files: str) -> dict[str, str]:
    """The statements of files that lie beside a module, by name."""
    parts = [part for file in files for part in _read(beside, file).split("-- name: ")[1:]]
    return {name.strip(): body.strip() for name, _, body in (part.partition("\n") for part in parts)}


def numbered(beside: str, folder: str) -> list[tuple[int, str]]:
    """The migrations in a folder that lies beside a module: each one's number and text, in order."""
    names = sorted(name for name in os.listdir(os.path.join(os.path.dirname(beside), folder)) if name.endswith(".sql"))
    return [(int(name[:4]), _read(beside, os.path.join(folder, name))) for name in names]


def _read(beside: str, file: str) -> str:
    with open(os.path.join(os.path.dirname(beside), file), encoding="utf-8") as opened:
        return opened.read()
