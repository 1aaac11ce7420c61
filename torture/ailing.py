"""A lane on a failing disk: every append must succeed or be refused with a typed error, and succeed later (R3, R7).

Invariant: after a refusal everything acknowledged before can still be read through the same handle, and a retry under
the same key ends in one acknowledged append; if the handle does not heal by itself, a reopened one does.
"""

import random
import time
from collections.abc import Callable
from typing import Any

from perdure import errors
from torture.content import Shape, compose, fingerprint, shape
from torture.line import Task, Voice

REFUSED = (errors.StorePoisoned, errors.DiskFull)
ATTEMPTS = 40
PATIENCE = 5
"""How many refusals in a row before the store is closed and opened again."""


class Ailing:
    """One blocking writer that takes every refusal as a reason to look and to try again."""

    def __init__(self, task: Task, opened: Callable[[], Any], voice: Voice) -> None:
        self._task = task
        self._opened = opened
        self._voice = voice
        self._rng = random.Random(task.seed)
        self._db: Any = None
        self._session: Any = None
        self._acked = 0

    def run(self) -> None:
        """Append until the task's steps are done."""
        self._reopen()
        for number in range(self._task.steps):
            self._send(f"x.{self._task.name}.0.{number}", shape(self._rng))
        self._db.close()

    def _send(self, name: str, form: Shape) -> None:
        key, events = f"key:{name}", compose(name, form)
        self._voice.say("try", op="append", name=name, session=self._session.id, key=key, shape=form)
        for attempt in range(ATTEMPTS):
            try:
                version = self._session.append(events, key=key)
            except REFUSED as refusal:
                self._voice.say("fault", name=name, error=type(refusal).__name__)
                self._look()
                if attempt % PATIENCE == PATIENCE - 1:
                    self._reopen()
                continue
            self._voice.say("ack", name=name, session=self._session.id, key=key, last=version, hash=fingerprint(events))
            if attempt:
                self._voice.say("healed", name=name, at=attempt)
            self._acked = version
            return
        self._voice.say("bad", name=name, error=f"the store refused {ATTEMPTS} attempts and never healed")
        raise SystemExit(1)

    def _look(self) -> None:
        """Reads are served while writes are refused, and see everything acknowledged."""
        found = [event.version for event in self._session.events()]
        if found != list(range(1, len(found) + 1)) or len(found) < self._acked:
            self._voice.say("bad", error=f"{self._acked} versions were acknowledged, {len(found)} can be read")

    def _reopen(self) -> None:
        """Close what is open, however it stands, and open again; opening may be refused as well."""
        for attempt in range(ATTEMPTS):
            try:
                if self._db is not None:
                    self._db.close()
                self._db = self._opened()
                self._session = self._db.session(self._task.own[0])
                self._session.recover()
                if self._session.info().phase in ("suspended", "resumed"):
                    self._session.resume()
                return
            except REFUSED as refusal:
                self._db = None
                self._voice.say("fault", error=type(refusal).__name__)
                time.sleep(0.001 * attempt)
        self._voice.say("bad", error=f"the store refused to open {ATTEMPTS} times")
        raise SystemExit(1)
