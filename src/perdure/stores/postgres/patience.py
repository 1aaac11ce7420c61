"""Waiting for a server to come back: soon at first, then less often, and not for ever."""

from typing import Final

import psycopg

from perdure.core.errors import PerdureError, StoreBusy
from perdure.ports.ambient import Ambient
from perdure.stores.postgres.connection import CONNECT_SECONDS, is_starting, translate, unreachable
from perdure.waiting import Ticket

FIRST_WAIT: Final = 0.025
LONGEST_WAIT: Final = 1.0
STARTING_SECONDS: Final = 60.0
"""How long a server is waited for that says it is on its way, however little patience there is with one that is not."""


class Patience:
    """One caller's patience with a server. The first try after a failure is made at once: most often only the
    connection was old. `ending` ends all waiting, since the store is being closed.
    """

    def __init__(self, seconds: float, ambient: Ambient, ending: Ticket[None]) -> None:
        self._left = seconds
        self._next = 0.0
        self._starting = False
        self._ambient = ambient
        self._ending = ending

    def lasts(self, error: psycopg.Error) -> bool:
        """Wait for a moment on this thread; False when enough was waited, and nothing changed."""
        if is_starting(error) and not self._starting:
            self._starting, self._left = True, max(self._left, STARTING_SECONDS)
        if self._left <= 0 or self._ending.done:
            return False
        wait = min(self._next * (1 + self._ambient.random(1)[0] / 256), self._left)
        self._left -= wait + (CONNECT_SECONDS if isinstance(error, psycopg.errors.ConnectionTimeout) else 0)
        self._next = min(max(FIRST_WAIT, 2 * self._next), LONGEST_WAIT)
        return not wait or not self._ending.wait(wait)


def outcome_unknown(reason: str, shown: str) -> PerdureError:
    """The refusal of a write whose commit got no answer, when nobody can be asked what became of it."""
    why = " ".join(reason.split())
    return StoreBusy(
        f"the connection to {shown} was lost during a commit, and then: {why}. The write may or may not be there; "
        "look, or repeat it with its idempotency key",
        store=shown,
        outcome="unknown",
    )


def failure(error: psycopg.Error, shown: str) -> PerdureError:
    """The refusal when patience has ended."""
    return unreachable(shown, str(error).strip()) if error.sqlstate is None else translate(error, shown)
