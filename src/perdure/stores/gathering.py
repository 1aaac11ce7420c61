"""Work that tasks hand over one by one and that is better done for many of them at once."""

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary


class _Round:
    """Who asked on one event loop since the last call: how many, of those how many had by the turn before, for how many
    turns nobody has, since when; whether the last call was for several; and how often in a row one was alone.
    """

    __slots__ = ("alone", "asked", "crowded", "quiet", "seen", "since")

    def __init__(self) -> None:
        self.asked = self.seen = self.quiet = self.alone = 0
        self.since = 0.0
        self.crowded = False


class Gathering:
    """Calls once, after this turn of the event loop, however often it is asked to within the turn, and says how often;
    where several came together before, once nobody has come for a few turns.

    So the tasks that one commit woke, or that one burst of requests made, come with their next operations together, and
    one commit takes them all. Whoever comes alone does not wait for anybody.
    """

    __slots__ = ("_rounds",)
    QUIET: Final = 6
    """Turns: what came in takes a few to be looked at, let in and handed over."""
    LONGEST: Final = 0.005
    """Seconds after which it calls, whoever else may come; and for which one who is alone may hold up a turn."""
    IN_A_ROW: Final = 8
    """Times that a turn is not ended for one who is alone."""

    def __init__(self) -> None:
        self._rounds: WeakKeyDictionary[Any, _Round] = WeakKeyDictionary()

    def __call__(self, callback: Callable[[int], None]) -> None:
        loop, found = self._round()
        found.asked += 1
        if found.asked == 1:
            found.since = loop.time()
            loop.call_soon(self._turn, loop, found, callback)

    def alone(self) -> bool:
        """Whether nobody else can come in this turn of the event loop: then its end need not be waited for. Not for
        ever: now and then a turn ends, and whoever waits for something else gets on.
        """
        loop, found = self._round()
        now = loop.time()
        if not found.alone:
            found.since = now
        enough = found.alone >= self.IN_A_ROW or now - found.since > self.LONGEST
        if found.asked or found.crowded or enough or getattr(loop, "_ready", True):
            found.alone = 0
            return False
        found.alone += 1
        return True

    def _round(self) -> tuple[Any, _Round]:
        import asyncio

        loop = asyncio.get_running_loop()
        found = self._rounds.get(loop)
        if found is None:
            found = self._rounds[loop] = _Round()
        return loop, found

    def _turn(self, loop: Any, found: _Round, callback: Callable[[int], None]) -> None:
        if found.crowded and loop.time() - found.since < self.LONGEST:
            found.quiet = found.quiet + 1 if found.asked == found.seen else 0
            found.seen = found.asked
            if found.quiet < self.QUIET:
                loop.call_soon(self._turn, loop, found, callback)
                return
        asked, found.crowded = found.asked, found.asked > 1
        found.asked = found.seen = found.quiet = 0
        callback(asked)
