"""The library in both its colours under one interface: journeys are written once, awaited, and run twice."""

import os
from types import TracebackType
from typing import Any, Self

import perdure
from perdure.edge.blocking import Turn

SPOKEN = frozenset({"before", "after", "before_branch", "compensation"})
"""Methods that wait for nothing in either colour."""


class Awaited:
    """A blocking object whose methods are awaited. They block the loop, as they would in a notebook."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if not callable(found) or name in SPOKEN:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return wrapped(found(*[getattr(arg, "_behind", arg) for arg in args], **kwargs))

        if name == "turn":
            return lambda *args, **kwargs: AwaitedTurn(found(*args, **kwargs))
        return call


class AwaitedTurn(Awaited):
    """A blocking turn for `async with`."""

    async def __aenter__(self) -> Self:
        self._behind.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._behind.__exit__(kind, error, trace)

    def count(self, tokens_in: int, tokens_out: int) -> None:
        self._behind.count(tokens_in, tokens_out)


def wrapped(value: Any) -> Any:
    return Awaited(value) if isinstance(value, perdure.Perdure | perdure.Session | Turn) else value


async def opened(style: str, path: str | os.PathLike[str], **settings: Any) -> Any:
    """A store opened in one of the two colours."""
    return await perdure.aopen(path, **settings) if style == "async" else Awaited(perdure.open(path, **settings))
