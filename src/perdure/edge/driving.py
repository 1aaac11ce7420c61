"""Async objects behind blocking ones: their methods, driven to the end on the calling thread."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from perdure.waiting import drive

P = ParamSpec("P")
R = TypeVar("R")


class Blocking:
    """Holds the async object behind a blocking one."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Blocking, P], R]:
    """The blocking twin of an async method, with the same signature and words, of whatever is behind."""
    name = method.__name__

    @wraps(method)
    def call(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = drive(getattr(self._behind, name)(*args, **kwargs))
        return found

    return call


def passing(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Blocking, P], R]:
    """The same method, for those that wait for nothing."""
    name = method.__name__

    @wraps(method)
    def call(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = getattr(self._behind, name)(*args, **kwargs)
        return found

    return call


def each(items: AsyncIterator[R]) -> Iterator[R]:
    """What an async iterator gives, one by one."""
    while True:
        try:
            yield drive(items.__anext__())  # type: ignore[arg-type]  # an async generator's step is a coroutine
        except StopAsyncIteration:
            return


def each_closed(items: AsyncGenerator[R, None]) -> Iterator[R]:
    """As `each`, and whoever stops early lets go of what is behind it."""
    try:
        yield from each(items)
    finally:
        drive(items.aclose())
