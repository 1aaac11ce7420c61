"""Calling code that is not ours: plain or async, with a deadline, on an event loop or without one.

Invariant: a call never holds up an event loop, and nothing is waited for past its deadline. A plain function that is
late is left behind on a thread of its own, which does not keep the process alive.
"""

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from inspect import iscoroutinefunction
from threading import Thread
from typing import Any, TypeVar

from perdure.waiting import Ticket, blocking

T = TypeVar("T")


class Late(Exception):
    """The deadline passed before there was an answer."""


async def settled(answer: T | Awaitable[T]) -> T:
    """An answer, awaited if that is what it is for. In a blocking call a loop of its own is made for it."""
    if not isinstance(answer, Awaitable):
        return answer
    if not blocking():
        return await answer
    found: T = await _on_thread(lambda: answer)
    return found


async def asked(function: Callable[..., Any], *given: Any, seconds: float | None = None) -> Any:
    """What a function answers, or `Late`; whatever it raises is raised."""
    if blocking():
        ticket = _on_thread(lambda: function(*given))
        if seconds is not None and not ticket.wait(seconds):
            raise Late
        return await ticket
    import asyncio

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            answer = function(*given) if _is_async(function) else await _on_thread(lambda: function(*given))
            return await answer if isinstance(answer, Awaitable) else answer
    except TimeoutError:
        if limit.expired():
            raise Late from None
        raise


def _is_async(function: Callable[..., Any]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


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
        except BaseException as error:  # delivered, not swallowed: whoever asked raises it
            ticket.fail(error)
        else:
            ticket.deliver(answer)

    Thread(target=context.run, args=(run,), name="perdure-asking", daemon=True).start()
    return ticket


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
