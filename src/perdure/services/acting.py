"""For whom services act: a tenant, and whoever the store was opened for or a request came from."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

_ACTOR: ContextVar[str | None] = ContextVar("perdure_actor", default=None)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant whose sessions these are, and who acts when nobody else is named."""

    tenant: str = "local"
    actor: str = "local"

    @property
    def who(self) -> str:
        """Who acts right now: the one named by `acting`, else whoever the store was opened for."""
        return _ACTOR.get() or self.actor


@contextmanager
def acting(actor: str) -> Iterator[None]:
    """Everything done inside this block, in this task or thread, is done by this actor."""
    token = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(token)
