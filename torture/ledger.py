"""What was tried, what was acknowledged and what was refused: the workers' lines, put together.

Invariant: an append's state only moves from tried to acknowledged or refused; two acknowledgements must agree.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from torture.content import Shape
from torture.line import Line, read


class Attempt(msgspec.Struct, kw_only=True):
    """One append. `last` is its acknowledged version, 0 while there is none."""

    name: str
    session: str
    key: str | None
    expected: int | None
    shape: Shape
    last: int = 0
    hash: str = ""
    refused: bool = False

    @property
    def open(self) -> bool:
        """Neither acknowledged nor refused: it may be there, whole, or not."""
        return not self.last and not self.refused


class Ledger:
    """Everything the workers of one store have said."""

    def __init__(self) -> None:
        self.appends: dict[str, Attempt] = {}
        self.turns: dict[str, int] = {}
        self.creates: dict[str, str] = {}
        self.redactions: dict[tuple[str, int], bool] = {}
        self.marks: list[Line] = []
        self.problems: list[str] = []

    @classmethod
    def load(cls, path: Path) -> "Ledger":
        """The ledger kept in a file of lines."""
        made = cls()
        made.take(read(text) for text in path.read_bytes().splitlines())
        return made

    def take(self, lines: Iterable[Line]) -> None:
        """Note what was said."""
        for line in lines:
            match line.do:
                case "try":
                    self._tried(line)
                case "ack":
                    self._acked(line)
                case "no":
                    self.appends[line.name].refused = True
                case "mark":
                    self._marked(line)
                case "bad":
                    self.problems.append(f"{line.name or 'a worker'}: {line.error}")

    def _tried(self, line: Line) -> None:
        match line.op:
            case "append":
                assert line.shape is not None
                attempt = Attempt(
                    name=line.name, session=line.session, key=line.key, expected=line.expected, shape=line.shape
                )
                self.appends.setdefault(line.name, attempt)
            case "turn":
                self.turns[line.name] = 0
            case "create":
                self.creates[line.name] = ""
            case "redact":
                self.redactions.setdefault((line.session, line.at), False)

    def _acked(self, line: Line) -> None:
        attempt = self.appends[line.name]
        if attempt.last and (attempt.last, attempt.hash) != (line.last, line.hash):
            self.problems.append(f"{line.name} was acknowledged at {attempt.last} and again at {line.last}")
        attempt.last, attempt.hash = line.last, line.hash

    def _marked(self, line: Line) -> None:
        self.marks.append(line)
        match line.op:
            case "turn":
                self.turns[line.name] = line.last
            case "create":
                self.creates[line.name] = line.session
            case "redact":
                self.redactions[line.session, line.at] = True
