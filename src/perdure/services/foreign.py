"""Calling code that is not ours: plain or async, with a deadline, on an event loop or without one.

Invariant: a call with a deadline never holds up an event loop, and nothing is waited for past its deadline. A plain
function that is late is left behind on a thread of its own, which does not keep the process alive. Foreign code that
raises what ends a program, a generator or a task has failed, and ends nothing; an interrupt, and a cancellation that
somebody asked this task for, go on their way.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from inspect import iscoroutinefunction
from threading import TIMEOUT_MAX, Thread
from typing import Any, Final, TypeVar

from perdure.core.errors import Invalid
from perdure.core.session.shown import told
from perdure.forking import Forking, on_fork
from perdure.waiting import Ticket, blocking

T = TypeVar("T")
REMEMBERED: Final = 1000
"""Late calls that are kept in mind; the oldest goes first, and may then run twice at once."""


class Late(Exception):
    """The deadline passed before there was an answer."""


class GaveUp(Exception):
    """Foreign code raised what is not its to raise: a cancellation that nobody had asked for, or an exit."""


def fault(error: Exception) -> str:
    """What foreign code did wrong, as a text that can be stored: what it raised, or what its answer lacked."""
    words = told(error)
    return words.partition(": ")[2] if isinstance(error, Invalid | GaveUp) else words


async def settled(answer: T | Awaitable[T]) -> T:
    """An answer, awaited if that is what it is for. In a blocking call a loop of its own is made for it."""
    if not isinstance(answer, Awaitable):
        return answer
    with its_own_fault(waits=True):
        if not blocking():
            return await answer
        found: T = await _on_thread(lambda: answer)
        return found


async def called(function: Callable[..., Any], *given: Any) -> Any:
    """What a function answers that is called here, on this thread, and waited for however long it takes."""
    with its_own_fault():
        answer = function(*given)
    return await settled(answer)


async def asked(function: Callable[..., Any], *given: Any, seconds: float | None = None) -> Any:
    """What a function answers, or `Late`; whatever it raises is raised. A plain one runs on a thread of its own."""
    if is_async(function) and not blocking():
        return await _limited(function(*given), seconds)
    return await _delivered(_on_thread(lambda: function(*given)), seconds)


class Attempts:
    """Calls that are known by a key and may be made again. One that was late and still runs is not made a second time
    beside itself: it is late again, at once; and if it has come to its end since, that is the answer.
    """

    def __init__(self) -> None:
        self._late: dict[str, Ticket[Any]] = {}
        on_fork(self, Forking(_unchanged, _unchanged, Attempts._forked))

    def _forked(self) -> None:
        """Their threads run in the parent."""
        self._late.clear()

    async def asked(self, key: str, function: Callable[..., Any], *given: Any, seconds: float) -> Any:
        """What a function answers, or `Late`; whatever it raises is raised."""
        if is_async(function) and not blocking():
            return await asked(function, *given, seconds=seconds)
        late = self._late.get(key)
        if late is not None and not late.done:
            raise Late
        ticket = self._late.pop(key, None) or _on_thread(lambda: function(*given))
        try:
            return await _delivered(ticket, seconds)
        finally:
            if not ticket.done:
                self._late[key] = ticket
                if len(self._late) > REMEMBERED:
                    self._late.pop(next(iter(self._late)))


def _unchanged(_: Attempts) -> None:
    """A fork takes nothing from the parent."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await, without doing anything yet."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _delivered(ticket: Ticket[Any], seconds: float | None) -> Any:
    """What comes from a thread, or `Late`; under an event loop also what that gives to await."""
    if not blocking():
        return await _limited(_awaited_twice(ticket), seconds)
    with its_own_fault(waits=True):
        if seconds is not None and not ticket.wait(min(seconds, TIMEOUT_MAX)):
            raise Late
        return await ticket


async def _limited(work: Awaitable[T], seconds: float | None) -> T:
    """What is awaited, or `Late`; it is cancelled then."""
    import asyncio

    limit = asyncio.timeout(seconds)
    with its_own_fault(waits=True):
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise Late from None
            raise


async def _awaited_twice(ticket: Ticket[Any]) -> Any:
    answer = await ticket
    return await answer if isinstance(answer, Awaitable) else answer


@contextmanager
def its_own_fault(*, waits: bool = False) -> Iterator[None]:
    """Turn what foreign code raises to end more than itself into a failure like any other. Where it is waited for, a
    GeneratorExit may also come from whoever gives up waiting.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except GeneratorExit as error:
        if waits:
            raise
        raise _gave_up(error) from error
    except BaseException as error:
        if _nobody_asked_for(error):
            raise _gave_up(error) from error
        raise


def _gave_up(error: BaseException) -> GaveUp:
    if type(error).__name__ == "CancelledError":
        return GaveUp("it was cancelled from within, and nobody had asked for that")
    return GaveUp(f"it raised {told(error)}")


def _nobody_asked_for(error: BaseException) -> bool:
    asyncio = sys.modules.get("asyncio")  # whoever raises its error has loaded it
    if asyncio is None or not isinstance(error, asyncio.CancelledError):
        return True
    task = None if blocking() else asyncio.current_task()
    return task is None or not task.cancelling()


def _on_thread(call: Callable[[], Any]) -> Ticket[Any]:
    """Run a call on a thread of its own, and in a blocking program also what it gives to await."""
    ticket: Ticket[Any] = Ticket()
    context, alone = copy_context(), blocking()

    def run() -> None:
        try:
            answer = call()
            if alone and isinstance(answer, Awaitable):
                import asyncio

                answer = asyncio.run(_awaited(answer))
        except GeneratorExit as error:  # on its own thread nobody but itself can have raised it
            ticket.fail(_gave_up(error))
        except BaseException as error:  # delivered, not swallowed: whoever asked raises it
            ticket.fail(error)
        else:
            ticket.deliver(answer)

    Thread(target=context.run, args=(run,), name="perdure-asking", daemon=True).start()
    return ticket


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
