"""A session's life, as async callers lead it: the moves of the lifecycle, waking, recovering."""

from typing import TYPE_CHECKING, Self

from perdure.compose import Services
from perdure.core.errors import Invalid
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.edge import given

if TYPE_CHECKING:
    from perdure.core.session.waking import WakePolicy
    from perdure.core.session.woken import Woken
    from perdure.services.lifecycle import Recovered


class Erased(int):
    """How many branches were given their own copy of an erased session's log; `memories` were forgotten with it."""

    memories: int

    def __new__(cls, branches: int, memories: int = 0) -> Self:
        made = super().__new__(cls, branches)
        made.memories = memories
        return made


class Living:
    """The part of a session's handle that moves it through its life."""

    _services: Services
    id: SessionId

    async def move(self, event: str, reason: str = "", *, expected: int | None = None, key: str | None = None) -> int:
        """Move along the lifecycle table."""
        name, seen = given.text_of(event, "a move"), given.maybe_number(expected, "expected")
        return (await self._services.lifecycle.move(self.id, name, reason, expected=seen, key=key)).version

    async def activate(self) -> int:
        """INIT → ACTIVE."""
        return await self.move("activate")

    async def suspend(self, reason: str = "") -> int:
        """Put the session to sleep; it checkpoints first."""
        return await self.move("suspend", reason)

    async def complete(self, reason: str = "") -> int:
        """End the session well: every child ended, every exit criterion met."""
        return await self.move("complete", reason)

    async def terminate(self, reason: str = "") -> int:
        """End the session now; registered compensations run, last first."""
        return await self.move("terminate", reason)

    async def compensate(self) -> tuple[str, ...]:
        """Run compensations that a crash left undone; the names nobody here knows how to run."""
        return await self._services.lifecycle.compensate(self.id)

    async def archive(self) -> int:
        """Put an ended session away: to cold storage, if the store was opened with some. Again, it finishes."""
        return (await self._services.archiving.archive(self.id)).version

    async def thaw(self) -> bool:
        """Bring the log of an archived session back from cold storage; False when it does not lie there."""
        return await self._services.archiving.thaw(self.id)

    async def wake(
        self, policy: "WakePolicy | None" = None, *, expected: int | None = None, key: str | None = None
    ) -> "Woken":
        """Have this suspended session go on: its state restored, stale evidence retrieved again, its tools rebound, its
        memory loaded, everything checked. The report says how; what refuses it leaves it suspended.
        """
        seen = given.maybe_number(expected, "expected")
        return await self._services.waking.wake(self.id, policy_of(policy), expected=seen, key=key)

    async def recover(self) -> "Recovered | None":
        """Close a turn whose writer died, naming the tools to retry; None when no turn is open."""
        return await self._services.lifecycle.recover(self.id)


def policy_of(value: "WakePolicy | None") -> "WakePolicy | None":
    """How to wake, or nothing; else `Invalid`."""
    from perdure.core.session.waking import WakePolicy

    if value is not None and not isinstance(value, WakePolicy):
        raise Invalid(f"policy is a perdure.WakePolicy, not {shown(value)}")
    return value
