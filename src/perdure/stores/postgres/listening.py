"""Hearing of other processes' commits. Every commit notifies; one connection listens while somebody watches.

A notification only wakes: what has changed is read from the feed, so one that is lost loses no change. Where none come
(behind a pooler, on a standby, while the connection is down) the feed is looked at now and then; often, once it was
seen that changes come unannounced.
"""

import selectors
import socket
from collections.abc import Callable
from threading import Lock, Thread
from typing import Final

import psycopg

from perdure.core.errors import PerdureError
from perdure.ports.ambient import Ambient
from perdure.stores.postgres.connection import Connection, Connections, ask
from perdure.waiting import Ticket

SELDOM: Final = 1.0
OFTEN: Final = 0.05
AGAIN: Final = 0.25
AT_LAST: Final = 30.0
"""Seconds until a listener that lost its connection tries for another, at first and in the end."""


class Listener:
    """A thread that listens, from the first watcher on."""

    def __init__(self, connections: Connections, ambient: Ambient, ring: Callable[[], None]) -> None:
        self._connections = connections
        self._ambient = ambient
        self._ring = ring
        self._lock = Lock()
        self._thread: Thread | None = None
        self._ending: Ticket[None] = Ticket()
        self._nudge: socket.socket | None = None
        self._nudged: socket.socket | None = None
        self._heard = False

    def start(self) -> None:
        """Listen, if nobody does yet."""
        with self._lock:
            if self._thread is None and not self._ending.done:
                self._nudge, self._nudged = socket.socketpair()
                self._thread = Thread(target=self._serve, name="perdure-listener", daemon=True)
                self._thread.start()

    def pause(self) -> float:
        """Seconds after which a watcher looks for itself."""
        return SELDOM if self._heard else OFTEN

    def missed(self) -> None:
        """Changes came that nothing had announced."""
        self._heard = False

    def _serve(self) -> None:
        wait = AGAIN
        while not self._ending.done:
            connection: Connection | None = None
            try:
                connection = self._connections.connect()
                self._listen(connection)
            except (psycopg.Error, PerdureError):
                wait = AGAIN if self._heard else min(2 * wait, AT_LAST)
                self._heard = False
                self._ending.wait(wait * (1 + self._ambient.random(1)[0] / 256))
            finally:
                if connection is not None:
                    self._connections.drop(connection)

    def _listen(self, connection: Connection) -> None:
        ask(connection, "LISTEN perdure")
        self._heard = True
        self._ring()
        with selectors.DefaultSelector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            if self._nudged is not None:
                selector.register(self._nudged, selectors.EVENT_READ)
            while not self._ending.done:
                selector.select()
                if list(connection.notifies(timeout=0)):
                    self._heard = True
                    self._ring()

    def close(self) -> None:
        """Stop listening."""
        self._ending.deliver(None)
        with self._lock:
            thread = self._thread
        if thread is not None and self._nudge is not None:
            self._nudge.send(b"\0")
            thread.join()
        self.forget()

    def forget(self) -> None:
        """Let go of what wakes the thread."""
        for end in (self._nudge, self._nudged):
            if end is not None:
                end.close()
