"""Whether the process that has a turn or a request open may still be alive."""

from perdure.core.session.ids import SessionId
from perdure.ports.ambient import Ambient
from perdure.ports.store import Store
from perdure.services.loading import Loaded
from perdure.services.nodes import is_gone
from perdure.services.running import LEASE, Runners


class Leases:
    """What this process knows of itself and can tell of others."""

    def __init__(self, store: Store, ambient: Ambient, node: str, runners: Runners) -> None:
        self._store = store
        self._ambient = ambient
        self._node = node
        self._runners = runners

    async def lives(self, session: SessionId, loaded: Loaded) -> bool:
        """Whether somebody may still be at work on what is open in the session."""
        state = loaded.state
        if self._runners.of(session) is not None or any(name in self._runners.asks for name in state.budget.asked):
            return True
        open = state.turns.open
        kept = await self._store.kept(session, open.number) if open is not None else None
        nodes = {item.node for item in state.budget.asked.values()} | ({kept.node} if kept is not None else set())
        nodes.discard("")
        if nodes and all(node == self._node or is_gone(node) for node in nodes):
            return False  # it was this process, which knows of nothing, or one that is gone
        now = self._ambient.now()
        return now - loaded.at < LEASE or (kept is not None and kept.until > now)

    async def held(self, session: SessionId, turn: int) -> bool:
        """Whether somebody has said lately that they carry the turn on."""
        if self._runners.of(session) is not None:
            return True
        kept = await self._store.kept(session, turn)
        if kept is None or kept.node == self._node or is_gone(kept.node):
            return False
        return kept.until > self._ambient.now()
