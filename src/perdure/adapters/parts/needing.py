"""What an adapter needs: its framework, which an extra brings, and an open store. Both are asked for in plain words."""

from collections.abc import Awaitable
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


def store_of(db: Any, what: str, name: Any = "") -> AsyncPerdure:
    """The store that an adapter was handed, for async code; `Invalid`, with what to hand over, if it is none. A `name`
    that is handed over before it may be in its place.
    """
    found = _opened(db)
    if _opened(name) is not None:
        if found is not None:
            raise errors.Invalid(f"{what}: the session_id is a text, not a store: {what}('trip', db)", what=what)
        raise errors.Invalid(f"the arguments are the wrong way round: {what}({_spelled(db)}, db)", what=what)
    if found is not None:
        return found
    before = f"{name!r}, " if name else ""
    if isinstance(db, Awaitable):
        told = f"{what} takes an open store; an await is missing: {what}({before}await perdure.aopen(…))"
        raise errors.Invalid(f"{told}, or async with perdure.aopen(…) as db", what=what)
    path = _path(db)
    given = type(db).__name__ if path is None else repr(path)
    wanted = '"agent.db"' if path is None else repr(path)
    raise errors.Invalid(f"{what} takes an open store, not {given}; open it first: perdure.open({wanted})", what=what)


def _opened(db: Any) -> AsyncPerdure | None:
    found = getattr(db, "aio", None)
    return found if isinstance(found, AsyncPerdure) else None


def _path(db: Any) -> str | None:
    return str(db) if isinstance(db, str) or hasattr(db, "__fspath__") else None


def _spelled(name: Any) -> str:
    """A name as one would write it; whatever is none stands for one."""
    return repr(name) if isinstance(name, str) else "'trip'"
