"""Work that a cancellation does not break off."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from perdure.waiting import blocking, tell

T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must not stop half-way: a cancellation of this task waits for its end, and then goes on."""
    return await (work if blocking() else _Unbroken(work))


class _Unbroken(Generic[T]):
    """Takes the steps of a coroutine in the task that awaits it. Whatever the coroutine waits for, the task waits for
    steadily, so a cancellation strikes neither that nor the work.
    """

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, T]:
        try:
            awaited = self._work.send(None)
        except StopIteration as finished:  # it had nothing to wait for
            value: T = finished.value
            return value
        return (yield from self._steadily(awaited))

    def _steadily(self, awaited: Any) -> Generator[Any, None, T]:
        from asyncio import CancelledError, current_task, get_running_loop

        loop, task, cancelled = get_running_loop(), current_task(), None
        before = task.cancelling() if task is not None else 0
        try:
            while True:
                if awaited is None:  # a mere turn of the loop
                    awaited = loop.create_future()
                    loop.call_soon(tell, awaited)
                awaited._asyncio_future_blocking = False  # as a task says that it took it
                while not awaited.done():
                    try:
                        yield _Steady(loop, awaited)
                    except CancelledError as error:
                        if not awaited.done():
                            raise
                        # The awaited may have been cancelled itself, which tells the work; and the task as well.
                        if not awaited.cancelled() or (task is not None and task.cancelling() > before):
                            cancelled = error
                    except BaseException:
                        if awaited.done():
                            continue  # this is what became of it, which tells the work by itself
                        raise
                awaited = self._work.send(None)
        except StopIteration as finished:
            if cancelled is not None:
                raise cancelled from None
            value: T = finished.value
            return value
        except BaseException as error:
            self._work.close()
            if cancelled is not None:
                raise cancelled from error
            raise


class _Steady:
    """A future as a task waits for one, but for this: it can't be cancelled. The task is then told of its cancellation
    when the future is done.
    """

    __slots__ = ("_asyncio_future_blocking", "_awaited", "_loop")

    def __init__(self, loop: Any, awaited: Any) -> None:
        self._asyncio_future_blocking = True
        self._awaited = awaited
        self._loop = loop

    def get_loop(self) -> Any:
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        self._awaited.add_done_callback(callback, context=context)

    def cancel(self, msg: object = None) -> bool:
        return False
