"""What an adapter needs: its framework, which an extra brings, and an open store. Both are asked for in plain words."""

from types import TracebackType
from typing import Any, Final

from perdure import AsyncPerdure, errors


class Extra:
    """The imports of a framework: `with Extra("langgraph"):`. What is missing is told with the way to install it."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, ImportError) or (error.name or "").partition(".")[0] == "perdure":
            return
        if "perdure[" in str(error):  # told by a part of this one
            return
        told = f'{error}; this part of perdure needs an extra: pip install "perdure[{self.name}]"'
        raise type(error)(told, name=error.name, path=error.path) from error


def store_of(db: Any, what: str) -> AsyncPerdure:
    """The store that an adapter was handed, for async code; `Invalid`, with what to hand over, if it is none."""
    found = getattr(db, "aio", None)
    if isinstance(found, AsyncPerdure):
        return found
    path = repr(str(db)) if isinstance(db, str) or hasattr(db, "__fspath__") else '"agent.db"'
    given = path if path != '"agent.db"' else type(db).__name__
    raise errors.Invalid(f"{what} takes an open store, not {given}; open it first: perdure.open({path})", what=what)
