"""How a stream ends, and what it says beside its events."""

from typing import Final

from perdure.core.errors import PerdureError
from perdure.edge.http import problems
from perdure.edge.http.wire import PLAINLY, Voice

ERASED: Final = "erased"
ACCESS: Final = "access"
LEAVING: Final = "leaving"
PROBLEM: Final = "problem"
PRUNED: Final = "pruned"
WORDS: Final = (ERASED, ACCESS, LEAVING, PROBLEM, PRUNED)
"""What a stream says beside its events; no kind of event is called so."""


class End:
    """Why a stream is over, in a word, and the error behind it if there is one."""

    __slots__ = ("error", "word")

    def __init__(self, word: str, error: PerdureError | None = None) -> None:
        self.word = word
        self.error = error

    def told(self, voice: Voice = PLAINLY) -> bytes:
        """What a client is told: a problem, or nothing but the word."""
        return b"{}" if self.error is None else problems.told(self.error, voice).body


GONE: Final = End(ERASED)
OVER: Final = End(LEAVING)
