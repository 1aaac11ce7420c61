"""For whom services act: a tenant, and whoever the store was opened for or a request came from."""

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


class acting:  # noqa: N801 - used as a block, like suppress
    """Everything done inside this block, in this task or thread, is done by this actor."""

    __slots__ = ("_actor", "_token")

    def __init__(self, actor: str) -> None:
        self._actor = actor

    def __enter__(self) -> None:
        self._token = _ACTOR.set(self._actor)

    def __exit__(self, *_: object) -> None:
        _ACTOR.reset(self._token)
