"""What a worker tells its parent: one JSON line per fact, written with one system call to a pipe the parent holds.

Invariant: a line is in the pipe whole or not at all, and once there no kill can take it back.
"""

import os
from typing import Any

import msgspec

from torture.content import Shape


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to do; handed over as JSON on its command line."""

    name: str
    store: str
    seed: str
    mode: str = "single"
    lanes: int = 1
    steps: int = 200
    shared: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    plant: str | None = None
    faulty: bool = False
    bulky: bool = False


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fact. `do` says which: pid, opening, opened, try, ack, no, unsure, mark, bad, fault, healed, end."""

    do: str
    name: str = ""
    session: str = ""
    key: str | None = None
    expected: int | None = None
    shape: Shape | None = None
    last: int = 0
    hash: str = ""
    op: str = ""
    id: str = ""
    at: int = 0
    error: str = ""
    found: int = 0
    ms: float = 0.0


MAX_LINE = 4096
"""PIPE_BUF on Linux: up to this size the kernel does not mix the lines of two threads."""

_encode = msgspec.json.Encoder().encode
read = msgspec.json.Decoder(Line).decode


class Voice:
    """The worker's end of the pipe; any thread may speak."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, do: str, **facts: Any) -> None:
        """One line, or a shortened one rather than two halves."""
        said = _encode(Line(do=do, **facts)) + b"\n"
        if len(said) > MAX_LINE:
            facts["error"] = facts.get("error", "")[:1000] + " …"
            said = _encode(Line(do=do, **facts)) + b"\n"
        os.write(self._descriptor, said)
