"""Forks: whatever must not be shared with a child is let go before, and taken up again after, on both sides."""

import contextlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary


class Forking(NamedTuple):
    """What an object does when its process forks. Before: let go of everything a child must not share. In the parent:
    go on, also if the first was not finished, and also twice. In the child: start anew.
    """

    before: Callable[[Any], None]
    parent: Callable[[Any], None]
    child: Callable[[Any], None]


_FORKING: WeakKeyDictionary[Any, Forking] = WeakKeyDictionary()
_paused: list[tuple[Any, Forking]] = []


def on_fork(owner: Any, forking: Forking) -> None:
    """Have the owner take part in every fork of this process, for as long as it lives."""
    _FORKING[owner] = forking


def _before() -> None:
    """The latest comer first: whoever came before it may be what it needs to finish."""
    for owner, forking in reversed(list(_FORKING.items())):
        _paused.append((owner, forking))  # first: whoever is interrupted on the way goes on as well
        forking.before(owner)


def _in_parent() -> None:
    _go_on(lambda owner, forking: forking.parent(owner))


def _in_child() -> None:
    _go_on(lambda owner, forking: forking.child(owner))


def _go_on(how: Callable[[Any, Forking], None]) -> None:
    """Nobody calls again after a fork, so neither an interrupt nor an error keeps the rest from going on."""
    failure: BaseException | None = None
    while _paused:
        owner, forking = _paused[-1]
        try:
            how(owner, forking)
            _paused.pop()
        except BaseException as error:
            failure = error
            with contextlib.suppress(BaseException):  # an interrupt may have struck before anything was done
                how(owner, forking)
            _paused[:] = [item for item in _paused if item[0] is not owner]
    if failure is not None:
        raise failure


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
