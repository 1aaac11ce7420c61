"""What the volatile store keeps of the streams of one session's running turns. The caller holds the store's lock."""

from collections.abc import Iterable

from msgspec import Struct

from perdure.ports.store import Kept
from perdure.stores.holding import Holding


class Stream(Struct):
    """One turn's: who runs it, until when, and its pieces by their offsets, each with where it ends."""

    node: str
    until: int
    pieces: dict[int, tuple[int, bytes]]


class Streams:
    """The streams of one session, by turn."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._streams: dict[int, Stream] = {}

    def keep(self, turn: int, node: str, until: int, offset: int, data: bytes) -> None:
        """Keep a piece, and who runs the turn."""
        stream = self._streams.setdefault(turn, Stream(node, until, {}))
        stream.node, stream.until = node, until
        if data:
            stream.pieces[offset] = (offset + len(data), self._holding.hold_piece(turn, offset, data))

    def kept(self, turn: int, after: int) -> Kept | None:
        """The pieces that end after an offset."""
        stream = self._streams.get(turn)
        if stream is None:
            return None
        pieces = tuple(
            (offset, self._holding.piece(turn, offset, held))
            for offset, (end, held) in sorted(stream.pieces.items())
            if end > after
        )
        return Kept(turn=turn, node=stream.node, until=stream.until, pieces=pieces)

    def let_go(self, turn: int) -> None:
        """Forget this turn and those before it."""
        self._streams = {each: stream for each, stream in self._streams.items() if each > turn}

    def blank(self, turns: Iterable[int]) -> None:
        """Forget the pieces of these turns; who runs them stays."""
        for turn in turns:
            if turn in self._streams:
                self._streams[turn].pieces.clear()
