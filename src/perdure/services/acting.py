"""For whom services act: a tenant, and whoever the store was opened for or a request came from.

Whoever was let into a session was let into that one, not into what is begun under its name after it was erased: inside
the block of `acting`, another one is not there.
"""

from contextvars import ContextVar

import msgspec

from perdure.core.session.ids import SessionId

_ACTOR: ContextVar[str | None] = ContextVar("perdure_actor", default=None)
_LET_INTO: ContextVar[tuple[SessionId, int] | None] = ContextVar("perdure_let_into", default=None)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant whose sessions these are, and who acts when nobody else is named."""

    tenant: str = "local"
    actor: str = "local"

    @property
    def who(self) -> str:
        """Who acts right now: the one named by `acting`, else whoever the store was opened for."""
        return _ACTOR.get() or self.actor


class acting:  # noqa: N801 - used as a block, like suppress
    """Everything done inside this block, in this task or thread, is done by this actor, who was let into a session that
    was begun at that moment, if one is given.
    """

    __slots__ = ("_actor", "_into", "_let", "_token")

    def __init__(self, actor: str, into: tuple[SessionId, int] | None = None) -> None:
        self._actor = actor
        self._into = into

    def __enter__(self) -> None:
        self._token = _ACTOR.set(self._actor)
        self._let = None if self._into is None else _LET_INTO.set(self._into)

    def __exit__(self, *_: object) -> None:
        _ACTOR.reset(self._token)
        if self._let is not None:
            _LET_INTO.reset(self._let)


def is_another(session: SessionId, began: int) -> bool:
    """Whether a session that began at this moment is not the one that whoever acts was let into, but has its id."""
    let = _LET_INTO.get()
    return let is not None and let[0] == session and let[1] != began
