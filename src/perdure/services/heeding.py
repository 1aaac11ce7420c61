"""What others do to a session while a turn of it runs here: they may end the turn, steer it, or erase the session."""

from perdure.core.errors import NotFound
from perdure.services.rounds import Turn
from perdure.services.running import Running, Stopped


class Heeding:
    """Sees that a turn was ended or steered from another node."""

    def __init__(self, running: Running, turn: Turn) -> None:
        self._running = running
        self._turn = turn

    async def look(self) -> None:
        """Stop what somebody else has ended or wants otherwise."""
        running, turn = self._running, self._turn
        try:
            state = (await turn.desk.sessions.loader.load(running.session)).state
        except NotFound:
            running.stop(Stopped("interrupt", "erased"))
            return
        open = state.turns.open
        if open is None or open.number != running.turn:
            running.stop(Stopped("interrupt", "interrupted"))
        elif state.steering.steers > turn.steers and running.stopping is None:
            running.stop(Stopped("steer", "steered"))
