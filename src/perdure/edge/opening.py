"""A store on its way to being open: awaited, it is the open store; entered as a block, it is closed at the end."""

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closing(Protocol):
    """What is closed when it is done with."""

    async def close(self) -> None:
        """Let go of it."""


T = TypeVar("T", bound=Closing)


class Opening(Coroutine[Any, Any, T], Generic[T]):
    """What `aopen` returns: a coroutine like any other, which opens one store once, and an async context manager."""

    __slots__ = ("_opened", "_work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._opened: T | None = None

    def send(self, value: Any, /) -> Any:
        """Go on with the work, as a coroutine does."""
        return self._work.send(value)

    def throw(self, kind: Any, error: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Raise an error in the work, as a coroutine does."""
        if error is None and trace is None:
            return self._work.throw(kind)
        return self._work.throw(kind, error, trace)

    def close(self) -> None:
        """Give it up before it has begun."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._work
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
